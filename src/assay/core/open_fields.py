"""Open fields of batch_v1: which model sees what of `input` and `reference` besides `prompt` and `answer`, and as what text.

The rule is part of what models are asked, so it never changes for a stored case: another rule is another version.
Decision 024 explains it; the reference of the contract states it for authors.
"""

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import msgspec

from assay.core.case import Case
from assay.core.field_uses import FieldUse

VERSION = 1
"""Of the rule; a case says by which version its open fields are shown."""
UNSENT_REFERENCE = ("source_metadata", "source_tags")
"""Members of `reference` in which a conversion keeps metadata and tags that batch_v1 has no room for: provenance, not grading."""
_MESSAGES = "messages"
_ROLES = ("user", "assistant", "system")

_NAME_PARTS = re.compile(r"[^\W\d_]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_GRADING_PART = re.compile(
    r"answer|rubric|criteri(?:on|um|a)|correct|(?<!re)(?<!dis)(?<!ab)solution|expected|expectation|groundtruth|markscheme"
    r"|^(?:gold|golden|true|target)labels?$|^key(?:points?|facts?)$|^(?:examiner|assessor|annotator)s?$"
    r"|^(?:grading|graders?|graded|judges?|judging|evals?|evaluat\w*|marking|scoring|references?|refs?|rationales?|distractors?)$"
    r"|^(?:must|should)$"
    # The same words in the languages that the documentation names.
    r"|antwort|losung|loesung|richtig|korrekt|bewertung|erwartet|reponse|corrige|bareme|attendu|respuesta|solucion|risposta"
    r"|soluzione|resposta|solucao|antwoord|ответ|решени|答案|解答|正解"
)
"""A part of a name that says grading, whatever stands next to it."""
_KEY_PARTS = frozenset((
    "key", "keys", "gold", "golden", "ideal", "ideals", "target", "targets", "label", "labels", "truth", "truths", "verdict",
    "score", "scores", "grade", "grades", "note", "notes", "explanation", "explanations", "justification", "output", "outputs",
    "completion", "completions", "response", "responses", "ans", "gt", "sol", "soln", "cop", "y", "chosen", "rejected", "preferred",
    "right", "wrong", "best", "worst", "winning", "winner", "test", "tests", "check", "checks", "feedback", "reasoning", "cot",
    "hidden", "secret", "private", "oracle", "assert", "asserts", "assertion", "assertions", "judgment", "judgments", "judgement",
    "judgements", "mark", "marks", "class", "result", "results", "outcome", "outcomes",
))  # fmt: skip
"""A name made of these says grading; next to other words it does only where those are neutral: `gold_label`, not `gold_price`."""
_NEUTRAL_PARTS = frozenset((
    "a", "an", "the", "is", "are", "of", "for", "in", "final", "true", "model", "sample", "human", "max", "min", "total", "id",
    "ids", "text", "texts", "index", "indices", "idx", "letter", "letters", "value", "values", "number", "num", "no", "nr", "list",
    "string", "raw", "official", "suggested", "desired", "intended", "actual", "ground", "standard", "choice", "choices", "option",
    "options", "point", "points", "fact", "facts", "phrase", "phrases", "item", "items", "mc", "mcq", "single", "multi",
    "case", "cases", "teacher", "teachers", "author", "authors", "reviewer", "instructor", "internal", "dataset",
    "scheme", "guide", "guidance", "guideline", "guidelines", "sheet",
))  # fmt: skip
_FORM_PARTS = frozenset((
    "choice", "choices", "option", "options", "format", "formats", "type", "types", "language", "lang", "length", "style",
    "instruction", "instructions", "template", "schema", "unit", "units", "candidates",
))  # fmt: skip
"""`answer_choices` and `answer_format` belong to the question, although they name the answer."""
_CHOICE_PARTS = frozenset(("choice", "choices", "option", "options", "alternative", "alternatives"))
_WHOLE_PARTS = frozenset((
    "example", "examples", "demonstration", "demonstrations", "demo", "demos", "shot", "shots", "history", "conversation",
    "messages", "dialogue", "dialog", "turns", "tool", "tools", "function", "functions", "schema", "schemas",
))  # fmt: skip
"""What is below such a name is shown as it is: the answers of examples, and names in a schema, are part of the question."""
_LABELS = ("id", "letter", "label", "key", "name")
_VERDICTS = frozenset(("correct", "incorrect", "true", "false", "right", "wrong", "yes", "no", "gold", "good", "bad", "answer"))
"""What a member of a choice says that tells which one is right, and names none."""
_TEXTS = ("text", "content", "option", "choice", "title", "description", "value")
"""Members of a choice that the candidate sees; all others might say which one is right."""
_PAIR = {"id", "text"}
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_DEEPEST = 64
"""Levels of a value in which names are looked at; what is nested deeper is for judges only."""
_LONGEST_NAME = 100
"""Longer names are not remembered."""


