"""Attacks from a file, each carried out on a real service: what is sent is in `request`, what must hold is in `expected`."""

import json
import re
import socket
import statistics
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from itertools import count
from math import log2
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from assay.surfaces.server.keys import KeyStore
from tests.surfaces.server.serving import JSON, PATIENCE, Answered, Serving, dataset

Attack = dict[str, Any]
PIECE = b" " * (1 << 20)
INJECTIONS = ("' OR 1=1 --", '"; DROP TABLE submission; --', "1;SELECT pg_sleep(9)", "' UNION SELECT NULL--", "admin'/*", "\\x27")
PARAMETERS = ("cursor", "state", "dataset", "model", "limit", "before", "after", "contract", "name", "nonsense")
FRESH = count()


class Observed(msgspec.Struct, kw_only=True):
    """What an attack did to a service."""

    answers: list[Answered] = []
    created: int = 0
    left_over: list[str] = []
    growth_mb: float = 0.0
    other_clients_s: list[float] = []
    exit_code: int = 0
    message: str = ""
    run_ids: list[str] = []
    outbound_calls: int = 0
    state: str = ""
    before: bytes = b""
    after: bytes = b""

    @property
    def last(self) -> Answered:
        return self.answers[-1]


def carried_out(attack: Attack, service: Serving) -> Observed:
    """Carry out one attack."""
    request = attack["request"]
    action = next((action for member, action in ACTIONS.items() if member in request), _asked)
    seen = Observed()
    runs, memory = len(service.runs()), memory_mb(service.pid)
    action(attack, service, seen)
    service.wait_for(lambda: not service.left_over())
    seen.created = len(service.runs()) - runs
    seen.left_over = service.left_over()
    seen.growth_mb = memory_mb(service.pid) - memory
    return seen


def broken_promises(attack: Attack, seen: Observed) -> list[str]:
    """What was expected and is not so; an expectation that is not known counts as one that is not so."""
    unknown: Callable[[Any, Observed], bool] = lambda _wanted, _seen: False  # noqa: E731
    return [
        f"{name}: {wanted} (seen: {[answer.status for answer in seen.answers]} {seen.message[:200]})"
        for name, wanted in attack["expected"].items()
        if not PROMISES.get(name, unknown)(wanted, seen)
    ]


def memory_mb(pid: int) -> float:
    """Resident memory of a process."""
    text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(text.split("VmRSS:")[1].split()[0]) / 1024


def expanded(value: Any) -> str:
    """A header as it is sent: text, or a text so many times."""
    return value["$repeat"] * value["times"] if isinstance(value, dict) else str(value)


def _asked(attack: Attack, service: Serving, seen: Observed) -> None:
    """One request, or the same one as often as the attack says."""
    request, what = attack["request"], attack["what"]
    path = _placed(request.get("path", "/healthz"), service)
    headers = {name: expanded(value) for name, value in request.get("headers", {}).items()}
    if "Idempotency-Key" in headers:
        headers["Idempotency-Key"] += f"-{next(FRESH)}"
    method = request.get("method", "GET")
    body = json.dumps(dataset(2)).encode() if path == "/v1/runs" and method == "POST" else None
    target = _target(path)
    seen.before = service.ask("GET", target).body
    if "after a 400" in what:
        assert service.ask("POST", path, b"{", {**JSON, **headers}).status == 400
    times = int((re.search(r"(\d+) at once", what) or [0, 1 + ("same_run_id" in attack["expected"])])[1])
    with ThreadPoolExecutor(times) as pool:
        asked = [pool.submit(service.ask, method, path, body, {**(JSON if body else {}), **headers}) for _ in range(times)]
        seen.answers = [answer.result() for answer in asked]
    seen.after = service.ask("GET", target).body
    if "/cancel" in path:
        seen.state = service.ask("GET", path.removesuffix("/cancel")).json["state"]


def _target(path: str) -> str:
    """What an attack may have changed."""
    return path if "/artifacts/" in path else "/healthz"


def _placed(path: str, service: Serving) -> str:
    """A path with the id of a finished run where it has a placeholder."""
    if not re.search(r"\b(RUN|DONE)\b", path):
        return path
    run_id = service.ended(service.submit(dataset(1)).json["run_id"])["run_id"]
    return re.sub(r"\b(RUN|DONE)\b", run_id, path)


def _without_key(attack: Attack, service: Serving, seen: Observed) -> None:
    """On a service that others can reach."""
    folder = service.folder / f"open-{next(FRESH)}"
    folder.mkdir()
    serving = Serving(folder, host="0.0.0.0")
    KeyStore(serving.runs_dir).add("somebody", "write")
    with serving:
        request = attack["request"]
        path = request["path"].replace("RUN", "run_1")
        seen.answers = [serving.ask(request["method"], path, dataset(1) if request["method"] == "POST" else None)]


