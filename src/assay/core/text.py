"""Text that a terminal, a log line or a strict encoder can take, made of text of unknown origin or of a time."""

import re
from datetime import UTC, datetime
from functools import lru_cache

REPLACEMENT = "\ufffd"

_SURROGATE = re.compile("[\ud800-\udfff]")
# Besides control characters: bidirectional overrides, line separators, interlinear and tag characters. With any of them, a terminal
# displays other text than the line contains.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_CONTROL_PICTURES = 0x2400
_DELETE_PICTURE = "\u2421"


def printable(text: str, *, limit: int | None = None) -> str:
    """Return one line without terminal escapes or reordering; control characters become their pictures, one for one."""
    if limit is not None and len(text) > limit:
        text = text[: limit - 1] + "…"
    return _UNSAFE.sub(_picture, text)


def printable_id(text: str, *, limit: int) -> str:
    """Shorten a long id in its middle, since ids with a common beginning differ at the end; then as `printable`."""
    if len(text) > limit:
        head = limit // 2
        text = f"{text[:head]}…{text[len(text) - (limit - 1 - head) :]}"
    return printable(text)


def printable_lines(text: str) -> str:
    """Make each line printable; line feeds stay."""
    return "\n".join(printable(line) for line in text.split("\n"))


def make_encodable(text: str) -> str:
    """Replace lone surrogates, so that the text has a UTF-8 form."""
    return _SURROGATE.sub(REPLACEMENT, text)


def _picture(match: re.Match[str]) -> str:
    code_point = ord(match[0])
    if code_point < ord(" "):
        return chr(_CONTROL_PICTURES + code_point)
    return _DELETE_PICTURE if match[0] == "\x7f" else REPLACEMENT


def iso(seconds: float) -> str:
    """Format a time in UTC, with milliseconds and a Z."""
    # Formatted in two cached halves: the events of a run share seconds, and milliseconds repeat.
    second, millisecond = divmod(int(seconds * 1000), 1000)
    return _second(second) + _fraction(millisecond)


@lru_cache(maxsize=64)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:-6]


@lru_cache(maxsize=1000)
def _fraction(milliseconds: int) -> str:
    return f".{milliseconds:03d}Z"
