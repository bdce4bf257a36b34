"""Providers that follow a script of chance: every request gets from the seed how long it takes and what becomes of it."""

import hashlib
import json
from typing import Any

import msgspec

from tests.simulation.network import Delivery, OnEnd
from tests.simulation.world import Call, World

PRICES = {"gpt-4o": (2.5e-06, 1e-05), "gpt-4.1": (2e-06, 8e-06), "gpt-4o-mini": (1.5e-07, 6e-07), "o3-mini": (1.1e-06, 4.4e-06)}
"""US dollars for a token of input and of output, as the price list has them; the first model is the candidate."""
CANDIDATE, *JUDGES = PRICES

FINE = "fine"
WAITS = ("1", "3.5", "8", "45", "90", "-3", "soon", "0")
"""Values of Retry-After, of which some are none."""
LATE = 500.0
"""Seconds after which every caller has given up."""

Body = dict[str, Any]


class Habits(msgspec.Struct, frozen=True, kw_only=True):
    """What a provider does how often."""

    weights: dict[str, float]
    """By kind of end; `fine` is among them."""
    latencies: tuple[float, ...]
    outages: tuple[tuple[float, float], ...] = ()
    """Times in which every request fails."""
    refusals: float = 0.0
    """Share of connections that are refused."""
    silence: float = 0.0
    """Share of connections that nobody answers."""
    closes: float = 0.0
    """Share of connections that the provider closes after a reply."""
    criteria: int = 1
    """Criteria of one record, which a judge may be asked about together."""


