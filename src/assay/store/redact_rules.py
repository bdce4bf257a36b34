"""The rules of redaction, in the order in which they are applied.

A rule has a trigger, a pattern and a check. All triggers are searched at once, in text as well as in JSON bytes, so a trigger has
no left boundary and allows for escapes. Only the patterns of triggered rules are run; their last group that took part is what is
replaced, and the check may still refuse it. All are RE2: time is linear in the text, whatever it says.
"""

import re
from collections.abc import Callable, Iterable
from functools import cache, lru_cache

import msgspec
import re2  # type: ignore[import-untyped]  # the package has no stubs

from assay.store import redact_checks as checks

Span = tuple[int, int]
Check = Callable[[bytes, Span], Span | None]
"""The part of a text, in UTF-8, to replace within what a pattern has found, or None."""

# What may stand before a token: nothing, no letter or digit, or an escape that ends in one.
_EDGE = r"(?:^|[^A-Za-z0-9]|\\[nrtbf]|%[0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4})"
_PASSWORDS = r"pass(?:word|wort|wd|phrase|code)|pwd|kennwort|contraseña|mot de passe"
_KEYS = (
    r"(?:secret|api|access|auth|private|account|encryption|signing|subscription|master|service)"
    r"[ _-]?(?:access[ _-]?)?(?:key|token|secret)"
    r"|apikey|(?:refresh|session|bearer|id|bot|deploy|csrf)[ _-]?token|client[ _-]?secret|shared[ _-]?access[ _-]?key|secret"
)
_NAMES = f"(?:{_PASSWORDS}|{_KEYS})"
_NAMED = rf"(?i){_NAMES}(?:s|[_-]?\d{{1,3}})?"
_SPOKEN = rf"(?i)(?:{_NAMES}|token|credential)s?"
_QUERY = r"(?i)[?&](?:access_token|api[_-]?key|key|token|sig|signature|x-amz-signature|client_secret|password|auth)="
_QUOTE = r"\\*[\"'`]"
# Letters of all scripts by range: a class of properties would make the automaton a hundred times as large.
_ABROAD = r"\x{c0}-\x{1fff}\x{2c00}-\x{2dff}\x{3040}-\x{d7ff}\x{f900}-\x{fdff}\x{10000}-\x{10ffff}"
_LETTER = rf"[A-Za-z0-9{_ABROAD}]"
_SIGN = rf"(?:{_LETTER}|\\+u[0-9A-Fa-f]{{4}})"
_DASH = r"[\x{2010}\x{2011}-]"
_SPACE = r"[ \x{a0}\x{202f}\x{2010}\x{2011}-]"
_BREAK = r"[ \x{a0}\x{202f}\x{2010}\x{2011}./-]"
_GAP = rf"(?:{_SPACE}|\\+u(?:00a0|2011|202f))"
"""The same, or escaped once more: an answer may itself be JSON."""


class Rule(msgspec.Struct, frozen=True):
    """One kind of thing that is not kept."""

    name: str
    trigger: str
    """Found wherever the rule may apply."""
    pattern: str
    check: Check | None = None
    is_number: bool = False
    """Short, and what the check refuses may hide another that begins inside it: one number after another."""


def _value(text: bytes, span: Span) -> str:
    return text[span[0] : span[1]].decode("utf-8", "replace")


def _when(is_meant: Callable[[str], bool]) -> Check:
    return lambda text, span: span if is_meant(_value(text, span)) else None


def _whole_number(is_meant: Callable[[str], bool]) -> Check:
    """A number that is not part of a longer one, of a word, or of a decimal fraction."""

    def check(text: bytes, span: Span) -> Span | None:
        start, end = span
        before, after = text[max(0, start - 1) : start], text[end : end + 2]
        is_in_word = before.isalnum() and not _ends_escape(text[max(0, start - 6) : start])
        is_part = is_in_word or before in _JOINTS or after[:1].isalnum() or after[:1] in _JOINTS - {b"."}
        is_decimal = after[:1] in (b".", b",") and after[1:].isdigit()
        return None if is_part or is_decimal or not is_meant(_value(text, span)) else span

    return check


