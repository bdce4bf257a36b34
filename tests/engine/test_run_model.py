"""The run model of the contracts: claims of our own, and the vectors about runs in a folder that ASSAY_VECTORS names."""

import json
import os
import random
import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from assay import RunRequest, RunResult, open_run, run, validate
from assay.api import PlanProblems, cancel, plan_runs, verify
from assay.core.case import Case
from assay.core.errors import AssayError, RunSealed
from assay.core.model_call import TRANSIENT_CODES, Reply
from assay.core.outcome import Flow, Grade
from assay.core.plan import retry_delay
from assay.core.runs import count_records, final_state, may_follow
from assay.core.settings import RetrySection
from assay.datasets.converters import RowSource, convert_rows
from assay.golden import EvalResult, EvalRunMetrics, EvalRunParameters
from assay.grading import GradingSettings, start
from assay.store.artifacts import ARTIFACTS, StagingFolder
from assay.store.retention import purge_run, purgeable
from assay.testing import StubProvider, StubReply
from tests.conformance import Vector, differences
from tests.datasets.converters.test_benchmarks import APEX, ECHR, INCLUDE, LEXAM, PRBENCH
from tests.engine.run_settings import batch_record, mcq_row, write_batch, write_golden, write_rows

FOLDER = Path(os.environ.get("ASSAY_VECTORS", "/nonexistent"))
DAY = 86400.0
STATUSES = {"timeout": 408, "rate_limited": 429, "internal_error": 500, "service_unavailable": 503}
SOURCE_ROWS = {"prbench": PRBENCH, "apexv1": APEX, "lexam": LEXAM, "includebase": INCLUDE, "lar_echr": ECHR}
WORDINGS = {
    "confidence intervals": "interval",
    "prompt/template hash": "template",
    "accepted or error": "result",
    "timestamp": "at",
    "slices": "slice",
}
"""Fields that a vector describes in words of its own."""

MINIMAL = {
    "schema_version": "legal_eval_v1",
    "id": "row-1",
    "dataset": "exams",
    "task_type": "rubric_qa",
    "prompt": "Why?",
    "rubric": [{"id": "c-1", "title": "Names the reason"}],
}
CHOICES = [{"id": letter, "text": f"Option {letter}"} for letter in "ABCD"]
ENTITIES = {"parameters": "params", "metrics": "metrics", "results": "artifact", "dataset": "artifact"}

Value = dict[str, Any]


# What assay does, in the words of the vectors


def statuses(value: Value) -> dict[str, int]:
    return {{"succeeded": "evaluated"}.get(name, name): count for name, count in value["record_outcomes"].items()}


def final_status(value: Value, _: Path) -> Value:
    counts = count_records(statuses(value))
    is_blocked = "run_level_failure" in value
    return {"status": final_state(counts, is_cancelled=value.get("run_cancelled", False), is_blocked=is_blocked)}


def denominators(value: Value, _: Path) -> Value:
    counts = count_records(statuses(value))
    return {name: getattr(counts, name) for name in counts.__struct_fields__}


def retry(value: Value, _: Path) -> Value:
    policy, attempt = RetrySection(), value["attempt"]
    is_tried_again = value["error_code"] in TRANSIENT_CODES and attempt < policy.max_attempts
    low, high = (retry_delay(policy, attempt, chance=chance) for chance in (0.0, 1.0))
    return {"retry": is_tried_again, "delay_s_min": low, "delay_s_max": high}


def retry_distribution(value: Value, _: Path) -> Value:
    policy, attempt = RetrySection(), value["attempt"]
    chances = random.Random(1)
    delays = {retry_delay(policy, attempt, chance=chances.random()) for _ in range(value["samples"])}
    low, high = (retry_delay(policy, attempt, chance=chance) for chance in (0.0, 1.0))
    return {"all_within": [low, high] if low <= min(delays) <= max(delays) <= high else [], "distinct_min": min(2, len(delays))}


def state_sequence(value: Value, _: Path) -> Value:
    states = value["sequence"]
    return {"legal": states[0] == "queued" and all(may_follow(*step) for step in pairwise(states))}


