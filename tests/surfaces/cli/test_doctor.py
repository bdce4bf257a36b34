"""`assay doctor`: what it finds, what it says to do, and what it never shows."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from assay.engine.planning.doctor import examine_extras
from assay.surfaces.cli.program import program

NETWORK = {"HTTP_PROXY": "", "HTTPS_PROXY": "", "ALL_PROXY": "", "http_proxy": "", "https_proxy": ""}


def doctor(*arguments: str, **variables: str) -> Result:
    return CliRunner(env={**NETWORK, **variables}).invoke(program, ["doctor", *arguments], prog_name="assay")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_sound_place_is_well_and_nothing_is_left_in_it(folder: Path) -> None:
    result = doctor("--offline")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.endswith("\nno problems found\n")
    assert list(folder.iterdir()) == []


def test_the_document_says_the_same_with_every_area() -> None:
    document = json.loads(doctor("--offline", "--json").stdout)
    assert document["is_well"] is True
    assert {check["area"] for check in document["checks"]} == {"environment", "extras", "keys", "runs", "providers", "terminal"}


def test_a_missing_extra_is_a_note_with_the_line_that_installs_it() -> None:
    requirements = ["click>=8", "pypdf>=5; extra == 'pdf'", 'no-such-thing>=1; python_version > "3" and extra == "magic"']
    magic, pdf = examine_extras(requirements)
    assert (magic.standing, magic.says, magic.hint) == ("note", "without no-such-thing", "pip install 'assay[magic]'")
    assert (pdf.standing, pdf.says.startswith("pypdf ")) == ("ok", True)
