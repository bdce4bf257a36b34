"""What must be true of every history, found out from the provider's memory, the ledger and the artifacts alone."""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from math import fsum, isclose

from assay.engine.execution.learned_limit import LONGEST_INTERVAL
from assay.engine.finalization.recompute import differences
from assay.store.published_run import open_run_folder
from assay.store.verify import verify_run
from tests.simulation.grades import scores_are_what_judges_said, slow_answers_do_not_pass, tokens_are_kept
from tests.simulation.history import History
from tests.simulation.provider import CANDIDATE, REJECTED_ON_ARRIVAL
from tests.simulation.scenario import HOSTS
from tests.simulation.sealed import Line, Sealed
from tests.simulation.world import MOMENT, Call

Invariant = Callable[[History, Sealed], Iterator[str]]
LOOK = 1.0
"""Seconds between two looks at the cancel flag, as the engine promises."""
ROUNDED = 0.003
"""Seconds by which times in artifacts are rounded."""
_NO_TEXT = re.compile("[\x00\ud800-\udfff]")
_LOSING = ("killed", "store", "cut off")
"""Ends of processes that lose what is in flight."""


def problems_of(history: History) -> list[str]:
    """Everything that is wrong with a history, each with the name of what should have been true."""
    found = list(history.problems)
    found += [f"it_comes_to_its_end: {ending.how}" for ending in history.endings[-1:] if ending.how != "done"]
    if found:
        return found
    sealed = Sealed(history.folder)
    return [f"{invariant.__name__}: {problem}" for invariant in INVARIANTS for problem in invariant(history, sealed)]


def every_record_has_one_outcome(history: History, sealed: Sealed) -> Iterator[str]:
    """None is lost and none is doubled."""
    positions = Counter([*sealed.invalid, *(line["index"] for line in sealed.predictions)])
    for position in range(history.scenario.records):
        if positions[position] != 1:
            yield f"record {position} has {positions[position]} outcomes"
    if positions.total() != history.scenario.records:
        yield f"{positions.total()} outcomes of {history.scenario.records} records"
    names = Counter((line["record_id"], line.get("sample")) for line in sealed.predictions)
    yield from (f"{name} occurs {count} times" for name, count in names.items() if count > 1)


def what_is_finished_stays(history: History, sealed: Sealed) -> Iterator[str]:
    """No later process changes an outcome that an earlier one has left."""
    for before, after in pairwise(ending.look for ending in history.endings if not ending.look.is_sealed):
        for position, outcome in before.outcomes.items():
            if after.outcomes.get(position) != outcome:
                yield f"the outcome of record {position} was {outcome}, and then {after.outcomes.get(position)}"
    ends = {line["index"]: (line["status"], line["score"]) for line in sealed.predictions}
    for ending in history.endings[:-1]:
        for position, (status, score) in ending.look.outcomes.items():
            if status != "invalid_record" and ends.get(position) != (status, score):
                yield f"record {position} was {status} with {score}, and is {ends.get(position)} in the artifacts"


def no_call_is_made_too_often(history: History, sealed: Sealed) -> Iterator[str]:
    """At most as many attempts that count as the plan allows, one round after the other, and none after a reply."""
    most = history.scenario.run_file["retry"]["max_attempts"]
    for (position, call_id), attempts in sealed.by_call.items():
        rounds = [attempt["record_attempt"] for attempt in attempts if attempt["counted"]]
        if len(rounds) > most or rounds != sorted(set(rounds)) or max(rounds, default=0) > most:
            yield f"record {position} has attempts at {call_id} in rounds {rounds} of {most}"
        replied = [attempt["error_code"] is None for attempt in attempts]
        if any(replied[:-1]):
            yield f"record {position} asked {call_id} again after a reply"


