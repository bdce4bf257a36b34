"""What a pipeline has to know of a run: each gate with what became of it, and each record."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from assay import api
from assay.core.artifact_lines import FailureLine, PredictionLine
from assay.presentation.run_decision import gate_decisions
from assay.presentation.run_report import RunReport
from assay.presentation.words import BASELINE, MISSED, NO_RESULT, finding_word, sampled_name, without_code

Outcome = Literal["passed", "failure", "error", "skipped"]
"""`failure`: there is a verdict, and it is no; `error`: there is none."""

_OUTCOMES: dict[str, Outcome] = {MISSED: "failure", NO_RESULT: "error", "UNFINISHED": "error", "BLOCKED": "error"}
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
    """It is worth telling, and fails nothing."""


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
        """The run as its reader knows it."""
        return self.run.folders.run_id

    @property
    def subject(self) -> str:
        """What was evaluated, the same from run to run."""
        return self.run.result.candidate or "run"

    def records(self) -> Iterator[RecordCheck]:
        """Every record, valid or not."""
        yield from map(_record, self.run.predictions())
        yield from (_invalid(line) for line in self.run.failures() if line.status == "invalid_record")


def checked_run(run: api.RunReader) -> CheckedRun:
    """A run with its own gates."""
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
    """A run with what `assay gate` decided about it."""
    gates = [
        CiCheck(
            name=_subject(finding.reason),
            outcome="failure" if finding.is_failure else "passed",
            kind=finding_word(finding),
            reason=finding.reason,
            is_warning=finding.word == "WARNING" and not finding.is_failure,
        )
        for finding in verdict.reasons
    ]
    return CheckedRun(run=run, gates=tuple(gates))


def problem_run(run: api.RunReader, reason: str) -> CheckedRun:
    """A run that nothing could be decided about."""
    return CheckedRun(run=run, gates=(CiCheck(name="verdict", outcome="error", kind=NO_RESULT, reason=reason),))


def _subject(reason: str) -> str:
    """What a reason is about, the same from run to run: the words before its first figure."""
    subject = _FIGURE.split(reason, maxsplit=1)[0].strip(" :") or "gate"
    return f"{subject} {BASELINE}" if BASELINE in reason and BASELINE not in subject else subject


def optional_run(checked: CheckedRun) -> CheckedRun:
    """A run that may fail: what its gates say against it is a warning."""
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
    """Behind `assay show RUN`; an id that looks like an option goes last."""
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
    name = f"record {line.index}" if line.record_id is None else line.record_id
    return RecordCheck(
        name=name,
        outcome="error",
        kind=line.code,
        reason=line.message,
        dataset="invalid records",
        shown_by=(str(line.index),),
    )


def failing(checks: Iterable[CiCheck]) -> list[CiCheck]:
    """Those that did not pass."""
    return [check for check in checks if check.outcome in ("failure", "error")]
