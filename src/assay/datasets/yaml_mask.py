"""Text that YAML 1.2 and JSON allow but libyaml (YAML 1.1) misreads, hidden from it and restored in the values.

libyaml takes NEL, LS and PS for line breaks and would fold them away; it refuses DEL and the C1 characters even inside
quotes, and it refuses a character escaped as two UTF-16 halves, which is how most JSON writers escape an emoji. Each of
these characters, and the backslash of such a half, is replaced by one private character that the text does not use: one for
one, so that every offset stays true. Whether a control character may stand in a value is for the contract to say.
"""

import re
from collections.abc import Mapping
from itertools import islice

_FOREIGN = (*map(chr, range(0x7F, 0xA0)), "\u2028", "\u2029", "\ufffe", "\uffff")
_HALF_ESCAPE = re.compile(r"(?<!\\)((?:\\\\)*+)\\(?=u[dD][89a-fA-F][0-9a-fA-F]{2})")
"""An odd number of backslashes before `ud83d`: the last one starts an escape."""
_LONG_ESCAPE = re.compile(r"\\U(00[01][0-9a-fA-F]{5})")
_PRIVATE = range(0xF0000, 0x110000)


class Mask:
    """A text with private characters in it, and the way back from its scalars to what was written."""

    def __init__(self, text: str, backslash: str, hidden: Mapping[str, str]) -> None:
        for character, private in hidden.items():
            text = text.replace(character, private)
        self.text = _HALF_ESCAPE.sub(rf"\g<1>{backslash}", text)
        self._half = re.compile(f"{backslash}u([0-9a-fA-F]{{4}})")
        self._private = re.compile(f"[{backslash}{''.join(hidden.values())}]")
        self._originals = {ord(backslash): "\\", **{ord(private): character for character, private in hidden.items()}}

    def restore(self, value: str, *, is_escaped: bool) -> str:
        """The value of one scalar as it was written; escapes are resolved where the scalar has them (double quotes)."""
        if value.isascii() or not self._private.search(value):
            return value
        if is_escaped and self._half.search(value):
            halves = self._half.sub(lambda match: chr(int(match.group(1), 16)), value)
            value = halves.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        return value.translate(self._originals)


def mask_text(text: str) -> Mask | None:
    """The mask that the text needs; None for nearly every text."""
    found = [character for character in _FOREIGN if character in text]
    if not found and not (("\\ud" in text or "\\uD" in text) and _HALF_ESCAPE.search(text)):
        return None
    taken = set(text) | {chr(int(digits, 16)) for digits in _LONG_ESCAPE.findall(text) if int(digits, 16) < 0x110000}
    free = (private for private in map(chr, _PRIVATE) if private not in taken)
    private = [*islice(free, len(found) + 1)]
    # Only a text written for it uses up all 131,072 private characters; libyaml then reads or refuses it as it is.
    return Mask(text, private[0], dict(zip(found, private[1:], strict=True))) if len(private) > len(found) else None
