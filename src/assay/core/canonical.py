"""Canonical JSON (RFC 8785) with the hash of a record, and indented JSON for people.

Integers are written with all their digits: RFC 8785 is defined for numbers that a double can hold, and two
records that differ in the 17th digit must not share a hash.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from assay.core.text import make_encodable

JsonObject = dict[str, Any]
"""A JSON object whose members no type fixes, or that is passed on as it is."""
RequestMembers = dict[str, object]
"""Members of a request that is written and not read again."""

# msgspec writes strings as RFC 8785 wants: only what JSON demands is escaped, and in its shortest form.
_encode_string = msgspec.json.Encoder().encode
_encode_sorted = msgspec.json.Encoder(order="deterministic").encode
# Encoders in C hold integers in 64 bits; longer ones are rare, and go to the writer below.
_MAX_INTEGER = 1 << 63
"""Integers below it are written alike by every encoder."""
MAX_SORTED = 256
"""Maximum names of an object that msgspec may sort: it recurses once per name that is already in order, and more would crash."""
# Encoders differ about exponents, `1e-05` or `0.00001`, and about whole numbers, `1.0` or `1`; in between they all agree.
_SHORTEST, _LONGEST = 1e-4, 1e16
"""Doubles in this range are written without an exponent by every encoder."""


def canonical_json(value: object) -> bytes:
    """Encode a value as RFC 8785 bytes; raises ValueError for NaN, infinity and lone surrogates."""
    # Nearly every record is plain, and the writer in Python below is many times slower.
    if _is_plain(value):
        return _encode_sorted(value)
    parts: list[bytes] = []
    _write(value, parts)
    return b"".join(parts)


def pretty_json(value: object) -> bytes:
    """Encode a value as a file for people and programs: indented, with a final line feed."""
    # The final line feed lets people read these files with the usual tools, and count their lines.
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def sha256_hex(canonical: bytes) -> str:
    """Return the SHA-256 of canonical bytes, as `record_sha256` holds it."""
    return hashlib.sha256(canonical).hexdigest()


def _is_plain(value: Any) -> bool:
    """Return whether a sorting encoder writes the value as RFC 8785 demands; the check costs a third of writing it here."""
    kind = type(value)
    # Exact types instead of isinstance: values come from a JSON parser, and this runs for every value of every hashed record.
    if kind is str or value is None or kind is bool:
        return True
    if kind is dict:
        # RFC 8785 sorts names by UTF-16 units, msgspec by bytes; for ASCII both orders are the same.
        return len(value) <= MAX_SORTED and "".join(value).isascii() and all(map(_is_plain, value.values()))
    if kind is list or kind is tuple:
        return all(map(_is_plain, value))
    if kind is int:
        return bool(-_MAX_INTEGER <= value < _MAX_INTEGER)
    return kind is float and _is_fraction(value)


def _is_fraction(value: float) -> bool:
    """Return whether a double has a fraction and no exponent; false for NaN and infinity."""
    # A comparison with NaN is false, and infinity is above the range, so neither needs a test of its own.
    return _SHORTEST <= abs(value) < _LONGEST and not value.is_integer()


def _write(value: object, parts: list[bytes]) -> None:
    if isinstance(value, str):
        parts.append(_encode_string(value))
    # Before int: bool is a subclass of int, and True would be written as 1.
    elif value is None or isinstance(value, bool):
        parts.append({None: b"null", True: b"true", False: b"false"}[value])
    # All digits, although RFC 8785 would round to a double: see the docstring of this module.
    elif isinstance(value, int):
        parts.append(str(value).encode())
    elif isinstance(value, float):
        parts.append(_number(value).encode())
    elif isinstance(value, dict):
        _write_object(value, parts)
    elif isinstance(value, list | tuple):
        _write_array(value, parts)
    else:
        raise TypeError(f"{type(value).__name__} is not a JSON value")


def _write_object(value: Mapping[str, object], parts: list[bytes]) -> None:
    opening = b"{"
    # One test of all names together is cheaper than a sort key for each, and nearly all names are ASCII.
    for key in sorted(value, key=None if "".join(value).isascii() else _utf16):
        parts += (opening, _encode_string(key), b":")
        _write(value[key], parts)
        opening = b","
    parts.append(b"}" if value else b"{}")


def _write_array(value: Sequence[object], parts: list[bytes]) -> None:
    opening = b"["
    for member in value:
        parts.append(opening)
        _write(member, parts)
        opening = b","
    parts.append(b"]" if value else b"[]")


def _utf16(key: str) -> bytes:
    """Return the sort key of a name: RFC 8785 sorts by UTF-16 code units, which differs from code points above U+FFFF."""
    return key.encode("utf-16-be")


def _number(value: float) -> str:
    """Write a double as ECMAScript does (RFC 8785, 3.2.2.3)."""
    # Python's repr would write `nan` and `inf`, which no JSON reader accepts.
    if value != value or value in (float("inf"), float("-inf")):
        raise ValueError("JSON has no NaN or infinity")
    # Also -0, which ECMAScript writes without its sign.
    if value == 0:
        return "0"
    sign, digits, exponent = _digits(value)
    count = len(digits)
    # ECMAScript uses an exponent only from 1e21 on, and below 1e-6 (Number::toString).
    if 0 < exponent <= 21:
        whole = digits.ljust(exponent, "0")
        return sign + (whole if count <= exponent else f"{digits[:exponent]}.{digits[exponent:]}")
    if -6 < exponent <= 0:
        return f"{sign}0.{'0' * -exponent}{digits}"
    mantissa = digits if count == 1 else f"{digits[0]}.{digits[1:]}"
    return f"{sign}{mantissa}e{exponent - 1:+d}"


def _digits(value: float) -> tuple[str, str, int]:
    """Split a double into sign, shortest digits and the decimal point's position: value = 0.DIGITS x 10^exponent."""
    # repr gives the shortest digits that read back as the same double, which are the digits that ECMAScript asks for.
    text = repr(abs(value))
    mantissa, _, power = text.partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    exponent = len(whole) + int(power or 0) - (len(whole + fraction) - len(digits))
    return ("-" if value < 0 else ""), digits.rstrip("0"), exponent


def json_text(value: object, *, indent: int = 0) -> str:
    """Compact JSON, or indented; lone surrogates become U+FFFD, non-finite numbers null."""
    try:
        encoded = msgspec.json.encode(value)
    # A lone surrogate, as a model may send it. Text for people must never fail because of one character.
    except UnicodeEncodeError:
        encoded = msgspec.json.encode(_encodable(msgspec.to_builtins(value)))
    return (msgspec.json.format(encoded, indent=indent) if indent else encoded).decode()


def _encodable(value: object) -> object:
    match value:
        case str():
            return make_encodable(value)
        case dict():
            return {_encodable(key): _encodable(member) for key, member in value.items()}
        case list() | tuple():
            return [_encodable(member) for member in value]
        case _:
            return value
