"""Documents of rows: any layout, one or several datasets, strict JSON, bounded memory."""

import gc
import json
import weakref
from pathlib import Path

import pytest

from assay import api
from assay.datasets import read
from assay.datasets.parsing.config import ReadOptions, ValidationConfig
from assay.datasets.parsing.source import open_source
from assay.datasets.row_documents import MAX_FREE_ROWS
from tests.commands import assay
from tests.engine.finalization.test_input_dataset import written
from tests.engine.run_settings import mcq_row


@pytest.mark.parametrize("indent", [None, 2])
def test_a_document_of_rows_is_read_in_any_layout(tmp_path: Path, indent: int | None) -> None:
    rows = [mcq_row("a"), mcq_row("b", prompt=7), mcq_row("c")]
    text = json.dumps({"schema_version": "legal_eval_v1", "rows": rows}, indent=indent)
    (tmp_path / "d.json").write_text(text)
    report = api.validate(tmp_path / "d.json")
    assert [case.id for case in report.cases] == ["a", "c"]
    (issue,) = report.issues
    before = text[: text.index("7")]
    assert (issue.line, issue.column) == (before.count("\n") + 1, len(before) - before.rfind("\n"))


def test_a_document_of_rows_is_read_from_python_objects_too() -> None:
    report = api.validate({"schema_version": "legal_eval_v1", "rows": [mcq_row("a"), mcq_row("b")]})
    assert (report.contract, report.is_valid, [case.id for case in report.cases]) == ("legal_eval_v1", True, ["a", "b"])


def test_rows_that_break_their_contract_keep_their_place_in_the_document(tmp_path: Path) -> None:
    listed = [json.dumps(mcq_row("a"), separators=(",", ":")), json.dumps(mcq_row("b", prompt=7), separators=(",", ":"))]
    (tmp_path / "d.json").write_text('{"schema_version":"legal_eval_v1","rows":[\n' + ",\n".join(listed) + "\n]}\n")
    (issue,) = api.validate(tmp_path / "d.json").issues
    assert (issue.line, issue.column) == (3, listed[1].index("7") + 1)


@pytest.mark.parametrize(
    "text",
    [
        '{"schema_version":"legal_eval_v1","rows":[\n{"a":1}\n{"b":2}\n]}\n',
        '{"schema_version":"legal_eval_v1","rows":[\n{"a":1},\n]}\n',
        '{"schema_version":"legal_eval_v1","rows":[\n{"a":1}',
        '{"schema_version":"legal_eval_v1","rows":[\n{"a":1}\n]} x\n',
        '{"schema_version":"legal_eval_v1","rows":[],"rows":[1]}',
    ],
)
def test_a_document_of_rows_that_is_not_strict_json_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "d.json").write_text(text)
    report = api.validate(tmp_path / "d.json")
    assert (report.contract, report.outcome) == ("legal_eval_v1", "rejected")
    assert "invalid_json" in {issue.code for issue in report.issues} or report.counts.accepted_records == 0


ROWS = ", ".join(json.dumps(mcq_row(name)) for name in "ab")


@pytest.mark.parametrize(
    "text",
    [
        f'{{"schema_version":"legal_eval_v1","rows":[{ROWS}],"rows":[]}}',
        f'{{"schema_version":"legal_eval_v1","rows":[],"rows":[{ROWS}]}}',
        f'{{"schema_version":"legal_eval_v1","rows":[\n{ROWS}\n],\n"rows":[\n\n]}}\n',
        '{"schema_version":"legal_eval_v1","schema_version":"legal_eval_v1",\n"rows":[\n\n]}\n',
        '{"schema_version":"conversation_v1","conversations":[[{"turn_id":1}]],"conversations":[]}',
    ],
)
def test_a_member_that_a_document_of_rows_repeats_is_an_error(tmp_path: Path, text: str) -> None:
    report = api.validate(written(tmp_path, text))
    (issue,) = [issue for issue in report.issues if issue.code == "invalid_encoding"]
    assert (report.outcome, "appears twice in one object" in issue.message) == ("rejected", True)
    at = text.rindex(f'"{issue.path}"')
    assert (issue.line, issue.column) == (text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at))


