"""ASGI middleware: request ids, access control, rate limits, limits of time and size, the log, and Prometheus counters."""

import asyncio
import ipaddress
import logging
import re
import socket
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from functools import partial
from typing import Any, Protocol

from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPScope, Message, Receive, Scope, Send
from litestar.utils import normalize_path
from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest
from prometheus_client import Counter as PrometheusCounter

from assay.core.canonical import JsonObject
from assay.core.errors import MissingExtra, StoreUnavailable
from assay.core.integrations import load_integration
from assay.surfaces.observers import FIELDS, RunObserver
from assay.surfaces.server import keys
from assay.surfaces.server.concurrency import CallerRateLimiter, ConcurrencyQuota, RateLimitStatus
from assay.surfaces.server.errors import RETRY_SECONDS, HttpError, render_error
from assay.surfaces.server.keys import SessionStore, token_in
from assay.surfaces.server.settings import ServerSettings

COUNTED_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})
"""Methods that are counted by name; others are counted together, since clients can invent any."""
METRICS_CONTENT_TYPE = "text/plain; version=0.0.4"
"""Response adds the charset."""


class RunMeter(RunObserver, Protocol):
    """An observer that counts what happens in runs."""

    def text(self) -> str:
        """Render the counters in Prometheus' text format."""


class ServiceMetrics:
    """Counters of one service, in its own registry."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.run_metrics = _open_run_metrics()
        self._requests = PrometheusCounter(
            "assay_http_requests", "Requests by route, method and status.", ["route", "method", "status"], registry=self.registry
        )
        self._seconds = Histogram(
            "assay_http_request_seconds", "Seconds from the first byte of a request to its end.", ["route"], registry=self.registry
        )
        self.uploaded = PrometheusCounter("assay_uploaded_bytes", "Bytes of uploads that were taken in.", registry=self.registry)
        self.submitted = PrometheusCounter("assay_runs_submitted", "Runs that were accepted.", registry=self.registry)
        self.waiting = Gauge("assay_runs_waiting", "Runs that wait for their turn.", registry=self.registry)
        self.working = Gauge("assay_runs_working", "Runs that are worked on.", registry=self.registry)

    def count(self, route: str, method: str, *, status: int, seconds: float) -> None:
        """Count one answered request; a status of 0 means that the client disconnected."""
        # A client may use any word as a method; a label for each would fill the memory of Prometheus.
        self._requests.labels(route, method if method in COUNTED_METHODS else "other", str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def text(self) -> bytes:
        """Render all metrics in Prometheus' text format."""
        of_runs = self.run_metrics.text().encode() if self.run_metrics is not None else b""
        return generate_latest(self.registry) + of_runs


def _open_run_metrics() -> RunMeter | None:
    """Open the counters of runs; None without the telemetry integration, and then the service counts its requests alone."""
    try:
        module = load_integration("telemetry", "prometheus", user="/metrics")
    except MissingExtra:
        return None
    metrics: RunMeter = module.PrometheusMetrics()
    return metrics


OPEN_PATHS = frozenset({"/healthz", "/readyz", "/openapi.json", "/docs", "/docs/style.css", "/sign-in", "/sign-out"})
"""Addresses without data of any run, which probes and browsers request without a key."""
# Files of the product, the same for all: they hold nothing of a run.
OPEN_FOLDER = "/static/"
ADMIN_PATHS = frozenset({"/v1/audit"})
# They read a dataset and start nothing, so a key that may only read may use them.
READING_POSTS = frozenset({"/v1/validate", "/validate"})
DRAIN_SECONDS = 30.0
"""Seconds for which a refused body is read on: most clients read the answer only after sending everything, up to 100 MB."""
DRAIN_BYTES = 256 << 20
BODY_BYTES_PER_SECOND = 8 << 10
"""Minimum average speed of an upload, which would otherwise hold a slot for hours."""
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}", re.ASCII)
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?", re.ASCII)
_STREAM = re.compile(r"/live/.+|/v1/runs/[^/]+/events")
CHANGING_METHODS = frozenset({"POST"})
"""Methods that change state; the router refuses all others with 405."""
_SINGLE = frozenset(
    {
        *("host", "origin", "authorization", "x-api-key", "x-request-id", "idempotency-key", "content-type", "content-encoding"),
        *("content-length", "transfer-encoding", "expect", "range", "if-range", "last-event-id"),
    }
)
"""Headers that must not be repeated, because it would be ambiguous which one counts."""
# For every answer; pages have a policy of their own that lets them load scripts and styles (errors.PAGE_HEADERS).
SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


