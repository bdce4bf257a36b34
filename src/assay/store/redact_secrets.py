"""Rules for secrets recognised by their context: a header, an address, an assignment or a sentence."""

import re

from assay.store import redact_checks as checks
from assay.store.redact_patterns import EDGE, QUOTE, Rule, Span, value_of, when
from assay.store.redact_tokens import TOKENS

_PASSWORDS = (
    r"pass(?:word|wort|wd|phrase|code)|pwd|kennwort|contraseña|mot de passe"
    r"|(?:db|sql|mysql|pg|postgres|mongo|redis|ldap|smtp|ftp|admin|root|user|login)[_-]p(?:ass|w)"
)
_KEYS = (
    r"(?:secret|api|access|auth|private|account|encryption|signing|subscription|master|service)"
    r"[ _-]?(?:access[ _-]?)?(?:key|token|secret)"
    r"|apikey|(?:refresh|session|bearer|id|bot|deploy|csrf)[ _-]?token|client[ _-]?secret|shared[ _-]?access[ _-]?key|secret"
)
NAMES = f"(?:{_PASSWORDS}|{_KEYS})"
"""Names whose values are always secret."""
_NAMED = rf"(?i){NAMES}(?:s|[_-]?\d{{1,3}})?"
_SPOKEN = rf"(?i)(?:{NAMES}|token|credential|creds)s?"
_NAMED_KEY = r"(?:[A-Za-z0-9]{2}[_-](?i:key)|[a-z0-9]Key)"
_QUERY = r"(?i)[?&](?:access_token|api[_-]?key|key|token|sig|signature|x-amz-signature|client_secret|password|auth)="
_SCHEMES = "bearer|basic|token|api-?key|api-?token|digest|negotiate|aws4-hmac-sha256"
_SEPARATORS = r"(?:[\s:=(\"'`\\,>?|.-]|\\n)"


def _assigned(text: bytes, span: Span) -> Span | None:
    """Accept a value after `=` that is neither code nor a placeholder."""
    value = value_of(text, span)
    following = text[span[1] : span[1] + 1]
    # `A_KEY=` without a value is followed by the next name and its `=`.
    is_code = following in (b"(", b"[", b"{") or (following == b"=" and not checks.is_random(value))
    # `password = password`, `secret = self.secret`: the name of a variable.
    is_code = is_code or _is_name(value.strip("_").rpartition(".")[2]) is not None
    return None if is_code or checks.is_placeholder(value) else span


def _named(text: bytes, span: Span) -> Span | None:
    """Accept a value after a colon or in a sentence, where most words are just words."""
    value = value_of(text, span).rstrip(".!?:")
    is_secret = checks.is_chosen_secret(value) and text[span[1] : span[1] + 1] not in (b"(", b"[")
    return (span[0], span[0] + len(value.encode())) if is_secret else None


def _random(text: bytes, span: Span) -> Span | None:
    """Accept a value after the word token or the like: long and random, or shorter in an assignment."""
    value = value_of(text, span)
    if checks.is_placeholder(value) or "://" in value:
        return None
    before = text[max(0, span[0] - 12) : span[0]].rstrip(b" \t\r\n\\\"'`")
    is_assigned = before[-1:] in (b"=", b":", b",", b">", b"|") or text[span[0] - 1 : span[0]] in (b'"', b"'", b"`")
    if checks.is_random(value, length=20) and not checks.is_made_of_words(value):
        return span
    return span if is_assigned and checks.is_token(value) else None


def _spoken(text: bytes, span: Span) -> Span | None:
    """Accept a value in a sentence: what follows a password's name, or looks like a token, but no size, price or time."""
    found = _named(text, span)
    if found is None or checks.is_token(value_of(text, found)):
        return found
    before = text[max(0, span[0] - 64) : span[0]].decode("utf-8", "replace")
    return found if _ends_in_password(before) and not _ends_in_measure(before) else None


def _named_key(text: bytes, span: Span) -> Span | None:
    """Accept a long random value after `service_key:`, unless it is the key of a record, a table or a cache."""
    value = value_of(text, span)
    is_long = checks.has_long_token(value) or (
        len(value) >= 40 and checks.is_random(value) and checks.has_long_token(value, length=8)
    )
    is_meant = is_long and "://" not in value and not checks.is_masked(value)
    return span if is_meant and not _ends_in_plain_key(text[max(0, span[0] - 64) : span[0]]) else None


def _element(text: bytes, span: Span) -> Span | None:
    """Accept text between tags: a human password, or anything with a token in it."""
    value = value_of(text, span)
    return span if checks.has_long_token(value) or checks.is_chosen_secret(value) else None


def _access_key(text: bytes, span: Span) -> Span | None:
    """Accept an id of letters only if it is quoted or assigned."""
    is_assigned = text[max(0, span[0] - 16) : span[0]].rstrip()[-1:] in (b"=", b":", b">", b'"', b"'", b"`")
    return span if is_assigned or not value_of(text, span).isalpha() else None


