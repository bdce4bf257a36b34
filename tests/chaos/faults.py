"""Everything that can go wrong with a machine while a run is under way, and how many calls each may cost."""

import random
import signal
import subprocess
import time
from collections.abc import Callable

import msgspec

from tests.chaos.fleet import PATIENCE, Fleet, Setting, following, kill, owner_of
from tests.temporal.machines import WorkerProcess, until

HEARTBEAT_TIMEOUT = 10.0
"""Seconds of silence after which a worker is missed."""
FREEZE = 1.8 * HEARTBEAT_TIMEOUT
"""Seconds: longer than anybody may take to go on with the work of a worker that stands still."""
SETTLE = 0.5
BETWEEN_RESTARTS = 3.0


class Wound(msgspec.Struct, frozen=True):
    """Work that a fault has interrupted."""

    at: float
    """When somebody could begin to go on with it, by the monotonic clock."""
    cases: frozenset[str] | None = None
    """What it is about; None for everything."""
    settle: float = 0.0
    """Seconds in which the provider may still hear what was sent before: such a call is no recovery."""


class Trial(msgspec.Struct, kw_only=True):
    """One run and what is done to it."""

    fleet: Fleet
    run_id: str
    chance: random.Random
    submitter: "subprocess.Popen[str]"
    wounds: list[Wound] = []


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happens to a run."""

    strike: Callable[[Trial], None]
    bound: Callable[[Setting], int]
    """Calls that may be made once more because of it."""
    because: str
    is_cancel: bool = False
    """The run is to end as cancelled."""


def _victim(trial: Trial) -> tuple[WorkerProcess, frozenset[str]]:
    """A worker that has work in hand, and the cases of its shards."""
    held: dict[str, list[range]] = {}

    def is_working() -> bool:
        held.update(trial.fleet.in_hand(trial.run_id))
        return bool(held)

    until(is_working, patience=PATIENCE)
    owner = trial.chance.choice(sorted(held))
    worker = next(worker for worker in trial.fleet.workers if owner_of(worker) == owner)
    return worker, frozenset(str(case) for part in held[owner] for case in part)


def kill_worker(trial: Trial) -> None:
    """kill -9 of a worker that has calls in flight."""
    worker, cases = _victim(trial)
    kill(worker.process)
    trial.wounds.append(Wound(time.monotonic(), cases, SETTLE))


def kill_all_workers(trial: Trial) -> None:
    """kill -9 of all workers; others are started at once, as a supervisor would."""
    cases = [part for parts in trial.fleet.in_hand(trial.run_id).values() for part in parts]
    for worker in trial.fleet.workers:
        kill(worker.process)
    for part in cases:
        trial.wounds.append(Wound(time.monotonic(), frozenset(map(str, part)), SETTLE))
    trial.fleet.complete()


def freeze_worker(trial: Trial) -> None:
    """A worker stands still for longer than the heartbeat timeout, as a paused virtual machine does, and wakes up."""
    worker, cases = _victim(trial)
    worker.send(signal.SIGSTOP)
    trial.wounds.append(Wound(time.monotonic(), cases, SETTLE))
    time.sleep(FREEZE)
    worker.send(signal.SIGCONT)


def freeze_worker_in_a_write(trial: Trial) -> None:
    """The same in the middle of a transaction, whose locks it keeps."""
    worker, cases = _victim(trial)

    def is_in_a_transaction() -> bool:
        worker.send(signal.SIGSTOP)
        time.sleep(0.1)
        if trial.fleet.is_anybody_idle_in_a_transaction():
            return True
        worker.send(signal.SIGCONT)
        return False

    until(is_in_a_transaction, patience=PATIENCE)
    trial.wounds.append(Wound(time.monotonic(), cases, SETTLE))
    time.sleep(FREEZE)
    worker.send(signal.SIGCONT)


def kill_submitter(trial: Trial) -> None:
    """kill -9 of the command that started the run; somebody watches it again."""
    kill(trial.submitter)
    trial.wounds.append(Wound(time.monotonic()))
    trial.submitter = following(trial.fleet.site, trial.run_id)


def kill_temporal(trial: Trial) -> None:
    """kill -9 of the Temporal server, which is started again."""
    trial.fleet.temporal.kill()
    trial.fleet.temporal.start()
    trial.wounds.append(Wound(time.monotonic()))


def lose_temporal(trial: Trial) -> None:
    """kill -9 of the Temporal server, which stays away for longer than the heartbeat timeout."""
    trial.fleet.temporal.kill()
    time.sleep(FREEZE)
    trial.fleet.temporal.start()


def kill_postgres(trial: Trial) -> None:
    """kill -9 of PostgreSQL, which is started again and recovers."""
    trial.fleet.database.kill()
    trial.fleet.database.start()
    trial.wounds.append(Wound(time.monotonic()))


def restart_postgres(trial: Trial) -> None:
    """`pg_ctl restart -m immediate` every few seconds for as long as the run lasts."""
    while trial.submitter.poll() is None:
        trial.fleet.database.restart_at_once()
        trial.wounds.append(Wound(time.monotonic()))
        until(_over(trial, time.monotonic() + BETWEEN_RESTARTS), patience=PATIENCE)


def _over(trial: Trial, end: float) -> Callable[[], bool]:
    return lambda: trial.submitter.poll() is not None or time.monotonic() > end


def cancel(trial: Trial) -> None:
    """`assay cancel`."""
    done = trial.fleet.site.assay("cancel", trial.run_id)
    assert done.returncode == 0, done.stderr


FAULTS = {
    "worker killed": Fault(
        strike=kill_worker,
        bound=lambda setting: setting.concurrency,
        because="a slot is kept until its result is in the ledger: a dead worker takes one call for each of its slots with it",
    ),
    "all workers killed": Fault(
        strike=kill_all_workers,
        bound=lambda setting: setting.workers * setting.concurrency,
        because="the same for each of them",
    ),
    "worker frozen and thawed": Fault(
        strike=freeze_worker,
        bound=lambda setting: setting.concurrency,
        because="what it had in flight is refused when it wakes up, and then it makes no new call in a shard that others have",
    ),
    "worker frozen in a write": Fault(
        strike=freeze_worker_in_a_write,
        bound=lambda setting: setting.concurrency,
        because="the same; its transaction is ended before anybody misses it",
    ),
    "submitter killed": Fault(
        strike=kill_submitter,
        bound=lambda _: 0,
        because="it makes no calls",
    ),
    "Temporal killed": Fault(
        strike=kill_temporal,
        bound=lambda setting: setting.workers * setting.concurrency,
        because="workers go on meanwhile; one whose heartbeats come too late loses its shard like one that was frozen",
    ),
    "Temporal away": Fault(
        strike=lose_temporal,
        bound=lambda setting: setting.workers * setting.concurrency,
        because="all heartbeats come too late, so that every worker may lose its shard",
    ),
    "PostgreSQL killed": Fault(
        strike=kill_postgres,
        bound=lambda _: 0,
        because="workers keep what they have until it can be written, and write it once",
    ),
    "PostgreSQL restarted on and on": Fault(
        strike=restart_postgres,
        bound=lambda _: 0,
        because="the same, however often",
    ),
    "cancelled": Fault(
        strike=cancel,
        bound=lambda _: 0,
        because="what is in flight comes to its end and is recorded",
        is_cancel=True,
    ),
}
