"""One history: a run through all its processes, from its dataset to its sealed artifacts, as its seed says."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from hashlib import sha256
from pathlib import Path

import msgspec

from assay.core.errors import AssayError, ProviderRejected, StoreUnavailable
from assay.core.plan import Plan
from assay.engine.execution.run import open_or_create, run_to_completion
from assay.engine.execution.run_context import RunEnvironment, RunInterrupted
from assay.engine.planning.plans import plan_runs
from assay.engine.planning.request import RunRequest
from assay.store.sqlite import open_ledger
from tests.simulation.disk import FileWatch, unwatched, watched
from tests.simulation.loop import Standstill, VirtualLoop
from tests.simulation.network import Network
from tests.simulation.provider import Provider
from tests.simulation.scenario import Life, Scenario, scenario_of
from tests.simulation.store import Disk, SimulatedFolders
from tests.simulation.world import Call, Killed, World

RUN_ID = "sim"
UNFINISHED = ("killed", "store", "stopped", "cut off", "rejected")
MAX_RESUMES = 500
"""Lives after those of the scenario: a provider that rejects the account now and then takes some."""
"""Ends of a process after which another one goes on with the run."""


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """What the ledger held when a process had ended."""

    outcomes: dict[int, tuple[str, float | None]] = {}
    """By position, the status and the score."""
    attempts: int = 0
    """That somebody was called for."""
    spent: float = 0.0
    is_sealed: bool = False
    """Everything is in the artifacts, and the ledger is needed no more."""


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How one process ended."""

    how: str
    """One of UNFINISHED, `done`, or what went wrong."""
    begun: float
    at: float
    look: Look


class History(msgspec.Struct, kw_only=True):
    """Everything that can be said of a history when it is over."""

    seed: int
    scenario: Scenario
    folder: Path
    """Of the sealed artifacts."""
    calls: list[Call]
    appends: list[float]
    cancelled_at: float | None
    endings: list[Ending]
    digest: str
    problems: list[str]
    """What was seen to be wrong on the way."""
    events: list[str]


def play(seed: int, folder: Path, *, is_told: bool = False) -> History:
    """The history of a seed, with its files in a folder; `is_told` keeps the trace in words."""
    scenario = scenario_of(seed)
    world = World(seed)
    world.events = [] if is_told else None
    with _Stage(scenario, world, folder.resolve()) as stage:
        endings = list(stage.endings())
    sealed = stage.folders.sealed
    for name in ("predictions.jsonl", "attempt_logs.jsonl"):
        content = (sealed / name).read_bytes() if (sealed / name).is_file() else b""
        world.note("artifact", name, sha256(content).hexdigest())
    return History(
        seed=seed,
        scenario=scenario,
        folder=sealed,
        calls=world.calls,
        appends=world.appends,
        cancelled_at=world.cancelled_at,
        endings=endings,
        digest=world.digest(),
        problems=stage.problems,
        events=world.events or [],
    )


