"""One record in sections: what was asked, answered, graded and called."""

import msgspec

from assay.core.tools import ExpectedCall, tool_call
from assay.grading.call_matching import compare_calls
from assay.presentation.record import MAX_CALLS, call_table, record_report
from assay.surfaces.reporters.formats import ReportSettings
from tests.surfaces.cli.test_run_reports import PLAIN, record_text
from tests.surfaces.run_views import (
    prediction,
    record,
)


def test_a_record_says_once_what_judges_said_and_what_each_cost() -> None:
    votes = [
        {"criterion": "c", "score": score, "scale": "1-5", "normalized": 0.5, "judge": judge, "justification": why}
        for judge, score, why in (("a", 2, "Too short."), ("b", 4, "It will do."))
    ]
    words = "c: judges say 2, 4; a tie.\nc (a): 2. Too short.\nc (b): 4. It will do."
    changes = {"evaluator_scores": votes, "justification": words, "judge_costs": {"a": 0.5, "b": None}}
    text = "".join(record_text(msgspec.structs.replace(record(), prediction=prediction("r", 2, "", **changes)), PLAIN))
    assert "justification\n    c: judges say 2, 4; a tie.\n\n" in text
    assert (text.count("Too short."), "cost by judge\n    a: $0.5000\n    b: unknown price\n" in text) == (1, True)


def test_a_record_whose_verdict_could_not_be_read_shows_what_the_judge_said() -> None:
    broken = record()
    broken.prediction.error_code = "judge_parse_error"
    assert '{"score": 2}' in "".join(record_text(broken, PLAIN))


def test_a_long_answer_is_cut_unless_everything_is_asked_for() -> None:
    long = msgspec.structs.replace(record(), prediction=prediction("leap-year", 2, "", model_response="x" * 5_000))
    assert "… and 1,000 more characters (--verbose shows all)" in "".join(record_text(long, PLAIN))
    assert "x" * 5_000 in "".join(record_text(long, ReportSettings(version="9", is_verbose=True)))


def test_the_steps_of_an_agent_stand_with_its_attempt() -> None:
    whole = record()
    whole.attempts[1].steps = [{"tool": "search", "query": "leap years"}]
    blocks = [passage for attempt in record_report(whole).attempts for passage in attempt.passages]
    (steps,) = (passage for passage in blocks if passage.title == "Steps before the answer")
    assert '"query"' in steps.text


def test_expected_tool_calls_are_next_to_those_made() -> None:
    made = [tool_call("find", {"name": "Ada"}), tool_call("book", "{")]
    results = compare_calls(made, [ExpectedCall("find", {"name": "Bob"}, step=0), ExpectedCall("pay", step=1)])
    rows = [[cell.text for cell in row] for row in call_table(results).rows]
    assert rows == [
        ['find({"name":"Bob"})', 'find({"name":"Ada"})', "wrong arguments", "name"],
        ["pay({})", "book({)", "wrong name", ""],
    ]


def test_a_record_with_very_many_calls_lists_the_first() -> None:
    results = compare_calls([], [ExpectedCall("t", {"text": "x" * 5_000}, step=number) for number in range(MAX_CALLS + 1)])
    table = call_table(results)
    assert (len(table.rows), table.note) == (MAX_CALLS, "… and 1 more call (predictions.jsonl has them)")
    assert len(table.rows[0][0].text) < 1_100
