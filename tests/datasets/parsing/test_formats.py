"""With `auto`, a text that cannot be read is reported as that, and not as one without a contract."""

from pathlib import Path

import pytest

from assay import validate
from assay.datasets.parsing.formats import MAX_YAML_BYTES


@pytest.mark.parametrize(
    ("name", "text", "code", "place"),
    [
        ("a.json", '{"name": "x",\n "items": [1, 2,, 3]}', "invalid_json", (2, 17)),
        ("a.json", "{'turn_id': 1}", "invalid_json", (1, 2)),
        ("a.json", '[{"a": 1}', "invalid_json", (1, 10)),
        ("a.json", "hello", "invalid_json", (1, 1)),
        ("a.jsonl", '{"a": 1}\n{"a" 2}\n', "invalid_json", (2, 6)),
        ("a.yaml", "- a: 'b\n", "invalid_yaml", (1, 8)),
        ("a.yaml", "a: b\n c: d: e\n", "invalid_yaml", (2, 3)),
        ("a.txt", '{"name": NaN}', "invalid_json", (1, 10)),
    ],
)
def test_a_syntax_error_is_reported_where_it_is(tmp_path: Path, name: str, text: str, code: str, place: tuple[int, int]) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    report = validate(path)
    assert [(issue.code, (issue.line, issue.column)) for issue in report.issues] == [(code, place)]
    assert (report.contract, report.outcome) == (None, "rejected")
    assert "no contract can be recognised before this is corrected" in report.issues[0].hint


def test_bytes_that_are_not_utf_8_are_reported_as_such() -> None:
    assert [issue.code for issue in validate(b'{"name": "\xff"}').issues] == ["invalid_encoding"]


def test_yaml_above_its_limit_is_reported_with_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    for start, contract in (("- x: ", "auto"), ("- turn_id: ", "auto"), ("- turn_id: ", "conversation_v1")):
        path.write_text(start + "1" * MAX_YAML_BYTES, encoding="utf-8")
        (issue,) = validate(path, contract).issues
        assert (issue.code, "8 MiB" in issue.message) == ("payload_too_large", True)


def test_text_that_can_be_read_still_has_no_contract() -> None:
    assert [issue.code for issue in validate(b'{"name": "x"}').issues] == ["unknown_contract"]
    assert [issue.code for issue in validate(b"hello").issues] == ["unknown_contract"]
