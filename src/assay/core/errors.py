"""Exceptions for the caller and the environment; the user's data gets issues instead.

AssayError
├── UsageProblem        wrong option, setting or argument
├── SourceUnreadable    a file that cannot be opened or decompressed
├── MissingExtra        an optional dependency that is not installed
├── StoreUnavailable    what a run keeps cannot be written or read: disk full, read-only folder, damaged file
├── RunNotFound         no run of that name, or a folder that holds none
└── RunSealed           a run whose artifacts are written once and stay as they are
"""


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


class RunNotFound(AssayError):
    """There is no such run here."""

    code = "run_not_found"


class RunSealed(AssayError):
    """The run's artifacts are published and cannot be replaced."""

    code = "run_sealed"
