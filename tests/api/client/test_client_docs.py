"""The page about the service tells the truth: its examples are run against a real one."""

import contextlib
import doctest
import re
import shutil
from pathlib import Path

import pytest

from tests.docs.test_docs import ROOT, pattern, run_console
from tests.surfaces.server.serving import Serving

PAGE = (ROOT / "docs" / "how-to" / "use-the-service-from-python.md").read_text(encoding="utf-8")
ADDRESS = "http://127.0.0.1:8321"


def served(kind: str, service: Serving) -> list[str]:
    """The blocks of a kind, with the address of the service in place of the usual one."""
    found = re.findall(rf"^```{kind} served\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return [block.replace(ADDRESS, f"http://127.0.0.1:{service.port}") for block in found]


def test_python_examples_give_what_the_page_shows(service: Serving, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    example = doctest.DocTestParser().get_doctest("\n".join(served("python", service)), {}, "page", "page", 0)
    complaints: list[str] = []
    with contextlib.chdir(tmp_path):
        result = doctest.DocTestRunner().run(example, out=complaints.append)
    assert result.attempted > 10
    assert complaints == []


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_commands_print_what_the_page_shows(service: Serving, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    results = [result for block in served("console", service) for result in run_console(block, tmp_path)]
    assert len(results) == 4
    assert [(step.command, output) for step, output, _ in results if not re.fullmatch(pattern(step.output), output)] == []
    assert [code for _, _, code in results] == [0] * 4
