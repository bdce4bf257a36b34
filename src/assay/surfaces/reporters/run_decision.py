"""Whether a run is good enough, and every reason for it."""

import msgspec

from assay.core.run_result import RunResult
from assay.surfaces.reporters.run_numbers import decimal
from assay.surfaces.reporters.run_view import Json, RunView

_GATES = (
    ("pass_rate", "pass rate", "pass_rate", "at least"),
    ("min_score", "mean score", "raw_score_mean", "at least"),
    ("max_error_rate", "error rate", "error_rate", "at most"),
)
NO_GATES = "no gates"
"""The word where there is nothing to decide."""


class Decision(msgspec.Struct, frozen=True):
    """One word on a run, and a reason for it that may hold text from outside."""

    word: str
    reason: str


def decisions(view: RunView) -> list[Decision]:
    """Every decision on a run; FAIL for each gate that was missed."""
    blocked = [Decision("BLOCKED", f"a provider takes no more calls: {view.result.blocked}")] if view.result.blocked else []
    return [*blocked, *_verdicts(view)]


def gate_decisions(view: RunView) -> list[Decision]:
    """As `decisions`, with one for each gate, whether it was reached or missed."""
    made = decisions(view)
    if not any(decision.word in ("FAIL", "PASS") for decision in made):
        return made
    missed = [decision for decision in made if decision.word != "PASS"]
    reached = [
        Decision("PASS", text)
        for name, text in _reached(view.plan.get("gates") or {}, view.result.metrics)
        if not any(decision.reason.startswith(name) for decision in missed)
    ]
    return [*missed, *reached]


def word_for(view: RunView) -> str:
    """The one word for a run: FAIL, NO RESULT, UNFINISHED, PASS, or that no gates are set."""
    return _verdicts(view)[0].word


def _verdicts(view: RunView) -> list[Decision]:
    result, gates = view.result, view.plan.get("gates") or {}
    if not result.is_finished:
        return [Decision("UNFINISHED", _open_reason(result))]
    if result.is_away:
        return [Decision("NO RESULT", *result.gate.reasons)]
    if result.state == "cancelled":
        # Gates are about all records: what is missed by a part is missed no more than what is reached is reached.
        return [Decision("NO RESULT", reason) for reason in result.gate.reasons]
    if not result.counts.evaluated_records:
        return [Decision("NO RESULT", "nothing could be evaluated")]
    if not result.gate.passed:
        return [Decision("FAIL", reason + _source(reason, view.plan)) for reason in result.gate.reasons or ("a gate was missed",)]
    if gates:
        return [Decision("PASS", ", ".join(text for _, text in _reached(gates, result.metrics)) + default_gates_text(view.plan))]
    return [Decision(NO_GATES, "--pass-rate, --min-score and --max-error-rate set them")]


def _open_reason(result: RunResult) -> str:
    if result.problem:
        return f"a worker cannot go on: {result.problem}"
    if result.waiting:
        return f"the run {result.waiting}; assay resume collects them"
    if result.driver:
        return f"process {result.driver} works on it; assay resume waits for its end"
    return "workers go on with it" if result.is_elsewhere else "the run can be resumed; nothing that is done is done again"


def default_gates_text(plan: Json) -> str:
    """Which gates nobody has set, because their contract does; empty where there are none."""
    defaults, contract = plan.get("default_gates") or (), plan["datasets"][0]["contract"]
    if not defaults:
        return ""
    is_all = {name for name, limit in plan["gates"].items() if limit is not None} == set(defaults)
    names = "" if is_all else ", ".join(name for gate, name, _, _ in _GATES if gate in defaults) + ": "
    return f" · {names}defaults of {contract}"


def _source(reason: str, plan: Json) -> str:
    """The contract, behind a reason that is about one of its gates."""
    defaults = plan.get("default_gates") or ()
    is_default = any(gate in defaults and reason.startswith(name) for gate, name, _, _ in _GATES)
    return f", the default of {plan['datasets'][0]['contract']}" if is_default else ""


def _reached(gates: Json, metrics: Json) -> list[tuple[str, str]]:
    """Each gate that is set, by its name, with what the run has for it."""
    reached = [(name, metrics.get(member), gates.get(gate), word) for gate, name, member, word in _GATES]
    profile = metrics.get("profile")
    if profile:
        # With a profile the gate on the score is one on its headline.
        reached[1] = (profile["id"], profile["headline"], gates.get("min_score"), "at least")
    return [
        (name, f"{name} {decimal(value)} ({word} {decimal(limit)})") for name, value, limit, word in reached if limit is not None
    ]
