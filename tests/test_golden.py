"""The entities of golden_v1: every rule of the contract, and what a real run writes read back as an EvalRun."""

import json
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from assay import RunResult, run, validate
from assay.engine.planning.request import RunRequest
from assay.golden import EvalResult, EvalRun, EvalRunMetrics, EvalRunParameters, GoldenDataset, TestCase
from assay.metrics.golden import GoldenParameters, eval_run_metrics
from assay.testing import StubProvider, StubReply, example_dataset
from tests.engine.run_settings import planned, write_golden

CASE = {"id": "case-001", "user_prompt": "What is 2+2?", "rubric": "Says that the answer is 4."}
RESULT = {
    "case_id": "case-001",
    "user_prompt": "What is 2+2?",
    "assistant_response": "The answer is 4.",
    "score": 5,
    "passed": True,
    "justification": "Correct.",
    "duration_ms": 1250,
}
PARAMETERS = {
    "assistant_model": "gpt-4.1",
    "judge_model": "gpt-4.1",
    "temperature": 0,
    "max_tokens": 500,
    "dataset_version": "1.0.0",
    "pass_rate_threshold": 0.8,
    "score_threshold": 3.5,
}
FAILED = {**RESULT, "score": None, "passed": None, "error": "timeout"}
METRICS = {"total_cases": 5, "passed_cases": 4, "failed_cases": 0, "error_cases": 1, "pass_rate": 1.0, "average_score": 5.0}
RUN = {
    "run_id": "run_1",
    "timestamp": "2026-01-28T10:00:00Z",
    "parameters": PARAMETERS,
    "metrics": {**METRICS, "overall_passed": True},
    "results": [RESULT] * 4 + [FAILED],
}
ABSENT = object()


def dataset(**members: Any) -> dict[str, Any]:
    cases = [{**CASE, "id": f"case-{number}"} for number in range(5)]
    return without_absent({"version": "1.0.0", "cases": cases, **members})


def without_absent(members: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not ABSENT}


def wrong_members(entity: type[BaseModel], members: Mapping[str, Any]) -> set[str]:
    """Names of the members that an entity complains about; empty where it takes them."""
    try:
        entity.model_validate(without_absent(members))
    except ValidationError as problem:
        return {str(error["loc"][0]) if error["loc"] else "" for error in problem.errors()}
    return set()


def result(score: int | None, error: str | None = None) -> EvalResult:
    passed = None if score is None else score >= 4
    return EvalResult.model_validate({**RESULT, "score": score, "passed": passed, "error": error})


@pytest.mark.parametrize(
    ("member", "value"),
    [
        *[("id", value) for value in ("", "Case-1", "case_1", "case 1", "case-1\n", "cäse", "case-\u0663", 7, None, ABSENT)],
        *[("user_prompt", value) for value in ("", "  \n", "x" * 8001, "a\0b", 7, None, ABSENT)],
        *[("rubric", value) for value in ("", "too short", " too short ", "x" * 2001, ["It is 4, says it."], None, ABSENT)],
        *[("context", value) for value in (7, {}, ["note"])],
        *[("tags", value) for value in ("math", [1], [None], {"math": 1})],
    ],
)
def test_a_case_that_breaks_a_rule_is_refused_at_the_member(member: str, value: Any) -> None:
    assert wrong_members(TestCase, {**CASE, member: value}) == {member}


@pytest.mark.parametrize(
    "members",
    [
        {"id": "-"},
        {"user_prompt": "x"},
        {"user_prompt": "x" * 8000},
        {"rubric": "x" * 10},
        {"rubric": "x" * 2000},
        {"context": None, "tags": None},
        {"context": "", "tags": []},
        {"priority": "high"},
    ],
)
def test_a_case_at_the_limits_is_taken(members: dict[str, Any]) -> None:
    assert wrong_members(TestCase, {**CASE, **members}) == set()


@pytest.mark.parametrize("version", ["1.0", "v1.0.0", "1.0.0-rc1", "1.0.0\n", "\u0661.0.0", "", 1.0, None, ABSENT])
def test_a_version_has_three_numbers(version: Any) -> None:
    assert wrong_members(GoldenDataset, dataset(version=version)) == {"version"}