_JOINTS = {b"_", b".", b"-", b"/"}
# JSON inside a text: the letter before the number may be the end of a newline.
_ends_escape = re.compile(rb"\\(?:[nrtbf]|u[0-9A-Fa-f]{4})\Z").search


def _phone(text: bytes, span: Span) -> Span | None:
    start, end = span
    before = text[max(0, start - 3) : start].rstrip(b" ")[-1:]
    # A sum: `5 +12345678`. A number with gaps is none.
    is_sum = (before.isdigit() or before == b")") and text[start + 1 : end].isdigit()
    return None if is_sum else _whole_number(checks.is_phone_number)(text, span)


def _email(text: bytes, span: Span) -> Span | None:
    start, end = span
    if text.startswith(b"git@", start):
        return None
    # The `n` of an escaped newline is no part of a name.
    is_escape = text[start - 1 : start] == b"\\" and text[start : start + 1] in (b"n", b"r", b"t")
    return (start + is_escape, end)


def _iban(text: bytes, span: Span) -> Span | None:
    value = _value(text, span)
    length = len(value[: checks.iban_length(value)].encode())
    end = span[0] + length
    return (span[0], end) if length and not text[end : end + 1].isalnum() else None


def _assigned(text: bytes, span: Span) -> Span | None:
    """After `=`: anything but code and placeholders."""
    is_code = text[span[1] : span[1] + 1] in (b"(", b"[", b"{")
    return None if is_code or checks.is_placeholder(_value(text, span)) else span


def _named(text: bytes, span: Span) -> Span | None:
    """After a colon or in a sentence, where most words are just words."""
    value = _value(text, span).rstrip(".!?:")
    is_secret = checks.is_chosen_secret(value) and text[span[1] : span[1] + 1] not in (b"(", b"[")
    return (span[0], span[0] + len(value.encode())) if is_secret else None


_VENDORS = (
    "gsk_|r8_|pplx-|xai-|dop_v1_|dapi[0-9a-f]|shp(?:at|ca|pa|ss)_|glsa_|lin_api_|ntn_|hvs[.]|dp[.]pt[.]|PMAK-|NRAK-|ATATT3|rubygems_"
    "|AGE-SECRET-KEY-1|sq0(?:atp|csp)-|EAAA"
)
_TOKENS: tuple[tuple[str, str, str], ...] = (
    ("anthropic_key", "sk-ant-", r"(sk-ant-[A-Za-z0-9_-]{16,})"),
    ("stripe_key", "[srp]k_(?:live|test)_|whsec_", r"((?:[srp]k_(?:live|test)|whsec)_[A-Za-z0-9]{10,})"),
    ("github_token", "gh[pousr]_|github_pat_", r"((?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}))"),
    ("gitlab_token", "gl(?:pat|ptt|dt|rt|soat|cbt)-", r"(gl(?:pat|ptt|dt|rt|soat|cbt)-[A-Za-z0-9_.-]{16,})"),
    ("slack_token", "xox[abeoprs]-|xapp-|xoxe[.]", r"((?:xox[abeoprs]-|xoxe[.]xox[bp]-|xapp-)[A-Za-z0-9-]{10,})"),
    ("slack_webhook", "hooks[.]slack[.]com", r"(hooks[.]slack[.]com/(?:services|workflows|triggers)/[A-Za-z0-9+/_-]{16,})"),
    ("google_key", "AIza|ya29[.]|GOCSPX-", r"((?:AIza[A-Za-z0-9_-]{30,}|ya29[.][A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{20,}))"),
    ("npm_token", "npm_", r"(npm_[A-Za-z0-9]{30,})"),
    ("pypi_token", "pypi-", r"(pypi-[A-Za-z0-9_-]{32,})"),
    ("huggingface_token", "hf_|api_org_", r"((?:hf|api_org)_[A-Za-z0-9]{20,})"),
    ("azure_secret", r"\dQ~", r"([A-Za-z0-9_~.-]{3}\dQ~[A-Za-z0-9_~.-]{31,34})"),
    ("sendgrid_key", "SG[.]", r"(SG[.][A-Za-z0-9_-]{16,}[.][A-Za-z0-9_-]{16,})"),
    ("twilio_key", "(?:AC|SK)[0-9a-f]{8}", r"((?:AC|SK)[0-9a-f]{32})"),
    ("telegram_token", r"\d{8}:AA", r"(\d{8,10}:AA[A-Za-z0-9_-]{30,})"),
    (
        "vendor_token",
        f"{_VENDORS}|key-[0-9a-z]{{8}}|-us[0-9]",
        rf"((?:{_VENDORS})[A-Za-z0-9_-]{{20,}}|key-[0-9a-z]{{32}}|[0-9a-f]{{32}}-us\d{{1,2}})",
    ),
)

