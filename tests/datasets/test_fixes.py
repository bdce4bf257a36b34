"""Safe fixes: what is changed, what is never changed, and that a corrected copy is no worse than its source."""

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay import ValidationConfig, validate
from assay.api import FixReport, fix, load_config
from assay.datasets.fixes import fix_source
from assay.datasets.parsing.source import open_source
from tests.mutants import mutant_of

FOLDER = Path(__file__).parent
MARK = b"\xef\xbb\xbf"
HEAD = '{"dataset_id": "d", "dataset_version": "1", "schema_version": "1.0", "records": [\n  '
GOOD = '{"record_id":  "good", "input": {"prompt":"\\u0070"}}'
ROW: dict[str, Any] = {
    "schema_version": "legal_eval_v1",
    "id": "a",
    "dataset": "d",
    "task_type": "reference_qa",
    "prompt": "p",
    "reference_answers": ["x"],
}
TURN: dict[str, Any] = {"turn_id": 1, "speaker": "user", "message": "hi"}
VALID = [
    path
    for path in sorted(FOLDER.glob("*/valid/*"))
    if not path.name.endswith((".issues.json", ".config.yaml")) and path.stat().st_size
]


def fixed_copy(
    content: str | bytes, folder: Path, *, name: str = "source.json", config: ValidationConfig | None = None
) -> tuple[bytes, FixReport]:
    source = folder / name
    source.write_bytes(content if isinstance(content, bytes) else content.encode())
    report = fix(source, folder / f"fixed-{name}", config=config)
    return (folder / f"fixed-{name}").read_bytes(), report


def batch(*records: str) -> str:
    return HEAD + ",\n  ".join(records) + "\n]}\n"


def changes_of(report: FixReport) -> list[tuple[int, str, str]]:
    return [(change.line, change.path, change.message) for change in report.changes]


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (batch(GOOD), "a.json"),
        (json.dumps(ROW) + "\r\n\r\n", "a.jsonl"),
        (json.dumps([TURN], indent=3), "a.json"),
        (json.dumps(TURN) + "\n", "a.jsonl"),
        ("- {turn_id: 1, speaker: user, message: hi} # note\n", "a.yaml"),
    ],
    ids=["batch", "legal", "turns", "turn-lines", "yaml"],
)
def test_a_byte_order_mark_is_removed_and_nothing_else_changes(content: str, name: str, tmp_path: Path) -> None:
    corrected, report = fixed_copy(MARK + content.encode(), tmp_path, name=name)
    assert corrected == content.encode()
    assert changes_of(report) == [(1, "", "removed the byte order mark")]
    assert report.report.is_valid


@pytest.mark.parametrize("path", VALID, ids=[f"{path.parts[-3]}-{path.name}" for path in VALID])
def test_a_valid_file_stays_valid_and_keeps_its_cases(path: Path, tmp_path: Path) -> None:
    config = path.with_name(path.name + ".config.yaml")
    settings_of = load_config(config) if config.exists() else ValidationConfig()
    before = validate(path, path.parts[-3], config=settings_of)
    after = fix(path, tmp_path / path.name, path.parts[-3], config=settings_of).report
    assert after.is_valid
    assert [(case.id, case.prompt, case.messages) for case in after.cases] == [
        (case.id, case.prompt, case.messages) for case in before.cases
    ]


def test_text_of_a_batch_is_normalised_and_other_records_stay_as_they_are(tmp_path: Path) -> None:
    nfd = '{"record_id": "n", "input": {"prompt": "Cafe\u0301"}}'
    corrected, report = fixed_copy(batch(GOOD, nfd, GOOD.replace("good", "last")), tmp_path)
    assert changes_of(report) == [(3, "records[1].input.prompt", "normalised to Unicode NFC")]
    assert corrected.decode() == batch(GOOD, '{"record_id":"n","input":{"prompt":"Caf\u00e9"}}', GOOD.replace("good", "last"))
    assert report.report.issues == ()


