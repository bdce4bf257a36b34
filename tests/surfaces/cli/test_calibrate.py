"""Labels out and in by the command line."""

from pathlib import Path

import pytest

from tests.commands import assay


@pytest.fixture(autouse=True)
def folder(workplace: Path) -> Path:
    """A working folder with a finished run whose every record was answered three times."""
    options = ("--judge", "scripted/judge-4", "--run-id", "first", "--repeat", "3", "--quiet")
    assay("run", "golden.json", "--model", "scripted/echo", *options)
    return workplace


def test_a_file_of_labels_is_written_over_only_when_asked_for() -> None:
    assert assay("label", "first", "-o", "labels.csv").exit_code == 0
    Path("labels.csv").write_text("filled in", encoding="utf-8")
    refused = assay("label", "first", "-o", "labels.csv")
    assert (refused.exit_code, Path("labels.csv").read_text(encoding="utf-8")) == (2, "filled in")
    assert "'labels.csv' exists, and may hold labels" in refused.stderr
    assert assay("label", "first", "-o", "labels.csv", "--force").exit_code == 0


def test_a_calibration_says_that_its_intervals_count_records() -> None:
    assay("label", "first", "-o", "labels.csv")
    head, *rows = Path("labels.csv").read_text(encoding="utf-8").splitlines()
    verdict = ",".join("" if name != "passed" else "pass" for name in head.split(",")[-4:])
    Path("labels.csv").write_text("\n".join([head, *(row.removesuffix(",,,") + verdict for row in rows)]), encoding="utf-8")
    result = assay("calibrate", "first", "labels.csv")
    assert "intervals count 5 records, of which several answers were graded" in " ".join(result.stdout.split())
    assert "15 answers" in result.stdout
    assert "by people          100.0 % · 15 of 15 pass\n" in result.stdout
    assert "no record was judged" not in result.stdout