@pytest.mark.parametrize("count", [0, 4, 21])
def test_a_dataset_has_five_to_twenty_cases(count: int) -> None:
    cases = [{**CASE, "id": f"case-{number}"} for number in range(count)]
    assert wrong_members(GoldenDataset, dataset(cases=cases)) == {"cases"}
    assert wrong_members(GoldenDataset, dataset(cases=[{**CASE, "id": f"case-{number}"} for number in range(20)])) == set()


def test_case_ids_are_unique() -> None:
    with pytest.raises(ValidationError, match="case ids must be unique: case-001"):
        GoldenDataset.model_validate(dataset(cases=[CASE] * 5))


@given(
    prompt=st.text(max_size=4),
    rubric=st.text(min_size=8, max_size=12),
    case_id=st.text(alphabet="ab-9A_\n\u0663", min_size=1, max_size=3),
    version=st.sampled_from(["1.0.0", "0.0.10", "1.0", "1.0.0\n", "1.0.0 "]),
)
def test_the_model_and_the_validator_agree(prompt: str, rubric: str, case_id: str, version: str) -> None:
    cases = [{**CASE, "id": f"{case_id}{number}", "user_prompt": prompt, "rubric": rubric} for number in range(5)]
    document = dataset(version=version, cases=cases)
    assert (wrong_members(GoldenDataset, document) == set()) == validate(document, "golden_v1").is_valid


def test_what_the_model_writes_is_a_valid_dataset() -> None:
    written = GoldenDataset.model_validate_json(example_dataset("golden_v1")).model_dump_json()
    assert validate(written.encode(), "golden_v1").is_valid


@pytest.mark.parametrize(
    ("member", "value"),
    [
        *[(name, ABSENT) for name in RESULT if name not in ("score", "passed")],
        *[("score", value) for value in (0, 6, -1, 4.5, 4.0, "5", True)],
        *[("passed", value) for value in (False, "maybe", 1, None, ABSENT)],
        *[("duration_ms", value) for value in (0, -1, 1.5, "12", True, None)],
        *[(name, value) for name in ("case_id", "user_prompt", "assistant_response", "justification") for value in (None, {}, 7)],
        ("error", 5),
    ],
)
def test_a_result_that_breaks_a_rule_is_refused_at_the_member(member: str, value: Any) -> None:
    assert wrong_members(EvalResult, {**RESULT, member: value}) == {member}


@pytest.mark.parametrize("score", [1, 2, 3, 4, 5])
def test_a_case_has_passed_if_and_only_if_its_score_is_at_least_four(score: int) -> None:
    assert wrong_members(EvalResult, {**RESULT, "score": score, "passed": score >= 4}) == set()
    assert wrong_members(EvalResult, {**RESULT, "score": score, "passed": score < 4}) == {"passed"}


@pytest.mark.parametrize(("score", "passed"), [(None, None), (None, False), (1, False), (5, True)])
def test_a_case_with_an_error_may_be_without_a_score(score: int | None, *, passed: bool | None) -> None:
    assert wrong_members(EvalResult, {**RESULT, "score": score, "passed": passed, "error": "timeout"}) == set()


def test_a_case_without_an_error_has_a_score() -> None:
    assert wrong_members(EvalResult, {**RESULT, "score": None, "passed": None}) == {"score"}
    assert wrong_members(EvalResult, {**RESULT, "score": None, "passed": None, "error": " "}) == {"score"}
    assert wrong_members(EvalResult, {**RESULT, "score": ABSENT}) == {"score"}


def test_an_error_without_a_score_has_not_passed() -> None:
    assert wrong_members(EvalResult, {**RESULT, "score": None, "passed": True, "error": "timeout"}) == {"passed"}


@pytest.mark.parametrize(
    ("member", "value"),
    [
        *[(name, ABSENT) for name in PARAMETERS],
        *[("pass_rate_threshold", value) for value in (-0.01, 1.01, "0.8", None, True, float("nan"))],
        *[("score_threshold", value) for value in (0.99, 5.01, "3.5", None, float("inf"))],
        *[("max_tokens", value) for value in (0, -1, 500.5, "500", True, None)],
        *[("max_error_rate", value) for value in (-0.01, 1.01, "0", True)],
        *[("temperature", value) for value in (-0.1, "0", True, float("nan"))],
        *[("dataset_version", value) for value in ("1.0", "", None)],
        *[(name, value) for name in ("assistant_model", "judge_model") for value in ("", None, 7)],
    ],
)
def test_parameters_that_break_a_rule_are_refused_at_the_member(member: str, value: Any) -> None:
    assert wrong_members(EvalRunParameters, {**PARAMETERS, member: value}) == {member}


