"""What stands in the fields of artifacts: times that were measured, ids that stay apart, what a document says of itself."""

import hashlib
import json
import re
import time
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay import api
from assay.core.artifact_lines import AttemptLine, CaseLine, FailureLine, PredictionLine, ValidationLine
from assay.core.case import Case
from assay.core.graders import GraderPlan, JudgePrompt
from assay.core.model_call import Reply
from assay.core.outcome import Attempt, Grade, GradedOutcome, Score
from assay.core.plan import plan_sha256
from assay.core.run_result import RunResult
from assay.core.summary import LatencySummary
from assay.engine.finalization.artifact_lines import RecordArtifacts
from assay.engine.planning.request import RunRequest
from assay.engine.records.redaction import RedactedPlan
from assay.store.ledger import FinishedRecord, RecordRow
from assay.store.redact import Redactor
from assay.testing import StubProvider, StubReply, StubRequest
from tests.engine.run_settings import batch_record, planned, write_batch, write_golden
from tests.models.asking import DATASET, plan_of, provider_of

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "artifacts.md").read_text(encoding="utf-8")
PANEL = ("scripted/judge-4", "scripted/judge-5")
GRADE = Grade(score=1.0, passed=True, answer="a", raw_score=1.0, scale="0/1")
CASE = Case(id="q", index=0, contract="batch_v1", task="open", dataset="d", prompt="p", max_latency_ms=100)


def call(call_id: str, started_at: float, latency_ms: float, **members: Any) -> Attempt:
    stage = "judge" if call_id.startswith("judge") else "candidate"
    given = {"reply": Reply(text="a"), **members}
    return Attempt(stage=stage, call_id=call_id, round=1, started_at=started_at, latency_ms=latency_ms, model="m", **given)


def evidence_of(*attempts: Attempt, grade: Grade = GRADE) -> RecordArtifacts:
    row = RecordRow(0, "q", "ab" * 32, msgspec.json.encode(CASE))
    return RecordArtifacts(
        FinishedRecord(row, attempts, GradedOutcome(grade=grade)), RedactedPlan(plan_of(provider_of("scripted")), Redactor())
    )


def finished(path: Path, **options: Any) -> RunResult:
    given = {"models": ("scripted/echo",), "judges": ("scripted/judge-5",), "runs_dir": str(path.parent / "runs"), **options}
    (result,) = api.run(path, run_id="x", **given)
    return result


def lines(result: RunResult, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (Path(result.run_dir) / name).read_text().splitlines()]


