"""Templates of promptfoo (Nunjucks): variables, filters, conditions and loops over plain values; no code is ever executed.

Jinja2 parses a template, whose syntax Nunjucks shares, and the tree is walked here: what the walk does not know is refused.
Jinja2's own renderer compiles templates to Python, which a file of another tool must not reach.
"""

import html
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, TemplateError, nodes

from assay.core.strict_json import parse_json

MAX_TEXT = 4 << 20
"""Characters that one template may grow to."""
MAX_STEPS = 200_000
"""Nodes that one template may visit: loops inside of loops multiply."""
_TAG = re.compile(r"\{\{|\{%|\{#")
_WHOLE_TAG = re.compile(r"\{[%{].*?[%}]\}")
_WORD = re.compile(r"[A-Za-z_]\w*")
_ELSEIF = re.compile(r"\{%(-?)\s*elseif\b")


class TemplateRefused(Exception):
    """A template that is not rendered here; the text says why."""


class Undefined:
    """A variable without a value, with the text that stands for it."""

    def __init__(self, name: str) -> None:
        self.name = name


def is_template(text: str) -> bool:
    """Return whether a text has a tag of a template, and none that is cut off at the end of its line."""
    # promptfoo takes a text with half a tag for a text without any.
    return _TAG.search(text) is not None and not any(_is_cut_off(line) for line in text.split("\n"))


def names_in(template: str) -> frozenset[str]:
    """Return every word in the tags of a template, among which are the names of its variables."""
    return frozenset(word for tag in _WHOLE_TAG.findall(template) for word in _WORD.findall(tag))


def _is_cut_off(line: str) -> bool:
    return any((start := line.rfind("{" + sign)) >= 0 and end not in line[start + 2 :] for sign, end in ("%%", "{}", "##"))


def render(template: str, variables: Mapping[str, object]) -> tuple[str, list[str]]:
    """Render a template; returns the text, and the variables without a value, which are kept as `{{name}}`.

    Raises TemplateRefused for a template with something else than variables, known filters, conditions and loops.
    """
    if not is_template(template):
        return template, []
    try:
        tree = _ENVIRONMENT.parse(_as_jinja(template))
    except (TemplateError, RecursionError) as problem:
        raise TemplateRefused(f"the template cannot be read: {problem}") from None
    renderer = _Renderer(variables)
    try:
        return renderer.text_of(tree.body), renderer.missing
    except RecursionError:
        raise TemplateRefused("the template is nested too deeply") from None


def _as_jinja(template: str) -> str:
    """Return a template in the spelling of Jinja2, which refuses `elseif`, `===` and `!==`."""
    text = _ELSEIF.sub(r"{%\1 elif", template)
    return _WHOLE_TAG.sub(lambda tag: tag[0].replace("===", "==").replace("!==", "!="), text)


_ENVIRONMENT = Environment(keep_trailing_newline=True, autoescape=False)  # noqa: S701  # nothing is rendered by it, and prompts are no HTML


def shown(value: object) -> str:
    """Return a value as a template writes it: like JavaScript, but an object as JSON."""
    match value:
        case str():
            return value
        case None | Undefined():
            return ""
        case bool():
            return "true" if value else "false"
        case float() if value.is_integer() and abs(value) < 1e21:
            return str(int(value))
        case list() | tuple() if not any(isinstance(one, dict) for one in value):
            return ",".join(map(shown, value))
        case list() | tuple() | dict():
            return dumped(value)
        case _:
            return str(value)


def dumped(value: object, indent: int | None = None) -> str:
    """Return a value as JSON.stringify writes it."""
    plain = value if not isinstance(value, Undefined) else None
    separators = (",", ":") if indent is None else (",", ": ")
    return json.dumps(plain, ensure_ascii=False, indent=indent, separators=separators)


