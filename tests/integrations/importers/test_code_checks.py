"""Simple tests of an answer in JavaScript and Python are checks; code is parsed and never run."""

from typing import Any

import pytest

from assay.integrations.importers.code_checks import CodeRefused, javascript_checks, json_path, python_checks

VARS = {"topic": "bananas", "least": 5}


def contains(*texts: str, **members: Any) -> dict[str, Any]:
    return {"type": "contains", "any": list(texts), **members}


JAVASCRIPT = [
    ("output.includes('a')", [contains("a")]),
    ('!output.includes("a")', [{"type": "contains", "none": ["a"]}]),
    ("output.includes('a') && output.length <= 9;", [contains("a"), {"type": "length", "max": 9}]),
    ("output.toLowerCase().includes('a') || output.toLowerCase().includes(\"it's\")", [contains("a", "it's", ignore_case=True)]),
    ("!(output.includes('a') || output.includes('b'))", [{"type": "contains", "none": ["a", "b"]}]),
    ("return output.trim() === 'Yes'", [{"type": "equals", "value": "Yes"}]),
    ("'Yes' == output", [{"type": "equals", "value": "Yes"}]),
    ("output !== 'Yes'", [{"type": "equals", "value": "Yes", "expected": False}]),
    ("output === 'A' || output === 'B' || output === 'C'", [{"type": "one-of", "value": ["A", "B", "C"]}]),
    ("output.startsWith('A')", [{"type": "starts-with", "value": "A"}]),
    ("output.startsWith('a.b') || output.startsWith('c')", [{"type": "regex", "value": r"^(?:a\.b|c)"}]),
    ("String(output).endsWith('A')", [{"type": "ends-with", "value": "A"}]),
    ("output.length > 10", [{"type": "length", "min": 11}]),
    ("100 > output.length", [{"type": "length", "max": 99}]),
    ("output.length === 4", [{"type": "length", "min": 4, "max": 4}]),
    ("output.split(' ').length >= 3", [{"type": "length", "min": 3, "unit": "words"}]),
    (r"output.trim().split(/\s+/).length < 8", [{"type": "length", "max": 7, "unit": "words"}]),
    (r"/\d+ €\//.test(output)", [{"type": "regex", "value": r"\d+ €/"}]),
    ("output.match(/^a.b$/ims)", [{"type": "regex", "value": "(?ms)^a.b$", "ignore_case": True}]),
    ("output && output.length > 0", [{"type": "length", "min": 1}, {"type": "length", "min": 1}]),
    ("typeof output === 'string' && output.includes('a')", [contains("a")]),
    ("JSON.parse(output).a.b[0] === 'x'", [{"type": "json-path", "path": "$.a.b[0]", "value": "x"}]),
    ("output['k'].n !== 4", [{"type": "json-path", "path": "$['k'].n", "value": 4, "expected": False}]),
    ("output.is_ok === true", [{"type": "json-path", "path": "$.is_ok", "value": True}]),
    ("output.includes(context.vars.topic)", [contains("bananas")]),
    ("output.length >= context.vars.least", [{"type": "length", "min": 5}]),
    ("output.includes('a') ? 1 : 0", [contains("a")]),
    ("return output.includes('a') ? 'pass' : 'fail: no a'", [contains("a")]),
    ("Boolean(output.includes('a'))", [contains("a")]),
    (
        "// why\n/* and how */ const v = output.toLowerCase(); ['a', 'b'].some((s) => v.includes(s))",
        [contains("a", "b", ignore_case=True)],
    ),
    ("['a', 'b'].every(s => output.includes(s))", [contains("a"), contains("b")]),
    (
        "const p = JSON.parse(output);\nreturn p.a === 1 && p.b === 'x';",
        [{"type": "json-path", "path": "$.a", "value": 1}, {"type": "json-path", "path": "$.b", "value": "x"}],
    ),
    (r"output.includes('\u00e9\n')", [contains("é\n")]),
]


@pytest.mark.parametrize(("code", "checks"), JAVASCRIPT, ids=[code for code, _ in JAVASCRIPT])
def test_a_simple_test_in_javascript_is_a_check(code: str, checks: list[dict[str, Any]]) -> None:
    assert javascript_checks(code, VARS) == checks


PYTHON = [
    ("'a' in output", [contains("a")]),
    ("'a' not in output.lower()", [{"type": "contains", "none": ["a"], "ignore_case": True}]),
    ("len(output) > 10 and output.startswith('A')", [{"type": "length", "min": 11}, {"type": "starts-with", "value": "A"}]),
    ("output.strip() == 'x' or output == 'y'", [{"type": "one-of", "value": ["x", "y"]}]),
    ("json.loads(output)['a'][0] == 3", [{"type": "json-path", "path": "$['a'][0]", "value": 3}]),
    ("re.search(r'\\d', str(output))", [{"type": "regex", "value": "\\d"}]),
    ("context['vars']['topic'] in output", [contains("bananas")]),
    ("return True if 'a' in output else False", [contains("a")]),
    ("not output.endswith('x')", [{"type": "ends-with", "value": "x", "expected": False}]),
]


@pytest.mark.parametrize(("code", "checks"), PYTHON, ids=[code for code, _ in PYTHON])
def test_a_simple_test_in_python_is_a_check(code: str, checks: list[dict[str, Any]]) -> None:
    assert python_checks(code, VARS) == checks


@pytest.mark.parametrize(
    "code",
    [
        "",
        "true",
        "false",
        "output.length",
        "output.includes(x)",
        "output.includes('')",
        "output.includes('a', 3)",
        "x.includes('a')",
        "output.toLowerCase().includes('A')",
        "output.includes('a') && foo()",
        "output.includes('a') || output.length > 3",
        "output.length > -1",
        "output.length < 0",
        "output.length > 1.5",
        "JSON.parse(output).a > 3",
        "output.a.b",
        "fetch('http://x')",
        "if (output) { return true }",
        "throw new Error('no')",
        "output.match(/(?=a)/)",
        "output.match(/a/y)",
        "`${output}`.includes('a')",
        "output.includes('a') ? 0 : 1",
        "output.includes('a' + 'b')",
        "process.exit(1)",
        "(((",
        "output.includes('a'",
        "a => b",
        "'a",
        "[].some(s => output.includes(s))",
        "['a'].some((s, i) => output.includes(s))",
        "!(output.includes('a') && output.includes('b'))",
        "output.includes('a') || output.toLowerCase().includes('a')",
        "output['" + "a" * 5_000 + "'] === 1",
        "(" * 100 + "output" + ")" * 100,
    ],
)
def test_any_other_javascript_is_refused(code: str) -> None:
    with pytest.raises(CodeRefused):
        javascript_checks(code, VARS)


@pytest.mark.parametrize(
    "code",
    [
        "",
        "__import__('os').system('true')",
        "output.upper(1) == 'a'",
        "[x for x in output]",
        "lambda: 1",
        "1 < len(output) < 5",
        "any('a' in output for x in y)",
        "output.lower() == 'A'",
        "def f(): pass",
        "x = 1",
        "(" * 300,
        "len(output) is 3",
    ],
)
def test_any_other_python_is_refused(code: str) -> None:
    with pytest.raises(CodeRefused):
        python_checks(code, VARS)


@pytest.mark.parametrize(
    ("code", "path"),
    [
        ("JSON.parse(output).a[0].b", "$.a[0].b"),
        ("output['x y']", "$['x y']"),
        ("output.toUpperCase()", ""),
        ("output", ""),
        ("f(output)", ""),
    ],
)
def test_a_member_of_the_answer_has_a_path(code: str, path: str) -> None:
    assert json_path(code) == path