_SECRETS = (
    Rule(
        "private_key",
        "PRIVATE KEY",
        r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
        r"(?s:.*?-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|[A-Za-z0-9+/=\s\\:,._-]*)",
    ),
    Rule(
        "url_credentials",
        r"://[^\s/\"'<>@]*@",
        r"[A-Za-z][A-Za-z0-9+.-]{1,20}://([^\s/:@\"'<>]*:[^\s/\"'<>]+|[A-Za-z0-9_-]{16,})@",
    ),
    Rule(
        "authorization",
        rf"(?i)authorization{_QUOTE}?\s*[:=]|proxy-authorization",
        rf"(?i)authorization{_QUOTE}?\s*[:=]\s*(?:{_QUOTE})?"
        r"((?:bearer|basic|token|apikey|digest|negotiate|aws4-hmac-sha256)\s+[^\s\"'`,;<>\\]{4,})",
    ),
    Rule(
        "bearer",
        r"(?i)bearer(?:\s|\\[nrt]|%20|\+)",
        rf"(?i){_EDGE}bearer(?:\s+|%20|\+)([A-Za-z0-9._~+/=-]{{12,}})",
        _when(lambda text: not text.isalpha()),
    ),
    Rule(
        "basic_auth",
        r"(?i)basic [A-Za-z0-9+/]{12}",
        rf"(?i){_EDGE}basic ([A-Za-z0-9+/]{{12,}}={{0,2}})",
        _when(lambda text: checks.is_random(text, length=12)),
    ),
    Rule("cookie", rf"(?i)cookie{_QUOTE}?\s*:", r"(?i)cookie:\s*([^\s;=\"']+=[^\s;\"']+(?:; *[^\s;=\"']+=[^\s;\"']+)*)"),
    Rule("jwt", "eyJ", r"(eyJ[A-Za-z0-9_-]{5,}[.][A-Za-z0-9_-]{5,}(?:[.][A-Za-z0-9_-]*)?)"),
    *(Rule(name, trigger, _EDGE + pattern) for name, trigger, pattern in _TOKENS),
    Rule("openai_key", "sk-[A-Za-z0-9_-]{8}", rf"{_EDGE}(sk-[A-Za-z0-9_-]{{16,}})", _when(checks.has_random_part)),
    Rule(
        "aws_secret_key",
        "(?:AKIA|ASIA)[A-Z0-9]{8}",
        r"(?:AKIA|ASIA)[A-Z0-9]{16}[^A-Za-z0-9]{1,8}(?:[A-Za-z_ ]{0,30}[=:]\s*)?((?:[A-Za-z0-9+]|\\?/){40})",
        _when(checks.is_random),
    ),
    Rule(
        "aws_access_key",
        "A(?:KIA|SIA|BIA|CCA|ROA|IDA|GPA|NPA|NVA|IPA)[A-Z0-9]{8}",
        rf"{_EDGE}(A(?:KIA|SIA|BIA|CCA|ROA|IDA|GPA|NPA|NVA|IPA)[A-Z0-9]{{16}})\b",
        _when(lambda text: not text.isalpha()),
    ),
    Rule(
        "url_secret",
        _QUERY,
        _QUERY + r"([^&\s\"'<>#\\]{8,})",
        _when(lambda text: checks.is_random(text) or checks.is_chosen_secret(text)),
    ),
    Rule(
        "assignment",
        rf"{_NAMED}\\*[\"'`]?\s{{0,4}}(?:[:=]|\\u003[da]|%3D)",
        rf"{_NAMED}{_QUOTE}?\s*(?:=>|:=|==?|:|\\u003d|%3D)\s*\\*"
        r"(?:\"([^\"\n]{3,}?)\\*\"|'([^'\n]{3,}?)\\*'|`([^`\n]{3,}?)\\*`)",
        _when(lambda text: not checks.is_placeholder(text)),
    ),
    Rule(
        "assignment",
        rf"{_NAMED}\s{{0,4}}(?:=|:=|%3D|\\u003d)",
        rf"{_NAMED}\s*(?:=|:=|%3D|\\u003d)\s*([^\s\"'`,;<>(){{}}\[\]|&\\=]{{4,}})",
        _assigned,
    ),
    Rule(
        "assignment",
        rf"{_NAMED}\\*[\"'`]?\s{{0,4}}(?::|=>)",
        rf"{_NAMED}{_QUOTE}?\s*(?::|=>)\s*([^\s\"'`,;<>(){{}}\[\]|\\]{{6,}})",
        _named,
    ),
    Rule(
        "spoken_secret",
        rf"{_SPOKEN}[^.\n]{{0,30}}?\s(?:is|was|are|ist|lautet|est|es)[: ]",
        rf"{_SPOKEN}(?: [a-z]+){{0,4}}? (?:is|was|are|ist|lautet|est|es)[: ]+{_QUOTE}?([^\s\"'`,;<>\\]{{6,}})",
        _named,
    ),
    Rule(
        "high_entropy",
        rf"{_SPOKEN}[\s:=(\"'`\\]{{1,6}}[A-Za-z0-9_/+=.~-]{{20}}",
        rf"{_SPOKEN}[\s:=(\"'`\\]{{1,6}}([A-Za-z0-9_/+=.~-]{{20,}})",
        _when(lambda text: checks.is_random(text, length=20) and not checks.is_placeholder(text)),
    ),
)

