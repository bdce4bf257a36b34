"""Attachments of a run whose stored input is run again: where they were, taken only when their content is what the run has seen."""

import asyncio
import errno
import hashlib
import os
import shlex
import stat
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import msgspec

from assay.core.case import Attachment, Case
from assay.core.contract import INPUT, MANIFEST
from assay.core.errors import MissingExtra, UsageProblem
from assay.core.outcome import GradingFailure
from assay.core.plan import DatasetPlan, Plan
from assay.datasets.parsing.checks import short
from assay.datasets.parsing.source import BOM
from assay.store.failures import unavailable

_CASES = "cases.jsonl"
_MAX_REPEATS = 20
# A bound on the chain, which a manifest from elsewhere could make circular.
"""A run of a run's input names that run's folder, and so on."""


class _Dataset(msgspec.Struct):
    path: str = ""


class _Plan(msgspec.Struct):
    datasets: list[_Dataset] = []


class _Manifest(msgspec.Struct):
    plan: _Plan = msgspec.field(default_factory=_Plan)


class _Attachment(msgspec.Struct):
    path: str
    sha256: str = ""


class _Record(msgspec.Struct):
    attachments: list[_Attachment] = []


class _Line(msgspec.Struct):
    record: _Record = msgspec.field(default_factory=_Record)


def is_run_folder(folder: Path) -> bool:
    """Return True for a folder with the stored input of a run."""
    return (folder / MANIFEST).is_file() and (folder / INPUT).is_file()


def original_folders(folder: Path) -> tuple[Path, ...]:
    """Return the folders of the datasets that a run was made from, by its manifest; none when the folder is not a run's."""
    found: dict[Path, None] = {}
    newest = [folder]
    for _ in range(_MAX_REPEATS):
        # The folder itself and those seen are skipped, so that a circle ends.
        newest = [place for one in newest for place in _datasets_of(one) if place != folder and place not in found]
        found |= dict.fromkeys(newest)
    return tuple(found)


def _datasets_of(folder: Path) -> list[Path]:
    if not is_run_folder(folder):
        return []
    try:
        manifest = msgspec.json.decode((folder / MANIFEST).read_bytes(), type=_Manifest)
    except (OSError, msgspec.DecodeError):
        return []
    # A relative path is the name of a file that was sent to a server.
    return [path.parent for path in (Path(dataset.path) for dataset in manifest.plan.datasets) if path.is_absolute()]


def seen_contents(folder: Path) -> Mapping[str, frozenset[str]]:
    """Return the hash of each attachment that a run has read, by path; empty when its records cannot be read."""
    found: dict[str, frozenset[str]] = {}
    decode = msgspec.json.Decoder(_Line).decode
    try:
        with (folder / _CASES).open("rb") as lines:
            for line in lines:
                for attachment in decode(line).record.attachments:
                    # A set for each path: attachments of one name may differ between records of several datasets.
                    if attachment.sha256 and attachment.sha256 not in found.get(attachment.path, ()):
                        found[attachment.path] = found.get(attachment.path, frozenset()) | {attachment.sha256}
    except (OSError, msgspec.DecodeError):
        return {}
    return found


MAX_BYTES = 20 * 1024 * 1024
MAX_CHARACTERS = 2_000_000
"""Maximum text of one attachment: no model reads more, and a small PDF can expand to any length."""
KEPT_CHARACTERS = 32_000_000
"""Maximum total of cached texts; records often share an attachment, and reading a PDF is slow."""
_PDF = b"%PDF-"
_PDF_HEAD = 1024
"""First bytes in which PDF readers search for the signature."""


class AttachmentProblem(UsageProblem):
    """Raised for an attachment that cannot be given to a model."""


class UnreadableAttachment(NamedTuple):
    """Reason why an attachment cannot be read."""

    sentence: str
    is_fault_of_file: bool
    """False when this installation lacks the reader for all such files."""


