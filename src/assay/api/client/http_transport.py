"""A dataset into the body of a request, as often as it has to be sent."""

import hashlib
import ipaddress
import os
import re
import secrets
import shutil
import socket
import ssl
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, TypeVar
from urllib.parse import SplitResult, urlencode, urlsplit

import msgspec

from assay.core.contract import MANIFEST
from assay.core.errors import RunSealed, ServerProblem, SourceUnreadable, UsageProblem
from assay.core.http_answers import ArtifactFile, ErrorAnswer, RunEvent
from assay.core.tls import client_context
from assay.core.version import __version__
from assay.engine.storage.run_paths import check_run_id
from assay.store.failures import disk_errors
from assay.store.verify import verify_run

BLOCK = 1 << 18
_MEDIA_TYPES = {".jsonl": "application/x-ndjson", ".ndjson": "application/x-ndjson", ".yaml": "application/yaml"}
_MEDIA_TYPES[".yml"] = _MEDIA_TYPES[".yaml"]
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}", re.ASCII)
_GZIP = 31
"""zlib's window bits for a gzip stream."""
_GZIP_MAGIC = b"\x1f\x8b"


class UploadBody(msgspec.Struct, frozen=True, kw_only=True):
    """Body of a request with its headers."""

    source: Path | bytes
    size: int
    media_type: str
    is_gzip: bool
    """True when the source is compressed already."""
    packs: bool = False
    """It is packed on its way."""
    name: str = ""
    """Name of the dataset, if its contract gives it no id."""

    def headers(self) -> dict[str, str]:
        """Return the headers of the body."""
        packed = {"Content-Encoding": "gzip"} if self.is_gzip or self.packs else {}
        # How long a body becomes that is packed on its way is known at its end only.
        length = {"Transfer-Encoding": "chunked"} if self.packs else {"Content-Length": str(self.size)}
        return {"Content-Type": self.media_type, **packed, **length}

    def open(self) -> AbstractContextManager[BinaryIO]:
        """Open the source at its beginning; raises SourceUnreadable."""
        # Opened for each attempt: a retry has to send the body from its beginning.
        if isinstance(self.source, bytes):
            return BytesIO(self.source)
        return _opened(self.source)

    def body(self, file: BinaryIO) -> BinaryIO | Iterator[bytes]:
        """Iterate over the bytes to send."""
        return _packed(file) if self.packs else file


def upload_of(source: str | Path | bytes, *, media_type: str = "", packs: bool = False) -> UploadBody:
    """Prepare a file or its content for sending; raises SourceUnreadable and UsageProblem."""
    if isinstance(source, bytes):
        is_gzip = source.startswith(_GZIP_MAGIC)
        kind = media_type or "application/json"
        # A source that is packed already is not packed again.
        return UploadBody(source=source, size=len(source), media_type=kind, is_gzip=is_gzip, packs=packs and not is_gzip)
    path = Path(source)
    if str(source) == "-" or (path.exists() and not path.is_file()):
        raise UsageProblem(f"'{source}' is not a file", hint="name the file of one dataset, or pass its content as bytes")
    with _opened(path) as file:
        # By content, because the name of a file may be missing the .gz.
        is_gzip = file.read(2) == _GZIP_MAGIC
        # The size is declared, so that the service can refuse before anything is sent.
        size = file.seek(0, 2)
    named = path.with_suffix("") if is_gzip and path.suffix.lower() == ".gz" else path
    return UploadBody(
        source=path,
        size=size,
        media_type=media_type or _MEDIA_TYPES.get(named.suffix.lower(), "application/json"),
        is_gzip=is_gzip,
        packs=packs and not is_gzip,
        # A name that the service would refuse is left out, and then it gives one itself.
        name=named.stem if _NAME.fullmatch(named.stem) else "",
    )


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as problem:
        raise SourceUnreadable(f"cannot read '{path}': {(problem.strerror or str(problem)).lower()}") from problem