log = logging.getLogger("assay.server")


class AccessControl:
    """Access control by host, caller and rate."""

    def __init__(
        self, known: keys.KeyStore, rates: CallerRateLimiter, *, hosts: Iterable[str], needs_key: bool, sessions: SessionStore
    ) -> None:
        self._keys = known
        self._sessions = sessions
        self._rates = rates
        # The names under which this machine is usually reached; behind a proxy `hosts` has to list others.
        self._hosts = {"localhost", socket.gethostname().lower(), *(host.lower() for host in hosts)}
        self._needs_key = needs_key

    def admit(self, scope: HTTPScope, headers: dict[str, str]) -> tuple[keys.Caller, RateLimitStatus | None]:
        """Authenticate the caller and count the request; raises HttpError."""
        # Use the router's view of the path: another spelling of an address needs the same scope.
        path = normalize_path(scope["path"])
        # Before anything is read: a rebound name must not even learn whether a key is right.
        self._check_host(headers, scope["method"])
        # Forms are sent by browsers, also from other sites; programs use /v1/ and send no origin.
        if scope["method"] in CHANGING_METHODS and not path.startswith("/v1/"):
            _check_same_origin(headers)
        if path in OPEN_PATHS or path.startswith(OPEN_FOLDER):
            return keys.Caller(scope="read"), None
        try:
            caller = self._caller(headers, scope["method"])
        except StoreUnavailable as problem:
            log.warning("%s", problem.message)
            raise HttpError(503, "the keys of this service cannot be read", headers={"Retry-After": "5"}) from problem
        # Counted before the scope is checked: refused requests use the allowance too.
        wanted = _wanted(scope["method"], path)
        # By the name of the key; without keys all callers share one allowance.
        allowance = self._rates.take(caller.name)
        if allowance.retry_after_s:
            raise HttpError(429, "too many requests", headers=allowance.headers())
        if not caller.may(wanted):
            raise HttpError(403, f"this needs a key with the scope '{wanted}'", headers=allowance.headers())
        return caller, allowance

    def still_knows(self, caller: keys.Caller, headers: dict[str, str], *, method: str) -> bool:
        """Return whether the caller is still allowed: the session and the key may have been revoked since."""
        try:
            # Equal, not just known: the key may have another scope or project by now.
            return self._caller(headers, method) == caller
        except (HttpError, StoreUnavailable):
            return False

    def _check_host(self, headers: dict[str, str], method: str) -> None:
        if not self._is_ours(headers.get("host", "")):
            raise HttpError(
                403, "this service is not known under that host name", details={"hint": "the setting `hosts` lists its names"}
            )
        origin = headers.get("origin")
        # The port is part of an origin, and `host` has it too unless it is the default one.
        if origin and method in CHANGING_METHODS and origin.partition("://")[2] != headers["host"]:
            raise HttpError(403, "requests from other sites are not taken")

    def _is_ours(self, host: str) -> bool:
        """Return whether a Host header is ours: an attacker can rebind a name to this server (DNS rebinding), but no IP address."""
        found = _HOST.fullmatch(host.lower())
        if found is None:
            return False
        # An IPv6 address is in brackets in a Host header.
        name = found[1].strip("[]")
        if name in self._hosts:
            return True
        try:
            # A rebound name is always a name, so any IP address is safe.
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    def _caller(self, headers: dict[str, str], method: str) -> keys.Caller:
        if not self._needs_key and not self._keys.are_needed:
            return keys.Caller()
        scheme, _, token = headers.get("authorization", "").partition(" ")
        # Both headers are common; if both are given, x-api-key counts.
        given = headers.get("x-api-key") or (token.strip() if scheme.lower() == "bearer" else "")
        # A key in a header wins over the session of a browser.
        caller = self._keys.caller(given) if given else self._signed_in(headers, method)
        if caller is None:
            why = "that key is not known" if given else "a key is needed: x-api-key, or Authorization: Bearer"
            raise HttpError(401, why, headers={"WWW-Authenticate": "Bearer"})
        return caller

    def _signed_in(self, headers: dict[str, str], method: str) -> keys.Caller | None:
        token = token_in(headers.get("cookie", ""))
        caller = self._sessions.caller(token) if token else None
        if caller is not None and method in CHANGING_METHODS:
            _check_same_origin(headers)
        return caller


