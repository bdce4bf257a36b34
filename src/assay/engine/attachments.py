"""Attachments: paths below the dataset's folder into text, from text files and PDF."""

import os
import stat
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, partial
from io import BytesIO
from pathlib import Path, PurePosixPath

import msgspec

from assay.core.case import Attachment, Case
from assay.core.errors import MissingExtra, UsageProblem
from assay.core.plan import DatasetPlan, Plan
from assay.datasets.checks import short
from assay.datasets.source import BOM, filled_lines, open_source

MAX_BYTES = 20 * 1024 * 1024
MAX_CHARACTERS = 2_000_000
"""Of the text of one attachment; no model reads more, and a small PDF can unfold to any length."""
_KEPT = 64
"""Attachments whose text is kept, because neighbouring records often share one."""
_PDF = b"%PDF-"
_PDF_HEAD = 1024
"""Readers of PDF look for its mark in the first so many bytes."""


class AttachmentProblem(UsageProblem):
    """An attachment that cannot be given to a model."""


def attachment_reader(plan: Plan) -> Callable[[Case], Mapping[str, str]]:
    """What gives the text of a case's attachments by path; raises AttachmentProblem or MissingExtra when it is called."""
    folders = tuple(dict.fromkeys(folder_of(dataset) for dataset in plan.datasets if dataset.contract == "legal_eval_v1"))
    read = lru_cache(_KEPT)(read_attachment)
    if len(folders) <= 1:
        return partial(_texts, folders[0] if folders else Path(), read=read)
    owners = _Owners(plan.datasets)
    return lambda case: _texts(owners.folder_of(case.id), case, read=read) if case.attachments else {}


def folder_of(dataset: DatasetPlan) -> Path:
    """The folder that the attachments of a dataset are below."""
    return Path(dataset.path).parent


def check_attachments(folder: Path, attachments: Iterable[Attachment]) -> list[str]:
    """What keeps attachments from being read, one sentence each; nobody is asked before this is empty."""
    problems: list[str] = []
    for attachment in attachments:
        try:
            read_attachment(folder, attachment.path)
        except (AttachmentProblem, MissingExtra) as problem:
            problems.append(f"{problem.message}{f' ({problem.hint})' if problem.hint else ''}")
    return list(dict.fromkeys(problems))


def read_attachment(folder: Path, path: str) -> str:
    """The text of one attachment; raises AttachmentProblem, or MissingExtra for PDF without its reader."""
    content = _content(_below(folder, path), path)
    if _PDF in content[:_PDF_HEAD]:
        return _pdf_text(content, path)
    return _within(_plain_text(content, path), path)


def _texts(folder: Path, case: Case, *, read: Callable[[Path, str], str]) -> Mapping[str, str]:
    return {attachment.path: read(folder, attachment.path) for attachment in case.attachments}


class _Id(msgspec.Struct):
    id: str
    attachments: tuple[Attachment, ...] | None = None


class _Owners:
    """Which dataset a record with attachments comes from, where datasets lie in several folders."""

    def __init__(self, datasets: tuple[DatasetPlan, ...]) -> None:
        self._datasets = datasets
        self._folders: dict[str, Path] | None = None

    def folder_of(self, case_id: str) -> Path:
        if self._folders is None:
            self._folders = dict(self._pairs())
        return self._folders[case_id]

    def _pairs(self) -> Iterable[tuple[str, Path]]:
        # The first valid record with an id is the one that runs; ids of two datasets never clash in a run.
        for dataset in reversed(self._datasets):
            if dataset.contract != "legal_eval_v1":
                continue
            for line in filled_lines(open_source(dataset.path)):
                try:
                    row = msgspec.json.decode(line.content, type=_Id)
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                    continue
                if row.attachments:
                    yield row.id, folder_of(dataset)


def _below(folder: Path, path: str) -> Path:
    """The real file, which no name and no link may lead out of the folder."""
    if PurePosixPath(path).is_absolute() or Path(path).is_absolute() or ".." in PurePosixPath(path).parts or "\x00" in path:
        raise AttachmentProblem(
            f"the attachment {short(path)} does not stay below the dataset's folder", hint="write a path without '..'"
        )
    try:
        root, real = folder.resolve(strict=True), (folder / path).resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as problem:
        raise AttachmentProblem(f"the attachment {short(path)} cannot be read: {_reason(problem)}") from problem
    if not real.is_relative_to(root):
        raise AttachmentProblem(f"the attachment {short(path)} is a link that leaves the dataset's folder")
    return real


def _content(real: Path, path: str) -> bytes:
    try:
        # Without O_NONBLOCK a named pipe would keep us waiting; the links were followed already.
        descriptor = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as problem:
        raise AttachmentProblem(f"the attachment {short(path)} cannot be read: {_reason(problem)}") from problem
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise AttachmentProblem(f"the attachment {short(path)} is not a regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
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
            text = _within(f"{text}\n\n{page.extract_text().strip()}".strip(), path)
    # Damaged files make the reader stumble in many ways of its own.
    except (PyPdfError, ValueError, LookupError, TypeError, AttributeError, RecursionError, OSError, ArithmeticError) as problem:
        raise AttachmentProblem(f"the attachment {short(path)} is a damaged PDF: {short(str(problem))}") from problem
    if not text:
        raise AttachmentProblem(f"the attachment {short(path)} is a PDF without text", hint="run text recognition on it first")
    return text
