"""Exceptions for the caller and the environment; the user's data gets issues instead.

AssayError
├── UsageProblem        wrong option, setting or argument
├── SourceUnreadable    a file that cannot be opened or decompressed
├── MissingExtra        an optional dependency that is not installed
├── StoreUnavailable    what a run keeps cannot be written or read: disk full, read-only folder, damaged file
│   ├── LedgerUnavailable   a shared ledger that cannot be used at this moment
│   └── StoreRefused        an object store that answers, and does not let us use it
├── ProviderRejected    a provider that rejects the key, the model or the account of a run
├── RunNotFound         no run of that name, or a folder that holds none
│   └── ArtifactGone    a part of a run that retention has removed
├── RunSealed           a run whose artifacts are written once and stay as they are
└── ServerProblem       a service that refuses a request, or cannot be reached
"""

from typing import Any


class AssayError(Exception):
    """Something the caller can act on: what happened, and what to do next."""

    code = "error"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageProblem(AssayError):
    """An option, setting or argument that cannot be used as given."""

    code = "usage"


class SourceUnreadable(AssayError):
    """A source that cannot be opened, read or decompressed."""

    code = "source_unreadable"


class MissingExtra(AssayError):
    """An optional dependency that this call needs is not installed."""

    code = "missing_extra"


class StoreUnavailable(AssayError):
    """What a run keeps cannot be written or read; nothing was half-written, and the same call works once the cause is gone."""

    code = "store_unavailable"


class LedgerUnavailable(StoreUnavailable):
    """The database that keeps runs is away or refuses what is asked of it; it is the same for whoever asks next, from anywhere."""


class StoreRefused(StoreUnavailable):
    """An object store answers and refuses: no such bucket, or not with these credentials; waiting alone heals nothing."""


class RunDamaged(StoreUnavailable):
    """Files of a run are not as they were written: waiting heals nothing, `assay verify` names what was changed."""

    def __init__(self, message: str) -> None:
        super().__init__(message, hint="`assay verify` names what was changed")


class LedgerLost(StoreUnavailable):
    """The ledger of a run was removed, replaced or overwritten, and waiting does not bring it back."""


class ProviderRejected(AssayError):
    """A provider rejects the key, the model or the account of a run: no further call can succeed until that is changed."""

    code = "provider_rejected"


class RunNotFound(AssayError):
    """There is no such run here."""

    code = "run_not_found"


class ArtifactGone(RunNotFound):
    """A part of a run that retention has removed."""


class RunSealed(AssayError):
    """The run's artifacts are published and cannot be replaced."""

    code = "run_sealed"


class ServerProblem(AssayError):
    """A service refuses a request, or cannot be reached; `code` is the one of its answer, such as `payload_too_large`."""

    code = "server_problem"

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        code: str = "",
        status: int = 0,
        request_id: str = "",
        details: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.code = code or self.code
        self.status = status
        """Of HTTP; 0 when there was no answer."""
        self.request_id = request_id
        self.details = details or {}

    @property
    def problems(self) -> tuple[str, ...]:
        """Everything that the service says is wrong, a line each; empty when the message says it all."""
        named = (self.details.get("errors"), self.details.get("record_errors"))
        lines = tuple(_line_for(entry) for listed in named if isinstance(listed, list) for entry in listed)
        return () if lines == (self.message,) else lines


def _line_for(entry: Any) -> str:
    """One error of an answer in one line, whatever its shape."""
    if not isinstance(entry, dict):
        return str(entry)
    place, line = entry.get("path") or entry.get("key"), entry.get("line")
    parts = [f"line {line}, column {entry.get('column')}" if line else "", place or "", str(entry.get("message"))]
    return ": ".join(filter(None, parts))