def _check_same_origin(headers: dict[str, str]) -> None:
    """Raise HttpError unless this server's own page sent the request: browsers send cookies with forms of any site.

    Other ports of one host are other origins, though cookies know no ports.
    """
    origin = headers.get("origin", "")
    # Browsers of the last years send Sec-Fetch-Site; older ones at least an Origin with forms.
    if headers.get("sec-fetch-site") != "same-origin" and (not origin or origin.partition("://")[2] != headers.get("host")):
        raise HttpError(403, "requests from other sites are not taken")


def _wanted(method: str, path: str) -> keys.Scope:
    if path in ADMIN_PATHS:
        return "admin"
    return "write" if method in CHANGING_METHODS and path not in READING_POSTS else "read"


class RequestMiddleware:
    """Outermost layer of the service."""

    def __init__(self, app: ASGIApp, guard: AccessControl, *, meters: ServiceMetrics, settings: ServerSettings) -> None:
        self._app = app
        self._guard = guard
        self._meters = meters
        self._idle_seconds = settings.idle_seconds
        self._logs = settings.log_requests
        self._streams = ConcurrencyQuota(settings.max_streams, "streams")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        # The lifespan events of ASGI, which no caller sends.
        if scope["type"] != ScopeType.HTTP:
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(scope, receive, send, idle_seconds=self._idle_seconds)
        state: JsonObject = scope.setdefault("state", {})
        # In the state, so that every answer, log line and audit entry names the same id.
        state["request_id"] = exchange.request_id
        # RFC 9110 9.3.2: HEAD answers with the headers of GET; uvicorn leaves the body out.
        asked: HTTPScope = {**scope, "method": "GET"} if exchange.is_head else scope
        try:
            exchange.check_headers(scope)
            state["caller"], allowance = self._guard.admit(scope, exchange.headers)
            # On every answer, so that a client can slow down before it is refused.
            exchange.extra = {} if allowance is None else allowance.headers()
            # Asked again for as long as a stream lasts: a revoked key must not keep its stream.
            exchange.may_go_on = partial(self._guard.still_knows, state["caller"], exchange.headers, method=scope["method"])
            # Streams come last: those of one caller must not use up all connections.
            with self._streams.of(state["caller"].name) if _STREAM.fullmatch(normalize_path(scope["path"])) else nullcontext():
                await self._app(asked, exchange.receive, exchange.send)
        except HttpError as refusal:
            await exchange.refuse(refusal)
        # The grace period of the server is over while this request was still being answered.
        except asyncio.CancelledError:
            await exchange.give_up()
        finally:
            # Known only after the framework has found the route.
            route, seconds = str(asked.get("path_template") or "unknown"), exchange.seconds()
            self._meters.count(route, scope["method"], status=exchange.status, seconds=seconds)
            if self._logs:
                caller = state["caller"].name if "caller" in state else ""
                _log_request(exchange, route, caller, seconds=seconds)


def _log_request(exchange: "_Exchange", route: str, caller: str, *, seconds: float) -> None:
    """Log a request by its route; the address itself may hold a client's data."""
    method = exchange.scope["method"] if exchange.scope["method"] in COUNTED_METHODS else "other"
    fields = {
        "event": "request",
        "method": method,
        "route": route,
        "status": exchange.status,
        "seconds": round(seconds, 4),
        "key": caller,
        "request_id": exchange.request_id,
    }
    line = "%s %s %d %.1f ms key=%s request=%s"
    values = (method, route, exchange.status, seconds * 1000, caller or "-", exchange.request_id)
    log.info(line, *values, extra={FIELDS: fields})


def _with_head(allow: bytes) -> bytes:
    """List the methods of an address; the framework does not know that HEAD is answered wherever GET is."""
    # RFC 9110 9.3.2 answers HEAD wherever GET is answered.
    methods = set(allow.decode().split(", "))
    return ", ".join(sorted(methods | {"HEAD"} if "GET" in methods else methods)).encode()


