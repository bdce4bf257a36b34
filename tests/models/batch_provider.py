"""A provider on loopback with batches, by the published protocols of OpenAI and Anthropic, that can misbehave in every way."""

import json
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from email import message_from_bytes
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Literal, Self
from urllib.parse import parse_qs, urlsplit

import msgspec

Json = dict[str, Any]
Meddling = Literal["reset", "hang", "hang_before", "truncate", "stall", "headless"]
"""`reset`: done, but the connection is cut; `hang`: done, but never answered; `hang_before`: not even done; `truncate`: half the
reply, then the connection is cut; `stall`: half the reply, and never the rest; `headless`: half the reply without a length, as if
that were all."""
_CUSTOM_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_FILE = re.compile(r"/v1/files/([^/]+)/content")
_BATCH = re.compile(r"/v1/batches/([^/]+)")
_CANCEL = re.compile(r"/v1/batches/([^/]+)/cancel")
_MESSAGE_BATCH = re.compile(r"/v1/messages/batches/([^/]+)")
_MESSAGE_CANCEL = re.compile(r"/v1/messages/batches/([^/]+)/cancel")
_RESULTS = re.compile(r"/v1/messages/batches/([^/]+)/results")


class Refused(msgspec.Struct, frozen=True):
    """An error as a reply."""

    status: int
    message: str = "no"
    kind: str = "invalid_request_error"
    headers: dict[str, str] = {}


class Faults(msgspec.Struct, kw_only=True):
    """What goes wrong inside a batch."""

    looks: int = 1
    """Looks at which it is still in progress."""
    is_shuffled: bool = False
    duplicated: int = 0
    missing: int = 0
    malformed: int = 0
    errored: int = 0
    refused: int = 0
    """Requests that end with an error 400."""
    expired: int = 0
    unknown: int = 0
    problems: tuple[Json, ...] = ()
    """Why the batch is not begun."""
    most_waiting: int | None = None
    """Batches that may be under way at once."""


class Batch(msgspec.Struct, kw_only=True):
    """One batch, whoever's protocol it came by."""

    id: str
    requests: list[Json]
    created_at: float
    metadata: Json = {}
    endpoint: str = ""
    input_file_id: str = ""
    looks: int = 0
    status: str = "validating"
    is_cancelled: bool = False


class Request(msgspec.Struct, frozen=True):
    """A request that came in."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of clients that were killed."""


