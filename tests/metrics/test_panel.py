"""Figures of the judges of a panel, from votes and calls made by hand."""

from typing import Any

import pytest

from assay.core.outcome import PanelDecision, Score
from assay.core.settings import PanelSection
from assay.metrics.panel import JudgeAttempt, PanelMetrics
from tests.metrics.documents import as_written


def vote(judge: str, score: float, criterion: str = "overall", **changes: Any) -> Score:
    return Score(criterion=criterion, score=score, scale="1-5", normalized=(score - 1) / 4, judge=judge, **changes)


def call(judge: str, question: str = "judge:overall", **changes: Any) -> JudgeAttempt:
    usual = {"is_again": False, "is_failed": False, "is_free": False, "latency_ms": 100.0, "tokens": 50, "cost": 0.01}
    return JudgeAttempt(judge=judge, question=question, **{**usual, **changes})


def figures(*judges: str, **settings: Any) -> PanelMetrics:
    return PanelMetrics(judges or ("one", "two", "three"), PanelSection(**settings))


def panel_of(found: PanelMetrics) -> dict[str, Any]:
    return as_written(found.panel(found.judges()))


def judge(found: PanelMetrics, name: str) -> dict[str, Any]:
    return next(entry for entry in map(as_written, found.judges()) if entry["judge"] == name)


def test_a_judge_agrees_where_its_vote_is_that_of_the_panel() -> None:
    found = figures()
    found.add("a", [vote("one", 4), vote("two", 4), vote("three", 2)], decisions=(), attempts=())
    found.add("a", [vote("one", 5), vote("two", 3), vote("three", 2)], decisions=(), attempts=())
    shares = {name: judge(found, name)["agreement"]["value"] for name in ("one", "two", "three")}
    assert shares == {"one": 0.5, "two": 1.0, "three": 0.0}
    assert panel_of(found)["n_disagree"] == 2


def test_a_vote_alone_agrees_with_nobody() -> None:
    found = figures("one", "two", escalate=True)
    found.add("a", [vote("one", 5)], decisions=(), attempts=())
    assert judge(found, "one")["agreement"] == {"value": None, "interval": None, "standard_error": None, "n": 0}
    assert judge(found, "one")["n_votes"] == 1


def test_agreement_has_an_interval_by_records() -> None:
    found = figures("one", "two")
    for number in range(10):
        cast = [
            vote(name, score, f"c{criterion}") for criterion in range(3) for name, score in (("one", 4), ("two", 4 + number % 2))
        ]
        found.add(f"r{number}", cast, decisions=(), attempts=())
    interval = judge(found, "two")["agreement"]["interval"]
    assert (judge(found, "two")["agreement"]["n"], interval["n"], interval["method"]) == (30, 10, "wilson_cluster")


def test_answers_to_one_record_are_one_record_to_the_interval_of_agreement() -> None:
    found = figures("one", "two")
    for number in range(20):
        found.add(f"r{number % 5}", [vote("one", 4), vote("two", 4 + number % 2)], decisions=(), attempts=())
    agreement = judge(found, "two")["agreement"]
    assert (agreement["n"], agreement["interval"]["n"]) == (20, 5)


def test_calls_are_counted_by_what_they_cost_and_took() -> None:
    found = figures("one", "two")
    attempts = [
        call("one", is_failed=True, cost=None),
        call("one"),
        call("one", is_again=True, cost=None),
        call("two", is_free=True),
    ]
    found.add("a", [], decisions=(), attempts=attempts)
    one, two = judge(found, "one"), judge(found, "two")
    assert (one["n_calls"], one["n_failed_calls"], one["n_asked_again"], one["n_questions"]) == (3, 1, 1, 1)
    assert one["cost_usd"] == {"sum": 0.01, "mean": 0.01, "n_known": 1, "n_unknown": 1}
    assert (one["latency_ms"]["p50"], one["tokens"]["sum"]) == (100.0, 100)
    assert (two["n_calls"], two["n_questions"], two["cost_usd"]["sum"]) == (0, 1, None)


def test_records_are_counted_by_how_votes_were_decided() -> None:
    found = figures("one", "two", quorum=1)
    tied = PanelDecision(criterion="overall", score=3, spread=0.25, is_tied=True, words="a tie")
    lost = PanelDecision(criterion="overall", score=4, missing=("two",), words="1 more gave no vote")
    found.add("a", [vote("one", 4), vote("two", 3)], decisions=(tied,), attempts=())
    found.add("a", [vote("one", 4)], decisions=(lost,), attempts=())
    found.add("a", [], decisions=(), attempts=[call("one", is_failed=True)])
    panel = panel_of(found)
    assert (panel["n_records"], panel["n_disagree"], panel["n_tied"], panel["n_vote_lost"], panel["quorum"]) == (2, 1, 1, 1, 1)
    assert judge(found, "two")["n_lost"] == 1


def test_what_escalation_saves_is_what_the_others_would_have_cost() -> None:
    found = figures("cheap", "dear", escalate=True)
    found.add("a", [vote("cheap", 5)], decisions=(), attempts=[call("cheap", cost=0.001)])
    found.add("a", [vote("cheap", 5)], decisions=(), attempts=[call("cheap", cost=0.001)])
    found.add(
        "a",
        [vote("cheap", 3), vote("dear", 4)],
        decisions=(PanelDecision(criterion="overall", score=3, is_escalated=True),),
        attempts=[call("cheap"), call("dear", cost=0.5)],
    )
    panel = panel_of(found)
    assert (panel["n_escalated"], panel["n_calls_saved"], panel["cost_saved_usd"]) == (1, 2, pytest.approx(1.0))


def test_what_escalation_saves_is_unknown_where_a_price_is() -> None:
    found = figures("cheap", "dear", escalate=True)
    found.add("a", [vote("cheap", 5)], decisions=(), attempts=[call("cheap")])
    assert (panel_of(found)["n_calls_saved"], panel_of(found)["cost_saved_usd"]) == (1, None)


def test_without_escalation_nothing_is_saved() -> None:
    panel = panel_of(figures())
    assert (panel["n_calls_saved"], panel["cost_saved_usd"], panel["quorum"]) == (None, None, 3)
