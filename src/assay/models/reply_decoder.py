"""Decoding of reply bodies into typed values: fast for a valid one, through the strict parser for any other."""

import re
from typing import Any, Generic, TypeVar

import msgspec

from assay.core.strict_json import parse_json

_SURROGATE = re.compile("[\ud800-\udfff]")
_OPTIONAL = ("usage",)
"""Optional members: an odd value in one must not cost an answer that was paid for."""

_Value = TypeVar("_Value")


class DecodedReply(msgspec.Struct, Generic[_Value], frozen=True):
    """A typed reply."""

    value: _Value
    has_replaced: bool = False
    """Lone surrogates were replaced by U+FFFD."""


class UndecodableReply(Exception):
    """The body is not what the provider should send; the message says why."""


def decode_body(body: bytes, decoder: "msgspec.json.Decoder[_Value]") -> DecodedReply[_Value]:
    """Decode a body as the decoder's type; raises UndecodableReply."""
    try:
        return DecodedReply(decoder.decode(body))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    value, has_replaced = _read_strictly(body)
    try:
        return DecodedReply(_typed(value, decoder.type), has_replaced)
    except msgspec.ValidationError as problem:
        raise UndecodableReply(str(problem)) from None


def decode_error(body: bytes) -> Any:
    """Decode the body of an error response: JSON, or else text."""
    try:
        return _read_strictly(body)[0]
    except UndecodableReply:
        return body.decode("utf-8", "replace")


def _read_strictly(body: bytes) -> tuple[Any, bool]:
    document = parse_json(body)
    fatal = next((flaw for flaw in document.flaws if flaw.fatal), None)
    if fatal is not None:
        raise UndecodableReply(fatal.message if body.strip() else "it is empty")
    return _without_halves(document.value), any(flaw.code == "invalid_encoding" for flaw in document.flaws)


def _without_halves(value: object) -> Any:
    """Replace lone surrogates by U+FFFD; the strict parser bounds the depth."""
    if isinstance(value, str):
        return value if value.isascii() else _SURROGATE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_without_halves(key): _without_halves(member) for key, member in value.items()}
    return [_without_halves(member) for member in value] if isinstance(value, list) else value


def _typed(value: object, kind: object) -> Any:
    try:
        return msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError:
        if not isinstance(value, dict) or not any(name in value for name in _OPTIONAL):
            raise
    return msgspec.convert({name: member for name, member in value.items() if name not in _OPTIONAL}, kind, strict=False)
