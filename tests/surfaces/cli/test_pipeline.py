"""What a pipeline gets: annotations, the job summary, JUnit."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import Result

from assay.surfaces.cli.pipeline import append_summary
from tests.commands import assay
from tests.engine.graded_runs import graded, question
from tests.engine.run_settings import write_batch

ATTACK = "fine\n::error::pwned\n  ::add-mask::x\n\x1b[31m%0A::stop-commands::y\ufffe ]]> <b>"
COMMAND = re.compile(r"\s*::(\w[\w-]*)(?: ([^:]*))?::(.*)")


@pytest.fixture(autouse=True)
def summary(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a golden dataset, as a step of a job has one."""
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(workplace / "summary.md"))
    return workplace / "summary.md"


def run(name: str, *arguments: str, model: str = "scripted/echo", judge: str = "scripted/judge-3") -> Result:
    return assay("run", "golden.json", "--model", model, "--judge", judge, "--run-id", name, "--quiet", *arguments)


def commands(output: str) -> Iterator[tuple[str, str, str]]:
    """What the runner of GitHub would obey: commands at the beginning of a line, unless they are stopped."""
    token = ""
    for found in map(COMMAND.match, output.splitlines()):
        if found is not None and token:
            token = "" if found[1] == token else token
        elif found is not None and found[1] == "stop-commands":
            token = found[3]
        elif found is not None:
            yield found[1], found[2], found[3]


def cases(path: str) -> dict[str, str]:
    """Each case with what became of it."""
    found = ElementTree.parse(path).iter("testcase")
    return {case.attrib["name"]: case[0].tag if len(case) and case[0].tag != "system-out" else "passed" for case in found}


def test_missed_gates_are_errors_and_records_are_warnings() -> None:
    found = list(commands(run("weak", "--github").stdout))
    assert [kind for kind, _, _ in found] == ["error", "error", *["warning"] * 5]
    assert found[0] == ("error", "title=weak%3A MISSED", "pass rate 0.0 %25 is below 80.0 %25, the default of golden_v1")
    assert found[2][1].startswith("file=golden.json,title=")


def test_nothing_that_a_model_says_is_obeyed() -> None:
    output = run("hostile", "--github", "--verbose", model=f"scripted/say-{ATTACK}").stdout
    found = list(commands(output))
    assert "::error::pwned" in output
    assert {kind for kind, _, _ in found} == {"error", "warning"}
    assert [message for _, _, message in found if "pwned" in message and "%0A" not in message] == []


def test_a_document_on_standard_output_stays_whole() -> None:
    result = run("weak", "--github", "--json")
    assert json.loads(result.stdout)["run_id"] == "weak"
    assert [kind for kind, _, _ in commands(result.stderr)][:2] == ["error", "error"]


def test_more_records_than_github_shows_are_counted(tmp_path: Path) -> None:
    rows = [question(f"q{number}") for number in range(25)]
    graded(tmp_path, "many", rows, dict.fromkeys((row["id"] for row in rows), "B"))
    found = list(commands(assay("gate", "many", "--pass-rate", "0.5", "--baseline", "none", "--github").stdout))
    assert [kind for kind, _, _ in found].count("warning") == 10
    assert found[-1][0] == "notice"
    assert found[-1][2].startswith("15 more records")


def test_a_step_adds_its_report_to_the_summary_of_the_job(summary: Path) -> None:
    summary.write_text("# Before\n", encoding="utf-8")
    run("weak", "--github")
    assay("gate", "weak", "--github")
    text = summary.read_text(encoding="utf-8")
    assert text.startswith("# Before\n## Evaluation: MISSED")
    assert "## Gate: MISSED" in text
    assert "](<" not in text


def test_without_github_nothing_is_added(summary: Path) -> None:
    run("weak")
    assert not summary.exists()


def test_a_summary_that_github_would_not_show_is_cut_and_said_to_be(summary: Path, capsys: pytest.CaptureFixture[str]) -> None:
    summary.write_bytes(b"x" * 500)
    append_summary(["line\n"] * 1000, limit=2_000)
    text = summary.read_bytes()
    assert len(text) <= 2_000
    assert b"**Cut here**" in text
    assert "the job summary is cut: 5,000 bytes, and GitHub shows 2,000" in capsys.readouterr().err


def test_a_full_summary_is_left_as_it_is(summary: Path) -> None:
    summary.write_bytes(b"x" * 1_990)
    append_summary(["line\n"] * 1000, limit=2_000)
    assert summary.stat().st_size == 1_990


def test_junit_has_a_case_for_each_gate_and_record() -> None:
    run("weak", "--junit", "weak.xml")
    found = cases("weak.xml")
    assert (found["pass rate"], found["mean score"]) == ("failure", "failure")
    assert list(found.values()).count("failure") == 7


