"""Checks behind the redaction rules: real cards, accounts, phone numbers and keys, and look-alikes."""

import math
import re
from collections import Counter
from collections.abc import Callable
from functools import cache

import msgspec
import re2  # type: ignore[import-untyped]  # the package has no stubs

# ISO 13616: the length of an account number by country.
_IBANS = """
AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DK18 DO28 EE20 EG29
ES24 FI18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20
LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MR27 MT31 MU30 NL18 NO15 PK24 PL28 PS29 PT25
QA29 RO24 RS22 SA24 SC31 SE24 SI19 SK24 SM27 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20
"""
IBAN_LENGTHS = {entry[:2]: int(entry[2:]) for entry in _IBANS.split()}
# ISO/IEC 7812: Visa, Mastercard, American Express, Discover, JCB, Diners Club, UnionPay, Maestro.
# Maestro alone has numbers of 12 digits; the airlines' cards and the old ones of JCB have 15.
_SHORT_CARDS = r"50(?:18|20|38)|5893|6304|67(?:59|6[1-3])|0604"
_CARD_ISSUERS = r"4|5[0-8]|2(?:22[1-9]|2[3-9]|[3-6]|7[01]|720)|3[47]|6(?:011|4[4-9]|5|2|7)|35(?:2[89]|[3-8])|3(?:0|6|8|9)"
_PLACEHOLDER = (
    r"(?i)(?:none|null|true|false|undefined|required|optional|string|str|bytes|str\?|any"
    r"|your\b.*|my\b.*|<.*|\$.*|\{.*|%[sd(].*|\*+|x+|\.+|-+|…)"
)
_EXAMPLE_PASSWORDS = ("password", "pass", "pwd", "test", "token", "changeme", "changeit", "xxx", "yyy")
_ESCAPE = r"\\+u[0-9a-fA-F]{4}"
_CODE_NAME = r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+"
_UUID = r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"
_THOUSANDS = r"\+\d{1,3}(?:[. \u00a0\u202f]\d{3})+"


# ASCII digits only: str.isdigit accepts digits of all scripts, which card and account numbers do not use.
def digits_of(text: str) -> str:
    """Return the ASCII digits of a text, without those of escapes."""
    return "".join(character for character in re.sub(_ESCAPE, "", text) if "0" <= character <= "9")


def is_card_number(text: str) -> bool:
    """Return whether the text has 12 to 19 digits of a known issuer with a valid check digit (ISO/IEC 7812)."""
    digits = digits_of(text)
    issuers = _SHORT_CARDS if len(digits) == 12 else f"{_CARD_ISSUERS}|1|2131" if len(digits) == 15 else _CARD_ISSUERS
    if not 12 <= len(digits) <= 19 or not re.match(issuers, digits):
        return False
    # Luhn's check digit: one of ten random numbers passes, which is why issuer and length are checked as well.
    doubled = (int(digit) * 2 for digit in digits[-2::-2])
    return (sum(map(int, digits[-1::-2])) + sum(double - 9 * (double > 9) for double in doubled)) % 10 == 0


def iban_length(text: str) -> int:
    """Count the characters, separators included, of a leading account number with valid check digits (ISO 13616); else 0."""
    compact = "".join(character for character in text if character.isalnum()).upper()
    wanted = IBAN_LENGTHS.get(compact[:2], 0)
    offsets = [offset for offset, character in enumerate(text) if character.isalnum()][:wanted]
    if not wanted or len(offsets) < wanted:
        return 0
    number = "".join(str(int(character, 36)) for character in compact[4:wanted] + compact[:4])
    return offsets[-1] + 1 if int(number) % 97 == 1 else 0


def is_social_security_number(text: str) -> bool:
    """Return whether the text has nine digits that the United States can have issued, taxpayer numbers included."""
    digits = digits_of(text)
    area, group, serial = digits[:3], digits[3:5], digits[5:]
    is_taxpayer = area[:1] == "9" and group >= "50"
    return len(digits) == 9 and area not in ("000", "666") and (area < "900" or is_taxpayer) and group != "00" and serial != "0000"


def is_phone_number(text: str) -> bool:
    """Return whether the text has 8 to 15 digits (E.164) and is not an amount with thousands separators."""
    return 8 <= len(digits_of(text)) <= 15 and not re.fullmatch(_THOUSANDS, text)


def is_local_phone_number(text: str) -> bool:
    """Return whether the text has 9 to 12 digits: the length of a number without its country code."""
    return 9 <= len(digits_of(text)) <= 12


def is_passport_number(text: str) -> bool:
    """Return whether the text is a number of 6 to 12 signs, mostly digits, or the machine-readable lines of a passport."""
    return "<" in text or (6 <= len(text) <= 12 and 5 <= len(digits_of(text)) <= 10)


def is_token(text: str) -> bool:
    """Return whether a part cannot be a word or number: alternating letters and digits, or a very long number."""
    if text.startswith(("http:", "https:")) or is_placeholder(text):
        return False
    if re.fullmatch(_UUID, text):
        return True
    parts = re.split("[^A-Za-z0-9]+", text)
    return any((len(part) >= 8 and _alternates(part)) or (len(part) >= 15 and part.isdigit()) for part in parts)


