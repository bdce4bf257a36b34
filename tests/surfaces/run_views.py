"""Runs made by hand, as reports see them."""

from typing import Any

import msgspec

from assay.core.artifact_lines import AttemptLine, FailureLine, PredictionLine, RecordDetails
from assay.core.case import Case, Criterion
from assay.core.manifest import Manifest
from assay.core.plan import ModelPlan
from assay.core.run_result import RunResult
from assay.core.runs import RunCounts, State
from assay.core.summary import GateResult, SliceSummary, read_slices
from assay.presentation.run_report import RunReport, SliceValue, WorstRecord, grouped
from tests.metrics.documents import summarize
from tests.surfaces.conftest import HOSTILE

Json = dict[str, Any]

COUNTS = RunCounts(total_records=6, valid_records=5, evaluated_records=4, failed_records=2, skipped_records=0, invalid_records=1)
INTERVAL = {"low": 0.3, "high": 0.954, "level": 0.95, "method": "wilson", "n": 4}


def amount(total: float | None, *, unknown: int = 0) -> Json:
    return {"sum": total, "mean": None, "n_known": 4, "n_unknown": unknown}


def latencies(p50: float | None, p95: float | None) -> Json:
    return {"n": 0 if p50 is None else 4, "p50": p50, "p95": p95, "mean": p50, "max": p95}


METRICS: Json = {
    **summarize(()),
    "n_scored": 4,
    "n_unscored": 1,
    "error_rate": 0.3333,
    "pass_count": 3,
    "pass_rate": 0.75,
    "pass_rate_interval": INTERVAL,
    "pass_rate_bounds": {"worst": 0.6, "best": 0.8, "n": 5},
    "score_mean_bounds": {"worst": 0.55, "best": 0.75, "n": 5},
    "scale": "1-5",
    "score_mean": 0.6875,
    "score_mean_interval": {**INTERVAL, "low": 0.25, "high": 1.0},
    "raw_score_mean": 3.75,
    "raw_score_mean_interval": {**INTERVAL, "low": 2.0, "high": 5.0},
    "score_distribution": {
        "1-5": [{"score": float(level), "count": count} for level, count in zip(range(1, 6), (0, 1, 0, 1, 2), strict=True)]
    },
    "latency_ms": {"model": latencies(812.4, 2140.0), "judge": latencies(1100.0, 4000.0), "end_to_end": latencies(None, None)},
    "tokens": {"input": amount(1204), "output": amount(603), "total": amount(1807, unknown=1), "cached": amount(None)},
    "cost_usd": amount(0.01234, unknown=1),
}


def dataset_plan(**changes: str) -> dict[str, str]:
    """A dataset in a manifest's plan."""
    given = {"name": "assistant", "dataset_id": "assistant", "dataset_version": "1.2.0", "contract": "golden_v1"}
    return {"path": "", "schema_version": "", "sha256": "", **given, **changes}


PLAN: Json = {
    "run_id": "r",
    "datasets": [dataset_plan()],
    "candidate": {"name": "small", "provider": "openai", "model": "gpt-5-mini", "parameters": {"temperature": 0.0}},
    "judges": [{"name": "openai/gpt-5", "provider": "openai", "model": "gpt-5", "parameters": {"max_tokens": 400}}],
    "response_source": "sampled",
    "gates": {"pass_rate": 0.8},
}


def manifest(plan: Json = PLAN, **changes: Any) -> Manifest:
    return Manifest(
        run_id="r",
        status="completed",
        created_at="2026-11-15T10:00:00.000Z",
        started_at="2026-11-15T10:00:00.000Z",
        completed_at="2026-11-15T10:03:05.000Z",
        contract="golden_v1",
        dataset_id="assistant",
        dataset_version="1.2.0",
        counts=COUNTS,
        gate=GateResult(True),
        candidate=ModelPlan(name="small", provider="openai", model="gpt-5-mini"),
        plan_members={**plan, **changes},
    )


