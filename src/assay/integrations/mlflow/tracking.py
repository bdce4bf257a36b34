"""The connection to MLflow: addresses, their display without secrets, and the calls of a push."""

import logging
import os
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import SplitResult, parse_qsl, urlsplit

import msgspec

from assay.core.errors import AssayError, MissingExtra, ServerProblem, ThirdPartyCode, ThirdPartyError, UsageProblem
from assay.core.secrets import forms_of, login_secrets

WEB = ("http", "https")
SCHEMES = (*WEB, "", "file", "databricks", "databricks-uc", "uc", "sqlite", "postgresql", "mysql", "mssql")
"""Schemes of addresses that MLflow takes; packages that it finds by their entry points take others."""
_PORTS = {"postgresql": 5432, "mysql": 3306}
"""Default ports of databases."""
KNOCK_SECONDS = 5
SHORTEST_SECRET = 4
"""Length of a password from which messages are searched for it; a shorter one occurs in many words."""
LONGEST_REASON = 500
_SECRETS = ("MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN")
_WITH_HOST = re.compile(r"([^:/?#]*://)([^/].*)", re.DOTALL)
_LOGIN = re.compile(r"[^/]*:.*@", re.DOTALL)


def shown_uri(uri: str) -> str:
    """Return an address for display, however it is written: without user name, password and query."""
    # Parsed by hand first: `urlsplit` raises for some addresses, and a password must not be shown even then.
    with_host = _WITH_HOST.fullmatch(uri)
    if with_host is None:
        # A path, or an address whose scheme was left out.
        return (uri if "://" in uri else _LOGIN.sub("", uri, count=1)).partition("?")[0]
    scheme, rest = with_host.groups()
    # In a malformed address the password may hold the characters that end one: remove everything up to the last @.
    host = re.split(r"[/?#]", rest, maxsplit=1)[0] if _is_proper(uri) else rest
    return scheme + re.split(r"[?#]", rest[host.rfind("@") + 1 :], maxsplit=1)[0]


def _is_proper(uri: str) -> bool:
    try:
        address = urlsplit(uri)
        # The port is parsed only when it is read.
        return (address.port or 1) > 0 and bool(address.hostname) and "@" not in address.query + address.fragment
    except ValueError:
        return False


def check_uri(uri: str) -> None:
    """Raise UsageProblem for a text that cannot be an address of MLflow."""
    address = _split(uri)
    scheme = address.scheme.partition("+")[0]
    # One letter is a drive, and what follows is a path.
    # Entry points last, since reading those of all packages takes a while.
    if scheme not in SCHEMES and len(scheme) > 1 and scheme not in entry_points(group="mlflow.tracking_store").names:
        raise UsageProblem(
            f"'{shown_uri(uri)}' is not an address that MLflow takes: unknown scheme '{scheme}://'",
            hint="write http://localhost:5000, sqlite:///mlflow.db, or another address that `mlflow server` takes",
        )
    if scheme in WEB and not _is_proper(uri):
        raise _malformed_address(uri)


def _split(uri: str) -> SplitResult:
    try:
        return urlsplit(uri)
    except ValueError:
        raise _malformed_address(uri) from None


def _malformed_address(uri: str) -> UsageProblem:
    return UsageProblem(
        f"'{shown_uri(uri)}' is a malformed address of MLflow",
        hint="write http://host:port; in a user name or password /, ?, # and @ are written as %2F, %3F, %23 and %40",
    )


def check_database_reachable(uri: str) -> None:
    """Raise ServerProblem at once where the database of an address does not answer; MLflow would retry for minutes."""
    address = urlsplit(uri)
    scheme = address.scheme.partition("+")[0]
    # Other stores answer at once, or are files.
    if scheme not in _PORTS or not _is_proper(uri):
        return
    try:
        socket.create_connection((address.hostname or "", address.port or _PORTS[scheme]), timeout=KNOCK_SECONDS).close()
    except OSError as problem:
        raise ServerProblem(f"no database answers at {shown_uri(uri)} ({problem.strerror or problem})") from None


def scrubbed(text: str, uri: str) -> str:
    """Return a message of MLflow in one line of bounded length, without the secrets of the address and of the environment."""
    address = urlsplit(uri)
    asked = (value for _, value in parse_qsl(address.query))
    secrets = (*login_secrets(address)[1:], *asked, *(os.environ.get(name, "") for name in _SECRETS))
    forms = {form for secret in secrets if len(secret) >= SHORTEST_SECRET for form in forms_of(secret)}
    text = text.replace(uri, shown_uri(uri))
    # The longest first: one secret may be part of another.
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, "***")
    return " ".join(text.split())[:LONGEST_REASON]