class _Renderer:
    """One walk over the tree of a template."""

    def __init__(self, variables: Mapping[str, object]) -> None:
        self.missing: list[str] = []
        self._scopes: list[dict[str, Any]] = [dict(variables)]
        self._steps = 0
        self._size = 0

    def text_of(self, body: Sequence[nodes.Node]) -> str:
        """Return the text of some nodes."""
        return "".join(part for node in body for part in self._parts(node))

    def _parts(self, node: nodes.Node) -> Iterator[str]:
        self._count()
        match node:
            case nodes.Output():
                for part in node.nodes:
                    yield self._grown(part.data if isinstance(part, nodes.TemplateData) else self._output(part))
            case nodes.If():
                branches = [node, *node.elif_]
                chosen = next((branch.body for branch in branches if _is_true(self._value(branch.test))), node.else_)
                yield self.text_of(chosen)
            case nodes.For():
                yield from self._loop(node)
            case nodes.Assign() if isinstance(node.target, nodes.Name):
                self._scopes[-1][node.target.name] = self._value(node.node)
            case _:
                raise TemplateRefused(f"'{type(node).__name__.lower()}' in a template is not rendered")

    def _output(self, node: nodes.Node) -> str:
        value = self._value(node)
        if isinstance(value, Undefined):
            self.missing.append(value.name)
            # Kept in sight: a question with a hole in it would be another one.
            return f"{{{{{value.name}}}}}" if isinstance(node, nodes.Name | nodes.Getattr | nodes.Getitem) else ""
        return shown(value)

    def _loop(self, node: nodes.For) -> Iterator[str]:
        if node.test is not None or node.recursive:
            raise TemplateRefused("a loop with a condition is not rendered")
        items = self._value(node.iter)
        rows = list(items.items()) if isinstance(items, dict) else list(items) if isinstance(items, list | tuple | str) else []
        if not rows:
            yield self.text_of(node.else_)
        for index, item in enumerate(rows):
            self._scopes.append({"loop": _loop_values(index, len(rows)), **_targets(node.target, item)})
            yield self.text_of(node.body)
            self._scopes.pop()

    def _value(self, node: nodes.Node) -> Any:
        self._count()
        match node:
            case nodes.Const():
                return node.value
            case nodes.Name():
                return self._name(node)
            case nodes.Getattr() | nodes.Getitem():
                return self._member(node)
            case nodes.Filter():
                return self._filtered(node)
            case nodes.List() | nodes.Tuple():
                return [self._value(one) for one in node.items]
            case nodes.Dict():
                return {shown(self._value(pair.key)): self._value(pair.value) for pair in node.items}
            case nodes.Call():
                return self._called(node)
            case _:
                return self._operation(node)

    def _operation(self, node: nodes.Node) -> Any:
        match node:
            case nodes.Not():
                return not _is_true(self._value(node.node))
            case nodes.And():
                left = self._value(node.left)
                return self._value(node.right) if _is_true(left) else left
            case nodes.Or():
                left = self._value(node.left)
                return left if _is_true(left) else self._value(node.right)
            case nodes.CondExpr():
                chosen = node.expr1 if _is_true(self._value(node.test)) else node.expr2
                return "" if chosen is None else self._value(chosen)
            case nodes.Compare():
                return self._compared(node)
            case nodes.Test():
                return self._tested(node)
            case nodes.Concat():
                return self._grown("".join(shown(self._value(one)) for one in node.nodes))
            case nodes.Neg() if _is_number(value := self._value(node.node)):
                return -value
            case nodes.BinExpr():
                return self._computed(node)
            case _:
                raise TemplateRefused(f"'{type(node).__name__.lower()}' in a template is not rendered")

    def _name(self, node: nodes.Name) -> Any:
        """Return the value of a variable."""
        for scope in reversed(self._scopes):
            if node.name in scope:
                return scope[node.name]
        return Undefined(node.name)

    def _member(self, node: nodes.Getattr | nodes.Getitem) -> Any:
        """Return a member of an object or a list, or a length; never an attribute of a Python object."""
        owner = self._value(node.node)
        key = node.attr if isinstance(node, nodes.Getattr) else self._key(node.arg)
        if isinstance(owner, Undefined):
            return Undefined(f"{owner.name}.{key}")
        if isinstance(owner, dict) and str(key) in owner:
            return owner[str(key)]
        if isinstance(owner, list | str) and isinstance(key, int) and -1 < key < len(owner):
            return owner[key]
        if isinstance(owner, list | str) and key == "length":
            return len(owner)
        return Undefined(f"{_spelled(node.node)}.{key}")

    def _key(self, node: nodes.Node) -> Any:
        if isinstance(node, nodes.Slice):
            raise TemplateRefused("a slice in a template is not rendered")
        return self._value(node)

    def _filtered(self, node: nodes.Filter) -> Any:
        """Return a value with a filter applied."""
        if node.node is None or node.dyn_args is not None or node.dyn_kwargs is not None:
            raise TemplateRefused(f"the filter '{node.name}' is not applied to a block")
        known = FILTERS.get(node.name)
        if known is None:
            raise TemplateRefused(f"the filter '{node.name}' is not known")
        value = self._value(node.node)
        if isinstance(value, Undefined) and node.name not in ("default", "d"):
            self.missing.append(value.name)
            return ""
        arguments = [self._value(one) for one in node.args]
        named: dict[str, Any] = {str(pair.key): self._value(pair.value) for pair in node.kwargs}
        try:
            result = known(value, *arguments, **named)
        except (TypeError, ValueError, IndexError, KeyError, OverflowError) as problem:
            raise TemplateRefused(f"the filter '{node.name}' cannot be applied: {problem}") from None
        if isinstance(result, str):
            return self._grown(result)
        self._count(len(result) if isinstance(result, list) else 1)
        return result

    def _compared(self, node: nodes.Compare) -> bool:
        """Return whether all comparisons of a chain hold."""
        left = self._value(node.expr)
        for operand in node.ops:
            right = self._value(operand.expr)
            if not _holds(operand.op, left, right):
                return False
            left = right
        return True

    def _computed(self, node: nodes.BinExpr) -> Any:
        """Return a sum or another number."""
        left, right = self._value(node.left), self._value(node.right)
        if isinstance(node, nodes.Add) and (isinstance(left, str) or isinstance(right, str)):
            return self._grown(shown(left) + shown(right))
        if not _is_number(left) or not _is_number(right):
            raise TemplateRefused("a calculation with something else than numbers is not rendered")
        try:
            return _ARITHMETIC[type(node)](left, right)
        except (ZeroDivisionError, KeyError, OverflowError):
            raise TemplateRefused("a calculation in a template is not rendered") from None

    def _called(self, node: nodes.Call) -> Any:
        """Return a range of numbers, the only function that is known."""
        if not isinstance(node.node, nodes.Name) or node.node.name != "range" or node.kwargs:
            raise TemplateRefused("a function in a template is not called")
        bounds = [self._value(one) for one in node.args]
        if (
            not 1 <= len(bounds) <= 3
            or not all(isinstance(one, int) and abs(one) <= MAX_STEPS for one in bounds)
            or 0 in bounds[2:]
        ):
            raise TemplateRefused("a range in a template is not rendered")
        numbers = range(*bounds)
        self._count(len(numbers))
        return list(numbers)

    def _tested(self, node: nodes.Test) -> bool:
        """Return the result of a test such as `is defined`."""
        value = self._value(node.node)
        tests = {
            "defined": lambda: not isinstance(value, Undefined),
            "undefined": lambda: isinstance(value, Undefined),
            "none": lambda: value is None,
            "string": lambda: isinstance(value, str),
            "number": lambda: _is_number(value),
        }
        if node.name not in tests or node.args:
            raise TemplateRefused(f"the test '{node.name}' is not known")
        return tests[node.name]()

    def _count(self, steps: int = 1) -> None:
        self._steps += steps
        if self._steps > MAX_STEPS:
            raise TemplateRefused(f"the template takes more than {MAX_STEPS:,} steps")

    def _grown(self, text: str) -> str:
        self._size += len(text)
        if self._size > MAX_TEXT:
            raise TemplateRefused(f"the template grows to more than {MAX_TEXT:,} characters")
        return text