@pytest.mark.parametrize(
    "members",
    [
        {"pass_rate_threshold": 0, "score_threshold": 1},
        {"pass_rate_threshold": 1.0, "score_threshold": 5.0},
        {"temperature": 0.7, "max_tokens": 1},
        {"temperature": None, "max_error_rate": 0},
    ],
)
def test_parameters_at_the_limits_are_taken(members: dict[str, Any]) -> None:
    assert wrong_members(EvalRunParameters, {**PARAMETERS, **members}) == set()


@given(
    st.lists(st.none() | st.integers(1, 5), max_size=20),
    st.floats(0, 1, allow_nan=False),
    st.floats(1, 5, allow_nan=False),
    st.none() | st.sampled_from([0.0, 0.2, 1.0]),
)
def test_metrics_of_results_are_those_that_a_run_writes(
    scores: list[int | None], pass_rate: float, score: float, cap: float | None
) -> None:
    parameters = {**PARAMETERS, "pass_rate_threshold": pass_rate, "score_threshold": score, "max_error_rate": cap}
    results = [result(score, None if score else "timeout") for score in scores]
    metrics = EvalRunMetrics.from_results(results, EvalRunParameters.model_validate(parameters))
    assert metrics.model_dump() == eval_run_metrics(scores, GoldenParameters(**parameters))


def test_an_error_leaves_the_denominators_even_when_it_was_given_a_score() -> None:
    results = [result(5), result(4), result(1, "timeout")]
    metrics = EvalRunMetrics.from_results(results, EvalRunParameters.model_validate(PARAMETERS))
    assert (metrics.error_cases, metrics.pass_rate, metrics.average_score, metrics.overall_passed) == (1, 1.0, 4.5, True)


@pytest.mark.parametrize(
    "members",
    [
        {"total_cases": 6},
        {"passed_cases": -1},
        {"pass_rate": 0.8},
        {"pass_rate": None},
        {"average_score": 5.5},
        {"average_score": 3.9},
        {"passed_cases": 3, "failed_cases": 1, "pass_rate": 0.75, "average_score": 4.6},
        {"average_score": None},
        {"overall_passed": "yes"},
    ],
)
def test_metrics_that_contradict_each_other_are_refused(members: dict[str, Any]) -> None:
    assert wrong_members(EvalRunMetrics, {**METRICS, "overall_passed": True}) == set()
    assert wrong_members(EvalRunMetrics, {**METRICS, "overall_passed": True, **members}) != set()


@pytest.mark.parametrize(
    "members",
    [
        {"run_id": ""},
        {"timestamp": "2026-01-28T10:00:00"},
        {"timestamp": "2026-01-28T10:00:00+01:00"},
        {"timestamp": 1_769_594_400},
        {"results": [{**RESULT, "passed": False}]},
        {"results": []},
        {"results": [RESULT] * 5},
        {"results": [{**RESULT, "score": 4}] * 4 + [FAILED]},
        {"status": "complete"},
        {"parameters": {**PARAMETERS, "max_error_rate": 0.1}},
        {"metrics": {**METRICS, "overall_passed": False}},
    ],
)
def test_a_run_that_breaks_a_rule_is_refused(members: dict[str, Any]) -> None:
    assert wrong_members(EvalRun, RUN) == set()
    assert wrong_members(EvalRun, {**RUN, **members}) != set()


def test_a_run_reads_back_what_it_writes() -> None:
    read = EvalRun.model_validate(RUN)
    assert read.timestamp == datetime(2026, 1, 28, 10, tzinfo=UTC)
    assert EvalRun.model_validate_json(read.model_dump_json()) == read


def test_the_core_works_without_pydantic() -> None:
    code = "import sys, assay; assay.run, assay.validate, assay.open_run; print('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "False"


def test_a_missing_extra_says_how_to_get_it() -> None:
    code = "import sys; sys.modules['pydantic'] = None\ntry: import assay.golden\nexcept Exception as problem: print(problem.hint)"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "pip install 'assay[golden]'"


REFUSED = StubReply(status=400, body={"error": {"message": "no such model"}})
PROSE = "I would give it a four."