class _Stage:
    """Where a history plays: its folder, its provider and the plan of its run."""

    def __init__(self, scenario: Scenario, world: World, folder: Path) -> None:
        self._scenario = scenario
        self._world = world
        self.problems: list[str] = []
        self._network = Network(world, Provider(world, scenario.habits))
        self._plan = _planned(scenario, folder)
        runs = folder / "runs"
        runs.mkdir()
        self._disk = Disk(world, runs, shard_size=scenario.shard_size)
        self.folders = SimulatedFolders(runs, RUN_ID, self._disk)
        self._loops: list[VirtualLoop] = []

    def __enter__(self) -> "_Stage":
        return self

    def __exit__(self, *_: object) -> None:
        self._network.close()

    def endings(self) -> Iterator[Ending]:
        """Live one life after the other until the run is sealed; the last life is one in which nothing is in its way."""
        for life in (*self._scenario.lives, *(Life() for _ in range(MAX_RESUMES))):
            begun = self._world.clock.now
            how = self._live(life)
            yield Ending(how=how, begun=begun, at=self._world.clock.now, look=_look(self.folders))
            self._world.clock.now += life.pause
            # Where files could not be removed, whoever repeats the command removes them.
            if how not in UNFINISHED and not (life.file_fault and self.folders.active.exists()):
                return

    def _live(self, life: Life) -> str:
        world = self._world
        if self._scenario.cancel_at is not None and self._scenario.cancel_at <= world.clock.now:
            self._cancel()
        world.begin(deadly=life.deadly)
        self._disk.begin(life.fault)
        watch = FileWatch(world, self.folders.runs_dir, failing=life.file_fault)
        try:
            with watched(watch):
                self._go_on(self._environment(life))
        except Killed:
            self._disk.restore()
            return "killed"
        except StoreUnavailable as problem:
            world.note("unavailable")
            is_expected = life.fault is not None or life.file_fault is not None
            return "store" if is_expected else f"nothing was wrong with the store, and yet: {problem}"
        except RunInterrupted:
            world.note("interrupted")
            return self._interrupted(life)
        except Standstill:
            return "everybody waits, and nobody will ever wake them"
        except ProviderRejected:
            world.note("rejected")
            return "rejected"
        except AssayError as problem:
            return f"{type(problem).__name__}: {problem}"
        finally:
            self.problems += [problem for loop in self._loops for problem in loop.problems]
            self._loops.clear()
        return "done"

    def _interrupted(self, life: Life) -> str:
        if life.drained_after is not None:
            return "stopped"
        # The first signal lets calls come to their end, the second does not.
        return "cut off" if life.signals else "nobody stopped the run, and yet it was interrupted"

    def _go_on(self, environment: RunEnvironment) -> None:
        """Start the run or go on with it, as whoever repeats the same command does."""
        if not self.folders.is_sealed:
            open_or_create(self._plan, self.folders, at=environment.clock())
        if self.folders.active.is_dir():
            run_to_completion(self.folders, environment, plan=self._plan)

    def _environment(self, life: Life) -> RunEnvironment:
        world = self._world
        end = None if life.drained_after is None else world.clock.now + life.drained_after
        return RunEnvironment(
            environ={},
            clock=world.clock.wall,
            stopwatch=world.clock.time,
            chance=world.jitter.random,
            loop=partial(self._loop, life),
            takes_signals=bool(life.signals),
            is_stopping=None if end is None else lambda: world.clock.now >= end,
        )

    def _loop(self, life: Life) -> asyncio.AbstractEventLoop:
        world = self._world
        loop = VirtualLoop(world, self._network, thread_seconds=lambda: world.chance.choice(self._scenario.thread_seconds))
        self._loops.append(loop)
        cancel_at = self._scenario.cancel_at
        if cancel_at is not None and world.cancelled_at is None:
            loop.call_at(cancel_at, self._cancel)
        for seconds in life.signals:
            loop.call_later(seconds, loop.interrupt)
        if life.jump:
            loop.call_later(2.5, self._jump, life.jump)
        return loop

    def _jump(self, seconds: float) -> None:
        self._world.clock.offset += seconds
        self._world.note("clock", seconds)

    def _cancel(self) -> None:
        """Somebody in another process cancels the run."""
        if self._world.cancelled_at is not None or self._world.is_dead or not self.folders.has_ledger:
            return
        self._world.cancelled_at = self._world.clock.now
        self._world.note("cancel")
        with unwatched(), closing(open_ledger(self.folders.active / "ledger.sqlite")) as ledger:
            ledger.request_cancel()


def _planned(scenario: Scenario, folder: Path) -> Plan:
    (folder / scenario.dataset).write_text(scenario.text)
    (folder / "run.json").write_bytes(msgspec.json.encode(scenario.run_file))
    request = RunRequest(run_file=str(folder / "run.json"), run_id=RUN_ID, runs_dir=str(folder / "runs"))
    (plan,) = plan_runs(request, environ={}, now=0.0, new_run_id=lambda: RUN_ID).plans
    return plan


def _look(folders: SimulatedFolders) -> Look:
    """What the ledger says, read without the engine's own code; of a run that is sealed, the artifacts speak for themselves."""
    path = folders.active / "ledger.sqlite"
    if folders.is_sealed or not path.is_file():
        return Look(is_sealed=folders.is_sealed)
    with closing(sqlite3.connect(path)) as database:
        ends = database.execute("SELECT position, status, body FROM outcome").fetchall()
        attempts = [msgspec.json.decode(body) for (body,) in database.execute("SELECT body FROM attempt")]
    called = [attempt for attempt in attempts if "cached" not in attempt.get("reply", {}).get("flags", ())]
    return Look(
        outcomes={position: (status, msgspec.json.decode(body).get("grade", {}).get("score")) for position, status, body in ends},
        attempts=len(called),
        spent=sum(attempt.get("cost") or 0.0 for attempt in attempts),
    )
