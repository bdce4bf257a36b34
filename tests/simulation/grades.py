"""What must be true of the grades of every history, and of the tokens that they took."""

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import count
from math import isclose
from typing import Any

from tests.simulation.history import History
from tests.simulation.scenario import HOSTS
from tests.simulation.sealed import Line, Sealed
from tests.simulation.world import MOMENT, Call

BURST = 1.0
"""Seconds by which a rate may be ahead."""
SLOW = "timeout_or_latency_exceeded"
_OBJECT = re.compile(r"\{.*\}", re.DOTALL)
_VALUES = ("score", "criteria_met", "result")
"""Members of a verdict that decide."""


def scores_are_what_judges_said(history: History, sealed: Sealed) -> Iterator[str]:
    """Each score is in the reply of its own judge to its own question, wherever the reply is whole."""
    calls = {f"req-{call.number}": call for call in history.calls}
    replies: dict[int, dict[tuple[str, str], Any]] = defaultdict(dict)
    for (position, call_id), attempts in sealed.by_call.items():
        last = attempts[-1]
        if last["stage"] == "judge" and last["error_code"] is None and last["request_id"] in calls:
            replies[position][call_id.partition("@")[0].removesuffix(":again"), last["model"]] = calls[last["request_id"]].said
    for line in sealed.predictions:
        places: dict[str, Iterator[int]] = defaultdict(count)
        for score in line["evaluator_scores"] or ():
            judge = score.get("judge")
            said = _said(replies[line["index"]], score, place=next(places[judge])) if judge else None
            if said is not None and not isclose(float(said), score["score"], abs_tol=1e-9):
                yield f"{judge} said {said} of {score['criterion']} in record {line['index']}, and the score is {score['score']}"


def _said(replies: dict[tuple[str, str], str], score: Line, *, place: int) -> Any:
    """What a judge said to one criterion; None where its reply is not a whole verdict."""
    judge = score["judge"]
    alone = replies.get((f"judge:{score['criterion']}", judge))
    of_judge = [said for (_, model), said in replies.items() if model == judge]
    found = _OBJECT.search(alone if alone is not None else of_judge[0] if len(of_judge) == 1 else "")
    try:
        verdict = json.loads(found.group()) if found else {}
    except ValueError:
        return None
    if "verdicts" in verdict:
        verdict = verdict["verdicts"][place]
    return next((verdict[name] for name in _VALUES if name in verdict), None)


def slow_answers_do_not_pass(history: History, sealed: Sealed) -> Iterator[str]:  # noqa: ARG001
    """An answer that took longer than its record allows fails for that reason, and no other one does."""
    for line, kept in zip(sealed.predictions, sealed.lines("cases.jsonl"), strict=True):
        allowed = kept["record"].get("max_latency_ms")
        if line["status"] != "evaluated" or "latency_unknown" in line["flags"]:
            continue
        is_late = allowed is not None and line["latency_ms"] > allowed
        if is_late and (line["passed"] or line["label"] != SLOW):
            yield f"record {line['index']} took {line['latency_ms']} of {allowed} ms, and passed is {line['passed']}"
        if not is_late and line["label"] == SLOW:
            yield f"record {line['index']} took {line['latency_ms']} of {allowed} ms, and is called late"


def tokens_are_kept(history: History, sealed: Sealed) -> Iterator[str]:
    """No call begins before the tokens of those that have ended are paid off, but for one second."""
    used = {attempt["request_id"]: attempt["total_tokens"] or 0 for attempt in sealed.attempts if "cached" not in attempt["flags"]}
    for provider in history.scenario.run_file["providers"]:
        rate = provider.get("tokens_per_minute")
        for life in range(1, len(history.endings) + 1) if rate else ():
            calls = [call for call in history.calls if (call.life, call.host) == (life, HOSTS[provider["name"]])]
            yield from (f"{provider['name']} in life {life}: {problem}" for problem in _too_soon(calls, used, 60.0 / rate))


def _too_soon(calls: list[Call], used: dict[str, int], interval: float) -> Iterator[str]:
    for call in calls:
        due = 0.0
        ended = [other for other in calls if other.ended is not None and other.ended < call.at - MOMENT]
        for other in sorted(ended, key=lambda other: other.ended or 0.0):
            tokens = used.get(f"req-{other.number}", 0)
            due = max(due, other.at) + tokens * interval if tokens else due
        if call.at < due - BURST - MOMENT:
            yield f"call {call.number} began at {call.at:.3f}, and tokens were paid off at {due - BURST:.3f}"
            return
