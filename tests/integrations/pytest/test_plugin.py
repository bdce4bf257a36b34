"""A real pytest on a project of its own: records as tests, runs inside tests, workers side by side."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import NamedTuple

import pytest

from assay import api
from tests.engine.run_settings import mcq_row, write_rows

ROOT = Path(__file__).parents[3]
ALONE = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "NO_COLOR": "1", "COLUMNS": "100"}
"""Without the plugins of this environment, so that a test is about one."""

TESTS = """
import os, pathlib, pytest

CALLS = pathlib.Path(__file__).with_name("calls.txt")

def answer(prompt: str) -> str:
    with CALLS.open("a") as file:
        file.write(prompt.splitlines()[0] + "\\n")
    return '{"answer": "A", "reasoning": "It is."}' if "right" in prompt else '{"answer": "B", "reasoning": "It is not."}'
"""
RECORDS = (
    TESTS
    + """
@pytest.mark.assay("law.jsonl", model=answer)
def test_law(assay_case):
    assert assay_case.question in assay_case.answer or assay_case.score in (0, 1)
"""
)


class Ended(NamedTuple):
    """What a pytest came to."""

    code: int
    text: str
    folder: Path

    @property
    def counts(self) -> dict[str, int]:
        """`failed`, `passed` and so on, of the last line."""
        return {
            word: int(count)
            for count, word in re.findall(r"(\d+) ([a-z]+)", self.text.rstrip().splitlines()[-1].partition(" in ")[0])
        }

    @property
    def calls(self) -> list[str]:
        """What the function under test was asked."""
        path = self.folder / "calls.txt"
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    def run(self, part: str = "test_law", runs_dir: str = ".assay") -> api.RunReader:
        """The run of a test function."""
        return api.open_run(str(next((self.folder / runs_dir).glob(f"pytest-*-{part}-*"))))


def project(folder: Path, tests: str = RECORDS, *, right: int = 3, wrong: int = 1) -> Path:
    """A test file beside a dataset, of which some answers are right."""
    rows = [mcq_row(f"right-{number}", prompt=f"right {number}?") for number in range(right)]
    rows += [mcq_row(f"wrong-{number}", prompt=f"wrong {number}?") for number in range(wrong)]
    write_rows(folder / "law.jsonl", *rows)
    (folder / "test_project.py").write_text(tests, encoding="utf-8")
    return folder


def run_pytest(folder: Path, *arguments: str) -> Ended:
    command = [sys.executable, "-m", "pytest", "-p", "assay.integrations.pytest.plugin", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(command, cwd=folder, env=ALONE, capture_output=True, text=True, check=False)
    return Ended(done.returncode, done.stdout + done.stderr, folder)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """All records of a dataset, one of which fails."""
    return run_pytest(project(tmp_path_factory.mktemp("plain")), "-rA", "--junit-xml", "junit.xml")


def test_the_end_of_the_report_says_what_the_run_came_to_and_where_it_is(plain: Ended) -> None:
    run = plain.run()
    assert "pass rate 75.0 % [30.1 %, 95.4 %] · 3 of 4 records · 0 errors · cost " in plain.text
    assert f"show one with: assay show {run.folders.run_id} --runs-dir .assay" in plain.text
    assert len(run.artifacts()) >= 8
    assert (plain.folder / ".assay" / ".gitignore").read_text(encoding="utf-8").endswith("*\n")


def test_a_junit_file_has_the_grade_of_every_record(plain: Ended) -> None:
    cases = ElementTree.parse(plain.folder / "junit.xml").getroot().iter("testcase")
    found = {case.get("name"): {entry.get("name"): entry.get("value") for entry in case.iter("property")} for case in cases}
    assert found["test_law[wrong-0]"]["assay.score"] == "0.0"
    assert found["test_law[right-0]"]["assay.passed"] == "True"


def test_a_dataset_that_breaks_its_contract_is_one_error_that_lists_every_place(tmp_path: Path) -> None:
    folder = project(tmp_path)
    write_rows(folder / "law.jsonl", mcq_row("a"), mcq_row("a"), mcq_row("b", correct_choice_ids=["Z"]))
    ended = run_pytest(folder)
    assert (ended.code, ended.counts) == (2, {"error": 1})
    assert "law.jsonl:2:" in ended.text
    assert "law.jsonl:3:" in ended.text
    assert ended.calls == []


def test_settings_that_cannot_work_fail_the_tests_and_call_nobody(tmp_path: Path) -> None:
    body = "@pytest.mark.assay('law.jsonl', model='openai/gpt')\ndef test_law(): ...\ndef test_other(): ...\n"
    ended = run_pytest(project(tmp_path, TESTS + body))
    assert ended.counts == {"passed": 1, "errors": 4}
    assert "OPENAI_API_KEY" in ended.text


def test_a_folder_that_cannot_be_made_is_said_in_one_line(tmp_path: Path) -> None:
    ended = run_pytest(project(tmp_path, right=1, wrong=0), "--assay-runs-dir", "law.jsonl/runs")
    assert ended.counts == {"error": 1}
    assert f"cannot store a run in '{tmp_path}/law.jsonl/runs': not a directory" in ended.text
    assert "Traceback" not in ended.text
    assert ended.calls == []


def test_a_run_inside_a_test_has_figures_to_assert_on(tmp_path: Path) -> None:
    body = """