def test_a_list_of_datasets_that_is_given_twice_is_an_error(tmp_path: Path) -> None:
    part = '{"name":"r","file":"r.jsonl","contract":"legal_eval_v1","document":{"schema_version":"legal_eval_v1","rows":[]}}'
    path = written(tmp_path, f'{{"schema_version":"datasets_v1","datasets":[{part}],"datasets":[]}}')
    result = assay("validate", path)
    assert (result.exit_code, "appears twice in one object" in result.stderr) == (2, True)


@pytest.mark.parametrize(
    "text",
    [
        f'{{\n"rows": [\n{ROWS}\n],\n"schema_version": "legal_eval_v1"\n}}\n',
        f'{{"schema_version": "legal_eval_v1",\n"note": "n",\n"rows": [\n{ROWS}\n]}}\n',
        f'\ufeff{{\r\n  "schema_version": "legal_eval_v1",\r\n  "rows": [\r\n    {ROWS}\r\n  ]\r\n}}\r\n',
        f'\ufeff{{"schema_version":"legal_eval_v1","rows":[\n{ROWS}\n]}}\n',
    ],
)
def test_the_members_of_a_document_of_rows_may_stand_in_any_order_and_layout(tmp_path: Path, text: str) -> None:
    report = api.validate(written(tmp_path, text))
    assert ([case.id for case in report.cases], report.count("error")) == (["a", "b"], 0)


def test_a_document_of_rows_names_its_contract(tmp_path: Path) -> None:
    (issue,) = api.validate(written(tmp_path, f'{{"rows": [{ROWS}]}}')).issues
    assert (issue.code, issue.path, issue.severity) == ("missing_required_field", "schema_version", "error")


def test_a_row_with_a_member_called_rows_is_a_row(tmp_path: Path) -> None:
    row = json.dumps({"schema_version": "legal_eval_v1", "rows": [["a", 1]], **mcq_row("a")})
    path = tmp_path / "rows.jsonl"
    for count in (1, 2):
        path.write_text("\n".join([row, json.dumps(mcq_row("b"))][:count]) + "\n")
        assert [case.id for case in api.validate(path).cases] == ["a", "b"][:count]


def test_rows_in_one_line_are_bounded_and_those_on_lines_of_their_own_are_not(tmp_path: Path) -> None:
    head, rows = '{"schema_version":"legal_eval_v1","rows":[', ["1"] * (MAX_FREE_ROWS + 1)
    (tmp_path / "one.json").write_text(f"{head}{','.join(rows)}]}}")
    (issue,) = api.validate(tmp_path / "one.json").issues
    assert (issue.code, issue.hint) == (
        "value_out_of_range",
        "write each row on a line of its own, as runs do, or the rows as JSON Lines",
    )
    listed = ",\n".join(rows)
    (tmp_path / "lines.json").write_text(f"{head}\n{listed}\n]}}\n")
    assert api.validate(tmp_path / "lines.json").counts.total_records == len(rows)


@pytest.mark.parametrize(
    ("contract", "text"),
    [
        ("legal_eval_v1", '{"schema_version":"legal_eval_v1","rows":[1,1,1]}'),
        ("conversation_v1", '{"schema_version":"conversation_v1","conversations":[[1],[1],[1]]}'),
    ],
)
def test_rows_in_one_line_leave_memory_without_the_collector(contract: str, text: str) -> None:
    source = open_source(text.encode(), name="one.json")
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        issues = read(source, contract, config=ValidationConfig(), options=ReadOptions()).issues
        held = weakref.ref(source.rows.source), weakref.ref(source)
        del source
        assert len({issue.column for issue in issues}) == 3
        assert [one() for one in held] == [None, None]
    finally:
        if is_enabled:
            gc.enable()
