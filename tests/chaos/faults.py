"""Everything that can go wrong with a machine while a run is under way, and how many calls each may cost."""

import random
import signal
import subprocess
import time
from collections.abc import Callable

import msgspec

from tests.chaos.fleet import PATIENCE, Fleet, following, kill, owner_of
from tests.integrations.temporal.machines import WorkerProcess, until

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

    strike: Callable[[Trial], int]
    """Does it, and returns how many calls may be made once more because of it."""
    because: str
    """Why so many."""
    is_early: bool = False
    """It happens before the first call."""
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


def kill_worker(trial: Trial) -> int:
    """kill -9 of a worker that has calls in flight."""
    worker, cases = _victim(trial)
    # It stands still for a moment, so that its seats can be counted.
    worker.send(signal.SIGSTOP)
    seats = trial.fleet.seats(trial.run_id, worker)
    kill(worker.process)
    trial.wounds.append(Wound(time.monotonic(), cases, SETTLE))
    return seats


def kill_all_workers(trial: Trial) -> int:
    """kill -9 of all workers; others are started at once, as a supervisor would."""
    shards = [part for parts in trial.fleet.in_hand(trial.run_id).values() for part in parts]
    for worker in trial.fleet.workers:
        kill(worker.process)
    trial.wounds += [Wound(time.monotonic(), frozenset(map(str, part)), SETTLE) for part in shards]
    trial.fleet.complete()
    return trial.fleet.setting.concurrency


def kill_sealers(trial: Trial) -> int:
    """The same after the last call of the run, so that it hits whoever writes the artifacts."""
    heard, needed = trial.fleet.provider.heard, trial.fleet.bench.calls.total()
    until(lambda: len(heard) >= needed, patience=PATIENCE)
    time.sleep(trial.chance.uniform(0.0, 1.0))
    return kill_all_workers(trial)


def freeze_worker(trial: Trial, *, seconds: float = FREEZE, then: Callable[[], None] = lambda: None) -> int:
    """A worker stands still for longer than the heartbeat timeout, as a paused virtual machine does, and wakes up.

    `then` is called when it stands still.
    """
    worker, cases = _victim(trial)
    worker.send(signal.SIGSTOP)
    then()
    return _thawed_later(trial, worker, cases, seconds=seconds)


def freeze_worker_in_a_write(trial: Trial) -> int:
    """The same in the middle of a transaction, whose locks it keeps."""
    with trial.fleet.held_up_in_a_write() as worker:
        shards = trial.fleet.in_hand(trial.run_id)[owner_of(worker)]
        worker.send(signal.SIGSTOP)
    cases = frozenset(str(case) for part in shards for case in part)
    return _thawed_later(trial, worker, cases, seconds=FREEZE)


def _thawed_later(trial: Trial, worker: WorkerProcess, cases: frozenset[str], *, seconds: float) -> int:
    trial.wounds.append(Wound(time.monotonic(), cases, SETTLE))
    seats = trial.fleet.seats(trial.run_id, worker)
    time.sleep(seconds)
    worker.send(signal.SIGCONT)
    return seats


def kill_submitter(trial: Trial) -> int:
    """kill -9 of the command that started the run; somebody watches it again."""
    kill(trial.submitter)
    trial.wounds.append(Wound(time.monotonic()))
    trial.submitter = following(trial.fleet.site, trial.run_id)
    return 0


def kill_preparer(trial: Trial) -> int:
    """kill -9 of the command that starts the run, while it validates and writes records; it is given once more."""
    time.sleep(trial.chance.uniform(0.5, 4.0))
    kill(trial.submitter)
    trial.submitter = trial.fleet.site.start(trial.run_id)
    return 0


def kill_temporal(trial: Trial) -> int:
    """kill -9 of the Temporal server, which is started again."""
    trial.fleet.temporal.kill()
    trial.fleet.temporal.start()
    trial.wounds.append(Wound(time.monotonic()))
    return trial.fleet.setting.concurrency


def lose_temporal(trial: Trial) -> int:
    """kill -9 of the Temporal server, which stays away for longer than the heartbeat timeout."""
    provider, setting = trial.fleet.provider, trial.fleet.setting
    # Answers take so long meanwhile that there is work left when it is back.
    provider.latency = 10 * setting.latency
    trial.fleet.temporal.kill()
    time.sleep(FREEZE)
    provider.latency = setting.latency
    trial.fleet.temporal.start()
    trial.wounds.append(Wound(time.monotonic()))
    return setting.concurrency


def kill_postgres(trial: Trial) -> int:
    """kill -9 of PostgreSQL, which is started again and recovers."""
    trial.fleet.database.kill()
    trial.fleet.database.start()
    trial.wounds.append(Wound(time.monotonic()))
    return 0


def restart_postgres(trial: Trial) -> int:
    """`pg_ctl restart -m immediate` every few seconds for as long as the run lasts."""
    while trial.submitter.poll() is None:
        trial.fleet.database.restart_at_once()
        trial.wounds.append(Wound(time.monotonic()))
        until(_over(trial, time.monotonic() + BETWEEN_RESTARTS), patience=PATIENCE)
    return 0


def strike_all(trial: Trial) -> int:
    """Everything is killed, one after the other, in any order; a worker that is killed is started again."""
    strikes = [kill_worker, kill_submitter, kill_temporal, kill_postgres]
    trial.chance.shuffle(strikes)
    allowed = 0
    for strike in strikes:
        allowed += strike(trial)
        trial.fleet.complete()
    return allowed


def _over(trial: Trial, end: float) -> Callable[[], bool]:
    return lambda: trial.submitter.poll() is not None or time.monotonic() > end


def cancel(trial: Trial) -> int:
    """`assay cancel`."""
    done = trial.fleet.site.assay("cancel", trial.run_id)
    assert done.returncode == 0, done.stderr
    return 0


FAULTS = {
    "worker killed": Fault(
        strike=kill_worker,
        because="a seat is kept until its result is in the ledger: a dead worker takes one call for each of its seats with it",
    ),
    "all workers killed": Fault(strike=kill_all_workers, because="the same for all seats of the run"),
    "all workers killed at the end": Fault(strike=kill_sealers, because="the same; the last results may not be written"),
    "worker frozen": Fault(
        strike=freeze_worker,
        because="what it had in flight is refused when it wakes up, and without its seats it makes no new call",
    ),
    "worker frozen in a write": Fault(
        strike=freeze_worker_in_a_write, because="the same; the database ends its transaction before anybody misses it"
    ),
    "submitter killed": Fault(strike=kill_submitter, because="it makes no calls"),
    "submitter killed at the start": Fault(strike=kill_preparer, because="it makes no calls", is_early=True),
    "Temporal killed": Fault(
        strike=kill_temporal,
        because="workers go on meanwhile; one whose heartbeats come too late loses its shard like one that was frozen",
    ),
    "Temporal away": Fault(strike=lose_temporal, because="all heartbeats come too late, so that every worker may lose its shard"),
    "PostgreSQL killed": Fault(
        strike=kill_postgres, because="workers keep what they have until it can be written, and write it once"
    ),
    "PostgreSQL restarted": Fault(strike=restart_postgres, because="the same, however often"),
    "all of them killed": Fault(strike=strike_all, because="the sum of what each of them costs"),
    "cancelled": Fault(strike=cancel, because="what is in flight comes to its end and is recorded", is_cancel=True),
}
