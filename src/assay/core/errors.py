"""Exceptions for the caller and the environment; problems of the user's data are issues instead.

AssayError
├── UsageProblem        wrong option, setting or argument
│   └── EmptyResult         a conversion or import without a record
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

# `assay --version` and `--help` import this module. It must not load msgspec, which takes longer than their whole answer.

import os.path
import re
import traceback
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType


class AssayError(Exception):
    """A failure that the caller can act on: what happened, and what to do next."""

    code = "error"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageProblem(AssayError):
    """An option, setting or argument that cannot be used as given."""

    code = "usage"


class EmptyResult(UsageProblem):
    """A conversion or import without a record: nothing is written."""


class SourceUnreadable(AssayError):
    """A source that cannot be opened, read or decompressed."""

    code = "source_unreadable"


class MissingExtra(AssayError):
    """An optional dependency that this call needs is not installed."""

    code = "missing_extra"


class StoreUnavailable(AssayError):
    """A run's files or database cannot be written or read; nothing is half-written, and a retry works once the cause is gone."""

    code = "store_unavailable"

    def __init__(self, message: str, *, hint: str = "", remedy: str = "") -> None:
        super().__init__(message, hint=f"{remedy}, then try again" if remedy else hint)
        # A value of its own, so that the handler can choose the end of the hint, and no words of a finished one are replaced.
        self.remedy = remedy
        """Action to take before the failed call is made again; empty where that does not help."""

    def ask_to_resume(self) -> None:
        """Let the hint end in resuming the run that the failed call was part of."""
        if self.remedy:
            self.hint = f"{self.remedy}, then resume the run"


class LedgerUnavailable(StoreUnavailable):
    """A shared ledger that is down or refuses the request; a retry from another machine will not help."""


class StoreRefused(StoreUnavailable):
    """An object store that refuses access: no such bucket, or wrong credentials; waiting will not help."""


class RunDamaged(StoreUnavailable):
    """Files of a run were changed since they were written: waiting will not help, `assay verify` names them."""

    def __init__(self, message: str) -> None:
        super().__init__(message, hint="`assay verify` names what was changed")


class LedgerLost(StoreUnavailable):
    """A ledger of a run that was removed, replaced or overwritten; waiting will not help."""


class ProviderRejected(AssayError):
    """A provider rejects the key, the model or the account of a run: no call can succeed until that is fixed."""

    code = "provider_rejected"


class RunNotFound(AssayError):
    """A run that does not exist here."""

    code = "run_not_found"


class ArtifactGone(RunNotFound):
    """A part of a run that retention has removed."""


class RunSealed(AssayError):
    """A run whose artifacts are published and cannot be replaced."""

    code = "run_sealed"


class ServerProblem(AssayError):
    """A service refuses a request, or cannot be reached; `code` is from its answer, such as `payload_too_large`."""

    code = "server_problem"

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        code: str = "",
        status: int = 0,
        request_id: str = "",
        details: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.code = code or self.code
        self.status = status
        """HTTP status; 0 without an answer."""
        self.request_id = request_id
        self.details: Mapping[str, object] = details or {}

    @property
    def problems(self) -> tuple[str, ...]:
        """List all problems that the service reports, one line each; empty when the message is the only one."""
        # Any server may answer, also a proxy or a newer version: nothing in the body is taken to have the type that it should have.
        named = (self.details.get("errors"), self.details.get("record_errors"))
        lines = tuple(_line_for(entry) for listed in named if isinstance(listed, list) for entry in listed)
        # With a single problem the service repeats it as the message, which would be printed twice.
        return () if lines == (self.message,) else lines

    @property
    def hints(self) -> tuple[str, ...]:
        """List the service's hints, each once, in the terms of HTTP."""
        return tuple(dict.fromkeys(str(entry["hint"]) for entry in self._errors if entry.get("hint")))

    @property
    def parameters(self) -> dict[str, str]:
        """Map each hint that names a parameter of the service to the name of the parameter."""
        return {
            str(entry["hint"]): str(entry["parameter"]) for entry in self._errors if entry.get("hint") and entry.get("parameter")
        }

    @property
    def _errors(self) -> list[Mapping[str, object]]:
        errors = self.details.get("errors")
        return [entry for entry in errors if isinstance(entry, dict)] if isinstance(errors, list) else []


