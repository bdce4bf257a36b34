"""Whether a run is good enough, with every reason; and each gate and record as a check of a pipeline."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Literal

import msgspec

from assay import api
from assay.core.artifact_lines import FailureLine, PredictionLine
from assay.core.gate_text import GateText, MissedGate, gate_texts, missed_gates
from assay.core.plan import Plan
from assay.core.run_result import RunResult
from assay.core.settings import gate_limits
from assay.presentation.run_report import RunReport
from assay.presentation.sections import Badge, DecisionView, Fact
from assay.presentation.words import (
    BLOCKED,
    MET,
    MISSED,
    NO_GATES,
    NO_RESULT,
    TONES,
    UNFINISHED,
    finding_word,
    sampled_name,
    without_code,
)

_NAMES = {
    "pass_rate": "pass rate",
    "min_score": "mean score",
    "max_error_rate": "error rate",
    "max_truncated": "share of truncated answers",
    "min_tool_calls": "share of correct tool calls",
}
TEXT_LIMIT = 400
"""Characters of a reason, or of a note, that a report in text shows."""


class RunDecision(msgspec.Struct, frozen=True):
    """One word on a run, and a reason for it that may hold text from outside."""

    word: str
    reason: str
    gate: str = ""
    """Gate that was missed, as the plan names it; empty where the decision is about the whole run."""


def decisions(view: RunReport) -> list[RunDecision]:
    """Return every decision on a run; MISSED for each gate that it did not meet."""
    # Of a run that can be resumed the verdict itself names the provider.
    is_blocked = view.result.blocked and not view.result.is_resumable
    blocked = [RunDecision(BLOCKED, f"a provider takes no more calls: {view.result.blocked}")] if is_blocked else []
    return [*blocked, *_verdicts(view)]


def gate_decisions(view: RunReport) -> list[RunDecision]:
    """Return the same as `decisions`, with one for each gate, met or missed."""
    made = decisions(view)
    if not any(decision.word in (MISSED, MET) for decision in made):
        return made
    # The words of a missed gate come from the decision, which knows the run's own reasons; those of a met gate
    # from the gate.
    missed = [decision for decision in made if decision.word != MET]
    names = {decision.gate for decision in missed}
    return [*missed, *(RunDecision(MET, gate.met, gate.gate) for gate in _gates(view) if gate.gate not in names)]


def word_for(view: RunReport) -> str:
    """Return the one word for a run: MISSED, NO RESULT, UNFINISHED, MET, or that no gates are set."""
    return _verdicts(view)[0].word


def decision_facts(view: RunReport) -> list[Fact]:
    """Return every decision as a line of a report in text; a ranking without gates has nothing to decide."""
    found = [_fact(decision) for decision in decisions(view) if not (decision.word == NO_GATES and view.is_ranking)]
    note = decision_note(view)
    return [*found, Fact("note", note, limit=TEXT_LIMIT)] if note else found


def _fact(decision: RunDecision) -> Fact:
    if decision.word == NO_GATES:
        return Fact("gates", f"none set ({decision.reason})")
    return Fact(decision.word, decision.reason, tone=TONES.get(decision.word, "bad"), limit=TEXT_LIMIT)


def decision_marks(view: RunReport, reasons: Mapping[str, str] = MappingProxyType({})) -> tuple[DecisionView, ...]:
    """Return every decision as a mark with its reason; `reasons` has a surface's own words for some."""
    return tuple(
        # Only the surface's own words are a format string: the reason may quote text from outside, and its braces
        # stay as they are.
        DecisionView(Badge(found.word, TONES.get(found.word, "quiet")), reasons.get(found.word, "{}").format(found.reason))
        for found in decisions(view)
    )


