import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

import assay
from assay.core.case import Case
from assay.core.errors import UsageProblem
from assay.core.plan import Plan
from assay.core.settings import Gates
from assay.engine.planning.plans import list_records
from assay.engine.planning.request import RunRequest
from assay.engine.planning.selection import prepared_records
from assay.store.ledger import RecordRow
from tests.engine.run_settings import JUDGE, batch_record, mcq_row, planned, problems_of, write_batch, write_rows

BROKEN: dict[str, Any] = {"correct_choice_ids": ["Z"]}


def rows_of(request: RunRequest) -> list[RecordRow]:
    runs = planned(request)
    return list(prepared_records(runs.plans[0], runs.inputs))


def ids_of(request: RunRequest) -> list[str | None]:
    return [row.record_id for row in rows_of(request)]


def run_file(folder: Path, text: str) -> RunRequest:
    path = folder / "run.yaml"
    path.write_text(f"candidates: [scripted/echo]\njudges: [{JUDGE}]\n{text}\n")
    return RunRequest(run_file=str(path))


def law(folder: Path, *rows: dict[str, Any], **options: Any) -> RunRequest:
    return RunRequest(datasets=(str(write_rows(folder / "law.jsonl", *rows)),), models=("scripted/echo",), **options)


def test_records_become_rows_in_the_order_of_the_run(tmp_path: Path) -> None:
    write_rows(tmp_path / "b.jsonl", mcq_row("b1"), mcq_row("b2"))
    write_rows(tmp_path / "a.jsonl", mcq_row("a1"))
    rows = rows_of(run_file(tmp_path, "datasets: [b.jsonl, a.jsonl]"))
    assert [(row.position, row.record_id) for row in rows] == [(0, "b1"), (1, "b2"), (2, "a1")]
    case = msgspec.json.decode(rows[2].case or b"", type=Case)
    assert (case.id, case.index, case.task, case.record_sha256) == ("a1", 0, "mcq", rows[2].sha256)


def test_a_broken_record_keeps_its_place_and_its_issues(tmp_path: Path) -> None:
    rows = rows_of(law(tmp_path, mcq_row("a"), mcq_row("b", **BROKEN), mcq_row("c"), on_invalid="skip"))
    assert [(row.record_id, row.case is None) for row in rows] == [("a", False), ("b", True), ("c", False)]
    (issue,) = json.loads(rows[1].issues)
    assert (issue["code"], issue["index"], issue["line"], issue["severity"]) == ("invalid_enum_value", 1, 2, "error")


def test_warnings_go_with_the_record_that_has_them(tmp_path: Path) -> None:
    (row,) = rows_of(law(tmp_path, mcq_row("a", colour="red")))
    assert row.case is not None
    assert [issue["severity"] for issue in json.loads(row.issues)] == ["warning"]


def test_the_records_of_a_plan_are_the_same_when_they_are_read_anew(tmp_path: Path) -> None:
    runs = planned(law(tmp_path, *(mcq_row(f"r{n}") for n in range(30)), sample=7, seed=5))
    assert list(prepared_records(runs.plans[0])) == list(prepared_records(runs.plans[0], runs.inputs))


def test_a_dataset_that_has_changed_is_refused(tmp_path: Path) -> None:
    runs = planned(law(tmp_path, mcq_row("a")))
    write_rows(tmp_path / "law.jsonl", mcq_row("b"))
    with pytest.raises(UsageProblem, match="has changed since the run was planned"):
        next(prepared_records(runs.plans[0]))


def test_a_limit_counts_broken_records(tmp_path: Path) -> None:
    request = law(tmp_path, mcq_row("a"), mcq_row("b", **BROKEN), mcq_row("c"), on_invalid="skip", limit=2)
    assert ids_of(request) == ["a", "b"]
    assert (planned(request).valid_records, planned(request).invalid_records) == (1, 1)


def test_limits_of_datasets_and_of_the_run_work_together(tmp_path: Path) -> None:
    write_rows(tmp_path / "a.jsonl", *(mcq_row(f"a{n}") for n in range(5)))
    write_rows(tmp_path / "b.jsonl", *(mcq_row(f"b{n}") for n in range(5)))
    assert ids_of(run_file(tmp_path, "datasets: [{path: a.jsonl, limit: 2}, b.jsonl]\nlimit: 4")) == ["a0", "a1", "b0", "b1"]


@pytest.mark.parametrize(
    ("field", "value", "ids"),
    [
        ("split", "test", ["a", "d"]),
        ("year", "2024", ["b"]),
        ("is_hard", "true", ["b"]),
        ("topic.area", "tax", ["c"]),
        ("kinds", "x", ["c"]),
    ],
)
def test_a_split_takes_records_by_their_metadata(tmp_path: Path, field: str, value: str, ids: list[str]) -> None:
    metadata = [
        {"split": "test"},
        {"year": 2024, "is_hard": True},
        {"topic": {"area": "tax"}, "kinds": ["x", "y"]},
        {"split": "test"},
    ]
    write_rows(tmp_path / "law.jsonl", *(mcq_row(name, metadata=members) for name, members in zip("abcd", metadata, strict=True)))
    text = f"datasets: [{{path: law.jsonl, split_field: {field}, split_value: {value}}}]"
    assert ids_of(run_file(tmp_path, text)) == ids


