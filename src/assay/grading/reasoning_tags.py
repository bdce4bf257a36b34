"""Tags that models write around an answer: reasoning before it, end markers after it."""

import re

_TAG = re.compile(
    r"(?:<|\[(?=/?think\]))(/?)(think|thinking|thoughts?|reasoning|reflection|scratchpad)\b[^<>\[\]]{0,100}[>\]]", re.IGNORECASE
)
_ENDS = ("</s>", "<eos>", "<end_of_turn>", "<|im_end|>", "<|endoftext|>", "<|end_of_text|>", "<|eot_id|>", "<|end|>", "<|return|>")


def without_end_marks(text: str) -> str:
    """Remove the end markers that models leave after their last word."""
    bare = text.rstrip()
    while bare.endswith(_ENDS):
        marker = next(marker for marker in _ENDS if bare.endswith(marker))
        bare = bare.removesuffix(marker).rstrip()
    return bare


def has_thought_tag(text: str) -> bool:
    """Tell whether a reasoning tag is anywhere in the text."""
    return _TAG.search(text) is not None


def after_thoughts(text: str) -> str:
    """Remove closed reasoning blocks at the start; unclosed and later ones stay."""
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
    """Remove all reasoning; a block without an end runs to the end, one without a start begins at the start."""
    pieces: list[str] = []
    start, is_thought = 0, False
    for tag in _TAG.finditer(text):
        if not tag.group(1):
            pieces += [] if is_thought else [text[start : tag.start()]]
            is_thought = True
        elif is_thought:
            is_thought = False
        else:
            pieces.clear()
        start = tag.end()
    return " ".join(pieces if is_thought else [*pieces, text[start:]])