_PERSONAL = (
    Rule(
        "email",
        rf"(?:@|%40)(?:{_LETTER}|\\)",
        rf"({_SIGN}(?:{_SIGN}|[._%+'-])*(?:@|%40)(?:{_SIGN}(?:-*{_SIGN})*[.])+(?:[A-Za-z{_ABROAD}]{{2}}|xn--){_LETTER}*)",
        _email,
    ),
    Rule(
        "iban",
        rf"[A-Z]{{2}}\d{{2}}{_SPACE}?[A-Z0-9]{{4}}{_SPACE}?[A-Z0-9]{{4}}",
        rf"{_EDGE}([A-Z]{{2}}\d{{2}}(?:{_SPACE}?[A-Z0-9]){{11,30}})",
        _iban,
        is_number=True,
    ),
    Rule(
        "payment_card",
        rf"\d{{13}}|\d{{4}}{_GAP}\d{{4,6}}{_GAP}\d{{4,5}}",
        rf"(\d{{4}}{_GAP}\d{{4}}{_GAP}\d{{4}}{_GAP}\d{{4}}(?:{_GAP}\d{{3}})?"
        rf"|\d{{4}}{_GAP}\d{{6}}{_GAP}\d{{4,5}}|\d{{13,19}})",
        _whole_number(checks.is_card_number),
        is_number=True,
    ),
    Rule(
        "social_security_number",
        rf"\d{{3}}{_DASH}\d{{2}}{_DASH}\d{{4}}",
        rf"(\d{{3}}{_DASH}\d{{2}}{_DASH}\d{{4}})",
        _whole_number(checks.is_social_security_number),
        is_number=True,
    ),
    Rule(
        "social_security_number",
        r"(?i)(?:ssn|social security)[^\d\n]{0,20}\d{3}",
        r"(?i)(?:\bssn|social security)(?: (?:number|no[.]?))?(?: is)?[ :#=\"']{0,4}(\d{3} ?\d{2} ?\d{4})",
        _whole_number(checks.is_social_security_number),
        is_number=True,
    ),
    Rule(
        "phone",
        rf"\+\d(?:{_BREAK}|[\d()]){{6}}|00[34]\d{_BREAK}",
        rf"(\+\d{{1,3}}{_BREAK}{{0,2}}(?:\(\d{{1,4}}\){_BREAK}?)?\d(?:{_BREAK}?\d){{5,12}}|00[34]\d(?:{_BREAK}\d+){{2,5}})",
        _phone,
        is_number=True,
    ),
    Rule(
        "phone",
        rf"\d{{3}}\)?{_BREAK}?\d{{3}}{_BREAK}\d{{4}}",
        rf"((?:1{_BREAK})?(?:\([2-9]\d{{2}}\){_BREAK}?[2-9]\d{{2}}{_BREAK}|[2-9]\d{{2}}(?:[.]|{_DASH})[2-9]\d{{2}}(?:[.]|{_DASH}))\d{{4}})",
        _whole_number(checks.is_phone_number),
        is_number=True,
    ),
    Rule(
        "phone",
        r"(?i)(?:tel|phone|fax|mobile|mobil|handy|cell|whatsapp|call|ruf|téléphone)[^\d\n]{0,12}\d{2}",
        r"(?i)\b(?:tel(?:efon|ephone|éfono)?|phone|fax|mobile?|handy|cell(?:phone)?|whatsapp|call(?: me)?(?: at| on)?"
        r"|telefonnummer|rufnummer|téléphone)"
        rf"(?: (?:number|no|nr|nummer))?[.]?(?: is| ist)?[ :=\"'\x{{a0}}\x{{202f}}]{{1,4}}(\(?\d(?:{_BREAK}|[\d()]){{6,18}}\d)",
        _whole_number(checks.is_phone_number),
        is_number=True,
    ),
)

