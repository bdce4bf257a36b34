"""Texts of answers: tags that models write around them, and signs that one addresses the judge."""

import re

_TAG = re.compile(
    r"(?:<|\[(?=/?think\]))(/?)(think|thinking|thoughts?|reasoning|reflection|scratchpad)\b[^<>\[\]]{0,100}[>\]]", re.IGNORECASE
)
# Servers of open models often pass these tokens on as text.
_ENDS = ("</s>", "<eos>", "<end_of_turn>", "<|im_end|>", "<|endoftext|>", "<|end_of_text|>", "<|eot_id|>", "<|end|>", "<|return|>")


def without_end_marks(text: str) -> str:
    """Remove the end markers that models leave after their last word."""
    bare = text.rstrip()
    # A loop and not a pattern: a model that got stuck may have repeated the marker a thousand times.
    while bare.endswith(_ENDS):
        marker = next(marker for marker in _ENDS if bare.endswith(marker))
        bare = bare.removesuffix(marker).rstrip()
    return bare


def has_thought_tag(text: str) -> bool:
    """Return whether a reasoning tag is anywhere in the text."""
    return _TAG.search(text) is not None


def after_thoughts(text: str) -> str:
    """Remove closed reasoning blocks at the start; unclosed and later ones stay."""
    text = text.removeprefix("\ufeff").lstrip()
    # Only at the start: a judge's reply that mentions such a tag later is not reasoning before an answer, and may be an attack.
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
            # A closing tag alone: servers may cut the opening one off with the prompt, so everything before it was reasoning.
            pieces.clear()
        start = tag.end()
    return " ".join(pieces if is_thought else [*pieces, text[start:]])


SUSPECTED = "suspected_injection"
# Only a flag depends on it, so a search that is cut short loses a hint and never a grade.
_MAX_CHARACTERS = 50_000
"""Maximum characters of an answer that are searched."""
_MAX_OCCURRENCES = 20
"""Maximum occurrences of one trigger that are checked."""
# Answers are read as data, and judges see them between marks; these words only make a person look at the record.
_TRIGGERS: dict[str, str] = {
    "score": r"score[\"']?\s*:\s*[0-9]",
    "criteria_met": r"criteria_met",
    "ignor": r"ignor\w*\b.{0,40}\b(?:rubric|instruction|criteri|grille|prompt|anweisung)",
    "disregard": r"disregard\b.{0,40}\b(?:rubric|instruction|criteri|prompt)",
    "judge": r"judge\b.{0,40}\b(?:must|should)\b.{0,20}\b(?:output|score|grade|give)",
    "evaluator": r"evaluator\b",
    "grader": r"grader\b",
    "examiner": r"examiner\b.{0,40}\bcertif",
    "give": r"give\b.{0,40}\b(?:score|grade|full marks|5\b(?!\s*\w))",
    "award": r"award\b.{0,20}\b(?:score|grade|full marks|5\b(?!\s*\w))",
    "rubric": r"rubric\b.{0,20}\b(?:update|contains an error)",
    "reference answer": r"reference answer\W{0,3}updated",
    "to grade": r"to grade\b",
    "assistant>": r"assistant>",
    "user>": r"user>",
    "system>": r"system>",
    "untrusted>": r"untrusted>",
    "inst]": r"inst\]",
    "<|im_": r"<\|im_(?:start|end)",
    "end candidate": r"end candidate",
    "grade:": r"grade:\s*[0-9]",
}
"""Lower-case triggers, which are fast to find, and the pattern that must match there."""


def suspicion_flags(answer: str) -> tuple[str, ...]:
    """Flag an answer that reads like instructions or a verdict for the judge; empty otherwise."""
    text = answer[:_MAX_CHARACTERS].lower()
    found = [trigger for trigger in _TRIGGERS if trigger in text]
    return (SUSPECTED,) if any(_matches(text, trigger, _TRIGGERS[trigger]) for trigger in found) else ()


def _matches(text: str, trigger: str, pattern: str) -> bool:
    compiled, offset = re.compile(pattern), -1
    for _ in range(_MAX_OCCURRENCES):
        offset = text.find(trigger, offset + 1)
        if offset < 0:
            return False
        if compiled.match(text, offset):
            return True
    return False
