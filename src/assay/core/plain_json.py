"""Fast parser for short valid JSON; doubtful texts are left to the strict parser."""

import msgspec

from assay.core.json_document import JsonDocument

MAX_LENGTH = 1 << 16
"""Longer texts go to the strict parser, which bounds the memory of their values."""
MAX_BRACKETS = 200
"""A text nests no deeper than it has brackets, and every parser supports this depth."""

_ESCAPED_QUOTE = "\\u0022"
_read = msgspec.json.Decoder().decode
_write = msgspec.json.Encoder().encode


def plain_document(text: str) -> JsonDocument | None:
    """Parse `text` if it certainly has no problem; None otherwise."""
    if len(text) > MAX_LENGTH or text.count("[") + text.count("{") > MAX_BRACKETS or _ESCAPED_QUOTE in text:
        return None
    try:
        value = _read(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None
    # A duplicate name loses one member of the object, and its quotation marks with it.
    return JsonDocument(value, text) if _write(value).count(b'"') == text.count('"') else None
