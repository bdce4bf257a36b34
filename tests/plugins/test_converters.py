"""Converters of one's own: a source row in, canonical rows out."""

from pathlib import Path
from typing import Any

import pytest

import assay
from assay.core.errors import UsageProblem
from tests.engine.run_settings import write_rows
from tests.plugins.packages import Site

CODE = """
def tickets(row):
    if row.get("draft"):
        return None
    if "answer" not in row:
        raise ValueError("the ticket has no answer")
    made = {"id": f"ticket:{row['number']}", "task_type": "reference_qa"}
    return {**made, "prompt": row["text"], "reference_answers": [row["answer"]]}
"""
TICKETS = [
    {"number": 1, "text": "Where is my parcel?", "answer": "On its way."},
    {"number": 2, "text": "Hello?", "draft": True},
    {"number": 3, "text": "And now?"},
    {"number": 4, "text": "When?", "answer": "Tomorrow."},
]


def to_row(row: dict[str, Any]) -> dict[str, Any]:
    return {"id": str(row["number"]), "task_type": "reference_qa", "prompt": row["text"], "reference_answers": [row["answer"]]}


def test_a_function_converts_and_what_it_raises_refuses_the_row(tmp_path: Path) -> None:
    converted = assay.convert(write_rows(tmp_path / "t.jsonl", *TICKETS), to_row)
    assert [row["id"] for row in converted.rows] == ["1", "4"]
    assert [remark.line for remark in converted.report.remarks] == [2, 3]
    assert "KeyError: 'answer'" in converted.report.remarks[0].reason


def test_what_it_gives_is_held_to_the_contract(tmp_path: Path) -> None:
    converted = assay.convert(write_rows(tmp_path / "t.jsonl", TICKETS[0]), lambda row: [{**to_row(row), "prompt": 7}, "text"])
    assert converted.rows == ()
    assert "prompt must be a string" in converted.report.remarks[0].reason


def test_one_source_row_may_give_several(tmp_path: Path) -> None:
    converted = assay.convert(
        write_rows(tmp_path / "t.jsonl", TICKETS[0]), lambda row: [{**to_row(row), "id": name} for name in ("a", "b")]
    )
    assert [row["id"] for row in converted.rows] == ["a", "b"]
    assert converted.report.sources[0].emitted == 2


def test_the_command_takes_a_converter_of_a_package_and_one_in_a_file(tmp_path: Path) -> None:
    site = Site(tmp_path / "packages")
    site.install("acme_tickets", CODE, {"converters": {"tickets": "acme_tickets:tickets"}})
    write_rows(tmp_path / "t.jsonl", *TICKETS)
    (tmp_path / "mine.py").write_text(CODE, encoding="utf-8")
    for name, out in (("tickets", "one.jsonl"), ("mine.py:tickets", "two.jsonl")):
        done = site.assay("convert", name, "t.jsonl", "-o", out, "--report", f"{out}.json", cwd=tmp_path)
        assert (done.returncode, done.stderr) == (1, "")
        assert "the ticket has no answer" in done.stdout
        assert "the converter gives no row for it" in done.stdout
        assert assay.validate(tmp_path / out).counts.accepted_records == 2
    assert '"distribution": "acme_tickets"' in (tmp_path / "one.jsonl.json").read_text(encoding="utf-8")


def test_a_built_in_converter_keeps_its_name(tmp_path: Path) -> None:
    site = Site(tmp_path / "packages")
    site.install("acme_lexam", CODE, {"converters": {"lexam": "acme_lexam:tickets"}})
    with site.here():
        converted = assay.convert(write_rows(tmp_path / "t.jsonl", *TICKETS), "lexam")
        named = assay.convert(tmp_path / "t.jsonl", "acme_lexam/lexam")
    assert (len(converted.rows), len(named.rows)) == (0, 2)


def test_an_unknown_converter_is_answered_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="unknown converter 'lexamm'") as caught:
        assay.convert(write_rows(tmp_path / "t.jsonl", *TICKETS), "lexamm")
    assert caught.value.hint == "did you mean 'lexam'?"
