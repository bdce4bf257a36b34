"""Finished runs whose answers are what spreadsheets, readers of XML and readers of CSV stumble over."""

from pathlib import Path
from typing import Any

from assay import api
from tests.engine.graded_runs import graded, question

FORMULAS = ("=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", " =1+1", "\u3000\uff1d1", "'quoted", "|x", "%x")
ODD = ("<r>rich</r>", "_x0041_", "a\x0bb", "\ufffe", "&amp;<b>", 'say "no"', "two\nlines", "ends in space ", "\U0001f600")
PLAIN = ("A", "https://example.org", "internal:Sheet1!A1", "1", "true")


def hostile_run(folder: Path, *answers: str, **options: Any) -> api.RunReader:
    """A run with a record for each answer."""
    rows = [question(f"q{number}") for number in range(len(answers))]
    given = {row["id"]: answer for row, answer in zip(rows, answers, strict=True)}
    graded(folder, "hostile", rows, given, **options)
    return api.open_run("hostile", runs_dir=folder / "runs")
