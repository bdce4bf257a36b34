"""Typed calls to a service."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from http.client import HTTPResponse
from pathlib import Path
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar
from urllib.parse import quote

import msgspec

from assay.api.client.http_transport import (
    UNEXPECTED,
    UNREACHABLE,
    Request,
    RetryableFailure,
    ServiceTransport,
    StreamHandle,
    events_in,
    pauses,
    publish,
    save,
    upload_of,
)
from assay.core.canonical import JsonObject
from assay.core.errors import ServerProblem, UsageProblem
from assay.core.http_answers import (
    ArtifactFile,
    ArtifactsView,
    ComparisonView,
    ErrorsPage,
    Health,
    LinesPage,
    RecordError,
    RecordResponse,
    RunEvent,
    RunsPage,
    RunStatus,
    SubmissionResponse,
    ValidationResponse,
)
from assay.core.run_result import RunListing
from assay.core.runs import RUNS_DIR

Setting = str | int | float | bool | Sequence[str] | None
Source = str | Path | bytes
Watch = Callable[[RunStatus], None]
PAGE = 500
FIRST_LOOK, LAST_LOOK = 0.1, 1.0
"""Seconds between two polls of a run that is waited for."""
RECONNECTIONS = 10
"""Times in a row that events are asked for without getting any."""
EVENTS_SILENCE = 60.0
"""Seconds of silence after which events are requested again; a service sends a comment every 15 seconds."""
SUBMISSION_SILENCE = 300.0
"""Seconds that a service may take to validate a large dataset, behind those of others."""

T = TypeVar("T")
Format = Literal["json", "jsonl", "csv", "parquet", "xlsx", "responses"]


class Client:
    """A service and what it offers; may be used by several threads.

    Reads, and submissions, which carry an idempotency key, are tried again for `patience` seconds where a moment later
    may do; everything else is asked once. `http` is for this machine alone, unless `allow_http` says otherwise.
    """

    def __init__(
        self,
        url: str,
        key: str = "",
        *,
        timeout: float = 60.0,
        patience: float = 60.0,
        allow_http: bool = False,
        compress: bool = False,
    ) -> None:
        self._wire = ServiceTransport(url, key, timeout=timeout, patience=patience, allow_http=allow_http)
        self._compress = compress

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    @property
    def url(self) -> str:
        """Address of the service."""
        return self._wire.url

    def health(self) -> Health:
        """Check that the service answers, and return its version."""
        return self._ask(Request(path="/healthz"), Health)

    def validate(
        self,
        source: Source,
        *,
        contract: str = "auto",
        media_type: str = "",
        allow_size: bool = False,
        null_as_absent: bool = False,
    ) -> ValidationResponse:
        """Validate a dataset; no run is started.

        `allow_size` accepts any number of golden cases, `null_as_absent` reads optional fields that are null as absent.
        """
        upload = upload_of(source, media_type=media_type, packs=self._compress)
        # A service of an earlier version does not know the parameter, so that it is sent only where it matters.
        switches = {"allow_size": allow_size, "null_as_absent": null_as_absent}
        query = _query({"contract": contract, **{name: True if is_on else "" for name, is_on in switches.items()}})
        request = Request(method="POST", path="/v1/validate", query=query, upload=upload)
        return self._ask(request, ValidationResponse)

    def start(
        self,
        source: Source,
        /,
        *,
        model: str = "",
        judge: str | Sequence[str] = (),
        contract: str = "auto",
        idempotency_key: str = "",
        media_type: str = "",
        **settings: Setting,
    ) -> SubmissionResponse:
        """Start a run over a dataset; with the key of an earlier call, find the run of that call.

        `settings` are the other parameters of `POST /v1/runs`, such as `concurrency`, `limit` and `pass_rate`.
        """
        upload = upload_of(source, media_type=media_type, packs=self._compress)
        named = {"contract": contract, "name": upload.name, "model": model, "judge": judge}
        # A random key makes the submission repeatable: without one a retry could start a second run.
        key = _header(idempotency_key) or str(uuid.uuid4())
        request = Request(
            method="POST",
            path="/v1/runs",
            query=_query({**named, **settings}),
            headers={"Idempotency-Key": key},
            upload=upload,
            # The service validates before it answers, behind the uploads of others.
            timeout_s=max(SUBMISSION_SILENCE, self._wire.timeout_s),
        )
        try:
            return self._ask(request, SubmissionResponse)
        except ServerProblem as problem:
            # The answer was lost, not necessarily the submission.
            if problem.code == UNREACHABLE:
                problem.hint = (
                    f"{problem.hint}; it may have accepted the run: repeat the call with idempotency_key='{key}' to find out"
                )
            raise

    def run(self, run_id: str) -> RunStatus:
        """Return the current state of a run."""
        return self._ask(Request(path=_path(run_id)), RunStatus)

    def runs(self, *, state: str = "", dataset: str = "", model: str = "", group: str = "") -> Iterator[RunListing]:
        """Iterate over the runs, the newest first; pages are fetched as needed."""
        filters = {"state": state, "dataset": dataset, "model": model, "group": group}
        for page in self._pages("/v1/runs", filters, RunsPage):
            yield from page.runs

    def wait(self, run_id: str, *, watch: Watch | None = None, seconds: float | None = None) -> RunStatus:
        """Wait until the run has ended or stopped, or the time is up, and return it; `watch` is called with each change."""
        end = None if seconds is None else time.monotonic() + seconds
        for pause in pauses(FIRST_LOOK, LAST_LOOK):
            status = self.run(run_id)
            if watch is not None:
                watch(status)
            # Checked before sleeping: no time is spent on a pause that would end too late.
            if status.is_stopped or (end is not None and time.monotonic() + pause > end):
                return status
            time.sleep(pause)
        raise AssertionError

    def events(self, run_id: str, *, last_event_id: str = "", handle: StreamHandle | None = None) -> Iterator[RunEvent]:
        """Iterate over the changes of a run until its end; a broken connection is resumed where it ended.

        A handle that is cut in another thread ends it too.
        """
        handle = handle or StreamHandle()
        seen, failures = last_event_id, 0
        while True:
            is_over = True
            try:
                for event in self._events(run_id, seen, handle):
                    # Progress resets the count, so that only a service that is really away ends the iteration.
                    seen, failures, is_over = event.id, 0, False
                    yield event
                    if event.is_end:
                        return
            except RetryableFailure as again:
                failures, is_over = failures + 1, False
                if failures > RECONNECTIONS:
                    raise again.problem from again
            # Polling the run waits for a service that is unreachable; the state shows whether further events will come.
            if handle.is_cut or (self.run(run_id).is_stopped and is_over):
                return
            time.sleep(LAST_LOOK)

    def cancel(self, run_id: str) -> RunStatus:
        """End a run for good; what is finished stays."""
        # Not repeatable: a second cancel of a run that has ended meanwhile would be an error.
        return self._ask(Request(method="POST", path=f"{_path(run_id)}/cancel", is_repeatable=False), RunStatus)

    def resume(self, run_id: str) -> RunStatus:
        """Resume a run that has stopped."""
        return self._ask(Request(method="POST", path=f"{_path(run_id)}/resume", is_repeatable=False), RunStatus)

    def records(self, run_id: str, *, status: str = "", passed: bool | None = None) -> Iterator[JsonObject]:
        """Iterate over the valid records with their results so far, as in `predictions.jsonl`."""
        for page in self._pages(f"{_path(run_id)}/records", {"status": status, "passed": passed}, LinesPage):
            yield from page.items

    def record(self, run_id: str, record_id: str, *, sample: int | None = None) -> JsonObject:
        """Return one record: its input, its result and every attempt."""
        # Ids may contain slashes and anything else.
        path = f"{_path(run_id)}/records/{quote(record_id, safe='')}"
        return self._ask(Request(path=path, query=_query({"sample": sample})), RecordResponse).record

    def failures(self, run_id: str) -> Iterator[JsonObject]:
        """Iterate over the records with an error and those that did not pass, as in `failures.jsonl`."""
        for page in self._pages(f"{_path(run_id)}/failures", {}, LinesPage):
            yield from page.items

    def errors(self, run_id: str) -> Iterator[RecordError]:
        """Iterate over the errors of all invalid records."""
        for page in self._pages(f"{_path(run_id)}/errors", {}, ErrorsPage):
            yield from page.items

    def distribution(self, run_id: str) -> JsonObject:
        """Return the distribution of the scores of a run, in all and for each criterion."""
        return self._ask(Request(path=f"{_path(run_id)}/distribution"), JsonObject)

    def artifacts(self, run_id: str) -> tuple[ArtifactFile, ...]:
        """List the files of a finished run with their hashes; none before its end."""
        return self._ask(Request(path=f"{_path(run_id)}/artifacts"), ArtifactsView).artifacts

    def artifact(self, run_id: str, name: str, path: str | Path) -> Path:
        """Save a file of a finished run; raises ServerProblem, and leaves nothing, when it does not have its hash."""
        known = {entry.name: entry for entry in self.artifacts(run_id)}
        if name not in known:
            raise UsageProblem(f"run '{run_id}' has no artifact '{name}'", hint=f"it has: {', '.join(known) or 'none yet'}")
        # Verified while it is saved; a file that differs is not left behind.
        return self._save(Request(path=f"{_path(run_id)}/artifacts/{quote(name, safe='')}"), path, sha256=known[name].sha256)

    def export(self, run_id: str, path: str | Path, *, format: Format = "jsonl") -> Path:  # noqa: A002  # as in the service
        """Save every record with what came of it so far as a table."""
        return self._save(Request(path=f"{_path(run_id)}/export", query=(("format", format),)), path)

    def download(self, run_id: str, runs_dir: str | Path = RUNS_DIR) -> Path:
        """Save all files of a finished run in a folder of runs, where commands find it; raises ServerProblem if one differs."""
        entries = self.artifacts(run_id)
        if not entries:
            raise UsageProblem(f"run '{run_id}' is unfinished", hint="wait for it first")
        return publish(entries, run_id, Path(runs_dir), fetch=lambda name, path: self.artifact(run_id, name, path))

    def compare(self, before: str, after: str, *, cluster: str = "", flips: int | None = None) -> JsonObject:
        """Compare two finished runs and test the difference."""
        query = _query({"before": before, "after": after, "cluster": cluster, "flips": flips})
        return self._ask(Request(path="/v1/compare", query=query), ComparisonView).comparison

    def _ask(self, request: Request, kind: type[T]) -> T:
        def read(answer: HTTPResponse) -> T:
            try:
                return msgspec.json.decode(answer.read(), type=kind)
            except msgspec.DecodeError as problem:
                hint = "see whether that is the address of an assay service of this version"
                raise ServerProblem(
                    f"the answer cannot be used: {problem}", hint=hint, code=UNEXPECTED, status=answer.status
                ) from problem

        return self._wire.call(request, read)

    def _pages(self, path: str, filters: Mapping[str, Setting], kind: type[T]) -> Iterator[T]:
        cursor: str | None = ""
        while cursor is not None:
            page: Any = self._ask(Request(path=path, query=_query({**filters, "limit": PAGE, "cursor": cursor})), kind)
            yield page
            cursor = page.next_cursor

    def _save(self, request: Request, path: str | Path, *, sha256: str = "") -> Path:
        target = Path(path)
        self._wire.call(request, lambda answer: save(answer, target, sha256=sha256))
        return target

    def _events(self, run_id: str, seen: str, handle: StreamHandle) -> Iterator[RunEvent]:
        headers = {"Accept": "text/event-stream", **({"Last-Event-ID": seen} if seen else {})}
        request = Request(path=f"{_path(run_id)}/events", headers=headers, timeout_s=EVENTS_SILENCE)
        with self._wire.opened(request, handle) as answer:
            yield from events_in(answer)


def _path(run_id: str) -> str:
    if not run_id:
        raise UsageProblem("the id of the run is empty")
    return f"/v1/runs/{quote(run_id, safe='')}"


def _header(value: str) -> str:
    # A header cannot carry it, and an encoded one would be another key.
    if not value.isascii() or not value.isprintable():
        raise UsageProblem("the idempotency key has characters that cannot be sent", hint="use letters, digits and dashes")
    return value


def _query(values: Mapping[str, Setting]) -> tuple[tuple[str, str], ...]:
    """Format the query parameters; empty ones and None are left out."""
    pairs: list[tuple[str, str]] = []
    for name, value in values.items():
        if isinstance(value, bool):
            pairs.append((name, "true" if value else "false"))
        elif value is None or value == "":
            # Empty means that the service's own default applies.
            continue
        else:
            listed = [value] if isinstance(value, str | int | float) else value
            pairs += [(name, str(one)) for one in listed]
    return tuple(pairs)


P = ParamSpec("P")


def _beside(call: Callable[Concatenate[Client, P], T]) -> Callable[Concatenate["AsyncClient", P], Awaitable[T]]:
    """Make an awaitable method from a method of the client."""

    @wraps(call)
    async def awaited(self: "AsyncClient", /, *arguments: P.args, **named: P.kwargs) -> T:
        return await asyncio.to_thread(call, self.client, *arguments, **named)

    return awaited


def _each(call: Callable[Concatenate[Client, P], Iterator[T]]) -> Callable[Concatenate["AsyncClient", P], AsyncIterator[T]]:
    """Make an asynchronous iterator from a method of the client that iterates."""

    @wraps(call)
    async def iterated(self: "AsyncClient", /, *arguments: P.args, **named: P.kwargs) -> AsyncIterator[T]:
        # `next` with a default: StopIteration cannot be raised into a future.
        found, end = call(self.client, *arguments, **named), object()
        while (one := await asyncio.to_thread(next, found, end)) is not end:
            yield one  # type: ignore[misc]  # all but the mark at the end are of the iterator

    return iterated


class AsyncClient:
    """A service and what it offers, as `Client` has it; every call is awaited, and lists are iterated with `async for`."""

    def __init__(
        self,
        url: str,
        key: str = "",
        *,
        timeout: float = 60.0,
        patience: float = 60.0,
        allow_http: bool = False,
        compress: bool = False,
    ) -> None:
        self.client = Client(url, key, timeout=timeout, patience=patience, allow_http=allow_http, compress=compress)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.client.url!r})"

    health = _beside(Client.health)
    validate = _beside(Client.validate)
    start = _beside(Client.start)
    run = _beside(Client.run)
    runs = _each(Client.runs)
    cancel = _beside(Client.cancel)
    resume = _beside(Client.resume)
    records = _each(Client.records)
    record = _beside(Client.record)
    failures = _each(Client.failures)
    errors = _each(Client.errors)
    distribution = _beside(Client.distribution)
    artifacts = _beside(Client.artifacts)
    artifact = _beside(Client.artifact)
    export = _beside(Client.export)
    download = _beside(Client.download)
    compare = _beside(Client.compare)

    async def events(self, run_id: str, *, last_event_id: str = "") -> AsyncIterator[RunEvent]:
        """Iterate as `Client.events` does; a cancelled task disconnects at once."""
        handle = StreamHandle()
        found = self.client.events(run_id, last_event_id=last_event_id, handle=handle)
        # A separate thread: a few followers would use up the loop's shared ones.
        pool = ThreadPoolExecutor(1, thread_name_prefix="assay events")
        try:
            # In one thread, since a generator cannot be used by two at once.
            while (event := await asyncio.get_running_loop().run_in_executor(pool, next, found, None)) is not None:
                yield event
        finally:
            # Closes the socket, on which the thread may be waiting.
            handle.cut()
            pool.shutdown(wait=False)

    async def wait(self, run_id: str, *, watch: Watch | None = None, seconds: float | None = None) -> RunStatus:
        """Wait as `Client.wait` does; a cancelled task stops at once."""
        end = None if seconds is None else time.monotonic() + seconds
        for pause in pauses(FIRST_LOOK, LAST_LOOK):
            status = await self.run(run_id)
            if watch is not None:
                watch(status)
            if status.is_stopped or (end is not None and time.monotonic() + pause > end):
                return status
            await asyncio.sleep(pause)
        raise AssertionError