def document(result: RunResult, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((Path(result.run_dir) / name).read_text())
    return found


def given_answers(folder: Path, *record_ids: str) -> str:
    path = folder / "answers.json"
    path.write_text(json.dumps(dict.fromkeys(record_ids, "Hello")))
    return str(path)


# Times


def test_calls_side_by_side_take_the_time_of_the_longest() -> None:
    evidence = evidence_of(call("candidate", 0.0, 500.0), call("judge:a", 1.0, 300.0), call("judge:b", 1.1, 400.0))
    line = evidence.prediction("d")
    assert (line.latency_ms, line.judge_latency_ms, line.total_latency_ms) == (500.0, 500.0, 1000.0)


def test_waiting_between_calls_is_not_their_time() -> None:
    failed = call("candidate", 0.0, 50.0, reply=None, error_code="timeout")
    assert evidence_of(failed, call("candidate", 10.0, 70.0)).prediction("d").total_latency_ms == 120.0


@pytest.mark.parametrize("flag", ["prefilled", "cached"])
def test_an_answer_that_nobody_was_asked_for_has_no_latency(flag: str) -> None:
    answered = call("candidate", 0.0, 0.0, reply=Reply(text="a", flags=(flag,)))
    evidence = evidence_of(answered, call("judge:a", 1.0, 300.0))
    line = evidence.prediction("d")
    assert (line.latency_ms, line.judge_latency_ms, line.total_latency_ms) == (None, 300.0, 300.0)
    assert evidence.attempt(1, answered).latency_ms is None


def test_given_answers_are_not_in_the_latency_of_the_model(tmp_path: Path) -> None:
    path = write_batch(tmp_path / "d.json", batch_record("a"), {**batch_record("b"), "expected": {"max_latency_ms": 1}})
    result = finished(path, responses=given_answers(tmp_path, "a", "b"))
    latency = document(result, "metrics_summary.json")["latency_ms"]
    assert (latency["model"]["n"], latency["model"]["p50"], latency["judge"]["n"]) == (0, None, 2)
    assert [line["flags"] for line in lines(result, "predictions.jsonl")] == [["prefilled"], ["prefilled", "latency_unknown"]]


@pytest.mark.parametrize("judge", ["scripted/judge-5", "scripted/judge-2"])
def test_a_late_answer_fails_for_its_latency_whatever_the_judge_says(tmp_path: Path, judge: str) -> None:
    def late(_: StubRequest) -> str:
        time.sleep(0.02)
        return "Hello"

    path = write_batch(tmp_path / "d.json", {**batch_record("a"), "expected": {"max_latency_ms": 1}})
    with StubProvider(late) as provider:
        stub = {"name": "stub", "base_url": provider.base_url}
        run_file = {"datasets": [str(path)], "candidates": ["stub/m"], "judges": [judge], "providers": [stub]}
        (tmp_path / "run.json").write_text(json.dumps(run_file))
        (result,) = api.run(tmp_path / "run.json", run_id="x", runs_dir=str(tmp_path / "runs"))
    (failure,) = lines(result, "failures.jsonl")
    assert (failure["code"], failure["taxonomy_label"]) == ("latency_exceeded", "timeout_or_latency_exceeded")
    assert re.match(r"the answer took [\d.]+ ms, but max_latency_ms is 1; ", failure["message"])


def test_a_record_that_fails_for_more_than_its_latency_says_both() -> None:
    grade = msgspec.structs.replace(GRADE, passed=False, justification="wrong", flags=("latency_exceeded",))
    failure = evidence_of(call("candidate", 0.0, 120.5), grade=grade).failure()
    assert failure is not None
    assert failure.code == "latency_exceeded"
    assert failure.message == "the answer took 120.5 ms, but max_latency_ms is 100; wrong"


# Labels and tokens


def test_labels_in_the_summary_are_those_of_the_failures(tmp_path: Path) -> None:
    invalid = {"record_id": "broken", "input": {}}
    late = {**batch_record("late"), "expected": {"max_latency_ms": 1}}
    path = write_batch(tmp_path / "d.json", batch_record("a"), invalid, late, batch_record("b"))
    result = finished(path, model="scripted/slow-20", judge="scripted/judge-2")
    labels = Counter(line["taxonomy_label"] for line in lines(result, "failures.jsonl"))
    assert result.metrics["labels"] == labels == {"format_or_schema_violation": 1, "timeout_or_latency_exceeded": 1, "other": 2}


def test_tokens_of_judges_are_summed_beside_those_of_the_candidate(tmp_path: Path) -> None:
    usage = {"usage": {"prompt_tokens": 7, "completion_tokens": 4, "total_tokens": 11}}
    verdict = {"choices": [{"message": {"content": '{"score": 4, "justification": "Good."}'}, "finish_reason": "stop"}], **usage}
    path = write_batch(tmp_path / "d.json", batch_record("a"), batch_record("b"))
    with StubProvider(lambda _: StubReply(body=verdict)) as provider:
        stub = {"name": "stub", "base_url": provider.base_url}
        run_file = {"datasets": [str(path)], "candidates": ["scripted/echo"], "judges": ["stub/m"], "providers": [stub]}
        (tmp_path / "run.json").write_text(json.dumps(run_file))
        (result,) = api.run(tmp_path / "run.json", run_id="x", runs_dir=str(tmp_path / "runs"))
    assert result.metrics["tokens"]["judge"] == {"sum": 22, "mean": 11.0, "n_known": 2, "n_unknown": 0}


def members(found: Any, *path: str) -> list[tuple[str, ...]]:
    """The path of every member, at any depth, except words that records are counted by."""
    if not isinstance(found, dict) or path[-1:] in {("errors",), ("flags",), ("unscored",)}:
        return []
    return [place for name, value in found.items() for place in [(*path, name), *members(value, *path, name)]]


@pytest.fixture
def with_many_figures(tmp_path: Path) -> RunResult:
    path = write_batch(tmp_path / "d.json", batch_record("a"), batch_record("b"), {"record_id": "broken", "input": {}})
    return finished(path, repeat=2, judges=PANEL)


# Slices


def values_of(result: RunResult, name: str) -> list[str | None]:
    return sorted((entry["value"] for entry in document(result, "metrics_by_slice.json")["slices"][name]["values"]), key=str)


def sliced(folder: Path, *records: dict[str, Any], name: str) -> list[str | None]:
    write_batch(folder / "d.json", *records)
    settings = {"datasets": ["d.json"], "candidates": ["scripted/echo"], "judges": ["scripted/judge-5"], "slices": [name]}
    (folder / "run.json").write_text(json.dumps(settings))
    (result,) = api.run(folder / "run.json", run_id="x", runs_dir=str(folder / "runs"))
    return values_of(result, name)


def test_a_record_has_a_task_type_even_where_its_metadata_has_none(tmp_path: Path) -> None:
    spoken = {**batch_record("b"), "metadata": {"task_type": "summary"}}
    assert sliced(tmp_path, batch_record("a"), spoken, name="task_type") == ["qa", "summary"]


@pytest.mark.parametrize(
    ("value", "shown"),
    [(True, ["true"]), ([None, 1, "x"], ["1", "null", "x"]), ({"a": 1}, ['{"a":1}']), (None, [None])],
)
def test_values_of_slices_are_texts_or_json(tmp_path: Path, value: Any, shown: list[str | None]) -> None:
    assert sliced(tmp_path, {**batch_record("a"), "metadata": {"key": value}}, name="metadata.key") == shown


def test_a_slice_takes_a_name_with_a_dot_as_a_split_does(tmp_path: Path) -> None:
    records = ({**batch_record("a"), "metadata": {"a.b": "x"}}, {**batch_record("b"), "metadata": {"a": {"b": "y"}}})
    assert sliced(tmp_path, *records, name="a.b") == ["x", "y"]


def test_datasets_with_one_id_are_told_apart_by_their_names(tmp_path: Path) -> None:
    write_batch(tmp_path / "one.json", batch_record("a"))
    write_batch(tmp_path / "two.json", batch_record("b"))
    datasets = [{"path": "one.json", "name": "monday"}, {"path": "two.json", "name": "tuesday"}]
    settings = {"datasets": datasets, "candidates": ["scripted/echo"], "judges": ["scripted/judge-5"]}
    (tmp_path / "run.json").write_text(json.dumps(settings))
    (result,) = api.run(tmp_path / "run.json", run_id="x", runs_dir=str(tmp_path / "runs"))
    assert values_of(result, "dataset") == ["monday", "tuesday"]


def test_a_dataset_without_a_name_of_its_own_is_called_like_its_file(tmp_path: Path) -> None:
    result = finished(write_golden(tmp_path / "greetings.json"))
    assert values_of(result, "dataset") == ["greetings"]


def test_a_dataset_is_called_by_its_id_where_the_run_gives_it_no_name(tmp_path: Path) -> None:
    assert values_of(finished(write_batch(tmp_path / "d.json", batch_record("a"))), "dataset") == ["support"]


# Redaction


def test_ids_of_choices_and_criteria_are_redacted() -> None:
    secret = "ann@example.org"
    scores = (Score(criterion=secret, score=1.0, scale="0/1", normalized=1.0, judge=secret),)
    grade = msgspec.structs.replace(GRADE, selected_choice_ids=(secret,), scores=scores)
    judged = call(f"judge:{secret}", 1.0, 300.0)
    evidence = evidence_of(call("candidate", 0.0, 1.0), judged, grade=grade)
    written = msgspec.json.encode((evidence.prediction("d"), evidence.attempt(2, judged))).decode()
    assert secret not in written
    assert written.count("[REDACTED:email]") == 4


def test_hashes_in_a_redacted_plan_stay_whole() -> None:
    card = "4242424242424242"
    dataset = msgspec.structs.replace(DATASET, sha256=f"a{card}b", name="ann@example.org")
    plan = msgspec.structs.replace(plan_of(provider_of("scripted")), datasets=(dataset,), responses_sha256=f"a {card} b")
    members = RedactedPlan(plan, Redactor()).members()
    assert (members["datasets"][0]["sha256"], members["responses_sha256"]) == (dataset.sha256, plan.responses_sha256)
    assert members["datasets"][0]["name"] == "[REDACTED:email]"


def test_hashes_of_prompts_stay_whole_and_their_texts_are_redacted() -> None:
    card = "4242424242424242"
    prompt = JudgePrompt(name="own.txt", sha256=f"a {card} b", text="Ask ann@example.org. {{answer}}")
    graders = (
        GraderPlan(name="form", kind="checks", is_primary=True),
        GraderPlan(name="house", kind="judge", judge="j", prompt=prompt),
    )
    plan = msgspec.structs.replace(plan_of(provider_of("scripted")), graders=graders)
    members: Any = RedactedPlan(plan, Redactor()).members()
    assert "prompt" not in members["graders"][0]
    assert members["graders"][1]["prompt"] == {**msgspec.to_builtins(prompt), "text": "Ask [REDACTED:email]. {{answer}}"}


# Ids


def test_redacted_ids_stay_apart_and_lead_to_their_records(tmp_path: Path) -> None:
    result = finished(write_batch(tmp_path / "d.json", batch_record("ann@example.org"), batch_record("bob@example.org")))
    predictions = lines(result, "predictions.jsonl")
    assert [line["record_id"] for line in predictions] == [f"[REDACTED:email]#{line['record_sha256'][:8]}" for line in predictions]
    opened = api.open_run(result.run_dir)
    assert [opened.record(line["record_id"]).input.id for line in predictions] == [line["record_id"] for line in predictions]
    assert [len(opened.record(line["record_id"]).attempts) for line in predictions] == [2, 2]


def test_the_export_of_a_run_with_redacted_ids_is_a_response_file(tmp_path: Path) -> None:
    first = finished(write_batch(tmp_path / "d.json", batch_record("ann@example.org"), batch_record("bob@example.org")))
    shown = [line["example_id"] for line in lines(first, "responses.jsonl")]
    (tmp_path / "again").mkdir()
    again = write_batch(tmp_path / "again" / "d.json", *map(batch_record, shown))
    assert finished(again, responses=first.run_dir).counts.evaluated_records == 2


@pytest.mark.parametrize(("index", "member"), [("0", "prediction"), ("1", "failure")])
def test_a_record_is_found_by_its_index_too(tmp_path: Path, index: str, member: str) -> None:
    result = finished(write_batch(tmp_path / "d.json", batch_record("a"), {"record_id": "broken"}), on_invalid="skip")
    assert getattr(api.open_run(result.run_dir).record(index), member).index == int(index)


def test_an_id_that_looks_like_an_index_is_an_id(tmp_path: Path) -> None:
    result = finished(write_batch(tmp_path / "d.json", batch_record("1"), batch_record("0")))
    assert api.open_run(result.run_dir).record("0").prediction.index == 1


# What the document says of itself


def described(folder: Path) -> Path:
    path = write_batch(folder / "d.json", batch_record("a"), {"record_id": "broken"})
    head = {"metadata": {"team": "law", "by": "ann@example.org"}, "x-origin": "somewhere", "version": 3}
    path.write_text(json.dumps({**json.loads(path.read_text()), **head}))
    return path


def test_time_and_metadata_of_a_document_are_in_the_input(tmp_path: Path) -> None:
    head = document(finished(described(tmp_path), on_invalid="skip"), "input_dataset.json")
    assert (head["created_at"], head["metadata"]) == ("2026-01-01T00:00:00Z", {"team": "law", "by": "[REDACTED:email]"})


def test_the_manifest_lists_members_that_the_contract_does_not_know(tmp_path: Path) -> None:
    manifest = document(finished(described(tmp_path), on_invalid="skip"), "run_manifest.json")
    assert manifest["ignored_fields"] == [{"dataset_id": "support", "fields": ["x-origin", "version"]}]


def test_what_a_document_says_of_itself_is_in_the_hash_of_the_plan_only_once(tmp_path: Path) -> None:
    (plan,) = planned(
        RunRequest(datasets=(str(described(tmp_path)),), models=("scripted/echo",), judges=("scripted/judge-5",))
    ).plans
    silent = msgspec.structs.replace(plan.datasets[0], created_at="", metadata={}, ignored_fields=())
    assert plan_sha256(msgspec.structs.replace(plan, datasets=(silent,))) == plan_sha256(plan)


def test_a_stored_record_has_the_hash_of_what_is_stored(tmp_path: Path) -> None:
    result = finished(write_batch(tmp_path / "d.json", {**batch_record("a"), "metadata": {"by": "ann@example.org"}}))
    (entry,) = lines(result, "cases.jsonl")
    stored = json.dumps(entry["record"], separators=(",", ":"), ensure_ascii=False).encode()
    assert entry["stored_sha256"] == hashlib.sha256(stored).hexdigest()
    assert entry["record"]["record_sha256"] == entry["record_sha256"]


def test_a_record_that_broke_its_contract_has_no_hash(tmp_path: Path) -> None:
    result = finished(described(tmp_path), on_invalid="skip")
    assert lines(result, "record_validation.jsonl")[1]["record_sha256"] is None
    assert lines(result, "failures.jsonl")[-1]["record_sha256"] is None


# The page that documents the fields


def documented(artifact: str) -> set[str]:
    section = PAGE.partition(f"## {artifact}\n")[2].partition("\n## ")[0]
    return set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))


