import json

import pytest

from assay.metrics.golden import GoldenParameters, eval_result, eval_results, eval_run_metrics, filled_in

ERROR = None


def parameters(pass_rate: float = 0.8, score: float = 3.5) -> GoldenParameters:
    return GoldenParameters(
        assistant_model="gpt",
        judge_model="judge",
        temperature=0.0,
        max_tokens=500,
        dataset_version="1.0.0",
        pass_rate_threshold=pass_rate,
        score_threshold=score,
    )


@pytest.mark.parametrize(
    ("scores", "thresholds", "expected"),
    [
        ([3] * 5, (0.1, 1.0), (5, 0, 5, 0, 0.0, 3.0, False)),
        ([4] * 5, (0.8, 4.5), (5, 5, 0, 0, 1.0, 4.0, False)),
        ([4] * 5, (0.8, 4.0), (5, 5, 0, 0, 1.0, 4.0, True)),
        ([*[5] * 15, 4, *[3] * 4], (0.8, 4.5), (20, 16, 4, 0, 0.8, 4.55, True)),
        ([5, 3, ERROR, ERROR, 4], (0.8, 3.5), (5, 2, 1, 2, 2 / 3, 4.0, False)),
        ([5, 4, 4, 3, ERROR], (0.8, 3.5), (5, 3, 1, 1, 0.75, 4.0, False)),
        ([ERROR] * 5, (0.0, 1.0), (5, 0, 0, 5, None, None, False)),
    ],
)
def test_metrics_follow_the_contracts_formulas(
    scores: list[int | None], thresholds: tuple[float, float], expected: tuple[object, ...]
) -> None:
    assert tuple(eval_run_metrics(scores, parameters(*thresholds)).values()) == expected


def test_a_run_has_the_contracts_shape() -> None:
    results = [
        eval_result("case-1", "What is 2+2?", answer="4", grade=(5, "Right."), duration_ms=12.6),
        eval_result("case-2", "What is 2+3?", duration_ms=0.0, error="timeout"),
    ]
    run = eval_results("run-1", "2026-01-28T10:00:00Z", parameters=parameters(), results=results)
    assert list(run) == ["run_id", "timestamp", "status", "parameters", "metrics", "gates", "results"]
    assert run["results"][0] == {
        "case_id": "case-1",
        "user_prompt": "What is 2+2?",
        "assistant_response": "4",
        "score": 5,
        "passed": True,
        "justification": "Right.",
        "duration_ms": 13,
    }
    assert json.loads(json.dumps(run, allow_nan=False)) == run


def test_a_case_that_errored_has_no_score_and_says_why() -> None:
    result = eval_result("case-2", "What is 2+3?", duration_ms=0.0, error="timeout").to_json()
    assert (result["score"], result["passed"], result["error"], result["duration_ms"]) == (None, None, "timeout", 1)


def test_readers_that_demand_a_number_get_the_lowest_for_an_error() -> None:
    results = [eval_result("case-2", "What is 2+3?", duration_ms=5.0, error="timeout")]
    run = filled_in(eval_results("run-1", "2026-01-28T10:00:00Z", parameters=parameters(), results=results))
    (result,) = run["results"]
    assert (result["score"], result["passed"], result["error"]) == (1, False, "timeout")
    assert (run["metrics"]["pass_rate"], run["metrics"]["average_score"], run["filled_in"]) == (0.0, 1.0, ["case-2"])


@pytest.mark.parametrize(("score", "passed"), [(3, False), (4, True)])
def test_a_case_has_passed_if_and_only_if_its_score_is_at_least_four(score: int, *, passed: bool) -> None:
    assert eval_result("case-1", "q", answer="a", grade=(score, "x"), duration_ms=1.0).passed is passed
