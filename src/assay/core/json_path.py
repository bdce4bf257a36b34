"""Paths into JSON, such as `$.choices[0].text`: the part of RFC 9535 that names members and elements.

Written here because the libraries bring filters, functions and arithmetic, which settings of a run file should not have.
"""

import re
from typing import Any

_STEP = re.compile(
    r"\.(?P<name>[^\s.\[\]'\"*()$?@]+)"
    r"|\[(?P<index>-?\d{1,9})\]"
    r"|\[(?P<quote>['\"])(?P<quoted>(?:(?!(?P=quote)).)+)(?P=quote)\]"
    r"|(?P<all>\[\*\]|\.\*)",
    re.DOTALL,
)
_MAX_MEMBERS, _MAX_DEPTH, _MAX_STRUCTURE, _MAX_NAME = 12, 4, 400, 40

Step = str | int | None
"""A member, an element, or None for all of them."""
_KINDS = {str: "text", bool: "true or false", int: "number", float: "number", type(None): "null"}


class InvalidPath(ValueError):
    """A text that is not a path; the message says why."""


class JsonPath:
    """A compiled path."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.steps = _steps(text)
        self.has_many = None in self.steps

    def find(self, value: object) -> list[object]:
        """Return every value at the path, in order; empty when there is none."""
        found = [value]
        for step in self.steps:
            found = [member for item in found for member in _members(item, step)]
        return found

    def first(self, value: object) -> Any:
        """Return the value at the path, or None."""
        return next(iter(self.find(value)), None)


def path_problem(text: str) -> str:
    """Return why a text is not a path; empty if it is one."""
    try:
        JsonPath(text)
    except InvalidPath as problem:
        return str(problem)
    return ""


def _steps(text: str) -> tuple[Step, ...]:
    if not text.startswith("$"):
        raise InvalidPath(f"the path {text!r} does not begin with $, which stands for the whole reply: write $.{text.lstrip('.')}")
    steps: list[Step] = []
    position = 1
    while position < len(text):
        match = _STEP.match(text, position)
        if match is None:
            raise InvalidPath(
                f"the path {text!r} cannot be read from {text[position : position + 20]!r} on: write .name, ['a name'], [0] or [*]"
            )
        name = match["name"] or match["quoted"]
        steps.append(name if name is not None else int(match["index"]) if match["index"] else None)
        position = match.end()
    return tuple(steps)


def _members(value: object, step: Step) -> list[object]:
    if isinstance(value, dict):
        return list(value.values()) if step is None else [value[step]] if step in value else []
    if isinstance(value, list):
        if step is None:
            return value
        return [value[step]] if isinstance(step, int) and -len(value) <= step < len(value) else []
    return []


def structure_of(value: object) -> str:
    """Describe a JSON value by the names and types of its members, without contents: `{id: text, steps: [3 x {tool: text}]}`."""
    text = _structure(value, depth=0)
    return text if len(text) <= _MAX_STRUCTURE else f"{text[: _MAX_STRUCTURE - 1]}…"


def _structure(value: object, *, depth: int) -> str:
    if isinstance(value, dict):
        if depth >= _MAX_DEPTH:
            return "{…}"
        members = [
            f"{name[:_MAX_NAME]}: {_structure(member, depth=depth + 1)}" for name, member in list(value.items())[:_MAX_MEMBERS]
        ]
        return "{" + ", ".join([*members, *(["…"] if len(value) > _MAX_MEMBERS else [])]) + "}"
    if isinstance(value, list):
        return f"[{len(value)} x {_structure(value[0], depth=depth + 1)}]" if value else "[]"
    return _KINDS.get(type(value), "value")
