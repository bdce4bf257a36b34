"""An event loop whose time is virtual: when nothing is left to be done now, it is at once the time of the next timer."""

import asyncio
import signal
import socket
from collections.abc import Callable
from functools import partial
from typing import Any

from tests.simulation.network import Network
from tests.simulation.world import World

ROUND = 1e-7
"""Seconds that every round of the loop takes: time that stood still would let somebody who waits for a nanosecond wait for ever."""
PATIENCE = 7200.0
"""Virtual seconds in which nothing happens, after which nothing will, although somebody looks at a flag every second."""
TICK = 1e-6
"""Between two things that a thread does one after the other."""


class Standstill(Exception):
    """Everybody waits and nobody will ever wake them: in a real loop the run would hang for good."""


class _NoSelector:
    """Stands where a loop waits for the operating system, and lets time pass instead."""

    def __init__(self, world: World) -> None:
        self._world, self._clock = world, world.clock

    def select(self, timeout: float | None) -> list[Any]:
        """Nothing ever comes from outside."""
        if timeout is None:
            raise Standstill
        self._clock.now += timeout + ROUND
        if self._clock.now - self._world.noted_at > PATIENCE:
            raise Standstill
        return []


class VirtualLoop(asyncio.BaseEventLoop):
    """Runs the engine as any loop does, but threads, network and time are those of a world."""

    def __init__(self, world: World, network: Network | None = None, *, thread_seconds: Callable[[], float] = float) -> None:
        super().__init__()
        self._world = world
        self._network = network
        self._thread_seconds = thread_seconds
        self._busy_until: dict[Any, float] = {}
        self._on_signal: dict[int, Callable[[], Any]] = {}
        self._selector = _NoSelector(world)
        self.set_exception_handler(self._on_problem)
        self.problems: list[str] = []
        """What nobody was told of: exceptions in callbacks, and in tasks that nobody waited for."""

    def time(self) -> float:
        """Virtual seconds."""
        return self._world.clock.now

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> "asyncio.Future[Any]":
        """What a thread would do is done here, a little later; the things that one executor does stay in their order."""
        future: asyncio.Future[Any] = self.create_future()
        at = max(self.time(), self._busy_until.get(executor, 0.0) + TICK) + self._thread_seconds()
        self._busy_until[executor] = at
        self.call_at(at, self._do, partial(func, *args), future)
        return future

    def _do(self, function: Callable[[], Any], future: "asyncio.Future[Any]") -> None:
        self.create_task(_done(function)).add_done_callback(partial(_tell, future))

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> list[Any]:
        """The address of a host is its name."""
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port))]

    async def create_connection(self, protocol_factory: Callable[[], Any], host: Any = None, *_: Any, **__: Any) -> Any:
        """A connection into the simulated network; raises OSError where it gives none."""
        assert self._network is not None, "this loop has no network"
        return await self._network.connect(self, protocol_factory, str(host))

    def add_signal_handler(self, sig: int, callback: Callable[..., Any], *args: Any) -> None:
        """Who is told of a signal."""
        self._on_signal[sig] = partial(callback, *args)

    def remove_signal_handler(self, sig: int) -> bool:
        """Nobody is told any more."""
        return self._on_signal.pop(sig, None) is not None

    def interrupt(self) -> None:
        """Somebody presses Ctrl-C; where nobody listens for it, nothing happens."""
        if signal.SIGINT in self._on_signal and not self._world.is_dead:
            self._world.note("signal")
            self._on_signal[signal.SIGINT]()

    def _on_problem(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not self._world.is_dead:
            self.problems.append(f"{context['message']}: {context.get('exception')!r}")

    def _process_events(self, event_list: list[Any]) -> None:
        """Nothing ever comes from outside."""

    def _write_to_self(self) -> None:
        """Nobody sleeps who would have to be woken."""


async def _done(function: Callable[[], Any]) -> Any:
    return function()


def _tell(future: "asyncio.Future[Any]", done: "asyncio.Task[Any]") -> None:
    problem = None if done.cancelled() else done.exception()
    if future.done():
        return
    if done.cancelled():
        future.cancel()
    elif problem is not None:
        future.set_exception(problem)
    else:
        future.set_result(done.result())
