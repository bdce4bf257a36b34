"""Reports of validation: cases that are read on demand, as often as wanted, and the report as JSON."""

import json
from pathlib import Path

from assay import validate
from tests.api.test_validation import BATCH, GOLDEN, RECORD, ROW
from tests.datasets.test_first_users import DOCUMENT


def test_a_report_reads_its_cases_each_time_anew() -> None:
    report = validate(b"\n".join(json.dumps({**ROW, "id": name}).encode() for name in "abc"))
    assert [case.id for case in report.cases] == ["a", "b", "c"]
    assert [case.id for case in report.cases] == ["a", "b", "c"]


def test_the_cases_of_a_batch_keep_everything_of_their_records() -> None:
    full = {
        "record_id": "full",
        "input": {"prompt": "p", "locale": "en"},
        "reference": {"answer": "a", "pages": [1]},
        "tags": ["x"],
        "expected": {"max_latency_ms": 5, "required_criteria": ["accuracy", "accuracy"]},
        "metadata": {"k": 1},
    }
    [case] = validate({**BATCH, "records": [full]}).cases
    assert (case.id, case.index, case.contract, case.dataset, case.task) == ("full", 0, "batch_v1", "d", "open")
    assert (case.prompt, case.references, case.tags, case.max_latency_ms) == ("p", ("a",), ("x",), 5)
    assert [criterion.id for criterion in case.criteria] == ["accuracy"]
    assert case.metadata == {"k": 1}
    assert case.extra == {"input": {"locale": "en"}, "reference": {"pages": [1]}, "required_criteria": ["accuracy", "accuracy"]}


def test_the_cases_of_a_batch_are_normalised() -> None:
    [case] = validate({**BATCH, "records": [{"record_id": "cafe\u0301", "input": {"prompt": "e\u0301"}}]}).cases
    assert (case.id, case.prompt) == ("caf\u00e9", "\u00e9")


def test_the_cases_of_a_legal_file_keep_their_kind() -> None:
    rubric = {
        **ROW,
        "id": "r",
        "task_type": "rubric_qa",
        "rubric": [{"id": "c", "title": "t", "weight": -2}],
        "context": "ctx",
        "extra": 1,
    }
    choice = {
        **ROW,
        "id": "m",
        "task_type": "mcq",
        "choices": [{"id": "A", "text": "x"}, {"id": "B", "text": "y"}],
        "correct_choice_ids": ["B"],
    }
    del choice["reference_answers"]
    cases = {case.id: case for case in validate([rubric, choice, {**ROW, "messages": None, "metadata": {"policy_id": "p1"}}]).cases}
    assert (cases["r"].task, cases["r"].criteria[0].weight, cases["r"].model_context, cases["r"].extra) == (
        "rubric",
        -2.0,
        "ctx",
        {"extra": 1},
    )
    assert (cases["m"].task, cases["m"].correct_choice_ids) == ("mcq", ("B",))
    assert (cases["a"].task, cases["a"].messages, cases["a"].policy_id) == ("reference", (), "p1")


def test_the_cases_of_a_golden_dataset_keep_notes_from_models() -> None:
    document = {**GOLDEN, "cases": [{**GOLDEN["cases"][0], "context": "for people"}, *GOLDEN["cases"][1:]]}
    first = next(iter(validate(document).cases))
    assert (first.notes, first.model_context, first.criteria[0].title) == ("for people", "", "Names the city.")


def test_a_rejected_golden_dataset_has_no_cases() -> None:
    assert list(validate({**GOLDEN, "version": "1"}).cases) == []


def test_a_report_can_be_written_as_json() -> None:
    shown = validate({**BATCH, "records": [RECORD, {**RECORD, "x": 1}]}).to_dict()
    sent = ["candidate_and_judge", "judge_only", "not_sent"]
    assert list(shown) == ["path", "contract", "outcome", "summary", *sent, "dataset_errors", "record_errors", "warnings"]
    assert list(shown["record_errors"][0]) == [
        *("index", "record_id", "code", "message", "path", "severity", "line", "column", "hint"),
    ]
    assert json.loads(json.dumps(shown)) == shown


def test_the_first_dataset_error_of_a_rejected_batch_says_what_a_service_answers() -> None:
    shown = validate(b'{"records": []}').to_dict()
    assert (shown["dataset_errors"][0]["http_status"], shown["dataset_errors"][0]["error_code"]) == (400, "invalid_request")


def rows(folder: Path, count: int) -> Path:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps({**ROW, "id": f"r{number}"}) + "\n" for number in range(count)))
    return path


def test_several_loops_over_the_cases_do_not_disturb_each_other(tmp_path: Path) -> None:
    report = validate(rows(tmp_path, 40))
    assert [(one.id, other.id) for one, other in zip(report.cases, report.cases, strict=True)] == [
        (f"r{n}", f"r{n}") for n in range(40)
    ]


def test_a_rejected_batch_has_no_cases() -> None:
    report = validate({**DOCUMENT, "dataset_id": 5}, "batch_v1")
    assert (report.outcome, list(report.cases)) == ("rejected", [])


def test_a_report_knows_what_the_document_says_of_itself() -> None:
    assert validate(DOCUMENT, "batch_v1").head == {"dataset_id": "d", "dataset_version": "1", "schema_version": "1.0"}
