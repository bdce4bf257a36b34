"""`assay convert` through its entry, in this process."""

import json
from pathlib import Path

import pytest

from tests.commands import assay

QUESTION = {
    "question": "Which form does a contract of sale of land need?",
    "choices": ["none", "writing", "a notarial deed", "registration"],
    "gold": 2,
    "course": "Contract law",
    "language": "en",
    "question_type": "mcq",
    "id": "q7",
    "source_subset": "mcq_4",
}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "lexam.jsonl"
    path.write_text(json.dumps(QUESTION) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """A good row, a row without a question, and a line that is no JSON."""
    path = tmp_path / "mixed.jsonl"
    rows = [json.dumps(QUESTION), json.dumps({**QUESTION, "id": "q8", "question": None}), "{"]
    path.write_text("\n".join(rows), encoding="utf-8")
    return path


def test_a_benchmark_becomes_rows_that_validate(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    result = assay("convert", "lexam", source, "-o", target)
    assert (result.exit_code, result.stderr) == (0, "")
    assert json.loads(target.read_bytes())["id"] == "lexam:mcq:mcq_4:q7"
    assert assay("validate", target, "--contract", "legal_eval_v1").exit_code == 0


def test_the_report_is_a_table_of_sources(source: Path, tmp_path: Path) -> None:
    lines = assay("convert", "lexam", source, "-o", tmp_path / "out.jsonl").stdout.splitlines()
    assert lines[-2].split() == ["source", "read", "emitted", "invalid", "skipped"]
    assert lines[-1].split()[-4:] == ["1", "1", "0", "0"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [(json.dumps({**QUESTION, "question": None}), "none of the 1 rows could be converted"), ("", "the sources have no rows")],
)
@pytest.mark.parametrize("output", ["out.jsonl", "-"])
def test_a_conversion_without_a_record_writes_nothing(tmp_path: Path, content: str, reason: str, output: str) -> None:
    (tmp_path / "lexam.jsonl").write_text(content)
    result = assay("convert", "lexam", tmp_path / "lexam.jsonl", "-o", output if output == "-" else tmp_path / output)
    assert (result.exit_code, [path.name for path in tmp_path.iterdir()]) == (1, ["lexam.jsonl"])
    assert f"no record could be converted, and nothing was written: {reason}" in result.stderr


def test_invalid_rows_exit_1_and_are_named_by_line(mixed: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    result = assay("convert", "lexam", mixed, "-o", target)
    assert result.exit_code == 1
    assert f"{mixed}:2: invalid: " in result.stdout
    assert f"{mixed}:3: invalid: " in result.stdout
    assert len(target.read_bytes().splitlines()) == 1


def test_several_sources_have_a_total(source: Path, mixed: Path, tmp_path: Path) -> None:
    lines = assay("convert", "lexam", source, mixed, "-o", tmp_path / "out.jsonl").stdout.splitlines()
    assert lines[-1].split() == ["total", "4", "1", "2", "1"]


def test_rows_go_to_standard_output_and_the_table_to_standard_error(source: Path) -> None:
    result = assay("convert", "lexam", source, "-o", "-")
    assert json.loads(result.stdout)["task_type"] == "mcq"
    assert "emitted" in result.stderr


def test_the_report_is_kept_as_json(mixed: Path, tmp_path: Path) -> None:
    kept = tmp_path / "report.json"
    assay("convert", "lexam", mixed, "-o", tmp_path / "out.jsonl", "--report", kept)
    report = json.loads(kept.read_bytes())
    assert report["totals"] == {"read": 3, "emitted": 1, "invalid": 2, "skipped": 0}
    assert [remark["line"] for remark in report["remarks"] if remark["action"] == "invalid"] == [2, 3]


def test_upstream_ids_are_those_of_older_conversions(source: Path) -> None:
    row = json.loads(assay("convert", "lexam", source, "-o", "-", "--id-style", "upstream").stdout)
    assert row["id"] == "lexam:mcq:q7:1"


def test_one_contract_becomes_another(source: Path, tmp_path: Path) -> None:
    rows, batch = tmp_path / "rows.jsonl", tmp_path / "batch.json"
    assay("convert", "lexam", source, "-o", rows)
    result = assay("convert", "--from", "legal_eval_v1", "--to", "batch_v1", rows, "-o", batch)
    assert result.exit_code == 0
    assert assay("validate", batch, "--contract", "batch_v1").exit_code == 0


def test_a_missing_source_writes_nothing(tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    result = assay("convert", "lexam", tmp_path / "none.jsonl", "-o", target)
    assert (result.exit_code, target.exists()) == (2, False)
    assert result.stderr.startswith("assay: ")


def test_remarks_that_are_alike_are_collapsed_after_three(tmp_path: Path) -> None:
    source = tmp_path / "bad.jsonl"
    source.write_text("{\n" * 25, encoding="utf-8")
    text = assay("convert", "lexam", source, "-o", tmp_path / "out.jsonl").stdout
    assert f"{source}: invalid (25 times): " in text
    assert text.count("    line ") == 3
    assert "    … and 22 more like this\n" in text


@pytest.mark.parametrize("option", ["-v", "--verbose"])
def test_all_remarks_are_listed_on_request(option: str, tmp_path: Path) -> None:
    source = tmp_path / "bad.jsonl"
    source.write_text("{\n" * 25, encoding="utf-8")
    text = assay("convert", "lexam", source, "-o", tmp_path / "out.jsonl", option).stdout
    assert text.count("    line ") == 25
