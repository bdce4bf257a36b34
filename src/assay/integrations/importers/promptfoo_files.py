"""Files that a config of promptfoo names: found by address or pattern, only below its folder, and read as data, never run."""

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TypeGuard

from assay.core.errors import AssayError
from assay.core.strict_json import parse_json
from assay.datasets.converters.report import UnreadableLine
from assay.datasets.converters.rows import kind
from assay.datasets.converters.sources import read_source
from assay.datasets.imports.items import ImportSource, ImportState
from assay.datasets.parsing.source import open_source
from assay.datasets.parsing.strict_yaml import parse_yaml

FILE = "file://"
MAX_FILE_BYTES = 64 << 20
MAX_VALUE_BYTES = 1 << 20
"""Maximum bytes of a file that is the value of one variable: every test may name one."""
MAX_MATCHES = 10_000
_YAML = frozenset({".yaml", ".yml"})
_CODE = re.compile(r"\.(?:py|rb|go|sh|bash|ps1|pl|exe|bat|cmd|php|[cm]?[jt]sx?)(?::[\w.]+)?$", re.IGNORECASE)
_MEDIA = {
    "image": frozenset([".jpg", ".jpeg", ".png", ".gif", ".webp", ".bmp", ".tif", ".tiff", ".heic", ".ico", ".avif"]),
    "audio": frozenset([".mp3", ".wav", ".ogg", ".flac", ".m4a", ".aac", ".opus", ".pcm16"]),
    "video": frozenset([".webm", ".mp4", ".mov", ".avi", ".mkv"]),
}
_DOCUMENTS = frozenset([".pdf", ".docx", ".xlsx", ".xls", ".pptx", ".odt", ".zip", ".parquet"])
_PATTERN = re.compile(r"[*?\[{]")
_BRACES = re.compile(r"\{([^{}]*)\}")
MAX_BRACES = 50


class FileUnread(Exception):
    """A file that was not read: in which general way, as losses are counted, and why in words."""

    def __init__(self, loss: str, reason: str, *, medium: str = "") -> None:
        super().__init__(reason)
        self.loss = loss
        self.medium = medium
        """`image` or another medium; empty for a file that could be text."""


def is_file(value: object) -> TypeGuard[str]:
    """Return whether a value is the address of a file."""
    return isinstance(value, str) and value.startswith(FILE)


def is_code(address: str) -> bool:
    """Return whether an address is that of a program, or of a function in one."""
    return address.startswith("exec:") or _CODE.search(address) is not None