def only_calls_in_flight_are_lost(history: History, sealed: Sealed) -> Iterator[str]:
    """Every call that the provider saw is in the log, except those in flight when a process died or its disk failed.

    What it rejects on arrival costs nothing, and is not waited for.
    """
    cached = [attempt for attempt in sealed.attempts if "cached" in attempt["flags"]]
    total = len(sealed.attempts) - len(cached)
    logged = [0, *(total if ending.look.is_sealed else ending.look.attempts for ending in history.endings)]
    for life, (ending, (before, after)) in enumerate(zip(history.endings, pairwise(logged), strict=True), 1):
        calls = sum(call.life == life for call in history.calls)
        lost = calls - (after - before)
        free = sum(call.life == life and call.kind in REJECTED_ON_ARRIVAL for call in history.calls)
        allowed = history.scenario.concurrency + free if ending.how in _LOSING else 0
        if not 0 <= lost <= allowed:
            yield f"life {life} ({ending.how}) made {calls} calls and logged {after - before}; {allowed} may be lost"


def no_call_follows_a_cancel(history: History, sealed: Sealed) -> Iterator[str]:  # noqa: ARG001
    """When a cancel is seen, which takes a second at most, no call is made; until then no more that cost than there are slots."""
    if history.cancelled_at is None:
        return
    at = history.cancelled_at
    slowest = at + LOOK + 3 * max(history.scenario.thread_seconds)
    seen = min([slowest, *(moment for moment in history.appends if moment > at)]) + MOMENT
    later = [call for call in history.calls if call.at > at + MOMENT]
    yield from (f"call {call.number} at {call.at:.3f}, cancelled at {at:.3f}" for call in later if call.at > seen)
    later = [call for call in later if call.kind not in REJECTED_ON_ARRIVAL]
    if len(later) > history.scenario.concurrency:
        yield f"{len(later)} calls after the cancel with {history.scenario.concurrency} slots"


def never_more_in_flight_than_slots(history: History, sealed: Sealed) -> Iterator[str]:  # noqa: ARG001
    """Of all calls, and of each stage."""
    run = history.scenario.run_file["run"]
    limits = {"all": run["concurrency"], **{stage: run[stage].get("concurrency") for stage in ("generation", "judging")}}
    for name, most in limits.items():
        calls = [call for call in history.calls if name == "all" or _stage(call) == name]
        peak = _peak(calls, history)
        if most is not None and peak > most:
            yield f"{peak} calls of {name} at once, and {most} were allowed"


def denominators_add_up(history: History, sealed: Sealed) -> Iterator[str]:  # noqa: ARG001
    """In the run and in every slice, and as the records themselves say."""
    for name, value, table in sealed.tables():
        place = f"{name or 'all'}={value}"
        sums = {
            "total": (table["total_records"], table["evaluated_records"] + table["failed_records"] + table["skipped_records"]),
            "valid": (table["valid_records"], table["total_records"] - table["invalid_records"]),
            "scored": (table["valid_records"], table["n_scored"] + table["n_unscored"]),
            "passed": (table["n_scored"], table["pass_count"] + table["fail_count"]),
        }
        yield from (f"{place}: {what} is {left}, not {right}" for what, (left, right) in sums.items() if left != right)
        lines = sealed.predictions if not name else sealed.members.get((name, value))
        if lines is not None:
            yield from (f"{place}: {problem}" for problem in _wrong_figures(table, lines))
    if sealed.summary["total_records"] != sum(sealed.by_status.values()):
        yield f"{sealed.summary['total_records']} records in the summary, {sealed.by_status} in the lines"


def _wrong_figures(table: Line, lines: list[Line]) -> Iterator[str]:
    """What a table says otherwise than the valid records do."""
    status = Counter(line["status"] for line in lines)
    scores = [line["score"] for line in lines if line["score"] is not None]
    expected = {
        "valid_records": len(lines),
        "evaluated_records": status["evaluated"],
        "cancelled_records": status["cancelled"],
        "n_scored": len(scores),
        "pass_count": sum(line["passed"] is True for line in lines),
    }
    yield from (f"{name} is {table[name]}, not {right}" for name, right in expected.items() if table[name] != right)
    failed = table["failed_records"] + table["cancelled_records"]
    rates = {
        "score_mean": fsum(scores) / len(scores) if scores else None,
        "pass_rate": expected["pass_count"] / len(scores) if scores else None,
        "error_rate": failed / table["total_records"] if table["total_records"] else None,
    }
    yield from (f"{name} is {table[name]}, not {right}" for name, right in rates.items() if not _is_close(table[name], right))


