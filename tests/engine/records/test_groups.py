"""Slices in the terms of the contracts: every record is in those that it belongs to, whatever became of it."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assay import api
from assay.core.runs import RunCounts
from assay.engine.records.groups import MAX_TAG, RecordGroups, read_rejected
from assay.metrics.summary import RecordFacts
from assay.testing import StubProvider, StubReply, StubRequest
from tests.engine.graded_runs import open_question, question
from tests.engine.run_settings import batch_record, write_batch, write_rows
from tests.metrics.documents import summarize, summarize_slices

COUNTS = RunCounts.__struct_fields__
STATUSES = ("evaluated", "invalid_record", "timeout", "evaluation_error", "cancelled", "skipped")


def finished(folder: Path, **sections: Any) -> dict[str, Any]:
    """The slices of a run, by name and value."""
    models = {"candidates": ["scripted/echo"], "judges": ["scripted/judge-4"], "run": {"runs_dir": "runs", "id": "x"}}
    (folder / "run.json").write_text(json.dumps({**models, **sections}), encoding="utf-8")
    api.run(folder / "run.json")
    assert api.replay("x", runs_dir=folder / "runs") == []
    return values_of(folder)


def values_of(folder: Path) -> dict[str, Any]:
    stored = json.loads((folder / "runs" / "x" / "metrics_by_slice.json").read_bytes())["slices"]
    return {name: {one["value"]: one for one in found["values"]} for name, found in stored.items()}


def totals(slices: dict[str, Any], name: str) -> dict[str | None, int]:
    return {value: figures["total_records"] for value, figures in slices[name].items()}


def write_document(path: Path, *records: Any, **metadata: Any) -> Path:
    document = json.loads(write_batch(path, *records).read_bytes())
    path.write_text(json.dumps({**document, "metadata": metadata}), encoding="utf-8")
    return path


def test_tasks_have_the_terms_of_their_contract(tmp_path: Path) -> None:
    rubric = {**open_question("r"), "task_type": "rubric_qa", "rubric": [{"id": "c", "title": "It is said."}]}
    write_rows(tmp_path / "law.jsonl", question("m"), open_question("o"), rubric)
    write_batch(tmp_path / "batch.json", batch_record("b"))
    found = finished(tmp_path, datasets=["law.jsonl", "batch.json"], slices=["task_type"])
    assert totals(found, "task_type") == {"mcq": 1, "qa": 1, "reference_qa": 1, "rubric_qa": 1}


def test_the_task_type_of_a_batch_is_that_of_its_document_unless_a_record_has_its_own(tmp_path: Path) -> None:
    records = [batch_record("a"), {**batch_record("b"), "metadata": {"task_type": "summary"}}]
    write_document(tmp_path / "d.json", *records, task_type="extraction")
    assert totals(finished(tmp_path, datasets=["d.json"], slices=["task_type"]), "task_type") == {"extraction": 1, "summary": 1}


def test_records_are_sliced_and_clustered_by_the_metadata_of_their_document(tmp_path: Path) -> None:
    records = [batch_record("a"), {**batch_record("b"), "metadata": {"owner": "someone"}}]
    write_document(tmp_path / "one.json", *records, owner="eval-team", origin={"site": "north"})
    second = write_document(tmp_path / "two.json", batch_record("c"), owner="law-team", origin={"site": "south"})
    second.write_text(second.read_text(encoding="utf-8").replace('"dataset_id": "', '"dataset_id": "other-'), encoding="utf-8")
    datasets = ["one.json", "two.json"]
    found = finished(tmp_path, datasets=datasets, slices=["owner", "metadata.origin.site"], cluster_key="origin.site")
    assert totals(found, "owner") == {"eval-team": 1, "law-team": 1, "someone": 1}
    assert totals(found, "metadata.origin.site") == {"north": 2, "south": 1}
    summary = json.loads((tmp_path / "runs" / "x" / "metrics_summary.json").read_bytes())
    assert summary["score_mean_cluster_interval"]["n"] == 2


def test_invalid_records_are_in_the_slices_that_they_belong_to(tmp_path: Path) -> None:
    broken = {"record_id": "x", "input": {}, "tags": ["red", 7, ""], "metadata": {"court": "BGH"}}
    write_document(tmp_path / "d.json", batch_record("a"), broken, "not a record", owner="eval-team")
    found = finished(tmp_path, datasets=["d.json"], slices=["tags", "court", "owner", "task_type", "dataset", "contract"])
    assert totals(found, "tags") == {None: 2, "red": 1}
    assert totals(found, "court") == {None: 2, "BGH": 1}
    assert totals(found, "owner") == {"eval-team": 3}
    assert [list(totals(found, name).values()) for name in ("task_type", "dataset", "contract")] == [[3], [3], [3]]
    assert found["tags"]["red"]["invalid_records"] == 1


def test_invalid_rows_say_their_dataset_and_task_as_far_as_they_can_be_read(tmp_path: Path) -> None:
    rows = [question("m"), {**question("b"), "correct_choice_ids": ["Z"]}, {**question("t"), "task_type": "essay"}]
    path = write_rows(tmp_path / "law.jsonl", *rows)
    path.write_text(path.read_text(encoding="utf-8") + "{broken\n", encoding="utf-8")
    found = finished(tmp_path, datasets=["law.jsonl"], slices=["task_type", "dataset", "policy_id"], on_invalid="skip")
    assert totals(found, "task_type") == {"mcq": 2, None: 2}
    assert totals(found, "dataset") == {"law": 3, None: 1}


def test_secrets_of_invalid_records_are_in_no_slice(tmp_path: Path) -> None:
    broken = {"record_id": "x", "input": {}, "tags": ["mail bob@example.com"], "metadata": {"court": "ann@example.com"}}
    write_batch(tmp_path / "d.json", batch_record("a"), broken)
    found = finished(tmp_path, datasets=["d.json"], slices=["tags", "court"])
    assert "mail [REDACTED:email]" in found["tags"]
    texts = [path.read_text(encoding="utf-8") for path in (tmp_path / "runs" / "x").iterdir()]
    assert not any("@example.com" in text for text in texts)


def test_invalid_records_are_found_by_their_slice(tmp_path: Path) -> None:
    broken = {"record_id": "x", "input": {}, "tags": ["red"]}
    write_batch(tmp_path / "d.json", {**batch_record("a"), "tags": ["red"]}, broken)
    finished(tmp_path, datasets=["d.json"])
    found = api.find_records(api.open_run("x", runs_dir=tmp_path / "runs"), api.RecordSearch(slice="tags:red"), limit=9)
    assert [record.line.record_id for record in found.records] == ["a", "x"]


def test_every_slice_over_everything_equals_the_summary_of_a_run(tmp_path: Path) -> None:
    def reply(request: StubRequest) -> StubReply | str:
        is_bad = "[bad]" in json.dumps(request.body)
        return StubReply(status=400, body={"error": {"message": "not this prompt"}}) if is_bad else "an answer"

    records = [{**batch_record(f"r{n}"), "input": {"prompt": "[bad]" if n % 3 == 0 else "?"}, "tags": ["t"]} for n in range(9)]
    with StubProvider(reply) as provider:
        write_batch(tmp_path / "d.json", *records, {"record_id": "broken", "input": {}, "tags": ["t"]})
        stub = {"providers": [{"name": "stub", "base_url": provider.base_url}], "candidates": ["stub/m"]}
        slices = ["contract", "dataset", "task_type", "tags"]
        found = finished(tmp_path, datasets=["d.json"], slices=slices, retry={"max_attempts": 1}, **stub)
    summary = json.loads((tmp_path / "runs" / "x" / "metrics_summary.json").read_bytes())
    assert (summary["invalid_records"], summary["failed_records"], summary["total_records"]) == (1, 4, 10)
    for name in slices:
        (only,) = found[name].values()
        assert {count: only[count] for count in COUNTS} == {count: summary[count] for count in COUNTS}


one_record = st.fixed_dictionaries(
    {"status": st.sampled_from(STATUSES), "tag": st.sampled_from(["a", "b", None]), "score": st.sampled_from([0.0, 0.5, 1.0])}
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(one_record, max_size=40))
def test_counts_of_a_slice_with_one_value_for_each_record_add_up_to_the_summary(records: list[dict[str, Any]]) -> None:
    facts = [
        RecordFacts(
            position=number,
            status=record["status"],
            score=record["score"] if record["status"] == "evaluated" else None,
            raw_score=record["score"] if record["status"] == "evaluated" else None,
            scale="0-1",
            passed=record["score"] >= 0.5 if record["status"] == "evaluated" else None,
            slices={"tag": () if record["tag"] is None else (record["tag"],)},
        )
        for number, record in enumerate(records)
    ]
    summary, values = summarize(facts), summarize_slices(facts)["slices"].get("tag", {"values": []})["values"]
    for name in (*COUNTS, "n_scored", "n_unscored", "pass_count", "fail_count"):
        assert sum(value[name] for value in values) == summary[name]


# Runs of earlier versions


def as_earlier(folder: Path) -> None:
    """Make the run look as a version before wrote it: tasks in other words, invalid records in no slice."""
    run = folder / "runs" / "x"
    by_slice = json.loads((run / "metrics_by_slice.json").read_bytes())
    del by_slice["slices_version"]
    by_slice["slices"]["task_type"]["values"][0] |= {"value": "mcq", "slice": "task_type=mcq"}
    (run / "metrics_by_slice.json").chmod(0o600)
    (run / "metrics_by_slice.json").write_text(json.dumps(by_slice), encoding="utf-8")


def test_figures_of_an_earlier_version_are_recomputed_in_its_words(tmp_path: Path) -> None:
    write_rows(tmp_path / "law.jsonl", question("m"), question("n"))
    finished(tmp_path, datasets=["law.jsonl"], candidates=["scripted/mcq-first"], slices=["task_type"])
    as_earlier(tmp_path)
    assert api.replay("x", runs_dir=tmp_path / "runs") == []


def test_a_run_of_an_earlier_version_is_compared_in_the_same_terms_as_a_new_one(tmp_path: Path) -> None:
    rows = [*(question(f"m{number}") for number in range(3)), *(open_question(f"o{number}") for number in range(3))]
    write_rows(tmp_path / "law.jsonl", *rows)
    finished(tmp_path, datasets=["law.jsonl"], slices=["task_type"])
    as_earlier(tmp_path)
    (tmp_path / "run.json").write_text((tmp_path / "run.json").read_text(encoding="utf-8").replace('"x"', '"y"'), encoding="utf-8")
    api.run(tmp_path / "run.json")
    found = api.compare("x", "y", runs_dir=tmp_path / "runs", slices=("task_type",))
    assert {part.value: part.n for part in found.slices} == {"mcq": 3, "reference_qa": 3}


def test_earlier_words_and_documents_count_only_for_earlier_figures() -> None:
    record = read_rejected(b'{"task_type": "rubric_qa", "dataset": "law"}', "legal_eval_v1", dataset="")
    names = ("task_type", "dataset")
    assert RecordGroups(()).slices(record, names) == {"task_type": ("rubric_qa",), "dataset": ("law",)}
    assert RecordGroups((), is_former=True).slices(record, names) == {"task_type": ("rubric",), "dataset": ("law",)}


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[1, 2]", b"null", b"\xff", b"[" * 5000, b'{"tags": {}, "metadata": [], "task_type": 1}']
)
def test_what_cannot_be_read_belongs_to_its_dataset_alone(raw: bytes) -> None:
    record = read_rejected(raw, "batch_v1", dataset="d")
    assert (record.dataset, record.tags, record.metadata) == ("d", (), {})


def test_a_tag_that_is_too_long_is_not_a_tag() -> None:
    raw = json.dumps({"tags": ["x" * MAX_TAG, "y" * (MAX_TAG + 1)]}).encode()
    assert read_rejected(raw, "batch_v1", dataset="d").tags == ("x" * MAX_TAG,)