def test_a_split_leaves_broken_records_out_and_says_so(tmp_path: Path) -> None:
    write_rows(tmp_path / "law.jsonl", mcq_row("a", metadata={"split": "test"}), mcq_row("b", **BROKEN))
    request = run_file(tmp_path, "datasets: [{path: law.jsonl, split_field: split, split_value: test}]\non_invalid: skip")
    assert ids_of(request) == ["a"]
    assert planned(request).notes == ("left out: 1 invalid record of 'law', as no split or sample has invalid ones",)


def test_an_empty_split_is_a_problem_that_names_what_there_is(tmp_path: Path) -> None:
    write_rows(tmp_path / "law.jsonl", mcq_row("a", metadata={"split": "dev"}))
    (problem,) = problems_of(run_file(tmp_path, "datasets: [{path: law.jsonl, split_field: split, split_value: test}]"))
    assert problem == "no records selected from 'law': no record has metadata.split = 'test'; it has 'dev'"


def test_a_split_needs_both_of_its_keys(tmp_path: Path) -> None:
    write_rows(tmp_path / "law.jsonl", mcq_row("a"))
    problems = problems_of(run_file(tmp_path, "datasets: [{path: law.jsonl, split_value: test}]"))
    assert [problem.rpartition(": ")[2] for problem in problems] == ["split_field and split_value belong together"]


def test_a_file_without_rows_selects_nothing(tmp_path: Path) -> None:
    path = tmp_path / "law.jsonl"
    path.write_text("\n")
    request = RunRequest(datasets=(str(path),), models=("scripted/echo",))
    assert len(problems_of(request)) == 1


def test_a_sample_does_not_depend_on_the_order_of_records(tmp_path: Path) -> None:
    rows = [mcq_row(f"r{n}") for n in range(40)]
    forwards = ids_of(law(tmp_path, *rows, sample=10, seed=1))
    backwards = ids_of(law(tmp_path, *reversed(rows), sample=10, seed=1))
    assert len(forwards) == 10
    assert forwards == backwards[::-1]


def test_another_seed_takes_another_sample(tmp_path: Path) -> None:
    rows = [mcq_row(f"r{n}") for n in range(40)]
    assert ids_of(law(tmp_path, *rows, sample=10, seed=1)) != ids_of(law(tmp_path, *rows, sample=10, seed=2))


def test_a_sample_keeps_the_order_of_the_file(tmp_path: Path) -> None:
    taken = ids_of(law(tmp_path, *(mcq_row(f"r{n:02}") for n in range(40)), sample=10))
    assert taken == sorted(taken, key=str)


def test_an_id_in_two_datasets_is_an_error_with_both_places(tmp_path: Path) -> None:
    write_rows(tmp_path / "a.jsonl", mcq_row("x"), mcq_row("same"))
    write_batch(tmp_path / "b.json", batch_record("same"))
    (problem,) = problems_of(run_file(tmp_path, "datasets: [a.jsonl, b.json]"))
    assert problem == f"the id 'same' appears in {tmp_path}/a.jsonl:2 and {tmp_path}/b.json records[0]; ids must be unique in a run"


def test_a_file_that_is_named_twice_is_one_problem(tmp_path: Path) -> None:
    write_rows(tmp_path / "a.jsonl", *(mcq_row(f"r{n}") for n in range(40)))
    (tmp_path / "link.jsonl").symlink_to("a.jsonl")
    problems = list(problems_of(run_file(tmp_path, "datasets: [a.jsonl, ./a.jsonl, link.jsonl]")))
    assert problems == [
        f"'{tmp_path}/a.jsonl' is named more than once, which would ask 40 of its records twice; name it once",
        f"'{tmp_path}/link.jsonl' is named more than once, which would ask 40 of its records twice; name it once",
    ]


def test_two_splits_of_a_file_are_no_problem(tmp_path: Path) -> None:
    write_rows(tmp_path / "a.jsonl", *(mcq_row(f"r{n}", metadata={"split": "dev" if n % 2 else "test"}) for n in range(4)))
    splits = (
        "[{path: a.jsonl, split_field: split, split_value: dev}, {path: a.jsonl, split_field: split, split_value: test, name: b}]"
    )
    assert len(ids_of(run_file(tmp_path, f"datasets: {splits}"))) == 4


def test_a_cluster_key_that_no_record_has_is_refused(tmp_path: Path) -> None:
    write_rows(tmp_path / "a.jsonl", mcq_row("x", metadata={"document": "d1"}), mcq_row("y"))
    assert planned(run_file(tmp_path, "datasets: [a.jsonl]\ncluster_key: document")).plans[0].cluster_key == "document"
    (problem,) = problems_of(run_file(tmp_path, "datasets: [a.jsonl]\ncluster_key: documnt"))
    assert problem.endswith("no selected record has 'documnt' in its metadata (did you mean 'document'?)")
    (problem,) = problems_of(run_file(tmp_path, "datasets: [a.jsonl]\ncluster_key: metadata.document"))
    assert problem.endswith("no selected record has 'metadata.document' in its metadata (did you mean 'document'?)")