def _spelled(node: nodes.Node) -> str:
    match node:
        case nodes.Name():
            return node.name
        case nodes.Getattr():
            return f"{_spelled(node.node)}.{node.attr}"
        case _:
            return "…"


def _loop_values(index: int, count: int) -> dict[str, object]:
    return {
        "index": index + 1,
        "index0": index,
        "revindex": count - index,
        "revindex0": count - index - 1,
        "first": index == 0,
        "last": index == count - 1,
        "length": count,
    }


def _targets(target: nodes.Node, item: object) -> dict[str, object]:
    if isinstance(target, nodes.Name):
        return {target.name: item}
    names = [one.name for one in getattr(target, "items", ()) if isinstance(one, nodes.Name)]
    values = list(item) if isinstance(item, list | tuple) else []
    if not names or len(names) != len(values):
        raise TemplateRefused("a loop over several names is not rendered")
    return dict(zip(names, values, strict=True))


def _is_true(value: object) -> bool:
    # Empty lists and objects are true in JavaScript.
    return not isinstance(value, Undefined) and (isinstance(value, list | dict) or bool(value))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _holds(operator: str, left: Any, right: Any) -> bool:
    if isinstance(left, Undefined) or isinstance(right, Undefined):
        return operator == "ne"
    try:
        return _COMPARISONS[operator](left, right)
    except (TypeError, KeyError):
        raise TemplateRefused("a comparison in a template is not rendered") from None