class Attachments:
    """Attachments of a run's datasets: the hash of each when first read, and a cache of recently used texts."""

    def __init__(self, *, most: int = KEPT_CHARACTERS) -> None:
        self._most = most
        self._hashes: dict[tuple[Path, str], str] = {}
        self._seen: dict[Path, Mapping[str, frozenset[str]]] = {}
        """By folder of a run whose stored input is repeated: the hashes that the run has seen."""
        self._texts: dict[str, str] = {}
        """Texts by hash, the most recently used last."""
        self.kept_characters = 0

    def check(self, folder: Path, attachments: Iterable[Attachment]) -> list[UnreadableAttachment]:
        """List the problems of reading attachments, one sentence each."""
        problems: list[UnreadableAttachment] = []
        for path in dict.fromkeys(attachment.path for attachment in attachments):
            try:
                content = self._content(folder, path)
                sha256 = _sha256(content)
                # Kept as text, since the run needs it again in a moment.
                self.keep(sha256, text_of(content, path))
                self._hashes[folder, path] = sha256
            except (AttachmentProblem, MissingExtra) as problem:
                sentence = f"{problem.message}{f' ({problem.hint})' if problem.hint else ''}"
                problems.append(UnreadableAttachment(sentence, is_fault_of_file=isinstance(problem, AttachmentProblem)))
        return list(dict.fromkeys(problems))

    def pinned(self, folder: Path, attachments: Iterable[Attachment]) -> tuple[Attachment, ...]:
        """Add the hashes of their contents to attachments; an unreadable one gets none, and its records fail."""
        return tuple(msgspec.structs.replace(attachment, sha256=self._hash(folder, attachment.path)) for attachment in attachments)

    def _hash(self, folder: Path, path: str) -> str:
        if (folder, path) not in self._hashes:
            try:
                self._hashes[folder, path] = _sha256(self._content(folder, path))
            # Out of handles is a problem of this machine, which must not become one of the record.
            except AttachmentProblem as problem:
                _failure(problem, folder)
                self._hashes[folder, path] = ""
        return self._hashes[folder, path]

    def _content(self, folder: Path, path: str) -> bytes:
        """Return an attachment's bytes: next to the dataset or, for a run's stored input, where the run read the same content.

        The sender of a run's folder could let its manifest point anywhere; the hash ensures that only known content is read.
        """
        try:
            # Next to the dataset first; only for the stored input of a run is it looked for elsewhere.
            return read_content(folder, path)
        except AttachmentProblem:
            if not is_run_folder(folder):
                raise
            if folder not in self._seen:
                self._seen[folder] = seen_contents(folder)
            seen = self._seen[folder].get(path, frozenset())
            contents = (_content_if_readable(place, path) for place in original_folders(folder) if seen)
            # Hash before path: the manifest may have been made by anyone, and could name any file.
            same = next((content for content in contents if content is not None and _sha256(content) in seen), None)
            if same is None:
                raise
            return same

    def kept(self, sha256: str) -> str | None:
        """Return the cached text of the content with this hash, if any."""
        # Taken out and put back, which makes it the most recently used.
        text = self._texts.pop(sha256, None)
        if text is not None:
            self._texts[sha256] = text
        return text

    def keep(self, sha256: str, text: str) -> None:
        """Cache a text, evicting the least recently used ones."""
        self.kept_characters += len(text) - len(self._texts.pop(sha256, ""))
        self._texts[sha256] = text
        while self.kept_characters > self._most:
            self.kept_characters -= len(self._texts.pop(next(iter(self._texts))))


def attachment_reader(
    plan: Plan, attachments: Attachments | None = None, *, stop: asyncio.Event
) -> Callable[[Case], Awaitable[Mapping[str, str]]]:
    """Return a function that reads the texts of a case's attachments by path; it returns none after a stop.

    It raises GradingFailure when a file is not what it was when the run was prepared, MissingExtra for PDF without its reader.
    """
    folders = tuple(dict.fromkeys(folder_of(dataset) for dataset in plan.datasets if dataset.contract == "legal_eval_v1"))
    return _AttachmentReader(folders, Attachments() if attachments is None else attachments, stop).texts


