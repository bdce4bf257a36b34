"""Datasets of markers as tests: which records, one evaluation for all, and what each test makes of its record."""

import re
from pathlib import Path

import pytest

from tests.engine.run_settings import mcq_row, write_rows
from tests.integrations.pytest.test_plugin import TESTS, Ended, project, run_pytest


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """All records of a dataset, one of which fails."""
    return run_pytest(project(tmp_path_factory.mktemp("plain")), "-rA", "--junit-xml", "junit.xml")


def test_each_record_is_a_test_that_passes_when_the_record_does(plain: Ended) -> None:
    assert (plain.code, plain.counts) == (1, {"failed": 1, "passed": 3})
    assert "PASSED test_project.py::test_law[right-2]" in plain.text
    assert "record 'wrong-0' did not pass: score 0.00 on the scale 0/1 · incorrect_answer" in plain.text
    assert "asked: wrong 0?" in plain.text


def test_a_body_may_demand_more_than_its_record(tmp_path: Path) -> None:
    body = "@pytest.mark.assay('law.jsonl', model=answer)\ndef test_law(assay_case):\n    assert len(assay_case.answer) < 5\n"
    ended = run_pytest(project(tmp_path, TESTS + body, wrong=0), "-q")
    assert ended.counts == {"failed": 3}
    assert "AssertionError" in ended.text


def test_a_record_without_a_grade_is_an_error_with_its_code(tmp_path: Path) -> None:
    body = "@pytest.mark.assay('law.jsonl', model='scripted/fail-content_filter', limit=2)\ndef test_law(): ...\n"
    ended = run_pytest(project(tmp_path, TESTS + body))
    assert ended.counts == {"errors": 2}
    assert "record 'right-0' has no grade: content_filter: the script fails with 'content_filter'" in ended.text


def test_only_the_records_of_selected_tests_are_evaluated(tmp_path: Path) -> None:
    ended = run_pytest(project(tmp_path), "-k", "right-1 or wrong")
    assert ended.counts == {"failed": 1, "passed": 1, "deselected": 2}
    assert sorted(ended.calls) == ["right 1?", "wrong 0?"]
    assert ended.run().plan.records == ("right-1", "wrong-0")


def test_gates_decide_about_all_records_and_only_about_all(tmp_path: Path) -> None:
    body = "@pytest.mark.assay('law.jsonl', model=answer, pass_rate={})\ndef test_{}(): ...\n"
    tests = "".join(body.format(rate, name) for name, rate in (("low", 0.7), ("high", 0.9), ("part", 0.9)))
    tests += "@pytest.mark.assay('run.yaml', model=answer)\ndef test_file(): ...\n"
    (tmp_path / "run.yaml").write_text("datasets: [law.jsonl]\ngates: {min_score: 0.7}\n", encoding="utf-8")
    ended = run_pytest(project(tmp_path, TESTS + tests), "-rA", "--deselect", "test_project.py::test_part[right-0]")
    assert ended.counts == {"failed": 1, "passed": 13, "skipped": 1, "deselected": 1, "xfailed": 4}
    assert "PASSED test_project.py::test_file[gate]" in ended.text
    assert "PASSED test_project.py::test_low[gate]" in ended.text
    assert "pass rate 75.0 % is below 90.0 %" in ended.text
    assert "3 of 4 records are selected, and gates are about all" in ended.text


def test_a_gate_that_is_called_alone_decides_about_all_records(tmp_path: Path) -> None:
    body = "@pytest.mark.assay('law.jsonl', model=answer, pass_rate=0.9)\ndef test_law(): ...\n"
    ended = run_pytest(project(tmp_path, TESTS + body), "test_project.py::test_law[gate]")
    assert (ended.code, ended.counts) == (1, {"failed": 1})
    assert "pass rate 75.0 % is below 90.0 %" in ended.text
    assert len(ended.calls) == 4


def test_a_record_called_gate_and_the_gate_have_names_of_their_own(tmp_path: Path) -> None:
    body = "@pytest.mark.assay('law.jsonl', model=answer, pass_rate=0.9)\ndef test_law(): ...\n"
    folder = project(tmp_path, TESTS + body)
    write_rows(folder / "law.jsonl", mcq_row("gate", prompt="right?"), mcq_row("wrong"))
    ended = run_pytest(folder, "--collect-only", "-q")
    assert re.findall(r"\[(.*)\]", ended.text) == ["gate", "wrong", "gate-2"]


def test_a_function_with_two_markers_is_no_test_of_one_of_them(tmp_path: Path) -> None:
    mark = "@pytest.mark.assay('law.jsonl', model=answer)\n"
    ended = run_pytest(project(tmp_path, f"{TESTS}{mark}{mark}def test_law(): ...\n"))
    assert (ended.code, ended.counts) == (2, {"error": 1})
    assert "it has two markers, and a test is about one dataset" in ended.text


def test_workers_share_one_evaluation(tmp_path: Path) -> None:
    ended = run_pytest(project(tmp_path, right=8, wrong=0), "-p", "xdist", "-n", "3")
    assert ended.counts == {"passed": 8}
    assert sorted(ended.calls) == [f"right {number}?" for number in range(8)]
    assert "8 of 8 records" in ended.text


def test_a_worker_that_dies_costs_its_test_and_the_others_go_on_with_the_run(tmp_path: Path) -> None:
    dying = TESTS.replace("    return", "    if len(CALLS.read_text().splitlines()) == 3:\n        os._exit(1)\n    return")
    body = "\n@pytest.mark.assay('law.jsonl', model=answer, concurrency=1)\ndef test_law(): ...\n"
    ended = run_pytest(project(tmp_path, dying + body, right=8, wrong=0), "-p", "xdist", "-n", "2")
    assert ended.counts == {"failed": 1, "passed": 7}
    assert len(ended.calls) <= 8 + 1
    assert "8 of 8 records" in ended.text


def test_hostile_ids_and_answers_name_tests_and_stay_text(tmp_path: Path) -> None:
    body = "@pytest.mark.assay('law.jsonl', model='scripted/say-\\x1b[31mred')\ndef test_law(): ...\n"
    folder = project(tmp_path, TESTS + body)
    write_rows(folder / "law.jsonl", *(mcq_row(name) for name in ("a::b[c]/../d", "\u202e\u00e9 ]", "x" * 300)))
    ended = run_pytest(folder, "-v", "test_project.py::test_law[a::b[c]/../d]", "test_project.py")
    assert ended.counts == {"failed": 3}
    assert ended.text.isascii() or not {"\x1b", "\u202e"} & set(ended.text)
