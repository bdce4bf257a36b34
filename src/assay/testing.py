"""Test doubles for users' tests: scripted models, a provider on loopback, and small valid datasets."""

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

import msgspec

from assay.core.contract import CONTRACTS, ContractId
from assay.core.model_call import ModelFailure, Reply
from assay.models.limited_stub import (
    CallsInFlight,
    FixedWindow,
    HeaderStyle,
    LimitState,
    SlidingWindow,
    StubLimit,
    TokenBucket,
    limit_headers,
)
from assay.models.scripted import Answer, Script, ScriptedModel, named_script

__all__ = [
    "Answer",
    "CallsInFlight",
    "FixedWindow",
    "LimitState",
    "ModelFailure",
    "Reply",
    "Script",
    "ScriptedModel",
    "SlidingWindow",
    "StubLimit",
    "StubProvider",
    "StubReply",
    "StubRequest",
    "TokenBucket",
    "example_dataset",
    "named_script",
]


_LIMIT_REACHED = {"error": {"message": "rate limit reached", "type": "rate_limit_error"}}
_TOKENS = 52
"""Tokens of every answer."""


class StubReply(msgspec.Struct, frozen=True, kw_only=True):
    """A whole HTTP reply of a stub provider."""

    status: int = 200
    body: Any = None
    """JSON, or bytes that are sent as they are."""
    headers: Mapping[str, str] = {}


class StubRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request that a stub provider received."""

    path: str
    headers: Mapping[str, str]
    """By lower-case name."""
    body: Any


StubAnswer = str | StubReply
StubScript = Callable[[StubRequest], StubAnswer]
StubAnswers = str | Sequence[StubAnswer] | StubScript
StubWrap = Callable[[StubRequest, str], Any]


class StubProvider:
    """A provider on loopback that speaks chat completions, responses and messages, for the time of a `with` block.

    It answers with a text, with the texts of a list in their order, or with what a function makes of the request. `wrap` makes the
    body of a reply of a request and its answer, for an API that the stub does not speak itself. `limit` is a rate limit, such as
    `TokenBucket(10)` for ten requests per second: what is beyond it gets a 429 at once, with the `headers` that state it, in the
    form of some vendor. `latency` is the seconds that an answer takes.
    """

    def __init__(
        self,
        answers: StubAnswers = "The answer is 4.",
        *,
        wrap: StubWrap | None = None,
        limit: StubLimit | None = None,
        headers: HeaderStyle = "none",
        latency: float = 0.0,
    ) -> None:
        self._script = _stub_script(answers)
        self._wrap = wrap
        self._limit = limit
        self._headers: HeaderStyle = headers
        self._latency = latency
        self._in_flight = 0
        self.rejected = 0
        """Requests that were beyond the limit."""
        self._lock = threading.Lock()
        self.requests: list[StubRequest] = []
        self._server = _Server(("127.0.0.1", 0), _exchange_for(self))

    @property
    def base_url(self) -> str:
        """Value for a provider's base_url."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def answer(self, request: StubRequest) -> StubReply:
        """Note a request and say what is sent back."""
        with self._lock:
            self.requests.append(request)
            stated, is_accepted = self._check_limit()
            said = self._script(request) if is_accepted else StubReply(status=429, body=_LIMIT_REACHED, headers=stated)
        if is_accepted and self._latency:
            time.sleep(self._latency)
        with self._lock:
            self._in_flight -= is_accepted
        if is_accepted and stated:
            reply = self._reply(request, said)
            return msgspec.structs.replace(reply, headers={**stated, **reply.headers})
        return self._reply(request, said)

    def _check_limit(self) -> tuple[dict[str, str], bool]:
        """Return the headers that state the limit, and whether a request is within it."""
        self._in_flight += 1
        if self._limit is None:
            return {}, True
        units = _TOKENS if self._limit.unit == "tokens" else 1
        state = self._limit.take(time.monotonic(), units, self._in_flight - 1)
        self._in_flight -= not state.is_accepted
        self.rejected += not state.is_accepted
        seconds = getattr(self._limit, "seconds", None)
        stated = (
            {}
            if self._headers == "none"
            else limit_headers(self._headers, state, self._limit.unit, now=time.time(), seconds=seconds)
        )
        return stated, state.is_accepted

    def _reply(self, request: StubRequest, said: StubAnswer) -> StubReply:
        if isinstance(said, StubReply):
            return said
        wrap = self._wrap or _wrap_for(request.path)
        return _nothing_at(request.path) if wrap is None else StubReply(body=wrap(request, said))

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()


