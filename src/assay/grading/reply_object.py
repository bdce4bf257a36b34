"""Parser of a reply that must be one JSON object, with a reason when it is not."""

import re

import msgspec

from assay.core.canonical import JsonObject
from assay.core.strict_json import parse_json
from assay.grading.reasoning_tags import after_thoughts, has_thought_tag, without_end_marks

MAX_REPLY_CHARACTERS = 200_000
"""A longer reply is never a verdict."""
_MAX_BRACKETS = 200
"""A text nests no deeper than it has brackets; with more, only the strict parser checks the depth."""
_OPENING = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*(?:[\w+.-]+[ \t]*)?(?=(\{)?)[^`\n]*", re.MULTILINE)
_OBJECT_LIKE = re.compile(r"\{\s{0,100}(?:[\"'\u201c\u201d\u2018\u2019\u201e\u00ab]|\\[\"'u]|\w{1,50}\s{0,20}[:=])")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f]")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
REPLACED = "replaced_characters"
"""Flag: a model wrote characters that no store can hold."""
_NO_OBJECT = "it is not one JSON object"


class UnusableReply(msgspec.Struct, frozen=True):
    """Why a reply is unusable, in our own words: it goes back to the judge, so it must not quote the reply."""

    reason: str
    is_repeat: bool = False
    """The reply repeats the text to be judged, so that nothing in it may be used."""


class ParsedObject(msgspec.Struct, frozen=True):
    """An object and the text around it."""

    members: JsonObject
    around: str = ""


def only_object(text: str) -> JsonObject | UnusableReply:
    """Parse a reply whose surrounding text does not matter."""
    found = find_object(text)
    return found if isinstance(found, UnusableReply) else found.members


def find_object(text: str) -> ParsedObject | UnusableReply:
    """Find the object that is the whole reply, or in its only fenced block, with no other object outside."""
    if len(text) > MAX_REPLY_CHARACTERS:
        return UnusableReply("it is far too long")
    bare = answer_part(text)
    if not bare:
        return UnusableReply("it is empty")
    block, around = (bare, "") if bare.startswith("{") else _only_block(bare)
    if not block or has_thought_tag(around) or _OBJECT_LIKE.search(around):
        return UnusableReply(_NO_OBJECT)
    members = _plain_object(block) or _exact_object(block)
    return members if isinstance(members, UnusableReply) else ParsedObject(members, around)


def answer_part(text: str) -> str:
    """Remove closed reasoning before the reply and end markers after it."""
    return without_end_marks(after_thoughts(text))


def _only_block(text: str) -> tuple[str, str]:
    """Split a text into its only fenced block and the rest; the block is empty without a fence, or with several."""
    opening = _OPENING.search(text)
    if opening is None:
        return "", text
    fence = opening.group(1)
    start = opening.start(2) if opening.group(2) else opening.end()
    # The closing fence may follow the object on the same line.
    closing = re.compile(rf"(?:^[ \t]*|\}}[ \t]*){fence[0]}{{{len(fence)},}}[ \t]*\r?$", re.MULTILINE).search(text, start)
    if closing is None:
        return "", text
    end = closing.start() + (closing.group()[0] == "}")
    around = text[: opening.start()] + "\n" + text[closing.end() :]
    return ("", text) if "```" in around or "~~~" in around else (text[start:end].strip(), around)


def _plain_object(text: str) -> JsonObject | None:
    """Parse an object without escapes fast; None when only the strict parser can tell whether it is valid."""
    if "\\" in text or text.count("{") + text.count("[") > _MAX_BRACKETS:
        return None
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None
    if not isinstance(found, dict):
        return None
    # A duplicate member leaves quotes in the text that the decoded object does not account for.
    return found if text.count('"') == msgspec.json.encode(found).count(b'"') else None


def _exact_object(text: str) -> JsonObject | UnusableReply:
    document = parse_json(text)
    if not document.is_readable:
        # Models write raw line breaks into strings; nothing else is repaired.
        document = parse_json(_STRING.sub(_escaped, text))
    if not document.is_readable or not isinstance(document.value, dict):
        return UnusableReply(_NO_OBJECT)
    if any(flaw.kind == "duplicate_name" for flaw in document.flaws):
        return UnusableReply("a member of the object is there twice")
    if any(flaw.code == "value_out_of_range" for flaw in document.flaws):
        return UnusableReply("it holds a number that is too large")
    return document.value


def _escaped(string: re.Match[str]) -> str:
    return _CONTROL.sub(lambda control: f"\\u{ord(control.group()):04x}", string.group())


def storable(text: str) -> str:
    """Replace NUL and unpaired surrogates by U+FFFD."""
    return _UNSTORABLE.sub("\ufffd", text)
