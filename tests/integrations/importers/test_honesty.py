"""Imports claim no more than the files do: nobody answers for another model, no error is a score, and what is missing is said."""

import json
from pathlib import Path
from typing import Any

import pytest

from assay import api
from tests.commands import assay
from tests.integrations.importers.bringing import FIXTURES, brought, predictions_of, run_of

STAMP = "2026-01-01T00-00-00.000000"
LOG = json.loads((FIXTURES / "capitals.json").read_text().replace("NaN", "null"))
PROMPTFOO = json.loads((FIXTURES / "promptfoo_results.json").read_text())


def written(name: str, value: object) -> Path:
    path = Path(name).absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))
    return path


def samples(folder: str, answer: str, name: str = f"samples_t_{STAMP}.jsonl") -> Path:
    sample = {"doc_id": 0, "doc": {}, "target": "yes", "arguments": [["Is it?", {}]], "resps": [[answer]], "metrics": ["acc"]}
    return written(f"{folder}/{name}", {**sample, "filtered_resps": [answer], "filter": "none", "acc": float(answer == "yes")})


def results(folder: str, model: str, name: str = f"results_{STAMP}.json") -> Path:
    return written(f"{folder}/{name}", {"results": {}, "configs": {}, "model_name": model, "lm_eval_version": "0.4.9"})


def log(**members: Any) -> Path:
    return written("log.json", {**LOG, **members})


def of_samples(*changes: dict[str, Any]) -> list[dict[str, Any]]:
    return [{**sample, **change} for sample, change in zip(LOG["samples"], changes, strict=False)]


def judged(*components: dict[str, Any], success: bool = False, **members: Any) -> dict[str, Any]:
    """A result of promptfoo whose checks are these."""
    first = PROMPTFOO["results"]["results"][0]
    score = float(success)
    grading = {"pass": success, "score": score, "reason": "see the checks", "componentResults": list(components)}
    return {**first, "gradingResult": grading, "score": score, "success": success, "failureReason": int(not success), **members}


def check(form: str, reason: str, **members: Any) -> dict[str, Any]:
    return {"pass": False, "score": 0, "reason": reason, "assertion": {"type": form, "value": "Is kind"}, **members}


def evaluated(*results_of: dict[str, Any], name: str = "results.json") -> Path:
    return written(name, {**PROMPTFOO, "results": {**PROMPTFOO["results"], "results": list(results_of)}})


def test_samples_are_of_the_model_whose_results_are_beside_them() -> None:
    files = [results("a", "model-a"), samples("a", "yes"), results("b", "model-b"), samples("b", "no")]
    runs = brought(*files, options=("--run", "--id", "both"))["runs"]
    assert {run["run_id"]: run["metrics"]["score_mean"] for run in runs} == {"both-model-a": 1.0, "both-model-b": 0.0}
    [line] = predictions_of(api.open_run("both-model-b")).values()
    assert line["model_response"] == "no"


def test_of_several_results_in_a_folder_those_of_the_same_time_count() -> None:
    later = STAMP.replace("2026", "2027")
    files = [results("out", "old"), results("out", "new", f"results_{later}.json"), samples("out", "yes")]
    assert run_of(*files).result.candidate == "old"


def test_samples_without_results_of_their_own_are_of_the_model_that_their_folder_is_called_after() -> None:
    candidates = brought(results("a", "model-a"), samples("a", "yes"), samples("b", "no"))["report"]["candidates"]
    assert candidates == {"model-a": 1, "b": 1}


@pytest.mark.parametrize("name", [f"samples_t_{STAMP}.jsonl", "samples_t.jsonl"])
def test_samples_that_may_be_of_two_models_are_refused(name: str) -> None:
    files = [results("out", "one", "results_1.json"), results("out", "two", "results_2.json"), samples("out", "yes", name)]
    refused = assay("import", *map(str, files))
    assert refused.exit_code == 2
    assert "may hold the samples of one or two" in refused.output


def test_samples_in_two_folders_that_nothing_tells_apart_are_refused() -> None:
    refused = assay("import", *(str(samples(folder, "yes", "samples_t.jsonl")) for folder in ("a", "b")))
    assert refused.exit_code == 2
    assert "nothing says which model" in refused.output


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        ("llm-rubric", 'API error: 500 Internal Server Error\n{"error": "overloaded"}'),
        ("llm-rubric", "No output"),
        ("llm-rubric", "Could not extract JSON from llm-rubric response"),
        ("llm-rubric", "llm-rubric produced malformed response: SyntaxError"),
        ("not-llm-rubric", "Could not perform remote grading: Error: fetch failed"),
        ("g-eval", "LLM-proposed evaluation result is not in JSON format: nothing"),
        ("g-eval", "API call error: Error: Request timed out"),
        ("model-graded-closedqa", "Model grader produced a malformed response:\nPerhaps."),
        ("factuality", "Invalid category value: F"),
        ("select-best", "Invalid select-best verdict: NaN"),
        ("similar", "HTTP 503"),
        ("context-recall", "Bedrock API invoke error: ThrottlingException"),
        ("javascript", "Custom function threw error: x is not defined"),
        ("ruby", "Ruby code execution failed: no"),
        ("webhook", "Webhook error: Request timed out"),
    ],
)
def test_a_judge_of_promptfoo_that_failed_is_no_score(form: str, reason: str) -> None:
    [line] = predictions_of(run_of(evaluated(judged(check(form, reason))))).values()
    assert (line["score"], line["error_code"]) == (None, "not_scored")
    assert line["error_message"] == reason.partition("\n")[0]


