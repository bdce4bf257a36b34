"""Simple tests of an answer in JavaScript or Python as checks: the code is parsed, and never run; anything else is refused.

`output.toLowerCase().includes('paris') && output.length < 100` is a check of a text and one of a length. Both languages become
the same tree of tuples, such as `("call", ("member", ("name", "output"), "includes"), [("text", "a")])`, which is read as checks.
"""

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from assay.datasets.converters.rows import Row

MAX_CODE = 4_000
"""Characters of code that is read: a test of more is not a simple one."""
MAX_DEPTH = 40
Node = tuple[Any, ...]
_TOKEN = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/
    |(?P<number>\d+(?:_\d+)*(?:\.\d+)?)
    |(?P<text>'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|`(?:[^`\\$]|\\.|\$(?!\{))*`)
    |(?P<name>[A-Za-z_$][\w$]*)
    |(?P<sign>===|!==|==|!=|>=|<=|=>|&&|\|\||\?\.|\?\?|[-+*/%?:.,;()\[\]{}!<>=])""",
    re.VERBOSE | re.DOTALL,
)
_REGEX = re.compile(r"/(?P<pattern>(?:[^/\\\n\[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+)/(?P<flags>[a-z]*)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b"}
_JSON_PATH = re.compile(r"\s*(?:JSON\.parse\(output\)|output)(?P<path>(?:\.[A-Za-z_$][\w$]*|\[\d+\]|\['[^'\\]*'\])+)\s*;?\s*")


class CodeRefused(Exception):
    """Code that is not a simple test of the answer."""


def json_path(code: str) -> str:
    """Return the path of a member of the answer, `$.a[0]` for `JSON.parse(output).a[0]`; empty for any other code."""
    match = _JSON_PATH.fullmatch(code)
    return f"${match['path']}" if match else ""


def javascript_checks(code: str, variables: Mapping[str, object]) -> list[Row]:
    """Return the checks of a test in JavaScript; raises CodeRefused."""
    if len(code) > MAX_CODE:
        raise CodeRefused
    return _read(_JavaScript(code).program, variables)


def python_checks(code: str, variables: Mapping[str, object]) -> list[Row]:
    """Return the checks of a test in Python; raises CodeRefused."""
    text = code.strip().removeprefix("return ").strip()
    if len(code) > MAX_CODE:
        raise CodeRefused
    try:
        tree = ast.parse(text, mode="eval")
        return _read(lambda: ({}, _python_node(tree.body)), variables)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise CodeRefused from None


def _read(parse: Callable[[], tuple[dict[str, Node], Node]], variables: Mapping[str, object]) -> list[Row]:
    try:
        names, tree = parse()
        checks = _ConditionReader(names, variables).checks(tree)
    except (RecursionError, KeyError, IndexError, TypeError, ValueError):
        raise CodeRefused from None
    if not checks:
        raise CodeRefused
    return checks


class _JavaScript:
    """Parser of one expression, after declarations of names."""

    def __init__(self, code: str) -> None:
        self._tokens = list(_tokens(code))
        self._at = 0
        self._depth = 0

    def program(self) -> tuple[dict[str, Node], Node]:
        """Return the declared names, and the expression that is the result."""
        names: dict[str, Node] = {}
        while self._peek() in ("const", "let", "var"):
            self._next()
            kind, name = self._next()
            self._expect("=")
            names[name] = self._expression()
            self._skip(";")
            if kind != "name":
                raise CodeRefused
        self._skip("return")
        result = self._expression()
        self._skip(";")
        if self._at < len(self._tokens):
            raise CodeRefused
        return names, result

    def _peek(self) -> str:
        kind, text = self._tokens[self._at] if self._at < len(self._tokens) else ("", "")
        return text if kind in ("sign", "name") else ""

    def _next(self) -> tuple[str, str]:
        if self._at >= len(self._tokens):
            raise CodeRefused
        self._at += 1
        return self._tokens[self._at - 1]

    def _skip(self, text: str) -> bool:
        is_next = self._peek() == text
        self._at += is_next
        return is_next

    def _expect(self, text: str) -> None:
        if not self._skip(text):
            raise CodeRefused

    def _expression(self) -> Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise CodeRefused
        node = self._operators(0)
        if self._skip("?"):
            chosen = self._expression()
            self._expect(":")
            node = ("choice", node, chosen, self._expression())
        self._depth -= 1
        return node

    def _operators(self, level: int) -> Node:
        if level == len(_LEVELS):
            return self._unary()
        node = self._operators(level + 1)
        while self._peek() in _LEVELS[level]:
            node = ("binary", _SAME_SIGN.get(sign := self._next()[1], sign), node, self._operators(level + 1))
        return node

    def _unary(self) -> Node:
        signs = []
        while self._peek() in ("!", "-", "typeof"):
            signs.append(self._next()[1])
        node = self._postfix(self._primary())
        for sign in reversed(signs):
            node = ("number", -node[1]) if sign == "-" and node[0] == "number" else (sign, node)
        return node

    def _postfix(self, node: Node) -> Node:
        while True:
            if self._skip(".") or self._skip("?."):
                node = ("member", node, self._next()[1])
            elif self._skip("["):
                node = ("index", node, self._expression())
                self._expect("]")
            elif self._skip("("):
                node = ("call", node, self._listed(")"))
            else:
                return node

    def _listed(self, end: str) -> list[Node]:
        items: list[Node] = []
        while not self._skip(end):
            items.append(self._argument())
            if not self._skip(","):
                self._expect(end)
                break
        return items

    def _argument(self) -> Node:
        """Return an expression, or a function of one parameter: `s => ...`."""
        start = self._at
        has_brackets = self._skip("(")
        if self._at < len(self._tokens) and self._tokens[self._at][0] == "name":
            name = self._next()[1]
            if (not has_brackets or self._skip(")")) and self._skip("=>"):
                return ("function", name, self._expression())
        self._at = start
        return self._expression()

    def _primary(self) -> Node:
        kind, text = self._next()
        if kind == "regex":
            match = _REGEX.fullmatch(text)
            return ("regex", match["pattern"], match["flags"]) if match else ("name", "")
        if kind in ("text", "number"):
            return (kind, _text_literal(text) if kind == "text" else float(text.replace("_", "")))
        if text == "(":
            node = self._expression()
            self._expect(")")
            return node
        if text == "[":
            return ("list", self._listed("]"))
        if kind != "name":
            raise CodeRefused
        return {"true": ("truth", True), "false": ("truth", False)}.get(text, ("name", text))


_LEVELS = (("||",), ("&&",), ("===", "!==", "==", "!="), (">=", "<=", ">", "<"))
_SAME_SIGN = {"===": "==", "!==": "!="}


def _tokens(code: str) -> Iterator[tuple[str, str]]:
    at, last = 0, ""
    while at < len(code):
        # A slash after a value divides; anywhere else it begins a regular expression.
        match = _REGEX.match(code, at) if code[at] == "/" and last not in ("number", "text", "name", ")", "]") else None
        kind = "regex"
        if match is None or code[at + 1] in "/*":
            match = _TOKEN.match(code, at)
            kind = match.lastgroup or "" if match else ""
        if match is None:
            raise CodeRefused
        at = match.end()
        if kind:
            last = match[0] if kind == "sign" else kind
            yield kind, match[0]


def _text_literal(text: str) -> str:
    return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", lambda match: _unescaped(match[1]), text[1:-1], flags=re.DOTALL)


def _unescaped(escape: str) -> str:
    return chr(int(escape[1:], 16)) if len(escape) > 1 else _ESCAPES.get(escape, escape)


_METHODS = {"lower": "toLowerCase", "upper": "toUpperCase", "strip": "trim", "startswith": "startsWith", "endswith": "endsWith"}
_SIGNS: dict[type, str] = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}


def _python_node(node: ast.expr) -> Node:
    """Return the tree of JavaScript that means the same; raises CodeRefused."""
    match node:
        case ast.Constant(value=bool() as value):
            return ("truth", value)
        case ast.Constant(value=str() as value):
            return ("text", value)
        case ast.Constant(value=int() | float() as value):
            return ("number", float(value))
        case ast.Name(id=name):
            return ("name", name)
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return ("list", [*map(_python_node, items)])
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return ("!", _python_node(operand))
        case ast.BoolOp(op=operator, values=values):
            sign = "&&" if isinstance(operator, ast.And) else "||"
            first, *others = map(_python_node, values)
            for other in others:
                first = ("binary", sign, first, other)
            return first
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            return _python_comparison(operator, _python_node(left), _python_node(right))
        case ast.IfExp(test=test, body=body, orelse=other):
            return ("choice", _python_node(test), _python_node(body), _python_node(other))
        case ast.Subscript(value=value, slice=key):
            return ("index", _python_node(value), _python_node(key))
        case ast.Call(func=function, args=arguments, keywords=[]):
            return _python_call(function, arguments)
        case _:
            raise CodeRefused


def _python_comparison(operator: ast.cmpop, left: Node, right: Node) -> Node:
    if isinstance(operator, ast.In | ast.NotIn):
        found: Node = ("call", ("member", right, "includes"), [left])
        return ("!", found) if isinstance(operator, ast.NotIn) else found
    return ("binary", _SIGNS[type(operator)], left, right)


def _python_call(function: ast.expr, arguments: list[ast.expr]) -> Node:
    match function, arguments:
        case ast.Name(id="len"), [value]:
            return ("member", _python_node(value), "length")
        case ast.Name(id="str" | "bool"), [value]:
            return _python_node(value)
        case ast.Attribute(value=ast.Name(id="json"), attr="loads"), [value]:
            return ("call", ("member", ("name", "JSON"), "parse"), [_python_node(value)])
        case ast.Attribute(value=ast.Name(id="re"), attr="search"), [ast.Constant(value=str() as pattern), value]:
            return ("call", ("member", ("regex", pattern, ""), "test"), [_python_node(value)])
        case ast.Attribute(value=owner, attr=name), _ if name in _METHODS:
            return ("call", ("member", _python_node(owner), _METHODS[name]), [*map(_python_node, arguments)])
        case _:
            raise CodeRefused


_REVERSED = {">": "<", "<": ">", ">=": "<=", "<=": ">="}
_OUTPUT: Node = ("name", "output")


class _ConditionReader:
    """Reads a condition about the answer as checks that all have to pass."""

    def __init__(self, names: dict[str, Node], variables: Mapping[str, object]) -> None:
        self._names = names
        self._variables = variables

    def checks(self, node: Node) -> list[Row]:
        """Return the checks that mean the same as a condition; none for one that always holds."""
        match node:
            case ("truth", True):
                return []
            case ("!", inner):
                return _negated(self.checks(inner))
            case ("binary", "&&", left, right):
                return [*self.checks(left), *self.checks(right)]
            case ("binary", "||", left, right):
                return _alternatives(self.checks(left), self.checks(right))
            case ("choice", condition, chosen, other) if _is_verdict(chosen, passes=True) and _is_verdict(other, passes=False):
                return self.checks(condition)
            case ("call", ("name", "Boolean"), [inner]):
                return self.checks(inner)
            case ("call", ("member", owner, method), arguments):
                return self._called(owner, method, arguments)
            case ("binary", "==" | "!=", ("typeof", inner), ("text", "string")) if (
                self._resolved(inner) == _OUTPUT and node[1] == "=="
            ):
                return []
            case ("binary", sign, left, right):
                return self._compared(sign, left, right)
            case _ if self._text_form(node) is not None:
                return [{"type": "length", "min": 1}]
            case _:
                raise CodeRefused

    def _resolved(self, node: Node) -> Node:
        """Return what a declared name stands for."""
        return self._names[node[1]] if node[0] == "name" and node[1] in self._names else node

    def _text_form(self, node: Node) -> str | None:
        """Return `lower` or `upper` for the answer in such letters, and an empty text for it as it is; None for anything else."""
        node = self._resolved(node)
        match node:
            case ("name", "output"):
                return ""
            case ("call", ("name", "String"), [inner]):
                return self._text_form(inner)
            case ("call", ("member", owner, "trim" | "toString"), []):
                return self._text_form(owner)
            case ("call", ("member", owner, "toLowerCase" | "toUpperCase" as case), []):
                return None if self._text_form(owner) is None else "lower" if case == "toLowerCase" else "upper"
            case _:
                return None

    def _path(self, node: Node) -> str | None:
        """Return the path of a member of an answer in JSON; None for anything else."""
        node = self._resolved(node)
        match node:
            case ("name", "output") | ("call", ("member", ("name", "JSON"), "parse"), [("name", "output")]):
                return "$"
            case ("member", owner, name) if name != "length" and (path := self._path(owner)) is not None:
                return f"{path}.{name}"
            case ("index", owner, ("number", place)) if (path := self._path(owner)) is not None:
                return f"{path}[{int(place)}]"
            case ("index", owner, ("text", name)) if (path := self._path(owner)) is not None and "'" not in name:
                return f"{path}['{name}']"
            case _:
                return None

    def _literal(self, node: Node) -> Any:
        """Return a value that is known before the answer is; raises CodeRefused."""
        node = self._resolved(node)
        match node:
            case ("text", value) | ("truth", value):
                return value
            case ("number", value):
                return int(value) if float(value).is_integer() else value
            case ("member", ("member", ("name", "context"), "vars"), name) if name in self._variables:
                return self._variables[name]
            case ("index", ("index", ("name", "context"), ("text", "vars")), ("text", name)) if name in self._variables:
                return self._variables[name]
            case _:
                raise CodeRefused

    def _text(self, node: Node, form: str) -> tuple[str, Row]:
        """Return a text to look for, and whether the case of its letters counts."""
        text = self._literal(node)
        if not isinstance(text, str) or not text:
            raise CodeRefused
        if form and text != (text.lower() if form == "lower" else text.upper()):
            # It can never be found, so that the test means something else than it says.
            raise CodeRefused
        return text, ({"ignore_case": True} if form else {})

    def _called(self, owner: Node, method: str, arguments: list[Node]) -> list[Row]:
        if method in ("some", "every"):
            return self._each(self._resolved(owner), method, arguments)
        if method == "test" and owner[0] == "regex" and len(arguments) == 1:
            return self._matched(arguments[0], owner)
        form = self._text_form(owner)
        if form is None or len(arguments) != 1:
            raise CodeRefused
        if method == "match" and self._resolved(arguments[0])[0] == "regex":
            return self._matched(owner, self._resolved(arguments[0]))
        text, case = self._text(arguments[0], form)
        kinds: dict[str, Row] = {
            "includes": {"type": "contains", "any": [text]},
            "startsWith": {"type": "starts-with", "value": text},
            "endsWith": {"type": "ends-with", "value": text},
        }
        return [{**kinds[method], **case}]

    def _each(self, owner: Node, method: str, arguments: list[Node]) -> list[Row]:
        """Return the check of `['a', 'b'].some(s => output.includes(s))`."""
        match owner, arguments:
            case ("list", items), [("function", name, body)] if items:
                found = [_ConditionReader({**self._names, name: item}, self._variables).checks(body) for item in items]
            case _:
                raise CodeRefused
        if method == "every":
            return [check for checks in found for check in checks]
        first, *others = found
        for other in others:
            first = _alternatives(first, other)
        return first

    def _matched(self, subject: Node, regex: Node) -> list[Row]:
        if self._text_form(subject) != "" or not set(regex[2]) <= set("gimsu"):
            raise CodeRefused
        flags = "".join(flag for flag in "ms" if flag in regex[2])
        pattern = (f"(?{flags})" if flags else "") + regex[1].replace("\\/", "/")
        if not _is_readable(pattern):
            raise CodeRefused
        return [{"type": "regex", "value": pattern, **({"ignore_case": True} if "i" in regex[2] else {})}]

    def _compared(self, sign: str, left: Node, right: Node) -> list[Row]:
        counted = self._counted(left)
        if counted is None and self._counted(right) is not None:
            return self._compared(_REVERSED.get(sign, sign), right, left)
        if counted is not None:
            return _length(counted, sign, self._literal(right))
        if sign not in ("==", "!="):
            raise CodeRefused
        if self._text_form(left) is None and self._path(left) is None:
            left, right = right, left
        form, path = self._text_form(left), self._path(left)
        if form is not None:
            text, case = self._text(right, form)
            found: list[Row] = [{"type": "equals", "value": text, **case}]
        elif path is not None:
            found = [{"type": "json-path", "path": path, "value": self._literal(right)}]
        else:
            raise CodeRefused
        return _negated(found) if sign == "!=" else found

    def _counted(self, node: Node) -> str | None:
        """Return the unit of a length of the answer; None for anything else."""
        node = self._resolved(node)
        match node:
            case ("member", ("call", ("member", owner, "split"), [by]), "length") if self._text_form(owner) is not None:
                is_words = by == ("text", " ") or (by[0] == "regex" and by[1] in (r"\s+", r"\s"))
                return "words" if is_words else None
            case ("member", owner, "length") if self._text_form(owner) is not None:
                return "characters"
            case _:
                return None


def _is_readable(pattern: str) -> bool:
    # Look-around and back-references, which RE2 has not.
    return re.search(r"\(\?<?[=!]|\\[1-9]", pattern) is None


def _is_verdict(node: Node, *, passes: bool) -> bool:
    match node:
        case ("truth", value) | ("number", value):
            return bool(value) == passes
        case ("text", str() as word):
            return word.startswith("pass" if passes else "fail")
        case _:
            return False


def _length(unit: str, sign: str, value: Any) -> list[Row]:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise CodeRefused
    bounds = {
        ">": {"min": value + 1},
        ">=": {"min": value},
        "<": {"max": value - 1},
        "<=": {"max": value},
        "==": {"min": value, "max": value},
    }
    if sign not in bounds or (sign == "<" and value == 0):
        raise CodeRefused
    return [{"type": "length", **bounds[sign], **({"unit": unit} if unit == "words" else {})}]


def _negated(checks: list[Row]) -> list[Row]:
    if len(checks) != 1:
        raise CodeRefused
    [check] = checks
    if check["type"] == "contains" and ("any" in check or "none" in check):
        # The issue of a negation is the list that the answer must not have, and the other way round.
        name, other = ("any", "none") if "any" in check else ("none", "any")
        return [{(other if member == name else member): value for member, value in check.items()}]
    return [{**check, "expected": not check.get("expected", True)}]


def _is_beginning(check: Row) -> bool:
    return check["type"] == "starts-with" or str(check["value"]).startswith("^(?:")


def _alternatives(left: list[Row], right: list[Row]) -> list[Row]:
    """Return one check for two of which one is enough; raises CodeRefused where there is none."""
    if len(left) != 1 or len(right) != 1:
        raise CodeRefused
    [one], [other] = left, right
    rest = [{name: value for name, value in check.items() if name not in ("any", "value", "type")} for check in (one, other)]
    kinds = {one["type"], other["type"]}
    if rest[0] != rest[1]:
        raise CodeRefused
    if kinds == {"contains"} and "any" in one and "any" in other:
        return [{**one, "any": list(dict.fromkeys([*one["any"], *other["any"]]))}]
    if kinds <= {"starts-with", "regex"} and "expected" not in rest[0] and all(map(_is_beginning, (one, other))):
        parts = [check["value"][4:-1] if check["type"] == "regex" else re.escape(check["value"]) for check in (one, other)]
        return [{"type": "regex", "value": f"^(?:{'|'.join(parts)})", **rest[0]}]
    if kinds <= {"equals", "one-of"}:
        values = [value for check in (one, other) for value in (check["value"] if check["type"] == "one-of" else [check["value"]])]
        return [{"type": "one-of", "value": values, **rest[0]}]
    raise CodeRefused
