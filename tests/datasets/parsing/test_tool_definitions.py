"""Files with the tools of a run."""

import json
from pathlib import Path

import pytest

from assay.core.tools import ToolDefinition, infer_tools
from assay.datasets.parsing.tool_definitions import load_tools, read_tools

SCHEMA = {"type": "object", "properties": {"day": {"type": "string"}}, "required": ["day"]}
OPEN = ToolDefinition("open", "When a shop is open.", SCHEMA)


@pytest.mark.parametrize(
    "value",
    [
        [{"name": "open", "description": "When a shop is open.", "parameters": SCHEMA}],
        [{"name": "open", "description": "When a shop is open.", "input_schema": SCHEMA}],
        [{"type": "function", "function": {"name": "open", "description": "When a shop is open.", "parameters": SCHEMA}}],
        {"tools": [{"type": "function", "name": "open", "description": "When a shop is open.", "parameters": SCHEMA}]},
    ],
)
def test_definitions_are_read_in_the_formats_of_the_common_apis(value: object) -> None:
    assert read_tools(value) == ((OPEN,), [])


def test_yaml_is_read_like_json(tmp_path: Path) -> None:
    (tmp_path / "tools.json").write_text(json.dumps([{"name": "now"}]))
    (tmp_path / "tools.yaml").write_text("- name: now\n")
    assert load_tools(tmp_path / "tools.json") == load_tools(tmp_path / "tools.yaml") == ((ToolDefinition("now"),), [])


def test_every_problem_is_reported_with_its_place() -> None:
    tools, problems = read_tools(
        [
            "open",
            {"name": " "},
            {"name": "a", "description": 1, "parameters": {"type": "dict", "properties": []}},
            {"name": "b", "parameters": {"properties": {"x": {"type": "array", "items": 3}}, "required": "x"}},
            {"name": "c"},
            {"name": "c"},
        ]
    )
    assert tools == ()
    assert problems == [
        "[0] must be an object with a name, a description and parameters, not a string",
        "[1] has no name",
        "[2] description must be a string, not an integer",
        "[2] parameters.type is 'dict', which is not a type of JSON Schema: array, boolean, integer, null, number, object, string",
        "[2] parameters.properties must be an object, not an array",
        "[3] parameters.properties.x.items must be a JSON Schema, not an integer",
        "[3] parameters.required must be a list of names",
        "tool 'c' is defined 2 times",
    ]


def test_a_schema_that_never_ends_is_refused() -> None:
    schema: dict[str, object] = {}
    for _ in range(100):
        schema = {"properties": {"a": schema}}
    assert "nested deeper than 32 levels" in read_tools([{"name": "a", "parameters": schema}])[1][0]


def test_definitions_are_inferred_from_all_inputs_and_contradictions_are_named() -> None:
    calls = [
        ("find", {"id": 1, "when": None}),
        ("find", {"id": 2.5, "when": "now"}),
        ("now", {}),
        ("find", {"id": "x", "tags": ["a"]}),
    ]
    tools, contradictions = infer_tools(calls)
    assert [tool.name for tool in tools] == ["find", "now"]
    assert tools[0].parameters["properties"] == {
        "id": {"type": ["number", "string"]},
        "tags": {"type": "array"},
        "when": {"type": ["null", "string"]},
    }
    assert tools[0].parameters["required"] == ["id"]
    assert contradictions == ("'id' of 'find' is number and string",)
