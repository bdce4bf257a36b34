"""Rules for secrets that are recognised by where they are: in a header, an address, an assignment or a sentence."""

from assay.store import redact_checks as checks
from assay.store.redact_patterns import EDGE, QUOTE, Rule, Span, value_of, when
from assay.store.redact_tokens import TOKENS

_PASSWORDS = r"pass(?:word|wort|wd|phrase|code)|pwd|kennwort|contraseña|mot de passe"
_KEYS = (
    r"(?:secret|api|access|auth|private|account|encryption|signing|subscription|master|service)"
    r"[ _-]?(?:access[ _-]?)?(?:key|token|secret)"
    r"|apikey|(?:refresh|session|bearer|id|bot|deploy|csrf)[ _-]?token|client[ _-]?secret|shared[ _-]?access[ _-]?key|secret"
)
NAMES = f"(?:{_PASSWORDS}|{_KEYS})"
"""Names of what is secret whatever it looks like."""
_NAMED = rf"(?i){NAMES}(?:s|[_-]?\d{{1,3}})?"
_SPOKEN = rf"(?i)(?:{NAMES}|token|credential|creds)s?"
_QUERY = r"(?i)[?&](?:access_token|api[_-]?key|key|token|sig|signature|x-amz-signature|client_secret|password|auth)="
_SCHEMES = "bearer|basic|token|api-?key|api-?token|digest|negotiate|aws4-hmac-sha256"
_SEPARATORS = r"(?:[\s:=(\"'`\\,>?|.-]|\\n)"


def _assigned(text: bytes, span: Span) -> Span | None:
    """After `=`: anything but code and placeholders."""
    value = value_of(text, span)
    following = text[span[1] : span[1] + 1]
    # `A_KEY=` without a value is followed by the next name and its own sign.
    is_code = following in (b"(", b"[", b"{") or (following == b"=" and not checks.is_random(value))
    return None if is_code or checks.is_placeholder(value) else span


def _named(text: bytes, span: Span) -> Span | None:
    """After a colon or in a sentence, where most words are just words."""
    value = value_of(text, span).rstrip(".!?:")
    is_secret = checks.is_chosen_secret(value) and text[span[1] : span[1] + 1] not in (b"(", b"[")
    return (span[0], span[0] + len(value.encode())) if is_secret else None


def _random(text: bytes, span: Span) -> Span | None:
    """After the word token or the like: long and random, or shorter where it is assigned."""
    value = value_of(text, span)
    if checks.is_placeholder(value) or "://" in value:
        return None
    before = text[max(0, span[0] - 12) : span[0]].rstrip(b" \t\r\n\\\"'`")
    is_assigned = before[-1:] in (b"=", b":", b",", b">", b"|") or text[span[0] - 1 : span[0]] in (b'"', b"'", b"`")
    if checks.is_random(value, length=20) and not checks.is_made_of_words(value):
        return span
    return span if is_assigned and checks.is_token(value) else None


SECRETS: tuple[Rule, ...] = (
    Rule(
        "private_key",
        "PRIVATE KEY",
        # Five dashes begin the next line of such a block: what follows them is no part of this key, however far its end is.
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
        when(lambda text: not text.isalpha()),
    ),
    Rule(
        "url_secret",
        _QUERY,
        _QUERY + r"([^&\s\"'<>#\\]{8,})",
        when(lambda text: checks.is_random(text) or checks.is_chosen_secret(text)),
    ),
    Rule(
        "assignment",
        rf"{_NAMED}\\*[\"'`]?\s*(?:[:=?.]|\\u003[da]|%3D)",
        rf"{_NAMED}{QUOTE}?\s*(?:=>|[:?.]{{0,3}}==?|:|\\u003d|%3D)\s*\\*"
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
        _named,
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