class ConfigFiles:
    """Files that a config names, below the folder that may be read."""

    def __init__(self, source: ImportSource, reading: ImportState) -> None:
        self.source = source
        self.folder = source.path.absolute().parent
        # Resolved, so that a symlink out of the folder is found below.
        self._root = source.root.resolve()
        self._reading = reading
        self._told: set[str] = set()

    def leave_out(self, problem: FileUnread) -> None:
        """Count a file that was not read, and give the reason once."""
        self._reading.leave_out(problem.loss)
        if str(problem) not in self._told:
            self._told.add(str(problem))
            self.source.tally.note("left_out", str(problem))

    def found(self, address: str, *, folder: Path | None = None, limit: int = MAX_FILE_BYTES) -> list[Path]:
        """Return the files behind an address, which may be a pattern; raises FileUnread."""
        name = address.removeprefix(FILE)
        if not self._reading.follows_files:
            raise FileUnread("file:// (left out by --without-files)", f"'{name}' was not read: --without-files")
        if "\0" in name:
            raise FileUnread("file:// that cannot be read", "the name of a file holds a null character")
        base = folder or self.folder
        paths = [base / name]
        if _PATTERN.search(name) and not paths[0].is_file():
            paths = [path for pattern in _patterns(name) for path in self._matches(base, pattern)]
            if not paths:
                raise FileUnread("file:// that cannot be read", f"no file matches '{name}'")
        return [self._checked(path, name, limit) for path in dict.fromkeys(paths)]

    def _matches(self, folder: Path, pattern: str) -> list[Path]:
        # Path.glob takes no `..` at the start of a pattern.
        while pattern.startswith(("../", "./")):
            folder, pattern = (folder.parent if pattern.startswith("../") else folder), pattern.partition("/")[2]
        # Before the search, which could walk over the whole disk.
        if not folder.resolve().is_relative_to(self._root):
            raise FileUnread("file:// outside of the config's folder", f"'{pattern}' is outside of the config's folder")
        try:
            found = sorted(path for path in islice(folder.glob(pattern), MAX_MATCHES) if path.is_file())
        except (ValueError, OSError, NotImplementedError):
            return []
        return found

    def _checked(self, path: Path, name: str, limit: int) -> Path:
        # `..` and symlinks are resolved before the check: a config from outside must not read other files of this
        # machine.
        resolved = path.resolve()
        if not resolved.is_relative_to(self._root):
            raise FileUnread("file:// outside of the config's folder", f"'{name}' is outside of the config's folder")
        # Hidden files hold keys and settings of programs, not prompts.
        if any(part.startswith(".") for part in resolved.relative_to(self._root).parts):
            raise FileUnread("file:// that is hidden", f"'{name}' is a hidden file, or in a hidden folder")
        # Devices and pipes are no files, and may never end.
        if not resolved.is_file():
            raise FileUnread("file:// that cannot be read", f"there is no file '{name}'")
        if resolved.stat().st_size > limit:
            raise FileUnread("file:// that is too large", f"'{name}' has more than {limit >> 20} MB")
        return resolved

    def text(self, path: Path) -> str:
        """Return the text of a file; raises FileUnread for one that holds none."""
        suffix = path.suffix.lower()
        medium = next((medium for medium, endings in _MEDIA.items() if suffix in endings), "")
        if medium:
            raise FileUnread(f"content of type {medium}", f"'{path.name}' is not text, which a dataset holds", medium=medium)
        if suffix in _DOCUMENTS:
            raise FileUnread(
                f"document ({suffix})", f"'{path.name}' is a document of type {suffix}; write its text to a file of text"
            )
        try:
            content = bytes(open_source(path).buffer())
        except AssayError as problem:
            raise FileUnread("file:// that cannot be read", problem.message) from problem
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = "\0"
        if "\0" in text:
            raise FileUnread("file:// that is not text", f"'{path.name}' is not text in UTF-8")
        return text

    def data(self, path: Path) -> object:
        """Return what a file of YAML, JSON, JSONL or CSV holds, or its text; raises FileUnread."""
        suffix = path.suffix.lower()
        if suffix in _YAML or suffix == ".json":
            text = self.text(path)
            document = parse_yaml(text, has_merge_keys=True) if suffix in _YAML else parse_json(text)
            flaw = next((flaw for flaw in document.flaws if flaw.fatal), None)
            if flaw:
                raise FileUnread("file:// that cannot be read", f"'{path.name}' cannot be read: {flaw.message}")
            return document.value
        return list(self.rows(path)) if suffix in (".csv", ".tsv", ".jsonl") else self.text(path)

    def rows(self, path: Path) -> Iterator[dict[str, object]]:
        """Yield the rows of a table or of JSON lines; others are counted as refused."""
        # Before reading as rows: a pointer of Git LFS looks like a table of one column.
        self.text(path)
        try:
            for line, row in read_source(path).lines:
                if isinstance(row, UnreadableLine):
                    self.source.tally.read += 1
                    self.source.tally.refuse(f"{path.name}: {row.reason}", line=line)
                else:
                    yield {str(name).strip(): value for name, value in row.items()}
        except AssayError as problem:
            raise FileUnread("file:// that cannot be read", problem.message) from problem

    def value(self, address: str) -> object:
        """Return what the files behind an address hold: one value, or the values of all files that match a pattern."""
        if is_code(address):
            raise FileUnread("value from code", f"'{address.removeprefix(FILE)}' is a program, which is not run")
        paths = self.found(address)
        if not _PATTERN.search(address):
            return self.data(paths[0])
        found = [self.data(path) for path in paths]
        return [one for value in found for one in (value if isinstance(value, list) else [value])]

    def mapping(self, address: str) -> dict[str, object]:
        """Return what the files behind an address hold, as one object; raises FileUnread."""
        value = self.value(address)
        merged: dict[str, object] = {}
        for one in value if isinstance(value, list) else [value]:
            if not isinstance(one, dict):
                name = address.removeprefix(FILE)
                raise FileUnread("file:// that cannot be read", f"'{name}' holds {kind(one)}, not an object")
            merged |= one
        return merged


def _patterns(name: str) -> list[str]:
    """Return the patterns without alternatives in braces."""
    found = [name]
    while any(_BRACES.search(one) for one in found):
        expanded = [
            one[: match.start()] + part + one[match.end() :]
            for one in found
            for match in [_BRACES.search(one)]
            if match
            for part in match[1].split(",")
        ]
        found = [*(one for one in found if not _BRACES.search(one)), *expanded]
        if len(found) > MAX_BRACES:
            return [name]
    return found
