"""Secrets: custom redaction rules, and the forms in which a secret can appear."""

import base64
import json
import re
from collections.abc import Iterable, Mapping
from typing import Annotated
from urllib.parse import SplitResult, quote, quote_plus, unquote

import msgspec
from msgspec import Meta

REDACTION_MARK = re.compile(r"\[REDACTED:[^\]]*\]")
"""Text that a redactor leaves in place of a secret; a stored document has no other sign of redaction."""


class RedactRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A custom redaction rule: what its pattern finds is replaced by `[REDACTED:name]`."""

    name: Annotated[
        Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]{0,39}$", title="up to 40 small letters, digits and underscores")],
        Meta(description="Name of the rule, as it is in the replaced text and in the manifest's counts."),
    ]
    pattern: Annotated[
        Annotated[str, Meta(min_length=1, max_length=1000)],
        Meta(description="Regular expression in the syntax of RE2: all that it finds is replaced."),
    ]


def is_redacted(value: object) -> bool:
    """Return whether a redactor has replaced a part of a struct or a JSON-like value."""
    match value:
        case str():
            return REDACTION_MARK.search(value) is not None
        case Mapping():
            return any(is_redacted(name) or is_redacted(member) for name, member in value.items())
        case list() | tuple():
            return any(map(is_redacted, value))
        case msgspec.Struct():
            return is_redacted(msgspec.structs.asdict(value))
        case _:
            return False


def forms_of(secret: str) -> Iterable[str]:
    """List a secret's plain form, and its forms inside JSON, a URL or a header."""
    yield secret
    # Providers echo a rejected key inside JSON, inside a URL, or encoded in a header: each form gives the key away.
    for is_ascii in (True, False):
        once = json.dumps(secret, ensure_ascii=is_ascii)[1:-1]
        # Some encoders escape slashes; the last form is JSON in a JSON string, such as a quoted request body.
        yield from (once, once.replace("/", "\\/"), json.dumps(once, ensure_ascii=is_ascii)[1:-1])
    yield quote(secret, safe="")
    yield quote(secret)
    yield quote_plus(secret)
    yield base64.b64encode(secret.encode()).decode()


def is_distinctive(secret: str) -> bool:
    """Return whether no ordinary text contains the secret by chance; `none`, `not-needed` and `sk-local` are too common."""
    # A local server is often given `none` or `not-needed` as a key. Redacting such words everywhere would destroy prompts; they are
    # replaced only where AS_CREDENTIAL shows that they are used as a key.
    if len(secret) >= 16:
        return True
    # Hyphenated words are ordinary text, although their length and punctuation look like a key.
    is_words = all(part.isascii() and part.islower() and part.isalpha() for part in re.split("[-_ ]", secret))
    return len(secret) >= 8 and not secret.isalpha() and not secret.isdigit() and not is_words


AS_CREDENTIAL = (
    r"(?i:authorization|x-api-key|api[ _-]?key|(?:access|auth)[ _-]?(?:key|token))(?: [a-z]+){0,2}"
    r"[\\\"'`]*\s*[:=]\s*[\\\"'`]*(?i:(?:bearer|basic|token|key)\s+)?[\\\"'`]*"
)
"""Precedes a value that is used as a key; valid for `re` and RE2."""


def header_secrets(value: str) -> tuple[str, ...]:
    """List the value of a header, and the key in one such as `Bearer KEY`: providers repeat it without its first word."""
    words = value.split()
    return (value, words[1]) if len(words) == 2 else (value,)


def login_secrets(address: SplitResult) -> tuple[str, ...]:
    """List the user name and password in an address, separately and joined as they are sent."""
    user, password = unquote(address.username or ""), unquote(address.password or "")
    return (user, password, f"{user}:{password}") if user or password else ()
