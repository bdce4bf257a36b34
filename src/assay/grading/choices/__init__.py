"""The choice that an answer makes: most answers are one name, and only the others are read word by word."""

import re
from collections.abc import Callable
from importlib import import_module

import msgspec

from assay.core.case import Choice

_SHORT = re.compile(
    r"\s*(?:The (?:correct |final )?answer is:?|(?:Final )?Answer:?)?\s*[(*]{0,3}([^\s()*.:,]{1,12})[)*]{0,3}\.?\s*", re.IGNORECASE
)
"""Nothing but one name and the usual words before it."""
_LONGEST_SHORT = 200


class _Given(msgspec.Struct):
    """The object that a question asks for."""

    answer: str


_decode_given = msgspec.json.Decoder(_Given).decode


def selected_choices(answer: str, choices: tuple[Choice, ...]) -> tuple[str, ...]:
    """Ids of the chosen choices in the question's order; empty when the answer names none, an unknown one or several ways."""
    named = _plain_name(answer)
    if any(named == choice.id for choice in choices):
        return (named,)
    # Loaded here: a run without multiple choice, or with plain answers, needs no words of nine languages.
    read: Callable[..., tuple[str, ...]] = import_module("assay.grading.choices.reading").read_choices
    return read(answer, choices)


def _plain_name(answer: str) -> str:
    """The name in an answer that is nothing else, or that is the object which was asked for; this is what most answers are."""
    if answer[:3] == "```":
        answer = answer.strip().removeprefix("```json").strip("`").strip()
    if answer[:1] == "{" and answer.count('nswer"') + answer.count('nswers"') == 1:
        try:
            return _decode_given(answer).answer
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            return ""
    short = _SHORT.fullmatch(answer) if len(answer) < _LONGEST_SHORT else None
    return short.group(1) if short else ""