def _is_close(said: float | None, right: float | None) -> bool:
    return said is right is None or (said is not None and right is not None and isclose(said, right, abs_tol=1e-9))


def an_error_is_never_a_score(history: History, sealed: Sealed) -> Iterator[str]:  # noqa: ARG001
    """Only a record that was evaluated has a score, and every other one says why it has none."""
    for line in sealed.predictions:
        if line["status"] == "evaluated":
            continue
        if any(line[name] is not None for name in ("score", "raw_score", "passed")):
            yield f"record {line['index']} is {line['status']} and has the score {line['score']}"
        if not line["error_code"]:
            yield f"record {line['index']} is {line['status']} without a reason"
    failed = {line["index"] for line in sealed.lines("failures.jsonl")}
    missing = [line["index"] for line in sealed.predictions if line["status"] != "evaluated" and line["index"] not in failed]
    yield from (f"record {position} has no line in failures.jsonl" for position in missing)


def a_grade_has_every_answer_that_it_needs(history: History, sealed: Sealed) -> Iterator[str]:
    """Whoever has a grade was answered by all whom it was asked of, but for judges that a quorum can do without."""
    may_be_lost = bool(history.scenario.run_file.get("panel", {}).get("quorum"))
    ends: dict[int, list[Line]] = {}
    for (position, _), attempts in sealed.by_call.items():
        ends.setdefault(position, []).append(attempts[-1])
    for line in sealed.predictions:
        if line["status"] == "evaluated":
            last = ends.get(line["index"], [])
            failed = [end["call_id"] for end in last if end["error_code"] and (end["stage"] == "candidate" or not may_be_lost)]
            yield from (f"record {line['index']} has a grade, and nobody answered {call_id}" for call_id in failed)
            if not any(end["error_code"] is None for end in last):
                yield f"record {line['index']} has a grade without an answer"


def an_answer_is_kept_as_it_was_given(history: History, sealed: Sealed) -> Iterator[str]:
    """In the artifacts and before the judges, also over a crash; what no text may hold is replaced."""
    calls = {f"req-{call.number}": call for call in history.calls}
    for line in sealed.predictions:
        answered = [attempt for attempt in sealed.by_call.get((line["index"], "candidate"), ()) if attempt["error_code"] is None]
        if not answered or answered[-1]["request_id"] not in calls:
            continue
        said = _NO_TEXT.sub("\ufffd", calls[answered[-1]["request_id"]].said)
        if line["model_response"] not in (None, said):
            yield f"record {line['index']} was answered {said!r}, and has {line['model_response']!r}"
        judges = [calls[name] for name in sealed.asked_judges(line["index"]) if name in calls]
        yield from (
            f"call {call.number} shows a judge another answer than {said!r}" for call in judges if said + "\n" not in call.asked
        )


def every_failure_is_somebody_elses(history: History, sealed: Sealed) -> Iterator[str]:  # noqa: ARG001
    """A record fails with what one of its calls failed with; anything else would be a mistake of the engine."""
    failed = {(attempt["index"], attempt["error_code"]) for attempt in sealed.attempts}
    for line in sealed.predictions:
        if line["error_code"] == "internal_error" and (line["index"], "internal_error") not in failed:
            yield f"record {line['index']} failed, and none of its calls did"


def artifacts_are_as_the_manifest_says(history: History, sealed: Sealed) -> Iterator[str]:  # noqa: ARG001
    """Hashes and counts, by our own sums; and what `verify` and `replay` would say."""
    for name, said in sealed.manifest["artifacts"].items():
        content = (sealed.folder / name).read_bytes()
        found = {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content), "lines": content.count(b"\n")}
        if found != said:
            yield f"{name} is {found}, and the manifest says {said}"
    yield from map(str, verify_run(sealed.folder))
    yield from differences(open_run_folder(sealed.folder))
    counts = sealed.manifest["counts"]
    if counts != {name: sealed.summary[name] for name in counts}:
        yield f"the manifest counts {counts}"
    if list(sealed.folder.parent.glob(".active/*")):
        yield "the working state is left behind"


