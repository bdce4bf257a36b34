"""The number of an answer: the one that it states as its result, else the last one."""

import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation

# One linear pass: what looks like a number is taken whole, and then read by rules that need no search.
_TOKEN = re.compile(
    r"(?:(?<![\w)\].])[+\-\u2212])?(?<![A-Za-z_])(?<!\d)"
    r"(?:\d[\d.,'\u2019\u00a0\u2009\u202f]*|\.\d+)"
    r"(?:[eE][+\-\u2212]?\d{1,4}(?![\w]))?"
    r"(?:\s?[x\u00d7*]\s?10\s?(?:\^|\*\*)\s?\{?([+\-\u2212]?\d{1,4})\}?)?"
)
_MARKER = re.compile(
    r"####|\\boxed\s*\{|\b(?:answer|result|solution|antwort|ergebnis|l\u00f6sung)\b\**\s*(?:is|=|:|ist|lautet)", re.IGNORECASE
)
"""What announces a result."""
_GROUPS = re.compile(r"\d{1,3}(?:[',.\u2019\u00a0\u2009\u202f]\d{3})+")
_SPACES = "'\u2019\u00a0\u2009\u202f"
MAX_DIGITS = 400
"""Characters beyond which a row of digits is not read as a number."""


def find_number(text: str) -> Decimal | None:
    """Return the number of a text; None without one.

    After the last words that announce a result (`The answer is`, `Answer:`, `####`, `\\boxed{`) the first number counts;
    without such words, or without a number after them, the last one of the text.
    """
    marker = None
    for marker in _MARKER.finditer(text):  # noqa: B007  # the last one is wanted
        pass
    if marker is not None:
        stated = next(numbers_in(text, marker.end()), None)
        if stated is not None:
            return stated
    last = None
    for last in numbers_in(text):  # noqa: B007
        pass
    return last


def numbers_in(text: str, start: int = 0) -> Iterator[Decimal]:
    """Yield the numbers of a text in order: `1,234.5`, `1.234,5`, `1'234`, `-3`, `6.02e23`, `6.02 x 10^23`."""
    for match in _TOKEN.finditer(text, start):
        yield from _read(match)


def _read(match: re.Match[str]) -> Iterator[Decimal]:
    token = match[0]
    if len(token) > MAX_DIGITS:
        return
    power = match[1]
    head = token[: match.start(1) - match.start()] if power else token
    sign = "-" if head[0] in "-\u2212" else ""
    mantissa, exponent = _split_exponent(head.lstrip("+-\u2212"))
    if power:
        mantissa, exponent = re.split(r"\s?[x\u00d7*]", mantissa, maxsplit=1)[0], power
    parts = _plain(mantissa.rstrip(f".,{_SPACES}"))
    for number, part in enumerate(parts):
        try:
            # A sign belongs to the first of several numbers in a list, and a power to the last.
            yield Decimal(f"{sign if number == 0 else ''}{part}") * (
                Decimal(10) ** int(exponent.replace("\u2212", "-")) if exponent and number == len(parts) - 1 else 1
            )
        except (InvalidOperation, ValueError):  # a power that no decimal number can hold
            return


def _split_exponent(text: str) -> tuple[str, str]:
    mantissa, mark, exponent = text.lower().partition("e")
    return (mantissa, exponent) if mark else (text, "")


def _plain(text: str) -> list[str]:
    """Return the numbers of a token with a decimal point alone; several of a list such as `1,2,3`, none of `1.2.3`."""
    for space in _SPACES:
        text = text.replace(space, "")
    dots, commas = text.count("."), text.count(",")
    if dots and commas:
        decimal, grouping = (".", ",") if text.rindex(".") > text.rindex(",") else (",", ".")
        whole, _, fraction = text.partition(decimal)
        is_grouped = fraction.isdigit() and _GROUPS.fullmatch(whole) is not None
        return [f"{whole.replace(grouping, '')}.{fraction}"] if is_grouped else _listed(text)
    if commas:
        # 1,234 is a thousand and more, 0,234 and 3,14 are fractions, 1,2,3 is a list.
        if text[0] != "0" and _GROUPS.fullmatch(text):
            return [text.replace(",", "")]
        return [text.replace(",", ".")] if commas == 1 else _listed(text)
    if dots > 1:
        # 1.234.567 has groups; 1.2.3 is a version or a section.
        return [text.replace(".", "")] if text[0] != "0" and _GROUPS.fullmatch(text) else []
    return [text]


def _listed(text: str) -> list[str]:
    return [part for part in text.split(",") if part and part.count(".") < 2 and part != "."]