class Field(NamedTuple):
    """One open field as a text for a model."""

    name: str
    text: str


def question_fields(case: Case) -> tuple[Field, ...]:
    """What belongs to the question besides the prompt: for the candidate and for judges."""
    shown = ((name, _question_part(name, value)) for name, value in _members(case, "input") if not _is_key(name, value))
    return tuple(Field(name, field_text(name, value)) for name, value in shown if not _is_empty(value))


def grading_fields(case: Case) -> tuple[Field, ...]:
    """What only judges see: all further members of `reference`, and what says grading in `input`."""
    return (*_keys(case), *_references(case))


def stored_case(record: Mapping[str, Any]) -> Case | None:
    """The case of a stored record that has open fields; None for any other."""
    return msgspec.convert(record, Case) if record.get("open_fields") is not None else None


def _keys(case: Case) -> Iterator[Field]:
    for name, value in _members(case, "input"):
        if _is_empty(value):
            continue
        if _is_key(name, value):
            yield Field(name, field_text(name, value))
        elif _question_part(name, value) != value:
            # With what the candidate does not see of it.
            yield Field(name, json.dumps(value, ensure_ascii=False))


def _references(case: Case) -> Iterator[Field]:
    for name, value in _members(case, "reference"):
        if name not in UNSENT_REFERENCE and not _is_empty(value):
            yield Field(name, field_text(name, value))


def field_uses(given: Mapping[str, Any], reference: Mapping[str, Any]) -> Iterator[FieldUse]:
    """Where each open member of `input` and `reference` goes, in the order of the record."""
    for name, value in given.items():
        if name != "prompt" and not _is_empty(value):
            yield from _input_uses(name, value)
    for name, value in reference.items():
        if name != "answer" and not _is_empty(value):
            yield FieldUse(f"reference.{name}", "not_sent" if name in UNSENT_REFERENCE else "judge_only")


def _input_uses(name: str, value: Any) -> Iterator[FieldUse]:
    field = f"input.{name}"
    if _is_key(name, value):
        yield FieldUse(field, "judge_only")
        return
    shown = value if type(value) is str else _question_part(name, value)
    if shown is value:
        yield FieldUse(field, "candidate_and_judge")
        return
    if not _is_empty(shown):
        yield FieldUse(field, "candidate_and_judge")
    if shown != value:
        yield from (FieldUse(path, "judge_only") for path in dict.fromkeys(_hidden_paths(value, shown, field)))


