"""Several graders in whole runs: what predictions, metrics, gates and comparisons hold, and what resuming makes of them."""

import json
from pathlib import Path
from typing import Any

import pytest

import assay
from assay import api
from assay.testing import StubProvider, StubReply
from tests.crash.job import Job, write_job
from tests.crash.provider import Answer, CountingProvider
from tests.engine.graded_files import GRADERS, PROMPT, graded, lines, metrics, run_file

EXAMPLE = Path(__file__).parents[2] / "examples" / "checks" / "graders.yaml"


def test_predictions_have_each_grader_by_name(tmp_path: Path) -> None:
    first, second = lines(graded(tmp_path))
    assert [(one["name"], one["kind"], one["is_primary"], one["status"], one["passed"]) for one in first["graders"]] == [
        ("form", "checks", True, "graded", True),
        ("polite", "plugin", False, "graded", False),
        ("house", "judge", False, "graded", True),
    ]
    assert (first["score"], first["passed"], first["evaluator"]) == (1.0, True, "checks/1")
    # The plugin raised on the second answer, which is its own error.
    assert (second["status"], second["graders"][1]["status"], second["graders"][1]["error_code"]) == (
        "evaluated",
        "error",
        "grader_error",
    )


def test_metrics_have_each_grader_and_its_scores_by_name(tmp_path: Path) -> None:
    found = metrics(graded(tmp_path))["graders"]
    assert {name: (one["n"], one["n_errors"], one["pass_rate"]) for name, one in found.items()} == {
        "form": (2, 0, 0.5),
        "polite": (1, 1, 0.0),
        "house": (2, 0, 1.0),
    }
    assert found["form"]["pass_rate_interval"]["method"] == "wilson"
    assert {name: score["mean"] for name, score in found["polite"]["scores"].items()} == {"tone": 0.9, "length": 0.1}
    assert (found["house"]["scale"], found["house"]["raw_score_mean"]) == ("0/1", 1.0)


def test_what_was_published_can_be_recomputed(tmp_path: Path) -> None:
    run = graded(tmp_path)
    assert run.verify() == []
    assert api.replay(run.run_id, runs_dir=tmp_path / "runs") == []


def test_an_answer_that_cannot_be_assessed_is_counted_apart(tmp_path: Path) -> None:
    verdict = '{"verdict": "cannot_assess", "reason": "no facts"}'
    judge = {**GRADERS[2], "judge": {"provider": "scripted", "model": f"say-{verdict}", "name": "J"}}
    run = graded(tmp_path, graders=[GRADERS[0], judge])
    house = metrics(run)["graders"]["house"]
    assert (house["n"], house["n_not_assessed"], house["n_errors"], house["pass_rate"]) == (0, 2, 0, None)
    alone = graded(tmp_path, graders=[judge])
    assert [(line["status"], line["error_code"]) for line in lines(alone)] == [("evaluation_error", "not_assessed")] * 2
    assert metrics(alone)["errors"] == {"not_assessed": 2}


def test_an_error_of_the_primary_grader_is_that_of_the_record(tmp_path: Path) -> None:
    run = graded(tmp_path, graders=[{**GRADERS[0], "primary": False}, {**GRADERS[1], "primary": True}])
    loud = lines(run)[1]
    assert (loud["status"], loud["error_code"], loud["score"]) == ("evaluation_error", "grader_error", None)
    assert [one["status"] for one in loud["graders"]] == ["graded", "error"]
    assert [check["passed"] for check in loud["checks"]] == [False]
    # What the other grader says of the record counts for it.
    assert metrics(run)["graders"]["form"]["n"] == 2


def test_a_prompt_is_in_the_manifest_with_its_version_and_hash(tmp_path: Path) -> None:
    run = graded(tmp_path)
    manifest = run.manifest
    prompt = next(one["prompt"] for one in manifest["plan"]["graders"] if one["name"] == "house")
    assert (prompt["name"], prompt["text"]) == ("own.txt", PROMPT)
    template = f"own.txt/{prompt['sha256'][:12]}"
    assert manifest["templates"][template] == prompt["sha256"]
    assert lines(run)[0]["graders"][2]["template"] == template


def test_the_scores_of_the_only_grader_are_metrics_too(tmp_path: Path) -> None:
    run = graded(tmp_path, graders=[], grader="own.py:polite", answers={"a": "Paris"})
    polite = metrics(run)["graders"]["polite"]
    assert (polite["is_primary"], polite["scores"]["tone"]["mean"]) == (True, 0.9)


def test_gates_are_about_checks_and_graders_by_name(tmp_path: Path) -> None:
    run = graded(tmp_path, gates={"checks": {"exact": 0.5}, "graders": {"polite": 0.5}})
    found = metrics(run)["gate"]
    assert [(gate["name"], gate["value"], gate["met"]) for gate in found["gates"]] == [
        ("checks.exact", 0.5, True),
        ("graders.polite", 0.0, False),
    ]
    assert found["reasons"] == ["pass rate of the grader 'polite' 0.00 is below 0.50"]


@pytest.mark.parametrize(
    ("gates", "words"),
    [
        ({"checks": {"exat": 0.5}}, "the run has no check 'exat'; did you mean 'exact'?"),
        ({"graders": {"rude": 0.5}}, "the run has no grader 'rude'; the graders are form, polite, house"),
    ],
)
def test_a_gate_on_what_the_run_does_not_have_is_refused(tmp_path: Path, gates: dict[str, Any], words: str) -> None:
    with pytest.raises(assay.UsageProblem, match=words.replace("?", r"\?")):
        graded(tmp_path, gates=gates)


