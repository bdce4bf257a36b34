"""Exit codes, and the one place where an error becomes a line on standard error.

0    everything is valid; a run met its gates, or has none
1    something is invalid; a run missed a gate; a conversion or import without a record
2    could not run: usage, settings, an unreadable source, a report that could not be written, nothing that could be evaluated
130  interrupted
141  the reader of our output went away
"""

import errno
import os
import stat
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from importlib import import_module
from types import TracebackType

import click

from assay.core.errors import AssayError, EmptyResult, ServerProblem, counted_problems
from assay.core.text import printable

VALID = GATES_PASSED = 0
INVALID = GATE_FAILED = 1
COULD_NOT_RUN = 2
INTERRUPTED = 130
OUTPUT_CLOSED = 141

_NO_ROOM = "free some space on that disk, or write to another place"
_NO_RIGHT = "make it readable and writable for this user, or name another place"
_REMEDIES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), _NO_ROOM),
    **dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM), _NO_RIGHT),
    **dict.fromkeys((errno.ENOENT, errno.ENOTDIR, errno.EISDIR), "check the path"),
    errno.ENAMETOOLONG: "name another file",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
}
"""Hint for each error of the operating system."""

MAX_PROBLEMS = 20
"""Lines of a server's answer that are shown."""
TRACEBACK_VARIABLE = "ASSAY_TRACEBACK"
"""Set to anything to see where an internal error came from."""


class OutputClosed(Exception):
    """Standard output was closed by its reader; click would exit with 1 for a BrokenPipeError, which means a missed gate here."""


class UnknownWord(click.BadParameter):
    """A word that is not one of those that a parameter takes."""

    def __init__(self, message: str, word: str, *, param: click.Parameter | None, known: Sequence[str]) -> None:
        super().__init__(message, param=param)
        self.word = word
        self.known = known


class ErrorBoundary:
    """Ends a command: no exception passes, each becomes one clear line and an exit code."""

    def __init__(self) -> None:
        self.exit_code = VALID

    def __enter__(self) -> "ErrorBoundary":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        if error is None or isinstance(error, SystemExit):
            # click ends with SystemExit itself for --help and --version.
            return False
        self.exit_code = _explain(error)
        return True


def print_error(message: str, *, hint: str = "", details: Sequence[str] = ()) -> None:
    """Print `assay: message` on standard error, below it a line for each detail, and `hint: ...`."""
    lines = [f"assay: {message}", *(f"  {detail}" for detail in details), *([f"hint: {hint}"] if hint else [])]
    with lost_terminal_ignored():
        # Messages quote file names and texts of models: control characters could rewrite the terminal.
        click.echo("\n".join(map(printable, lines)), err=True)


@contextmanager
def lost_terminal_ignored() -> Iterator[None]:
    """Discard what the block writes to a terminal that was closed, instead of failing."""
    try:
        yield
    except OSError as problem:
        # A terminal that was closed answers with EIO, and the run behind it must still come to its end.
        if problem.errno != errno.EIO:
            raise
        for number in (sys.stdout.fileno(), sys.stderr.fileno()):
            # The system no longer calls a closed terminal one, but it is still a device.
            if stat.S_ISCHR(os.fstat(number).st_mode):
                os.dup2(os.open(os.devnull, os.O_WRONLY), number)


def complain_of(error: AssayError) -> None:
    """Print an AssayError, with a line for each problem if it has several."""
    # Several errors carry a list, and it is not part of their base class.
    problems: Sequence[str] = getattr(error, "problems", ())
    if isinstance(error, ServerProblem):
        rest = [f"and {len(problems) - MAX_PROBLEMS:,} more"] if len(problems) > MAX_PROBLEMS else []
        hints = "; ".join(_hint_for_option(hint, error.parameters.get(hint, "")) for hint in error.hints[:MAX_PROBLEMS])
        print_error(error.message, details=[*problems[:MAX_PROBLEMS], *rest], hint=error.hint or hints)
    elif len(problems) > 1:
        print_error(counted_problems(problems), details=problems, hint=error.hint)
    else:
        print_error(error.message, hint=error.hint)