class _AttachmentReader:
    """Reader of attachments in a thread, one file at a time, so that calls in flight are not delayed."""

    def __init__(self, folders: Sequence[Path], attachments: Attachments, stop: asyncio.Event) -> None:
        self._folders = folders
        self._attachments = attachments
        self._stop = stop
        # One file at a time: PDFs take a core each, and requests in flight need the loop.
        self._turn = asyncio.Lock()

    async def texts(self, case: Case) -> Mapping[str, str]:
        found: dict[str, str] = {}
        for attachment in case.attachments:
            text = self._attachments.kept(attachment.sha256)
            text = await self._read(attachment) if text is None else text
            # A stop means that the case is not going to be asked.
            if text is None:
                return {}
            found[attachment.path] = text
        return found

    async def _read(self, attachment: Attachment) -> str | None:
        async with self._turn:
            # The previous holder of the lock may have read the same file.
            text = self._attachments.kept(attachment.sha256)
            if text is not None or self._stop.is_set():
                return text
            text = await asyncio.to_thread(read_pinned, self._folders, attachment)
            self._attachments.keep(attachment.sha256, text)
            return text


def folder_of(dataset: DatasetPlan) -> Path:
    """Return the folder that contains a dataset's attachments."""
    return Path(dataset.path).parent


def read_attachment(folder: Path, path: str) -> str:
    """Return the text of one attachment; raises AttachmentProblem, or MissingExtra for PDF without its reader."""
    return text_of(read_content(folder, path), path)


def read_pinned(folders: Sequence[Path], attachment: Attachment) -> str:
    """Return an attachment's text as the run was prepared with; raises GradingFailure, MissingExtra or StoreUnavailable.

    Of several folders it is in the one where the content is the same.
    """
    path = attachment.path
    if not attachment.sha256:
        raise GradingFailure("attachment_missing", f"the attachment {short(path)} could not be read when the run was prepared")
    problems: list[GradingFailure] = []
    for folder in dict.fromkeys(place for own in folders for place in (own, *original_folders(own))):
        try:
            content = read_content(folder, path)
            if _sha256(content) == attachment.sha256:
                return text_of(content, path)
        except AttachmentProblem as problem:
            problems.append(_failure(problem, folder))
        else:
            changed = f"the attachment {short(path)} has changed since the run was prepared"
            problems.append(GradingFailure("attachment_changed", changed))
    # When only one folder has the file, its problem is the more specific one.
    # False sorts first: a file that has changed says more than one that is missing.
    raise min(problems, key=lambda failure: failure.code == "attachment_missing")


def _failure(problem: AttachmentProblem, folder: Path) -> GradingFailure:
    """Return the failure of an attachment's records; raises StoreUnavailable when this machine is the cause."""
    cause = problem.__cause__
    # EMFILE and ENFILE: the process or the machine has no handles left.
    if isinstance(cause, OSError) and cause.errno in (errno.EMFILE, errno.ENFILE):
        raise unavailable(cause, folder) from problem
    code = "attachment_missing" if isinstance(cause, FileNotFoundError | NotADirectoryError) else "attachment_unreadable"
    return GradingFailure(code, problem.message)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def read_content(folder: Path, path: str) -> bytes:
    """Read the bytes of one attachment; raises AttachmentProblem."""
    return _content(_below(folder, path), path)


def _content_if_readable(folder: Path, path: str) -> bytes | None:
    try:
        return read_content(folder, path)
    except AttachmentProblem:
        return None


def text_of(content: bytes, path: str) -> str:
    """Extract the text of an attachment's bytes; raises AttachmentProblem, or MissingExtra for PDF without its reader."""
    # PDF readers accept garbage before the signature.
    if _PDF in content[:_PDF_HEAD]:
        return _pdf_text(content, path)
    return _within(_plain_text(content, path), path)