class BatchProvider:
    """The provider, for the time of a `with` block."""

    def __init__(
        self,
        answer: Callable[[Json], str] = lambda _: "A",
        *,
        faults: Faults | None = None,
        meddle: Callable[[str, str, int], "Meddling | Refused | None"] = lambda *_: None,
    ) -> None:
        self.answer = answer
        self.faults = faults or Faults()
        self.meddle = meddle
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, Batch] = {}
        self.live: list[Json] = []
        """Bodies of requests that were not in a batch."""
        self.seen: Counter[str] = Counter()
        """Requests by method and path, ids left out."""
        self.sizes: list[int] = []
        """Bytes of each batch's requests."""
        self.headers: list[dict[str, str]] = []
        self.reject: Callable[[Json], Json | None] = lambda _: None
        """Returns the body of the error with which a request's parameters are rejected."""
        self.most_requests = 50_000
        self.results_at = "https://elsewhere.example/v1"
        """Where batches of messages say that their results are."""
        self.is_closing = threading.Event()
        self._lock = threading.RLock()
        self._server = _Server(("127.0.0.1", 0), type("Exchange", (_Exchange,), {"provider": self}))

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        self.is_closing.set()
        self._server.shutdown()
        self._server.server_close()

    @property
    def created(self) -> int:
        """How many batches there are."""
        return len(self.batches)

    def wait_for(self, what: str, count: int = 1) -> None:
        """Wait until so many requests of a kind, such as `POST /v1/batches`, have come in."""
        while self.seen[what] < count:
            time.sleep(0.005)

    def count(self, request: Request) -> tuple[str, int]:
        """The name of a request without ids, and how many there were of it."""
        name = re.sub(r"/(file|batch|msgbatch)[-_][\w-]+", "/ID", request.path)
        with self._lock:
            self.seen[f"{request.method} {name}"] += 1
            self.headers.append(request.headers)
            return name, self.seen[f"{request.method} {name}"]

    def carry_out(self, request: Request) -> "Json | bytes | Refused":
        """What the provider makes of a request."""
        with self._lock:
            for method, pattern, act in self._ways():
                found = pattern.fullmatch(request.path) if isinstance(pattern, re.Pattern) else pattern == request.path
                if request.method == method and found:
                    ids = found.groups() if isinstance(found, re.Match) else ()
                    return act(request, *ids)
        return Refused(404, f"no such path: {request.path}")

    def _ways(self) -> Iterator[tuple[str, "re.Pattern[str] | str", Callable[..., "Json | bytes | Refused"]]]:
        yield "POST", "/v1/files", self._take_file
        yield "GET", _FILE, lambda _, file_id: self.files.get(file_id) or Refused(404, f"No such File object: {file_id}")
        yield "POST", "/v1/batches", self._create
        yield "GET", "/v1/batches", self._list
        yield "GET", _BATCH, lambda _, name: self._looked_at(name)
        yield "POST", _CANCEL, lambda _, name: self._cancel(name)
        yield "POST", "/v1/messages/batches", self._create_messages
        yield "GET", "/v1/messages/batches", self._list
        yield "GET", _RESULTS, lambda _, name: self._message_results(name)
        yield "GET", _MESSAGE_BATCH, lambda _, name: self._looked_at(name)
        yield "POST", _MESSAGE_CANCEL, lambda _, name: self._cancel(name)
        for path in ("/v1/chat/completions", "/v1/responses", "/v1/messages"):
            yield "POST", path, self._ask

    # OpenAI

    def _take_file(self, request: Request) -> "Json | Refused":
        head = f"Content-Type: {request.headers['content-type']}\r\n\r\n".encode()
        parts = message_from_bytes(head + request.body)
        if not parts.is_multipart():
            return Refused(400, "not a form")
        found = {part.get_param("name", header="content-disposition"): part for part in parts.get_payload()}
        if found["purpose"].get_payload(decode=True) != b"batch":
            return Refused(400, "'purpose' must be 'batch'")
        content = found["file"].get_payload(decode=True)
        file_id = f"file-{len(self.files) + 1:04}"
        self.files[file_id] = content
        name = found["file"].get_filename()
        return {
            "id": file_id,
            "object": "file",
            "bytes": len(content),
            "created_at": int(time.time()),
            "filename": name,
            "purpose": "batch",
            "status": "processed",
        }

    def _create(self, request: Request) -> "Json | Refused":
        body = json.loads(request.body)
        if body.get("completion_window") != "24h" or body.get("input_file_id") not in self.files:
            return Refused(400, "a batch needs a file and a completion_window of 24h")
        batch = Batch(
            id=f"batch_{len(self.batches) + 1:04}",
            requests=[],
            created_at=time.time(),
            metadata=body.get("metadata") or {},
            endpoint=body["endpoint"],
            input_file_id=body["input_file_id"],
        )
        self.batches[batch.id] = batch
        self.sizes.append(len(self.files[batch.input_file_id]))
        return self._batch_object(batch)

    def _begin(self, batch: Batch) -> list[Json]:
        """Validate the file of a batch; every problem is told."""
        problems: list[Json] = list(self.faults.problems)
        seen: set[str] = set()
        waiting = sum(one.status == "in_progress" for one in self.batches.values())
        if self.faults.most_waiting is not None and waiting >= self.faults.most_waiting:
            problems.append({"code": "token_limit_exceeded", "message": "Enqueued token limit reached", "line": None})
        lines = self.files[batch.input_file_id].splitlines()
        if len(lines) > self.most_requests:
            problems.append({"code": "too_many_requests", "message": f"more than {self.most_requests} requests", "line": None})
        for number, line in enumerate(lines, 1):
            one = json.loads(line)
            if set(one) != {"custom_id", "method", "url", "body"} or one["method"] != "POST" or one["url"] != batch.endpoint:
                problems.append({"code": "invalid_request", "message": "not a request", "line": number, "param": None})
            if one["custom_id"] in seen:
                problems.append({"code": "duplicate_custom_id", "message": "the id was used", "line": number, "param": "custom_id"})
            seen.add(one["custom_id"])
            batch.requests.append(one)
        return problems

    def _batch_object(self, batch: Batch, problems: list[Json] | None = None) -> Json:
        done = len(batch.requests) if batch.status in ("completed", "expired", "cancelled") else 0
        output, errors = self._split(batch) if done else ([], [])
        shown: Json = {
            "id": batch.id,
            "object": "batch",
            "endpoint": batch.endpoint,
            "errors": {"object": "list", "data": problems} if problems else None,
            "input_file_id": batch.input_file_id,
            "completion_window": "24h",
            "status": batch.status,
            "output_file_id": self._result_file(batch, "output", output),
            "error_file_id": self._result_file(batch, "error", errors),
            "created_at": int(batch.created_at),
            "request_counts": {
                "total": len(batch.requests),
                "completed": self._answered(batch, output),
                "failed": len(errors) if batch.status == "completed" else 0,
            },
            "metadata": batch.metadata,
        }
        return shown

    def _answered(self, batch: Batch, output: list[bytes]) -> int:
        if batch.status == "in_progress":
            return len(batch.requests) * batch.looks // (self.faults.looks + 2)
        return sum(line["error"] is None for line in map(_loaded, output))

    def _result_file(self, batch: Batch, kind: str, lines: list[bytes]) -> str | None:
        if not lines:
            return None
        file_id = f"file-{kind}-{batch.id}"
        self.files.setdefault(file_id, b"".join(line + b"\n" for line in lines))
        return file_id

    def _split(self, batch: Batch) -> tuple[list[bytes], list[bytes]]:
        """The lines of the output file and of the error file."""
        good: list[bytes] = []
        bad: list[bytes] = []
        unanswered = "batch_cancelled" if batch.is_cancelled else "batch_expired"
        for number, (kind, one) in enumerate(self._fates(batch)):
            line: Json = {"id": f"batch_req_{number}", "custom_id": one["custom_id"], "response": None, "error": None}
            rejection = self.reject(one["body"])
            if kind == "answered" and rejection is not None:
                line["response"] = {"status_code": 400, "request_id": f"req_{number}", "body": rejection}
                bad.append(json.dumps(line).encode())
            elif kind == "answered":
                body = _completion(batch.endpoint, one["body"], self.answer(one["body"]))
                line["response"] = {"status_code": 200, "request_id": f"req_{number}", "body": body}
                good.append(json.dumps(line).encode())
            elif kind in ("errored", "refused"):
                status = 500 if kind == "errored" else 400
                body = {"error": {"message": kind, "type": "server_error" if kind == "errored" else "invalid_request_error"}}
                line["response"] = {"status_code": status, "request_id": f"req_{number}", "body": body}
                bad.append(json.dumps(line).encode())
            elif kind == "unanswered":
                line["error"] = {"code": unanswered, "message": "This request could not be executed in time."}
                bad.append(json.dumps(line).encode())
            elif kind == "malformed":
                good.append(json.dumps(line).encode()[:-9])
        return self._mixed(good), bad

    def _mixed(self, lines: list[bytes]) -> list[bytes]:
        faults = self.faults
        # The last ones are whole in any case.
        lines = lines + lines[len(lines) - faults.duplicated :]
        lines += [re.sub(rb'"custom_id": "\w+"', b'"custom_id": "nobody-%d"' % n, lines[-1]) for n in range(faults.unknown)]
        if faults.is_shuffled:
            random.Random(7).shuffle(lines)
        return lines

    def _fates(self, batch: Batch) -> list[tuple[str, Json]]:
        """What becomes of each request: the first ones go wrong in the ways that are wanted, the others are answered."""
        faults, half = self.faults, len(batch.requests) // 2
        kinds = ["missing"] * faults.missing + ["malformed"] * faults.malformed + ["errored"] * faults.errored
        kinds += ["refused"] * faults.refused + ["unanswered"] * faults.expired
        if batch.is_cancelled:
            kinds = ["unanswered"] * half
        kinds += ["answered"] * len(batch.requests)
        return list(zip(kinds, batch.requests, strict=False))

    # Both

    def _list(self, request: Request) -> Json:
        is_openai = request.path == "/v1/batches"
        kept = [batch for batch in self.batches.values() if bool(batch.input_file_id) is is_openai]
        newest = sorted(kept, key=lambda batch: batch.id, reverse=True)
        after = request.query.get("after" if is_openai else "after_id")
        first = next((index + 1 for index, batch in enumerate(newest) if batch.id == after), 0)
        limit = int(request.query.get("limit", 20))
        page = newest[first : first + limit]
        shown = [self._batch_object(batch) if is_openai else self._message_object(batch) for batch in page]
        return {"object": "list", "data": shown, "has_more": first + limit < len(newest)}

    def _looked_at(self, name: str) -> "Json | Refused":
        batch = self.batches.get(name)
        if batch is None:
            return Refused(404, f"No batch found with id '{name}'.", "not_found_error")
        batch.looks += 1
        if batch.input_file_id:
            return self._advanced(batch)
        if batch.status == "in_progress" and (batch.looks > self.faults.looks or batch.is_cancelled):
            batch.status = "ended"
        return self._message_object(batch)

    def _advanced(self, batch: Batch) -> Json:
        problems: list[Json] = []
        if batch.status == "validating":
            problems = self._begin(batch)
            batch.status = "failed" if problems else "in_progress"
        elif batch.status == "in_progress" and batch.looks > self.faults.looks:
            batch.status = "expired" if self.faults.expired else "completed"
        elif batch.status == "cancelling":
            batch.status = "cancelled"
        return self._batch_object(batch, problems)

    def _cancel(self, name: str) -> "Json | Refused":
        batch = self.batches.get(name)
        if batch is None:
            return Refused(404, "no such batch", "not_found_error")
        if batch.status in ("completed", "failed", "expired", "ended"):
            return Refused(409, f"Cannot cancel a batch with status '{batch.status}'.")
        batch.is_cancelled = True
        if not batch.input_file_id:
            return self._message_object(batch)
        if batch.status == "validating":
            self._begin(batch)
        batch.status = "cancelling"
        return self._batch_object(batch)

    # Anthropic

    def _create_messages(self, request: Request) -> "Json | Refused":
        if "anthropic-version" not in request.headers:
            return Refused(400, "anthropic-version: header is required")
        requests = json.loads(request.body)["requests"]
        ids = [one["custom_id"] for one in requests]
        if not ids or len(set(ids)) < len(ids) or not all(map(_CUSTOM_ID.fullmatch, ids)):
            return Refused(400, "custom_id must be unique and match ^[a-zA-Z0-9_-]{1,64}$")
        if any("max_tokens" not in one["params"] for one in requests):
            return Refused(400, "max_tokens: Field required")
        name = f"msgbatch_{len(self.batches) + 1:04}"
        batch = Batch(id=name, requests=requests, created_at=time.time(), status="in_progress")
        self.batches[name] = batch
        self.sizes.append(len(request.body))
        return self._message_object(batch)

    def _message_object(self, batch: Batch) -> Json:
        is_ended = batch.status == "ended"
        kinds = Counter(kind for kind, _ in self._fates(batch)) if is_ended else Counter[str]()
        succeeded = kinds["answered"] + kinds["missing"] + kinds["malformed"]
        return {
            "id": batch.id,
            "type": "message_batch",
            "processing_status": "canceling" if batch.is_cancelled and not is_ended else batch.status,
            "request_counts": {
                "processing": 0 if is_ended else len(batch.requests),
                "succeeded": succeeded,
                "errored": kinds["errored"] + kinds["refused"],
                "canceled": kinds["unanswered"] if batch.is_cancelled else 0,
                "expired": 0 if batch.is_cancelled else kinds["unanswered"],
            },
            "created_at": _moment(batch.created_at),
            "expires_at": _moment(batch.created_at + 86_400),
            "ended_at": _moment(time.time()) if is_ended else None,
            "cancel_initiated_at": _moment(time.time()) if batch.is_cancelled else None,
            "archived_at": None,
            "results_url": f"{self.results_at}/messages/batches/{batch.id}/results" if is_ended else None,
        }

    def _message_results(self, name: str) -> "bytes | Refused":
        batch = self.batches.get(name)
        if batch is None or batch.status != "ended":
            return Refused(404, "no results", "not_found_error")
        lines: list[bytes] = []
        for kind, one in self._fates(batch):
            result: Json = {"type": "canceled" if batch.is_cancelled else "expired"}
            rejection = self.reject(one["params"])
            if kind == "answered" and rejection is not None:
                result = {"type": "errored", "error": rejection}
            elif kind in ("answered", "malformed"):
                message = _completion("/v1/messages", one["params"], self.answer(one["params"]))
                result = {"type": "succeeded", "message": message}
            elif kind in ("errored", "refused"):
                word = "api_error" if kind == "errored" else "invalid_request_error"
                result = {"type": "errored", "error": {"type": "error", "error": {"type": word, "message": kind}}}
            line = json.dumps({"custom_id": one["custom_id"], "result": result}).encode()
            lines += [] if kind == "missing" else [line[:-9] if kind == "malformed" else line]
        return b"".join(line + b"\n" for line in self._mixed(lines))

    def _ask(self, request: Request) -> "Json | Refused":
        body = json.loads(request.body)
        self.live.append(body)
        rejection = self.reject(body)
        if rejection is not None:
            return Refused(400, rejection["error"]["message"])
        return _completion(request.path, body, self.answer(body))


