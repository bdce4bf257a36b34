"""Validation of real datasets; their folder comes from ASSAY_REALDATA, without it these tests are skipped."""

import os
from collections import Counter
from pathlib import Path

import pytest

from assay import Case, ValidationConfig, stream, validate
from assay.conversation import AgentDataValidator

FOLDER = Path(os.environ.get("ASSAY_REALDATA", "/nonexistent"))
MERGED = FOLDER / "eu_legal_benchmark" / "merged_legal_eval_v1.HEAD.jsonl"
GOOD = (
    *("golden", "security", "tone", "routing", "schedule_cron", "notification_judgment"),
    *("error_recovery", "knowledge_connections", "graph_extraction"),
)
GOLDEN = sorted((FOLDER / "golden").glob("*.json"))
CONVERSATIONS = sorted((FOLDER / "conversations").rglob("*.json"))

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="ASSAY_REALDATA names no folder")


def is_good(path: Path) -> bool:
    return path.name.removesuffix("_dataset.json").removesuffix("_golden") in GOOD


def test_the_merged_legal_file_has_125_valid_rows() -> None:
    report = validate(MERGED)
    assert (report.contract, report.outcome, report.counts.total_records, report.is_valid) == (
        "legal_eval_v1",
        "accepted",
        125,
        True,
    )
    assert Counter(case.task for case in report.cases) == {"rubric": 38, "reference": 10, "mcq": 77}


def test_the_merged_legal_file_streams_as_it_validates() -> None:
    assert [found for found in stream(MERGED) if isinstance(found, Case)] == list(validate(MERGED).cases)


@pytest.mark.parametrize("path", [path for path in GOLDEN if is_good(path)], ids=lambda path: path.stem)
def test_a_real_golden_dataset_is_valid(path: Path) -> None:
    report = validate(path, "golden_v1")
    assert (report.outcome, len(list(report.cases))) == ("accepted", report.counts.total_records)


@pytest.mark.parametrize("path", [path for path in GOLDEN if not is_good(path)], ids=lambda path: path.stem)
def test_a_dataset_of_another_shape_is_no_golden_dataset(path: Path) -> None:
    assert validate(path, "golden_v1").outcome == "rejected"


def test_nine_of_nineteen_golden_datasets_are_valid() -> None:
    assert Counter(map(is_good, GOLDEN)) == {True: 9, False: 10}


@pytest.mark.parametrize("path", CONVERSATIONS, ids=lambda path: path.stem)
def test_a_real_conversation_is_valid_where_a_tool_call_may_come_without_words(path: Path) -> None:
    config = ValidationConfig(allow_empty_messages=True)
    report = validate(path, config=config)
    assert (report.contract, report.outcome, len(list(report.cases))) == ("conversation_v1", "accepted", 1)
    assert AgentDataValidator(config).validate_file(path).is_valid


@pytest.mark.parametrize("path", CONVERSATIONS, ids=lambda path: path.stem)
def test_empty_replies_are_all_that_is_wrong_with_a_real_conversation(path: Path) -> None:
    report = validate(path)
    assert {issue.name for issue in report.record_errors} <= {"Empty message"}
    assert report.dataset_errors == ()


def test_there_are_101_real_conversations() -> None:
    assert len(CONVERSATIONS) == 101