def test_what_promptfoo_itself_marks_as_an_error_of_the_grader_is_no_score() -> None:
    inner = check("llm-rubric", "overloaded", metadata={"graderError": True})
    [line] = predictions_of(run_of(evaluated(judged(check("assert-set", "1 of 1 failed", componentResults=[inner]))))).values()
    assert (line["score"], line["error_message"]) == (None, "overloaded")


def test_a_metric_whose_check_failed_is_no_score_either_and_another_one_keeps_its_own() -> None:
    broken = check("llm-rubric", "No output")
    broken["assertion"]["metric"] = "tone"
    path = evaluated(judged(broken, namedScores={"tone": 0, "length": 1}))
    assert brought(path)["report"]["scorers"] == {"score": 0, "tone": 0, "length": 1}


@pytest.mark.parametrize(
    "reason", ["The API failed to greet", "No output of that kind", "HTTP is no answer", "Rate limiting is left out"]
)
def test_a_verdict_that_speaks_of_errors_is_a_verdict(reason: str) -> None:
    [line] = predictions_of(run_of(evaluated(judged(check("llm-rubric", reason))))).values()
    assert line["score"] == 0.0


def test_a_log_that_was_cancelled_is_incomplete_in_the_report_and_in_the_run() -> None:
    spec = {**LOG["eval"], "dataset": {"name": "capitals", "samples": 10}, "config": {"epochs": 2}}
    path = log(status="cancelled", results=None, eval=spec, samples=LOG["samples"][:2])
    told = "log.json holds 2 of 20 samples, and its status is cancelled"
    report = brought(path)["report"]
    assert (report["incomplete"], report["left_out"]["sample that the log does not hold"]) == ([told], 18)
    run = run_of(path, options=("--id", "part"))
    assert run.plan.imported.incomplete == (told,)
    assert run.result.counts.total_records == 2
    assert told in " ".join(assay("show", "part").output.split())


@pytest.mark.parametrize(
    ("members", "told"),
    [
        ({"status": "error"}, ["log.json holds 10 of 10 samples, and its status is error"]),
        ({"samples": LOG["samples"][:4]}, ["log.json holds 4 of 10 samples, and its status is success"]),
        (
            {"status": None, "results": None, "eval": {**LOG["eval"], "dataset": {}}},
            ["log.json holds 10 samples of an unknown number, and its status is started"],
        ),
        ({"results": None, "eval": {**LOG["eval"], "dataset": {"samples": 99}, "config": {"limit": 10}}}, []),
        ({}, []),
    ],
)
def test_a_log_is_complete_when_it_ended_well_and_holds_what_was_planned(members: dict[str, Any], told: list[str]) -> None:
    assert brought(log(**members))["report"]["incomplete"] == told


def test_an_epoch_beyond_all_bounds_costs_its_own_sample() -> None:
    report = brought(log(samples=of_samples({}, {"epoch": 3_000_000})))["report"]
    assert report["totals"] == {"read": 2, "emitted": 1, "invalid": 1, "skipped": 0}
    assert "a run has at most 1,000" in report["remarks"][0]["reason"]


def test_a_number_beyond_all_fractions_is_no_score() -> None:
    scores = {"includes": {"value": 10**400}}
    [line] = predictions_of(run_of(log(samples=of_samples({"scores": scores})), options=("--scorer", "includes"))).values()
    assert (line["score"], line["error_code"]) == (None, "not_scored")


def test_a_model_of_one_test_run_does_not_answer_in_another() -> None:
    case = {"name": "c", "input": "q", "actualOutput": "x", "metricsData": [{"name": "m", "score": 1, "success": True}]}
    named = written("first.json", {"testCases": [case], "hyperparameters": {"model": "gpt-a", "temperature": 0.3}})
    other = written("second.json", {"testCases": [case]})
    report = brought(named, other)["report"]
    assert (report["candidates"], report["records"]) == ({"gpt-a": 1, "second": 1}, 1)
    assert report["left_out"]["hyperparameter temperature"] == 1


