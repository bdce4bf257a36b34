"""Values of arguments as the Berkeley Function Calling Leaderboard (BFCL) compares them.

A benchmark's verdicts are comparable only where its rules are followed to the letter, also where they are odd: texts are compared
without spaces, case and some punctuation, but only outside of nested lists, and the type of the first possible value counts too.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

from assay.core.call_rules import BfclValue

_PYTHON: dict[str, type] = {
    "string": str, "integer": int, "float": float, "boolean": bool, "array": list, "tuple": list, "dict": dict, "any": str,
}  # fmt: skip
_JAVA: dict[str, type] = {
    "byte": int, "short": int, "integer": int, "float": float, "double": float, "long": int, "boolean": bool, "char": str,
    "Array": list, "ArrayList": list, "Set": set, "HashMap": dict, "Hashtable": dict, "Queue": list, "Stack": list, "String": str,
    "any": str,
}  # fmt: skip
_JAVASCRIPT: dict[str, type] = {
    "String": str, "integer": int, "float": float, "Bigint": int, "Boolean": bool, "dict": dict, "array": list, "any": str,
}  # fmt: skip
_PYTHON_LISTS = ("array", "tuple")
_SOURCE_LISTS = ("Array", "ArrayList", "array")
_IGNORED = re.compile(r"[ \,\.\/\-\_\*\^]")
# The expressions for source code backtrack; the longest argument of the benchmark has less than 400 characters.
MAX_SOURCE = 10_000
"""Characters of an argument that is read as Java or JavaScript; a longer one stays a text."""


class _UnknownType(Exception):
    """A type that BFCL's checker has no rule for: it ends with an error there, so that nothing can be right."""


def fits_bfcl(rule: BfclValue, given: object, *, is_given: bool = True) -> bool:
    """Return whether BFCL takes an argument as right, or as rightly left out."""
    if not is_given:
        return not rule.is_required and "" in rule.values
    if not rule.type:
        return False
    try:
        return _fits(rule, given)
    # The checker fails in these ways on possible values of a form that it does not expect.
    except (_UnknownType, TypeError, AttributeError, KeyError, IndexError, ValueError, OverflowError, RecursionError):
        return False


def _fits(rule: BfclValue, given: Any) -> bool:
    value, kind, inner = _read(rule, given)
    is_right, is_variable = _check_type(value, list(rule.values), kind, inner)
    if not is_right:
        return False
    values = list(rule.values)
    if not is_variable:
        if kind is dict:
            return _fits_dict(value, values)
        if kind is list and inner is dict:
            return _fits_dicts(value, values)
        if kind is str:
            return _plain(value) in [_plain(one) for one in values if type(one) is str]
        if kind is list:
            return _plain_members(value) in [_plain_members(one) for one in values]
    return value in values


def _read(rule: BfclValue, given: Any) -> tuple[Any, type, type | None]:
    """Return the value, its expected type, and that of its members."""
    types = {"java": _JAVA, "javascript": _JAVASCRIPT, "python": _PYTHON}[rule.language]
    if rule.type not in types:
        raise _UnknownType
    kind = types[rule.type]
    has_items = rule.type in (_PYTHON_LISTS if rule.language == "python" else _SOURCE_LISTS)
    if has_items and rule.items not in types:
        raise _UnknownType
    inner = types[rule.items] if has_items else None
    if rule.language == "python":
        return (float(given) if rule.type == "float" and type(given) is int else given), kind, inner
    if type(given) is not str:
        raise _UnknownType
    read = read_java if rule.language == "java" else read_javascript
    return (read(given, rule.type, rule.items if has_items else "") if len(given) <= MAX_SOURCE else given), kind, inner


