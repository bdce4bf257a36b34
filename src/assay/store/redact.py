"""Redaction: text and JSON values on their way to the disk, without secrets and personal numbers."""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec

from assay.core.secrets import forms_of
from assay.store.redact_checks import is_placeholder
from assay.store.redact_rules import RULES, Rule, compiled, escaped, is_secret_name, trigger_set

OWN_SECRET = "secret"
"""The rule that replaces the run's own keys."""

MIN_SECRET = 4
"""A value with fewer characters is no secret, and replacing it would spoil every text."""

_MIN_SUBSTRING = 8
_CARD_SIZED = 10**12

_encode = msgspec.json.Encoder().encode


class Redactor:
    """Replaces what must not be kept by `[REDACTED:rule]` and counts it by rule.

    `extra_secrets` are the exact values of keys that the run uses. They go wherever they stand, escaped for JSON or a URL or in
    base64 as well; one shorter than eight characters only where it stands alone.
    """

    def __init__(self, extra_secrets: Iterable[str] = ()) -> None:
        self.counts: Counter[str] = Counter()
        secrets = {secret for secret in extra_secrets if len(secret) >= MIN_SECRET}
        forms = {form for secret in secrets for form in forms_of(secret)}
        # The longest first: one secret may be the beginning of another.
        self._long = sorted((form for form in forms if len(form) >= _MIN_SUBSTRING), key=len, reverse=True)
        short = sorted(forms - set(self._long), key=len, reverse=True)
        self._alone = [Rule(OWN_SECRET, "", rf"(?:^|[^\pL\pN_])({escaped(form)})(?:$|[^\pL\pN_])") for form in short]
        self._triggered = trigger_set((*self._long, *short)).Match

    def text(self, text: str) -> str:
        """The text without what must not be kept; the same object when there is nothing."""
        try:
            encoded = text.encode()
        except UnicodeEncodeError:
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            encoded = text.encode()
        triggered = self._triggered(encoded)
        return text if triggered is None else self._redacted(encoded, sorted(triggered)).decode()

    def is_clean(self, texts: Iterable[str]) -> bool:
        """True when none of the texts holds anything that a rule may apply to; one look at all of them."""
        try:
            return self._triggered("\n".join(texts).encode()) is None
        except UnicodeEncodeError:
            return False

    def is_clean_json(self, documents: Iterable[bytes]) -> bool:
        """True when `encoded` would find nothing to redact in any of these JSON texts; one look at all of them."""
        return self._triggered(b"\n".join(documents)) is None

    def value(self, value: Any) -> Any:
        """A JSON-like value with every text in it redacted, names of members included."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return self._members(value)
        if isinstance(value, list | tuple):
            return [self.value(member) for member in value]
        if isinstance(value, int) and value >= _CARD_SIZED:
            redacted = self.text(str(value))
            return value if redacted == str(value) else redacted
        return value

    def encoded(self, value: Any) -> bytes:
        """The value, or Struct, as redacted JSON; one with nothing to redact is looked at only once, as bytes."""
        try:
            line = _encode(value)
        except UnicodeEncodeError:
            return _encode(self.value(msgspec.to_builtins(value)))
        return line if self._triggered(line) is None else _encode(self.value(msgspec.json.decode(line)))

    def _members(self, value: dict[str, Any]) -> dict[str, Any]:
        members: dict[str, Any] = {}
        for name, member in value.items():
            kept = unique = self.text(name)
            repetition = 1
            while unique in members:
                repetition += 1
                unique = f"{kept}#{repetition}"
            members[unique] = self._member(name, member)
        return members

    def _member(self, name: str, member: Any) -> Any:
        if isinstance(member, str) and member and is_secret_name(name) and not is_placeholder(member):
            self.counts["assignment"] += 1
            return "[REDACTED:assignment]"
        return self.value(member)

    def _redacted(self, text: bytes, triggered: list[int]) -> bytes:
        if triggered[-1] >= len(RULES):
            text = self._without_own_secrets(text)
        for rule in (RULES[number] for number in triggered if number < len(RULES)):
            text = self._without(rule, text)
        return text

    def _without_own_secrets(self, text: bytes) -> bytes:
        for form in self._long:
            self.counts[OWN_SECRET] += text.count(form.encode())
            text = text.replace(form.encode(), f"[REDACTED:{OWN_SECRET}]".encode())
        for rule in self._alone:
            text = self._without(rule, text)
        return text

    def _without(self, rule: Rule, text: bytes) -> bytes:
        """The text without what one rule finds."""
        search = compiled(rule.pattern).search
        pieces: list[bytes] = []
        end = 0
        match = search(text)
        while match is not None:
            found = match.span(match.lastindex or 0)
            span = found if rule.check is None else rule.check(text, found)
            if span is not None:
                pieces += (text[end : span[0]], f"[REDACTED:{rule.name}]".encode())
                end = following = span[1]
                self.counts[rule.name] += 1
            else:
                following = _after_word(text, found[0]) if rule.is_number else match.end()
            match = search(text, following)
        return b"".join((*pieces, text[end:])) if pieces else text


_word = re.compile(rb"[0-9A-Za-z+(]+").match


def _after_word(text: bytes, start: int) -> int:
    """Where the first word or number of a refused find ends."""
    word = _word(text, start)
    return word.end() if word else start + 1