def test_a_sample_that_is_nested_too_deeply_costs_itself_and_not_the_log() -> None:
    deep = json.dumps({**LOG, "samples": of_samples({"metadata": "DEEP"}, {})}).replace('"DEEP"', "[" * 5000 + '"]"' + "]" * 5000)
    Path("log.json").write_text(deep)
    report = brought(Path("log.json").absolute())["report"]
    assert report["totals"] == {"read": 2, "emitted": 1, "invalid": 1, "skipped": 0}
    assert report["remarks"][0]["reason"] == "metadata: nested deeper than 254 levels"


@pytest.mark.parametrize("second", ['"target": "Lyon", ', '"target" :"Paris",\n', '"x": {"target": 1}, "target": "a \\" b", '])
def test_a_sample_that_says_two_things_under_one_name_is_refused(second: str) -> None:
    text = json.dumps({**LOG, "samples": of_samples({"target": "Paris"}, {})})
    Path("log.json").write_text(text.replace('"target": "Paris"', second + '"target": "Paris"', 1))
    report = brought(Path("log.json").absolute())["report"]
    assert report["totals"]["invalid"] == 1
    assert report["remarks"][0]["reason"] == "the sample has two members of the same name"


def batch(message: object, **body: object) -> list[Path]:
    """A request and its answer."""
    asked = {"model": "m", "messages": [{"role": "user", "content": "q"}], **body}
    answered = {"status_code": 200, "body": {"choices": [{"message": message, "finish_reason": "stop"}]}}
    return [
        written("in.jsonl", {"custom_id": "c", "body": asked}),
        written("out.jsonl", {"custom_id": "c", "response": answered, "error": None}),
    ]


def test_a_refusal_is_what_a_model_answered() -> None:
    [line] = predictions_of(run_of(*batch({"content": None, "refusal": "I will not."}))).values()
    assert line["model_response"] == "I will not."


def test_an_answer_that_cannot_be_read_is_none_and_not_an_empty_one() -> None:
    [line] = predictions_of(run_of(*batch("a text"))).values()
    assert (line["model_response"], line["error_code"]) == (None, "empty_answer")


@pytest.mark.parametrize("content", [None, "", " "])
def test_an_answer_of_tool_calls_alone_is_an_error_of_its_own(content: str | None) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    [line] = predictions_of(run_of(*batch({"content": content, "tool_calls": [call]}))).values()
    assert (line["model_response"], line["error_code"]) == (None, "tool_call_only")


@pytest.mark.parametrize("finish", ["content_filter", "stop"])
def test_an_answer_with_an_error_is_none_that_could_be_graded(finish: str) -> None:
    files = batch({"content": None if finish == "stop" else "half an ans"})
    files[1].write_text(files[1].read_text().replace('"stop"', f'"{finish}"'))
    assert brought(*files, options=("--responses", "answers.jsonl"))["report"]["candidates"] == {"m": 0}
    assert Path("answers.jsonl").read_text() == ""


def test_the_answer_of_a_sample_that_ended_with_an_error_is_not_written_as_an_answer() -> None:
    whole = next(sample for sample in LOG["samples"] if sample["output"]["choices"])
    path = log(samples=[{**whole, "id": "good"}, {**whole, "id": "bad", "error": {"message": "cut off"}}])
    brought(path, options=("--responses", "answers.jsonl"))
    [line] = Path("answers.jsonl").read_text().splitlines()
    assert json.loads(line)["example_id"] == "good"


def weighed(**members: object) -> Path:
    """A multiple choice of lm-eval: the first choice is the likeliest, the second one by its length."""
    calls = {"gen_args_0": {"arg_0": "Q?", "arg_1": " a"}, "gen_args_1": {"arg_0": "Q?", "arg_1": " bbbbbbbbbb"}}
    said = [["-2.0", "False"], ["-5.0", "False"]]
    sample = {"doc_id": 0, "doc": {}, "target": "1", "arguments": calls, "resps": [[one] for one in said], "filtered_resps": said}
    return written("samples_t.jsonl", {**sample, "metrics": ["acc", "acc_norm"], "acc": 0.0, "acc_norm": 1.0, **members})


@pytest.mark.parametrize(("metric", "answer", "chosen"), [("acc", "a", "A"), ("acc_norm", "bbbbbbbbbb", "B")])
def test_the_choice_of_lm_eval_is_the_one_that_the_metric_scored(metric: str, answer: str, chosen: str) -> None:
    [line] = predictions_of(run_of(weighed(), options=("--scorer", metric))).values()
    assert (line["model_response"], line["selected_choice_ids"], line["passed"]) == (answer, [chosen], chosen == "B")


def test_a_likelihood_without_an_answer_is_listed_and_no_score() -> None:
    path = weighed(arguments=[["The", " cat"]], resps=[[["-2.0", "True"]]], filtered_resps=[["-2.0", "True"]], target="cat")
    run = run_of(path, options=("--scorer", "acc"))
    [line] = predictions_of(run).values()
    assert (line["score"], line["error_code"]) == (None, "no_answer")
    assert run.plan.imported.left_out["score of a likelihood, to which there is no answer"] == 2
