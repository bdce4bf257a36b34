"""`assay report`: which file it writes, what it says, and what it refuses."""

import json
from pathlib import Path

import pytest

from tests.commands import assay
from tests.engine.readers.test_record_search import half_done


@pytest.fixture(autouse=True)
def folder(workplace: Path) -> Path:
    """A working folder with a finished run of eight records."""
    assay("run", "golden.json", "--model", "scripted/echo", "--judge", "scripted/judge-4", "--run-id", "first", "--quiet")
    return workplace


def test_the_file_is_named_after_the_run() -> None:
    result = assay("report", "latest")
    assert result.exit_code == 0
    assert result.stdout.startswith("first.html (")
    assert Path("first.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_what_is_left_out_is_said_on_the_terminal_and_in_the_page() -> None:
    result = assay("report", "first", "--records", "1", "-o", "part.html")
    assert "This file has 1 of" in result.stderr
    assert "all of them: assay report first --records all" in result.stderr
    assert "This file has 1 of" in Path("part.html").read_text(encoding="utf-8")


def test_all_records_leave_nothing_to_say() -> None:
    assert assay("report", "first", "--records", "all").stderr == ""


def test_standard_output_gets_the_file_and_nothing_else() -> None:
    result = assay("report", "first", "-o", "-")
    assert result.stdout.startswith("<!doctype html>")
    assert result.stdout.rstrip().endswith("</html>")
    assert list(Path().glob("*.html")) == []


def test_a_script_gets_path_size_and_counts() -> None:
    told = json.loads(assay("report", "first", "--records", "1", "--json").stdout)
    assert (told["report"], told["records"]) == ("first.html", 1)
    assert told["bytes"] == Path("first.html").stat().st_size


def test_the_file_lets_nothing_in_and_nothing_out() -> None:
    assay("report", "first")
    text = Path("first.html").read_text(encoding="utf-8")
    assert "default-src 'none'; script-src 'sha256-" in text
    assert "unsafe" not in text.split("Content-Security-Policy")[1].split(">")[0]
    assert [word for word in ("<link", "<img", "src=", "url(") if word in text] == []


@pytest.mark.parametrize("number", ["-1", "some", "\u0661", "1.5"])
def test_a_number_of_records_that_is_none_is_refused(number: str) -> None:
    result = assay("report", "first", "--records", number)
    assert result.exit_code == 2
    assert "--records takes a number or 'all'" in result.stderr


def test_evidence_is_never_overwritten() -> None:
    evidence = Path("runs/first/predictions.jsonl")
    before = evidence.read_bytes()
    assert assay("report", "first", "-o", str(evidence)).exit_code == 2
    assert evidence.read_bytes() == before


def test_a_run_that_has_not_ended_says_how_far_it_is(tmp_path: Path) -> None:
    run = half_done(tmp_path)
    result = assay("report", run.folders.run_id)
    assert result.exit_code == 2
    assert "is unfinished: it is running" in result.stderr
    assert "records are done" in result.stderr
    assert "hint: resume it: assay resume" in result.stderr


def test_a_run_whose_records_were_removed_is_still_reported() -> None:
    Path("runs/first/predictions.jsonl").unlink()
    result = assay("report", "first")
    assert result.exit_code == 0
    assert "predictions.jsonl" in result.stderr
    assert "0 records" in result.stdout
