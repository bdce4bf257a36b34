"""The runs that a worker has shards of: the room of each is opened once, and closed when its last shard has left."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial

import msgspec

from assay.core.case import Case
from assay.core.errors import AssayError, ProviderRejected, UsageProblem
from assay.core.outcome import GradingFailure
from assay.core.plan import Plan, read_plan
from assay.engine.running.case import Room
from assay.engine.running.engines import PROBLEM
from assay.engine.running.local import watched
from assay.engine.running.rooms import opened_room
from assay.engine.running.shard import run_shard
from assay.engine.running.states import time_of_next
from assay.engine.running.stopping import Stop
from assay.engine.running.surroundings import Surroundings
from assay.models import check_models
from assay.store.ledger import Ledger
from assay.store.ledgers import open_shared

LINGER = 2.0
"""Seconds that an empty room stays open for the next shard of its run."""
LOOK = 1.0
"""Seconds between two looks at what the other workers have done to the run: a cancel, money spent, shards finished."""


class HandedBack(Exception):
    """The shard is not at its end, and somebody else is to go on with it."""


class OpenRuns:
    """The open rooms of one worker by run."""

    def __init__(self, ledger: str, surroundings: Surroundings, *, owner: str) -> None:
        self.ledger = ledger
        self.owner = owner
        self._surroundings = surroundings
        self._runs: dict[str, OpenRun] = {}
        self._kept: set[OpenRun] = set()
        """Those that are not closed; of a run that is entered while its room is being closed, there are two."""
        self.is_stopping = False

    @asynccontextmanager
    async def entered(self, run_id: str) -> AsyncIterator["OpenRun"]:
        """The open run, which stays so inside; raises what keeps it from being opened."""
        run = self._runs.get(run_id)
        if run is None or run.is_over:
            run = self._runs[run_id] = OpenRun(run_id, self.ledger, self._surroundings, owner=self.owner)
            self._kept.add(run)
            run.on_closed(self._forget)
        run.guests += 1
        linger = LINGER
        try:
            yield run
        except ProviderRejected:
            # The room and its leases remember the rejection; a run that is resumed at once must not find it.
            linger = 0.0
            raise
        finally:
            run.guests -= 1
            asyncio.get_running_loop().call_later(linger, run.close_when_empty)

    def stop(self) -> None:
        """Make no new call; what is in flight comes to its end, and the shards are handed back."""
        self.is_stopping = True
        for run in self._kept:
            run.stop.set()

    async def close(self) -> None:
        """Let go of everything; all shards have left."""
        for run in self._kept:
            run.close_when_empty()
        await asyncio.gather(*(run.closed() for run in self._kept))

    def _forget(self, run: "OpenRun") -> None:
        """Nothing of a run outlives its room: a worker sees thousands."""
        self._kept.discard(run)
        if self._runs.get(run.run_id) is run:
            del self._runs[run.run_id]


class OpenRun:
    """One run while this worker has shards of it."""

    def __init__(self, run_id: str, ledger: str, surroundings: Surroundings, *, owner: str) -> None:
        self.run_id = run_id
        self.guests = 0
        self.stop = Stop()
        """Set when no shard of the run is to make another call here."""
        self._address = ledger
        self._surroundings = surroundings
        self._owner = owner
        self._shards: set[int] = set()
        self._room: asyncio.Future[Room] = asyncio.get_running_loop().create_future()
        self._is_empty = asyncio.Event()
        # The task that opens the room closes it too, whichever shard came first and last.
        self._keeper = asyncio.create_task(self._keep())
        self._keeper.add_done_callback(self._over)

    @property
    def is_over(self) -> bool:
        """True when this room takes no more shards: it was stopped, or is being closed."""
        return self.stop.is_set() or self._is_empty.is_set() or self._keeper.done()

    def close_when_empty(self) -> None:
        """Close the room unless somebody is in it."""
        if not self.guests:
            self._is_empty.set()

    def on_closed(self, act: Callable[["OpenRun"], None]) -> None:
        """Do something when the room is closed."""
        self._keeper.add_done_callback(lambda _: act(self))

    async def closed(self) -> None:
        """Returns when the room is closed."""
        await asyncio.wait([self._keeper])

    async def evaluate(self, shard: int, stop: Stop) -> bool:
        """Bring the open records of a shard to their outcomes; True when the run was cancelled. Raises HandedBack when stopped."""
        self.stop.add(stop)
        room = msgspec.structs.replace(await asyncio.shield(self._room), stop=stop)
        stopping = asyncio.create_task(_told_at_stop(room))
        try:
            await self._reserve(room)
            self._shards.add(shard)
            if await run_shard(shard, room, owner=self._owner):
                await room.journal.call(clear_problem, room.journal.ledger)
                return False
            if room.rejection.problem is not None:
                raise room.rejection.problem
        except AssayError:
            # Whatever it was, it is no matter of this shard alone.
            self.stop.set()
            raise
        finally:
            stopping.cancel()
            self._shards.discard(shard)
            self.stop.remove(stop)
        if await room.journal.call(_is_cancelled, room.journal.ledger):
            return True
        raise HandedBack

    async def _reserve(self, room: Room) -> None:
        """Wait until this worker has room for the records of one more shard."""
        reserved, stopped = asyncio.ensure_future(room.crew.reserve()), asyncio.ensure_future(room.stop.wait())
        try:
            await asyncio.wait([reserved, stopped], return_when=asyncio.FIRST_COMPLETED)
            if not reserved.done():
                raise HandedBack
        finally:
            reserved.cancel()
            stopped.cancel()

    async def _keep(self) -> None:
        """Open the room, keep an eye on the ledger while it is open, and close it."""
        ledger = await asyncio.to_thread(open_shared, self._address, self.run_id)
        try:
            plan = read_plan((await asyncio.to_thread(ledger.run)).plan)
            _check(plan, self._surroundings)
            async with opened_room(ledger, plan, self._surroundings, stop=self.stop) as room:
                room.attachments = _seen_here(room.attachments)
                self._room.set_result(room)
                looking = asyncio.create_task(watched(self._look, room))
                await self._is_empty.wait()
                looking.cancel()
                await asyncio.wait([looking])
        finally:
            await asyncio.to_thread(ledger.close)

    def _over(self, keeper: asyncio.Task[None]) -> None:
        """Nobody waits for a room that will not be opened; a surprise is told even when nobody waits."""
        self.stop.set()
        problem = keeper.exception()
        if not self._room.done():
            self._room.set_exception(problem or HandedBack())
            # A shard that waited may have left.
            self._room.exception()
        elif problem is not None and not isinstance(problem, AssayError):
            asyncio.get_running_loop().call_exception_handler({"message": "a run cannot be kept open", "exception": problem})

    async def _look(self, room: Room) -> None:
        """What others have done to the run since the last look."""
        journal, tally = room.journal, room.tally
        while True:
            await asyncio.sleep(LOOK)
            if await journal.call(_is_cancelled, journal.ledger):
                room.stop.set()
            if room.plan.max_cost is not None:
                # Workers tell each other what they spend; the ledger knows, too, what those have spent who died before they told.
                spent = await journal.call(journal.ledger.spent)
                tally.cost = max(tally.cost, spent)
            if room.crew.is_retrying_all:
                await journal.call(partial(_mark_retrying, journal.ledger, frozenset(self._shards), at=room.clock()))


async def _told_at_stop(room: Room) -> None:
    """Records that wait for slots which others have, end with their shard."""
    await room.stop.wait()
    room.limits.look_again()


def clear_problem(ledger: Ledger) -> None:
    """What has kept workers from going on is over when one of them has."""
    if ledger.run().notes.get(PROBLEM):
        ledger.set_note(PROBLEM, "")


def _is_cancelled(ledger: Ledger) -> bool:
    return ledger.run().is_cancel_requested


def _mark_retrying(ledger: Ledger, shards: frozenset[int], *, at: float) -> None:
    """Only whoever has all that is left of a run in hand knows that nothing but retries is left."""
    if ledger.run().state == "running" and shards.issuperset(ledger.shards()):
        ledger.set_state("running", "retrying", at=time_of_next(ledger, at))


def _check(plan: Plan, surroundings: Surroundings) -> None:
    """Raises UsageProblem for what this worker lacks: a record that fails for it would be blamed on a model."""
    problems = check_models(plan, environ=surroundings.environ)
    if problems:
        raise UsageProblem("; ".join(problems), hint="mend it on that worker")


def _seen_here(read: Callable[[Case], Awaitable[Mapping[str, str]]]) -> Callable[[Case], Awaitable[Mapping[str, str]]]:
    """Attachments as they were when the run was prepared: a machine that does not see them must not fail the record for it."""

    async def texts(case: Case) -> Mapping[str, str]:
        try:
            return await read(case)
        except GradingFailure as failure:
            if not all(attachment.sha256 for attachment in case.attachments):
                raise
            raise UsageProblem(failure.message, hint="let that worker see the folder of the dataset, at the same path") from failure

    return texts