def the_final_state_is_right(history: History, sealed: Sealed) -> Iterator[str]:
    """With the precedence failed, cancelled, completed_with_failures, completed."""
    found, status = sealed.by_status, sealed.manifest["status"]
    codes = {line["error_code"] for line in sealed.predictions}
    is_flawed = any(found[name] for name in ("invalid_record", "timeout", "evaluation_error", "cancelled"))
    expected = {"completed_with_failures" if is_flawed else "completed"}
    if history.cancelled_at is not None and found["cancelled"]:
        # A cancel that comes when every record has its outcome may be too late to be heard.
        expected = {"cancelled"} if "run_cancelled" in codes else {*expected, "cancelled"}
    if status not in expected:
        yield f"the run is {status} and not {' or '.join(expected)}, with {dict(found)}"
    times = [state["entered_at"] for state in sealed.manifest["states"]]
    if times != sorted(times):
        yield f"the states were entered at {times}"


def the_budget_is_kept(history: History, sealed: Sealed) -> Iterator[str]:
    """No call begins when what is known to be spent has reached the budget; and every price is right."""
    prices = {f"req-{call.number}": call.cost for call in history.calls}
    for attempt in sealed.attempts:
        is_paid = attempt["request_id"] in prices and "cached" not in attempt["flags"] and attempt["cost"] is not None
        if is_paid and not isclose(attempt["cost"], prices[attempt["request_id"]], abs_tol=1e-9):
            yield f"{attempt['request_id']} cost {prices[attempt['request_id']]}, and the log says {attempt['cost']}"
    budget = history.scenario.run_file.get("max_cost")
    if budget is None:
        return
    spent = [0.0, *(ending.look.spent for ending in history.endings)]
    for call in history.calls:
        before = [other.cost for other in history.calls if other.life == call.life and _is_before(other, call)]
        known = spent[call.life - 1] + fsum(before)
        if known >= budget + 1e-9:
            yield f"call {call.number} began when {known:.4f} of {budget:.4f} was spent"


def _is_before(other: Call, call: Call) -> bool:
    return other.ended is not None and other.ended < call.at - MOMENT


def rates_are_kept(history: History, sealed: Sealed) -> Iterator[str]:  # noqa: ARG001
    """Requests per minute of the provider and of each stage, with a burst of one second, in virtual time."""
    run_file = history.scenario.run_file
    limited = {HOSTS[provider["name"]]: provider for provider in run_file["providers"]}
    limited |= {stage: run_file["run"][stage] for stage in ("generation", "judging")}
    for name, rate in ((name, limits.get("requests_per_minute")) for name, limits in limited.items()):
        for life in range(1, len(history.endings) + 1) if rate else ():
            starts = [call.at for call in history.calls if call.life == life and name in (call.host, _stage(call))]
            yield from (f"{name} in life {life}: {problem}" for problem in _too_many(starts, 60.0 / rate))


def _too_many(starts: list[float], interval: float) -> Iterator[str]:
    for first, begin in enumerate(starts):
        for count, at in enumerate(starts[first:]):
            if at - begin < count * interval - 1.0 - MOMENT:
                yield f"{count + 1} calls in {at - begin:.3f} s, one every {interval:.3f} s was allowed"
                return


def nobody_is_asked_again_too_soon(history: History, sealed: Sealed) -> Iterator[str]:
    """The wait before a round is what the schedule says, or what the provider said where that is longer; and it is waited."""
    retry = history.scenario.run_file["retry"]
    told = {f"req-{call.number}": call for call in history.calls}
    for attempt in sealed.attempts:
        if attempt["wait_s"] is not None:
            yield from _wrong_wait(attempt, told.get(attempt["request_id"]), max_delay=retry["max_delay"])
    if history.scenario.has_jumps:
        return
    for position in {attempt["index"] for attempt in sealed.attempts}:
        attempts = [attempt for attempt in sealed.attempts if attempt["index"] == position]
        for earlier in (attempt for attempt in attempts if attempt["wait_s"] is not None):
            due = earlier["at_seconds"] + earlier["latency_ms"] / 1000 + earlier["wait_s"] - ROUNDED
            later = [one for one in attempts if one["record_attempt"] > earlier["record_attempt"]]
            if any(one["at_seconds"] < due for one in later):
                yield f"record {position} did not wait {earlier['wait_s']} s after {earlier['call_id']}"