def _hint_for_option(hint: str, parameter: str) -> str:
    """Return a service's hint; one that names a parameter of HTTP is replaced by the option for the same setting."""
    # Loaded here: a command that does not talk to a server starts without the settings.
    settings = import_module("assay.core.settings").run_settings().values() if parameter else ()
    named = next((setting for setting in settings if setting.parameter and setting.parameter_name == parameter), None)
    if named is None:
        return hint
    purpose = named.option_text.rstrip(".")
    return f"give {named.option_name} to {purpose[:1].lower()}{purpose[1:]}"


def complain_of_report(problem: OSError, *, kept: Sequence[str], again: str) -> int:
    """Print that a report was not written, what is stored anyway, and the command that writes it; return the exit code."""
    # Without a file name it was standard output that failed, and the flush at exit would fail once more.
    if not problem.filename:
        _silence_output()
    remedy = _REMEDIES.get(problem.errno or 0, "")
    print_error(_system_message(problem), details=kept, hint="; then ".join(part for part in (remedy, again) if part))
    return COULD_NOT_RUN


def _explain(error: BaseException) -> int:
    match error:
        # The order matters: library errors first, and `OutputClosed` before the OSError that caused it is looked
        # at.
        case EmptyResult():
            complain_of(error)
            return INVALID
        case AssayError():
            complain_of(error)
        case click.Abort() | KeyboardInterrupt():
            print_error("interrupted")
            return INTERRUPTED
        case click.ClickException():
            _explain_usage(error)
        case OutputClosed():
            _silence_output()
            return OUTPUT_CLOSED
        case OSError():
            _silence_output()
            print_error(_system_message(error), hint=_REMEDIES.get(error.errno or 0, ""))
        case MemoryError():
            print_error("out of memory")
        case _:
            _explain_defect(error)
    return COULD_NOT_RUN


def _explain_usage(error: click.ClickException) -> None:
    if isinstance(error, click.exceptions.NoArgsIsHelpError) and isinstance(error.ctx.command, click.Group):
        # Its message is the whole help, not one line.
        # click raises this error for a group without a command and puts the help into its message.
        commands = ", ".join(error.ctx.command.list_commands(error.ctx))
        print_error(f"missing command of '{error.ctx.command_path}'", hint=f"commands: {commands}; --help says what they do")
        return
    # A message is one line without a full stop, as everywhere.
    message = " ".join(_usage_message(error).split()).rstrip(".")
    context = getattr(error, "ctx", None)
    command = context.command_path if isinstance(context, click.Context) else "assay"
    print_error(message[:1].lower() + message[1:], hint=_nearest(error) or f"{command} --help lists the arguments and options")


def _usage_message(error: click.ClickException) -> str:
    match error:
        case click.NoSuchOption() | click.exceptions.NoSuchCommand():
            # What click takes for near is said in the hint, as everywhere.
            return error.message
        case click.MissingParameter(param=click.Parameter() as missing, ctx=click.Context() as context):
            # Click lists choices below each other.
            choices = f"; choose from {', '.join(missing.type.choices)}" if isinstance(missing.type, click.Choice) else ""
            return f"missing {missing.param_type_name} {missing.get_error_hint(context)}{choices}"
        case _:
            return error.format_message()


def _nearest(error: click.ClickException) -> str:
    """Suggest the nearest option, command or word; empty if none is similar."""
    near: Sequence[str] = ()
    match error:
        case click.NoSuchOption() | click.exceptions.NoSuchCommand():
            near = error.possibilities or ()
        case UnknownWord():
            near = get_close_matches(error.word, error.known, n=1)
    return f"did you mean '{near[0]}'?" if near else ""


def nearest_of(word: str, known: Iterable[str], *, what: str) -> str:
    """Suggest the nearest known word, or list all of them."""
    names = list(known)
    near = get_close_matches(word, names, n=1)
    return f"did you mean '{near[0]}'?" if near else f"{what}: {', '.join(names)}"


def _system_message(error: OSError) -> str:
    reason = (error.strerror or str(error)).lower()
    return f"cannot use '{os.fsdecode(error.filename)}': {reason}" if error.filename else f"cannot write the report: {reason}"


def _explain_defect(error: BaseException) -> None:
    print_error(
        f"internal error: {type(error).__name__}: {error}", hint=f"this is a bug; set {TRACEBACK_VARIABLE}=1 for a traceback"
    )
    if os.environ.get(TRACEBACK_VARIABLE):
        traceback.print_exception(error)


def _silence_output() -> None:
    # The interpreter flushes standard output once more at exit, and would complain there of the closed pipe or the full disk.
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
