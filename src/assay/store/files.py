"""Small files next to the runs: logs that are only appended to, and documents that are replaced as a whole."""

import fcntl
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from assay.core.errors import StoreUnavailable
from assay.core.judge_card import JudgeCard
from assay.store.failures import disk_errors


class AppendLog:
    """A file of lines for many processes: each append is flushed to the disk, and a line counts once its line feed is written."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, line: bytes) -> None:
        """Add a line in place of an unfinished one that a crash left, which was never confirmed. Raises StoreUnavailable."""
        with self.locked() as log:
            # A torn line was never confirmed to its writer, so replacing it loses nothing.
            log.write(line + b"\n", at=len(log.complete(log.read())))

    def lines(self) -> list[bytes]:
        """Read all complete lines, the oldest first; none without a file. Raises StoreUnavailable."""
        with disk_errors(self.path):
            text = self.path.read_bytes() if self.path.is_file() else b""
        return LockedLog.complete(text).splitlines()

    @contextmanager
    def locked(self) -> Iterator["LockedLog"]:
        """Hold the log exclusively inside the block, creating its file; raises StoreUnavailable."""
        with disk_errors(self.path):
            # No links: the folder may be shared, and a link would let another user choose the file that is written.
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
                yield LockedLog(handle)
            finally:
                os.close(handle)


class LockedLog:
    """An open log that no other process can change."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    @property
    def inode(self) -> int:
        """Identity of the file: another one means that the log was replaced."""
        return os.fstat(self._handle).st_ino

    @staticmethod
    def complete(text: bytes) -> bytes:
        """Return the complete lines of a text that begins with a line."""
        return text[: text.rfind(b"\n") + 1]

    def read(self, start: int = 0, size: int | None = None) -> bytes:
        """Read `size` bytes from an offset, or everything from there on."""
        if size is not None:
            return os.pread(self._handle, size, start)
        pieces: list[bytes] = []
        while piece := os.pread(self._handle, 1 << 20, start):
            pieces.append(piece)
            start += len(piece)
        return b"".join(pieces)

    def write(self, lines: bytes, *, at: int) -> None:
        """Append lines after the complete ones, which end at `at`, and flush them to the disk; an unfinished line is dropped."""
        # Truncated before the append, under the lock: O_APPEND would otherwise write after the torn line.
        os.ftruncate(self._handle, at)
        rest = memoryview(lines)
        # os.write may write less than it was given.
        while rest:
            rest = rest[os.write(self._handle, rest) :]
        os.fsync(self._handle)


def replace_file(path: Path, content: bytes) -> None:
    """Write a file in one step, so that readers see the old content or the new; raises StoreUnavailable."""
    # A random name, because two processes may replace the file at the same time.
    partial = path.with_name(f"{path.name}-{secrets.token_hex(4)}")
    with disk_errors(path):
        path.parent.mkdir(mode=0o700, exist_ok=True)
        partial.write_bytes(content)
        partial.replace(path)


LABELS_FOLDER = ".labels"


def append_label(run_dir: Path, line: Mapping[str, object]) -> None:
    """Add one label and flush it to the disk. Raises StoreUnavailable."""
    log = _log(run_dir)
    with disk_errors(log.path):
        log.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    log.append(msgspec.json.encode(line))


def read_label_lines(run_dir: Path) -> list[bytes]:
    """Read all labels of a run, the oldest first; raises StoreUnavailable."""
    return _log(run_dir).lines()


def damaged_label(run_dir: Path, number: int, problem: Exception) -> StoreUnavailable:
    """Build the error for a line that cannot be read."""
    return StoreUnavailable(f'"{_log(run_dir).path}" is damaged: line {number}: {problem}', hint="restore the file from a copy")


def _log(run_dir: Path) -> AppendLog:
    return AppendLog(run_dir.parent / LABELS_FOLDER / f"{run_dir.name}.jsonl")


CARDS_FOLDER = ".judges"
_UNSAFE = re.compile(r"[^A-Za-z0-9]+", re.ASCII)
_decode = msgspec.json.Decoder(JudgeCard).decode


class KeptCard(msgspec.Struct, frozen=True):
    """A card and its id."""

    id: str
    card: JudgeCard


class KeptCards(msgspec.Struct, frozen=True):
    """Cards of a folder of runs, and the files among them that cannot be read."""

    cards: tuple[KeptCard, ...]
    """Newest first."""
    damaged: tuple[str, ...] = ()


def keep_card(runs_dir: Path, card: JudgeCard) -> str:
    """Store a card and return its id; raises StoreUnavailable."""
    # Names of models contain slashes and colons; the random end keeps two cards of one second apart.
    created, judge = _UNSAFE.sub("", card.created_at), _UNSAFE.sub("-", card.judge).strip("-").lower()[:60]
    name = f"{created}-{judge or 'judge'}-{secrets.token_hex(3)}"
    path = runs_dir / CARDS_FOLDER / f"{name}.json"
    replace_file(path, msgspec.json.encode(card))
    return name


def read_cards(runs_dir: Path) -> KeptCards:
    """Read all stored cards; raises StoreUnavailable when the folder cannot be read."""
    cards: list[KeptCard] = []
    damaged: list[str] = []
    with disk_errors(runs_dir / CARDS_FOLDER):
        for path in sorted((runs_dir / CARDS_FOLDER).glob("*.json"), reverse=True):
            try:
                cards.append(KeptCard(path.stem, _decode(path.read_bytes())))
            except msgspec.DecodeError:
                damaged.append(path.name)
    return KeptCards(tuple(cards), tuple(damaged))