@pytest.mark.parametrize(
    ("artifact", "line", "more"),
    [
        ("record_validation.jsonl", ValidationLine, ()),
        ("predictions.jsonl", PredictionLine, ()),
        ("attempt_logs.jsonl", AttemptLine, ("chain_sha256",)),
        ("failures.jsonl", FailureLine, ()),
    ],
)
def test_every_field_of_a_line_is_documented(artifact: str, line: type[msgspec.Struct], more: tuple[str, ...]) -> None:
    assert documented(artifact) == {*line.__struct_fields__, *more}


@pytest.mark.parametrize("artifact", ["run_manifest.json", "metrics_summary.json"])
def test_every_member_of_a_document_is_documented(tmp_path: Path, artifact: str) -> None:
    result = finished(write_batch(tmp_path / "d.json", batch_record("a")), repeat=2, judges=PANEL)
    # `failures` is in the manifest of a run that failed and was resumed, and in no other.
    # Checks, graders and tool calls are in the metrics of runs that have some.
    assert documented(artifact) - {"failures", "checks", "graders", "tool_calls"} == set(document(result, artifact))


def test_every_member_within_a_member_of_the_metrics_is_named(with_many_figures: RunResult) -> None:
    found = document(with_many_figures, "metrics_summary.json")
    section = PAGE.partition("## metrics_summary.json\n")[2].partition("\n## metrics_by_slice")[0]
    words = {"labels", "score_distribution"}
    inner = {path[-1] for path in members(found) if len(path) > 1 and path[0] not in words}
    assert inner >= {"low", "p95", "n_unknown", "within", "quorum"}
    assert inner - set(re.findall(r"`(\w+)`", section)) == set()
    assert documented("metrics_summary.json: latency_ms") == set(LatencySummary.__struct_fields__)


