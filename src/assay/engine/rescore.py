"""Rescoring: a finished run into a new one with the score of a benchmark, from its sealed artifacts alone; no model is called."""

import platform
import shutil
from collections.abc import Iterator
from itertools import groupby

import msgspec

from assay.core.artifact_lines import AttemptLine, PredictionLine
from assay.core.canonical import JsonObject, pretty_json
from assay.core.case import Case
from assay.core.contract import INPUT
from assay.core.errors import RunSealed, UsageProblem
from assay.core.manifest import OWN_HASH
from assay.core.plan import Plan, plan_sha256
from assay.core.settings import Gates, ProfileId
from assay.core.summary import GateResult
from assay.core.text import iso
from assay.core.version import __version__
from assay.engine.finalization.recompute import columns_of, metrics_of
from assay.engine.planning.request import PlanProblems
from assay.engine.records.run_metrics import (
    EVAL_RESULTS,
    ProfileScorer,
    Replies,
    UnsupportedRecords,
    is_true_of,
    profiler_of,
    read_panel,
    regated,
    why_no_eval_run,
)
from assay.engine.storage.run_paths import RunPaths, check_target_free, intact_run
from assay.grading import kind_of
from assay.metrics.profiles import Profile
from assay.store.artifacts import CASES, StagingFolder, read_pieces
from assay.store.failures import disk_errors
from assay.store.published_run import PublishedRun

_SAME = (INPUT, CASES, "record_validation.jsonl", "attempt_logs.jsonl", "failures.jsonl", "responses.jsonl")
"""Artifacts that another score does not change."""
_OWN = ("artifacts", OWN_HASH)
"""Manifest members that each run has for itself."""


class RescoreRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a rescored run."""

    profile: ProfileId
    compat: bool = False
    min_score: float | None = None
    """Gate on the headline; None takes that of the old run, where it was about the same profile."""


def rescore(parent: RunPaths, target: RunPaths, *, wanted: RescoreRequest, at: float) -> None:
    """Publish a run with the records of a finished one and the score of a profile.

    Raises UsageProblem for a run that has not ended or is not as it was published, PlanProblems with every record that the
    profile is not for, RunSealed where the new run exists already.
    """
    run = intact_run(parent)
    plan = _plan(run, target.run_id, wanted=wanted)
    profiler = profiler_of(plan)
    assert profiler is not None, "a profile is named"
    _check_gate(plan.gates, profiler.profile)
    _check_fit(run, profiler)
    _check_target(target)
    with disk_errors(target.active, is_new=True):
        target.active.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with StagingFolder(target.active) as staging:
            _write(run, plan, profiler=profiler, staging=staging, at=at)
            staging.publish(target.sealed)
    finally:
        shutil.rmtree(target.active, ignore_errors=True)


def _plan(run: PublishedRun, run_id: str, *, wanted: RescoreRequest) -> Plan:
    plan = run.manifest.settings
    is_same = plan.profile == wanted.profile
    # Another profile has another scale, on which the old threshold would mean something else.
    kept = plan.gates.min_score if is_same else None
    gates = msgspec.structs.replace(plan.gates, min_score=kept if wanted.min_score is None else wanted.min_score)
    return msgspec.structs.replace(
        plan,
        run_id=run_id,
        group=msgspec.UNSET,
        parent_run_id=run.manifest.run_id,
        profile=wanted.profile,
        compat=wanted.compat,
        gates=gates,
        default_gates=tuple(name for name in plan.default_gates if name != "min_score"),
    )


def _check_gate(gates: Gates, profile: Profile) -> None:
    score = gates.min_score
    if score is not None and not profile.has_on_scale(score):
        raise UsageProblem(
            f"{score:g} is not on the scale {profile.scale} of the profile '{profile.id}'",
            hint="correct --min-score, or leave it out",
        )


def _check_fit(run: PublishedRun, profiler: ProfileScorer) -> None:
    if run.manifest.settings.grader() is not None:
        raise UsageProblem(
            f"run '{run.path.name}' was graded by a grader of its own, and a profile scores by its own rules",
            hint="grade the answers again: assay run DATASET --responses RUN --profile P",
        )
    misfits = UnsupportedRecords(profiler.profile)
    for entry in run.records():
        if entry.sample:
            # The second answer to a record is to the same record.
            continue
        misfits.look_at(entry.record_id, kind_of(run.case_of(entry)) or "")
    problems = misfits.problems()
    if problems:
        raise PlanProblems(problems)


def _check_target(target: RunPaths) -> None:
    if target.exists:
        raise RunSealed(f"run '{target.run_id}' exists already", hint="choose another --run-id")
    check_target_free(target)


def _write(run: PublishedRun, plan: Plan, *, profiler: ProfileScorer, staging: StagingFolder, at: float) -> None:
    for name in (name for name in _SAME if name in run.manifest.files):
        writer = staging.open_lines(name)
        for piece in read_pieces(run.path / name):
            writer.write(piece)
    predictions = staging.open_lines("predictions.jsonl")
    replies = _Replies(run, is_needed=profiler.profile.is_compat, has_bodies=plan.keep_raw)

    def score(raw: bytes, prediction: PredictionLine, case: Case) -> None:
        profiler.apply(prediction, case, replies.of(prediction.index))
        # The line itself is written, not what this version knows of it: a member of another version stays where it is.
        line: JsonObject = msgspec.json.decode(raw)
        found: JsonObject = {"profile_score": prediction.profile_score, "profile_unscored": prediction.profile_unscored}
        if prediction.profile_bounds is not msgspec.UNSET:
            found["profile_bounds"] = prediction.profile_bounds
        # The old profile's, which the new one may not have.
        line.pop("profile_bounds", None)
        predictions.line(msgspec.json.encode({**line, **found}))

    is_cancelled = run.manifest.status == "cancelled"
    metrics = metrics_of(columns_of(run, plan, read=score), plan, panel=read_panel(run, plan), is_cancelled=is_cancelled)
    for name, document in metrics.documents().items():
        staging.write(name, pretty_json(document))
    gate = metrics.gate
    if (run.path / EVAL_RESULTS).is_file() and not why_no_eval_run(plan):
        eval_run = regated(run.document(EVAL_RESULTS), plan, gate.gates)
        if is_true_of(eval_run, is_cancelled=is_cancelled):
            staging.write(EVAL_RESULTS, pretty_json(eval_run))
    staging.seal(_manifest(run, plan, profiler=profiler, gate=gate, at=iso(at)))


class _Replies:
    """Judges' replies, record by record in the order of the predictions."""

    def __init__(self, run: PublishedRun, *, is_needed: bool, has_bodies: bool) -> None:
        self._has_bodies = has_bodies
        logged = run.typed_lines("attempt_logs.jsonl", AttemptLine) if is_needed else ()
        self._records = groupby((line for line in logged if line.stage == "judge"), key=lambda line: line.index)
        self._next: tuple[int, Iterator[AttemptLine]] | None = next(self._records, None)

    def of(self, index: int) -> Replies:
        """Return the first reply to each call about the record at an index."""
        replies: dict[str, str] = {}
        if self._next is not None and self._next[0] == index:
            for line in self._next[1]:
                if line.error_code is None and line.response is not None:
                    replies.setdefault(line.call_id, self._text(line, line.response))
            self._next = next(self._records, None)
        return replies

    def _text(self, line: AttemptLine, text: str) -> str:
        """Return the judge's reply; raises UsageProblem for runs in which an earlier version stored only whole bodies."""
        if self._has_bodies and line.raw is msgspec.UNSET:
            raise UsageProblem(
                "an earlier version kept the providers' whole replies instead of the judges' words, which --compat reads",
                hint="rescore the run without --compat",
            )
        return text


def _manifest(run: PublishedRun, plan: Plan, *, profiler: ProfileScorer, gate: GateResult, at: str) -> dict[str, object]:
    """Return the members of the old run's manifest, also those of a later version, without those that are the new run's own."""
    old = run.manifest
    kept = {name: member for name, member in run.members.items() if name not in _OWN}
    # Of a rescored run the time of its first parent: that is when models were called.
    evaluated_at = old.completed_at if old.rescored_from is None else old.rescored_from.completed_at
    return {
        **kept,
        "assay_version": __version__,
        "run_id": plan.run_id,
        "created_at": at,
        "started_at": None,
        "completed_at": at,
        "states": [{"state": state, "entered_at": at} for state in ("finalizing", old.status)],
        "gate": msgspec.to_builtins(gate),
        "profile": msgspec.to_builtins(profiler.profile.named()),
        "plan": msgspec.to_builtins(plan),
        "plan_sha256": plan_sha256(plan),
        "rescored_from": {"run_id": old.run_id, OWN_HASH: old.own_hash, "completed_at": evaluated_at},
        "environment": {"python": platform.python_version(), "platform": platform.system()},
    }
