"""Definitions of tools, in a file or in a record."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from assay.core.canonical import JsonObject
from assay.core.strict_json import MAX_LOCAL_BYTES, parse_json
from assay.core.tools import ToolDefinition
from assay.datasets.parsing.checks import type_name
from assay.datasets.parsing.formats import parse_yaml
from assay.datasets.parsing.source import open_source

_TYPES = frozenset(("object", "array", "string", "number", "integer", "boolean", "null"))
_MAX_DEPTH = 32


def load_tools(path: Path) -> tuple[tuple[ToolDefinition, ...], list[str]]:
    """Read definitions from a JSON or YAML file, with every problem of it; raises SourceUnreadable."""
    source = open_source(path)
    content = source.buffer()
    is_yaml = path.suffix.lower() in (".yaml", ".yml")
    document = parse_yaml(bytes(content)) if is_yaml else parse_json(content, max_bytes=MAX_LOCAL_BYTES)
    if document.flaws:
        return (), [f"'{path.name}': {flaw.message}" for flaw in document.flaws]
    tools, problems = read_tools(document.value)
    return tools, [f"'{path.name}': {problem}" for problem in problems]


def read_tools(value: object) -> tuple[tuple[ToolDefinition, ...], list[str]]:
    """Read definitions: `{name, description, parameters}` or the formats of chat completions and Anthropic, in a list."""
    if isinstance(value, dict) and isinstance(value.get("tools"), list):
        value = value["tools"]
    if not isinstance(value, list):
        return (), [f"it must be a list of tools, not {type_name(value)}"]
    tools: list[ToolDefinition] = []
    problems: list[str] = []
    for number, entry in enumerate(value):
        found = list(_problems(entry))
        problems += [f"[{number}] {problem}" for problem in found]
        if not found:
            tools.append(_definition(entry))
    names = [tool.name for tool in tools]
    problems += [f"tool '{name}' is defined {names.count(name)} times" for name in sorted({n for n in names if names.count(n) > 1})]
    return (() if problems else tuple(tools)), problems


def _function(entry: JsonObject) -> Any:
    return entry.get("function", entry)


def _schema(function: JsonObject) -> Any:
    return next((function[name] for name in ("parameters", "input_schema", "parametersJsonSchema") if name in function), {})


def _definition(entry: JsonObject) -> ToolDefinition:
    function = _function(entry)
    return ToolDefinition(function["name"], function.get("description") or "", _schema(function) or {})


def _problems(entry: object) -> Iterator[str]:
    function = _function(entry) if isinstance(entry, dict) else None
    if not isinstance(function, dict):
        yield f"must be an object with a name, a description and parameters, not {type_name(entry)}"
        return
    if not isinstance(function.get("name"), str) or not function["name"].strip():
        yield "has no name"
    if not isinstance(function.get("description") or "", str):
        yield f"description must be a string, not {type_name(function['description'])}"
    yield from _schema_problems(_schema(function), "parameters", 0)


def _schema_problems(schema: object, where: str, depth: int) -> Iterator[str]:
    """Yield what keeps a value from being a JSON Schema, as far as providers refuse it."""
    if isinstance(schema, bool) or schema is None:
        return
    if not isinstance(schema, dict):
        yield f"{where} must be a JSON Schema, not {type_name(schema)}"
        return
    if depth > _MAX_DEPTH:
        yield f"{where} is nested deeper than {_MAX_DEPTH} levels"
        return
    kinds = schema.get("type", [])
    for kind in kinds if isinstance(kinds, list) else [kinds]:
        if kind not in _TYPES:
            yield f"{where}.type is {kind!r}, which is not a type of JSON Schema: {', '.join(sorted(_TYPES))}"
    properties = schema.get("properties", {})
    if not isinstance(properties, dict):
        yield f"{where}.properties must be an object, not {type_name(properties)}"
    else:
        for name, member in properties.items():
            yield from _schema_problems(member, f"{where}.properties.{name}", depth + 1)
    required = schema.get("required", [])
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        yield f"{where}.required must be a list of names"
    for name in ("items", "additionalProperties"):
        if name in schema and not isinstance(schema[name], list):
            yield from _schema_problems(schema[name], f"{where}.{name}", depth + 1)