_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda left, right: bool(left == right),
    "ne": lambda left, right: bool(left != right),
    "gt": lambda left, right: bool(left > right),
    "gteq": lambda left, right: bool(left >= right),
    "lt": lambda left, right: bool(left < right),
    "lteq": lambda left, right: bool(left <= right),
    "in": lambda left, right: left in right,
    "notin": lambda left, right: left not in right,
}
_ARITHMETIC: dict[type, Callable[[Any, Any], Any]] = {
    nodes.Add: lambda left, right: left + right,
    nodes.Sub: lambda left, right: left - right,
    nodes.Mul: lambda left, right: left * right,
    nodes.Div: lambda left, right: left / right,
    nodes.FloorDiv: lambda left, right: left // right,
    nodes.Mod: lambda left, right: left % right,
}


_MAX_INDENT = 20


def _replaced(value: object, old: object, new: object, most: object = -1) -> str:
    if not isinstance(most, int):
        raise TypeError("the number of replacements is not a number")
    text, before, after = shown(value), shown(old), shown(new)
    if len(after) * (text.count(before) + 1) > MAX_TEXT:
        raise ValueError("the text grows too long")
    return text.replace(before, after, most)


def _joined(value: object, separator: str = "", attribute: str | None = None) -> str:
    items = value if isinstance(value, list) else [value]
    found = [one.get(attribute) if attribute is not None and isinstance(one, dict) else one for one in items]
    if len(separator) * len(found) > MAX_TEXT:
        raise ValueError("the text grows too long")
    return separator.join(map(shown, found))


def _default(value: object, other: object = "", falsy: object = False) -> object:  # noqa: FBT002  # as templates call it
    is_absent = isinstance(value, Undefined) or (bool(falsy) and not _is_true(value))
    return other if is_absent else value


def _length(value: object) -> int:
    return len(value) if isinstance(value, str | list | dict) else 0


def _indented(value: object, width: int = 4, indents_first: object = False) -> str:  # noqa: FBT002  # as templates call it
    lines = shown(value).split("\n")
    pad = " " * min(int(width), _MAX_INDENT)
    return "\n".join(line if index == 0 and not indents_first else pad + line for index, line in enumerate(lines))


