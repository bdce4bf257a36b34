"""Requests to a service over HTTP: one connection each, tried again where that is safe, and every failure as one exception."""

import ipaddress
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import TypeVar
from urllib.parse import SplitResult, urlencode, urlsplit

import msgspec

from assay.api.client.uploads import BLOCK, UploadBody
from assay.core.errors import ServerProblem, UsageProblem
from assay.core.http_answers import ErrorAnswer
from assay.core.tls import client_context
from assay.core.version import __version__

TRANSIENT = frozenset({429, 502, 503, 504})
"""Answers after which the same request may be taken a moment later."""
FIRST_PAUSE, LAST_PAUSE = 0.25, 8.0
"""Seconds between two tries, where the service names none."""
UNREACHABLE = "server_unreachable"
UNEXPECTED = "unexpected_answer"
_EXCERPT = 200

T = TypeVar("T")


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of a service."""

    path: str
    method: str = "GET"
    query: tuple[tuple[str, str], ...] = ()
    headers: dict[str, str] = {}
    upload: UploadBody | None = None
    is_repeatable: bool = True
    """Twice is the same as once."""
    timeout_s: float | None = None
    """Seconds of silence, where they are not those of the client."""


class RetryableFailure(Exception):
    """A failure that may be gone a moment later."""

    def __init__(self, problem: ServerProblem, *, pause_s: float | None = None) -> None:
        super().__init__(problem.message)
        self.problem = problem
        self.pause_s = pause_s
        """What the service says to wait."""


class StreamHandle:
    """Holds a connection that is read in one thread, so that another can end it."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self.is_cut = False

    def hold(self, connection: HTTPConnection) -> None:
        """Take a new connection in place of the last."""
        self._socket = connection.sock
        if self.is_cut:
            self.cut()

    def cut(self) -> None:
        """Close the connection, which ends the stream for its reader."""
        self.is_cut = True
        if self._socket is not None:
            with suppress(OSError):  # it has ended by itself
                self._socket.shutdown(socket.SHUT_RDWR)


class ServiceTransport:
    """The way to one service."""

    def __init__(self, url: str, key: str, *, timeout: float, patience: float, allow_http: bool) -> None:
        self._target = read_address(url, allow_http=allow_http)
        if not key.isascii() or not key.isprintable() or " " in key:
            raise UsageProblem("the key has characters that no key has", hint="see whether the variable holds the key alone")
        self._headers = {"User-Agent": f"assay/{__version__}", **({"x-api-key": key} if key else {})}
        self._timeout_s = timeout
        self._patience_s = patience
        self._tls: ssl.SSLContext | None = None
        self._has_answered = False

    @property
    def timeout_s(self) -> float:
        """Seconds of silence after which a request has failed."""
        return self._timeout_s

    @property
    def url(self) -> str:
        """The address of the service."""
        return self._target.geturl()

    def call(self, request: Request, read: Callable[[HTTPResponse], T]) -> T:
        """What a reader makes of the answer; a request that may be repeated is, for as long as the client is patient.

        Patience begins with the first failure: a request that ran into its time limit is repeated too.
        """
        end: float | None = None
        for pause in pauses(FIRST_PAUSE, LAST_PAUSE):
            try:
                return self._once(request, read)
            except RetryableFailure as again:
                wait = pause if again.pause_s is None else again.pause_s
                end = end or time.monotonic() + self._patience_s
                if not request.is_repeatable or time.monotonic() + wait > end:
                    raise again.problem from again
            time.sleep(wait)
        raise AssertionError

    def _once(self, request: Request, read: Callable[[HTTPResponse], T]) -> T:
        with self.opened(request) as answer:
            return read(answer)

    @contextmanager
    def opened(self, request: Request, leash: StreamHandle | None = None) -> Iterator[HTTPResponse]:
        """The answer while it comes in; raises ServerProblem, or RetryableFailure where a moment later may do."""
        connection = self._connection(request)
        try:
            connection.connect()
            if leash is not None:
                leash.hold(connection)
            answer = self._answer(connection, request)
            self._has_answered = True
            if answer.status >= 300:
                raise _failure(answer)
            yield answer
        except ssl.SSLCertVerificationError as problem:
            raise self._unreachable(
                f"its certificate is not trusted: {problem.verify_message}",
                hint="where a CA of your own has signed it, SSL_CERT_FILE or REQUESTS_CA_BUNDLE names the file of that CA",
            ) from problem
        except (OSError, HTTPException) as problem:
            silent = self._unreachable(_reason(problem))
            # An address that never answered may be wrong: report that at once instead of retrying.
            raise (RetryableFailure(silent) if self._has_answered else silent) from problem
        finally:
            connection.close()

    def _answer(self, connection: HTTPConnection, request: Request) -> HTTPResponse:
        path = self._target.path + request.path + (f"?{urlencode(request.query)}" if request.query else "")
        headers = {**self._headers, **request.headers}
        if request.upload is None:
            connection.request(request.method, path, headers=headers)
            return connection.getresponse()
        upload = request.upload
        with upload.open() as file:
            try:
                body = upload.body(file)
                connection.request(request.method, path, body, {**headers, **upload.headers()}, encode_chunked=upload.packs)
            except (BrokenPipeError, ConnectionResetError):
                # A service that refuses an upload may answer and hang up before everything is sent.
                if connection.sock is None:
                    raise
        return connection.getresponse()

    def _connection(self, request: Request) -> HTTPConnection:
        host, port, timeout = self._target.hostname or "", self._target.port, request.timeout_s or self._timeout_s
        if self._target.scheme == "http":
            return HTTPConnection(host, port, timeout=timeout, blocksize=BLOCK)
        if self._tls is None:
            self._tls = client_context()
        return HTTPSConnection(host, port, timeout=timeout, blocksize=BLOCK, context=self._tls)

    def _unreachable(self, reason: str, *, hint: str = "see whether it runs, and whether the address is right") -> ServerProblem:
        return ServerProblem(f"no answer from '{self.url}': {reason}", hint=hint, code=UNREACHABLE)


