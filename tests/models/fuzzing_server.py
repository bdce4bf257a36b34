"""A server on loopback with malformed and mistimed replies, chosen by a seed; it notes which of its connections are used again.

It runs in the event loop of the test. A case can therefore wait until the late bytes are on their way, and the client is tested at
the worst moment: the bytes are in the socket, and its event loop has not read them yet.
"""

import asyncio
import json
import re
import socket
import struct
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import NamedTuple, cast

OVERSIZED = 200_000
"""More bytes than a client accepts as headers."""
FILLER = "abcdefghijkl"
_PATH = re.compile(rb"POST /v1/case/(\d+)/(\w+) ")
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


class Step(NamedTuple):
    """One thing that the server does: it waits, sends bytes, or ends the connection."""

    sent: bytes = b""
    wait: float = 0.0
    end: str = ""
    """Empty, `close` or `reset`."""


class Fault(NamedTuple):
    """What the server does instead of answering."""

    family: str
    steps: tuple[Step, ...]
    is_poisoned: bool = False
    """Bytes follow that no request asked for, so that the connection must never carry another request."""
    is_early: bool = False
    """It starts before the request has arrived as a whole."""
    hangs: bool = False
    """Only the client's deadline ends it."""


Family = Callable[[Random, int], Fault]


def answer_of(case: int, role: str) -> bytes:
    """The one right answer to a request; its filler makes a truncated answer invalid at any place."""
    return json.dumps({"case": case, "role": role, "filler": FILLER}).encode()


def reply(body: bytes, *, head: bytes = b"", status: bytes = b"200 OK", length: object = None) -> bytes:
    """A reply with a length, which is the body's unless another one is given."""
    size = str(len(body) if length is None else length).encode()
    return (
        b"HTTP/1.1 " + status + b"\r\nContent-Type: application/json\r\n" + head + b"Content-Length: " + size + b"\r\n\r\n" + body
    )


def chunked(body: bytes, rng: Random, *, head: bytes = b"") -> bytes:
    """A reply in chunks of random sizes."""
    start = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n" + head + b"\r\n"
    return start + b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in _pieces(body, rng)) + b"0\r\n\r\n"


def _pieces(body: bytes, rng: Random) -> Iterator[bytes]:
    while body:
        size = rng.randint(1, 40)
        yield body[:size]
        body = body[size:]


def _form(rng: Random, case: int) -> bytes:
    """A right reply in one of the usual forms."""
    body = answer_of(case, "fault")
    return rng.choice((reply(body), chunked(body, rng), reply(body, head=b"X-Request-Id: r\r\n")))


def _end(rng: Random) -> Step:
    return Step(end=rng.choice(("close", "reset")))


def _stale(rng: Random) -> bytes:
    """A reply that belongs to no request: a client that hands it out has attributed it to another one."""
    body = answer_of(rng.randint(10**6, 10**7), "stale")
    return rng.choice((reply(body), chunked(body, rng), reply(body, status=b"418 X"), reply(b"{}", status=b"204 No Content")))


def truncated(rng: Random, case: int) -> Fault:
    whole = _form(rng, case)
    return Fault("truncated", (Step(whole[: rng.randrange(len(whole))]), _end(rng)))


def reset_at_each_byte(_: Random, case: int) -> Fault:
    whole = reply(answer_of(case, "fault"))
    cut = case // len(FAMILIES) % len(whole)
    return Fault("reset at each byte", (Step(whole[:cut]), Step(wait=0.002, end="reset")))


def extra_bytes(rng: Random, case: int) -> Fault:
    extra = rng.choice((b"\x00", b"}", b"0\r\n\r\n", b"HTTP/1.1 200", rng.randbytes(rng.randint(1, 60)), b"\r\n\r\n", b"\n"))
    return Fault("extra bytes", (Step(_form(rng, case) + extra),), is_poisoned=True)


def pipelined(rng: Random, case: int) -> Fault:
    stale = b"".join(_stale(rng) for _ in range(rng.randint(1, 3)))
    return Fault("pipelined", (Step(_form(rng, case) + stale),), is_poisoned=True)