URI_VARIABLE = "MLFLOW_TRACKING_URI"
EXPERIMENT_VARIABLE = "MLFLOW_EXPERIMENT_NAME"
OLDEST = (3, 4)
"""First version of a server that takes spans in batches."""
METRICS_AT_ONCE, PARAMETERS_AT_ONCE = 800, 90
"""Less than MLflow's limits for one call."""
_CLIENT_DEFAULTS = {
    # A push sends nothing to any other server.
    "MLFLOW_DISABLE_TELEMETRY": "true",
    # By default the client retries for several minutes and waits two for each answer; report a server that hangs sooner.
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_ASYNC_TRACE_LOGGING_RETRY_TIMEOUT": "30",
}
"""Settings of MLflow's client while we use it, unless the environment says otherwise."""


class TrackedRun(msgspec.Struct, frozen=True):
    """A run in MLflow."""

    run_id: str
    experiment_id: str
    tags: dict[str, str]


class _ClientDefaults:
    """Defaults of MLflow's client in the environment of the process, as long as one of its pushes is under way.

    MLflow reads these settings from the environment for each request, and has no parameter for them. Pushes that run at the same
    time share them: the first one sets those that the environment lacks, the last one removes them again.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._pushes = 0
        self._added: list[str] = []

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Apply the defaults until the end of the block."""
        with self._lock:
            if not self._pushes:
                self._added = [name for name in _CLIENT_DEFAULTS if name not in os.environ]
                # Only what the environment lacks: the user's own settings win.
                os.environ.update({name: _CLIENT_DEFAULTS[name] for name in self._added})
            self._pushes += 1
        try:
            yield
        finally:
            with self._lock:
                self._pushes -= 1
                for name in () if self._pushes else self._added:
                    os.environ.pop(name, None)


_client_defaults = _ClientDefaults()


@contextmanager
def connected(uri: str) -> Iterator["TrackingConnection"]:
    """Open MLflow at an address; raises UsageProblem for a malformed one, MissingExtra, and ServerProblem for any failure there."""
    check_uri(uri)
    # Inside of the defaults, so that the first request already has them.
    with _client_defaults.applied(), _refusals(uri):
        check_database_reachable(uri)
        tracking = TrackingConnection(uri)
        tracking.check_version()
        yield tracking


@contextmanager
def _refusals(uri: str) -> Iterator[None]:
    """Turn each exception of MLflow's client and of the network into a ServerProblem without secrets.

    Neither the client nor the answers of a server are ours, so no exception of theirs is a bug of assay.
    """
    try:
        with ThirdPartyCode(AssayError):
            yield
    except ThirdPartyError as failure:
        problem = failure.problem
        if isinstance(problem, NotImplementedError):
            # A store of files has no traces.
            raise ServerProblem(
                f"MLflow at {shown_uri(uri)} stores no traces: {scrubbed(str(problem), uri)}",
                hint="push without them: --traces none",
            ) from None
        # Messages for people are shown without the exception's type and position.
        is_told = isinstance(problem, OSError) or type(problem).__module__.startswith("mlflow.")
        # Text of a third party may quote the address with its password.
        said = f"refuses: {scrubbed(str(problem), uri)}" if is_told else f"cannot be used: {scrubbed(str(failure), uri)}"
        raise ServerProblem(f"MLflow at {shown_uri(uri)} {said}") from None


