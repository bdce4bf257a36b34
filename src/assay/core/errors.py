"""Exceptions for the caller and the environment; the user's data gets issues instead.

AssayError
├── UsageProblem        wrong option, setting or argument
├── SourceUnreadable    a file that cannot be opened or decompressed
└── MissingExtra        an optional dependency that is not installed
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