def _started(attack: Attack, service: Serving, seen: Observed) -> None:
    folder = service.folder / f"start-{next(FRESH)}"
    folder.mkdir()
    command = [*Serving(folder).command(), *attack["request"]["start"]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    seen.exit_code, seen.message = done.returncode, done.stderr


def _in_chunks(attack: Attack, service: Serving, seen: Observed) -> None:
    """A body of which no length is known."""
    request = attack["request"]
    pieces = -(-request["chunked_bytes"] // len(PIECE))
    connection = HTTPConnection("127.0.0.1", service.port, timeout=60)
    connection.request(request["method"], request["path"], iter([PIECE] * pieces), JSON, encode_chunked=True)
    answer = connection.getresponse()
    seen.answers = [Answered(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())]
    connection.close()


def _cut_off(attack: Attack, service: Serving, seen: Observed) -> None:  # noqa: ARG001  # there is no answer
    """A body that ends before its announced end."""
    request = attack["request"]
    head = f"{request['method']} {request['path']} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", service.port)) as connection:
        connection.sendall(f"{head}Content-Length: {request['declared']}\r\n\r\n".encode() + b" " * request["sent"])
        service.wait_for(service.left_over)
        if request.get("then") == "RST":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    service.wait_for(lambda: not service.left_over())


def _dripped(attack: Attack, service: Serving, seen: Observed) -> None:
    """Many connections that send a byte now and then, while others go on with their work."""
    is_quick = PROMISES["other_clients_p95_ms_max"]
    wanted, end = attack["expected"].get("other_clients_p95_ms_max"), time.monotonic() + PATIENCE
    with slow_connections(service, attack["request"]["connections"]):
        # Whom these connections hold up, they hold up again and again; whom a busy machine does, not for long.
        while len(seen.other_clients_s) < 40 or (wanted and not is_quick(wanted, seen) and time.monotonic() < end):
            start = time.perf_counter()
            seen.answers.append(service.ask("GET", "/healthz"))
            seen.other_clients_s = [*seen.other_clients_s[-39:], time.perf_counter() - start]


@contextmanager
def slow_connections(service: Serving, number: int) -> Iterator[list[socket.socket]]:
    """So many connections that have begun a request and do not go on with it."""
    opened = [socket.create_connection(("127.0.0.1", service.port), timeout=60) for _ in range(number)]
    try:
        for connection in opened:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nX")
        yield opened
    finally:
        for connection in opened:
            connection.close()


def _called_back(attack: Attack, service: Serving, seen: Observed) -> None:
    """Addresses that the service must not call, wherever an address could go; one of them is ours, and would notice."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.5)
        for url in [*attack["request"]["urls"], f"http://127.0.0.1:{listener.getsockname()[1]}/"]:
            for name in ("callback_url", "webhook", "url", "model", "judge", "name"):
                seen.answers.append(service.submit(dataset(1), f"?{name}={quote(url, safe='')}"))
            seen.answers.append(service.submit(dataset(1, metadata={"callback_url": url}), headers={"X-Callback-Url": url}))
        try:
            listener.accept()[0].close()
            seen.outbound_calls += 1
        except TimeoutError:
            pass


def _inspected(attack: Attack, service: Serving, seen: Observed) -> None:
    """Ids and answers of all kinds."""
    if "ids" in attack["request"]["inspect"]:
        seen.run_ids = [service.submit(dataset(1)).json["run_id"] for _ in range(100)]
        return
    odd = (
        *("/nowhere", "/v1/runs/x", "/v1/runs?limit=x", "/v1/runs", "/healthz", "/v1/audit", "/v1/compare", "/openapi.json/x"),
        *("/v1/runs/x/artifacts", "/v1/runs/x/records/y", "/v1/runs/x/events"),
    )
    seen.answers = [service.ask(method, path) for method in ("GET", "POST", "DELETE", "PATCH") for path in odd]


def _injected(attack: Attack, service: Serving, seen: Observed) -> None:
    """Hostile texts in every parameter and header."""
    path = Path(attack["request"]["data"])
    texts = path.read_text(encoding="utf-8").splitlines()[:60] if path.is_file() else INJECTIONS
    for text in filter(None, texts):
        quoted = quote(text, safe="")
        seen.answers += [service.ask("GET", f"/v1/runs?{name}={quoted}") for name in PARAMETERS]
        seen.answers += [service.ask("GET", place) for place in (f"/v1/runs/{quoted}", f"/v1/runs/x/records/{quoted}")]
        plain = text.encode("ascii", "replace").decode()
        for name in ("x-api-key", "Authorization", "Idempotency-Key", "x-request-id", "Last-Event-ID", "If-None-Match", "Range"):
            seen.answers.append(service.ask("GET", "/v1/runs?limit=1", headers={name: plain}))


ACTIONS: dict[str, Callable[[Attack, Serving, Observed], None]] = {
    "auth": _without_key,
    "start": _started,
    "chunked_bytes": _in_chunks,
    "declared": _cut_off,
    "connections": _dripped,
    "urls": _called_back,
    "inspect": _inspected,
    "data": _injected,
}
"""What is done, by the member that an attack's request has; a plain request otherwise."""


