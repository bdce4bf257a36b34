"""Cells as what their column holds: text, lists, choices, criteria, messages, correct choices."""

import ast
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from assay.core.canonical import JsonObject
from assay.datasets.converters.rows import MAX_LITERAL_LENGTH
from assay.datasets.tables.table_rows import is_blank

_LETTER = re.compile(r"[(\[]?([A-Za-z])[)\].:]?")
_NUMBER = re.compile(r"[0-9]{1,3}(?:\.0*)?")
_LETTERED = re.compile(r"(?:[(\[]([A-Za-z])[)\]]\s*|([A-Za-z])(?:[).:]|\s[-\u2013])\s+)(.+)", re.DOTALL)
"""A choice that begins with its letter: `(A) red`, `A. red`, `A - red`."""
_BULLET = re.compile(r"^\s*(?:[-*•\u2013]|\(?[0-9]{1,2}[.)])\s+")
_ROLES = {
    **dict.fromkeys(("human", "user", "prompter", "question", "customer", "client"), "user"),
    **dict.fromkeys(("gpt", "assistant", "model", "bot", "ai", "chatgpt", "agent"), "assistant"),
    **dict.fromkeys(("system", "developer"), "system"),
}
"""Words for the three roles in chat formats."""
_MESSAGE = '[{"role": "user", "content": "..."}]'
MISSING = "missing_required_field"


class CellProblem(NamedTuple):
    """What is wrong with a row, in the column that has it."""

    code: str
    message: str
    column: str = ""
    hint: str = ""


class UnfitCell(ValueError):
    """A cell that cannot be read as what its column holds."""

    def __init__(self, message: str, column: str, *, code: str = "invalid_field_type", hint: str = "") -> None:
        super().__init__(message)
        self.problem = CellProblem(code, message, column, hint)


class ChoiceText(NamedTuple):
    """One choice of a question."""

    text: str
    label: str = ""
    """Label that the table gives it; empty where its position is its name."""


def cell(row: Mapping[str, object], column: str) -> Any:
    """Return a cell of a row; `inputs.question` leads into an object, also one in JSON, unless a column has that very name."""
    if column in row:
        return row[column]
    head, _, rest = column.partition(".")
    while rest:
        inner = object_in(row.get(head))
        if inner is not None and (rest in inner or "." in rest):
            return cell(inner, rest)
        more, _, rest = rest.partition(".")
        head = f"{head}.{more}"
    return None


def object_in(value: object) -> Mapping[str, object] | None:
    """Return the object that a cell is, or holds as JSON or as Python writes it; None for any other value."""
    if isinstance(value, str) and value.lstrip()[:1] == "{" and value.rstrip()[-1:] == "}":
        value = literal(value.strip())
    return value if isinstance(value, Mapping) else None


def literal(text: str) -> Any:
    """Return the value of a JSON or Python literal; None for any other text. Nothing is executed."""
    if len(text) > MAX_LITERAL_LENGTH:
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return None