def test_every_member_of_a_panel_is_documented(tmp_path: Path) -> None:
    metrics = finished(write_batch(tmp_path / "d.json", batch_record("a")), judges=PANEL).metrics
    assert documented("metrics_summary.json: panel") == set(metrics["panel"])
    assert documented("metrics_summary.json: judges") == set(metrics["judges"][0])


def test_every_member_of_the_repeats_is_documented(tmp_path: Path) -> None:
    result = finished(write_batch(tmp_path / "d.json", batch_record("a")), repeat=2)
    assert documented("metrics_summary.json: repeats") == set(result.metrics["repeats"])


def test_every_member_of_a_ranking_is_documented(tmp_path: Path) -> None:
    dataset, same = write_batch(tmp_path / "d.json", batch_record("a")), {"judges": PANEL[:1], "runs_dir": str(tmp_path)}
    for run_id, model in (("one", "scripted/echo"), ("two", "scripted/empty")):
        api.run(dataset, model=model, run_id=run_id, **same)
    ranking = api.rank(api.RankRequest(runs=("one", "two"), **same)).metrics["ranking"]
    section = PAGE.partition("## metrics_summary.json: ranking\n")[2].partition("\n## ")[0]
    named = {*ranking, *ranking["candidates"][0], *ranking["pairs"][0], *ranking["position_bias"][0]}
    assert named <= set(re.findall(r"`(\w+)`", section))


