"""Commands that take a whole group of runs by its name."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from assay import api
from tests.commands import assay, document
from tests.engine.graded_runs import graded, group, passing, question

ROWS = [question(f"q-{number}") for number in range(8)]


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A group of three candidates, of which one misses its gate."""
    failing = {"big": (0,), "middle": (0, 1), "small": (0, 1, 2, 3, 4)}
    group(tmp_path, "night", ROWS, {name: passing(ROWS, *places) for name, places in failing.items()}, pass_rate=0.5)
    monkeypatch.setenv("ASSAY_RUNS_DIR", str(tmp_path / "runs"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "runs"


def test_a_group_is_shown_with_its_records_side_by_side(runs: Path) -> None:
    shown = assay("show", "night")
    assert shown.exit_code == 0
    lines = [" ".join(line.split()) for line in shown.stdout.splitlines()]
    assert "record big middle small" in lines
    assert "q-1 1.00 passed · A 0.00 not passed · B 0.00 not passed · B" in lines
    assert [line.split()[0] for line in lines if line.startswith(("big completed", "middle completed", "small completed"))] == [
        "big",
        "middle",
        "small",
    ]
    assert any(line.endswith("assay compare night") for line in lines)
    assert runs.is_dir()


@pytest.mark.usefixtures("runs")
def test_a_group_as_json_has_every_run() -> None:
    found = document(assay("show", "night", "--json"))
    assert found["group"] == "night"
    assert [run["run_id"] for run in found["runs"]] == ["night-big", "night-middle", "night-small"]


@pytest.mark.usefixtures("runs")
def test_a_record_is_shown_in_every_run() -> None:
    text = assay("show", "night", "q-1").stdout
    assert [line for line in text.splitlines() if " · night-" in line] == [
        "big · night-big",
        "middle · night-middle",
        "small · night-small",
    ]
    found = document(assay("show", "night", "q-1", "--json"))
    assert [(run["candidate"], run["record"]["prediction"]["passed"]) for run in found["runs"]] == [
        ("big", True),
        ("middle", False),
        ("small", False),
    ]
    missing = assay("show", "night", "q-77")
    assert (missing.exit_code, "has no finished record 'q-77'" in missing.stderr) == (2, True)


@pytest.mark.usefixtures("runs")
def test_records_that_did_not_pass_are_listed_with_question_answer_and_reason() -> None:
    found = document(assay("show", "night-middle", "--not-passed", "--json"))
    assert (found["run_id"], found["candidate"]) == ("night-middle", "middle")
    assert [(one["record_id"], one["question"], one["answer"], one["score"]) for one in found["records"]] == [
        ("q-0", "Is it?", "B", 0.0),
        ("q-1", "Is it?", "B", 0.0),
    ]
    (reason,) = {one["reason"] for one in found["records"]}
    text = assay("show", "night-middle", "--not-passed", "--why", reason).stdout
    assert [line.split()[0] for line in text.splitlines()[2:]] == ["q-0", "q-1"]
    group_found = document(assay("show", "night", "--not-passed", "--json"))
    assert [len(run["records"]) for run in group_found["runs"]] == [1, 2, 5]


@pytest.mark.usefixtures("runs")
def test_a_reason_that_no_record_has_is_answered_with_those_that_some_have() -> None:
    refused = assay("show", "night", "--not-passed", "--why", "nonsense")
    assert refused.exit_code == 2
    assert "no record has the reason 'nonsense'" in refused.stderr
    assert "hint: reasons: incorrect_answer" in refused.stderr
    with_record = assay("show", "night", "q-1", "--not-passed")
    assert (with_record.exit_code, "leave the record out" in with_record.stderr) == (2, True)
    assert assay("show", "night", "--errors").stdout.count("0 records") == 3


def test_a_gate_is_missed_when_one_run_of_the_group_misses(runs: Path) -> None:
    missed = assay("gate", "night")
    assert missed.exit_code == 1
    assert missed.stdout.splitlines()[-1] == "MISSED      group night: 3 runs, 1 missed"
    met = assay("gate", "night", "--pass-rate", "0.3")
    assert (met.exit_code, met.stdout.splitlines()[-1]) == (0, "MET         group night: 3 runs, 0 missed")
    assert [entry["action"] for entry in api.audit(runs)] == ["gate"] * 6


@pytest.mark.usefixtures("runs")
def test_the_gate_of_a_group_as_json_markdown_and_junit() -> None:
    found = document(assay("gate", "night", "--json", "--junit", "gates.xml"))
    assert (found["group"], found["passed"], found["verdict"]) == ("night", False, "REGRESSION")
    assert [(run["candidate"], run["verdict"]["passed"]) for run in found["runs"]] == [
        ("big", True),
        ("middle", True),
        ("small", False),
    ]
    suites = ElementTree.parse("gates.xml").getroot().findall("testsuite")
    assert len(suites) == 6
    markdown = assay("gate", "night", "--markdown").stdout
    assert markdown.startswith("## Gate of `night`: MISSED\n")
    assert "| `small` | `night-small` | MISSED |" in markdown


def test_a_group_is_measured_against_the_same_candidates_of_another(runs: Path) -> None:
    names = ("big", "middle", "small", "new")
    group(runs.parent, "later", ROWS, {name: passing(ROWS) for name in names})
    found = document(assay("gate", "later", "--baseline", "night", "--json"))
    assert [(run["candidate"], run["verdict"] and run["verdict"]["baseline"]) for run in found["runs"]] == [
        ("big", "night-big"),
        ("middle", "night-middle"),
        ("small", "night-small"),
        ("new", None),
    ]
    assert found["runs"][3]["problem"] == "group 'night' has no run of 'new' to compare 'later-new' with"
    assert assay("gate", "later", "--baseline", "night").exit_code == 2
    alone = document(assay("gate", "later-big", "--baseline", "night", "--json"))
    assert alone["baseline"] == "night-big"


@pytest.mark.usefixtures("runs")
def test_an_unfinished_run_has_no_result_in_the_gate_of_its_group() -> None:
    api.run("law.jsonl", model="scripted/mcq-first", run_id="open", group="night", is_stopping=lambda: True, runs_dir="runs")
    gated = assay("gate", "night")
    assert gated.exit_code == 2
    assert "NO RESULT   open: run 'open' is unfinished" in gated.stdout
    assert gated.stdout.splitlines()[-1] == "NO RESULT   group night: 4 runs, 1 missed, 1 without a result"


@pytest.mark.usefixtures("runs")
def test_a_group_is_compared_pair_by_pair() -> None:
    text = assay("compare", "night").stdout
    rows = [line.split()[:2] for line in text.splitlines() if line.startswith(("big", "middle", "small"))]
    assert rows == [["big", "middle"], ["big", "small"], ["middle", "small"]]
    assert "p (Holm)" in text
    assert "p values are corrected for the number of comparisons (Holm)" in text
    found = document(assay("compare", "night", "--json"))
    assert (found["group"], len(found["pairs"]), found["pairs"][0]["flips"]) == ("night", 3, [])
    assert assay("compare", "night", "--markdown").stdout.startswith("## Comparison: `night`\n")


def test_a_group_of_two_is_compared_as_two_runs_are(runs: Path) -> None:
    group(runs.parent, "pair", ROWS, {"big": passing(ROWS, 0), "small": passing(ROWS, 1)})
    assert assay("compare", "pair").stdout == assay("compare", "pair-big", "pair-small").stdout
    assert document(assay("compare", "pair", "--json"))["pairs"][0]["n_flips"] == 2


@pytest.mark.usefixtures("runs")
def test_one_run_alone_cannot_be_compared() -> None:
    refused = assay("compare", "night-big")
    assert (refused.exit_code, "'night-big' names no two different runs" in refused.stderr) == (2, True)


@pytest.mark.usefixtures("runs")
def test_commands_for_one_run_say_which_take_a_group() -> None:
    refused = assay("verify", "night")
    assert refused.exit_code == 2
    assert "'night' is a group of 3 runs: night-big, night-middle, night-small" in refused.stderr
    assert "assay show, gate, report, export and compare take a whole group" in refused.stderr


def test_the_option_makes_a_group_of_runs_that_are_started_apart(runs: Path) -> None:
    for run_id, model in (("a", "scripted/mcq-first"), ("b", "scripted/mcq-last")):
        assay("run", "law.jsonl", "--model", model, "--run-id", run_id, "--group", "pair", "--quiet")
    assert [run["run_id"] for run in document(assay("show", "pair", "--json"))["runs"]] == ["a", "b"]
    manifest = json.loads((runs / "a" / "run_manifest.json").read_bytes())
    assert manifest["plan"]["group"] == "pair"
    graded(runs.parent, "c", ROWS, passing(ROWS))
    assert "group" not in json.loads((runs / "c" / "run_manifest.json").read_bytes())["plan"]