def is_made_of_words(text: str) -> bool:
    """Return whether the text is words and short numbers with signs between them: `gpt-4-turbo-2024-04-09`."""
    return all(part.isalpha() or (part.isdigit() and len(part) < 15) for part in re.split("[^A-Za-z0-9]+", text) if part)


def has_long_token(text: str, *, length: int = 16) -> bool:
    """Return whether the text holds a long part of alternating letters and digits."""
    return any(len(part) >= length and _alternates(part) for part in re.split("[^A-Za-z0-9]+", text))


def _alternates(part: str) -> bool:
    return len(re.findall(r"[A-Za-z]+|\d+", part)) >= 3


def is_login(text: str) -> bool:
    """Return whether the text is `user:password` and neither a variable nor an example."""
    user, _, password = text.partition(":")
    return not (re.search(r"(?:^|:)[$(]|[<>{\[*]", text) or password.lower() in _EXAMPLE_PASSWORDS or not (user + password).strip())


def is_random(text: str, *, length: int = 16) -> bool:
    """Return whether the text looks generated: long, with digits and letters, and hardly any repetition."""
    if len(text) < length or not any(map(str.isdigit, text)) or not any(map(str.isalpha, text)):
        return False
    counts = Counter(text)
    # Shannon entropy per character: most words have less, and generated keys nearly always more.
    return -sum(n / len(text) * math.log2(n / len(text)) for n in counts.values()) >= 3.0


def has_random_part(text: str) -> bool:
    """Return whether a part between hyphens and underscores is a key rather than a word."""
    parts = re.split("[-_]", text)
    is_mixed = any(len(part) >= 20 and len(re.findall("[a-z][A-Z]", part)) >= 6 for part in parts)
    return is_mixed or any(len(part) >= 12 and any(map(str.isdigit, part)) for part in parts) or is_random(text, length=32)


def is_placeholder(text: str) -> bool:
    """Return whether the text stands for a secret: null, <your key>, ${KEY}, settings.key, an earlier redaction."""
    if text.startswith("[REDACTED") or re.fullmatch(_PLACEHOLDER, text) or is_masked(text):
        return True
    return bool(re.fullmatch(_CODE_NAME, text)) and not any(_alternates(part) and len(part) >= 16 for part in text.split("."))


def is_masked(text: str) -> bool:
    """Return whether the body of a key was replaced by one sign for show: `ghp_xxxxxxxxxx`."""
    return re.search(r"([xX*.#])\1{7}", text) is not None


def is_chosen_secret(text: str) -> bool:
    """Return whether the text could be a human password: at least six characters, not only letters."""
    return len(text) >= 6 and not text.isalpha() and any(map(str.isalnum, text)) and not is_placeholder(text)


Span = tuple[int, int]
MatchCheck = Callable[[bytes, Span], Span | None]
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
    check: MatchCheck | None = None
    is_secret: bool = False
    """Recognised by its context, so that the same value in other places of the text is replaced as well."""
    is_number: bool = False
    """Short; a match that the check rejects may hide another one that begins inside it."""


def value_of(text: bytes, span: Span) -> str:
    """Decode the found part of a text."""
    return text[span[0] : span[1]].decode("utf-8", "replace")


def when(is_meant: Callable[[str], bool]) -> MatchCheck:
    """Build a check that accepts what passes a predicate."""
    return lambda text, span: span if is_meant(value_of(text, span)) else None


def whole_number(is_meant: Callable[[str], bool]) -> MatchCheck:
    """Build a check that accepts a number outside longer numbers, words and decimal fractions."""

    def check(text: bytes, span: Span) -> Span | None:
        start, end = span
        before, after = text[max(0, start - 1) : start], text[end : end + 2]
        is_part = is_in_word(text, start) or before in _JOINTS or after[:1].isalnum() or after[:1] in _JOINTS - {b"."}
        is_decimal = after[:1] in (b".", b",") and after[1:].isdigit()
        return None if is_part or is_decimal or not is_meant(value_of(text, span)) else span

    return check


def is_in_word(text: bytes, start: int) -> bool:
    """Return whether a letter or digit directly precedes, unless it ends an escape."""
    return text[max(0, start - 1) : start].isalnum() and not _ends_escape(text[max(0, start - 6) : start])


_JOINTS = {b"_", b".", b"-", b"/"}
# JSON inside a text: the letter before the number may be the end of an escaped newline.
_ends_escape = re.compile(rb"\\(?:[nrtbf]|u[0-9A-Fa-f]{4})\Z").search


def options() -> re2.Options:
    """Return options of every automaton: memory for all rules at once, and no output on stderr."""
    options = re2.Options()
    # With RE2's default memory, large automata fall back to a much slower search.
    options.max_mem = 64 << 20
    options.log_errors = False
    return options


def escaped(text: str) -> str:
    """Escape a text into a pattern that matches exactly it."""
    # Everything but letters and digits as a code point: a key may contain any sign that patterns give a meaning.
    return "".join(character if character.isalnum() else f"\\x{{{ord(character):x}}}" for character in text)


@cache
def compiled(pattern: str) -> re2._Regexp:
    """Compile a pattern when it is first needed."""
    return re2.compile(pattern, options())
