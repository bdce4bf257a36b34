"""Scalars of YAML into values, by the core schema of YAML 1.2 (chapter 10.3) and nothing from YAML 1.1."""

import re
from types import NoneType

from assay.core.strict_json import MAX_INTEGER_DIGITS

MAX_HEXADECIMAL_LENGTH = 3500
"""Characters of one 0x number; its decimal form stays below MAX_INTEGER_DIGITS."""

Scalar = str | int | float | bool | None

_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}
_TYPES = {"int": int, "float": float, "bool": bool, "null": NoneType}
_NUMBER_STARTS = frozenset("+-.0123456789")
_INTEGER = re.compile(r"[-+]?[0-9]++")
_PREFIXED = re.compile(r"0o[0-7]++|0x[0-9a-fA-F]++")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]++|[0-9]++(?:\.[0-9]*+)?)(?:[eE][-+]?[0-9]++)?")


class NumberTooLarge(Exception):
    """The text is a number that no value can hold; the message says why."""


class TagMismatch(Exception):
    """The text is not of the type that its tag names."""


def plain_value(text: str) -> Scalar:
    """The value of an unquoted scalar; raises NumberTooLarge."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMBER_STARTS:
        return text
    if _INTEGER.fullmatch(text):
        return _integer(text, 10)
    if _PREFIXED.fullmatch(text):
        return _integer(text, 0)
    return _float(text) if _FLOAT.fullmatch(text) else text


def tagged_value(text: str, kind: str) -> Scalar:
    """The value of a scalar tagged !!str, !!int, !!float, !!bool or !!null; raises NumberTooLarge and TagMismatch."""
    if kind == "str":
        return text
    value = _float(text) if kind == "float" and _FLOAT.fullmatch(text) else plain_value(text)
    if kind not in _TYPES or type(value) is not _TYPES[kind]:
        raise TagMismatch(f"{text[:40]!r} is not what its tag !!{kind} says")
    return value


def _integer(text: str, radix: int) -> int:
    if len(text) > (MAX_HEXADECIMAL_LENGTH if text.startswith("0x") else MAX_INTEGER_DIGITS):
        raise NumberTooLarge(f"an integer of {len(text):,} characters")
    return int(text, radix)


def _float(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise NumberTooLarge(f"{text[:40]} is too large for a 64-bit float")
    return value
