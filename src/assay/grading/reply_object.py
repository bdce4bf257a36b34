"""The one JSON object that a reply consists of, or a reason why there is none."""

import re
from typing import Any

import msgspec

from assay.core.json_door import parse_json
from assay.grading.thoughts import after_thoughts, has_thought_tag, without_end_marks

MAX_REPLY_CHARACTERS = 200_000
"""A longer reply is no verdict, whatever it says."""
_MAX_BRACKETS = 200
"""No text nests deeper than it has brackets; beyond, the exact reader looks at the depth."""
_OPENING = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*(?:[\w+.-]+[ \t]*)?(?=(\{)?)[^`\n]*", re.MULTILINE)
_OBJECT_LIKE = re.compile(r"\{\s{0,100}(?:[\"'\u201c\u201d\u2018\u2019\u201e\u00ab]|\\[\"'u]|\w{1,50}\s{0,20}[:=])")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f]")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
REPLACED = "replaced_characters"
"""Flag: a model wrote characters that no store can hold."""
_NO_OBJECT = "it is not one JSON object"


class Refusal(msgspec.Struct, frozen=True):
    """Why a reply is no verdict, in our own words: it goes back to the judge, so it repeats nothing of the reply."""

    reason: str
    is_repeat: bool = False
    """The reply gives back what was to be judged, so that nothing in it may be used."""


class Found(msgspec.Struct, frozen=True):
    """An object and the words around it."""

    members: dict[str, Any]
    around: str = ""


def only_object(text: str) -> dict[str, Any] | Refusal:
    """The members of the object that a reply is, where the words around it do not matter."""
    found = find_object(text)
    return found if isinstance(found, Refusal) else found.members


def find_object(text: str) -> Found | Refusal:
    """The object that is the whole reply, or its only fenced block with no other object beside it."""
    if len(text) > MAX_REPLY_CHARACTERS:
        return Refusal("it is far too long")
    bare = answer_part(text)
    if not bare:
        return Refusal("it is empty")
    block, around = (bare, "") if bare.startswith("{") else _only_block(bare)
    if not block or has_thought_tag(around) or _OBJECT_LIKE.search(around):
        return Refusal(_NO_OBJECT)
    members = _plain_object(block) or _exact_object(block)
    return members if isinstance(members, Refusal) else Found(members, around)


def answer_part(text: str) -> str:
    """The reply without closed thoughts before it and marks of its end after it."""
    return without_end_marks(after_thoughts(text))


def _only_block(text: str) -> tuple[str, str]:
    """What stands in the only fence of a text, and the text around it; empty where there is no fence, or another mark of one."""
    opening = _OPENING.search(text)
    if opening is None:
        return "", text
    fence = opening.group(1)
    start = opening.start(2) if opening.group(2) else opening.end()
    # The mark may stand behind the object instead of below it.
    closing = re.compile(rf"(?:^[ \t]*|\}}[ \t]*){fence[0]}{{{len(fence)},}}[ \t]*\r?$", re.MULTILINE).search(text, start)
    if closing is None:
        return "", text
    end = closing.start() + (closing.group()[0] == "}")
    around = text[: opening.start()] + "\n" + text[closing.end() :]
    return ("", text) if "```" in around or "~~~" in around else (text[start:end].strip(), around)


def _plain_object(text: str) -> dict[str, Any] | None:
    """An object without escapes, quickly; None where only the exact reader can say whether all is well."""
    if "\\" in text or text.count("{") + text.count("[") > _MAX_BRACKETS:
        return None
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None
    if not isinstance(found, dict):
        return None
    # A member that is there twice leaves quotes in the text that the object does not account for.
    return found if text.count('"') == msgspec.json.encode(found).count(b'"') else None


def _exact_object(text: str) -> dict[str, Any] | Refusal:
    document = parse_json(text)
    if not document.is_readable:
        # Models write line breaks into strings as they are; nothing else is mended.
        document = parse_json(_STRING.sub(_escaped, text))
    if not document.is_readable or not isinstance(document.value, dict):
        return Refusal(_NO_OBJECT)
    if any("appears twice" in flaw.message for flaw in document.flaws):
        return Refusal("a member of the object is there twice")
    if any(flaw.code == "value_out_of_range" for flaw in document.flaws):
        return Refusal("it holds a number that is too large")
    return document.value


def _escaped(string: re.Match[str]) -> str:
    return _CONTROL.sub(lambda control: f"\\u{ord(control.group()):04x}", string.group())


def storable(text: str) -> str:
    """The text with U+FFFD in place of NUL and of unpaired surrogates."""
    return _UNSTORABLE.sub("\ufffd", text)
