"""Run-level failures: a full disk, a lost database or a rejected key. The run is `failed`, with its reason, until it is resumed.

The ledger holds the reason. When the ledger cannot be written, the reason goes to a file whose space was reserved at the start:
overwriting it needs no further space on most file systems.
"""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from assay.core.errors import AssayError, LedgerLost, RunNotFound
from assay.core.runs import TERMINAL, State
from assay.engine.storage.run_paths import RunPaths
from assay.store.ledger import FAILURE, FAILURES, Ledger, RunRow
from assay.store.ledgers import LEDGER, create_ledger, open_briefly, pointed_to
from assay.store.sqlite import set_aside

RESERVE = "failure.json"
LOST = "the ledger was overwritten, and the outcomes in it are lost; a resumed run evaluates all records again"
_SIZE = 4096
_MAX_MESSAGE = 1_000


class RunFailure(msgspec.Struct, frozen=True, kw_only=True):
    """Error that stopped a run before its end."""

    code: str
    message: str
    at: float
    """Seconds since 1970, UTC."""
    state: State = "running"
    """State that the run was in."""
    resumed_at: float | None = None


def failure_from(problem: Exception, *, at: float) -> RunFailure:
    """Describe an exception that ended the work on a run."""
    if isinstance(problem, AssayError):
        return RunFailure(code=problem.code, message=problem.message[:_MAX_MESSAGE], at=at)
    return RunFailure(code="internal_error", message=f"{type(problem).__name__}: {problem}"[:_MAX_MESSAGE], at=at)


def known_row(folders: RunPaths) -> RunRow | None:
    """Return what is needed to replace a lost ledger; None when the ledger cannot be read, or is shared and not ours to replace."""
    with suppress(AssayError):
        if not pointed_to(folders.active):
            ledger = folders.open_ledger()
            try:
                return ledger.run()
            finally:
                ledger.close()
    return None


def reserve(active: Path) -> None:
    """Reserve disk space for a failure's reason; an error is ignored, since a full disk soon fails the run itself."""
    with suppress(OSError), os.fdopen(os.open(active / RESERVE, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        # Written, not only sized: a sparse file would reserve nothing.
        file.write(b" " * _SIZE)


def record_failure(folders: RunPaths, failure: RunFailure, *, known: RunRow | None = None) -> bool:
    """Record a failure in the ledger or the reserved file; return False when neither can be written.

    An overwritten ledger is replaced by a new one that holds what is `known` of the run, and the failure.
    """
    # The reason is shown to clients and in the manifest, which must not reveal paths of this machine.
    message = failure.message.replace(f"{folders.runs_dir.absolute()}/", "").replace(f"{folders.runs_dir}/", "")
    failure = msgspec.structs.replace(failure, message=message)
    try:
        # Do not wait for an unavailable shared ledger: its outage may be the failure that is recorded here.
        ledger = open_briefly(folders.active) if pointed_to(folders.active) else folders.open_ledger()
        try:
            enter_failure(ledger, failure)
        finally:
            ledger.close()
    except (LedgerLost, RunNotFound):
        if known is not None and not folders.is_sealed:
            return _replace_lost(folders, failure, known)
        return _write_reserve(folders.active, msgspec.json.encode(failure))
    except AssayError:
        return _write_reserve(folders.active, msgspec.json.encode(failure))
    return True


def _replace_lost(folders: RunPaths, failure: RunFailure, known: RunRow) -> bool:
    """Replace a lost ledger by one without records, so that the run can be evaluated again."""
    try:
        folders.active.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Kept under another name: it may still hold records that a person can rescue.
        set_aside(folders.active / LEDGER)
        create_ledger(folders.active, plan=known.plan, plan_sha256=known.plan_sha256, at=known.states[0][1])
        ledger = folders.open_ledger()
        try:
            for name in known.notes.keys() - {FAILURE}:
                ledger.set_note(name, known.notes[name])
            enter_failure(ledger, msgspec.structs.replace(failure, code=LedgerLost.code, message=LOST))
        finally:
            ledger.close()
    except (AssayError, OSError):
        return False
    return True


def enter_failure(ledger: Ledger, failure: RunFailure) -> None:
    """Note a failure in the ledger, unless the run has ended or has failed already."""
    row = ledger.run()
    if row.state not in TERMINAL and not row.notes.get(FAILURE):
        note = msgspec.structs.replace(failure, state=row.state, at=max(failure.at, row.states[-1][1]))
        ledger.set_note(FAILURE, msgspec.json.encode(note).decode())


def failure_of(row: RunRow, active: Path) -> RunFailure | None:
    """Return the present failure of a run; None for one that has ended, was resumed, or never failed."""
    if row.state in TERMINAL:
        return None
    failure = noted_failure(row.notes) or _decode_failure(_read_reserve(active))
    return failure and msgspec.structs.replace(failure, state=row.state, at=max(failure.at, row.states[-1][1]))


def noted_failure(notes: Mapping[str, str]) -> RunFailure | None:
    """Return the failure in a ledger's notes."""
    return _decode_failure(notes.get(FAILURE, "").encode())


def _decode_failure(content: bytes) -> RunFailure | None:
    try:
        return msgspec.json.decode(content, type=RunFailure) if content else None
    except msgspec.DecodeError:
        # A power failure may have cut it off; the run is then shown as interrupted.
        return None


def leave_failure(ledger: Ledger, active: Path, *, clock: Callable[[], float]) -> None:
    """Clear a run's failure because it is resumed, and store the failure for its manifest."""
    row = ledger.run()
    failure = failure_of(row, active)
    if failure is None:
        return
    failures = [*past_failures(row), msgspec.structs.replace(failure, resumed_at=max(clock(), failure.at))]
    ledger.set_note(FAILURES, msgspec.json.encode(failures).decode())
    ledger.set_note(FAILURE, "")
    _write_reserve(active, b"")


def past_failures(row: RunRow) -> list[RunFailure]:
    """Return the failures after which a run was resumed."""
    return msgspec.json.decode(row.notes.get(FAILURES, "[]"), type=list[RunFailure])


def states_with_failures(row: RunRow, failure: RunFailure | None = None) -> list[tuple[State, float]]:
    """Return every state of a run with its time: those of the ledger, each `failed`, and the states it was resumed in."""
    states = list(row.states)
    for past in past_failures(row):
        states += [("failed", past.at), *([] if past.resumed_at is None else [(past.state, past.resumed_at)])]
    if failure is not None:
        states.append(("failed", failure.at))
    # The sort is stable: at equal times the ledger's state comes first.
    return sorted(states, key=lambda entered: entered[1])


def _write_reserve(active: Path, content: bytes) -> bool:
    try:
        # Without O_TRUNC, which would give the reserved blocks back to a full disk.
        number = os.open(active / RESERVE, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.pwrite(number, content.ljust(_SIZE), 0)
            os.fsync(number)
        finally:
            os.close(number)
    except OSError:
        return False
    return True


def _read_reserve(active: Path) -> bytes:
    try:
        return (active / RESERVE).read_bytes().strip()
    except OSError:
        return b""
