"""Whether the simulation can see: a history that is falsified in one thing breaks the promise that is about it."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import msgspec
import pytest

from tests.simulation import grades, invariants
from tests.simulation.history import History, Look, play
from tests.simulation.invariants import INVARIANTS, problems_of
from tests.simulation.sealed import Sealed

EVENTFUL = 2
"""A seed with several processes, calls that are made again, and records that fail beside others that do not."""

Falsify = Callable[[History, Sealed], Any]


@pytest.fixture(scope="module")
def eventful(tmp_path_factory: pytest.TempPathFactory) -> History:
    return play(EVENTFUL, tmp_path_factory.mktemp("eventful"))


def failed(sealed: Sealed) -> dict[str, Any]:
    """The line of a record that failed."""
    return next(line for line in sealed.predictions if line["status"] == "evaluation_error")


def repeated(sealed: Sealed) -> list[dict[str, Any]]:
    """The attempts at a call that was made more than once."""
    return next(attempts for attempts in sealed.by_call.values() if len(attempts) > 1)


def outcome_left_by_the_first(history: History, _: Sealed) -> None:
    first = history.endings[0]
    look = msgspec.structs.replace(first.look, outcomes={**first.look.outcomes, 0: ("evaluated", 0.123)})
    history.endings[0] = msgspec.structs.replace(first, look=look)


def forgotten_attempts(history: History, _: Sealed) -> None:
    history.endings[0] = msgspec.structs.replace(history.endings[0], how="stopped", look=Look(attempts=0))


def many_at_once(history: History, _: Sealed) -> None:
    for call in history.calls:
        call.at, call.ended = 5.0, 6.0


def counted_as_zero(_: History, sealed: Sealed) -> None:
    failed(sealed).update(score=0.0, passed=False)


def spent_more(history: History, _: Sealed) -> None:
    history.scenario.run_file["max_cost"] = history.calls[0].cost / 2


def hurried(_: History, sealed: Sealed) -> None:
    first, second = repeated(sealed)[:2]
    second["at_seconds"] = first["at_seconds"] + 0.5


def slept(history: History, _: Sealed) -> None:
    history.scenario.run_file.pop("max_cost", None)
    history.endings.append(msgspec.structs.replace(history.endings[-1], at=history.endings[-1].at + 3600))


def empty_account(history: History, _: Sealed) -> None:
    history.calls[0].kind = "quota"


def other_bytes(_: History, sealed: Sealed) -> None:
    sealed.manifest["artifacts"]["failures.jsonl"]["lines"] += 1


def graded_without_an_answer(_: History, sealed: Sealed) -> None:
    graded = next(line["index"] for line in sealed.predictions if line["status"] == "evaluated")
    sealed.by_call[graded, "candidate"][-1]["error_code"] = "timeout"


def changed_answer(_: History, sealed: Sealed) -> None:
    next(line for line in sealed.predictions if line["status"] == "evaluated")["model_response"] += " changed"


def failed_out_of_nowhere(_: History, sealed: Sealed) -> None:
    sealed.predictions[0].update(status="evaluation_error", error_code="internal_error")
    sealed.attempts[:] = [attempt for attempt in sealed.attempts if attempt["index"] != sealed.predictions[0]["index"]]


def other_score(_: History, sealed: Sealed) -> None:
    judged = (score for line in sealed.predictions for score in line["evaluator_scores"] or () if "judge" in score)
    next(judged)["score"] += 1


FALSIFIED: dict[str, tuple[invariants.Invariant, Falsify]] = {
    "a record is lost": (invariants.every_record_has_one_outcome, lambda _, sealed: sealed.predictions.pop()),
    "a record has two outcomes": (
        invariants.every_record_has_one_outcome,
        lambda _, sealed: sealed.predictions.append(sealed.predictions[0]),
    ),
    "an outcome is changed": (invariants.what_is_finished_stays, outcome_left_by_the_first),
    "a fourth attempt": (
        invariants.no_call_is_made_too_often,
        lambda _, sealed: repeated(sealed).extend({**repeated(sealed)[-1], "record_attempt": more} for more in (3, 4)),
    ),
    "a call after its reply": (
        invariants.no_call_is_made_too_often,
        lambda _, sealed: repeated(sealed)[0].update(error_code=None),
    ),
    "attempts that nobody logged": (invariants.only_calls_in_flight_are_lost, forgotten_attempts),
    "a call after a cancel": (
        invariants.no_call_follows_a_cancel,
        lambda history, _: setattr(history, "cancelled_at", history.calls[0].at - 2.0),
    ),
    "more calls than slots": (invariants.never_more_in_flight_than_slots, many_at_once),
    "a denominator that is too small": (
        invariants.denominators_add_up,
        lambda _, sealed: sealed.summary.update(evaluated_records=sealed.summary["evaluated_records"] - 1),
    ),
    "an error in the mean": (invariants.denominators_add_up, counted_as_zero),
    "an error that is a score": (invariants.an_error_is_never_a_score, counted_as_zero),
    "a grade for whom nobody answered": (invariants.a_grade_has_every_answer_that_it_needs, graded_without_an_answer),
    "an answer that is changed on its way": (invariants.an_answer_is_kept_as_it_was_given, changed_answer),
    "a failure out of nowhere": (invariants.every_failure_is_somebody_elses, failed_out_of_nowhere),
    "a count that is not in the file": (invariants.artifacts_are_as_the_manifest_says, other_bytes),
    "a failure that is called a success": (
        invariants.the_final_state_is_right,
        lambda _, sealed: sealed.manifest.update(status="completed"),
    ),
    "a call beyond the budget": (invariants.the_budget_is_kept, spent_more),
    "calls beyond the rate": (
        invariants.rates_are_kept,
        lambda history, _: history.scenario.run_file["providers"][0].update(requests_per_minute=1),
    ),
    "a wait that is cut short": (invariants.nobody_is_asked_again_too_soon, hurried),
    "a Retry-After that is not waited for": (
        invariants.nobody_is_asked_again_too_soon,
        lambda _, sealed: repeated(sealed)[0].update(retry_after=50.0),
    ),
    "an hour without a reason": (
        invariants.nobody_stands_still,
        slept,
    ),
    "a score that no judge gave": (grades.scores_are_what_judges_said, other_score),
    "an answer that is called late": (
        grades.slow_answers_do_not_pass,
        lambda _, sealed: sealed.predictions[0].update(status="evaluated", label=grades.SLOW),
    ),
    "tokens beyond the rate": (
        grades.tokens_are_kept,
        lambda history, _: history.scenario.run_file["providers"][0].update(tokens_per_minute=100),
    ),
    "a call to an empty account": (invariants.a_provider_without_quota_is_left_alone, empty_account),
}


def test_nothing_is_wrong_with_the_history_that_is_falsified(eventful: History) -> None:
    assert problems_of(eventful) == []


@pytest.mark.parametrize("what", FALSIFIED)
def test_a_falsified_history_is_found_out(what: str, eventful: History) -> None:
    invariant, falsify = FALSIFIED[what]
    history, sealed = deepcopy(eventful), Sealed(eventful.folder)
    falsify(history, sealed)
    assert list(invariant(history, sealed)) != []


def test_every_invariant_is_shown_to_see() -> None:
    assert {invariant for invariant, _ in FALSIFIED.values()} == set(INVARIANTS)


def test_a_run_that_hangs_is_found_out(eventful: History) -> None:
    history = deepcopy(eventful)
    history.endings[-1] = msgspec.structs.replace(history.endings[-1], how="everybody waits")
    assert problems_of(history) == ["it_comes_to_its_end: everybody waits"]
