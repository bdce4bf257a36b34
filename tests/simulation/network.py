"""A network of wires: what the engine writes reaches the provider, and its reply comes back in virtual time."""

import asyncio
import socket
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from tests.simulation.world import World


class Delivery(msgspec.Struct, frozen=True):
    """What comes back over a wire, and when."""

    after: float
    content: bytes = b""
    is_end: bool = False
    """The other side hangs up."""
    is_reset: bool = False
    """The connection breaks."""


class OnEnd(Protocol):
    """Is told of the end of a call."""

    def __call__(self, *, is_heard: bool) -> None:
        """It is over; `is_heard` when something has come back."""


class Server(Protocol):
    """Whoever is at the other end of all wires, under several names."""

    def accepts(self, host: str) -> bool | None:
        """True for a connection, False for a refusal, None when nobody ever answers."""

    def received(self, host: str, request: bytes) -> "tuple[list[Delivery], OnEnd]":
        """What comes back for a request, and whom to tell when the one who asked has heard of it, or has hung up before."""


class Network:
    """Makes wires to one server."""

    def __init__(self, world: World, server: Server) -> None:
        self.world = world
        self.server = server
        # A socket that can always be written to and never has anything to read: so a quiet connection looks to `poll`.
        self.quiet, self._other = socket.socketpair()

    async def connect(self, loop: asyncio.AbstractEventLoop, protocol_factory: Callable[[], Any], host: str) -> tuple["Wire", Any]:
        """A new wire; raises ConnectionRefusedError."""
        accepted = self.server.accepts(host)
        if accepted is None:
            await asyncio.sleep(1_000_000.0)
        if not accepted:
            raise ConnectionRefusedError(111, "Connection refused")
        protocol = protocol_factory()
        wire = Wire(loop, protocol, self, host=host)
        protocol.connection_made(wire)
        return wire, protocol

    def close(self) -> None:
        """Let go of the sockets."""
        self.quiet.close()
        self._other.close()


class Wire(asyncio.Transport):
    """One connection."""

    def __init__(self, loop: asyncio.AbstractEventLoop, protocol: Any, network: Network, *, host: str) -> None:
        super().__init__({"socket": network.quiet})
        self._host = host
        self._loop = loop
        self._protocol = protocol
        self._network = network
        self._is_closing = False
        self._on_end: OnEnd | None = None

    def write(self, data: Any) -> None:
        """A whole request, as the engine writes it; raises Killed when the process dies here."""
        world = self._network.world
        if self._is_closing or world.is_dead:
            return
        world.point("request")
        deliveries, self._on_end = self._network.server.received(self._host, bytes(data))
        for delivery in deliveries:
            self._loop.call_later(delivery.after, self._deliver, delivery)

    def _deliver(self, delivery: Delivery) -> None:
        world = self._network.world
        if self._is_closing or world.is_dead:
            return
        world.point("reply")
        self._ended(is_heard=True)
        if delivery.content:
            self._protocol.data_received(delivery.content)
        if delivery.is_end or delivery.is_reset:
            self._hang_up(ConnectionResetError(104, "Connection reset by peer") if delivery.is_reset else None)

    def _ended(self, *, is_heard: bool) -> None:
        on_end, self._on_end = self._on_end, None
        if on_end is not None and not self._network.world.is_dead:
            on_end(is_heard=is_heard)

    def _hang_up(self, problem: Exception | None) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._ended(is_heard=False)
            self._loop.call_soon(self._protocol.connection_lost, problem)

    def close(self) -> None:
        """Hang up."""
        self._hang_up(None)

    def abort(self) -> None:
        """Hang up at once."""
        self._hang_up(None)

    def is_closing(self) -> bool:
        """True when nothing more can be written."""
        return self._is_closing

    def get_protocol(self) -> Any:
        """Who reads from it."""
        return self._protocol

    def get_write_buffer_size(self) -> int:
        """Everything is sent at once."""
        return 0