class Provider:
    """All providers, each under its host; they outlive the processes that call them."""

    def __init__(self, world: World, habits: Habits) -> None:
        self._world = world
        self._habits = habits
        self._kinds = list(habits.weights)
        self._weights = list(habits.weights.values())

    def accepts(self, host: str) -> bool | None:
        """True for a connection, False for a refusal, None when nobody ever answers; those are calls too."""
        draw = self._world.chance.random()
        if draw >= self._habits.refusals + self._habits.silence:
            return True
        is_refused = draw < self._habits.refusals
        call = self._noted(host, "", b"", kind="refused" if is_refused else "silence")
        call.ended = call.at
        return False if is_refused else None

    def received(self, host: str, request: bytes) -> tuple[list[Delivery], OnEnd]:
        """What comes back for a request; the last value is told when the caller has heard of the end."""
        content = request.partition(b"\r\n\r\n")[2]
        body = json.loads(content)
        call = self._noted(host, body["model"], json.dumps(body["messages"]).encode(), kind=self._kind(body["model"]))
        call.asked = body["messages"][-1]["content"]
        deliveries = self._deliveries(call, body)

        def end(*, is_heard: bool) -> None:
            call.ended = self._world.clock.now
            if not is_heard:
                call.kind, call.cost = "given_up", 0.0
            self._world.note("ended", call.number, call.kind)

        return deliveries, end

    def _noted(self, host: str, model: str, words: bytes, *, kind: str) -> Call:
        world = self._world
        key = hashlib.sha256(model.encode() + words).hexdigest()[:12] if model else ""
        number, at = len(world.calls) + 1, world.clock.now
        call = Call(number=number, life=world.life, host=host, model=model, key=key, at=at, kind=kind)
        world.calls.append(call)
        world.note("call", call.number, model, key, kind)
        return call

    def _kind(self, model: str) -> str:
        now, chance = self._world.clock.now, self._world.chance
        if any(begin <= now < end for begin, end in self._habits.outages):
            return chance.choice(("overloaded", "rate_limited", "timeout", "reset"))
        kind = chance.choices(self._kinds, self._weights)[0]
        return FINE if kind in UNREADABLE and model == CANDIDATE else kind

    def _deliveries(self, call: Call, body: Body) -> list[Delivery]:
        after = self._world.chance.choice(self._habits.latencies)
        if call.kind == "timeout":
            return []
        if call.kind == "late":
            return [Delivery(LATE, self._reply(call, 200, self._completion(call, body)))]
        if call.kind in ("reset", "dropped"):
            return [Delivery(after, is_end=True, is_reset=call.kind == "reset")]
        if call.kind == "garbage":
            return [Delivery(after, b"\x16\x03\x01 this is not HTTP\r\n\r\n")]
        if call.kind in REFUSALS:
            return [Delivery(after, self._refusal(call))]
        whole = self._reply(call, 200, self._completion(call, body))
        if call.kind == "cut":
            return [Delivery(after, whole[: len(whole) // 2], is_reset=True)]
        closes = self._world.chance.random() < self._habits.closes
        return [Delivery(after, whole, is_end=closes)]

    def _refusal(self, call: Call) -> bytes:
        status, error = REFUSALS[call.kind]
        headers = {}
        if call.kind in REJECTED_ON_ARRIVAL and self._world.chance.random() < 0.5:
            headers["Retry-After"] = self._world.chance.choice(WAITS)
            call.retry_after = _seconds(headers["Retry-After"])
        return self._reply(call, status, json.dumps({"error": error}), headers)

    def _reply(self, call: Call, status: int, body: str, headers: dict[str, str] | None = None) -> bytes:
        content = body[: len(body) // 2].encode() if call.kind == "malformed" else body.encode()
        named = {"Content-Length": str(len(content)), "x-request-id": f"req-{call.number}", **(headers or {})}
        lines = [f"HTTP/1.1 {status} Whatever", *(f"{name}: {value}" for name, value in named.items())]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + content

    def _completion(self, call: Call, body: Body) -> str:
        """A whole answer, as far as the kind of its end allows; what it costs is noted."""
        text = self._answer(body) if call.model == CANDIDATE else self._verdict(call.kind, body)
        message: Body = {"role": "assistant", "content": {"empty": "", "null": None}.get(call.kind, text)}
        if call.kind == "refusal":
            message = {"role": "assistant", "content": None, "refusal": "I would rather not."}
        call.said = message["content"] or message.get("refusal") or ""
        finish = {"filtered": "content_filter", "truncated": "length"}.get(call.kind, "stop")
        asked, said = self._world.chance.randint(1, 4000), self._world.chance.randint(0, 2000)
        usage = {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said}
        completion: Body = {"id": f"c-{call.number}", "model": call.model, "usage": None if call.kind == "uncounted" else usage}
        if call.kind == "error_inside":
            return json.dumps({**completion, "error": {"message": "it went wrong", "type": "server_error"}})
        if call.kind not in UNPAID:
            call.cost = asked * PRICES[call.model][0] + said * PRICES[call.model][1]
        return json.dumps({**completion, "choices": [{"message": message, "finish_reason": finish}]})

    def _answer(self, body: Body) -> str:
        words = body["messages"][-1]["content"]
        if "Yes" in words and "No" in words:
            return json.dumps({"answer": self._world.chance.choice(("A", "B", "C")), "reasoning": "It seems so."})
        return self._world.chance.choice(ANSWERS) + words[-40:]

    def _verdict(self, kind: str, body: Body) -> str:
        if kind in UNREADABLE:
            return UNREADABLE[kind]
        schema = body["response_format"]["json_schema"]["schema"]
        verdict = self._value(schema, 0)
        said = json.dumps(verdict)
        return f"Here it is:\n```json\n{said}\n```" if kind == "fenced" else said

    def _value(self, schema: Body, number: int) -> Any:
        chance = self._world.chance
        if "enum" in schema:
            return chance.choice(schema["enum"])
        match schema.get("type"):
            case "object":
                return {name: self._value(member, number) for name, member in schema["properties"].items()} | (
                    {"number": number} if number and "number" in schema["properties"] else {}
                )
            case "array":
                return [self._value(schema["items"], place + 1) for place in range(self._habits.criteria)]
            case "boolean":
                return chance.random() < 0.6
            case "integer":
                return chance.randint(1, 5)
            case "number":
                return round(chance.random(), 1)
            case _:
                return "Because it is so."


def _seconds(value: str) -> float | None:
    try:
        return float(value) if float(value) >= 0 else None
    except ValueError:
        return None


ANSWERS = (
    "It depends. ",
    "Certainly: ",
    "\u00fc\u00f1\u00ef ",
    "nul \x00 ",
    "bell \x07 ",
    "lone \ud800 ",
    "<script>alert(1)</script> ",
    "5 ",
)
REJECTED_ON_ARRIVAL = ("rate_limited", "overloaded")
"""Kinds of ends that cost nothing, and are no attempt while others get through."""
UNREADABLE = {"prose": "I think that it is rather good.", "bad_json": '{"score": 4, "justif', "out_of_scale": '{"score": 85}'}
"""What judges say that is no verdict, by kind."""
REFUSALS: dict[str, tuple[int, Body]] = {
    "rate_limited": (429, {"message": "slow down", "type": "rate_limit_error"}),
    "overloaded": (503, {"message": "overloaded"}),
    "broken": (500, {"message": "it broke", "type": "server_error"}),
    "bad_gateway": (502, {"message": "bad gateway"}),
    "rejected": (400, {"message": "not like this", "type": "invalid_request_error"}),
    "too_long": (400, {"message": "too long", "code": "context_length_exceeded"}),
    "unauthorized": (401, {"message": "who are you", "type": "authentication_error"}),
    "quota": (429, {"message": "You exceeded your current quota", "code": "insufficient_quota"}),
}
UNPAID = frozenset({"malformed", "cut", "late", "null", "filtered", "uncounted", "error_inside"})
"""Kinds of ends with an answer that the caller can put no price on."""
FAULTS = (
    *REFUSALS,
    *UNREADABLE,
    "empty",
    "refusal",
    "truncated",
    "fenced",
    "timeout",
    "reset",
    "dropped",
    "garbage",
    *sorted(UNPAID),
)
"""Every kind of end but the one that is fine."""
