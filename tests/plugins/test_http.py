"""Callers of a server cannot name code, unless its operator offers it."""

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from assay.testing import example_dataset
from tests.plugins.packages import Site
from tests.surfaces.server.serving import Serving

ANSWER = "def answer(messages):\n    return '4'\n\ndef grade(record, answer):\n    return answer == '4'\n"
CHECK = """
import sys
from pathlib import Path
from assay import api
Path("rows.json").write_text('[{"a": 1}]')
print(api.check_upload(Path("rows.json"), "auto").outcome, "greedy" in sys.modules)
"""
BODY = example_dataset("batch_v1")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server whose operator has a grader of their own and offers one function."""
    folder = tmp_path_factory.mktemp("service")
    (folder / "own.py").write_text(ANSWER, encoding="utf-8")
    settings = f"models: ['*', 'function/{folder}/own.py:answer']\n"
    run_file = "candidates: [scripted/say-4]\njudges: [scripted/judge-5]\ngrader: own.py:grade\n"
    with Serving(folder, settings=settings, run_file=run_file) as opened:
        yield opened


@pytest.mark.parametrize("model", ["function/os:getcwd", "function:os:getcwd", "function/own.py:grade", " function/os:system"])
@pytest.mark.parametrize("role", ["model", "judge"])
def test_code_that_the_operator_does_not_offer_is_refused(service: Serving, model: str, role: str) -> None:
    refused = service.submit(BODY, f"?{role}={quote(model)}")
    assert refused.status == 403
    assert "is a file or a function of the server" in refused.json["error"]["message"]


def test_there_is_no_parameter_for_a_grader(service: Serving) -> None:
    assert service.submit(BODY, "?grader=os:getcwd").status == 400


def test_a_function_that_is_offered_by_its_whole_name_may_be_named(service: Serving) -> None:
    taken = service.submit(BODY, f"?model={quote(f'function/{service.folder}/own.py:answer')}")
    assert taken.status == 202
    assert service.ended(taken.json["run_id"])["state"] == "completed"


def test_the_graders_of_the_operators_run_file_grade(service: Serving) -> None:
    taken = service.submit(BODY)
    assert service.ended(taken.json["run_id"])["state"] == "completed"
    manifest = json.loads(Path(service.runs_dir, taken.json["run_id"], "run_manifest.json").read_bytes())
    assert [plugin["name"] for plugin in manifest["plan"]["plugins"]] == ["own.py:grade"]


def test_what_a_caller_sends_is_never_read_by_a_contract_of_others(tmp_path: Path) -> None:
    """The data of a caller would choose the code, since a contract is recognised by content."""
    site = Site(tmp_path / "packages")
    code = "def case(row, found):\n    return {'id': '1', 'prompt': '?'}\n\ncase.recognises = lambda names: True\n"
    site.install("greedy", code, {"contracts": {"greedy": "greedy:case"}})
    verdict = site.python("-c", CHECK, cwd=tmp_path)
    assert verdict.stdout == "rejected False\n"