def text_of(value: object, column: str) -> str:
    """Return a cell as text; numbers and truth values are written out, and a list of one text is that text."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(int(value)) if isinstance(value, float) and value.is_integer() and abs(value) < 1e15 else str(value)
    raise UnfitCell(f"the cell is {kind_of(value)}, not text", column)


def kind_of(value: object) -> str:
    """Name the type of a value for messages."""
    if is_blank(value):
        return "empty"
    if isinstance(value, str):
        return "text"
    return "a list" if isinstance(value, list | tuple) else "an object" if isinstance(value, Mapping) else type(value).__name__


def plain(value: object) -> object:
    """Return a cell as JSON holds it; NaN is how tables write a missing number."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def identifier_of(value: object) -> str:
    """Return a cell as an id."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()


def list_of(value: object) -> list[object]:
    """Return a cell as a list: a list, one written as JSON or as Python writes it, or a text with parts between separators."""
    if isinstance(value, list | tuple):
        return [item for item in value if not is_blank(item)]
    if not isinstance(value, str):
        return [] if is_blank(value) else [value]
    text = value.strip()
    if text[:1] in "[(" and text:
        found = literal(text)
        if isinstance(found, list | tuple):
            return list_of(found)
    for separator in ("\n", "|", ";", ","):
        parts = [part.strip() for part in text.split(separator) if part.strip()]
        if len(parts) > 1:
            return list(parts)
    return [text] if text else []


def texts_of(value: object, column: str) -> list[str]:
    """Return one text or a list of them, which may be written as JSON; other texts are never cut."""
    found = object_in(value)
    if found is not None:
        # Answers as SQuAD has them: {"text": [...], "answer_start": [...]}. Any other object is what is expected as it is.
        inner = next((found[name] for name in ("text", "value", "content", "contexts") if name in found), None)
        value = msgspec.json.encode(found).decode() if inner is None else inner
    if isinstance(value, str) and value.lstrip()[:1] == "[":
        listed = literal(value.strip())
        value = listed if isinstance(listed, list) and listed and all(isinstance(item, str) for item in listed) else value
    items = value if isinstance(value, list | tuple) else [value]
    return [text_of(item, column) for item in items if not is_blank(item)]


def choices_of(value: object, column: str) -> list[ChoiceText]:
    """Return the choices of a cell: texts, objects with a label, a mapping of labels, or texts that begin with their letter."""
    found = object_in(value)
    if found is not None:
        texts, labels = found.get("text", found.get("choices")), found.get("label", found.get("labels"))
        if isinstance(texts, list | tuple):
            if isinstance(labels, list | tuple) and len(labels) == len(texts) and all(isinstance(label, str) for label in labels):
                return [ChoiceText(text_of(text, column), str(label)) for text, label in zip(texts, labels, strict=True)]
            return [ChoiceText(text_of(text, column)) for text in texts]
        return [ChoiceText(text_of(text, column), str(label)) for label, text in found.items() if not is_blank(text)]
    choices = [_choice(item, column) for item in list_of(value)]
    lettered = [_LETTERED.fullmatch(choice.text) for choice in choices]
    # `(A) red`, `(B) green`: only where all of them begin so, in order, is the letter no part of the text.
    letters = [(match.group(1) or match.group(2)).upper() for match in lettered if match]
    if len(choices) > 1 and letters == [chr(ord("A") + at) for at in range(len(choices))]:
        return [ChoiceText(match.group(3), letter) for match, letter in zip(lettered, letters, strict=True) if match]
    return choices


def _choice(item: object, column: str) -> ChoiceText:
    if not isinstance(item, Mapping):
        return ChoiceText(text_of(item, column))
    text = next((item[name] for name in ("text", "content", "value", "choice", "option") if not is_blank(item.get(name))), None)
    label = next((item[name] for name in ("label", "id", "key", "letter") if not is_blank(item.get(name))), "")
    if text is None:
        raise UnfitCell(f"a choice has no text; its members are {', '.join(map(str, list(item)[:5]))}", column)
    return ChoiceText(text_of(text, column), text_of(label, column))


class AnswerKey(NamedTuple):
    """How the column with the correct choice is read."""

    column: str
    first: int | None = None
    """Number of the first choice; None where the column has no numbers."""


def correct_choices(value: object, choices: Sequence[ChoiceText], key: AnswerKey) -> list[int]:
    """Return the positions of the choices that a cell names by label, letter, number or text; raises UnfitCell."""
    items = value if isinstance(value, list | tuple) else [value]
    if isinstance(value, str):
        found = literal(value.strip()) if value.lstrip()[:1] == "[" else None
        # `A, C` names two choices; a text with a comma is one.
        parts = [part.strip() for part in re.split(r"[,;/]", value)]
        is_several = len(parts) > 1 and all(map(_LETTER.fullmatch, parts))
        items = found if isinstance(found, list) else parts if is_several else [value]
    return list(dict.fromkeys(_position(item, choices, key) for item in items))


def _position(value: object, choices: Sequence[ChoiceText], key: AnswerKey) -> int:
    text = text_of(value, key.column)
    for at, choice in enumerate(choices):
        if choice.label and choice.label == text:
            return at
    if key.first is not None and _NUMBER.fullmatch(text):
        at = int(text.partition(".")[0]) - key.first
        if 0 <= at < len(choices):
            return at
    same = [at for at, choice in enumerate(choices) if _same(choice.text, text)]
    if len(same) == 1:
        return same[0]
    letter, lettered = _LETTER.fullmatch(text), _LETTERED.fullmatch(text)
    named = letter.group(1) if letter else (lettered.group(1) or lettered.group(2)) if lettered else ""
    at = ord(named.upper()) - ord("A") if named else len(choices)
    # `B) green` must also say what choice B says.
    if at < len(choices) and (letter or (lettered and _same(lettered.group(3), choices[at].text))):
        return at
    shown = text if len(text) <= 60 else f"{text[:60]}…"
    message = f"{shown!r} is not one of the {len(choices)} choices"
    raise UnfitCell(message, key.column, code="invalid_enum_value", hint="write its letter or its text")


def _same(one: str, other: str) -> bool:
    return one.strip().casefold() == other.strip().casefold()


def criteria_of(value: object, column: str) -> list[JsonObject]:
    """Return the criteria of a cell: a list, its JSON, or lines that all begin with a bullet or a number; else one criterion."""
    if is_blank(value):
        raise UnfitCell(f"the row has no rubric: the column {column!r} is empty", column, code=MISSING)
    criteria: list[JsonObject] = []
    for position, item in enumerate(_criterion_items(value), 1):
        if isinstance(item, Mapping):
            title = next((item[name] for name in ("title", "criterion", "text", "name", "description") if item.get(name)), None)
            if not isinstance(title, str):
                raise UnfitCell(f"criterion {position} has no title", column, hint='write it like {"title": "...", "weight": 1}')
            extra = {name: item[name] for name in ("description", "weight") if name in item and item[name] != title}
            criteria.append({"id": str(item.get("id", f"c{position}")), "title": title, **extra})
        else:
            criteria.append({"id": f"c{position}", "title": text_of(item, column)})
    return criteria


def _criterion_items(value: object) -> list[object]:
    if isinstance(value, str):
        found = literal(value.strip()) if value.lstrip()[:1] == "[" else None
        if isinstance(found, list) and found:
            return found
        lines = [line for line in value.splitlines() if line.strip()]
        if len(lines) > 1 and all(map(_BULLET.match, lines)):
            return [_BULLET.sub("", line).strip() for line in lines]
        return [value]
    return [item for item in value if not is_blank(item)] if isinstance(value, list | tuple) else [value]


def are_messages(value: object) -> bool:
    """Return whether a cell is a list of messages, or holds one as JSON."""
    try:
        return bool(messages_of(value, ""))
    except UnfitCell:
        return False


def messages_of(value: object, column: str) -> list[JsonObject]:
    """Return the messages of a cell, in the words of chats or of ShareGPT."""
    if isinstance(value, str) and value.lstrip()[:1] == "[":
        value = literal(value.strip())
    found = object_in(value)
    value = found.get("messages", found.get("turns")) if found is not None else value
    if not isinstance(value, list | tuple):
        raise UnfitCell("the cell is not a list of messages", column, hint=f"write it like {_MESSAGE}")
    messages: list[JsonObject] = []
    for position, item in enumerate(value, 1):
        message = item if isinstance(item, Mapping) else {}
        role = message.get("role", message.get("from", message.get("speaker")))
        content = _content(message.get("content", message.get("value", message.get("text"))))
        if not isinstance(role, str) or role.lower() not in _ROLES or content is None:
            raise UnfitCell(f"message {position} has no role and text that can be sent", column, hint=f"write it like {_MESSAGE}")
        if content.strip():
            messages.append({"role": _ROLES[role.lower()], "content": content})
    return messages


def _content(value: object) -> str | None:
    """Return the text of a message; parts of text are joined, and any other part cannot be sent."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(isinstance(part, Mapping) and isinstance(part.get("text"), str) for part in value):
        return "\n".join(part["text"] for part in value)
    return None