def example_dataset(contract: ContractId) -> bytes:
    """Return a small valid dataset of a contract: JSON Lines if the contract has lines, otherwise one JSON document."""
    if CONTRACTS[contract].is_lines:
        return b"".join(json.dumps(row).encode() + b"\n" for row in _EXAMPLES[contract])
    return json.dumps(_EXAMPLES[contract], indent=2).encode()


def _stub_script(answers: StubAnswers) -> StubScript:
    if isinstance(answers, str):
        return lambda _: answers
    if callable(answers):
        return answers
    left = iter(answers)
    return lambda _: next(left, StubReply(status=500, body={"error": {"message": "the stub has no answer left"}}))


class _Server(ThreadingHTTPServer):
    request_queue_size = 1024
    """With the five of the standard library, a run's first calls would wait a second for their connections."""
    daemon_threads = True


def _exchange_for(provider: StubProvider) -> type[BaseHTTPRequestHandler]:
    class Exchange(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            is_list = self.path.partition("?")[0].endswith("/models")
            self._send(StubReply(body={"data": []}) if is_list else _nothing_at(self.path))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            self._send(provider.answer(StubRequest(path=self.path, headers=headers, body=json.loads(body))))

        def _send(self, reply: StubReply) -> None:
            sent = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
            self.send_response(reply.status)
            for name, value in {"Content-Type": "application/json", "Content-Length": str(len(sent)), **reply.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(sent)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the parent's names
            """Log nothing to standard error."""

    return Exchange


def _wrap_for(path: str) -> StubWrap | None:
    return next((wrap for end, wrap in _WRAPS.items() if path.partition("?")[0].endswith(end)), None)


def _nothing_at(path: str) -> StubReply:
    return StubReply(status=404, body={"error": {"message": f"the stub has nothing at {path}"}})


def _completion(request: StubRequest, text: str) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 40, "completion_tokens": 12, "total_tokens": 52}
    return {"id": "chatcmpl-stub", "model": _model(request), "choices": [choice], "usage": usage}


def _response(request: StubRequest, text: str) -> dict[str, Any]:
    output = [{"type": "message", "content": [{"type": "output_text", "text": text}]}]
    usage = {"input_tokens": 40, "output_tokens": 12, "total_tokens": 52}
    return {"id": "resp_stub", "model": _model(request), "status": "completed", "output": output, "usage": usage}


def _message(request: StubRequest, text: str) -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    usage = {"input_tokens": 40, "output_tokens": 12}
    return {"id": "msg_stub", "model": _model(request), "content": content, "stop_reason": "end_turn", "usage": usage}


def _model(request: StubRequest) -> str:
    return str(request.body.get("model", "stub")) if isinstance(request.body, dict) else "stub"


_WRAPS: dict[str, StubWrap] = {"/chat/completions": _completion, "/responses": _response, "/messages": _message}
"""How an answer is sent, by the end of the path that was asked."""
_QUESTIONS = ("What is 2 + 2?", "What is 3 + 4?", "What is 9 - 4?", "What is 6 x 7?", "What is 8 / 2?")
_ANSWERS = ("4", "7", "5", "42", "4")
_PAIRS = tuple(zip(_QUESTIONS, _ANSWERS, strict=True))
_EXAMPLES: dict[ContractId, Any] = {
    "batch_v1": {
        "dataset_id": "sums",
        "dataset_version": "1",
        "schema_version": "1.0",
        "created_at": "2026-01-01T00:00:00Z",
        "records": [
            {
                "record_id": f"sum-{number}",
                "input": {"prompt": question},
                "reference": {"answer": answer},
                "expected": {"required_criteria": ["overall"]},
            }
            for number, (question, answer) in enumerate(_PAIRS, 1)
        ],
    },
    "golden_v1": {
        "version": "1.0.0",
        "cases": [
            {"id": f"sum-{number}", "user_prompt": question, "rubric": f"Says that the result is {answer}."}
            for number, (question, answer) in enumerate(_PAIRS, 1)
        ],
    },
    "legal_eval_v1": [
        {
            "schema_version": "legal_eval_v1",
            "id": f"sums:{number}",
            "dataset": "sums",
            "task_type": "mcq",
            "prompt": question,
            "choices": [{"id": "A", "text": answer}, {"id": "B", "text": "none of these"}],
            "correct_choice_ids": ["A"],
        }
        for number, (question, answer) in enumerate(_PAIRS, 1)
    ],
    "conversation_v1": [
        {"turn_id": 1, "speaker": "user", "message": _QUESTIONS[0]},
        {"turn_id": 2, "speaker": "assistant", "assistant_reply": _ANSWERS[0]},
    ],
}