RULES: tuple[Rule, ...] = _SECRETS + _PERSONAL

_SECRET_NAME = re.compile(rf"(?i)(?:[\w.-]*[._-])?(?:{_NAMES}|(?:proxy-)?authorization|(?:set-)?cookie|x-api-key|api-key)")


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """True for the name of a member whose text is a secret whatever it looks like."""
    return len(name) <= 64 and _SECRET_NAME.fullmatch(name) is not None


def trigger_set(literals: Iterable[str]) -> re2.Set:
    """All triggers in one automaton: it answers with the numbers of the rules that may apply, and higher ones for the literals."""
    options = re2.Options()
    options.max_mem = 64 << 20
    options.log_errors = False
    automaton = re2.Set.SearchSet(options)
    for pattern in (*(rule.trigger for rule in RULES), *map(escaped, literals)):
        automaton.Add(pattern)
    automaton.Compile()
    return automaton


def escaped(text: str) -> str:
    """A pattern that finds exactly this text."""
    return "".join(character if character.isalnum() else f"\\x{{{ord(character):x}}}" for character in text)


@cache
def compiled(pattern: str) -> re2._Regexp:
    """A pattern, compiled when it is first needed."""
    options = re2.Options()
    options.max_mem = 64 << 20
    options.log_errors = False
    return re2.compile(pattern, options)
