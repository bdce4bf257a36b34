"""A dataset into the body of a request, as often as it has to be sent."""

import re
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

import msgspec

from assay.core.errors import SourceUnreadable, UsageProblem

BLOCK = 1 << 18
_MEDIA_TYPES = {".jsonl": "application/x-ndjson", ".ndjson": "application/x-ndjson", ".yaml": "application/yaml"}
_MEDIA_TYPES[".yml"] = _MEDIA_TYPES[".yaml"]
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}", re.ASCII)
_GZIP = 31
"""zlib's window bits for a gzip stream."""
_GZIP_MAGIC = b"\x1f\x8b"


class UploadBody(msgspec.Struct, frozen=True, kw_only=True):
    """What is sent, and what is said of it."""

    source: Path | bytes
    size: int
    media_type: str
    is_gzip: bool
    """The source is packed as it is."""
    packs: bool = False
    """It is packed on its way."""
    name: str = ""
    """What the dataset is called, where its contract gives it no id."""

    def headers(self) -> dict[str, str]:
        """What the service must know before the body."""
        packed = {"Content-Encoding": "gzip"} if self.is_gzip or self.packs else {}
        # How long a body becomes that is packed on its way is known at its end only.
        length = {"Transfer-Encoding": "chunked"} if self.packs else {"Content-Length": str(self.size)}
        return {"Content-Type": self.media_type, **packed, **length}

    def open(self) -> AbstractContextManager[BinaryIO]:
        """The source from its beginning; raises SourceUnreadable."""
        if isinstance(self.source, bytes):
            return BytesIO(self.source)
        return _opened(self.source)

    def body(self, file: BinaryIO) -> BinaryIO | Iterator[bytes]:
        """What goes over the wire."""
        return _packed(file) if self.packs else file


def upload_of(source: str | Path | bytes, *, media_type: str = "", packs: bool = False) -> UploadBody:
    """A file or the content of one, ready to be sent; raises SourceUnreadable and UsageProblem."""
    if isinstance(source, bytes):
        is_gzip = source.startswith(_GZIP_MAGIC)
        kind = media_type or "application/json"
        return UploadBody(source=source, size=len(source), media_type=kind, is_gzip=is_gzip, packs=packs and not is_gzip)
    path = Path(source)
    if str(source) == "-" or (path.exists() and not path.is_file()):
        raise UsageProblem(f"'{source}' is not a file", hint="name the file of one dataset, or pass its content as bytes")
    with _opened(path) as file:
        is_gzip = file.read(2) == _GZIP_MAGIC
        size = file.seek(0, 2)
    named = path.with_suffix("") if is_gzip and path.suffix.lower() == ".gz" else path
    return UploadBody(
        source=path,
        size=size,
        media_type=media_type or _MEDIA_TYPES.get(named.suffix.lower(), "application/json"),
        is_gzip=is_gzip,
        packs=packs and not is_gzip,
        name=named.stem if _NAME.fullmatch(named.stem) else "",
    )


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as problem:
        raise SourceUnreadable(f"cannot read '{path}': {(problem.strerror or str(problem)).lower()}") from problem


def _packed(file: BinaryIO) -> Iterator[bytes]:
    packer = zlib.compressobj(6, zlib.DEFLATED, _GZIP)
    while block := file.read(BLOCK):
        if piece := packer.compress(block):
            yield piece
    yield packer.flush()
