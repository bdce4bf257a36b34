"""Converters against real benchmark files; their folder comes from ASSAY_REALDATA, without it these tests are skipped."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from assay import ValidationConfig, validate
from assay.datasets.converters import ConversionResult, convert_cases, convert_files

FOLDER = Path(os.environ.get("ASSAY_REALDATA", "/nonexistent"))
BENCHMARK = FOLDER / "eu_legal_benchmark"
CURATED = {
    "prbench": "prbench_legal_hard_europe.jsonl",
    "apexv1": "apexv1_legal_europe.jsonl",
    "lexam": "lexam_swiss_tough_diverse.jsonl",
    "includebase": "includebase_europe_law.jsonl",
    "lar_echr": "lar_echr_tough_17.jsonl",
}
LEXAM = ("MCQs_test.jsonl", "MCQs_test_perturbation.jsonl", "open_questions_dev.jsonl", "open_questions_test.jsonl")
GOLDEN = (
    "golden",
    "security",
    "tone",
    "routing",
    "schedule_cron",
    "notification_judgment",
    "error_recovery",
    "knowledge_connections",
    "graph_extraction",
)

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="ASSAY_REALDATA names no folder")

Row = dict[str, Any]


def merged() -> list[Row]:
    lines = (BENCHMARK / "merged_legal_eval_v1.HEAD.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def curated(id_style: Any) -> list[Row]:
    conversions = [convert_files(name, [BENCHMARK / "curated" / file], id_style=id_style) for name, file in CURATED.items()]
    return [row for conversion in conversions for row in conversion.rows]


def without_weights(row: Row) -> Row:
    rubric = [{name: value for name, value in criterion.items() if name != "weight"} for criterion in row.get("rubric", [])]
    return {**row, "rubric": rubric}


def without_ids(row: Row) -> Row:
    """Ids replaced by positions: of the row, of its choices and of the correct ones among them."""
    ids = [choice["id"] for choice in row.get("choices", [])]
    correct = [ids.index(choice) for choice in row.get("correct_choice_ids", [])]
    return {**row, "id": "", "choices": [choice["text"] for choice in row.get("choices", [])], "correct_choice_ids": correct}


def weights(rows: list[Row]) -> list[float]:
    return [criterion["weight"] for row in rows if row["dataset"] == "prbench" for criterion in row["rubric"]]


def test_older_ids_give_the_merged_rows_byte_for_byte_but_for_the_weights() -> None:
    ours, theirs = curated("upstream"), merged()
    assert len(ours) == 125
    assert [json.dumps(without_weights(row)) for row in ours] == [json.dumps(without_weights(row)) for row in theirs]


def test_stable_ids_differ_from_the_merged_rows_in_ids_and_weights_only() -> None:
    ours, theirs = curated("stable"), merged()
    assert [without_ids(without_weights(row)) for row in ours] == [without_ids(without_weights(row)) for row in theirs]
    assert {row["dataset"] for row, other in zip(ours, theirs, strict=True) if row["id"] != other["id"]} == {"lexam", "includebase"}
    assert len({row["id"] for row in ours}) == 125


def test_73_of_721_weights_were_wrong_and_seven_had_the_other_sign() -> None:
    pairs = list(zip(weights(curated("stable")), weights(merged()), strict=True))
    assert len(pairs) == 721
    assert len([1 for ours, theirs in pairs if ours != theirs]) == 73
    assert len([1 for ours, theirs in pairs if ours * theirs < 0]) == 7


def test_choice_ids_differ_past_z_only() -> None:
    pairs = [
        (a["choices"], b["choices"])
        for a, b in zip(curated("stable"), merged(), strict=True)
        if a.get("choices") != b.get("choices")
    ]
    assert len(pairs) == 10
    assert all(ours[:26] == theirs[:26] for ours, theirs in pairs)
    assert {tuple(choice["id"] for choice in ours[26:]) for ours, _ in pairs} == {("AA", "AB", "AC", "AD", "AE", "AF")}


@pytest.mark.parametrize("id_style", ["stable", "upstream"])
def test_all_of_lexam_converts_to_valid_rows_with_unique_ids(id_style: Any) -> None:
    conversion = convert_files("lexam", [FOLDER / "lexam" / name for name in LEXAM], id_style=id_style)
    assert conversion.report.to_dict()["totals"] == {"read": 4886, "emitted": 6041, "invalid": 0, "skipped": 0}
    report = validate(b"".join(conversion.lines()), contract="legal_eval_v1")
    assert (report.outcome, report.counts.accepted_records, report.issues) == ("accepted", 6041, ())


def test_merged_rows_fit_into_batch_v1_and_15_of_them_move_metadata() -> None:
    cases = validate(BENCHMARK / "merged_legal_eval_v1.HEAD.jsonl").cases
    conversion = convert_cases(cases, source="legal_eval_v1", target="batch_v1")
    moved = {remark.record_id for remark in conversion.report.remarks if remark.path.startswith("metadata.")}
    report = validate(b"".join(conversion.lines()), contract="batch_v1")
    assert len(moved) == 15
    assert (report.outcome, report.counts.accepted_records, report.issues) == ("accepted", 125, ())


def golden(name: str, target: Any) -> ConversionResult:
    return convert_cases(validate(FOLDER / "golden" / file_name(name)).cases, source="golden_v1", target=target)


def file_name(name: str) -> str:
    return "golden_dataset.json" if name == "golden" else f"{name}_golden_dataset.json"


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_datasets_go_to_batch_v1_and_come_back_as_they_were(name: str) -> None:
    original = json.loads((FOLDER / "golden" / file_name(name)).read_text(encoding="utf-8"))
    there = validate(golden(name, "batch_v1").document, contract="batch_v1")
    back = convert_cases(there.cases, source="batch_v1", target="golden_v1").document or {}
    fields = ("id", "user_prompt", "rubric", "context", "tags")
    assert back["cases"] == [{field: case[field] for field in fields if case.get(field)} for case in original["cases"]]
    assert back["version"] == original["version"]


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_datasets_become_valid_rubric_rows(name: str) -> None:
    report = validate(b"".join(golden(name, "legal_eval_v1").lines()), contract="legal_eval_v1")
    assert (report.outcome, report.issues) == ("accepted", ())


def test_recorded_conversations_become_754_valid_questions() -> None:
    config = ValidationConfig(allow_empty_messages=True, max_message_length=50_000, max_assistant_reply_length=50_000)
    files = sorted((FOLDER / "conversations").rglob("*.json"))
    cases = [case for path in files for case in validate(path, config=config).cases]
    conversion = convert_cases(cases, source="conversation_v1", target="legal_eval_v1")
    report = validate(b"".join(conversion.lines()), contract="legal_eval_v1")
    assert conversion.report.to_dict()["totals"] == {"read": 101, "emitted": 754, "invalid": 0, "skipped": 48}
    assert (report.outcome, report.issues) == ("accepted", ())