def test_runs_are_compared_by_check_and_by_grader(tmp_path: Path) -> None:
    first = graded(tmp_path, answers={"a": "Lyon", "b": "Paris", "c": "Lyon"}, run={"id": "one"})
    second = graded(tmp_path, answers={"a": "Paris", "b": "Paris", "c": "Lyon"}, run={"id": "two"})
    found = second.compare(first)
    assert [(one.name, one.n, one.before, one.after) for one in found.checks] == [
        ("exact", 3, pytest.approx(1 / 3), pytest.approx(2 / 3))
    ]
    assert [one.name for one in found.graders] == ["form", "polite", "house"]
    assert all(one.p_adjusted is not None for one in (*found.checks, *found.graders))


def test_the_example_has_three_graders(tmp_path: Path) -> None:
    [run] = assay.run(EXAMPLE, runs_dir=str(tmp_path))
    found = metrics(run)
    assert list(found["graders"]) == ["form", "brevity", "house"]
    assert found["gate"]["passed"] is True


def test_judges_of_graders_are_called_over_http_with_the_form_of_their_scale(tmp_path: Path) -> None:
    verdict = json.dumps({"score": "2", "reason": "rude"})
    with StubProvider(lambda _: verdict) as stub:
        provider = {"name": "here", "base_url": stub.base_url}
        graders = [GRADERS[0], {"name": "house", "judge": "here/m", "prompt": "own.txt", "scale": "1-5", "at_least": 2}]
        run = graded(tmp_path, graders=graders, providers=[provider], answers={"a": "Paris"})
        (request,) = stub.requests
    assert "Is it polite?" in request.body["messages"][1]["content"]
    assert '"score": "<a whole number from 1 to 5' in request.body["messages"][1]["content"]
    house = lines(run)[0]["graders"][1]
    assert (house["raw_score"], house["scale"], house["passed"]) == (2.0, "1-5", True)


def test_a_judge_that_cannot_be_reached_fails_its_grader_alone(tmp_path: Path) -> None:
    with StubProvider(lambda _: StubReply(status=400, body={"error": {"message": "no such thing"}})) as stub:
        provider = {"name": "here", "base_url": stub.base_url}
        graders = [GRADERS[0], {"name": "house", "judge": "here/m", "prompt": "own.txt"}]
        run = graded(tmp_path, graders=graders, providers=[provider], answers={"a": "Paris"})
    (line,) = lines(run)
    assert (line["passed"], line["graders"][1]["status"], line["graders"][1]["error_code"]) == (True, "error", "invalid_request")


def test_a_prompt_that_changes_makes_another_run(tmp_path: Path) -> None:
    path = run_file(tmp_path, run={"id": "same"})
    first = api.plan_runs(api.RunRequest(run_file=str(path))).plans[0]
    (tmp_path / "own.txt").write_text(PROMPT + "Be strict.\n", encoding="utf-8")
    second = api.plan_runs(api.RunRequest(run_file=str(path))).plans[0]
    assert first.graders[2].prompt != second.graders[2].prompt


# Interruptions, repeats and several processes

VERDICT = json.dumps({"verdict": "pass", "reason": "It is polite."})


def graded_job(folder: Path, base_url: str, **members: Any) -> Job:
    """A job whose answers are checked, and judged by two prompts."""
    graders = [
        {"name": "form", "primary": True, "checks": [{"type": "length", "max": 5, "name": "short"}]},
        *({"name": name, "judge": f"stub/{name}", "prompt": "own.txt"} for name in ("mild", "strict")),
    ]
    job = write_job(folder, base_url, records=20, judges=[], graders=graders, on_invalid="skip", **members)
    (folder / "own.txt").write_text(PROMPT, encoding="utf-8")
    return job


def verdicts(model: str, case: str, _: int) -> Answer:
    """Short answers, and verdicts of judges of which one is lost about every tenth."""
    if model == "strict" and int(case) % 10 == 3:
        return 200, "no verdict at all", {}
    return 200, "Something." if model == "candidate" else VERDICT, {}


def test_a_killed_run_repeats_only_the_calls_that_were_under_way(tmp_path: Path) -> None:
    with CountingProvider(verdicts, latency=0.01) as provider:
        job = graded_job(tmp_path, provider.base_url)
        provider.hold(after=25)
        running = job.start("x")
        provider.wait_for(26, while_alive=running)
        running.kill()
        provider.let_go()
        running.communicate()
        result = api.resume("x", runs_dir=job.runs)
        twice = sum(count - 1 for (_, case), count in provider.calls.items() if int(case) % 10 != 3)
        assert twice <= provider.most_in_flight
    assert (result.metrics["checks"]["short"]["n"], result.metrics["graders"]["mild"]["n"]) == (20, 20)
    assert (result.metrics["graders"]["strict"]["n"], result.metrics["graders"]["strict"]["errors"]) == (
        18,
        {"judge_parse_error": 2},
    )
    assert api.verify("x", runs_dir=job.runs) == []


def test_each_repeat_of_a_record_is_graded_by_every_grader(tmp_path: Path) -> None:
    with CountingProvider(verdicts) as provider:
        job = graded_job(tmp_path, provider.base_url, repeat=2)
        (result,) = api.run(job.folder / "run.json", run_id="x", runs_dir=str(job.runs))
    found = result.metrics
    assert (found["checks"]["short"]["n"], found["graders"]["strict"]["n"], found["n_scored"]) == (40, 36, 40)
    # Answers to one record are no independent ones.
    assert found["checks"]["short"]["pass_rate_interval"]["n"] == 20
    assert found["graders"]["strict"]["pass_rate_interval"]["n"] == 18