def judge_of(said: list[Any]) -> Any:
    """A judge with a score, or whole reply, for each case in the order of the file."""

    def judge(request: Any) -> str | StubReply:
        asked = request.body["messages"][-1]["content"]
        (answer,) = (said[number] for number in range(len(said)) if f"The answer is {2 * number}." in asked)
        return json.dumps({"score": answer, "justification": "As the script says."}) if isinstance(answer, int) else answer

    return judge


def golden_run(folder: Path, said: list[Any], **sections: Any) -> tuple[RunResult, EvalRun]:
    with StubProvider(judge_of(said)) as provider:
        settings = {
            "datasets": [str(write_golden(folder / "golden.json", len(said)))],
            "candidates": [{"model": "scripted/echo", "max_tokens": 64}],
            "judges": ["stub/judge"],
            "providers": [{"name": "stub", "base_url": provider.base_url}],
            "run": {"runs_dir": str(folder / "runs")},
            "retry": {"max_attempts": 1},
            **sections,
        }
        (folder / "run.json").write_text(json.dumps(settings), encoding="utf-8")
        (finished,) = run(folder / "run.json")
    return finished, EvalRun.model_validate_json((Path(finished.run_dir) / "eval_results.json").read_bytes())


def test_a_run_over_a_golden_dataset_writes_an_eval_run(tmp_path: Path) -> None:
    finished, written = golden_run(tmp_path, [5, 4, 3, 4, 5])
    assert (written.run_id, written.timestamp.utcoffset()) == (finished.run_id, timedelta(0))
    assert written.parameters.model_dump() == {
        **PARAMETERS,
        "assistant_model": "echo",
        "judge_model": "judge",
        "max_tokens": 64,
        "dataset_version": "1.2.3",
        "max_error_rate": 0.0,
    }
    assert written.metrics == EvalRunMetrics.from_results(written.results, written.parameters)
    assert [(one.case_id, one.score, one.passed, one.error) for one in written.results][2:4] == [
        ("case-2", 3, False, None),
        ("case-3", 4, True, None),
    ]
    assert (written.metrics.pass_rate, written.metrics.average_score, written.metrics.overall_passed) == (0.8, 4.2, True)


def test_cases_without_a_score_are_errors_in_the_eval_run(tmp_path: Path) -> None:
    finished, written = golden_run(tmp_path, [5, REFUSED, PROSE, 4, 4], gates={"max_error_rate": 0.4})
    assert [(one.score, one.passed) for one in written.results] == [(5, True), (None, None), (None, None), (4, True), (4, True)]
    assert [(one.error or "").partition(":")[0] for one in written.results] == ["", "invalid_request", "judge_parse_error", "", ""]
    assert min(one.duration_ms for one in written.results) >= 1
    assert (written.metrics.error_cases, written.metrics.pass_rate, written.metrics.overall_passed) == (2, 1.0, True)
    assert (finished.state, finished.gate.passed, written.status) == ("completed_with_failures", True, "partial")


@pytest.mark.parametrize(
    ("said", "sections"),
    [
        ([3, 3, 3, 3, 3], {}),
        ([3, 3, 3, 4, 4], {"gates": {"min_score": 3.4}}),
        ([3, 3, 3, 4, 4], {"gates": {"min_score": 3.4, "pass_rate": 0.4}}),
        ([4, 4, 4, 4, REFUSED], {"gates": {"max_error_rate": 0.2}}),
        ([4, 4, 4, 4, 1], {}),
        ([5, 5, 5, 5, REFUSED], {"gates": {"min_score": 5, "max_error_rate": 1}, "repeat": 2}),
        ([4, 4, 4, 4, 4], {"profile": "weighted_mean"}),
    ],
)
def test_summary_and_eval_run_say_the_same(tmp_path: Path, said: list[Any], sections: dict[str, Any]) -> None:
    finished, written = golden_run(tmp_path, said, **sections)
    assert finished.gate.passed is finished.metrics["gate"]["passed"] is written.metrics.overall_passed


def test_four_errors_and_a_five_are_no_pass(tmp_path: Path) -> None:
    finished, written = golden_run(tmp_path, [5, REFUSED, REFUSED, REFUSED, REFUSED], gates={"pass_rate": 0.8, "min_score": 3.5})
    assert (finished.gate.passed, finished.gate.reasons) == (False, ("error rate 0.80 is above 0.00",))
    assert (written.metrics.overall_passed, written.status) == (True, "partial")