def test_text_of_the_document_itself_is_normalised(tmp_path: Path) -> None:
    nfd = '{"record_id": "n", "input": {"prompt": "Cafe\u0301"}, "tags": ["e\u0301"]}'
    content = MARK.decode() + batch(nfd).replace('"1"', '"e\u0301"').replace("\n]}", '\n],\n"metadata": {"A\u030a": ["e\u0301"]}}')
    corrected, report = fixed_copy(content, tmp_path)
    assert changes_of(report) == [
        (1, "", "removed the byte order mark"),
        *[
            (line, path, "normalised to Unicode NFC")
            for line, path in (
                (1, "dataset_version"),
                (2, "records[0].input.prompt"),
                (2, "records[0].tags[0]"),
                (4, "metadata.A\u030a"),
                (4, "metadata.A\u030a[0]"),
            )
        ],
    ]
    assert (json.loads(corrected)["dataset_version"], json.loads(corrected)["metadata"]) == ("\u00e9", {"\u00c5": ["\u00e9"]})
    assert report.report.issues == ()


@pytest.mark.parametrize(
    ("content", "name", "path"),
    [
        (batch(GOOD.replace("good", "good \\t")), "a.json", "records[0].record_id"),
        (json.dumps({**ROW, "id": "a \n"}), "a.jsonl", "id"),
        (
            json.dumps(
                {
                    "version": "1.0.0",
                    "cases": [{"id": f"c-{n} "[: 4 - (n > 0)], "user_prompt": "p", "rubric": "r" * 10} for n in range(5)],
                }
            ),
            "a.json",
            "cases[0].id",
        ),
    ],
    ids=["batch", "legal", "golden"],
)
def test_white_space_at_the_end_of_an_id_is_removed(content: str, name: str, path: str, tmp_path: Path) -> None:
    _, report = fixed_copy(content, tmp_path, name=name)
    assert changes_of(report) == [(2 if path.startswith("records") else 1, path, "removed white space at the end")]
    assert report.report.is_valid


def test_white_space_stays_where_the_id_would_be_that_of_another_record(tmp_path: Path) -> None:
    content = batch(GOOD.replace("good", "a"), GOOD.replace("good", "a "))
    _, report = fixed_copy(content, tmp_path)
    assert (report.report.outcome, report.report.counts.accepted_records) == ("accepted", 2)


def test_unknown_fields_of_a_record_move_into_metadata(tmp_path: Path) -> None:
    record = '{"record_id": "r", "input": {"prompt": "p"}, "level": 3, "by": "Ann", "metadata": {"k": 1}}'
    corrected, report = fixed_copy(batch(record), tmp_path)
    assert changes_of(report) == [
        (2, "records[0].level", "moved into metadata.level"),
        (2, "records[0].by", "moved into metadata.by"),
    ]
    assert json.loads(corrected)["records"][0]["metadata"] == {"k": 1, "level": 3, "by": "Ann"}
    assert report.report.issues == ()


def test_unknown_fields_of_a_row_move_into_metadata(tmp_path: Path) -> None:
    content = json.dumps(ROW) + "\n\n" + json.dumps({**ROW, "id": "b", "language": "en"}) + "\n"
    corrected, report = fixed_copy(content, tmp_path, name="a.jsonl")
    assert changes_of(report) == [(3, "language", "moved into metadata.language")]
    assert corrected.splitlines()[0] == json.dumps(ROW).encode()
    assert json.loads(corrected.splitlines()[2])["metadata"] == {"language": "en"}


def test_unknown_fields_of_a_turn_move_into_metadata(tmp_path: Path) -> None:
    _, whole = fixed_copy(json.dumps([TURN, {**TURN, "turn_id": 2, "mood": "calm"}]), tmp_path)
    _, lines = fixed_copy(json.dumps([TURN]) + "\n" + json.dumps([{**TURN, "mood": "calm"}]) + "\n", tmp_path, name="a.jsonl")
    assert [change.path for change in whole.changes] == ["[1].mood"]
    assert [(change.line, change.message) for change in lines.changes] == [(2, "moved into metadata.mood")]
    assert whole.report.issues == lines.report.issues == ()


@pytest.mark.parametrize("metadata", [{"level": 1}, [], "x"])
def test_an_unknown_field_stays_where_metadata_has_no_room_for_it(metadata: Any, tmp_path: Path) -> None:
    content = json.dumps({**ROW, "level": 3, "metadata": metadata})
    corrected, report = fixed_copy(content, tmp_path, name="a.jsonl")
    assert (corrected.decode(), report.changes) == (content, ())


