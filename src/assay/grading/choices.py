"""The choice that an answer makes: most answers are just a name, and only the others are parsed word by word."""

import re
from collections.abc import Callable
from importlib import import_module

import msgspec

from assay.core.case import Choice

_SHORT = re.compile(
    r"\s*(?:The (?:correct |final )?answer is:?|(?:Final )?Answer:?)?\s*[(*]{0,3}([^\s()*.:,]{1,12})[)*]{0,3}\.?\s*", re.IGNORECASE
)
"""Matches one name with the usual words before it, and nothing else."""
_LONGEST_SHORT = 200


class _ChoiceObject(msgspec.Struct):
    """The JSON object that a question asks for."""

    answer: str


_decode_given = msgspec.json.Decoder(_ChoiceObject).decode


def selected_choices(answer: str, choices: tuple[Choice, ...]) -> tuple[str, ...]:
    """Find the ids of the chosen choices in the question's order; empty for none, an unknown one or ambiguous ones."""
    named = _plain_name(answer)
    if any(named == choice.id for choice in choices):
        return (named,)
    # Imported lazily: a run without multiple choice, or with plain answers, needs no vocabulary of nine languages.
    read: Callable[..., tuple[str, ...]] = import_module("assay.grading.choice_parser").read_choices
    return read(answer, choices)


def _plain_name(answer: str) -> str:
    """Return the name in an answer that is just a name, or the requested object; most answers are one of these."""
    if answer[:3] == "```":
        answer = answer.strip().removeprefix("```json").strip("`").strip()
    if answer[:1] == "{" and answer.count('nswer"') + answer.count('nswers"') == 1:
        try:
            return _decode_given(answer).answer
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            return ""
    short = _SHORT.fullmatch(answer) if len(answer) < _LONGEST_SHORT else None
    return short.group(1) if short else ""