def _rounded(value: Any, digits: int = 0, method: str = "common") -> float:
    factor = 10.0 ** max(-10, min(10, int(digits)))
    scaled = float(value) * factor
    # Halves are rounded up, as JavaScript does.
    return (math.ceil(scaled) if method == "ceil" else math.floor(scaled if method == "floor" else scaled + 0.5)) / factor


def _number(value: Any, kind: Callable[[Any], Any], other: object) -> object:
    try:
        return kind(float(value))
    except (TypeError, ValueError, OverflowError):
        return other


def _truncated(value: object, length: int = 255, is_hard: object = False, end: str = "...") -> str:  # noqa: FBT002  # as templates call it
    text = shown(value)
    if len(text) <= length:
        return text
    cut = text[:length]
    return (cut if is_hard or " " not in cut else cut[: cut.rindex(" ")]) + end


def _sorted(value: object, reverse: object = False, case_sensitive: object = False, attribute: str | None = None) -> list[Any]:  # noqa: FBT002  # as templates call it
    def key(item: Any) -> Any:
        found = item.get(attribute) if attribute is not None and isinstance(item, dict) else item
        return found.lower() if isinstance(found, str) and not case_sensitive else found

    return sorted(value if isinstance(value, list) else list(shown(value)), key=key, reverse=bool(reverse))


def _listed(value: object) -> list[Any]:
    if isinstance(value, dict):
        return [{"key": key, "value": member} for key, member in value.items()]
    return list(value) if isinstance(value, list | str) else []


def _loaded(value: object) -> object:
    document = parse_json(shown(value))
    if document.flaws:
        raise ValueError(document.flaws[0].message)
    return document.value


def _first(value: object) -> object:
    return value[0] if isinstance(value, list | str) and value else ""


def _last(value: object) -> object:
    return value[-1] if isinstance(value, list | str) and value else ""


def _reversed(value: object) -> object:
    return value[::-1] if isinstance(value, list | str) else value


def _stripped(value: object, keeps_lines: object = False) -> str:  # noqa: FBT002  # as templates call it
    text = _MARKUP.sub("", shown(value))
    return text.strip() if keeps_lines else " ".join(text.split())


_MARKUP = re.compile(r"<!--.*?-->|</?[A-Za-z][^<>]*>", re.DOTALL)
_BREAK = re.compile(r"\r\n|\n")

FILTERS: Mapping[str, Callable[..., Any]] = {
    "abs": abs,
    "capitalize": lambda value: shown(value).capitalize(),
    "d": _default,
    "default": _default,
    "dump": lambda value, indent=None: dumped(value, None if indent is None else min(int(indent), 10)),
    "e": lambda value: html.escape(shown(value)),
    "escape": lambda value: html.escape(shown(value)),
    "first": _first,
    "float": lambda value, other=0.0: _number(value, float, other),
    "indent": _indented,
    "int": lambda value, other=0: _number(value, int, other),
    "join": _joined,
    "last": _last,
    "length": _length,
    "list": _listed,
    "load": _loaded,
    "lower": lambda value: shown(value).lower(),
    "nl2br": lambda value: _BREAK.sub("<br />\n", shown(value)),
    "replace": _replaced,
    "reverse": _reversed,
    "round": _rounded,
    "safe": lambda value: value,
    "sort": _sorted,
    "string": shown,
    "striptags": _stripped,
    "sum": lambda value: sum(one for one in value if _is_number(one)),
    "title": lambda value: re.sub(r"\S+", lambda word: word[0].capitalize(), shown(value)),
    "tojson": dumped,
    "trim": lambda value: shown(value).strip(),
    "truncate": _truncated,
    "upper": lambda value: shown(value).upper(),
    "urlencode": lambda value: quote(shown(value), safe="!'()*-._~"),
    "wordcount": lambda value: len(shown(value).split()),
}
"""Filters that are functions of their values alone."""
