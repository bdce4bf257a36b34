"""Check of a runs folder: tries everything that the ledger, its lock and a publication need."""

import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from assay.core.errors import StoreUnavailable
from assay.core.setup_checks import DoctorCheck
from assay.store.failures import database_errors, disk_errors, sync_folder
from assay.store.lock import RunLock

LITTLE = 1 << 30
"""Free bytes below which a large run may fill the disk."""
TOO_LITTLE = 100 << 20
"""Free bytes below which hardly any run can finish."""
NETWORKS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "fuse.sshfs", "fuse.s3fs"}
)
"""Network file systems, whose locks and flushes are not always reliable."""
MEMORY = frozenset({"tmpfs", "ramfs"})
MOUNTS = Path("/proc/self/mounts")


def check_runs_folder(folder: Path) -> Iterator[DoctorCheck]:
    """Check whether a folder can hold runs; files written for the check are removed, and the folder is not created."""
    if folder.exists() and not folder.is_dir():
        hint = "move it away, or choose another folder with --runs-dir"
        yield DoctorCheck(area="runs", name="folder", standing="problem", says=f"'{folder}' is not a folder", hint=hint)
        return
    # A check must not create the folder: the first run does that, with its own permissions.
    existing = next((path for path in (folder.absolute(), *folder.absolute().parents) if path.is_dir()), Path("/"))
    note = "" if existing == folder.absolute() else "; it does not exist yet and is made by the first run"
    try:
        with disk_errors(existing), tempfile.TemporaryDirectory(prefix=".assay-doctor-", dir=existing) as scratch:
            seconds = _try_everything(Path(scratch))
    except StoreUnavailable as problem:
        hint = "make it writable for this user, or choose another folder with --runs-dir"
        yield DoctorCheck(area="runs", name="folder", standing="problem", says=problem.message, hint=hint)
        return
    says = f"'{folder}' can be written, flushed, renamed in and locked (a flush takes {seconds * 1000:.1f} ms){note}"
    yield DoctorCheck(area="runs", name="folder", says=says)
    yield _space(existing)
    yield from _file_system(existing)


def _try_everything(scratch: Path) -> float:
    """Try each operation that a run needs and return the seconds that one flush takes; raises StoreUnavailable."""
    file = scratch / "file"
    file.write_bytes(b"x")
    start = time.perf_counter()
    with file.open("r+b") as handle:
        handle.write(b"y")
        handle.flush()
        os.fsync(handle.fileno())
    seconds = time.perf_counter() - start
    file.rename(scratch / "renamed")
    sync_folder(scratch)
    with RunLock(scratch):
        # Some network file systems grant every lock, and two processes would then drive the same run.
        if RunLock(scratch).try_acquire():
            raise StoreUnavailable(
                f"two processes could hold the same lock in '{scratch.parent}'", hint="use a local disk for the runs"
            )
    with database_errors(scratch), closing(sqlite3.connect(scratch / "ledger.sqlite")) as database:
        # Needs shared memory, which network file systems often lack.
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE entry (place INTEGER)")
    return seconds


def _space(folder: Path) -> DoctorCheck:
    free = shutil.disk_usage(folder).free
    says = f"{free / (1 << 30):,.1f} GB free"
    if free < TOO_LITTLE:
        return DoctorCheck(
            area="runs", name="disk", standing="problem", says=says, hint="free some space, or use another --runs-dir"
        )
    if free < LITTLE:
        return DoctorCheck(
            area="runs",
            name="disk",
            standing="note",
            says=says,
            hint="large runs may need more: free some, or use another --runs-dir",
        )
    return DoctorCheck(area="runs", name="disk", says=says)


def _file_system(folder: Path) -> Iterator[DoctorCheck]:
    kind = file_system(folder, _mounts())
    if kind in NETWORKS:
        hint = "two machines must not drive the same run; a local disk is safer and faster: --runs-dir"
        yield DoctorCheck(area="runs", name="file system", standing="note", says=f"{kind}, on another machine", hint=hint)
    elif kind in MEMORY:
        hint = "copy what you want to keep, or use another --runs-dir"
        yield DoctorCheck(
            area="runs", name="file system", standing="note", says=f"{kind}: in memory, gone when the machine ends", hint=hint
        )
    elif kind:
        yield DoctorCheck(area="runs", name="file system", says=kind)


def _mounts() -> str:
    try:
        return MOUNTS.read_text(encoding="utf-8", errors="replace")
    except OSError:
        # Only Linux has this list.
        return ""


def file_system(folder: Path, mounts: str) -> str:
    """Find the kind of a folder's file system in a Linux list of mounts; empty when it is unknown."""
    fields = [line.split(" ") for line in mounts.splitlines() if line.count(" ") >= 2]
    # The kernel writes spaces in paths as \040. A later mount over the same path replaces the earlier one.
    found = {path.replace("\\040", " "): kind for _, path, kind, *_ in fields}
    return next((found[str(path)] for path in (folder, *folder.parents) if str(path) in found), "")
