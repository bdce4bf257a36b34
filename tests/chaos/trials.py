"""A run that something happens to: start it, strike, wait for its end, and find everything that is not as it should be."""

import json
import random
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from assay import api
from tests.chaos.faults import HEARTBEAT_TIMEOUT, Fault, Trial, Wound
from tests.chaos.fleet import PATIENCE, Fleet, kill, results_in
from tests.crash.check import problems_of, stable_artifacts
from tests.integrations.temporal.machines import until

RECOVERY_LIMIT = 1.5 * HEARTBEAT_TIMEOUT
CANCELLED = 130
"""Exit code of whoever watches a run that is cancelled."""


class Finding(msgspec.Struct, kw_only=True):
    """What one trial has shown."""

    lost: int = 0
    duplicated: int = 0
    repeated: int = 0
    bound: int = 0
    recovery: float | None = None
    """Seconds from the fault to the next call for what it interrupted, the longest of several; for a cancel, to the end."""
    seconds: float = 0.0
    problems: list[str] = []

    def allow(self, bound: int, *, because: str) -> None:
        """So many calls may be repeated, and more are a problem."""
        self.bound = bound
        if self.repeated > bound:
            self.problems.append(f"{self.repeated} calls were repeated, and {bound} are allowed: {because}")


def tried(fleet: Fleet, run_id: str, chance: random.Random, *, fault: Fault) -> Finding:
    """What a run is worth that is struck at a random moment of its first half."""
    fleet.complete()
    fleet.provider.calls.clear()
    fleet.provider.heard.clear()
    trial = Trial(fleet=fleet, run_id=run_id, chance=chance, submitter=fleet.site.start(run_id))
    try:
        return _struck(trial, fault)
    finally:
        kill(trial.submitter)


def _struck(trial: Trial, fault: Fault) -> Finding:
    heard, begun = trial.fleet.provider.heard, time.monotonic()
    moment = 0 if fault.is_early else round(trial.chance.uniform(0.05, 0.4) * trial.fleet.bench.calls.total())
    until(lambda: len(heard) >= moment or trial.submitter.poll() is not None, patience=PATIENCE)
    struck = time.monotonic()
    try:
        bound = fault.strike(trial)
    except AssertionError as problem:
        return Finding(problems=[f"{trial.run_id} could not be struck: {problem}", *_ended(trial, code=0)])
    ended = _ended(trial, code=CANCELLED if fault.is_cancel else 0)
    over = time.monotonic()
    found = counted(trial.fleet, trial.fleet.bench.job.runs / trial.run_id)
    found.seconds = over - begun
    found.recovery = over - struck if fault.is_cancel else recovery_of(trial.wounds, heard)
    found.problems = [*ended, *_problems(trial, is_cancel=fault.is_cancel)]
    found.allow(bound, because=fault.because)
    return found


def _ended(trial: Trial, *, code: int) -> list[str]:
    try:
        _, complained = trial.submitter.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return ["the run has not come to its end"]
    ended = trial.submitter.returncode
    return [] if ended == code else [f"it ended with {ended} instead of {code}: {complained}"]


def recovery_of(wounds: Sequence[Wound], heard: Sequence[tuple[float, str]]) -> float | None:
    """Seconds until somebody went on with what was interrupted, the longest; None when nothing was left to do."""
    waits = [_wait(wound, heard) for wound in wounds]
    return max((wait for wait in waits if wait is not None), default=None)


def _wait(wound: Wound, heard: Sequence[tuple[float, str]]) -> float | None:
    """Seconds until a call is heard for what was interrupted; None when there was nothing left to ask."""
    after = (at - wound.at for at, case in heard if wound.cases is None or case in wound.cases)
    return next((wait for wait in after if wait >= wound.settle), None)


def counted(fleet: Fleet, folder: Path) -> Finding:
    """How many results and calls a run has beside those of a run in peace."""
    bench = fleet.bench
    wanted = Counter(results_in(bench.job.runs / "peaceful"))
    results = Counter(results_in(folder)) if (folder / "predictions.jsonl").is_file() else Counter[str]()
    return Finding(
        lost=(wanted - results).total(),
        duplicated=(results - wanted).total(),
        repeated=(bench.provider.calls - bench.calls).total(),
    )


def _problems(trial: Trial, *, is_cancel: bool) -> list[str]:
    bench = trial.fleet.bench
    if not is_cancel or not (bench.job.runs / trial.run_id / "run_manifest.json").is_file():
        return problems_of(bench.job, trial.run_id, bench.expected)
    return _cancelled(trial)


def _cancelled(trial: Trial) -> list[str]:
    """What is wrong with a run that was cancelled: each record has the result of a run in peace, or none and says so."""
    job, expected = trial.fleet.bench.job, trial.fleet.bench.expected
    found = [f"verify: {line}" for line in api.verify(trial.run_id, runs_dir=job.runs)]
    found += [f"replay: {line}" for line in api.replay(trial.run_id, runs_dir=job.runs)]
    manifest = json.loads((job.runs / trial.run_id / "run_manifest.json").read_text(encoding="utf-8"))
    state = manifest["states"][-1]["state"]
    if state != "cancelled":
        found.append(f"it ended as {state}")
    known = _by_record(expected)
    lines = _by_record(stable_artifacts(job.runs / trial.run_id)).items()
    return found + [f"{record} differs" for record, line in lines if line["status"] != "cancelled" and line != known[record]]


def _by_record(artifacts: dict[str, Any]) -> dict[str, Any]:
    return {line["record_id"]: line for line in artifacts["predictions.jsonl"]}