def prediction(record_id: str, score: int | None, why: str, **changes: Any) -> PredictionLine:
    """A line of predictions.jsonl, with what a report reads of it; the rest is None."""
    rest = dict.fromkeys(field.name for field in msgspec.structs.fields(PredictionLine) if field.required)
    line: PredictionLine = msgspec.convert(
        {
            **rest,
            "index": 0,
            "record_id": record_id,
            "dataset": "assistant",
            "record_sha256": "",
            "candidate_name": "small",
            "model": "small",
            "status": "evaluated" if score is not None else "evaluation_error",
            "score": None if score is None else (score - 1) / 4,
            "raw_score": score,
            "scale": "1-5",
            "passed": None if score is None else score >= 4,
            "justification": why,
            "error_code": None if score is not None else "rate_limited",
            "error_message": None if score is not None else why,
            "model_response": "No: 2100 is not divisible by 400.",
            "evaluator_scores": [],
            "selected_choice_ids": [],
            "flags": [],
            "record_attempts": 1,
            **changes,
        },
        PredictionLine,
    )
    return line


def failure(record_id: str | None, kind: str, word: str, *, index: int = 0) -> FailureLine:
    """A line of failures.jsonl."""
    return FailureLine(
        index=index,
        record_id=record_id,
        record_sha256=None,
        kind=kind,
        status="evaluation_error" if kind == "error" else "evaluated",
        code=word,
        message="",
        taxonomy_label=word,
        stage=None,
        record_attempts=1,
    )


def attempt(number: int, stage: str, **changes: Any) -> AttemptLine:
    """A line of attempt_logs.jsonl, with what a report reads of it; the rest is None."""
    rest = dict.fromkeys(field.name for field in msgspec.structs.fields(AttemptLine) if field.required)
    line: AttemptLine = msgspec.convert(
        {
            **rest,
            "index": 0,
            "record_id": "leap-year",
            "attempt": number,
            "stage": stage,
            "record_attempt": 1,
            "call_id": stage,
            "at": "2026-11-15T10:00:00.000Z",
            "model": "small",
            "request_sha256": "",
            "latency_ms": 812.4,
            "total_tokens": 52,
            "cost": 0.0012,
            "finish_reason": "stop",
            "flags": [],
            **changes,
        },
        AttemptLine,
    )
    return line


def result(run_id: str, *reasons: str, state: State = "completed_with_failures", **changes: Any) -> RunResult:
    given: Json = {"counts": COUNTS, "metrics": METRICS, "candidate": "small", **changes}
    return RunResult(run_id=run_id, state=state, run_dir=f"runs/{run_id}", gate=GateResult(not reasons, reasons), **given)


CASES = (
    prediction("unit-conversion", 5, "States 473 ml and keeps to one sentence."),
    prediction("leap-year", 2, "Says yes. A century year must be divisible by 400, and 2100 is not, so the answer is wrong."),
    prediction("plan-dinner", 4, "Vegetarian and quick; the shopping list lacks the salt."),
    prediction("unknown-fact", 5, "Admits that it cannot know."),
    prediction("tone-apology", None, "the provider said: slow down"),
)
FAILURES = grouped(
    [
        failure(None, "error", "missing_required_field", index=2),
        failure("leap-year", "not_passed", "incorrect_answer"),
        *(failure(f"tone-{number}", "error", "rate_limited") for number in range(5)),
    ]
)


WORST = tuple(
    WorstRecord(prediction=prediction(record_id, score, why), label="incorrect_answer", why=why)
    for record_id, score, why in (
        ("leap-year", 2, "Says yes.\nA century year must be divisible by 400."),
        ("plan-dinner", 3, "Not vegetarian: it has fish | and `ham`. " + "And so on. " * 40),
    )
)


def slice_of(figures: Json) -> SliceSummary:
    """The metrics of a slice as they are read from a file."""
    values = {"n_values": 1, "n_values_omitted": 0, "values": [figures]}
    return read_slices({"total_records": 6, "slices": {"name": values}}).slices["name"].values[0]


def slice_value(name: str, value: str | None, n: int, *, rate: float = 0.75) -> SliceValue:
    figures = {**METRICS, "n_scored": n, "pass_rate": rate, "value": value, "slice": f"{name}={value}"}
    return SliceValue(name=name, value=value, figures=slice_of(figures))