def test_junit_tells_errors_from_failures(tmp_path: Path) -> None:
    broken = {"record_id": "broken", "input": {"prompt": 7}}
    whole = {"record_id": "whole", "input": {"prompt": "Say hello"}}
    write_batch(tmp_path / "batch.json", broken, whole)
    assay(
        "run",
        "batch.json",
        "--model",
        "scripted/fail-bad_request",
        "--judge",
        "scripted/judge-3",
        "--junit",
        "batch.xml",
        "--quiet",
    )
    suites = {suite.attrib["name"]: suite.attrib for suite in ElementTree.parse("batch.xml").iter("testsuite")}
    (records,) = [suite for name, suite in suites.items() if not name.endswith(": gates")]
    assert (records["tests"], records["errors"], records["failures"]) == ("2", "2", "0")
    assert cases("batch.xml")["whole"] == cases("batch.xml")["broken"] == "error"


def test_junit_counts_what_it_has() -> None:
    run("weak", "--junit", "weak.xml")
    for suite in ElementTree.parse("weak.xml").iter("testsuite"):
        assert int(suite.attrib["tests"]) == len(suite.findall("testcase"))
        assert int(suite.attrib["failures"]) == len(suite.findall("testcase/failure"))


def test_junit_holds_whatever_a_model_says() -> None:
    run("hostile", "--junit", "hostile.xml", model=f"scripted/say-{ATTACK}")
    text = ElementTree.parse("hostile.xml").findtext("testsuite/testcase/failure[@type='other']") or ""
    assert "::error::pwned" in text
    assert "\x1b" not in text


@pytest.mark.parametrize("command", ["run", "gate"])
def test_junit_needs_a_file_that_can_be_written(command: str) -> None:
    refused = assay(command, "golden.json", "--junit", "-")
    assert (refused.exit_code, "--junit needs the name of a file" in refused.stderr) == (2, True)


def test_what_a_gate_decides_is_in_junit() -> None:
    run("before", judge="scripted/judge-5")
    run("after", judge="scripted/judge-1")
    result = assay("gate", "after", "--baseline", "before", "--junit", "gate.xml", "--github")
    assert result.exit_code == 1
    assert cases("gate.xml")["pass rate against the baseline"] == "failure"


def test_a_comparison_goes_into_the_summary(summary: Path) -> None:
    run("before", judge="scripted/judge-5")
    run("after", judge="scripted/judge-1")
    assay("compare", "before", "after", "--github")
    assert summary.read_text(encoding="utf-8").startswith("## Comparison: WORSE")


def test_validate_writes_report_annotations_summary_and_junit_in_one_pass(summary: Path) -> None:
    Path("broken.json").write_text('{"records": [', encoding="utf-8")
    result = assay("validate", "golden.json", "broken.json", "--github", "--junit", "datasets.xml")
    assert result.exit_code == 1
    assert "broken.json:1:" in result.stdout
    assert [(kind, place.partition(",")[0]) for kind, place, _ in commands(result.stdout)] == [("error", "file=broken.json")]
    assert summary.read_text(encoding="utf-8").startswith("# Validation report")
    assert "failure" in cases("datasets.xml").values()


def test_an_annotation_says_how_to_see_the_answer_that_it_is_about() -> None:
    found = list(commands(run("twice", "--repeat", "2", "--github").stdout))
    words = shlex.split(found[-1][2].rpartition("%0A")[2])
    assert words[:3] == ["assay", "show", "twice"]
    assert words[-2:] == ["--sample", "1"]
    assert assay(*words[1:]).exit_code == 0


def test_junit_has_the_same_cases_from_run_to_run() -> None:
    run("first", "--junit", "first.xml", judge="scripted/judge-5")
    run("second", "--junit", "second.xml", judge="scripted/judge-1")
    named = [
        [(case.attrib["classname"], case.attrib["name"]) for case in ElementTree.parse(path).iter("testcase")]
        for path in ("first.xml", "second.xml")
    ]
    assert sorted(named[0]) == sorted(named[1])
    assert [name for classname, name in sorted(named[0]) if classname.endswith(".gates")] == [
        "error rate",
        "mean score",
        "pass rate",
    ]


def test_nothing_that_a_model_says_is_obeyed_where_github_runs_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    run("hostile", model=f"scripted/say-{ATTACK}")
    output = assay("show", "hostile", "0").stdout
    assert "::error::pwned" in output
    assert list(commands(output)) == []


def test_a_summary_that_cannot_be_written_changes_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "/nowhere/summary.md")
    result = run("good", "--github", judge="scripted/judge-5")
    assert result.exit_code == 0
    assert "the job summary (GITHUB_STEP_SUMMARY) cannot be written" in result.stderr