def test_rate(assay_run):
    run = assay_run("law.jsonl", model=answer)
    assert run.pass_rate.value == 0.75 and run.pass_rate.low < 0.75
    assert [line["record_id"] for line in run if not line["passed"]] == ["wrong-0"]
"""
    ended = run_pytest(project(tmp_path, TESTS + body), "--assay-runs-dir", "kept")
    assert ended.counts == {"passed": 1}
    assert len(ended.run("test_rate", "kept").artifacts()) >= 8


def test_a_marker_that_cannot_work_is_no_pass(tmp_path: Path) -> None:
    body = "@pytest.mark.assay('law.jsonl', model=answer)\nclass TestLaw(TestCase):\n    def test_law(self): ...\n"
    ended = run_pytest(project(tmp_path, f"from unittest import TestCase\n{TESTS}{body}"))
    assert ended.counts == {"error": 1}
    assert "the marker assay is for functions" in ended.text


def test_pytest_finds_the_plugin_by_its_entry_point(tmp_path: Path) -> None:
    entries = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]["pytest11"]
    folder = tmp_path / "site" / "assay_plugin-1.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: assay-plugin\nVersion: 1\n", encoding="utf-8")
    lines = "".join(f"{name} = {value}\n" for name, value in entries.items())
    (folder / "entry_points.txt").write_text(f"[pytest11]\n{lines}", encoding="utf-8")
    path = os.pathsep.join([str(tmp_path / "site"), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "pytest", "--markers"]
    done = subprocess.run(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True)
    assert "@pytest.mark.assay(dataset, model=..., judge=..., **options)" in done.stdout


def test_a_pytest_that_uses_none_of_it_loads_nothing_that_evaluates(tmp_path: Path) -> None:
    code = "import sys\ndef test_nothing():\n    assert {'msgspec', 'numpy', 'assay.api', 'rich'}.isdisjoint(sys.modules)\n"
    (tmp_path / "test_plain.py").write_text(code, encoding="utf-8")
    ended = run_pytest(tmp_path)
    assert ended.counts == {"passed": 1}
    assert "assay" not in ended.text
    assert not (tmp_path / ".assay").exists()


def test_the_example_does_what_its_page_shows(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path, dirs_exist_ok=True)
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    ended = run_pytest(tmp_path, "pytest")
    page = (ROOT / "docs" / "how-to" / "test-with-pytest.md").read_text(encoding="utf-8")
    assert ended.counts == {"failed": 1, "passed": 12, "xfailed": 1}
    for line in ended.text.partition("== FAILURES")[2].partition("== assay ==")[0].splitlines()[1:-1]:
        assert line in page