def _line_for(entry: object) -> str:
    """Format one error of an answer as a line, regardless of its type."""
    if not isinstance(entry, dict):
        return str(entry)
    location, line = entry.get("path") or entry.get("key"), entry.get("line")
    parts = [f"line {line}, column {entry.get('column')}" if line else "", location or "", str(entry.get("message"))]
    return ": ".join(filter(None, parts))


_MORE = "... and {:,} more like these"
# Reads back what `_MORE` writes: lines of problems are passed on as text, and totals must count the hidden ones too.
_COUNTED = re.compile(r"\.\.\. and ([0-9,]+) more like these\Z")


def heading(text: str) -> str:
    """Build a heading for the problems below it."""
    return f"{text}:"


def is_heading(line: str) -> bool:
    """Return whether a line only introduces the problems below it."""
    return line.endswith(":")


def listed(problems: Sequence[str], count: int = 0, *, first: int) -> list[str]:
    """List the first problems and the number of others, of these or of a larger count."""
    more = max(count, len(problems)) - first
    return [*problems[:first], _MORE.format(more)] if more > 0 else list(problems)


def in_one_line(lines: Sequence[str]) -> str:
    """Join all problems in one line, with their number if there are several."""
    number = problem_count(lines)
    text = "".join(f"{line} " if is_heading(line) else f"{line}; " for line in lines).removesuffix("; ")
    return f"{number:,} problems: {text}" if number > 1 else text


def counted_problems(lines: Iterable[str]) -> str:
    """Count problems in words: `1 problem`, `12 problems`."""
    number = problem_count(lines)
    return f"{number:,} {'problem' if number == 1 else 'problems'}"


def problem_count(lines: Iterable[str]) -> int:
    """Count the problems in lines: a heading counts 0, and a line for omitted ones counts all of them."""
    return sum(map(_count_of, lines))


def _count_of(line: str) -> int:
    more = _COUNTED.match(line)
    return int(more[1].replace(",", "")) if more else 0 if is_heading(line) else 1


# Here and not next to its two subclasses, because their modules load msgspec: see above.
class ReportedFailure(Exception):
    """A failure that third-party code may raise on purpose, of a call (`ModelFailure`) or of a grade (`GradingFailure`)."""


class ThirdPartyError(Exception):
    """An exception of third-party code, in one sentence with file and line."""

    def __init__(self, problem: BaseException) -> None:
        self.problem = problem
        """Exception that was raised."""
        words = f": {problem}" if str(problem) else ""
        super().__init__(f"{type(problem).__name__}{words}{_source_location(problem)}")


class ThirdPartyCode:
    """A block of third-party code: its exceptions become ThirdPartyError, except our own failures, which it may raise."""

    def __init__(self, *also: type[Exception]) -> None:
        self._passed_through: tuple[type[Exception], ...] = (ReportedFailure, *also)

    def __enter__(self) -> None:
        """Do nothing: there is no setup."""

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        # SystemExit too: code that calls exit() must end only its own call.
        if isinstance(problem, Exception | SystemExit) and not isinstance(problem, self._passed_through):
            # KeyboardInterrupt and CancelledError pass: they end the run, and no plugin may hold them back.
            raise ThirdPartyError(problem) from problem


def _source_location(problem: BaseException) -> str:
    """Name the file and line that raised it; without the folder, which may be private."""
    # The last frame is where it was raised, often in a library; the first one would always be the line of ours that made the call.
    frames = traceback.extract_tb(problem.__traceback__)
    # Not with pathlib: every command loads this module, and pathlib takes longer than all else that `assay --version` needs.
    return f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""  # noqa: PTH119
