"""3,000 malformed and mistimed replies: each ends as the right answer or as a stated failure, and none answers another request."""

import asyncio
from collections import defaultdict
from contextlib import AsyncExitStack
from random import Random

import msgspec

from assay.core.model_call import TRANSIENT_CODES, ModelFailure
from assay.models.endpoint import Endpoint
from assay.models.failures import ERROR_WORDS, STATUS_CODES
from assay.models.transport import Transport, open_transport
from tests.models.fuzzing_server import FAMILIES, FILLER, WAITING, Family, FuzzingServer

CASES = 3_000
SEED = 20
LANES = 24
"""Requests side by side, each over connections of its own."""
DEADLINE = 0.25
"""Seconds of the cases that only the deadline ends."""
STUCK = 150.0
"""Seconds after which something hangs; all cases together take about ten, and a minute on a busy machine."""
ANSWER = "answer"
STATED = {*TRANSIENT_CODES, *STATUS_CODES.values(), *ERROR_WORDS.values(), "reply_too_large", "redirect_refused", "refused"}
NEVER_ANSWERED = ("truncated", "reset at each byte", "length too long", "two lengths", "header flood", "trailer flood", "stalled")
"""Families of which no client can have a whole answer, or would have to take more than it should."""
BODY = b'{"padding": "0123456789"}'
LARGE_BODY = b"x" * 2_000_000
"""Larger than the buffers of a socket: an answer can come before all of it is sent."""


class Answer(msgspec.Struct):
    """What the server answers: the request it belongs to, and a filler that a cut would shorten."""

    case: int
    role: str
    filler: str


DECODER = msgspec.json.Decoder(Answer)


class Fuzzing:
    """Cases, each of which is a malformed reply and a healthy request after it."""

    def __init__(self) -> None:
        self.server = FuzzingServer()
        self.ends: defaultdict[str, list[str]] = defaultdict(list)
        """How the malformed replies of each family ended: `answer`, or the code of a failure."""
        self.wrong: list[str] = []

    async def play(self, transport: Transport, family: Family, case: int, *, must_recover: bool) -> None:
        """Provoke one fault, wait until all of it is sent, and ask again over the same connections."""
        fault = family(Random(f"{SEED}/{case}"), case)
        sent = self.server.announce(case, fault)
        end = await self.ask(transport, case, "fault", body=LARGE_BODY if fault.is_early else BODY)
        self.ends[fault.family].append(end)
        # On a busy machine a deadline can end a request before the server has read it: then nothing is going to be sent.
        if case in self.server.begun:
            await sent.wait()
        if case % 2:
            # Half of the late bytes are read while the connection is idle, the others are found just before it is used again.
            await asyncio.sleep(0.002)
        end = await self.ask(transport, case, "probe")
        if end != ANSWER and must_recover:
            self.wrong.append(f"case {case}: after '{fault.family}' a healthy request ended with {end}")

    async def ask(self, transport: Transport, case: int, role: str, *, body: bytes = BODY) -> str:
        """Send one request; returns how it ended."""
        head = transport.head(f"/case/{case}/{role}")
        try:
            found = (await transport.post(head, body, decoder=DECODER)).value
        except ModelFailure as failure:
            return failure.code
        if found != Answer(case, role, FILLER):
            self.wrong.append(f"case {case} ({role}) got the answer of {found.case} ({found.role})")
        return ANSWER


async def fuzzed(count: int) -> Fuzzing:
    """Play so many cases; one in twenty waits for its deadline."""
    fuzzing = Fuzzing()
    listening, url = await fuzzing.server.start()
    cases = iter(range(count))

    async def work(patient: Transport, hasty: Transport) -> None:
        for case in cases:
            if case % 20:
                await fuzzing.play(patient, FAMILIES[case % len(FAMILIES)], case, must_recover=True)
            else:
                # A busy machine may miss so short a deadline with a healthy answer, too.
                await fuzzing.play(hasty, WAITING[case // 20 % len(WAITING)], case, must_recover=False)

    async with AsyncExitStack() as stack:
        stack.callback(listening.close)
        lanes = []
        for _ in range(LANES):
            endpoints = [Endpoint(provider="fuzz", kind="openai", url=url, timeout=seconds) for seconds in (STUCK, DEADLINE)]
            lanes.append([await stack.enter_async_context(open_transport(endpoint)) for endpoint in endpoints])
        async with asyncio.timeout(STUCK):
            await asyncio.gather(*(work(*transports) for transports in lanes))
    return fuzzing


def test_3000_malformed_replies_answer_no_other_request_and_leave_no_connection_for_one() -> None:
    fuzzing = asyncio.run(fuzzed(CASES))
    assert fuzzing.wrong == []
    assert fuzzing.server.reused == []
    assert sum(map(len, fuzzing.ends.values())) == CASES
    assert {end for ends in fuzzing.ends.values() for end in ends} <= {ANSWER, *STATED}
    assert [family for family in NEVER_ANSWERED if ANSWER in fuzzing.ends[family]] == []
