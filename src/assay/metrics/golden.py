"""golden_v1's own result document, `eval_results.json`: an EvalRun with the contract's field names and formulas."""

from collections.abc import Iterable, Sequence
from math import fsum

import msgspec

from assay.core.canonical import JsonObject
from assay.core.gate_text import TOLERANCE
from assay.core.summary import GateCheck

PASS_SCORE = 4
"""golden_v1: a case has passed if and only if its score is at least 4."""
_FILLED = {"score": 1, "passed": False}
_UNDEFINED = {"pass_rate": 0.0, "average_score": 1.0}
"""Stands for metrics that no case has a score for."""


class GoldenResult(msgspec.Struct, frozen=True, kw_only=True):
    """One case of a golden dataset after its run; score and passed are None only where `error` gives the reason."""

    case_id: str
    user_prompt: str
    assistant_response: str
    score: int | None
    passed: bool | None
    justification: str
    duration_ms: int
    """Of assistant and judge together, at least 1."""
    error: str | None = None
    sample: int | msgspec.UnsetType = msgspec.UNSET
    """Number of the answer to the case; the contract knows one answer, so only runs with several name it."""

    def to_json(self) -> dict[str, object]:
        """Return the entity as the contract names it."""
        found: JsonObject = msgspec.to_builtins(self)
        # The contract's classes have no `error` where there is none; null would be another value.
        if self.error is None:
            del found["error"]
        return found


class GoldenParameters(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the run as golden_v1 names them."""

    assistant_model: str
    judge_model: str
    temperature: float | None
    max_tokens: int | None
    dataset_version: str
    pass_rate_threshold: float = 0.8
    score_threshold: float = 3.5
    max_error_rate: float | None = None
    """A gate of the run that the contract does not know, and that `overall_passed` leaves out; None means no cap."""


def eval_result(
    case_id: str, user_prompt: str, *, answer: str = "", grade: tuple[int, str] | None = None, duration_ms: float, error: str = ""
) -> GoldenResult:
    """Return the result of one case: graded with (score, justification), or the error that left it without a grade."""
    # The contract says that every result has a score; an error has none here, and `filled_in` makes one for strict readers.
    score, justification = grade or (None, "")
    return GoldenResult(
        case_id=case_id,
        user_prompt=user_prompt,
        assistant_response=answer,
        score=score,
        passed=None if score is None else score >= PASS_SCORE,
        justification=justification,
        # The contract wants a positive integer, and scripted models answer in less than half a millisecond.
        duration_ms=max(1, round(duration_ms)),
        error=(error or "no grade") if score is None else None,
    )


def eval_results(
    run_id: str, timestamp: str, *, parameters: GoldenParameters, results: Iterable[GoldenResult], gates: Sequence[GateCheck] = ()
) -> JsonObject:
    """Return the whole document: parameters, metrics by the contract's formulas, the run's gates, and the result of every case."""
    kept = tuple(results)
    return {
        "run_id": run_id,
        "timestamp": timestamp,
        "status": "partial" if any(result.score is None for result in kept) else "complete",
        "parameters": msgspec.to_builtins(parameters),
        "metrics": eval_run_metrics([result.score for result in kept], parameters),
        "gates": [msgspec.to_builtins(gate) for gate in gates],
        "results": [result.to_json() for result in kept],
    }


def eval_run_metrics(scores: Sequence[int | None], parameters: GoldenParameters) -> JsonObject:
    """Return EvalRunMetrics of the scores of all cases, None for a case that errored: errors leave the denominators.

    `overall_passed` is the contract's formula and nothing more; the cap on errors is a separate gate of the run.
    """
    graded = [score for score in scores if score is not None]
    passed = sum(score >= PASS_SCORE for score in graded)
    pass_rate = passed / len(graded) if graded else None
    average = fsum(graded) / len(graded) if graded else None
    return {
        "total_cases": len(scores),
        "passed_cases": passed,
        "failed_cases": len(graded) - passed,
        "error_cases": len(scores) - len(graded),
        "pass_rate": pass_rate,
        "average_score": average,
        "overall_passed": (
            pass_rate is not None
            and average is not None
            # 0.8 of 20 cases is 16 / 20, which may be a little less than 0.8 in binary.
            and pass_rate >= parameters.pass_rate_threshold - TOLERANCE
            and average >= parameters.score_threshold - TOLERANCE
        ),
    }


def filled_in(document: JsonObject) -> JsonObject:
    """Return an EvalRun for readers that require numbers: an error has the score 1, has not passed, and is in `filled_in`.

    Where every case errored the rate and the average, which are undefined, are those of what was filled in: 0 and 1.
    """
    results = [{**result, **_FILLED} if result["score"] is None else result for result in document["results"]]
    parameters = msgspec.convert(document["parameters"], GoldenParameters)
    metrics = eval_run_metrics([result["score"] for result in document["results"]], parameters)
    numbers = {name: value if metrics[name] is None else metrics[name] for name, value in _UNDEFINED.items()}
    filled = [result["case_id"] for result in document["results"] if result["score"] is None]
    return {**document, "metrics": {**metrics, **numbers}, "results": results, "filled_in": filled}