def retention(value: Value, folder: Path) -> Value:
    finished = Path(small_run(folder).run_dir)
    ended = open_run(str(finished)).manifest["completed_at"]
    now = datetime.fromisoformat(ended).timestamp() + value["age_days"] * DAY
    return {"deletable": value["artifact"] in purgeable(finished, now=now)}


def artifact_fields(value: Value, folder: Path) -> Value:
    with StubProvider(outcome_script) as provider:
        finished = stub_run(folder, provider, ["succeeded", "wrong", "timeout", "invalid_record"])
    run_dir = Path(finished.run_dir)
    names = {path.lower() for path in paths_in(run_dir / value["artifact"])}
    # The hash of a record is in predictions and validations: the input is a document of its contract, which has no such member.
    everywhere = Fields({path.lower() for artifact in run_dir.glob("*.json*") for path in paths_in(artifact)})
    of_input = ("dataset_id", "dataset_version", "schema_version", "record_sha256")
    return {"fields": Fields(names), "fields_elsewhere": all(field in everywhere for field in of_input)}


class Fields:
    """Members of an artifact, found by the words of their names."""

    def __init__(self, paths: set[str]) -> None:
        self._paths = paths

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __contains__(self, field: object) -> bool:
        alternatives = WORDINGS.get(str(field), str(field)).split(" or ")
        return any(all(word in path for word in words.lower().split()) for words in alternatives for path in self._paths)


def paths_in(artifact: Path) -> Iterator[str]:
    lines = artifact.read_text(encoding="utf-8").splitlines() if artifact.suffix == ".jsonl" else [artifact.read_text("utf-8")]
    for line in lines:
        yield from members_of(json.loads(line), "")