def late_bytes(rng: Random, case: int) -> Fault:
    late = rng.choice((_stale(rng), _stale(rng)[: rng.randint(1, 30)], b"0\r\n\r\n", rng.randbytes(8)))
    return Fault("late bytes", (Step(_form(rng, case)), Step(late, wait=rng.uniform(0.0, 0.02))), is_poisoned=True)


def length_too_short(rng: Random, case: int) -> Fault:
    body = answer_of(case, "fault")
    return Fault("length too short", (Step(reply(body, length=rng.randrange(len(body)))),), is_poisoned=True)


def length_too_long(rng: Random, case: int) -> Fault:
    body = answer_of(case, "fault")
    size = len(body) + rng.choice((1, 2, 1000, 1 << 20, 1 << 40, 1 << 62))
    return Fault("length too long", (Step(reply(body, length=size)), _end(rng)))


def odd_length(rng: Random, case: int) -> Fault:
    body = answer_of(case, "fault")
    right = str(len(body))
    odd = (
        "-1",
        "+" + right,
        "0x10",
        right + "abc",
        right + ", " + right,
        right + ", 3",
        "",
        " ",
        "9" * 30,
        "1e3",
        "١٢",
        right + "\x00",
    )
    return Fault("odd length", (Step(reply(body, length=rng.choice(odd))), _end(rng)))


def two_lengths(rng: Random, case: int) -> Fault:
    body = answer_of(case, "fault")
    other = rng.choice((len(body), 0, 5, len(body) + 7))
    return Fault("two lengths", (Step(reply(body, head=b"Content-Length: %d\r\n" % other)), _end(rng)))


def chunk_errors(rng: Random, case: int) -> Fault:
    whole = chunked(answer_of(case, "fault"), rng)
    head, _, chunks = whole.partition(b"\r\n\r\n")
    size, _, rest = chunks.partition(b"\r\n")
    broken = rng.choice(
        (
            b"-1\r\n" + rest,
            b"zz\r\n" + rest,
            b"\r\n" + rest,
            b"f" * 17 + b"\r\n" + rest,
            b"%x\r\n" % (int(size, 16) + 1) + rest,
            b"%x\r\n" % (int(size, 16) - 1) + rest,
            b"0x" + chunks,
            size + b";" + b"e" * 200 + b"\r\n" + rest,
            size + b"\n" + rest,
            chunks.replace(b"\r\n", b"\n"),
            chunks.replace(b"0\r\n\r\n", b"0\r\n"),
            chunks.replace(b"0\r\n\r\n", b""),
            chunks.replace(b"0\r\n\r\n", b"0\r\nX-Trailer: 1\r\n\r\n"),
        )
    )
    return Fault("chunk errors", (Step(head + b"\r\n\r\n" + broken), _end(rng)))


def smuggling(rng: Random, case: int) -> Fault:
    """Both ways of delimiting a body, or one that two parsers understand differently, before a reply of nobody's."""
    body = answer_of(case, "fault")
    in_chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    coding = rng.choice(
        (
            b"Transfer-Encoding: chunked\r\nContent-Length: %d\r\n" % rng.choice((len(body), len(in_chunks), 4)),
            b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
            b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
            b"Transfer-Encoding: identity, chunked\r\n",
            b"Transfer-Encoding: chunked, identity\r\n",
            b"Transfer-Encoding : chunked\r\n",
            b"Transfer-Encoding:\r\n chunked\r\n",
            b"Transfer-Encoding: xchunked\r\n",
            b"Transfer-Encoding: chunked\x00\r\n",
            b"\nTransfer-Encoding: chunked\r\n",
        )
    )
    return Fault(
        "smuggling", (Step(b"HTTP/1.1 200 OK\r\n" + coding + b"\r\n" + in_chunks + _stale(rng)), _end(rng)), is_poisoned=True
    )


