"""Answers that seem to talk to the judge: counted and shown, never a reason for another score."""

import re

SUSPECTED = "suspected_injection"
_SEARCHED = 50_000
"""Characters of an answer that are looked at."""
_MOST_PLACES = 20
"""Occurrences of one trigger that are looked at."""
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
"""Lower-case words that are quick to find, and what must follow for them to mean something."""


def suspicion_flags(answer: str) -> tuple[str, ...]:
    """The flag for an answer that reads like instructions or a verdict for the judge; empty otherwise."""
    text = answer[:_SEARCHED].lower()
    found = [trigger for trigger in _TRIGGERS if trigger in text]
    return (SUSPECTED,) if any(_means_it(text, trigger, _TRIGGERS[trigger]) for trigger in found) else ()


def _means_it(text: str, trigger: str, pattern: str) -> bool:
    compiled, place = re.compile(pattern), -1
    for _ in range(_MOST_PLACES):
        place = text.find(trigger, place + 1)
        if place < 0:
            return False
        if compiled.match(text, place):
            return True
    return False
