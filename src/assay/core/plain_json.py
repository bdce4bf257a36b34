"""Short JSON without a flaw, read by msgspec; what is in doubt is left to the strict parser."""

import msgspec

from assay.core.json_document import JsonDocument

MAX_LENGTH = 1 << 16
"""Longer texts are read by the strict parser, which bounds the memory of their values."""
MAX_BRACKETS = 200
"""No text nests deeper than it has brackets, so this is less than any reader's depth."""

_ESCAPED_QUOTE = "\\u0022"
_read = msgspec.json.Decoder().decode
_write = msgspec.json.Encoder().encode


def plain_document(text: str) -> JsonDocument | None:
    """The document in `text` if it surely has no flaw."""
    if len(text) > MAX_LENGTH or text.count("[") + text.count("{") > MAX_BRACKETS or _ESCAPED_QUOTE in text:
        return None
    try:
        value = _read(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None
    # Of a name that appears twice in an object one member is lost, and its quotation marks with it.
    return JsonDocument(value, text) if _write(value).count(b'"') == text.count('"') else None