def members_of(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name, member in value.items():
            yield f"{path}.{name}"
            yield from members_of(member, f"{path}.{name}")
    elif isinstance(value, list):
        for member in value:
            yield from members_of(member, path)


def run_artifacts(value: Value, folder: Path) -> Value:
    outcomes = [outcome for outcome, count in value["record_outcomes"].items() for _ in range(count)]
    with StubProvider(cancelling_script(folder)) as provider:
        finished = stub_run(folder, provider, outcomes)
    assert verify(finished.run_dir) == []
    return {"artifacts": [path.name for path in Path(finished.run_dir).iterdir()]}


def artifact_write_once(value: Value, folder: Path) -> Value:
    finished = Path(small_run(folder).run_dir)
    before = contents(finished)
    is_allowed = True
    try:
        OPERATIONS[value["operation"]](finished, value["artifact"])
    except AssayError:
        is_allowed = False
    return {"allowed": is_allowed, "bytes_unchanged": contents(finished) == before}


def publish_again(finished: Path, artifact: str, change: Callable[[bytes], bytes]) -> None:
    with StagingFolder(finished.parent / "work") as staging:
        for name in ARTIFACTS[1:]:
            kept = (finished / name).read_bytes()
            staging.write(name, change(kept) if name == artifact else kept)
        staging.seal({"run_id": finished.name, "changed": artifact})
        staging.publish(finished)


def purge_early(finished: Path, _: str) -> None:
    purge_run(finished, now=finished.stat().st_mtime + DAY)


OPERATIONS: dict[str, Callable[[Path, str], None]] = {
    "overwrite": lambda finished, artifact: publish_again(finished, artifact, lambda _: b"other\n"),
    "append": lambda finished, artifact: publish_again(finished, artifact, lambda kept: kept + b"more\n"),
    "truncate": lambda finished, artifact: publish_again(finished, artifact, lambda _: b""),
    "delete_within_retention": purge_early,
}


def artifact_correction(_: Value, folder: Path) -> Value:
    first = small_run(folder)
    before = contents(Path(first.run_dir))
    second = small_run(folder)
    return {"new_run_id": second.run_id != first.run_id, "old_artifacts_unchanged": contents(Path(first.run_dir)) == before}


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def attempt_log(value: Value, folder: Path) -> Value:
    """The provider fails as listed; codes that no status stands for come from a script."""
    first, *_ = value["provider"]
    with StubProvider(in_order(value["provider"])) as provider:
        model = "stub/candidate" if first in STATUSES or first == "ok" else f"scripted/fail-{first}"
        finished = stub_run(folder, provider, [value["record_id"]], candidates=[model], judges=["scripted/judge-5"])
    opened = open_run(finished.run_dir)
    (prediction,) = opened.predictions()
    rows = [row for row in opened.attempts(prediction["record_id"]) if row["stage"] == "candidate"]
    fields = Fields({path for row in rows for path in members_of(row, "")})
    return {
        "attempt_rows": len(rows),
        "fields": fields,
        "record_status": prediction["status"],
        "run_status": finished.state,
    }


def in_order(codes: list[str]) -> list[str | StubReply]:
    return ["The answer." if code == "ok" else StubReply(status=STATUSES.get(code, 400), body={}) for code in codes]


def redaction(value: Value, folder: Path) -> Value:
    text = "".join(value["text_parts"])
    said = {"prompt": "Say hello", "model_response": "Hello", value["where"]: text}
    record = {**batch_record("q"), "input": {"prompt": said["prompt"]}}
    (folder / "answers.json").write_text(json.dumps({"q": said["model_response"]}), encoding="utf-8")
    (finished,) = run(
        write_batch(folder / "batch.json", record),
        responses=str(folder / "answers.json"),
        judge="scripted/judge-5",
        runs_dir=str(folder / "runs"),
    )
    needle = value["text_parts"][1]
    kept = {path.name: path.read_text("utf-8") for path in (folder / "runs").rglob("*") if path.is_file()}
    told = {"logs": "", "database": "".join(kept.values()), "error messages": repr(finished)}
    holders = {name for name, content in (kept | told).items() if needle in content or json.dumps(needle)[1:-1] in content}
    return {"must_not_appear_in": [name for name in kept | told if name not in holders], "needle": needle}


def mcq_grade(value: Value, _: Path) -> Value:
    row = mcq_row("row-1", choices=value["choices"], correct_choice_ids=value["correct_choice_ids"])
    (case,) = validate([row], "legal_eval_v1").cases
    asked: list[str] = []
    grade = driven(case, json.dumps({"answer": value["selected_ids"], "reasoning": "As the vector says."}), asked)
    return {"passed": grade.passed, "score": grade.score, "judge_calls": asked.count("judge")}


def driven(case: Case, answer: str, asked: list[str]) -> Grade:
    flow: Flow = start(case, GradingSettings(candidate="candidate"))
    asks = next(flow)
    while True:
        asked += [ask.stage for ask in asks]
        try:
            asks = flow.send(tuple(Reply(text=answer) for _ in asks))
        except StopIteration as end:
            grade: Grade = end.value
            return grade


def run_metrics(value: Value, _: Path) -> Value:
    thresholds = {name: value[name] for name in ("pass_rate_threshold", "score_threshold")}
    parameters = EvalRunParameters(
        assistant_model="a", judge_model="j", temperature=0, max_tokens=1, dataset_version="1.0.0", **thresholds
    )
    return EvalRunMetrics.from_results(map(golden_result, value["results"]), parameters).model_dump()


def golden_result(score: Any) -> EvalResult:
    is_error = score == "error"
    graded = {"score": None, "passed": None, "error": "timeout"} if is_error else {"score": score, "passed": score >= 4}
    texts = {"case_id": "c", "user_prompt": "p", "assistant_response": "r", "justification": "j", "duration_ms": 1}
    return EvalResult.model_validate({**texts, **graded})


def entity_outcome(entity: type[BaseModel]) -> Callable[[Any, Path], Value]:
    def outcome(value: Any, _: Path) -> Value:
        try:
            entity.model_validate_json(value if isinstance(value, str) else json.dumps(value))
        except ValidationError as problem:
            errors = [{"path": ".".join(map(str, error["loc"])), "code": None} for error in problem.errors()]
            return {"outcome": "rejected", "record_errors": errors}
        return {"outcome": "accepted", "record_errors": []}

    return outcome


def mlflow_mapping(value: Value, folder: Path) -> Value:
    """What a run leaves for MLflow: flat members to log as parameters or metrics, or a file to log as an artifact."""
    finished = Path(golden_run(folder).run_dir)
    document = json.loads((finished / "eval_results.json").read_bytes())
    logged = {"parameters": "log_params", "metrics": "log_metrics"}
    entity = document.get(value["entity"])
    return {"logged_via": logged[value["entity"]] if isinstance(entity, dict) else "log_artifact"}


def config_check(value: Value, folder: Path) -> Value:
    """A problem of the settings alone, or one that shows when they meet the rows; both before any call."""
    rows, config = value.get("rows", ["row"]), dict(value.get("config", {}))
    dataset = write_rows(folder / "rows.jsonl", *map(mcq_row, rows))
    (folder / "answers.json").write_text(json.dumps(dict.fromkeys(value.get("responses_for", rows), "A")), encoding="utf-8")
    settings = {
        "datasets": [config.pop("dataset_path", dataset.name)],
        "run": {"responses": "answers.json", "runs_dir": "runs", **config},
    }
    (folder / "run.json").write_text(json.dumps(settings), encoding="utf-8")
    try:
        plan_runs(RunRequest(run_file=str(folder / "run.json")))
    except PlanProblems as problems:
        is_about_rows = any(f", {row})" in problem for problem in problems.problems for row in rows)
        return {"phase": "runtime" if is_about_rows else "config", "error": True}
    return {"phase": None, "error": False}


def converter_property(value: Value, _: Path) -> Value:
    names = value["datasets"]
    return {"holds": all(ids(name, [SOURCE_ROWS[name]]) == ids(name, [SOURCE_ROWS[name]]) for name in names)}


def ids(name: str, rows: list[dict[str, Any]]) -> list[str]:
    return [row["id"] for row in convert_rows(name, [RowSource("rows.jsonl", tuple(enumerate(rows, 1)))]).rows]


def normalize(value: Value, _: Path) -> Value:
    (case,) = validate([value], "legal_eval_v1").cases
    members = {"context": case.model_context, "messages": list(case.messages), "attachments": list(case.attachments)}
    for index, criterion in enumerate(case.criteria):
        members |= {f"rubric[{index}].weight": criterion.weight, f"rubric[{index}].description": criterion.description}
    return {"normalized": Members(members | {"metadata": case.metadata})}


class Members(dict[str, Any]):
    """Everything that a row was read as; a vector names what it is about."""

    def __eq__(self, named: object) -> bool:
        return isinstance(named, dict) and all(name in self and self[name] == member for name, member in named.items())

    __hash__ = None


TARGETS: dict[str, Callable[[Any, Path], Value]] = {
    "artifact_correction": artifact_correction,
    "artifact_fields": artifact_fields,
    "artifact_write_once": artifact_write_once,
    "attempt_log": attempt_log,
    "config_check": config_check,
    "converter_property": converter_property,
    "denominators": denominators,
    "eval_result": entity_outcome(EvalResult),
    "final_status": final_status,
    "mcq_grade": mcq_grade,
    "mlflow_mapping": mlflow_mapping,
    "normalize": normalize,
    "redaction": redaction,
    "retention": retention,
    "retry": retry,
    "retry_distribution": retry_distribution,
    "run_artifacts": run_artifacts,
    "run_metrics": run_metrics,
    "run_parameters": entity_outcome(EvalRunParameters),
    "state_sequence": state_sequence,
}


# Small real runs


def small_run(folder: Path) -> RunResult:
    path = write_batch(folder / "batch.json", batch_record("q-1"), batch_record("q-2"))
    (finished,) = run(path, model="scripted/echo", judge="scripted/judge-4", runs_dir=str(folder / "runs"))
    return finished


def golden_run(folder: Path) -> RunResult:
    path = write_golden(folder / "golden.json")
    (finished,) = run(path, model="scripted/echo", judge="scripted/judge-4", runs_dir=str(folder / "runs"))
    return finished


def stub_run(folder: Path, provider: StubProvider, outcomes: list[str], **sections: Any) -> RunResult:
    """A run whose records ask for the outcome that they are to have."""
    records = [
        {**batch_record(f"q-{number}"), "input": {"prompt": outcome}} | ({"tags": 7} if outcome == "invalid_record" else {})
        for number, outcome in enumerate(outcomes)
    ]
    settings = {
        "datasets": [str(write_batch(folder / "batch.json", *records))],
        "candidates": ["stub/candidate"],
        "judges": ["stub/judge"],
        "providers": [{"name": "stub", "base_url": provider.base_url}],
        "run": {"runs_dir": str(folder / "runs"), "id": "run_1", "concurrency": 1},
        "retry": {"base_delay": 0},
        **sections,
    }
    (folder / "run.json").write_text(json.dumps(settings), encoding="utf-8")
    (finished,) = run(folder / "run.json")
    return finished


def outcome_script(request: Any) -> str | StubReply:
    asked = request.body["messages"][-1]["content"]
    if request.body["model"] == "judge":
        return json.dumps({"score": 2 if "wrong" in asked else 5, "justification": "As the script says."})
    failures = {"timeout": StubReply(status=408, body={}), "evaluation_error": StubReply(status=400, body={})}
    return failures.get(asked, f"The answer to {asked}.")


def cancelling_script(folder: Path) -> Callable[[Any], str | StubReply]:
    """As above; a record that is to be cancelled has the whole run cancelled while it is asked about."""

    def script(request: Any) -> str | StubReply:
        if request.body["messages"][-1]["content"] == "cancelled":
            stopping = threading.Thread(target=cancel, args=("run_1",), kwargs={"runs_dir": str(folder / "runs")})
            stopping.start()
            stopping.join()
        return outcome_script(request)

    return script


# Claims of our own

ALL = list(ARTIFACTS)
NEEDLES = {
    "an access key": "AKIAQ4Z7WNM2KXR6TD3P",
    "a token": "Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiI5ODc2In0.c2VhbGVkYXk",
    "a card": "5555 5555 5555 4444",
    "an address": "max.muster.12@example.net",
    "a phone number": "+41 44 668 18 00",
    "a number of a person": "219-09-9999",
    "a key of a provider": "sk-proj-Zx9Yw8Vu7Ts6Rq5Po4Nm3Lk2Ji1Hg0Fe9Dc8Ba7",
    "a private key": "-----BEGIN RSA PRIVATE KEY-----\nMIICXAIBAAKBgQC\n-----END RSA PRIVATE KEY-----",
}


def claim(target: str, expected: Value, **value: Any) -> Any:
    return pytest.param(target, value, expected, id=f"{target}-{value}")


@pytest.mark.parametrize(
    ("target", "value", "expected"),
    [
        claim("final_status", {"status": "completed"}, record_outcomes={"succeeded": 3}),
        claim("final_status", {"status": "completed"}, record_outcomes={"succeeded": 3, "skipped": 1}),
        claim("final_status", {"status": "completed_with_failures"}, record_outcomes={"succeeded": 3, "timeout": 1}),
        claim("final_status", {"status": "completed_with_failures"}, record_outcomes={"succeeded": 3, "invalid_record": 1}),
        claim("final_status", {"status": "completed_with_failures"}, record_outcomes={"succeeded": 3, "cancelled": 1}),
        claim("final_status", {"status": "completed_with_failures"}, record_outcomes={"timeout": 3}),
        claim("final_status", {"status": "cancelled"}, record_outcomes={"succeeded": 3, "cancelled": 1}, run_cancelled=True),
        claim("final_status", {"status": "completed"}, record_outcomes={"succeeded": 3}, run_cancelled=True),
        claim("final_status", {"status": "failed"}, record_outcomes={"cancelled": 3}, run_cancelled=True, run_level_failure="disk"),
        claim(
            "denominators",
            {"total_records": 10, "valid_records": 9, "evaluated_records": 3, "failed_records": 4, "skipped_records": 3},
            record_outcomes={
                "succeeded": 3,
                "invalid_record": 1,
                "timeout": 1,
                "evaluation_error": 2,
                "cancelled": 2,
                "skipped": 1,
            },
        ),
        claim("denominators", {"total_records": 0, "valid_records": 0, "evaluated_records": 0}, record_outcomes={}),
        claim("retry", {"retry": True, "delay_s_min": 1.6, "delay_s_max": 2.4}, error_code="timeout", attempt=1),
        claim("retry", {"retry": True, "delay_s_min": 4.8, "delay_s_max": 7.2}, error_code="rate_limited", attempt=2),
        claim("retry", {"retry": False}, error_code="internal_error", attempt=3),
        *[claim("retry", {"retry": False}, error_code=code, attempt=1) for code in ("unauthorized", "judge_parse_error", "")],
        claim("retry_distribution", {"all_within": [4.8, 7.2], "distinct_min": 2}, error_code="timeout", attempt=2, samples=500),
        claim("state_sequence", {"legal": True}, sequence=["queued", "validating", "running", "finalizing", "completed"]),
        claim("state_sequence", {"legal": True}, sequence=["queued", "validating", "running", "retrying", "finalizing", "failed"]),
        claim("state_sequence", {"legal": True}, sequence=["queued", "validating", "finalizing", "completed_with_failures"]),
        claim("state_sequence", {"legal": False}, sequence=["queued", "retrying", "finalizing", "completed"]),
        claim("state_sequence", {"legal": False}, sequence=["queued", "validating", "running", "completed"]),
        claim("state_sequence", {"legal": False}, sequence=["queued", "cancelled", "finalizing"]),
        claim("state_sequence", {"legal": False}, sequence=["running", "finalizing", "completed"]),
        *[claim("retention", {"deletable": False}, artifact=name, age_days=29.9) for name in ALL],
        *[claim("retention", {"deletable": name in ALL[1:5]}, artifact=name, age_days=30) for name in ALL[:7]],
        *[claim("retention", {"deletable": name != ALL[0]}, artifact=name, age_days=180) for name in ALL],
        claim("run_artifacts", {"artifacts": ALL}, record_outcomes={"succeeded": 2, "timeout": 1, "evaluation_error": 1}),
        claim("run_artifacts", {"artifacts": ALL}, record_outcomes={"cancelled": 2}),
        claim("run_artifacts", {"artifacts": ALL}, record_outcomes={"evaluation_error": 1, "invalid_record": 1}),
        *[
            claim("artifact_write_once", {"allowed": False, "bytes_unchanged": True}, artifact=name, operation="overwrite")
            for name in ALL
        ],
        claim("artifact_write_once", {"allowed": False, "bytes_unchanged": True}, artifact=ALL[3], operation="append"),
        claim("artifact_write_once", {"allowed": False, "bytes_unchanged": True}, artifact=ALL[3], operation="truncate"),
        claim(
            "artifact_write_once",
            {"allowed": False, "bytes_unchanged": True},
            artifact="metrics_summary.json",
            operation="delete_within_retention",
        ),
        claim("artifact_correction", {"new_run_id": True, "old_artifacts_unchanged": True}, operation="rerun"),
        claim(
            "artifact_fields",
            {
                "fields": [
                    "record_id",
                    "model_response",
                    "evaluator_scores",
                    "output_tokens",
                    "total_tokens",
                    "latency",
                    "record_sha256",
                    "first_attempt_at",
                    "last_attempt_at",
                    "template",
                    "evaluator",
                    "model",
                ]
            },
            artifact="predictions.jsonl",
        ),
        claim("artifact_fields", {"fields": ["record_id", "timestamp", "error_code", "latency"]}, artifact="attempt_logs.jsonl"),
        claim(
            "artifact_fields",
            {
                "fields": [
                    "total_records",
                    "evaluated_records",
                    "pass rate",
                    "confidence intervals",
                    "latency p95",
                    "score distribution",
                ]
            },
            artifact="metrics_by_slice.json",
        ),
        claim("artifact_fields", {"fields": ["record_id", "taxonomy label", "code"]}, artifact="failures.jsonl"),
        claim(
            "attempt_log",
            {
                "attempt_rows": 3,
                "fields": ["timestamp", "error_code", "latency"],
                "record_status": "evaluated",
                "run_status": "completed",
            },
            record_id="q",
            provider=["service_unavailable", "rate_limited", "ok"],
        ),
        claim(
            "attempt_log",
            {"attempt_rows": 3, "record_status": "evaluation_error", "run_status": "completed_with_failures"},
            record_id="q",
            provider=["timeout", "timeout", "internal_error", "ok"],
        ),
        claim(
            "attempt_log",
            {"attempt_rows": 1, "record_status": "evaluation_error"},
            record_id="q",
            provider=["content_filtered", "ok"],
        ),
        claim(
            "mcq_grade", {"passed": True, "judge_calls": 0}, choices=CHOICES, correct_choice_ids=["A", "C"], selected_ids=["C", "A"]
        ),
        claim("mcq_grade", {"passed": False, "judge_calls": 0}, choices=CHOICES, correct_choice_ids=["A", "C"], selected_ids=["A"]),
        claim("mcq_grade", {"passed": False, "judge_calls": 0}, choices=CHOICES, correct_choice_ids=["A"], selected_ids=["A", "C"]),
        claim(
            "mcq_grade", {"passed": False, "judge_calls": 0}, choices=CHOICES, correct_choice_ids=["A"], selected_ids=["a way out"]
        ),
        claim(
            "run_metrics",
            {"pass_rate": None, "average_score": None, "error_cases": 2, "overall_passed": False},
            results=["error", "error"],
            pass_rate_threshold=0.0,
            score_threshold=1.0,
        ),
        claim(
            "run_metrics",
            {"pass_rate": 0.8, "average_score": 3.5, "error_cases": 1, "overall_passed": True},
            results=[4, 4, 4, 4, 4, 4, 4, 4, 2, 1, "error"],
            pass_rate_threshold=0.8,
            score_threshold=3.5,
        ),
        *[claim("mlflow_mapping", {"logged_via": f"log_{name}"}, entity=entity) for entity, name in ENTITIES.items()],
        claim("config_check", {"phase": "config", "error": True}, config={"dataset_path": "elsewhere.jsonl"}),
        claim("config_check", {"phase": "runtime", "error": True}, rows=["r-1", "r-2", "r-3"], responses_for=["r-1", "r-3"]),
        claim("config_check", {"phase": None, "error": False}, rows=["r-1", "r-2"], responses_for=["r-1", "r-2"]),
        claim("config_check", {"phase": "config", "error": True}, config={"response_source": "a guess"}),
        claim("config_check", {"phase": "config", "error": True}, config={"response_source": "prefilled", "responses": None}),
        claim("normalize", {"normalized": {"context": "", "messages": [], "attachments": [], "metadata": {}}}, **MINIMAL),
        claim("normalize", {"normalized": {"context": "facts", "messages": []}}, **MINIMAL, context="facts", messages=None),
        claim("normalize", {"normalized": {"rubric[0].weight": 1.0, "rubric[0].description": ""}}, **MINIMAL),
        claim("converter_property", {"holds": True}, property="same-input-same-id", datasets=list(SOURCE_ROWS)),
        *[
            claim(
                "redaction",
                {"must_not_appear_in": [*ALL, "logs", "error messages", "database"]},
                where=where,
                text_parts=["See ", text, "!"],
            )
            for text in NEEDLES.values()
            for where in ("prompt", "model_response")
        ],
    ],
)
def test_the_run_model_holds(target: str, value: Value, expected: Value, tmp_path: Path) -> None:
    assert unlike(TARGETS[target](value, tmp_path), expected) == []


def test_a_criterion_without_a_weight_counts_once() -> None:
    row = mcq_row("r", task_type="rubric_qa", rubric=[{"id": "c", "title": "Says it"}, {"id": "d", "title": "Not", "weight": -2}])
    bare = {name: member for name, member in row.items() if name not in ("choices", "correct_choice_ids")}
    weights = {name: member for name, member in normalize(bare, Path())["normalized"].items() if name.endswith("weight")}
    assert weights == {"rubric[0].weight": 1.0, "rubric[1].weight": -2.0}


def test_ids_do_not_depend_on_where_a_row_stands() -> None:
    others = {name: [{**row, "id": "other", "task": "other", "Task ID": 2}, row] for name, row in SOURCE_ROWS.items()}
    assert [ids(name, others[name])[-1:] for name in SOURCE_ROWS] == [ids(name, [row]) for name, row in SOURCE_ROWS.items()]


def test_a_run_with_other_settings_cannot_take_the_id_of_a_finished_one(tmp_path: Path) -> None:
    path = write_batch(tmp_path / "batch.json", batch_record("q-1"))
    options = {"model": "scripted/echo", "runs_dir": str(tmp_path / "runs"), "run_id": "one"}
    (finished,) = run(path, judge="scripted/judge-5", **options)
    before = contents(Path(finished.run_dir))
    with pytest.raises(RunSealed, match="other settings"):
        run(path, judge="scripted/judge-1", **options)
    assert contents(Path(finished.run_dir)) == before


def test_the_records_of_a_real_run_add_up(tmp_path: Path) -> None:
    with StubProvider(outcome_script) as provider:
        outcomes = ["succeeded", "wrong", "timeout", "evaluation_error", "invalid_record"]
        finished = stub_run(tmp_path, provider, outcomes)
    manifest = open_run(finished.run_dir).manifest
    assert [entry["state"] for entry in manifest["states"]] == [
        *("queued", "validating", "running", "retrying", "finalizing", "completed_with_failures")
    ]
    assert (
        manifest["counts"]
        == finished.to_dict()["counts"]
        == {
            "total_records": 5,
            "valid_records": 4,
            "evaluated_records": 2,
            "failed_records": 3,
            "skipped_records": 0,
            "invalid_records": 1,
            "cancelled_records": 0,
        }
    )


# The vectors


def run_vectors(folder: Path) -> list[Any]:
    vectors = (json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*/*.json")))
    return [pytest.param(vector, id=f"{vector['contract']}/{vector['id']}") for vector in vectors if vector["target"] in TARGETS]


def unlike(actual: Value, expected: Value) -> list[str]:
    """What differs; a list of expected things is there when each of them is."""
    plain = {name: value for name, value in expected.items() if name not in ("record_errors", "optional_errors")}
    found = [
        f"{name} is {actual.get(name)!r}, not {value!r}" for name, value in plain.items() if not agrees(actual.get(name), value)
    ]
    return found + differences(actual, {"expected": expected})


def agrees(actual: Any, expected: Any) -> bool:
    if isinstance(expected, list):
        return actual is not None and all(item in actual or any(agrees(one, item) for one in actual) for item in expected)
    if isinstance(expected, float):
        return actual == pytest.approx(expected, abs=1e-9)
    return bool(actual == expected)


@pytest.mark.parametrize("vector", run_vectors(FOLDER))
def test_a_vector_about_runs_has_the_expected_outcome(vector: Vector, tmp_path: Path) -> None:
    given = vector["input"]
    actual = TARGETS[vector["target"]](given["value"] if given["kind"] == "value" else given["text"], tmp_path)
    readings = [unlike(actual, reading) for reading in (vector["expected"], *vector.get("alternatives", ()))]
    assert [] in readings, readings[0]


@pytest.mark.skipif(not FOLDER.is_dir(), reason="ASSAY_VECTORS names no folder")
def test_the_folder_has_vectors_of_every_kind() -> None:
    assert {vector.values[0]["target"] for vector in run_vectors(FOLDER)} == set(TARGETS)