def _packed(file: BinaryIO) -> Iterator[bytes]:
    packer = zlib.compressobj(6, zlib.DEFLATED, _GZIP)
    while block := file.read(BLOCK):
        if piece := packer.compress(block):
            yield piece
    yield packer.flush()


TRANSIENT = frozenset({429, 502, 503, 504})
"""Answers after which the same request may be taken a moment later."""
FIRST_PAUSE, LAST_PAUSE = 0.25, 8.0
"""Seconds between two tries, where the service names none."""
UNREACHABLE = "server_unreachable"
UNEXPECTED = "unexpected_answer"
_EXCERPT = 200

T = TypeVar("T")


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """Request to a service."""

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
        """Seconds from the service's Retry-After."""


class StreamHandle:
    """Holds a connection that is read in one thread, so that another can end it."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self.is_cut = False

    def hold(self, connection: HTTPConnection) -> None:
        """Take a new connection in place of the last."""
        self._socket = connection.sock
        # Cut while the connection was being made: the stream must not begin.
        if self.is_cut:
            self.cut()

    def cut(self) -> None:
        """Close the connection, which ends the stream for its reader."""
        self.is_cut = True
        if self._socket is not None:
            with suppress(OSError):  # it has ended by itself
                # `shutdown` wakes a thread that is blocked in a read; `close` alone would not.
                self._socket.shutdown(socket.SHUT_RDWR)


class ServiceTransport:
    """Connections to one service, with retries."""

    def __init__(self, url: str, key: str, *, timeout: float, patience: float, allow_http: bool) -> None:
        self._target = read_address(url, allow_http=allow_http)
        # A line feed in a header would begin another one.
        if not key.isascii() or not key.isprintable() or " " in key:
            raise UsageProblem("the key has characters that no key has", hint="see whether the variable holds the key alone")
        self._headers = {"User-Agent": f"assay/{__version__}", **({"x-api-key": key} if key else {})}
        self._timeout_s = timeout
        self._patience_s = patience
        self._tls: ssl.SSLContext | None = None
        self._has_answered = False

    @property
    def timeout_s(self) -> float:
        """Seconds without a byte after which a request has failed."""
        return self._timeout_s

    @property
    def url(self) -> str:
        """Address of the service."""
        return self._target.geturl()

    def call(self, request: Request, read: Callable[[HTTPResponse], T]) -> T:
        """Send a request and return what `read` makes of the response; repeatable requests are retried up to the client's limit.

        Patience begins with the first failure: a request that ran into its time limit is repeated too.
        """
        end: float | None = None
        for pause in pauses(FIRST_PAUSE, LAST_PAUSE):
            try:
                return self._once(request, read)
            except RetryableFailure as again:
                wait = pause if again.pause_s is None else again.pause_s
                # From the first failure on, however long the first attempt took.
                end = end or time.monotonic() + self._patience_s
                if not request.is_repeatable or time.monotonic() + wait > end:
                    raise again.problem from again
            time.sleep(wait)
        raise AssertionError

    def _once(self, request: Request, read: Callable[[HTTPResponse], T]) -> T:
        with self.opened(request) as answer:
            return read(answer)

    @contextmanager
    def opened(self, request: Request, handle: StreamHandle | None = None) -> Iterator[HTTPResponse]:
        """Open the response of a request; raises ServerProblem, or RetryableFailure for a temporary failure."""
        # A new connection for each request: streams and uploads last for long, and a kept one may be gone.
        connection = self._connection(request)
        try:
            connection.connect()
            if handle is not None:
                handle.hold(connection)
            answer = self._answer(connection, request)
            self._has_answered = True
            if answer.status >= 300:
                raise _failure(answer)
            yield answer
        # Before OSError, of which it is a subclass; trying again would not change a certificate.
        except ssl.SSLCertVerificationError as problem:
            raise self._unreachable(
                f"its certificate is not trusted: {problem.verify_message}",
                hint="if a private CA has signed it, SSL_CERT_FILE or REQUESTS_CA_BUNDLE names the file of that CA",
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
                # No socket means that the connection itself has failed, so there is no answer to read.
                if connection.sock is None:
                    raise
        return connection.getresponse()

    def _connection(self, request: Request) -> HTTPConnection:
        host, port, timeout = self._target.hostname or "", self._target.port, request.timeout_s or self._timeout_s
        if self._target.scheme == "http":
            return HTTPConnection(host, port, timeout=timeout, blocksize=BLOCK)
        # Created on first use: loading the certificates of the machine takes time that http does not need.
        if self._tls is None:
            self._tls = client_context()
        return HTTPSConnection(host, port, timeout=timeout, blocksize=BLOCK, context=self._tls)

    def _unreachable(self, reason: str, *, hint: str = "see whether it runs, and whether the address is right") -> ServerProblem:
        return ServerProblem(f"no answer from '{self.url}': {reason}", hint=hint, code=UNREACHABLE)


def read_address(url: str, *, allow_http: bool = False) -> SplitResult:
    """Check the address of a service and remove its last slash; raises UsageProblem if a key would be sent unencrypted."""
    try:
        target = urlsplit(url)
        # Reading the port raises ValueError for one that is not a number.
        is_address = target.scheme in ("http", "https") and bool(target.hostname) and target.port != 0
    except ValueError:
        is_address = False
    # Parts that would be dropped or sent elsewhere are refused instead of ignored.
    if not is_address or target.query or target.fragment or target.username is not None or not url.isascii() or " " in url:
        raise UsageProblem(
            "that is not the address of a server", hint="it is like https://assay.example.org or http://127.0.0.1:8321, and no more"
        )
    # Addresses that only this machine can reach cannot be listened to.
    if target.scheme == "http" and not allow_http and not is_loopback(target.hostname or ""):
        raise UsageProblem(
            f"'{target.hostname}' is another machine, and http would send datasets and the key unencrypted",
            hint="use https, or allow it: --allow-http, or allow_http=True",
        )
    # Without the slash, since all paths begin with one; a service may be below a path of a proxy.
    return target._replace(path=target.path.rstrip("/"))


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def pauses(first: float, last: float) -> Iterator[float]:
    """Yield the seconds to wait, each twice the one before."""
    while True:
        yield first
        first = min(2 * first, last)


def _failure(answer: HTTPResponse) -> ServerProblem | RetryableFailure:
    """Convert the error of a response to the exception to raise."""
    content = answer.read()
    try:
        decoded = msgspec.json.decode(content, type=ErrorAnswer)
    except msgspec.DecodeError:
        # Not from a service of ours, such as a proxy's error page: a little of it says whose it is.
        excerpt = content[:_EXCERPT].decode("utf-8", "replace").strip()
        problem = ServerProblem(
            f"the server answered with status {answer.status}" + (f": {excerpt}" if excerpt else ""),
            hint="see whether that is the address of an assay service",
            code=UNEXPECTED,
            status=answer.status,
        )
    else:
        details = decoded.error.details
        problem = ServerProblem(
            decoded.error.message,
            hint=str(details.get("hint", "")),
            code=decoded.error.code,
            status=answer.status,
            request_id=decoded.request_id,
            details=details,
        )
    if answer.status not in TRANSIENT:
        return problem
    # Only seconds: a date would need a clock that agrees with the server, and assay never sends one.
    named = answer.getheader("Retry-After") or ""
    # Nine digits of seconds are thirty years; more is not meant.
    return RetryableFailure(problem, pause_s=float(named) if named.isascii() and named.isdecimal() and len(named) < 10 else None)


def _reason(problem: OSError | HTTPException) -> str:
    if isinstance(problem, TimeoutError):
        return "it took too long"
    said = (problem.strerror if isinstance(problem, OSError) else None) or str(problem) or type(problem).__name__
    return said.lower()


DIFFERENT = "different_content"
"""Code of a file whose hash differs from the service's."""


