"""Bytes of a reply into typed values: at full speed for a clean one, through the strict door for any other."""

import re
from typing import Any, Generic, TypeVar

import msgspec

from assay.core.json_door import parse_json

_SURROGATE = re.compile("[\ud800-\udfff]")
_OPTIONAL = ("usage",)
"""Members whose odd shape must not cost an answer that was paid for."""

_Value = TypeVar("_Value")


class Decoded(msgspec.Struct, Generic[_Value], frozen=True):
    """A typed reply."""

    value: _Value
    has_replaced: bool = False
    """Half characters were replaced by U+FFFD."""


class Undecodable(Exception):
    """The body is not what the provider should send; the message says why."""


def decode_body(body: bytes, decoder: "msgspec.json.Decoder[_Value]") -> Decoded[_Value]:
    """The reply as the decoder's type; raises Undecodable."""
    try:
        return Decoded(decoder.decode(body))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    value, has_replaced = _read_strictly(body)
    try:
        return Decoded(_typed(value, decoder.type), has_replaced)
    except msgspec.ValidationError as problem:
        raise Undecodable(str(problem)) from None


def decode_error(body: bytes) -> Any:
    """The body of a refusal: JSON where it is, otherwise its text."""
    try:
        return _read_strictly(body)[0]
    except Undecodable:
        return body.decode("utf-8", "replace")


def _read_strictly(body: bytes) -> tuple[Any, bool]:
    document = parse_json(body)
    fatal = next((flaw for flaw in document.flaws if flaw.fatal), None)
    if fatal is not None:
        raise Undecodable(fatal.message if body.strip() else "it is empty")
    return _without_halves(document.value), any(flaw.code == "invalid_encoding" for flaw in document.flaws)


def _without_halves(value: Any) -> Any:
    """The value with U+FFFD for lone surrogates; its depth is bounded by the door."""
    if isinstance(value, str):
        return value if value.isascii() else _SURROGATE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_without_halves(key): _without_halves(member) for key, member in value.items()}
    return [_without_halves(member) for member in value] if isinstance(value, list) else value


def _typed(value: Any, kind: Any) -> Any:
    try:
        return msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError:
        if not isinstance(value, dict) or not any(name in value for name in _OPTIONAL):
            raise
    return msgspec.convert({name: member for name, member in value.items() if name not in _OPTIONAL}, kind, strict=False)