class TrackingConnection:
    """A connection to MLflow."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.library = imported("mlflow")
        # MLflow warns about its own settings only; problems are raised.
        logging.getLogger("mlflow").setLevel(logging.ERROR)
        logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)
        self.entities = import_module("mlflow.entities")
        self.client = self.library.MlflowClient(uri)

    @property
    def store(self) -> Any:
        """Store behind the client: only it takes ids of traces and assessments, which make a push idempotent."""
        # A private member: the public client has no call that takes the id of a trace or an assessment.
        return self.client._tracing_client.store

    @property
    def is_remote(self) -> bool:
        """Whether the address is one of a server."""
        return urlsplit(self.uri).scheme in WEB

    def check_version(self) -> None:
        """Raise ServerProblem at once where no server answers, or one that is too old."""
        if not self.is_remote:
            return
        rest, errors = import_module("mlflow.utils.rest_utils"), import_module("mlflow.exceptions")
        try:
            # With its defaults the client would retry for minutes.
            # Through MLflow's own function, because it adds the login that its environment variables define.
            answer = rest.http_request(
                self.store.get_host_creds(), "/version", "GET", timeout=5, max_retries=0, raise_on_status=False
            )
        except (errors.MlflowException, OSError) as problem:
            # urllib3 puts the reasons of a failure one into the other: the innermost one is the last part of the text.
            reason = scrubbed(str(problem), self.uri).rpartition(": ")[2].rstrip("\"')")
            raise ServerProblem(f"no MLflow server answers at {shown_uri(self.uri)} ({reason})") from None
        version = answer.text.strip() if answer.status_code == 200 else ""
        numbers = [int(part) for part in version.split(".")[:2] if part.isdigit()]
        # A server that does not say its version, such as a managed one, is given the benefit of the doubt.
        if len(numbers) == 2 and tuple(numbers) < OLDEST:
            raise ServerProblem(f"MLflow {version} at {shown_uri(self.uri)} is too old: it takes 3.4 or newer")

    def experiment_id(self, name: str) -> str:
        """Return the experiment of a name, created if missing; raises ServerProblem for one that was deleted."""
        found = self.client.get_experiment_by_name(name)
        if found is None:
            # With this tag its page begins with evaluation runs and traces instead of charts of training.
            made: str = self.client.create_experiment(name, tags={"mlflow.experimentKind": "genai_development"})
            return made
        if found.lifecycle_stage == "deleted":
            raise ServerProblem(
                f"the experiment '{name}' was deleted in MLflow", hint="restore it there, or name another: --experiment"
            )
        return str(found.experiment_id)

    def find_run(self, experiment_id: str, tags: Mapping[str, str]) -> TrackedRun | None:
        """Find the oldest run with these tags."""
        wanted = " and ".join(f"tags.`{name}` = '{value}'" for name, value in tags.items())
        # The oldest: two pushes at once may have made two, and both then agree on one.
        found = self.client.search_runs([experiment_id], wanted, max_results=1, order_by=["attributes.start_time ASC"])
        return _tracked_run(found[0]) if found else None

    def create_run(self, experiment_id: str, name: str, *, start_ms: int, tags: Mapping[str, str]) -> TrackedRun:
        """Create a run that has its tags from its first moment on."""
        return _tracked_run(self.client.create_run(experiment_id, start_time=start_ms, tags=dict(tags), run_name=name))

    def log_figures(self, run_id: str, parameters: Mapping[str, str], metrics: Mapping[str, float], *, at_ms: int) -> None:
        """Log parameters and metrics; logging them again changes nothing, because time and step are the same."""
        # Sending a metric again would add a point to its history.
        known = self.client.get_run(run_id).data
        wanted = [
            self.entities.Metric(name, value, at_ms, 0) for name, value in metrics.items() if known.metrics.get(name) != value
        ]
        for part in _parts(wanted, METRICS_AT_ONCE):
            self.client.log_batch(run_id, metrics=part)
        # A parameter that is set cannot be changed, and MLflow answers an error for it.
        given = [self.entities.Param(name, value) for name, value in parameters.items() if name not in known.params]
        for part in _parts(given, PARAMETERS_AT_ONCE):
            self.client.log_batch(run_id, params=part)

    def tag_run(self, run_id: str, tags: Mapping[str, str]) -> None:
        """Set tags of a run, new or changed."""
        self.client.log_batch(run_id, tags=[self.entities.RunTag(name, value) for name, value in tags.items()])

    def upload(self, run_id: str, files: Mapping[str, Path]) -> int:
        """Upload files as artifacts unless they are there in full; returns how many were sent."""
        # Some stores list an empty file without a size.
        there = {entry.path: entry.file_size or 0 for entry in self.client.list_artifacts(run_id)}
        # Compared by size: artifacts are immutable, so one that is there in full is the same.
        missing = [path for name, path in files.items() if there.get(name) != path.stat().st_size]
        for path in missing:
            self.client.log_artifact(run_id, str(path))
        return len(missing)

    def upload_document(self, run_id: str, name: str, document: Mapping[str, object]) -> int:
        """Upload a JSON document as an artifact unless it is there; returns how many were sent."""
        if any(entry.path == name for entry in self.client.list_artifacts(run_id)):
            return 0
        self.client.log_dict(run_id, dict(document), name)
        return 1

    def end_run(self, run_id: str, status: str, *, end_ms: int) -> None:
        """Set the end of a run, with its time."""
        self.client.set_terminated(run_id, status, end_ms)

    def page_of(self, run: TrackedRun) -> str:
        """Return the address of a run's page; empty where there is no server."""
        return f"{shown_uri(self.uri).rstrip('/')}/#/experiments/{run.experiment_id}/runs/{run.run_id}" if self.is_remote else ""


def imported(name: str) -> Any:
    """Import a module of MLflow; raises MissingExtra."""
    try:
        return import_module(name)
    except ImportError as problem:
        raise MissingExtra(f"this needs MLflow ({problem})", hint="pip install 'assay[mlflow]'") from None


def _tracked_run(run: Any) -> TrackedRun:
    return TrackedRun(run.info.run_id, str(run.info.experiment_id), dict(run.data.tags))


def _parts(values: Sequence[object], size: int) -> Iterator[Sequence[object]]:
    yield from (values[start : start + size] for start in range(0, len(values), size))