def _has_field(wanted: str, seen: Observed) -> bool:
    shown = [answer for answer in seen.answers if answer.headers.get("content-type", "").startswith("application/json")]
    return bool(shown) and all(answer.json[wanted] == answer.headers["x-request-id"] for answer in shown)


def _has_entropy(wanted: float, seen: Observed) -> bool:
    """Bits of chance in the ids: of those characters that differ from one to the next."""
    columns = zip(*seen.run_ids, strict=True)
    bits = sum(5 for column in columns if len(set(column)) > 20)
    return len(set(seen.run_ids)) == len(seen.run_ids) and bits * log2(32) / 5 >= wanted


def _carries(wanted: dict[str, str], seen: Observed) -> bool:
    policy = {name: seen.last.headers.get(name.lower(), "") for name in wanted}
    return all(text in policy[name] for name, text in wanted.items()) and "unsafe-inline" not in str(policy)


PROMISES: dict[str, Callable[[Any, Observed], bool]] = {
    "status": lambda wanted, seen: seen.last.status == wanted,
    "status_any_of": lambda wanted, seen: seen.last.status in wanted,
    "status_not": lambda wanted, seen: all(answer.status != wanted for answer in seen.answers),
    "statuses_subset": lambda wanted, seen: {answer.status for answer in seen.answers} <= set(wanted),
    "exit_nonzero": lambda wanted, seen: (seen.exit_code != 0) == wanted,
    "message_names": lambda wanted, seen: wanted in seen.message,
    "no_run_created": lambda wanted, seen: (seen.created == 0) == wanted,
    "runs_created": lambda wanted, seen: seen.created == wanted,
    "temp_files_left": lambda wanted, seen: len(seen.left_over) == wanted,
    "body_not_contains": lambda wanted, seen: all(wanted.encode() not in answer.body for answer in seen.answers),
    "body_contains": lambda wanted, seen: wanted.encode() in seen.last.body,
    "rss_growth_mb_max": lambda wanted, seen: seen.growth_mb <= wanted,
    "other_clients_p95_ms_max": lambda wanted, seen: statistics.quantiles(seen.other_clients_s, n=20)[-1] * 1000 <= wanted,
    "same_run_id": lambda wanted, seen: (len({answer.json["run_id"] for answer in seen.answers}) == 1) == wanted,
    "state": lambda wanted, seen: seen.state == wanted,
    "entropy_bits_min": _has_entropy,
    "outbound_calls": lambda wanted, seen: seen.outbound_calls == wanted,
    "field": _has_field,
    "bytes_unchanged": lambda wanted, seen: (seen.before == seen.after) == wanted,
    "header_contains": _carries,
}
"""When an expectation holds, by its name."""

OWN_ATTACKS: list[Attack] = [
    {
        "id": "open to others without a key",
        "what": "",
        "request": {"start": ["--host", "0.0.0.0"]},
        "expected": {"exit_nonzero": True, "message_names": "assay keys add"},
    },
    {
        "id": "120 MB of which no length is known",
        "what": "",
        "request": {"method": "POST", "path": "/v1/runs", "chunked_bytes": 120 << 20},
        "expected": {"status": 413, "rss_growth_mb_max": 250, "no_run_created": True, "temp_files_left": 0},
    },
    {
        "id": "upload that is cut off",
        "what": "",
        "request": {"method": "POST", "path": "/v1/runs", "declared": 9_000_000, "sent": 5_000_000, "then": "RST"},
        "expected": {"no_run_created": True, "temp_files_left": 0},
    },
    {
        "id": "200 slow connections",
        "what": "",
        "request": {"connections": 200},
        "expected": {"status": 200, "other_clients_p95_ms_max": 1000},
    },
    {"id": "ids that can be guessed", "what": "", "request": {"inspect": "ids"}, "expected": {"entropy_bits_min": 70}},
    {"id": "answers without an id", "what": "", "request": {"inspect": "all"}, "expected": {"field": "request_id"}},
    {"id": "database language", "what": "", "request": {"data": ""}, "expected": {"status_not": 500}},
    {
        "id": "addresses to call",
        "what": "",
        "request": {"urls": ["http://169.254.169.254/", "gopher://127.0.0.1/"]},
        "expected": {"outbound_calls": 0},
    },
]
"""The kinds that every installation can try."""