def earlier_messages(given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The conversation in `input.messages` where it is one: objects with a known role and a text, and nothing else."""
    messages = given.get(_MESSAGES)
    return messages if type(messages) is list and messages and all(map(_is_message, messages)) else []


def _is_message(value: Any) -> bool:
    return (
        type(value) is dict
        and value.keys() == {"role", "content"}
        and value["role"] in _ROLES
        and type(value["content"]) is str
        and bool(value["content"].strip())
    )


def _is_key(name: str, value: Any) -> bool:
    """True for a member of `input` that is for judges only; one `choice` among `choices` is the right one."""
    kind = _kind(name)
    return kind == "key" or (kind == "one_choice" and type(value) in (str, int, float, bool))


def says_grading(name: str) -> bool:
    """True for a name of something that must not be shown to the candidate: a rubric, a key, a note for graders."""
    return _kind(name) == "key"


_Kind = Literal["key", "one_choice", "choices", "whole", "other"]


def _kind(name: str) -> _Kind:
    """What a name says of its value; names that no file repeats often are not worth remembering."""
    return _remembered_kind(name) if len(name) <= _LONGEST_NAME else _remembered_kind.__wrapped__(name)


@lru_cache(4096)
def _remembered_kind(name: str) -> _Kind:
    parts = _parts(name)
    keys = [part for part in parts if part in _KEY_PARTS]
    if _names_key(parts) or (keys and all(part in _KEY_PARTS or part in _NEUTRAL_PARTS for part in parts)):
        return "key"
    if parts[0] in ("choice", "option") and all(part in _NEUTRAL_PARTS for part in parts):
        return "one_choice"
    if any(part in _CHOICE_PARTS for part in parts):
        return "choices"
    return "whole" if any(part in _WHOLE_PARTS for part in parts) else "other"


def _says_grading_inside(name: str) -> bool:
    """The same of a name inside a value, where words such as `label` or `score` are mostly part of the material."""
    return _kind(name) == "key" and _is_key_inside(name)


def _is_key_inside(name: str) -> bool:
    parts = _parts(name)
    return _names_key(parts) or parts in (("gold",), ("truth",), ("ground", "truth"))


def _names_key(parts: tuple[str, ...]) -> bool:
    strong = [part for part in parts if _GRADING_PART.search(part)]
    is_form = parts[-1] in _FORM_PARTS and all(part in ("answer", "answers") for part in strong)
    return bool(strong) and not is_form


def _parts(name: str) -> tuple[str, ...]:
    """The words of a name, in small letters without accents: `correctChoiceIds` and `CORRECT-choice_ids` have the same."""
    words = _HUMP.sub("_", unicodedata.normalize("NFKD", name)).casefold()
    plain = "".join(letter for letter in words if unicodedata.category(letter) not in ("Mn", "Cf"))
    return tuple(_NAME_PARTS.findall(plain)) or ("",)


def _members(case: Case, field: str) -> list[tuple[str, Any]]:
    """The open members of a case that the rule is for; one that was stored before there was a rule has none."""
    if case.open_fields != VERSION:
        return []
    members = case.extra.get(field, {})
    return [item for item in members.items() if not (field == "input" and item[0] == _MESSAGES and case.messages)]


def _question_part(name: str, value: Any, *, depth: int = 1) -> Any:
    """What of a value the candidate sees."""
    kind = _kind(name)
    if kind in ("choices", "one_choice"):
        return _shown_choices(value)
    return value if kind == "whole" else _shown(value, depth=depth)


def _shown(value: Any, *, depth: int) -> Any:
    """The value without members whose names say grading, at any depth."""
    if type(value) not in (dict, list):
        return value
    if depth > _DEEPEST:
        return None
    if type(value) is list:
        return [_shown(member, depth=depth + 1) for member in value]
    return {name: _question_part(name, member, depth=depth + 1) for name, member in value.items() if not _says_grading_inside(name)}


def _is_plain_choice(choice: Any) -> bool:
    """Nothing can be hidden in a text, nor in an id with a text; nearly all choices are so."""
    is_pair = type(choice) is dict and choice.keys() == _PAIR
    return type(choice) is str or (is_pair and type(choice["id"]) is str and type(choice["text"]) is str)


def _shown_choices(value: Any) -> Any:
    """The choices without anything that could say which one is right: of each its label and its text."""
    if type(value) is list:
        if all(map(_is_plain_choice, value)):
            return value
        label = next((name for name in _LABELS if _are_labels([_member(choice, name) for choice in value])), "")
        return [_shown_choice(choice, label) for choice in value]
    if type(value) is not dict:
        return value
    if type(value.get("text")) is list and type(value.get("label")) is list:
        return {"text": value["text"], **({"label": value["label"]} if _are_labels(value["label"]) else {})}
    named = {name: choice for name, choice in value.items() if not _says_grading_inside(name)}
    if named and all(_is_verdict(choice) for choice in named.values()):
        # What is right and what is wrong, by the words of the choices.
        return list(named)
    return {name: _shown_choice(choice, "") for name, choice in named.items()}


def _member(choice: Any, name: str) -> Any:
    return next((member for own, member in choice.items() if own.casefold() == name), None) if type(choice) is dict else None


def _are_labels(values: list[Any]) -> bool:
    """True for names of choices, which differ, and do not say what is right."""
    is_plain = all(type(value) in (str, int) for value in values)
    is_verdict = is_plain and (any(_is_verdict(value) for value in values if type(value) is str) or {*values} <= {0, 1})
    return is_plain and not is_verdict and len({str(value) for value in values}) == len(values)


def _is_verdict(value: Any) -> bool:
    return value.strip().casefold() in _VERDICTS if type(value) is str else type(value) in (int, bool) and value in (0, 1)


def _shown_choice(choice: Any, label: str) -> Any:
    """A choice with the member that is its label, if any, and the one that is its text."""
    if type(choice) is list:
        return [part for part in choice if type(part) is str and not _is_verdict(part)] or choice[:1]
    if type(choice) is not dict:
        return choice
    plain = {name: member for name, member in choice.items() if type(member) in (str, int, float)}
    text = next((name for known in _TEXTS for name in plain if name.casefold() == known), "")
    return {name: member for name, member in plain.items() if name == text or name.casefold() == label}


def _hidden_paths(value: Any, shown: Any, path: str) -> Iterator[str]:
    """Where in a value the candidate does not see something."""
    if type(value) is dict and type(shown) is dict:
        for name, member in value.items():
            if name not in shown:
                yield f"{path}.{name}"
            elif shown[name] != member:
                yield from _hidden_paths(member, shown[name], f"{path}.{name}")
    elif type(value) is list and type(shown) is list and len(value) == len(shown):
        for member, part in zip(value, shown, strict=True):
            if part != member:
                yield from _hidden_paths(member, part, f"{path}[]")
    else:
        yield path


def _is_empty(value: Any) -> bool:
    """Nothing that could be said: null, blank text, an empty list or object, or a list of such."""
    if type(value) is str:
        return not value.strip()
    if type(value) is list:
        return all(map(_is_empty, value))
    return value is None or value == {}


def field_text(name: str, value: Any) -> str:
    """A value as a model reads it: texts as they are, choices as labelled lines, lists of texts numbered, the rest as JSON."""
    if type(value) is str:
        return value
    if _kind(name) in ("choices", "one_choice"):
        lines = _choice_lines(value)
        if lines:
            return "\n".join(lines)
    if type(value) is list and all(type(member) is str for member in value):
        return value[0] if len(value) == 1 else "\n\n".join(f"({number})\n{member}" for number, member in enumerate(value, 1))
    return json.dumps(value, ensure_ascii=False)


def _choice_lines(value: Any) -> list[str]:
    """A line for each choice; nothing where the value is written in another way."""
    if type(value) is dict and type(value.get("text")) is list and value.keys() <= {"text", "label"}:
        return _lines(value.get("label"), value["text"])
    if type(value) is dict:
        return _lines(list(value), [_only_member(choice) for choice in value.values()])
    if type(value) is not list:
        return []
    if all(type(choice) is dict and len(choice) == 2 for choice in value):
        texts = [next((member for name, member in choice.items() if name.casefold() in _TEXTS), None) for choice in value]
        labels = [next((choice[name] for name in choice if name.casefold() in _LABELS), None) for choice in value]
        return _lines(labels, texts)
    return _lines(None, [_only_member(choice) for choice in value])


def _only_member(choice: Any) -> Any:
    return next(iter(choice.values())) if type(choice) is dict and len(choice) == 1 else choice


def _lines(labels: list[Any] | None, texts: list[Any]) -> list[str]:
    """Choices without labels get the letters of the alphabet, unless they begin with them."""
    if not all(type(text) in (str, int, float) for text in texts):
        return []
    if labels is None:
        letters = list(_LETTERS) if len(texts) <= len(_LETTERS) else list(map(str, range(1, len(texts) + 1)))
        if all(re.match(rf"\(?{letter}[).:]", str(text).lstrip()) for letter, text in zip(letters, texts, strict=False)):
            return list(map(str, texts))
        labels = letters[: len(texts)]
    is_labelled = len(labels) == len(texts) and all(type(label) in (str, int) for label in labels)
    return [f"{label}. {text}" for label, text in zip(labels, texts, strict=True)] if is_labelled else []
