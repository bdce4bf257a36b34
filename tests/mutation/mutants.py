"""Small changes to a module's source, each at one place: what a slip of its author would look like."""

import ast
import difflib
from collections.abc import Iterator
from typing import Any, NamedTuple

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
}
_NOT_CODE = ("annotation", "returns", "decorator_list", "type_params")
"""Parts of the syntax tree that are types, or say how something is declared."""


class Mutant(NamedTuple):
    """One change to one module."""

    path: str
    """Of the module, below src/assay."""
    line: int
    kind: str
    was: str
    """The lines that are changed, without the white space around them."""
    becomes: str
    source: str
    """The whole module with the change."""

    @property
    def diff(self) -> str:
        """The change as lines with - and +."""
        lines = difflib.ndiff(self.was.splitlines(), self.becomes.splitlines())
        return "\n".join(line for line in lines if line[0] in "-+")


def mutants_of(path: str, source: str) -> list[Mutant]:
    """All changes to a module, in the order of their places."""
    tree = ast.parse(source)
    found = [_mutant(path, source, node, kind=kind, text=text) for node in _code(tree) for kind, text in _changes(node)]
    return sorted(found, key=lambda mutant: (mutant.line, mutant.kind, mutant.becomes))


def _code(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node that runs and can be told from its neighbours; a format string gives no places before Python 3.12."""
    open_nodes = [tree]
    while open_nodes:
        node = open_nodes.pop()
        yield node
        if isinstance(node, ast.JoinedStr):
            continue
        for name, value in ast.iter_fields(node):
            if name in _NOT_CODE or (name == "keywords" and isinstance(node, ast.ClassDef)):
                continue
            children = value if isinstance(value, list) else [value]
            open_nodes += [child for child in children if isinstance(child, ast.AST) and not _is_idle(child)]


def _is_idle(node: ast.AST) -> bool:
    """`strict=` of zip and `__all__` change no result of code that is right."""
    if isinstance(node, ast.keyword):
        return node.arg == "strict"
    return isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__"


def _changes(node: Any) -> Iterator[tuple[str, str]]:
    """The kinds of change that a node can have, each with what then stands in its place."""
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in _COMPARISONS:
            yield "comparison", _with(node, ops=[_COMPARISONS[type(operator)]()])
        case ast.BoolOp():
            yield "and/or", _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.Not()):
            yield "not", ast.unparse(node.operand)
        case ast.BinOp() if type(node.op) in _OPERATORS:
            yield "arithmetic", _with(node, op=_OPERATORS[type(node.op)]())
        case ast.Constant(value=bool(value)):
            yield "flag", repr(not value)
        case ast.Constant(value=int(value)):
            yield "integer", repr(value + 1)
        case ast.Expr(value=ast.Call() | ast.Await()):
            yield "deleted call", "pass"
        case ast.If():
            yield "if False", "False"
        case ast.IfExp():
            yield "branch", ast.unparse(node.body)
            yield "branch", ast.unparse(node.orelse)


def _with(node: Any, **members: Any) -> str:
    return ast.unparse(type(node)(**{**dict(ast.iter_fields(node)), **members}))


def _mutant(path: str, source: str, node: Any, *, kind: str, text: str) -> Mutant:
    """The source with a text in place of a node; of an `if` only the condition is replaced."""
    place = node.test if isinstance(node, ast.If) else node
    lines = source.encode().splitlines(keepends=True)
    first, last = place.lineno - 1, place.end_lineno - 1
    head, tail = lines[first][: place.col_offset], lines[last][place.end_col_offset :]
    # The parentheses keep what belongs together when the change has a weaker operator.
    filling = text if text == "pass" or " " not in text else f"({text})"
    changed = head + filling.encode() + tail
    return Mutant(
        path=path,
        line=place.lineno,
        kind=kind,
        was=_bare(b"".join(lines[first : last + 1])),
        becomes=_bare(changed),
        source=b"".join([*lines[:first], changed, *lines[last + 1 :]]).decode(),
    )


def _bare(lines: bytes) -> str:
    return "\n".join(line.strip() for line in lines.decode().splitlines())