def test_overall_passed_is_the_printed_formula_and_errors_have_a_gate_of_their_own(tmp_path: Path) -> None:
    finished, written = golden_run(tmp_path, [4, 4, 4, 4, REFUSED])
    assert (written.metrics.pass_rate, written.metrics.average_score, written.metrics.overall_passed) == (1.0, 4.0, True)
    gates = [(gate.name, gate.threshold, gate.value, gate.met) for gate in written.gates or ()]
    assert gates == [("pass_rate", 0.8, 1.0, True), ("min_score", 3.5, 4.0, True), ("max_error_rate", 0.0, 0.2, False)]
    assert [(gate.name, gate.threshold, gate.value, gate.met) for gate in finished.gate.gates] == gates
    assert (finished.gate.passed, finished.metrics["gate"]["gates"][2]["met"]) == (False, False)


def test_an_eval_run_of_an_earlier_version_has_the_cap_in_its_decision(tmp_path: Path) -> None:
    finished, _ = golden_run(tmp_path, [4, 4, 4, 4, REFUSED])
    document = json.loads((Path(finished.run_dir) / "eval_results.json").read_bytes())
    del document["gates"]
    document["metrics"]["overall_passed"] = False
    assert not EvalRun.model_validate(document).metrics.overall_passed


def test_a_panel_is_named_as_a_whole(tmp_path: Path) -> None:
    _, written = golden_run(tmp_path, [4] * 5, judges=["stub/judge", "scripted/judge-4"])
    assert written.parameters.judge_model == "judge, judge-4"


def test_an_eval_run_has_the_longest_answer_that_was_asked_for(tmp_path: Path) -> None:
    _, written = golden_run(tmp_path, [4] * 5, candidates=["scripted/echo"])
    assert written.parameters.max_tokens == 1_000_000


@pytest.mark.parametrize(
    "sections",
    [
        {"datasets": ["golden.json", "again.json"]},
        {"run": {"case_pass_score": 3}},
        {"profile": "judge_1_5", "gates": {"min_score": 3}},
    ],
)
def test_a_run_that_no_eval_run_can_tell_says_so_and_writes_none(tmp_path: Path, sections: dict[str, Any]) -> None:
    write_golden(tmp_path / "golden.json")
    again = (tmp_path / "golden.json").read_text(encoding="utf-8").replace("case-", "more-").replace("1.2.3", "2.0.0")
    (tmp_path / "again.json").write_text(again, encoding="utf-8")
    models = {"candidates": ["scripted/echo"], "judges": ["scripted/judge-4"]}
    (tmp_path / "run.json").write_text(json.dumps({"datasets": ["golden.json"], **models, **sections}), encoding="utf-8")
    notes = planned(RunRequest(run_file=str(tmp_path / "run.json"), runs_dir=str(tmp_path / "runs"))).notes
    assert [note for note in notes if note.startswith("no eval_results.json: ")] != []
    (finished,) = run(tmp_path / "run.json", runs_dir=str(tmp_path / "runs"))
    assert not (Path(finished.run_dir) / "eval_results.json").exists()


def test_a_run_in_which_every_case_errored_has_no_figures(tmp_path: Path) -> None:
    finished, written = golden_run(tmp_path, [REFUSED] * 5, gates={"pass_rate": 0.0})
    assert (written.metrics.pass_rate, written.metrics.average_score, written.metrics.overall_passed) == (None, None, False)
    assert not finished.gate.passed


@pytest.mark.parametrize(
    ("said", "gates", "passed"),
    [
        ([5, 5, 5, 4, 1], {"pass_rate": 0.8}, True),
        ([5, 5, 5, 3, 1], {"pass_rate": 0.8}, False),
        ([4, 4, 4, 4, 1, 4], {"min_score": 3.5}, True),
        ([4, 4, 4, 3, 1, 4], {"min_score": 3.5}, False),
        ([5, 4, 4, 4, REFUSED], {"pass_rate": 0.8, "max_error_rate": 0.2}, True),
        ([5, 4, 4, 4, REFUSED], {"pass_rate": 0.8, "max_error_rate": 0.19}, False),
    ],
)
def test_gates_include_their_bounds_and_cap_errors(
    tmp_path: Path, said: list[Any], gates: dict[str, float], *, passed: bool
) -> None:
    finished, _ = golden_run(tmp_path, said, gates=gates)
    assert finished.gate.passed is passed