def _verdicts(view: RunReport) -> list[RunDecision]:
    # The order matters: the gate result of an unfinished or cancelled run is about a part of its records, and
    # must not be shown as a verdict on the run.
    result, gates = view.result, _gates(view)
    if not result.is_finished:
        return [RunDecision(UNFINISHED, _open_reason(result))]
    if result.is_away or result.state == "cancelled":
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
    return [RunDecision(NO_GATES, "--pass-rate, --min-score, --max-error-rate and --max-truncated set them")]


def decision_note(view: RunReport) -> str:
    """Return what golden_v1's own formula says, which leaves errors out, where it differs from the decision; else empty.

    It is a note because the run has one decision, and this is not it.
    """
    result = view.result
    missed = [check.name for check in result.gate.gates if not check.met]
    formula = [gate for gate in _gates(view) if gate.gate in ("pass_rate", "min_score")]
    # Other contracts have no formula of their own that could differ.
    is_golden = all(dataset.contract == "golden_v1" for dataset in view.plan.datasets)
    is_decided = result.is_finished and not result.is_away and result.counts.evaluated_records
    if not is_decided or not is_golden or missed != ["max_error_rate"] or not formula:
        return ""
    return f"overall_passed of golden_v1 is true, which leaves errors out: {', '.join(gate.met for gate in formula)}"


def _open_reason(result: RunResult) -> str:
    if result.is_resumable:
        # Asked first: a failed run has a problem too, and resuming is what its reader can do.
        return f"the run has failed: {result.problem}; assay resume continues it"
    if result.problem:
        return f"a worker cannot continue: {result.problem}"
    if result.waiting:
        return f"the run {result.waiting}; assay resume collects them"
    if result.driver:
        return f"process {result.driver} works on it; assay resume waits for its end"
    return "workers continue it" if result.is_elsewhere else "the run can be resumed; finished records are not repeated"


def default_gates_text(plan: Plan) -> str:
    """Return which gates are defaults of the contract; empty for none."""
    defaults = plan.default_gates
    if not defaults:
        return ""
    # Where every set gate is a default, the contract alone says it; otherwise each default has to be named.
    is_all = set(gate_limits(plan.gates)) == set(defaults)
    names = "" if is_all else ", ".join(name for gate, name in _NAMES.items() if gate in defaults) + ": "
    return f" · {names}defaults of {plan.datasets[0].contract}"


def _source(miss: MissedGate, plan: Plan) -> str:
    """Return the contract, behind a reason that is about one of its gates."""
    return f", the default of {plan.datasets[0].contract}" if miss.gate in plan.default_gates else ""


def _gates(view: RunReport) -> list[GateText]:
    return gate_texts(view.plan.gates, view.summary)


# Gates and records as checks of a pipeline

Outcome = Literal["passed", "failure", "error", "skipped"]
"""`failure`: there is a verdict, and it is no; `error`: there is none."""

_OUTCOMES: dict[str, Outcome] = {MISSED: "failure", NO_RESULT: "error", UNFINISHED: "error", BLOCKED: "error"}
_FIGURE = re.compile(r"[+-]?\d")
_SKIPPED = frozenset({"cancelled", "skipped"})


