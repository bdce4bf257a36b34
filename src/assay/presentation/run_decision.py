"""Whether a run is good enough, and every reason for it."""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from assay.core.gate_text import GateText, MissedGate, gate_texts, missed_gates
from assay.core.run_result import RunResult
from assay.presentation.run_report import Json, RunReport
from assay.presentation.sections import Badge, DecisionView, Fact
from assay.presentation.words import BLOCKED, MET, MISSED, NO_GATES, NO_RESULT, TONES, UNFINISHED

_NAMES = {"pass_rate": "pass rate", "min_score": "mean score", "max_error_rate": "error rate"}
TEXT_LIMIT = 400
"""Characters of a reason, or of a note, that a report in text shows."""


class RunDecision(msgspec.Struct, frozen=True):
    """One word on a run, and a reason for it that may hold text from outside."""

    word: str
    reason: str
    gate: str = ""
    """The gate that was missed, as the plan names it; empty where the decision is about the whole run."""


def decisions(view: RunReport) -> list[RunDecision]:
    """Every decision on a run; MISSED for each gate that it did not meet."""
    # Of a run that can be resumed the verdict itself names the provider.
    is_blocked = view.result.blocked and not view.result.is_resumable
    blocked = [RunDecision(BLOCKED, f"a provider takes no more calls: {view.result.blocked}")] if is_blocked else []
    return [*blocked, *_verdicts(view)]


def gate_decisions(view: RunReport) -> list[RunDecision]:
    """As `decisions`, with one for each gate, whether it was met or missed."""
    made = decisions(view)
    if not any(decision.word in (MISSED, MET) for decision in made):
        return made
    missed = [decision for decision in made if decision.word != MET]
    names = {decision.gate for decision in missed}
    return [*missed, *(RunDecision(MET, gate.met, gate.gate) for gate in _gates(view) if gate.gate not in names)]


def word_for(view: RunReport) -> str:
    """The one word for a run: MISSED, NO RESULT, UNFINISHED, MET, or that no gates are set."""
    return _verdicts(view)[0].word


def decision_facts(view: RunReport) -> list[Fact]:
    """Every decision as a line of a report in text; a ranking without gates has nothing to decide."""
    found = [_fact(decision) for decision in decisions(view) if not (decision.word == NO_GATES and view.is_ranking)]
    note = decision_note(view)
    return [*found, Fact("note", note, limit=TEXT_LIMIT)] if note else found


def _fact(decision: RunDecision) -> Fact:
    if decision.word == NO_GATES:
        return Fact("gates", f"none set ({decision.reason})")
    return Fact(decision.word, decision.reason, tone=TONES.get(decision.word, "bad"), limit=TEXT_LIMIT)


def decision_marks(view: RunReport, reasons: Mapping[str, str] = MappingProxyType({})) -> tuple[DecisionView, ...]:
    """Every decision as a mark with its reason; `reasons` are the words of a surface for some, in place of the command line's."""
    return tuple(
        DecisionView(Badge(found.word, TONES.get(found.word, "quiet")), reasons.get(found.word, "{}").format(found.reason))
        for found in decisions(view)
    )


def _verdicts(view: RunReport) -> list[RunDecision]:
    result, gates = view.result, _gates(view)
    if not result.is_finished:
        return [RunDecision(UNFINISHED, _open_reason(result))]
    if result.is_away:
        return [RunDecision(NO_RESULT, *result.gate.reasons)]
    if result.state == "cancelled":
        # Gates are about all records: what is missed by a part is missed no more than what is reached is reached.
        return [RunDecision(NO_RESULT, reason) for reason in result.gate.reasons]
    if not result.counts.evaluated_records:
        return [RunDecision(NO_RESULT, "nothing could be evaluated")]
    if not result.gate.passed:
        reasons = result.gate.reasons or ("a gate was missed",)
        missed = missed_gates(reasons, gates)
        return [RunDecision(MISSED, miss.reason + _source(miss, view.plan), miss.gate) for miss in missed]
    if gates:
        return [RunDecision(MET, ", ".join(gate.met for gate in gates) + default_gates_text(view.plan))]
    return [RunDecision(NO_GATES, "--pass-rate, --min-score and --max-error-rate set them")]


def decision_note(view: RunReport) -> str:
    """What golden_v1's own formula says, which leaves errors out, where it differs from the decision; else empty.

    It is a note because the run has one decision, and this is not it.
    """
    result = view.result
    missed = [check.name for check in result.gate.gates if not check.met]
    formula = [gate for gate in _gates(view) if gate.gate in ("pass_rate", "min_score")]
    is_golden = all(dataset["contract"] == "golden_v1" for dataset in view.plan.get("datasets", ()))
    is_decided = result.is_finished and not result.is_away and result.counts.evaluated_records
    if not is_decided or not is_golden or missed != ["max_error_rate"] or not formula:
        return ""
    return f"overall_passed of golden_v1 is true, which leaves errors out: {', '.join(gate.met for gate in formula)}"


def _open_reason(result: RunResult) -> str:
    if result.is_resumable:
        return f"the run has failed: {result.problem}; assay resume continues it"
    if result.problem:
        return f"a worker cannot continue: {result.problem}"
    if result.waiting:
        return f"the run {result.waiting}; assay resume collects them"
    if result.driver:
        return f"process {result.driver} works on it; assay resume waits for its end"
    return "workers continue it" if result.is_elsewhere else "the run can be resumed; finished records are not repeated"


def default_gates_text(plan: Json) -> str:
    """Which gates nobody has set, because their contract does; empty where there are none."""
    defaults, contract = plan.get("default_gates") or (), plan["datasets"][0]["contract"]
    if not defaults:
        return ""
    is_all = {name for name, limit in plan["gates"].items() if limit is not None} == set(defaults)
    names = "" if is_all else ", ".join(name for gate, name in _NAMES.items() if gate in defaults) + ": "
    return f" · {names}defaults of {contract}"


def _source(miss: MissedGate, plan: Json) -> str:
    """The contract, behind a reason that is about one of its gates."""
    is_default = miss.gate in (plan.get("default_gates") or ())
    return f", the default of {plan['datasets'][0]['contract']}" if is_default else ""


def _gates(view: RunReport) -> list[GateText]:
    return gate_texts(view.plan.get("gates") or {}, view.summary)