def test_an_unknown_field_moves_into_metadata_that_was_null(tmp_path: Path) -> None:
    corrected, report = fixed_copy(json.dumps({**ROW, "level": 3, "metadata": None}), tmp_path, name="a.jsonl")
    assert json.loads(corrected) == {**ROW, "metadata": {"level": 3}}
    assert [change.path for change in report.changes] == ["metadata", "level"]


def test_a_field_that_means_something_in_metadata_stays(tmp_path: Path) -> None:
    """`metadata.policy_id` decides how a row is judged; a stray `policy_id` does not."""
    content = json.dumps({**ROW, "policy_id": 5})
    _, report = fixed_copy(content, tmp_path, name="a.jsonl")
    assert report.report.is_valid
    assert [case.policy_id for case in report.report.cases] == [""]


def test_fields_that_the_settings_name_stay(tmp_path: Path) -> None:
    config = ValidationConfig(required_fields=["turn_id", "speaker", "at"], optional_fields=["message", "mood"])
    content = json.dumps([{**TURN, "at": 1, "mood": "calm"}])
    corrected, report = fixed_copy(content, tmp_path, config=config)
    assert (corrected.decode(), report.changes) == (content, ())
    assert report.report.is_valid


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (batch(GOOD), "a.json"),
        (batch('{"record_id": "x ", "input": {"prompt": "\\ud800"}}', GOOD), "a.json"),
        (batch('{"record_id": "x ", "record_id": "y", "input": {"prompt": ""}}', GOOD), "a.json"),
        ('{"records": [', "a.json"),
        ('{"id": "a ", "task_type": "mcq", oops}\n', "a.jsonl"),
        ("- {turn_id: 1, speaker: user, message: hi, mood: calm}\n", "a.yaml"),
        (batch("5", GOOD), "a.json"),
        (json.dumps(ROW) + "\n[1]\n", "a.jsonl"),
        ('{"version": "1.0.0", "cases": [5]}', "a.json"),
        ('{"version": "1.0.0", "cases": 5}', "a.json"),
    ],
    ids=["clean", "surrogate", "duplicate-key", "cut-off", "broken-line", "yaml", "record", "row", "case", "cases"],
)
def test_what_is_not_safe_is_left_as_it_is(content: str, name: str, tmp_path: Path) -> None:
    corrected, report = fixed_copy(content, tmp_path, name=name)
    assert (corrected.decode(), report.changes) == (content, ())


def test_an_existing_output_is_replaced_and_nothing_else_is_left_behind(tmp_path: Path) -> None:
    (tmp_path / "fixed-source.json").write_text("old", encoding="utf-8")
    corrected, _ = fixed_copy(batch(GOOD), tmp_path)
    assert corrected.decode() == batch(GOOD)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fixed-source.json", "source.json"]


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=300)
def test_a_corrected_copy_has_no_error_that_its_source_had_not(seed: int) -> None:
    random = Random(seed)
    rows = [mutant_of({**ROW, "id": name}, random, most=2).replace(b"\n", b"") for name in ("a", "b ", "c")]
    content = b"\n".join(rows)
    before, after = (
        validate(content, "legal_eval_v1"),
        validate(fix_source(open_source(content), "legal_eval_v1").content, "legal_eval_v1"),
    )
    assert after.counts.rejected_records <= before.counts.rejected_records


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=300)
def test_a_corrected_batch_has_no_record_less(seed: int) -> None:
    random = Random(seed)
    record = {"record_id": "b ", "input": {"prompt": "e\u0301"}, "level": 1, "metadata": {"k": [1.0, -0.0]}}
    content = batch(GOOD, "@", GOOD.replace("good", "last")).encode().replace(b"@", mutant_of(record, random, most=2))
    before = validate(content, "batch_v1")
    after = validate(fix_source(open_source(content), "batch_v1").content, "batch_v1")
    assert after.counts.accepted_records >= before.counts.accepted_records


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=300)
def test_a_corrected_copy_needs_no_second_correction(seed: int) -> None:
    content = mutant_of([{**TURN, "mood": 1}, {**TURN, "turn_id": 2}], Random(seed), most=2)
    once = fix_source(open_source(content), "conversation_v1").content
    assert fix_source(open_source(once), "conversation_v1").changes == ()
