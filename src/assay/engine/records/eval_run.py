"""`eval_results.json`: a run over one golden dataset as the EvalRun of golden_v1, with the gates of the run next to it."""

from collections.abc import Sequence

import msgspec

from assay.core.artifact_lines import PredictionLine
from assay.core.canonical import JsonObject
from assay.core.case import Case
from assay.core.outcome import Score
from assay.core.plan import Plan
from assay.core.settings import Gates
from assay.core.summary import GateCheck
from assay.engine.records.redaction import RedactedPlan
from assay.metrics.golden import PASS_SCORE, EvalResult, EvalRunParameters, eval_result, eval_run_metrics

EVAL_RESULTS = "eval_results.json"
GOLDEN_MAX_TOKENS = 4_096
"""The longest answer in a golden run whose request does not say it: the contract wants a number, and a number that is true."""


def why_no_eval_run(plan: Plan) -> str:
    """Why the run is none that an EvalRun can tell; empty where it is one, or has no golden dataset at all."""
    golden = [dataset for dataset in plan.datasets if dataset.contract == "golden_v1"]
    if not golden:
        return ""
    if plan.comparison is not None:
        return "it tells of answers, and the run compares those of others"
    if plan.grader() is not None:
        return "it tells of scores from 1 to 5, and the run has a grader of its own"
    if len(plan.datasets) > 1:
        return f"it tells of one golden dataset, and the run has {len(plan.datasets)} datasets; run each by itself, or as a suite"
    if plan.case_pass_score != PASS_SCORE:
        return f"its cases pass with {PASS_SCORE}, and those of the run with {plan.case_pass_score}"
    if plan.profile is not None and plan.gates.min_score is not None:
        return f"its score threshold is one on the average score, and the run's is one on {plan.profile}"
    return "" if _max_tokens(plan) else "the candidate has no max_tokens"


def _max_tokens(plan: Plan) -> int | None:
    """The contract wants a number, also of a function, which is told none: that is the contract's own."""
    return plan.candidate.parameters.max_tokens or (None if plan.takes_parameters(plan.candidate) else GOLDEN_MAX_TOKENS)


def eval_run_parameters(shown: RedactedPlan) -> EvalRunParameters:
    """The settings of the run; a panel's judges are named together."""
    parameters = shown.plan.candidate.parameters
    return EvalRunParameters(
        assistant_model=shown.candidate.model,
        judge_model=", ".join(judge.model for judge in shown.judges),
        temperature=parameters.temperature,
        max_tokens=_max_tokens(shown.plan),
        dataset_version=shown.datasets[0].dataset_version,
        **_thresholds(shown.plan.gates),
    )


def _thresholds(gates: Gates) -> JsonObject:
    """A gate that is not set is a threshold that everything reaches."""
    return {
        "pass_rate_threshold": 0.0 if gates.pass_rate is None else gates.pass_rate,
        "score_threshold": 1.0 if gates.min_score is None else gates.min_score,
        "max_error_rate": gates.max_error_rate,
    }


def is_true_of(eval_run: JsonObject, *, is_cancelled: bool) -> bool:
    """False for the EvalRun of a cancelled run whose formula passes the part that was evaluated."""
    return not (is_cancelled and eval_run["metrics"]["overall_passed"])


def golden_result(line: PredictionLine, case: Case) -> EvalResult:
    """One case of the dataset after its run."""
    grade = None if line.raw_score is None else (round(line.raw_score), line.justification or "")
    error = "" if line.error_code is None else _error_words(line.error_code, line.error_message or "")
    result = eval_result(
        line.record_id,
        case.prompt,
        answer=line.model_response or "",
        grade=grade,
        duration_ms=line.total_latency_ms or 0.0,
        error=error,
    )
    kept = result.justification if grade else "\n".join(map(_vote_words, line.evaluator_scores))
    return msgspec.structs.replace(result, sample=line.sample, justification=kept)


def _error_words(code: str, message: str) -> str:
    """The error with its code once; a judge's message names it after the judge."""
    return f"{code}: {message.replace(f': {code}: ', ': ', 1)}"


def _vote_words(vote: Score) -> str:
    """A vote of a panel that lost another judge: `rubric (judge-a): 4. Polite.`"""
    return f"{vote.criterion} ({vote.judge}): {vote.score:g}. {vote.justification}".rstrip()


def regated(document: JsonObject, plan: Plan, gates: Sequence[GateCheck]) -> JsonObject:
    """The EvalRun of a run as that of another one with the same results and other gates."""
    parameters = msgspec.convert({**document["parameters"], **_thresholds(plan.gates)}, EvalRunParameters)
    scores = [result["score"] for result in document["results"]]
    decided = {"parameters": msgspec.to_builtins(parameters), "metrics": eval_run_metrics(scores, parameters)}
    return {**document, "run_id": plan.run_id, **decided, "gates": [msgspec.to_builtins(gate) for gate in gates]}