def save(answer: HTTPResponse, target: Path, *, sha256: str = "") -> None:
    """Save the body of a response as a file that appears when complete; raises ServerProblem when its hash differs."""
    # Next to the target, because a rename works within one file system only.
    partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")
    # Before reading, which counts the length down.
    expected, hashed = answer.length, hashlib.sha256()
    try:
        with disk_errors(target):
            # Exclusive, so that two downloads of one file never write into one.
            file = partial.open("xb")
        with file:
            while piece := answer.read(BLOCK):
                hashed.update(piece)
                with disk_errors(target):
                    file.write(piece)
            with disk_errors(target):
                file.flush()
        # Reading in pieces does not report a body that ends too early.
        if expected and answer.length:
            raise IncompleteRead(b"", answer.length)
        if sha256 and hashed.hexdigest() != sha256:
            raise ServerProblem(f"'{target.name}' does not have the SHA-256 that the server names", code=DIFFERENT)
        with disk_errors(target):
            partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def publish(entries: Sequence[ArtifactFile], run_id: str, runs_dir: Path, *, fetch: Callable[[str, Path], object]) -> Path:
    """Publish the files of a run as a folder that appears when all are verified; an existing folder must be the same."""
    target = runs_dir / check_run_id(run_id)
    with disk_errors(runs_dir, is_new=True):
        runs_dir.mkdir(parents=True, exist_ok=True)
    staging = runs_dir / f".download-{secrets.token_hex(8)}"
    with disk_errors(staging, is_new=True):
        staging.mkdir(mode=0o755)
    try:
        for entry in entries:
            # Names come from the service: one with a slash would be written somewhere else.
            _check_name(entry.name)
            fetch(entry.name, staging / entry.name)
            with disk_errors(staging):
                (staging / entry.name).chmod(0o444)
        # Hashes of single files were checked; this checks that they belong to one run.
        if problems := verify_run(staging):
            raise ServerProblem(f"the files of run '{run_id}' are not as they were published: {problems[0]}", code=DIFFERENT)
        _move(staging, target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return target


def _check_name(name: str) -> None:
    """Raise ServerProblem for a name that leads out of the folder."""
    if not name or name.startswith(".") or name != os.path.basename(name) or "\\" in name:  # noqa: PTH119  # of a name, not a path
        raise ServerProblem(f"the server names a file {name!r}", code=UNEXPECTED)


def _move(staging: Path, target: Path) -> None:
    with disk_errors(target):
        try:
            staging.rename(target)
        except OSError:
            # Renaming onto a folder that is not empty fails, so an existing run is never replaced.
            if not os.path.lexists(target):
                raise
            manifest = target / MANIFEST
            # The same manifest means the same run, since it has the hashes of all other files.
            if not manifest.is_file() or manifest.read_bytes() != (staging / MANIFEST).read_bytes():
                raise RunSealed(f"'{target}' exists already, and is another run", hint="choose another --runs-dir") from None


def events_in(lines: Iterable[bytes]) -> Iterator[RunEvent]:
    """Iterate over complete events; a truncated one is left to the next connection. Raises ServerProblem for an unreadable one."""
    members: dict[str, str] = {}
    for raw in lines:
        line = raw.decode("utf-8", "replace").rstrip("\r\n")
        # An empty line ends an event.
        if line:
            name, _, value = line.partition(":")
            # Comments have no name; they only keep the connection alive.
            members[name] = value.removeprefix(" ")
        elif "data" in members:
            yield _event(members)
            members = {}


def _event(members: dict[str, str]) -> RunEvent:
    try:
        decoded = msgspec.json.decode(members["data"].encode(), type=dict)
        is_end = members.get("event") in ("end", "stopped")
        return msgspec.convert({**decoded, "id": members.get("id", ""), "is_end": is_end}, RunEvent)
    except (msgspec.DecodeError, msgspec.ValidationError) as problem:
        raise ServerProblem(f"an event cannot be used: {problem}", code=UNEXPECTED) from problem