SLICES = (slice_value("dataset", "assistant", 3), slice_value("dataset", "other", 1, rate=1.0), slice_value("tags", None, 4))


def golden_view() -> RunReport:
    """A golden dataset, a gate that was missed, failures of all kinds."""
    missed = result("nightly-1", "pass rate 0.75 is below 0.80")
    return RunReport(result=missed, manifest=manifest(), failures=FAILURES, cases=CASES, worst=WORST, slices=SLICES)


def unlisted_view() -> RunReport:
    """The same as of a contract whose records are not listed one by one."""
    return msgspec.structs.replace(golden_view(), cases=())


def other_view() -> RunReport:
    """The same dataset with a candidate that reached its gates."""
    counts = RunCounts(total_records=6, valid_records=6, evaluated_records=6)
    reached = {**METRICS, "pass_rate": 1.0, "pass_count": 6, "n_scored": 6, "cost_usd": amount(None, unknown=6)}
    cases = tuple(prediction(case.record_id, 5, "Good.") for case in CASES)
    good = result("nightly-2", state="completed", counts=counts, metrics=reached, candidate="large")
    return RunReport(result=good, manifest=manifest(), cases=cases, slices=SLICES[:2])


def hostile_view() -> RunReport:
    """Every text that a model or a user has a hand in is an attack on the terminal."""
    candidate = {"name": HOSTILE, "provider": HOSTILE, "model": HOSTILE, "parameters": {"reasoning_effort": HOSTILE}}
    datasets = [dataset_plan(name=HOSTILE, dataset_id=HOSTILE, dataset_version=HOSTILE)]
    return RunReport(
        result=result(HOSTILE, HOSTILE, HOSTILE, blocked=HOSTILE, candidate=HOSTILE),  # more reasons than gates: as they are stored
        manifest=manifest(candidate=candidate, datasets=datasets, parent_run_id=HOSTILE),
        failures=grouped([failure(HOSTILE, "error", HOSTILE)]),
        cases=(prediction(HOSTILE, 3, HOSTILE), prediction(HOSTILE, None, HOSTILE)),
        worst=(WorstRecord(prediction=prediction(HOSTILE, 3, HOSTILE), label=HOSTILE, why=HOSTILE),),
        slices=(slice_value(HOSTILE, HOSTILE, 4), slice_value(HOSTILE, None, 4)),
        missing=(HOSTILE,),
    )


def unfinished_view() -> RunReport:
    counts = RunCounts(total_records=500, valid_records=500, evaluated_records=120, failed_records=3, skipped_records=377)
    open_result = result("nightly-3", "the run has not ended", state="running", counts=counts, metrics={})
    return RunReport(result=open_result, manifest=msgspec.structs.replace(manifest(), started_at=None, completed_at=None))


def asked(prompt: str, **members: Any) -> Case:
    """A case with this prompt."""
    return Case(id="leap-year", index=0, contract="golden_v1", task="rubric", dataset="assistant", prompt=prompt, **members)


def record() -> RecordDetails:
    """One record with a rubric, a retried call and a judge's score."""
    score = {
        "criterion": "rubric",
        "score": 2.0,
        "scale": "1-5",
        "normalized": 0.25,
        "judge": "openai/gpt-5",
        "justification": "Says yes.",
    }
    limited = {"error_code": "rate_limited", "error_message": "slow down", "http_status": 429, "wait_s": 2.2, "total_tokens": None}
    criterion = Criterion("rubric", "Says no, and why.")
    return RecordDetails(
        input=asked("Is 2100 a leap year?\nWhy?", criteria=(criterion,), notes="Ask again next year."),
        prediction=prediction("leap-year", 2, "Says yes.", evaluator_scores=[score], label="incorrect_answer"),
        attempts=(
            attempt(1, "candidate", cost=None, finish_reason=None, **limited),
            attempt(2, "candidate", record_attempt=2),
            attempt(3, "judge", record_attempt=2, model="openai/gpt-5", latency_ms=None, response='{"score": 2}'),
        ),
    )
