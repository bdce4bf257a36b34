"""Search for members that a text states in any notation: JSON, escaped JSON, single quotes, YAML, prose with a colon."""

import re
from collections.abc import Iterator
from functools import cache
from unicodedata import combining, normalize

_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_SHORT_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}
_LEVELS = 3
"""Levels of unescaping: plain text, JSON, and JSON in a JSON string."""
_QUOTES = "\"'`*_\\\\\u201c\u201d\u2018\u2019\u201e\u00ab\u00bb"
_NOISE = re.compile(rf"[\s\x00\x08{_QUOTES}]+")
_SAYS = r"(?:[:=]+>?|\b(?:is|should be|must be|becomes)\b)"
_WORDS = frozenset({"true", "false", "yes", "no", "null", "none", "one", "two", "three", "four", "five", "zero"})
"""Words that count as values: `the score is based on` states no value."""
_RANKS = frozenset({"first", "second", "tie"})
"""Values of the member that says which of two texts is better."""


def states_another(text: str, name: str, *, value: object) -> bool:
    """Tell whether the text states another value for the member of this name, or one whose name ends like it."""
    if name not in text.casefold() and "\\" not in text:
        return False
    wanted = _plain_value(str(value))
    return any(found != wanted for view in _views(text) for found in _values(view, name, _words_like(wanted)))


def states_both(text: str, value: tuple[str, object], words: tuple[str, str]) -> bool:
    """Tell whether the text states this value for one member, and for another one words that begin with these."""
    return any(_has_value(view, *value) and _has_words(view, *words) for view in _views(text))


def unescaped(text: str) -> str:
    """Decode the escapes of JSON; surrogate pairs become one character."""
    decoded = _ESCAPE.sub(lambda escape: _character(escape.group(1)), text)
    return decoded.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _character(escape: str) -> str:
    return chr(int(escape[1:], 16)) if len(escape) > 1 else _SHORT_ESCAPES.get(escape, escape)


def _views(text: str) -> Iterator[str]:
    for _ in range(_LEVELS):
        yield text
        if "\\" not in text:
            return
        text = unescaped(text)


def _words_like(value: str | float) -> frozenset[str]:
    """Return the words that count as values of the same kind."""
    return _RANKS if value in _RANKS else _WORDS


def _values(text: str, name: str, words: frozenset[str]) -> Iterator[str | float]:
    values = (_plain_value(match.group(1)) for match in _stated(name).finditer(text))
    return (value for value in values if isinstance(value, float) or value in words)


@cache
def _stated(name: str) -> re.Pattern[str]:
    return re.compile(rf"{re.escape(name)}[{_QUOTES}]{{0,6}}\s{{0,20}}{_SAYS}[\s{_QUOTES}]{{0,20}}([\w.+-]+)", re.IGNORECASE)


def _plain_value(value: str) -> str | float:
    """Normalize a number by its value, anything else by its letters."""
    bare = value.rstrip(".-+").casefold()
    try:
        return float(bare)
    except ValueError:
        return bare


def _has_value(text: str, name: str, value: object) -> bool:
    wanted = _plain_value(str(value))
    return any(found == wanted for found in _values(text, name, _words_like(wanted)))


def _has_words(text: str, name: str, words: str) -> bool:
    squeezed = _squeezed(text)
    wanted = _squeezed(words)
    return any(f"{_squeezed(name)}{separator}{wanted}" in squeezed for separator in (":", "="))


def _squeezed(text: str) -> str:
    """Remove spaces, quotes, case and accents; letter by letter, because normalizing a long run of accents takes quadratic time."""
    folded = _NOISE.sub("", text).casefold()
    if folded.isascii():
        return folded
    return "".join(part for letter in folded for part in normalize("NFKD", letter) if not combining(part))