def read_address(url: str, *, allow_http: bool = False) -> SplitResult:
    """The address of a service without a slash at its end; raises UsageProblem where a key would not be safe there."""
    try:
        target = urlsplit(url)
        is_address = target.scheme in ("http", "https") and bool(target.hostname) and target.port != 0
    except ValueError:
        is_address = False
    if not is_address or target.query or target.fragment or target.username is not None or not url.isascii() or " " in url:
        raise UsageProblem(
            "that is not the address of a server", hint="it is like https://assay.example.org or http://127.0.0.1:8321, and no more"
        )
    if target.scheme == "http" and not allow_http and not is_loopback(target.hostname or ""):
        raise UsageProblem(
            f"'{target.hostname}' is another machine, and http would send datasets and the key readable by everybody on the way",
            hint="use https, or allow it: --allow-http, or allow_http=True",
        )
    return target._replace(path=target.path.rstrip("/"))


def is_loopback(host: str) -> bool:
    """True for this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def pauses(first: float, last: float) -> Iterator[float]:
    """Seconds to wait, each twice the one before."""
    while True:
        yield first
        first = min(2 * first, last)


def _failure(answer: HTTPResponse) -> ServerProblem | RetryableFailure:
    """The envelope of an error as what is raised."""
    content = answer.read()
    try:
        told = msgspec.json.decode(content, type=ErrorAnswer)
    except msgspec.DecodeError:
        excerpt = content[:_EXCERPT].decode("utf-8", "replace").strip()
        problem = ServerProblem(
            f"the server answered with status {answer.status}" + (f": {excerpt}" if excerpt else ""),
            hint="see whether that is the address of an assay service",
            code=UNEXPECTED,
            status=answer.status,
        )
    else:
        details = told.error.details
        problem = ServerProblem(
            told.error.message,
            hint=str(details.get("hint", "")),
            code=told.error.code,
            status=answer.status,
            request_id=told.request_id,
            details=details,
        )
    if answer.status not in TRANSIENT:
        return problem
    named = answer.getheader("Retry-After") or ""
    return RetryableFailure(problem, pause_s=float(named) if named.isascii() and named.isdecimal() and len(named) < 10 else None)


def _reason(problem: OSError | HTTPException) -> str:
    if isinstance(problem, TimeoutError):
        return "it took too long"
    said = (problem.strerror if isinstance(problem, OSError) else None) or str(problem) or type(problem).__name__
    return said.lower()