def _check_type(value: Any, possible: Sequence[Any], kind: type, inner: type | None) -> tuple[bool, bool]:
    """Return whether the type is right, and whether the value is a variable: then the type of the possible values counts."""
    known = next((type(one) for one in possible if one != ""), None)
    is_variable = known is not None and known is not kind
    if type(value) is kind:
        if inner is None:
            return True, is_variable
        members: Any = value
        for one in possible:
            if type(one) is not list or all(_check_type(member, one, inner, None)[0] for member in members):
                return True, is_variable
        return False, True
    return known is not None and type(value) is known, True


def _plain(text: str) -> str:
    return _IGNORED.sub("", text).lower().replace("'", '"')


def _plain_members(values: Any) -> list[Any]:
    # By number, since BFCL reads a text as its letters, and fails for an object.
    members: list[Any] = [values[at] for at in range(len(values))]
    return [_plain(one) if type(one) is str else one for one in members]


def _fits_dict(value: Any, possible: Sequence[Any]) -> bool:
    return any(_fits_one_dict(value, one) for one in possible if one != "")


def _fits_one_dict(value: Any, possible: Any) -> bool:
    for name, member in value.items():
        if name not in possible:
            return False
        plain = _plain(member) if type(member) is str else member
        if plain not in _plain_members(possible[name]):
            return False
    return not any(name not in value and "" not in values for name, values in possible.items())


def _fits_dicts(value: Any, possible: Sequence[Any]) -> bool:
    return any(len(value) == len(one) and all(_fits_dict(member, [one[at]]) for at, member in enumerate(value)) for one in possible)


_JAVA_NUMBERS: dict[str, tuple[re.Pattern[str], Callable[[str], int | float]]] = {
    **dict.fromkeys(("byte", "short", "integer"), (re.compile(r"^-?\d+$"), int)),
    "float": (re.compile(r"^-?\d+(\.\d+)?([eE][+-]?\d+)?[fF]$"), lambda text: float(re.sub(r"[fF]$", "", text))),
    "double": (re.compile(r"^-?\d+(\.\d+)?([eE][+-]?\d+)?$"), float),
    "long": (re.compile(r"^-?\d+[lL]$"), lambda text: int(re.sub(r"[lL]$", "", text))),
}
_ADDED = re.compile(r"add\((.+?)\)")
_PUT = re.compile(r"put\(\"(.*?)\",\s*(.*?)\)")


def read_java(text: str, kind: str, items: str = "") -> Any:
    """Read Java source as a value; source of another form stays a text."""
    if kind in _JAVA_NUMBERS:
        pattern, convert = _JAVA_NUMBERS[kind]
        return convert(text) if pattern.match(text) else text
    if kind == "boolean":
        return text == "true" if text in ("true", "false") else text
    if kind in ("char", "String", "any"):
        return text
    if kind == "ArrayList":
        return _java_list(text, items)
    if kind == "Array":
        found = re.search(r"new\s+\w+\[\]\s*\{(.*?)\}", text)
        return text if found is None else [_java_member(part.strip(), items) for part in found[1].split(",") if part.strip()]
    if kind == "HashMap":
        return _java_map(text)
    raise _UnknownType


def _java_list(text: str, items: str) -> Any:
    found = re.search(r"new\s+ArrayList<\w*>\(Arrays\.asList\((.+?)\)\)", text)
    if found:
        return [_java_item(part.strip(), items) for part in found[1].split(",")]
    found = re.search(r"new\s+ArrayList<\w*>\(\)\s*\{\{\s*(.+?)\s*\}\}", text, re.DOTALL)
    if found:
        return [_java_item(part.strip(), items) for part in _ADDED.findall(found[1])]
    return [] if re.search(r"new\s+ArrayList<\w*>\(\)", text) else text


def _java_item(text: str, items: str) -> Any:
    # Without its quotation marks.
    return text[1:-1] if items in ("char", "String") else _java_member(text, items)


def _java_member(text: str, items: str) -> Any:
    return read_java(text, items) if items else _java_value(text)