class CiCheck(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was checked."""

    name: str
    outcome: Outcome
    kind: str = ""
    """A word for what is wrong."""
    reason: str = ""
    is_warning: bool = False
    """It is worth a warning, and fails nothing."""


class RecordCheck(CiCheck, frozen=True, kw_only=True):
    """One record."""

    dataset: str
    shown_by: tuple[str, ...] = ()
    """What `assay show RUN` needs besides to show it."""
    answer: str = ""
    seconds: float | None = None


class CheckedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run and what was decided about it."""

    run: api.RunReader
    gates: tuple[CiCheck, ...]

    @property
    def name(self) -> str:
        """Run as its reader knows it."""
        return self.run.folders.run_id

    @property
    def subject(self) -> str:
        """What was evaluated, the same from run to run."""
        return self.run.result.candidate or "run"

    @property
    def failing_gates(self) -> list[CiCheck]:
        """Gates that were missed, or about which nothing is known."""
        return [check for check in self.gates if check.outcome in ("failure", "error")]

    def records(self) -> Iterator[RecordCheck]:
        """Yield every record, valid or not."""
        yield from map(_record, self.run.predictions())
        yield from (_invalid(line) for line in self.run.failures() if line.status == "invalid_record")


def checked_run(run: api.RunReader) -> CheckedRun:
    """Return a run with its own gates."""
    view = RunReport(result=run.result, manifest=run.run_manifest)
    gates = [
        CiCheck(
            name=_subject(decision.reason),
            outcome=_OUTCOMES.get(decision.word, "passed"),
            kind=decision.word,
            reason=decision.reason,
        )
        for decision in gate_decisions(view)
    ]
    return CheckedRun(run=run, gates=tuple(gates))


def gated_run(run: api.RunReader, verdict: api.GateDecision) -> CheckedRun:
    """Return a run with what `assay gate` decided about it."""
    gates = [
        CiCheck(
            name=_subject(finding.reason, is_difference=finding.is_difference),
            outcome="failure" if finding.is_failure else "passed",
            kind=finding_word(finding),
            reason=finding.reason,
            is_warning=finding.word == "WARNING" and not finding.is_failure,
        )
        for finding in verdict.reasons
    ]
    return CheckedRun(run=run, gates=tuple(gates))


def problem_run(run: api.RunReader, reason: str) -> CheckedRun:
    """Return a run without a decision."""
    return CheckedRun(run=run, gates=(CiCheck(name="verdict", outcome="error", kind=NO_RESULT, reason=reason),))


def _subject(reason: str, *, is_difference: bool = False) -> str:
    """Return what a reason is about, the same from run to run: the words before its first figure."""
    # CI servers follow a check over builds by its name, so the name must not contain what was measured.
    subject = _FIGURE.split(reason, maxsplit=1)[0].strip(" :") or "gate"
    return f"{subject} against the baseline" if is_difference else subject


def optional_run(checked: CheckedRun) -> CheckedRun:
    """Return a run that may fail: what its gates say against it is a warning."""
    # An allowed failure stays visible in the job as a warning; JUnit has no such outcome.
    gates = [
        msgspec.structs.replace(gate, outcome="passed", is_warning=True) if gate.outcome != "passed" else gate
        for gate in checked.gates
    ]
    return msgspec.structs.replace(checked, gates=tuple(gates))


def _record(line: PredictionLine) -> RecordCheck:
    outcome, kind, reason = _standing(line)
    latency = line.total_latency_ms
    return RecordCheck(
        name=sampled_name(line),
        outcome=outcome,
        kind=kind,
        reason=reason,
        dataset=line.dataset,
        shown_by=_shown_by(line),
        answer=line.model_response or "",
        seconds=None if latency is None else latency / 1000,
    )


def _shown_by(line: PredictionLine) -> tuple[str, ...]:
    """Return the arguments of `assay show RUN`; an id that looks like an option goes last."""
    # As `assay show` would otherwise read the id as an option.
    sample = ("--sample", str(line.sample)) if line.sample is not msgspec.UNSET else ()
    return (*sample, "--", line.record_id) if line.record_id.startswith("-") else (line.record_id, *sample)


def _standing(line: PredictionLine) -> tuple[Outcome, str, str]:
    if line.status in _SKIPPED:
        return "skipped", line.status, line.error_message or "never evaluated"
    if line.status != "evaluated":
        code = line.error_code or line.status
        return "error", code, without_code(code, line.error_message or "")
    if line.passed:
        return "passed", "", ""
    return "failure", line.label or "not_passed", line.justification or ""


def _invalid(line: FailureLine) -> RecordCheck:
    # An invalid record may lack an id, or have the id of another one: the index alone is sure to find it.
    name = f"record {line.index}" if line.record_id is None else line.record_id
    return RecordCheck(
        name=name,
        outcome="error",
        kind=line.code,
        reason=line.message,
        dataset="invalid records",
        shown_by=(str(line.index),),
    )
