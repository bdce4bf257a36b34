"""Detection of answers that seem to address the judge: they get a flag, never another score."""

import re

SUSPECTED = "suspected_injection"
_MAX_CHARACTERS = 50_000
"""Maximum characters of an answer that are searched."""
_MAX_OCCURRENCES = 20
"""Maximum occurrences of one trigger that are checked."""
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