def _java_map(text: str) -> Any:
    found = re.search(r"new\s+HashMap<.*?>\s*\(\)\s*\{\s*\{?\s*(.*?)\s*\}?\s*\}", text, re.DOTALL)
    if found:
        return {name: _java_value(value.strip()) for name, value in _PUT.findall(found[1])}
    return {} if re.search(r"new\s+HashMap<.*?>\s*\(\)", text) else text


def _java_value(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    if text.startswith('"') and text.endswith('"'):
        return text[1:-1]
    for kind in ("long", "float"):
        value = read_java(text, kind)
        if value is not text:
            return value
    return _number(text)


def _number(text: str) -> Any:
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            continue
    return text


_JS_NUMBERS: dict[str, tuple[re.Pattern[str], Callable[[str], int | float]]] = {
    "integer": (re.compile(r"^-?\d+$"), int),
    "float": (re.compile(r"^-?\d+(\.\d+)?$"), float),
    "Bigint": (re.compile(r"^-?\d+n$"), lambda text: int(text[:-1])),
}
_JS_TABLE = re.compile(r"\[\s*\[.*?\]\s*(,\s*\[.*?\]\s*)*\]|\bnew\s+Array\(\s*\[.*?\]\s*(,\s*\[.*?\]\s*)*\)")
_JS_LIST = re.compile(r"\[(.*?)\]|\bnew\s+Array\((.*?)\)")
_JS_ROW = re.compile(r"\[(.*?)\]")
_JS_OBJECT = re.compile(r"\{(.*?)\}")
_JS_PAIR = re.compile(r"([^:]+):\s*(.*?)(?:,\s*(?=[^,]+:)|$)")


def read_javascript(text: str, kind: str, items: str = "") -> Any:
    """Read JavaScript source as a value; source of another form stays a text."""
    if kind == "String":
        return text[1:-1] if _is_quoted(text) else text
    if kind in _JS_NUMBERS:
        pattern, convert = _JS_NUMBERS[kind]
        return convert(text) if pattern.match(text) else text
    if kind == "Boolean":
        return text == "true" if text in ("true", "false") else text
    if kind == "array":
        return _js_list(text.strip(), items)
    if kind == "dict":
        return _js_object(text.strip())
    if kind == "any":
        return text
    raise _UnknownType


def _is_quoted(text: str) -> bool:
    return any(text.startswith(mark) and text.endswith(mark) for mark in ('"', "'"))


def _js_list(text: str, items: str) -> Any:
    try:
        table = _JS_TABLE.match(text)
        if table:
            rows = _JS_ROW.findall(table[0])
            return [_js_row(row.strip(), is_first=number == 0) for number, row in enumerate(rows)]
        found = _JS_LIST.match(text)
        if found is None:
            return text
        inside = (found[1] if found[1] is not None else found[2] or "").strip()
        parts = [part.strip() for part in inside.split(",")] if inside else []
        return [read_javascript(part, items) if items else _js_value(part) for part in parts]
    except (_UnknownType, ValueError, AttributeError):
        return text


def _js_row(text: str, *, is_first: bool) -> list[Any]:
    return [_js_value(part.strip()) for part in (text[1:] if is_first and text.startswith("[") else text).split(",")]


def _js_object(text: str) -> Any:
    if text == "{}":
        return {}
    found = _JS_OBJECT.match(text)
    if found is None:
        return text
    read: dict[str, Any] = {}
    for name, value in _JS_PAIR.findall(found[1]):
        name, value = name.strip().strip("'\""), value.strip()
        if value.startswith("[") and value.endswith("]"):
            read[name] = _js_list(value, "")
        elif value.startswith("{") and value.endswith("}"):
            read[name] = _js_object(value)
        else:
            read[name] = _js_value(value.strip("'\""))
    return read


def _js_value(text: str) -> Any:
    text = text.strip()
    if text in ("true", "false"):
        return text == "true"
    return text[1:-1] if _is_quoted(text) else _number(text)