def interim(rng: Random, case: int) -> Fault:
    """Replies before the reply; one of them may switch to another protocol."""
    status = rng.choice((b"100 Continue", b"102 Processing", b"103 Early Hints", b"199 X", b"101 Switching Protocols"))
    lines = rng.choice((b"", b"Link: </x>; rel=preload\r\n", b"Content-Length: 5\r\n", b"Upgrade: x\r\nConnection: upgrade\r\n"))
    before = (b"HTTP/1.1 " + status + b"\r\n" + lines + b"\r\n") * rng.choice((1, 2, 50))
    return Fault("interim replies", (Step(before), Step(_form(rng, case), wait=rng.choice((0.0, 0.003)), end="close")))


def header_flood(rng: Random, case: int) -> Fault:
    flood = rng.choice(
        (
            b"X-Many: 1\r\n" * (OVERSIZED // 11),
            b"X-Long: " + b"a" * OVERSIZED + b"\r\n",
            b"N" * OVERSIZED + b": 1\r\n",
            b"X-Folded: 1\r\n" + b" 2\r\n" * (OVERSIZED // 4),
        )
    )
    return Fault("header flood", (Step(reply(answer_of(case, "fault"), head=flood)), Step(end="close")))


def trailer_flood(rng: Random, case: int) -> Fault:
    flood = rng.choice((b"X-Many: 1\r\n" * (OVERSIZED // 11), b"X-Long: " + b"a" * OVERSIZED))
    return Fault("trailer flood", (Step(chunked(answer_of(case, "fault"), rng)[:-2] + flood + b"\r\n"), Step(end="close")))


def not_http(rng: Random, case: int) -> Fault:
    body = answer_of(case, "fault")
    said = rng.choice(
        (
            body,
            b"HTTP/2 200\r\n\r\n" + body,
            b"HTTP/0.9 200 OK\r\n\r\n" + body,
            b"HTTP/1.1 \r\n\r\n" + body,
            b"HTTP/1.1 0 X\r\n\r\n" + body,
            b"HTTP/1.1 2000 X\r\n\r\n" + body,
            b"http/1.1 200 OK\r\n\r\n" + body,
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01" + rng.randbytes(40),
            b"SSH-2.0-OpenSSH_9.6\r\n",
            rng.randbytes(rng.randint(1, 200)),
        )
    )
    return Fault("not HTTP", (Step(said), _end(rng)))


def flipped_bytes(rng: Random, case: int) -> Fault:
    """Some bytes of a right head replaced; the body stays, so that no other answer can come of it."""
    head, gap, body = reply(answer_of(case, "fault")).partition(b"\r\n\r\n")
    changed = bytearray(head + gap)
    for _ in range(rng.randint(1, 3)):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return Fault("flipped bytes", (Step(bytes(changed) + body), _end(rng)))


def slow_drip(rng: Random, case: int) -> Fault:
    whole = _form(rng, case)
    cuts = sorted(rng.sample(range(1, len(whole)), rng.randint(2, 12)))
    pieces = [whole[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    return Fault("slow drip", tuple(Step(piece, wait=rng.uniform(0.0, 0.003)) for piece in pieces))


def early_reply(rng: Random, case: int) -> Fault:
    """The answer before the request is there: what is still to come of it would be taken for the next request."""
    return Fault("early reply", (Step(_form(rng, case)),), is_early=True)


def closed_between(rng: Random, case: int) -> Fault:
    """A right answer, after which the server closes its connection without a word."""
    return Fault("closed between", (Step(_form(rng, case)), Step(wait=rng.choice((0.0, 0.001, 0.01)), end=_end(rng).end)))


def until_the_end(rng: Random, case: int) -> Fault:
    body = answer_of(case, "fault")
    sent = body if rng.random() < 0.5 else body[: rng.randrange(len(body))]
    return Fault("until the end", (Step(b"HTTP/1.1 200 OK\r\n\r\n" + sent), Step(wait=0.001, end=_end(rng).end)))


def body_where_none_belongs(rng: Random, case: int) -> Fault:
    status = rng.choice((b"204 No Content", b"304 Not Modified", b"205 Reset"))
    sent = reply(answer_of(case, "fault"), status=status)
    return Fault("body where none belongs", (Step(sent),), is_poisoned=not status.startswith(b"205"))


def stalled(rng: Random, case: int) -> Fault:
    whole = _form(rng, case)
    return Fault("stalled", (Step(whole[: rng.randrange(len(whole))]),), hangs=True)


def after_the_deadline(rng: Random, case: int) -> Fault:
    whole = _form(rng, case)
    cut = rng.randrange(len(whole))
    return Fault("after the deadline", (Step(whole[:cut]), Step(whole[cut:] + _stale(rng), wait=0.4)), is_poisoned=True, hangs=True)


FAMILIES: Sequence[Family] = (
    truncated,
    reset_at_each_byte,
    extra_bytes,
    pipelined,
    late_bytes,
    length_too_short,
    length_too_long,
    odd_length,
    two_lengths,
    chunk_errors,
    smuggling,
    interim,
    header_flood,
    trailer_flood,
    not_http,
    flipped_bytes,
    slow_drip,
    early_reply,
    closed_between,
    until_the_end,
    body_where_none_belongs,
)
WAITING: Sequence[Family] = (stalled, after_the_deadline)
"""Families that last as long as the client waits."""


class FuzzingServer:
    """Plays one fault for each case, and answers every other request as it should."""

    def __init__(self) -> None:
        self.faults: dict[int, Fault] = {}
        self.begun: set[int] = set()
        """Cases whose fault has begun."""
        self.played: dict[int, asyncio.Event] = {}
        """Set when everything of a case's fault is sent."""
        self.reused: list[str] = []
        """Requests that came over a connection on which unrequested bytes had been sent."""

    def announce(self, case: int, fault: Fault) -> asyncio.Event:
        """Choose what the next request of a case is answered with; returns the event that ends it."""
        self.faults[case] = fault
        return self.played.setdefault(case, asyncio.Event())

    async def start(self) -> tuple[asyncio.Server, str]:
        """Listen; returns the server and its base URL."""
        server = await asyncio.get_running_loop().create_server(lambda: _Connection(self), "127.0.0.1", 0, backlog=512)
        return server, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


class _Connection(asyncio.Protocol):
    def __init__(self, server: FuzzingServer) -> None:
        self._server = server
        self._received = b""
        self._poisoned_by = ""
        self._is_playing = False
        self._tasks: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        # After an early reply the next request may follow the rest of the last one directly.
        while self._has_answered_next():
            pass

    def _has_answered_next(self) -> bool:
        """Answer the request at the beginning of what was received; False when it is not there as a whole."""
        match = _PATH.match(self._received)
        if match is None:
            return False
        case, role = int(match[1]), match[2].decode()
        fault = self._server.faults.get(case) if role == "fault" else None
        if not self._is_playing and fault is not None and fault.is_early:
            self._play(case, fault)
        head, gap, body = self._received.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if not gap or length is None or len(body) < int(length[1]):
            return False
        self._received = body[int(length[1]) :]
        if self._poisoned_by:
            self._server.reused.append(f"case {case} ({role}) after {self._poisoned_by}")
        if fault is None:
            self._transport.write(reply(answer_of(case, role)))
        elif not self._is_playing:
            self._play(case, fault)
        self._is_playing = False
        return True

    def _play(self, case: int, fault: Fault) -> None:
        self._is_playing = True
        self._server.begun.add(case)
        task = asyncio.get_running_loop().create_task(self._steps(case, fault))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _steps(self, case: int, fault: Fault) -> None:
        for step in fault.steps:
            if step.wait:
                await asyncio.sleep(step.wait)
            if step.sent and not self._transport.is_closing():
                self._transport.write(step.sent)
            if step.end and not self._transport.is_closing():
                self._finish(step.end)
        if fault.is_poisoned:
            self._poisoned_by = f"{fault.family}, case {case}"
        self._server.played[case].set()

    def _finish(self, end: str) -> None:
        if end == "reset":
            self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._transport.abort()
        else:
            self._transport.close()