def _below(folder: Path, path: str) -> Path:
    """Resolve an attachment's path; neither its name nor a link may lead out of the folder."""
    # By both kinds of paths, as a dataset may come from another system.
    if PurePosixPath(path).is_absolute() or Path(path).is_absolute() or ".." in PurePosixPath(path).parts or "\x00" in path:
        raise AttachmentProblem(
            f"the attachment {short(path)} does not stay below the dataset's folder", hint="write a path without '..'"
        )
    try:
        # Links are resolved before the comparison, so that none leads out.
        root, real = folder.resolve(strict=True), (folder / path).resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as problem:
        raise AttachmentProblem(
            f"the attachment {short(path)} cannot be read: {_reason(problem)}", hint=_where_attachments_are(folder)
        ) from problem
    if not real.is_relative_to(root):
        raise AttachmentProblem(f"the attachment {short(path)} is a link that leaves the dataset's folder")
    return real


def _where_attachments_are(folder: Path) -> str:
    """Return a hint for a run's folder: it has no attachments, and the paths in its input are relative to its dataset."""
    if not is_run_folder(folder):
        return ""
    run = shlex.quote(str(folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder))
    return f"put the records next to their attachments and run that file: assay export {run} --as dataset -o FOLDER/FILE.jsonl"


def _content(real: Path, path: str) -> bytes:
    try:
        # Without O_NONBLOCK a named pipe would keep us waiting; the links were followed already.
        descriptor = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as problem:
        raise AttachmentProblem(f"the attachment {short(path)} cannot be read: {_reason(problem)}") from problem
    try:
        # Checked on the open handle: the name could lead to something else a moment later.
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise AttachmentProblem(f"the attachment {short(path)} is not a regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            # One byte more than allowed tells a file that is too large from one that just fits.
            content = file.read(MAX_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(content) > MAX_BYTES:
        raise AttachmentProblem(f"the attachment {short(path)} has more than {MAX_BYTES // 1024**2} MB")
    return content


def _reason(problem: Exception) -> str:
    return (getattr(problem, "strerror", None) or str(problem)).lower()


def _plain_text(content: bytes, path: str) -> str:
    if b"\x00" in content:
        raise AttachmentProblem(f"the attachment {short(path)} is neither text nor PDF", hint="only these two are read")
    try:
        return content.removeprefix(BOM).decode("utf-8")
    except UnicodeDecodeError as problem:
        raise AttachmentProblem(
            f"the attachment {short(path)} is not UTF-8: byte 0x{content[problem.start]:02x} at offset {problem.start}",
            hint="save it as UTF-8, for example with: iconv -f latin1 -t utf-8",
        ) from problem


def _within(text: str, path: str) -> str:
    if len(text) > MAX_CHARACTERS:
        raise AttachmentProblem(f"the attachment {short(path)} has more than {MAX_CHARACTERS:,} characters of text")
    return text


def _pdf_text(content: bytes, path: str) -> str:
    try:
        from pypdf import PdfReader  # noqa: PLC0415  # an extra
        from pypdf.errors import PyPdfError  # noqa: PLC0415
    except ImportError as problem:
        raise MissingExtra(f"the attachment {short(path)} is PDF", hint="pip install 'assay[pdf]'") from problem
    try:
        reader = PdfReader(BytesIO(content))
        if reader.is_encrypted:
            raise AttachmentProblem(f"the attachment {short(path)} is an encrypted PDF", hint="save it without a password")
        text = ""
        for page in reader.pages:
            # Checked page by page: a small file can expand to gigabytes of text.
            text = _within(f"{text}\n\n{page.extract_text().strip()}".strip(), path)
    # Damaged files make the reader stumble in many ways of its own.
    except (PyPdfError, ValueError, LookupError, TypeError, AttributeError, RecursionError, OSError, ArithmeticError) as problem:
        raise AttachmentProblem(f"the attachment {short(path)} is a damaged PDF: {short(str(problem))}") from problem
    if not text:
        raise AttachmentProblem(f"the attachment {short(path)} is a PDF without text", hint="run text recognition on it first")
    return text
