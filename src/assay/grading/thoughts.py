"""What models write around an answer and is no part of it: thoughts before it, marks of its end after it."""

import re

_TAG = re.compile(
    r"(?:<|\[(?=/?think\]))(/?)(think|thinking|thoughts?|reasoning|reflection|scratchpad)\b[^<>\[\]]{0,100}[>\]]", re.IGNORECASE
)
_ENDS = ("</s>", "<eos>", "<end_of_turn>", "<|im_end|>", "<|endoftext|>", "<|end_of_text|>", "<|eot_id|>", "<|end|>", "<|return|>")


def without_end_marks(text: str) -> str:
    """The text without the marks that models leave after their last word."""
    bare = text.rstrip()
    while bare.endswith(_ENDS):
        mark = next(mark for mark in _ENDS if bare.endswith(mark))
        bare = bare.removesuffix(mark).rstrip()
    return bare


def has_thought_tag(text: str) -> bool:
    """True when a thought begins or ends somewhere in the text."""
    return _TAG.search(text) is not None


def after_thoughts(text: str) -> str:
    """The text without the closed thoughts at its start; one that is not closed stays, and so does any that comes later."""
    text = text.removeprefix("\ufeff").lstrip()
    while tag := _TAG.match(text):
        end = None if tag.group(1) else _end_of_thought(text, tag)
        if end is None:
            break
        text = text[end:].lstrip()
    return text


def _end_of_thought(text: str, opening: re.Match[str]) -> int | None:
    name = opening.group(2).lower()
    tags = _TAG.finditer(text, opening.end())
    return next((tag.end() for tag in tags if tag.group(1) and tag.group(2).lower() == name), None)


def without_thoughts(text: str) -> str:
    """The text outside of all thoughts; one without an end goes on to the end, one without a beginning starts at the start."""
    kept: list[str] = []
    start, is_thought = 0, False
    for tag in _TAG.finditer(text):
        if not tag.group(1):
            kept += [] if is_thought else [text[start : tag.start()]]
            is_thought = True
        elif is_thought:
            is_thought = False
        else:
            kept.clear()
        start = tag.end()
    return " ".join(kept if is_thought else [*kept, text[start:]])
