"""Whether a folder can hold runs: everything that the ledger, its lock and a publication need is tried in it."""

import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from assay.core.doctor import Check
from assay.core.errors import StoreUnavailable
from assay.store.failures import database_errors, disk_errors, sync_folder
from assay.store.lock import RunLock

LITTLE = 1 << 30
"""Free bytes below which a large run may fill the disk."""
TOO_LITTLE = 100 << 20
"""Free bytes below which hardly any run comes to its end."""
NETWORKS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "fuse.sshfs", "fuse.s3fs"}
)
"""File systems of other machines, whose locks and flushes do not always do what they say."""
MEMORY = frozenset({"tmpfs", "ramfs"})
MOUNTS = Path("/proc/self/mounts")


def examine_place(folder: Path) -> Iterator[Check]:
    """What can be said of a folder as a home of runs; what is tried in it is removed again, and the folder is not made."""
    if folder.exists() and not folder.is_dir():
        hint = "move it away, or choose another folder with --runs-dir"
        yield Check(area="runs", name="folder", standing="problem", says=f"'{folder}' is no folder", hint=hint)
        return
    existing = next((place for place in (folder.absolute(), *folder.absolute().parents) if place.is_dir()), Path("/"))
    note = "" if existing == folder.absolute() else "; it does not exist yet and is made by the first run"
    try:
        with disk_errors(existing), tempfile.TemporaryDirectory(prefix=".assay-doctor-", dir=existing) as scratch:
            seconds = _try_everything(Path(scratch))
    except StoreUnavailable as problem:
        hint = "make it writable for this user, or choose another folder with --runs-dir"
        yield Check(area="runs", name="folder", standing="problem", says=problem.message, hint=hint)
        return
    says = f"'{folder}' can be written, flushed, renamed in and locked (a flush takes {seconds * 1000:.1f} ms){note}"
    yield Check(area="runs", name="folder", says=says)
    yield _space(existing)
    yield from _file_system(existing)


def _try_everything(scratch: Path) -> float:
    """Seconds that one flush takes; raises StoreUnavailable for what the folder cannot do."""
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
        if RunLock(scratch).try_acquire():
            raise StoreUnavailable(
                f"two processes could hold the same lock in '{scratch.parent}'", hint="use a local disk for the runs"
            )
    with database_errors(scratch), closing(sqlite3.connect(scratch / "ledger.sqlite")) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE entry (place INTEGER)")
    return seconds


def _space(folder: Path) -> Check:
    free = shutil.disk_usage(folder).free
    says = f"{free / (1 << 30):,.1f} GB free"
    if free < TOO_LITTLE:
        return Check(area="runs", name="disk", standing="problem", says=says, hint="free some space, or use another --runs-dir")
    if free < LITTLE:
        return Check(
            area="runs",
            name="disk",
            standing="note",
            says=says,
            hint="large runs may need more: free some, or use another --runs-dir",
        )
    return Check(area="runs", name="disk", says=says)


def _file_system(folder: Path) -> Iterator[Check]:
    kind = file_system(folder, _mounts())
    if kind in NETWORKS:
        hint = "two machines must not drive the same run; a local disk is safer and faster: --runs-dir"
        yield Check(area="runs", name="file system", standing="note", says=f"{kind}, on another machine", hint=hint)
    elif kind in MEMORY:
        hint = "copy what you want to keep, or use another --runs-dir"
        yield Check(
            area="runs", name="file system", standing="note", says=f"{kind}: in memory, gone when the machine ends", hint=hint
        )
    elif kind:
        yield Check(area="runs", name="file system", says=kind)


def _mounts() -> str:
    try:
        return MOUNTS.read_text(encoding="utf-8", errors="replace")
    except OSError:
        # No such list on this system.
        return ""


def file_system(folder: Path, mounts: str) -> str:
    """The kind of file system that a folder is on, by a list of mounts as Linux has it; empty where it is not known."""
    fields = [line.split(" ") for line in mounts.splitlines() if line.count(" ") >= 2]
    found = {place.replace("\\040", " "): kind for _, place, kind, *_ in fields}
    return next((found[str(place)] for place in (folder, *folder.parents) if str(place) in found), "")
