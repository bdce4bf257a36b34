"""Parts of every redaction rule: trigger, pattern and check, and the expressions that patterns share.

All triggers are searched at once, in text and in JSON bytes, so a trigger has no left boundary and allows for escapes. Only the
patterns of triggered rules are run; their last participating group is replaced, unless the check rejects it. All are RE2: time is
linear in any text.
"""

import re
from collections.abc import Callable
from functools import cache

import msgspec
import re2  # type: ignore[import-untyped]  # the package has no stubs

Span = tuple[int, int]
Check = Callable[[bytes, Span], Span | None]
"""Returns the span to replace, in bytes of UTF-8, within what a pattern has found, or None."""

# What may precede a token: nothing, a sign that is not a letter or digit, or an escape that ends in one.
EDGE = r"(?:^|[^A-Za-z0-9]|\\[nrtbf]|%[0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4})"
QUOTE = r"\\*[\"'`]"
# Ranges of letters of all scripts: Unicode classes would make the automaton a hundred times as large.
ABROAD = r"\x{c0}-\x{1fff}\x{2c00}-\x{2dff}\x{3040}-\x{d7ff}\x{f900}-\x{fdff}\x{10000}-\x{10ffff}"
LETTER = rf"[A-Za-z0-9{ABROAD}]"
SIGN = rf"(?:{LETTER}|\\+u[0-9A-Fa-f]{{4}})"
DASH = r"[\x{2010}\x{2011}-]"
SPACE = r"[ \x{a0}\x{202f}\x{2010}\x{2011}-]"
BREAK = r"[ \x{a0}\x{202f}\x{2010}\x{2011}./-]"
GAP = rf"(?:{SPACE}|\\+u(?:00a0|2011|202f))"
"""The same, or escaped once more: an answer may itself be JSON."""


class Rule(msgspec.Struct, frozen=True):
    """One kind of text to redact."""

    name: str
    trigger: str
    """Matches wherever the rule may apply."""
    pattern: str
    check: Check | None = None
    is_secret: bool = False
    """Recognised by its context, so that the same value elsewhere in the text is replaced as well."""
    is_number: bool = False
    """Short; a match that the check rejects may hide another one that begins inside it."""


def value_of(text: bytes, span: Span) -> str:
    """Decode the found part of a text."""
    return text[span[0] : span[1]].decode("utf-8", "replace")


def when(is_meant: Callable[[str], bool]) -> Check:
    """Build a check that accepts what passes a predicate."""
    return lambda text, span: span if is_meant(value_of(text, span)) else None


def whole_number(is_meant: Callable[[str], bool]) -> Check:
    """Build a check that accepts a number outside longer numbers, words and decimal fractions."""

    def check(text: bytes, span: Span) -> Span | None:
        start, end = span
        before, after = text[max(0, start - 1) : start], text[end : end + 2]
        is_part = is_in_word(text, start) or before in _JOINTS or after[:1].isalnum() or after[:1] in _JOINTS - {b"."}
        is_decimal = after[:1] in (b".", b",") and after[1:].isdigit()
        return None if is_part or is_decimal or not is_meant(value_of(text, span)) else span

    return check


def is_in_word(text: bytes, start: int) -> bool:
    """Tell whether a letter or digit directly precedes, unless it ends an escape."""
    return text[max(0, start - 1) : start].isalnum() and not _ends_escape(text[max(0, start - 6) : start])


_JOINTS = {b"_", b".", b"-", b"/"}
# JSON inside a text: the letter before the number may be the end of an escaped newline.
_ends_escape = re.compile(rb"\\(?:[nrtbf]|u[0-9A-Fa-f]{4})\Z").search


def options() -> re2.Options:
    """Return options of every automaton: memory for all rules at once, and no output on stderr."""
    options = re2.Options()
    options.max_mem = 64 << 20
    options.log_errors = False
    return options


def escaped(text: str) -> str:
    """Escape a text into a pattern that matches exactly it."""
    return "".join(character if character.isalnum() else f"\\x{{{ord(character):x}}}" for character in text)


@cache
def compiled(pattern: str) -> re2._Regexp:
    """Compile a pattern when it is first needed."""
    return re2.compile(pattern, options())
