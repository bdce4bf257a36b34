"""Sections of runs: what each table and fact says, from the metrics alone."""

from typing import Any

import msgspec

from assay.core.summary import JudgeSummary, PanelSummary, RepeatSummary
from assay.core.tools import ExpectedCall, tool_call
from assay.grading.call_matching import compare_calls
from assay.metrics.tool_calls import ToolCallCounter
from assay.presentation.run import (
    MAX_TOOLS,
    failure_table,
    judge_table,
    panel_facts,
    repeat_facts,
    run_sections,
    slice_table,
    tool_table,
)
from assay.presentation.sections import Section, Table
from assay.presentation.words import DASH
from tests.surfaces.run_views import amount, golden_view, latencies, other_view, unfinished_view, unlisted_view

JUDGE: dict[str, Any] = {
    "judge": "scripted/judge-2",
    "n_votes": 5,
    "score_mean": 0.25,
    "agreement": {"value": 0.4, "interval": None, "n": 5},
    **dict.fromkeys(("n_questions", "n_calls", "n_failed_calls", "n_asked_again", "n_salvaged", "n_lost"), 0),
    "latency_ms": latencies(3.0, 4.0),
    "tokens": amount(None),
}
SUBJECT = "Dataset and models"


def column(table: Table, title: str) -> list[str]:
    return [row[0].full for row in table.only(title).rows]


def titles(sections: list[Section]) -> list[str]:
    return [section.title for section in sections]


def test_a_judge_whose_prices_are_unknown_in_part_has_a_lower_bound() -> None:
    costs = ({"sum": None, "mean": None, "n_known": 0, "n_unknown": 5}, {"sum": 1.5, "mean": 0.5, "n_known": 3, "n_unknown": 2})
    judges = [msgspec.convert({**JUDGE, "cost_usd": cost}, JudgeSummary) for cost in costs]
    assert column(judge_table(judges), "cost") == ["unknown", "> $1.50"]


def test_what_escalation_saved_is_told_in_dollars() -> None:
    panel = {"n_records": 9, "n_disagree": 0, "n_tied": 0, "n_vote_lost": 1, "escalate": True, "n_escalated": 2, "n_calls_saved": 7}
    found = msgspec.convert({**panel, "quorum": 2, "n_decisions": 9, "cost_saved_usd": 0.5}, PanelSummary)
    assert [fact.text for fact in panel_facts(found)] == [
        "9 records judged · 0 with different votes · 1 with a vote lost",
        "2 escalated to all judges · 7 calls saved, about $0.5000",
    ]


def test_records_that_are_left_out_are_counted_with_their_reasons() -> None:
    by_k = [{"k": 1, "value": None, "interval": None}, {"k": 2, "value": None, "interval": None}]
    passes = [{"passes": count, "records": 0} for count in range(3)]
    nothing = {"within": None, "between": None, "intraclass_correlation": None}
    repeats = {"repeat": 2, "n_records": 3, "n_left_out": 3, "left_out": {"timeout": 3}, "passes": passes, "n_complete": 0}
    variance = {"score": nothing, "passed": nothing}
    found = msgspec.convert({**repeats, "pass_at_k": by_k, "pass_hat_k": by_k, "variance": variance}, RepeatSummary)
    lines = {fact.label: fact.text for fact in repeat_facts(found)}
    assert lines[""] == "3 records left out here, without a score for every answer: timeout 3"
    assert lines["variance"] == "-"


def test_a_report_has_its_sections_in_the_order_of_reading_and_none_that_is_empty() -> None:
    assert titles(run_sections(golden_view())) == [
        "Dataset and models",
        "Records",
        "Results",
        "Slices",
        "Errors",
        "Not passed",
        "Decision",
    ]
    assert titles(run_sections(unlisted_view())) == [
        SUBJECT,
        "Results",
        "Slices",
        "Errors",
        "Not passed",
        "Worst records",
        "Decision",
    ]
    assert titles(run_sections(unfinished_view())) == [SUBJECT, "Results", "Decision"]


def test_runs_side_by_side_have_a_row_each_for_every_value_of_a_slice() -> None:
    table = slice_table([golden_view(), other_view()], limit=2)
    assert column(table, "value") == ["assistant", "assistant", "other", "other"]
    assert column(table, "candidate") == ["small", "large"] * 2
    assert table.note == "1 more value in metrics_by_slice.json"


def test_a_group_of_failures_names_its_first_records_and_how_many_there_are_besides() -> None:
    rows = failure_table([golden_view()]).rows
    assert [(row[2].text, row[3].text, row[4].names, row[4].text) for row in rows[:1]] == [
        ("rate_limited", "5", ("tone-0", "tone-1", "tone-2"), "and 2 more")
    ]


def test_each_tool_has_a_row_with_the_most_used_first() -> None:
    counter = ToolCallCounter()
    counter.add(compare_calls([tool_call("a", {})], [ExpectedCall("a"), ExpectedCall("b"), ExpectedCall("b", step=1)]))
    rows = [[cell.text for cell in row] for row in tool_table(counter.summary()).rows]
    assert [(row[0], row[1], row[2], row[5]) for row in rows] == [("b", "2", "0.0 %", DASH), ("a", "1", "100.0 %", "100.0 %")]


def test_only_the_first_of_many_tools_are_listed() -> None:
    counter = ToolCallCounter()
    counter.add(compare_calls([], [ExpectedCall(f"t{number}", step=number) for number in range(MAX_TOOLS + 5)]))
    table = tool_table(counter.summary())
    assert (len(table.rows), table.note) == (MAX_TOOLS, "… and 5 more tools (metrics_summary.json has them)")