def test_a_slice_that_no_record_has_is_noted(tmp_path: Path) -> None:
    write_rows(tmp_path / "a.jsonl", mcq_row("x", metadata={"court": {"name": "c"}}), mcq_row("y"))
    slices = "[tagz, court.name, metadata.court, task_type, dataset, cuort]"
    assert planned(run_file(tmp_path, f"datasets: [a.jsonl]\nslices: {slices}")).notes == (
        "no selected record has a value for the slice 'tagz' (did you mean 'tags'?)",
        "no selected record has a value for the slice 'cuort' (did you mean 'court'?)",
    )


def conversation(folder: Path, **options: Any) -> Plan:
    talk = [
        {"turn_id": 1, "speaker": "user", "message": "Hi"},
        {"turn_id": 2, "speaker": "assistant", "assistant_reply": "Hello"},
        {"turn_id": 3, "speaker": "user", "message": "More"},
        {"turn_id": 4, "speaker": "assistant", "assistant_reply": "Gladly"},
    ]
    path = folder / "talks.jsonl"
    path.write_text(json.dumps(talk) + "\n" + json.dumps(talk) + "\n")
    return planned(RunRequest(datasets=(str(path),), judges=(JUDGE,), **options)).plans[0]


def test_a_recorded_conversation_is_one_case_for_each_reply(tmp_path: Path) -> None:
    cases = [msgspec.json.decode(row.case or b"", type=Case) for row in prepared_records(conversation(tmp_path))]
    assert [(case.contract, case.task, case.prompt, len(case.messages)) for case in cases] == [
        ("conversation_v1", "open", "Hi", 1),
        ("conversation_v1", "open", "More", 3),
    ]
    assert [case.references for case in cases] == [(), ()]


def test_a_candidate_that_is_asked_anew_has_the_recorded_reply_as_reference(tmp_path: Path) -> None:
    plan = conversation(tmp_path, models=("scripted/echo",))
    cases = [msgspec.json.decode(row.case or b"", type=Case) for row in prepared_records(plan)]
    assert [(case.task, case.references) for case in cases] == [("reference", ("Hello",)), ("reference", ("Gladly",))]


def test_named_records_alone_take_part(tmp_path: Path) -> None:
    assert ids_of(law(tmp_path, mcq_row("a"), mcq_row("b"), mcq_row("c"), records=("c", "a"))) == ["a", "c"]


def test_a_name_that_no_record_has_is_a_problem(tmp_path: Path) -> None:
    request = law(tmp_path, mcq_row("a"), mcq_row("b"), records=("a", "z"))
    assert problems_of(request) == ("there is no valid record 'z'",)


def test_records_are_listed_without_a_look_at_the_models(tmp_path: Path) -> None:
    request = law(tmp_path, mcq_row("a"), mcq_row("b"), mcq_row("c"), limit=2, repeat=2)
    unreachable = msgspec.structs.replace(request, models=("openai/without-a-key",))
    listed = list_records(unreachable, environ={})
    assert listed.gates == Gates()
    assert [(record.record_id, record.sample) for record in listed.records] == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]


def test_every_issue_is_in_the_artifact_where_the_report_only_counts_it(tmp_path: Path) -> None:
    bad = [{"record_id": f"r{n}", "input": {"prompt": "?"}, "expected": {"required_criteria": ["z"] * 300}} for n in range(200)]
    head = {"dataset_id": "flood", "dataset_version": "1", "schema_version": "1.0"}
    good = {"record_id": "good", "input": {"prompt": "?"}}
    source = tmp_path / "flood.json"
    source.write_text(json.dumps({**head, "records": [*bad, good]}), encoding="utf-8")
    assert assay.validate(source).unlisted
    (run,) = assay.run(source, model="scripted/echo", judge="scripted/judge-5", runs_dir=str(tmp_path / "runs"))
    (path,) = (tmp_path / "runs").glob("*/record_validation.jsonl")
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert run.state == "completed_with_failures"
    assert [len(line["issues"]) for line in lines] == [300] * 200 + [0]


@pytest.mark.parametrize("turn", [{"speaker": "user", "message": "Hi."}, {"speaker": "assistant", "assistant_reply": "Hi."}])
def test_a_valid_conversation_without_an_answered_turn_is_not_called_invalid(tmp_path: Path, turn: dict[str, str]) -> None:
    path = tmp_path / "talk.json"
    path.write_text(json.dumps([{"turn_id": 1, **turn}]))
    (problem,) = problems_of(RunRequest(datasets=(str(path),), judges=(JUDGE,)))
    why = "a record of a conversation is a user turn with the assistant turn that answers it, and it has none"
    assert problem == f"no records selected from 'talk': {why}"