_is_name = re.compile(rf"(?i){NAMES}|user(?:name)?|auth|authkey|credentials?|token").fullmatch
_ends_in_password = re.compile(
    rf"(?i)(?:{_PASSWORDS}|pin|credentials|secret|{_KEYS})(?: [a-z]+){{0,2}}? (?:is|was|are|ist|lautet|est|es)[: ]+[\"'`\\]*\Z"
).search
_ends_in_measure = re.compile(
    r"(?i)(?:length|size|count|limit|rate|lifetime|expiry|expiration|duration|age|strength|policy|type|version|minimum|maximum|total)"
    r" (?:is|was|are|ist|lautet|est|es)[: ]+\S?\Z"
).search
_ends_in_plain_key = re.compile(
    rb"(?i)(?:cache|primary|foreign|sort|partition|row|idempotency|public|object|group|hash|dedup\w*|lookup|storage|s3|index|map|routing"
    rb"|message|record|item|entity|unique|natural|composite|registry|config|translation|i18n|sha\d*|fingerprint)[_-]?keys?[\\\"'`\s:=>]*\Z"
    rb"|(?:id|ids|hash|sha\d*|digest|checksum|fingerprint|name|path|file|url|uri|arn|version|type|count)[\\\"'`\s:=>]*\Z"
).search