class _Exchange:
    """One request and its answer."""

    def __init__(self, scope: HTTPScope, receive: Receive, send: Send, *, idle_seconds: float) -> None:
        self.headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        given = self.headers.get("x-request-id", "")
        # A client's own id is kept if it is harmless in a log line.
        self.request_id = given if _REQUEST_ID.fullmatch(given) else str(uuid.uuid4())
        self.extra: dict[str, str] = {}
        self.may_go_on: Callable[[], bool] = lambda: True
        self.scope = scope
        self.is_head = scope["method"] == "HEAD"
        self.status = 0
        self._has_ended = False
        self._is_live = False
        self._start = time.perf_counter()
        self._receive = receive
        self._send = send
        # Without these headers a request has no body.
        self._is_read = "content-length" not in self.headers and "transfer-encoding" not in self.headers
        self._is_late = False
        self._taken = 0
        self._idle_seconds = idle_seconds

    def check_headers(self, scope: HTTPScope) -> None:
        """Raise HttpError for a header that is repeated and must not be."""
        counts = Counter(name.decode("latin-1").lower() for name, _ in scope["headers"])
        doubled = next((name for name in counts if counts[name] > 1 and name in _SINGLE), None)
        if doubled is not None:
            raise HttpError(400, f"the header '{doubled}' is given twice")

    def seconds(self) -> float:
        """Return the seconds since the request arrived."""
        return time.perf_counter() - self._start

    async def receive(self) -> Any:
        """Receive the next piece of the request; raises HttpError when it does not arrive in time."""
        message: Any = await (self._receive() if self._is_read else self._in_time())
        # Counted for the minimum speed, which grows with what has arrived.
        self._taken += len(message.get("body", b""))
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            self._is_read = True
        return message

    async def _in_time(self) -> object:
        # Two limits: a pause between pieces, and the average speed, which a client that sends a byte now and then
        # would not break.
        allowed = self._idle_seconds + self._taken / BODY_BYTES_PER_SECOND - self.seconds()
        try:
            async with asyncio.timeout(max(0.0, min(self._idle_seconds, allowed))):
                return await self._receive()
        except TimeoutError:
            self._is_late = True
            raise HttpError(408, "the body of the request comes too slowly") from None

    async def send(self, message: Message) -> None:
        """Send a piece of the answer, with the headers of every answer."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            own = {"x-request-id": self.request_id, "x-latency-ms": f"{self.seconds() * 1000:.1f}", **self.extra}
            if not self._is_read:
                # The rest of the body must not be parsed as another request.
                own["Connection"] = "close"
            # Headers of ASGI may be bytearrays.
            given = {bytes(name).lower(): bytes(value) for name, value in message["headers"]}
            self._is_live = given.get(b"content-type", b"").startswith(b"text/event-stream")
            added = {**SECURITY_HEADERS, **own}
            message["headers"] = [
                *((name, _with_head(value) if bytes(name).lower() == b"allow" else value) for name, value in message["headers"]),
                # Only those that the route has not set: pages have another content policy.
                *((name.lower().encode(), value.encode()) for name, value in added.items() if name.lower().encode() not in given),
            ]
        elif self._has_ended:
            # After the end was sent, the framework may still deliver pieces of a stream.
            return
        elif self.is_head or (self._is_live and not self.may_go_on()):
            # The stream may never end, and its caller has disconnected or lost access.
            self._has_ended = True
            message = {"type": "http.response.body", "body": b"", "more_body": False}
        elif message["type"] == "http.response.body" and not message.get("more_body", False) and not self._is_read:
            # The answer first, the rest of the upload afterwards: a client that reads while it sends sees it at
            # once.
            await self._send({**message, "more_body": True})
            await self._drain()
            message = {"type": "http.response.body", "body": b"", "more_body": False}
        await self._send(message)

    async def _drain(self) -> None:
        """Read the rest of the upload, so that the client reads the answer instead of getting a connection reset."""
        # A client that waits for 100 Continue has sent nothing that would have to be read.
        if self._is_late or "100-continue" in self.headers.get("expect", "").lower():
            return
        left = DRAIN_BYTES
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                while not self._is_read and left > 0:
                    left -= len((await self.receive()).get("body", b""))
        except (TimeoutError, HttpError):
            return

    async def give_up(self) -> None:
        """Answer waiting callers with 503: the grace period is over."""
        self._is_late = True
        # Once the head of an answer is out, no error can be sent any more.
        if not self.status:
            await self.refuse(HttpError(503, "the service is shutting down", headers={"Retry-After": str(RETRY_SECONDS)}))

    async def refuse(self, refusal: HttpError) -> None:
        """Answer with an error before the framework sees the request."""
        shown = render_error(refusal, self.scope, request_id=self.request_id, headers=self.headers)
        headers = {"content-length": str(len(shown.body)), **shown.headers}
        encoded = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        await self.send({"type": "http.response.start", "status": refusal.status, "headers": encoded})
        await self.send({"type": "http.response.body", "body": shown.body, "more_body": False})
