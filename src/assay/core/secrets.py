"""Forms in which a secret can appear, for every place that must not repeat it."""

import base64
import json
import re
from collections.abc import Iterable
from urllib.parse import SplitResult, quote, quote_plus, unquote


def forms_of(secret: str) -> Iterable[str]:
    """List a secret's plain form, and its forms inside JSON, a URL or a header."""
    yield secret
    for is_ascii in (True, False):
        once = json.dumps(secret, ensure_ascii=is_ascii)[1:-1]
        yield from (once, once.replace("/", "\\/"), json.dumps(once, ensure_ascii=is_ascii)[1:-1])
    yield quote(secret, safe="")
    yield quote(secret)
    yield quote_plus(secret)
    yield base64.b64encode(secret.encode()).decode()


def is_distinctive(secret: str) -> bool:
    """Tell whether no ordinary text contains the secret by chance; `none`, `not-needed` and `sk-local` are too common."""
    if len(secret) >= 16:
        return True
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