SECRETS: tuple[Rule, ...] = (
    Rule(
        "private_key",
        "PRIVATE KEY",
        # Five dashes begin the next line of such a block: text after them is not part of this key, however far its end is.
        r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
        r"(?:(?:[^-]|-{1,4}[^-])*-{5,9}END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|[A-Za-z0-9+/=\s\\:,._-]*)",
    ),
    Rule(
        "url_credentials",
        r"://[^\s/\"'<>@]*@",
        r"[A-Za-z][A-Za-z0-9+.-]{1,20}://([^\s/:@\"'<>]*:[^\s/\"'<>]+|[A-Za-z0-9_-]{16,})@",
    ),
    Rule(
        "url_credentials",
        r"(?:-u|--user)[\s=\"'\\]",
        rf"\bcurl\b[^|;]*?\s(?:-u|--user)(?:=|\s)\s*(?:{QUOTE}([^\"'`\s]*:[^\"'`]*){QUOTE}|([^\s:\"'`]+:{QUOTE}?[^\s\"'`]+))",
        when(checks.is_login),
    ),
    Rule(
        "authorization",
        rf"(?i)authorization{QUOTE}?\s*[:=]|proxy-authorization",
        rf"(?i)authorization{QUOTE}?\s*[:=]\s*(?:{QUOTE})?(?:((?:{_SCHEMES})\s+[^\s\"'`,;<>\\]{{4,}})|([A-Za-z0-9._~@+/=-]{{16,}}))",
        when(lambda text: " " in text or checks.is_random(text)),
    ),
    Rule(
        "bearer",
        r"(?i)bearer(?:\s|\\[nrt]|%20|\+)",
        rf"(?i){EDGE}bearer(?:\s+|%20|\+)([A-Za-z0-9._~+/=-]{{12,}})",
        when(lambda text: not text.isalpha()),
    ),
    Rule(
        "basic_auth",
        r"(?i)basic [A-Za-z0-9+/]{12}",
        rf"(?i){EDGE}basic ([A-Za-z0-9+/]{{12,}}={{0,2}})",
        when(lambda text: checks.is_random(text, length=12)),
    ),
    Rule("cookie", rf"(?i)cookie{QUOTE}?\s*:", r"(?i)cookie:\s*([^\s;=\"']+=[^\s;\"']+(?:; *[^\s;=\"']+=[^\s;\"']+)*)"),
    Rule("jwt", "eyJ", r"(eyJ[A-Za-z0-9_-]{5,}[.][A-Za-z0-9_-]{5,}(?:[.][A-Za-z0-9_-]*)?)"),
    *TOKENS,
    Rule("openai_key", "sk-[A-Za-z0-9_-]{8}", rf"{EDGE}(sk-[A-Za-z0-9_-]{{16,}})", when(checks.has_random_part)),
    Rule(
        "aws_secret_key",
        "(?:AKIA|ASIA)[A-Z0-9]{8}",
        r"(?:AKIA|ASIA)[A-Z0-9]{16}[^A-Za-z0-9]{1,8}(?:[A-Za-z_ ]{0,30}[=:]\s*)?((?:[A-Za-z0-9+]|\\?/){40})",
        when(checks.is_random),
    ),
    Rule(
        "aws_access_key",
        "A(?:KIA|SIA|BIA|CCA|ROA|IDA|GPA|NPA|NVA|IPA|3T[A-Z0-9])[A-Z0-9]{8}",
        rf"{EDGE}(A(?:KIA|SIA|BIA|CCA|ROA|IDA|GPA|NPA|NVA|IPA|3T[A-Z0-9])[A-Z0-9]{{16}})\b",
        _access_key,
    ),
    Rule(
        "url_secret",
        _QUERY,
        _QUERY + r"([^&\s\"'<>#\\]{8,})",
        when(lambda text: checks.is_random(text) or checks.is_chosen_secret(text)),
    ),
    Rule(
        "assignment",
        rf"{_NAMED}\\*[\"'`]?\]?\s*(?:[:=?.!]|\\u003[da]|%3D)",
        rf"{_NAMED}{QUOTE}?\]?\s*(?:=>|[!:?.=]{{0,3}}==?@?|:|\\u003d|%3D)\s*\\*"
        r"(?:\"([^\"\n]{3,}?)\\*\"|'([^'\n]{3,}?)\\*'|`([^`\n]{3,}?)\\*`)",
        when(lambda text: not checks.is_placeholder(text)),
        is_secret=True,
    ),
    Rule(
        "assignment",
        rf"{_NAMED}\s*(?:=|:=|%3D|\\u003d)",
        rf"{_NAMED}\s*(?:=|:=|%3D|\\u003d)\s*([^\s\"'`,;<>(){{}}\[\]|&\\=]{{4,}})",
        _assigned,
        is_secret=True,
    ),
    Rule(
        "assignment",
        rf"{_NAMED}\\*[\"'`]?\s*(?::|=>)",
        rf"{_NAMED}{QUOTE}?\s*(?::|=>)\s*([^\s\"'`,;<>(){{}}\[\]|\\]{{6,}})",
        _named,
        is_secret=True,
    ),
    Rule(
        "assignment",
        rf"(?i)(?:{NAMES}|token)s?{QUOTE}?\s+value\s*[:=]",
        rf"(?i)(?:{NAMES}|token)s?{QUOTE}?\s+value\s*[:=]\s*(?:{QUOTE}([^\"'`\n]{{4,}}?){QUOTE}|([^\s\"'`<>]{{8,}}))",
        when(lambda text: not checks.is_placeholder(text)),
        is_secret=True,
    ),
    Rule(
        "spoken_secret",
        rf"{_SPOKEN}[^.\n]{{0,30}}?\s(?:is|was|are|ist|lautet|est|es)[: ]",
        rf"{_SPOKEN}(?: [a-z]+){{0,4}}? (?:is|was|are|ist|lautet|est|es)[: ]+{QUOTE}?([^\s\"'`,;<>\\]{{6,}})",
        _spoken,
        is_secret=True,
    ),
    Rule(
        "assignment",
        rf"{_NAMED_KEY}\\*[\"'`]?\s*(?::=|=>|[:=])\s*\\*[\"'`]?[A-Za-z0-9_/+=.|~:-]{{12}}",
        rf"{_NAMED_KEY}{QUOTE}?\s*(?::=|=>|[:=])\s*{QUOTE}?([A-Za-z0-9_/+=.|~:-]{{20,}})",
        _named_key,
    ),
    Rule(
        "assignment",
        rf"{_SPOKEN}[A-Za-z_-]+\\*[\"'`]?\s*(?::=|=>|[:=])\s*\\*[\"'`]?[A-Za-z0-9_/+=.|~:-]{{12}}",
        rf"{_SPOKEN}[A-Za-z_-]{{1,32}}{QUOTE}?\s*(?::=|=>|[:=])\s*{QUOTE}?([A-Za-z0-9_/+=.|~:-]{{16,}})",
        _named_key,
    ),
    Rule(
        "assignment",
        r"(?i)<[\w:.-]*(?:password|passwd|secret|token|credentials?|api-?key)>",
        r"(?i)<[\w:.-]*(?:password|passwd|secret|token|credentials?|api-?key)>\s*([^<>\n]{6,}?)\s*</",
        _element,
    ),
    Rule(
        "assignment",
        r"(?i)kind:\s*[\"']?secret\b",
        r"(?m)^[ \t]+[\w.-]+:[ \t]*(?:[|>][+-]?\s+)?[\"']?([A-Za-z0-9+/]{10,}={0,3})[\"']?[ \t\r]*$",
        when(lambda text: not text.isalpha() or not (text.islower() or text.istitle())),
        is_secret=True,
    ),
    Rule(
        "high_entropy",
        rf"(?:{_SPOKEN}(?: string)?{_SEPARATORS}+|(?i)key\s*=\s*)[A-Za-z0-9_/+=.~:%-]{{14}}",
        rf"(?:{_SPOKEN}(?: string)?{_SEPARATORS}{{1,16}}|(?i)key\s*=\s*)([A-Za-z0-9_/+=.~:%-]{{14,}})",
        _random,
        is_secret=True,
    ),
)