def test_every_member_of_a_case_is_documented(tmp_path: Path) -> None:
    found = lines(finished(write_batch(tmp_path / "d.json", batch_record("a")), repeat=2), "cases.jsonl")
    assert documented("cases.jsonl") == set(found[0]) == set(CaseLine.__struct_fields__)


def test_every_member_of_a_slice_is_documented(tmp_path: Path) -> None:
    found = document(finished(write_batch(tmp_path / "d.json", batch_record("a"))), "metrics_by_slice.json")
    slices = found["slices"]["dataset"]
    own = {*found, *slices, "value", "slice"}
    assert documented("metrics_by_slice.json") == own
    assert set(slices["values"][0]) - own <= documented("metrics_summary.json")


def test_every_member_of_a_response_is_documented(tmp_path: Path) -> None:
    row, _ = lines(finished(write_batch(tmp_path / "d.json", batch_record("a")), repeat=2), "responses.jsonl")
    assert documented("responses.jsonl") == set(row)


@pytest.mark.parametrize("record_id", ["v1@2026", "1234567890123456", "q@1", "@x#3", "Bearer abc"])
def test_id_of_which_nothing_is_redacted_stays_as_it_is(tmp_path: Path, record_id: str) -> None:
    record = {"record_id": record_id, "input": {"prompt": "Hello"}}
    head = {"dataset_id": "ids", "dataset_version": "1", "schema_version": "1.0"}
    dataset = tmp_path / "ids.json"
    dataset.write_text(json.dumps({**head, "records": [record]}), encoding="utf-8")
    request = RunRequest(datasets=(str(dataset),), models=("scripted/echo",), judges=("scripted/judge-5",), runs_dir=str(tmp_path))
    (run,) = api.run(request)
    assert [line.record_id for line in api.open_run(run.run_id, runs_dir=tmp_path).predictions()] == [record_id]