def _moment(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.123456Z", time.gmtime(at))


def _loaded(line: bytes) -> Json:
    try:
        loaded: Json = json.loads(line)
    except ValueError:
        return {"error": "malformed"}
    return loaded


def _completion(path: str, body: Json, text: str) -> Json:
    model = body["model"]
    if path.endswith("/messages"):
        content = [{"type": "text", "text": text}]
        usage = {"input_tokens": 40, "output_tokens": 12}
        return {"id": "msg_1", "type": "message", "model": model, "content": content, "stop_reason": "end_turn", "usage": usage}
    if path.endswith("/responses"):
        usage = {"input_tokens": 40, "output_tokens": 12, "total_tokens": 52}
        output = [{"type": "message", "content": [{"type": "output_text", "text": text}]}]
        return {"id": "resp_1", "model": model, "status": "completed", "output": output, "usage": usage}
    usage = {"prompt_tokens": 40, "completion_tokens": 12, "total_tokens": 52}
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return {"id": "chatcmpl-1", "object": "chat.completion", "model": model, "choices": [choice], "usage": usage}


class _Exchange(BaseHTTPRequestHandler):
    """One request and its reply."""

    provider: BatchProvider
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers.get("Content-Length", 0))))

    def do_GET(self) -> None:
        self._answer(b"")

    def _answer(self, body: bytes) -> None:
        target = urlsplit(self.path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        query = {name: values[0] for name, values in parse_qs(target.query).items()}
        request = Request(self.command, target.path, query, headers, body)
        meddling = self.provider.meddle(self.command, *self.provider.count(request))
        if meddling == "hang_before":
            self._hang()
            return
        said = meddling if isinstance(meddling, Refused) else self.provider.carry_out(request)
        if meddling == "hang":
            self._hang()
        elif meddling == "reset":
            self.close_connection = True
        else:
            self._send(said, how=meddling if isinstance(meddling, str) else "")

    def _hang(self) -> None:
        self.provider.is_closing.wait()
        self.close_connection = True

    def _send(self, said: "Json | bytes | Refused", *, how: str) -> None:
        refused = said if isinstance(said, Refused) else Refused(200)
        error = {"error": {"type": refused.kind, "message": refused.message}}
        sent = said if isinstance(said, bytes) else json.dumps(error if said is refused else said).encode()
        self.send_response(refused.status)
        if how != "headless":
            self.send_header("Content-Length", str(len(sent)))
        for name, value in refused.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.close_connection = self.close_connection or bool(how)
        self.wfile.write(sent[: len(sent) // 2] if how else sent)
        if how == "stall":
            self._hang()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the parent's names
        """Say nothing on standard error."""