def _wrong_wait(attempt: Line, call: Call | None, *, max_delay: float) -> Iterator[str]:
    scheduled = 2.0 * (2 ** attempt["record_attempt"] - 1)
    asked_for = min(attempt["retry_after"] or 0.0, max_delay)
    low, high = max(0.8 * scheduled, asked_for), max(1.2 * scheduled, asked_for)
    if not low - ROUNDED <= attempt["wait_s"] <= high + ROUNDED:
        yield f"record {attempt['index']} waits {attempt['wait_s']} s after round {attempt['record_attempt']}, not {low} to {high}"
    if call is not None and attempt["retry_after"] != call.retry_after:
        yield f"call {call.number} said Retry-After {call.retry_after}, and the log {attempt['retry_after']}"


def nobody_stands_still(history: History, sealed: Sealed) -> Iterator[str]:  # noqa: ARG001
    """Between two things that happen there is never more time than the longest wait that has a reason."""
    run_file = history.scenario.run_file
    providers, retry = run_file["providers"], run_file["retry"]
    if any("tokens_per_minute" in provider for provider in providers):
        return  # how long those are waited for depends on what every call has used
    parts = (*providers, run_file["run"]["generation"], run_file["run"]["judging"])
    waits = [60.0 / part["requests_per_minute"] for part in parts if "requests_per_minute" in part]
    waits += [provider["timeout"] for provider in providers]
    longest = max([retry["max_delay"], LONGEST_INTERVAL, 2.4 * 2 ** retry["max_attempts"], *waits]) + 2.0
    for life, ending in enumerate(history.endings, 1):
        calls = [call for call in history.calls if call.life == life]
        appends = [moment for moment in history.appends if ending.begun <= moment <= ending.at]
        moments = [ending.begun, ending.at, *appends, *(call.at for call in calls), *(call.ended or call.at for call in calls)]
        for before, after in pairwise(sorted(moments)):
            if after - before > longest:
                yield f"in life {life} nothing happened from {before:.1f} to {after:.1f}, {longest:.1f} s are explained"


def a_provider_without_quota_is_left_alone(history: History, sealed: Sealed) -> Iterator[str]:  # noqa: ARG001
    """After the account is known to be empty, the same process makes no further call."""
    for empty in history.calls:
        if empty.kind == "quota" and empty.ended is not None:
            others = [call for call in history.calls if (call.life, call.host) == (empty.life, empty.host)]
            later = [call.number for call in others if call.at > empty.ended + MOMENT]
            yield from (f"call {number} after call {empty.number} said that the quota is used up" for number in later)


def _stage(call: Call) -> str:
    return "generation" if call.model == CANDIDATE else "judging" if call.model else ""


def _peak(calls: list[Call], history: History) -> int:
    """The most calls that were in flight at one moment; one that begins as another ends is not beside it."""
    ends = [ending.at for ending in history.endings]
    changes = [(call.at, 1) for call in calls]
    changes += [(ends[call.life - 1] if call.ended is None else call.ended, -1) for call in calls]
    peak = count = 0
    for _, change in sorted(changes):
        count += change
        peak = max(peak, count)
    return peak


INVARIANTS: tuple[Invariant, ...] = (
    every_record_has_one_outcome,
    what_is_finished_stays,
    no_call_is_made_too_often,
    only_calls_in_flight_are_lost,
    no_call_follows_a_cancel,
    never_more_in_flight_than_slots,
    denominators_add_up,
    an_error_is_never_a_score,
    a_grade_has_every_answer_that_it_needs,
    an_answer_is_kept_as_it_was_given,
    every_failure_is_somebody_elses,
    artifacts_are_as_the_manifest_says,
    the_final_state_is_right,
    the_budget_is_kept,
    rates_are_kept,
    nobody_is_asked_again_too_soon,
    nobody_stands_still,
    a_provider_without_quota_is_left_alone,
    scores_are_what_judges_said,
    slow_answers_do_not_pass,
    tokens_are_kept,
)
