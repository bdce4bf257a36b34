"""Paths into replies: members and elements, nothing that computes; and the structure of a reply without its contents."""

import pytest

from assay.core.json_path import JsonPath, path_problem, structure_of

REPLY = {"a": {"b c": [{"d": 1}, {"d": 2}, {}]}, "": 0, "n": None, "list": [[1], [2, 3]]}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("$", [REPLY]),
        ("$.a['b c'][0].d", [1]),
        ('$.a["b c"][-2].d', [2]),
        ("$.a['b c'][*].d", [1, 2]),
        ("$.list[*][*]", [1, 2, 3]),
        ("$.a.*[1].d", [2]),
        ("$.n", [None]),
        ("$.n.x", []),
        ("$.a[0]", []),
        ("$.list[7]", []),
        ("$.list[-7]", []),
        ("$.missing", []),
    ],
)
def test_a_path_finds_values(path: str, found: list[object]) -> None:
    assert JsonPath(path).find(REPLY) == found


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("answer", "write $.answer"),
        ("", "does not begin with $"),
        ("$answer", "cannot be read from 'answer' on"),
        ("$.a..b", "cannot be read from '..b' on"),
        ("$.a[?(@.b)]", "cannot be read from '[?(@.b)]' on"),
        ("$.a[0:2]", "cannot be read"),
        ("$.a[", "cannot be read"),
    ],
)
def test_what_is_not_a_path_is_explained(path: str, problem: str) -> None:
    assert problem in path_problem(path)


def test_a_structure_has_names_and_types_but_no_contents() -> None:
    reply = {"id": "secret", "n": 1.5, "ok": True, "gone": None, "steps": [{"tool": "secret"}, {"tool": "x"}], "none": []}
    assert structure_of(reply) == "{id: text, n: number, ok: true or false, gone: null, steps: [2 x {tool: text}], none: []}"


def test_the_structure_of_anything_is_short() -> None:
    deep: dict[str, object] = {}
    for _ in range(50):
        deep = {"x" * 100: deep, **{str(number): "y" for number in range(50)}}
    assert len(structure_of(deep)) <= 400
