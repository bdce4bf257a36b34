"""Official scores of runs with failures of every kind, given at once or to a run that has ended."""

import json
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay import api
from assay.core.contract import MANIFEST
from assay.core.errors import UsageProblem
from assay.core.plan import plan_sha256, read_plan
from assay.core.run_result import RunResult
from assay.engine.finalization.artifact_lines import VOLATILE_FIELDS
from assay.engine.planning.request import PlanProblems, RunRequest
from assay.store.artifacts import ARTIFACTS, AttemptChain, StagingFolder
from assay.store.retention import purgeable
from assay.testing import StubAnswer, StubProvider, StubReply, StubRequest
from tests.engine.run_settings import mcq_row, problems_of, write_rows

DAY = 86_400
WHOLE = (("Good", 4), ("Bad", 4), ("Good too", -2))
TORN = (("Good", 4), ("Broken", 4))
TWICE = (("Twice", 4),)
LINK = {"rescored_from", "parent_run_id", "states"}


def rubric_row(row_id: str, criteria: tuple[tuple[str, int], ...], prompt: str = "Is it?") -> dict[str, Any]:
    rubric = [{"id": f"c{place}", "title": title, "weight": weight} for place, (title, weight) in enumerate(criteria)]
    row = {"schema_version": "legal_eval_v1", "id": row_id, "dataset": "law", "task_type": "rubric_qa", "prompt": prompt}
    return {**row, "rubric": rubric}


ROWS = (
    rubric_row("whole", WHOLE),
    rubric_row("torn", TORN),
    rubric_row("twice", TWICE),
    rubric_row("lost", WHOLE, prompt="Nobody can say."),
)


class Speaker:
    """A candidate that fails on one prompt, and a judge whose words hang on the criterion."""

    def __init__(self) -> None:
        self._asked: Counter[str] = Counter()

    def __call__(self, request: StubRequest) -> StubAnswer:
        text = request.body["messages"][-1]["content"]
        if request.body["model"] == "candidate":
            return StubReply(status=400, body={"error": {"message": "no"}}) if "Nobody" in text else "An answer."
        met = {"criteria_met": "Bad" not in text, "explanation": "It is so."}
        self._asked[request.body["model"]] += "Twice" in text
        is_readable = "Broken" not in text and not ("Twice" in text and self._asked[request.body["model"]] == 1)
        return json.dumps(met) if is_readable else "I had rather not say."


def run_all(folder: Path, *rows: dict[str, Any], run: dict[str, Any] | None = None, **members: Any) -> RunResult:
    write_rows(folder / "law.jsonl", *rows)
    with StubProvider(members.pop("speaker", Speaker())) as provider:
        document = {
            "datasets": ["law.jsonl"],
            "candidates": ["stub/candidate"],
            "judges": ["stub/judge"],
            "providers": [{"name": "stub", "base_url": provider.base_url}],
            "run": {"runs_dir": "runs", "id": "first", **(run or {})},
            **members,
        }
        (folder / "run.json").write_text(json.dumps(document), encoding="utf-8")
        (finished,) = api.run(folder / "run.json")
    return finished


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    """A run with every kind of failure; its provider is gone, so that nobody could be asked any more."""
    return run_all(tmp_path_factory.mktemp("first"), *ROWS, gates={"min_score": 0.5, "max_error_rate": 0.9})


def scores(result: RunResult) -> dict[str, Any]:
    lines = api.open_run(result.run_dir).predictions()
    return {line.record_id: line.profile_unscored or line.profile_score for line in lines}


def document(result: RunResult, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((Path(result.run_dir) / name).read_bytes())
    return found


def steady(value: Any) -> Any:
    """A document without what differs between two runs."""
    if isinstance(value, dict):
        return {name: steady(member) for name, member in value.items() if name not in {*VOLATILE_FIELDS, *LINK}}
    return [steady(member) for member in value] if isinstance(value, list) else value


# What failures count


def test_strict_leaves_every_record_unscored_that_failed_anywhere(first: RunResult) -> None:
    rescored = api.rescore(first.run_dir, profile="prbench")
    assert scores(rescored) == {"whole": 0.25, "torn": "judge_parse_error", "twice": 1.0, "lost": "invalid_request"}
    profile = rescored.metrics["profile"]
    assert (profile["headline"], profile["n"], profile["n_unscored"]) == (0.625, 2, 2)
    assert profile["unscored"] == {"invalid_request": 1, "judge_parse_error": 1}


def test_compat_of_prbench_counts_first_replies_and_takes_silence_for_not_met(first: RunResult) -> None:
    rescored = api.rescore(first.run_dir, profile="prbench", compat=True)
    assert scores(rescored) == {"whole": 0.25, "torn": 0.5, "twice": 0.0, "lost": 0.0}
    normalized = api.rescore(first.run_dir, profile="prbench_normalized", compat=True)
    assert scores(normalized) == pytest.approx({"whole": 0.4, "torn": 0.5, "twice": 0.0, "lost": 0.2})


def test_compat_of_healthbench_takes_the_reply_to_a_second_question(first: RunResult) -> None:
    assert scores(api.rescore(first.run_dir, profile="healthbench", compat=True)) == {
        "whole": 0.25,
        "torn": 0.5,
        "twice": 1.0,
        "lost": 0.0,
    }


def test_compat_of_apex_leaves_out_what_was_never_answered(first: RunResult) -> None:
    rescored = api.rescore(first.run_dir, profile="apex_v1", compat=True)
    assert scores(rescored) == {"whole": pytest.approx(200 / 3), "torn": 50.0, "twice": 100.0, "lost": "no_answer"}


def test_compat_does_not_touch_what_failed(first: RunResult) -> None:
    rescored = api.rescore(first.run_dir, profile="prbench", compat=True)
    same = ("pass_rate", "error_rate", "errors", "labels", "n_scored", "n_unscored", "score_mean")
    assert {name: rescored.metrics[name] for name in same} == {name: first.metrics[name] for name in same}
    assert (rescored.counts, rescored.state) == (first.counts, first.state)


POINTLESS = (
    rubric_row("whole", WHOLE),
    rubric_row("negative", (("Bad", -3), ("Good", -1))),
    rubric_row("zero", (("Bad", 0), ("Good", 0))),
)


@pytest.mark.parametrize("compat", [False, True])
@pytest.mark.parametrize(
    ("profile", "negative", "zero"),
    [
        ("apex_v1", 50.0, 50.0),
        ("prbench_normalized", 0.75, "no_weight"),
        ("prbench", "no_positive_weight", "no_positive_weight"),
        ("healthbench", "no_positive_weight", "no_positive_weight"),
        ("weighted_mean", "no_positive_weight", "no_positive_weight"),
    ],
)
def test_a_rubric_without_a_positive_weight_has_the_score_of_a_profile_that_gives_one(
    tmp_path: Path, profile: str, negative: Any, zero: Any, *, compat: bool
) -> None:
    finished = run_all(tmp_path, *POINTLESS, profile=profile, compat=compat)
    found = scores(finished)
    assert (found["negative"], found["zero"]) == (negative, zero)
    assert [api.verify(finished.run_dir), api.replay(finished.run_dir)] == [[], []]


def test_such_a_score_is_flagged_and_given_later_too(tmp_path: Path) -> None:
    finished = run_all(tmp_path, *POINTLESS, profile="apex_v1")
    flags = {line.record_id: line.flags for line in api.open_run(finished.run_dir).predictions()}
    assert flags == {"whole": (), "negative": ("scored_by_profile",), "zero": ("scored_by_profile",)}
    again = api.rescore(finished.run_dir, profile="prbench_normalized")
    assert scores(again) == {"whole": 0.4, "negative": 0.75, "zero": "no_weight"}


def test_a_judge_whose_replies_cannot_be_attributed_gives_no_score(tmp_path: Path) -> None:
    row = rubric_row("secret", TORN)
    row["rubric"][0]["id"] = "jane.doe@example.org"
    finished = run_all(tmp_path, row, profile="prbench", compat=True)
    assert scores(finished) == {"secret": 0.5}
    again = api.rescore(finished.run_dir, profile="prbench", compat=True)
    assert "unknown_call" in scores(again).values()


# At once, or later


@pytest.mark.parametrize("keeps_raw", [False, True])
def test_a_score_given_later_is_the_one_given_at_once(tmp_path: Path, *, keeps_raw: bool) -> None:
    at_once = run_all(tmp_path, *ROWS, profile="prbench", compat=True, run={"keep_raw": keeps_raw})
    later = api.rescore(at_once.run_dir, profile="prbench", compat=True)
    assert steady(later.metrics) == steady(at_once.metrics)
    assert (Path(later.run_dir) / "predictions.jsonl").read_bytes() == (Path(at_once.run_dir) / "predictions.jsonl").read_bytes()
    assert steady(document(later, "run_manifest.json")["plan"]) == steady(document(at_once, "run_manifest.json")["plan"])


def test_a_rescored_run_has_all_artifacts_and_can_be_verified_and_replayed(first: RunResult) -> None:
    rescored = api.rescore(first.run_dir, profile="apex_v1")
    assert {*ARTIFACTS, "cases.jsonl", "responses.jsonl"} == {path.name for path in Path(rescored.run_dir).iterdir()}
    assert (api.verify(rescored.run_dir), api.replay(rescored.run_dir)) == ([], [])
    assert api.open_run(rescored.run_dir).result == rescored


def test_the_old_run_is_as_it_was_and_the_new_one_names_it(first: RunResult) -> None:
    before = {path.name: path.read_bytes() for path in Path(first.run_dir).iterdir()}
    rescored = api.rescore(first.run_dir, profile="prbench", run_id="named")
    assert {path.name: path.read_bytes() for path in Path(first.run_dir).iterdir()} == before
    old, new = document(first, "run_manifest.json"), document(rescored, "run_manifest.json")
    assert new["rescored_from"] == {name: old[name] for name in ("run_id", "manifest_sha256", "completed_at")}
    assert (new["run_id"], new["plan"]["parent_run_id"], new["plan"]["profile"]) == ("named", "first", "prbench")
    assert new["profile"] == {name: rescored.metrics["profile"][name] for name in ("id", "version", "sha256", "compat")}
    assert (old["profile"], old["rescored_from"]) == (None, None)
    assert new["plan_sha256"] == plan_sha256(read_plan(json.dumps(new["plan"]).encode())) != old["plan_sha256"]


def test_a_run_rescored_twice_expires_with_the_first(first: RunResult) -> None:
    again = api.rescore(api.rescore(first.run_dir, profile="prbench").run_dir, profile="apex_v1")
    link = document(again, "run_manifest.json")["rescored_from"]
    assert link["completed_at"] == document(first, "run_manifest.json")["completed_at"]
    purge = [purgeable(Path(run.run_dir), now=ended_at(first) + 30 * DAY) for run in (first, again)]
    assert purge[0] == purge[1] != []


def ended_at(result: RunResult) -> float:
    return datetime.fromisoformat(document(result, "run_manifest.json")["completed_at"]).timestamp()


# Gates


def test_a_gate_on_the_score_is_one_on_the_headline(first: RunResult) -> None:
    missed = api.rescore(first.run_dir, profile="apex_v1", min_score=90)
    assert missed.gate.reasons == ("apex_v1 83.33 is below 90.00",)
    assert api.rescore(first.run_dir, profile="apex_v1", min_score=83).gate.passed


def test_a_gate_on_another_figure_is_not_taken_over_and_the_others_are(first: RunResult) -> None:
    rescored = api.rescore(first.run_dir, profile="prbench")
    gates = document(rescored, "run_manifest.json")["plan"]["gates"]
    assert gates == {"max_error_rate": 0.9}
    kept = api.rescore(api.rescore(first.run_dir, profile="prbench", min_score=0.3).run_dir, profile="prbench", compat=True)
    assert document(kept, "run_manifest.json")["plan"]["gates"] == {"min_score": 0.3, "max_error_rate": 0.9}


# What is refused


def test_a_profile_that_is_not_for_the_records_is_refused_with_all_of_them(tmp_path: Path) -> None:
    rows = [mcq_row(f"m{number}") for number in range(12)] + [rubric_row("r", WHOLE)]
    finished = run_all(tmp_path, *rows)
    with pytest.raises(PlanProblems) as refused:
        api.rescore(finished.run_dir, profile="lexam_open")
    assert refused.value.problems == (
        "the profile 'lexam_open' is for records that are compared with a reference, but 12 records are multiple choice: "
        "'m0', 'm1', 'm2', 'm3', 'm4', 'm5', 'm6', 'm7', 'm8', 'm9' and 2 more",
        "the profile 'lexam_open' is for records that are compared with a reference, but 1 record is graded by a rubric: 'r'",
    )
    assert [path.name for path in (tmp_path / "runs").iterdir() if path.name != ".active"] == ["first"]


def test_planning_refuses_such_a_profile_before_any_call(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "law.jsonl", mcq_row("m"), rubric_row("r", WHOLE))
    request = RunRequest(datasets=(str(path),), models=("scripted/echo",), judges=("scripted/judge-5",), profile="prbench")
    assert problems_of(request) == (
        "the profile 'prbench' is for records that are graded by a rubric, but 1 record is multiple choice: 'm'",
    )


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"profile": "lexam_mcq", "min_score": 70.0}, "--min-score: 70 is not on the scale 0-1 of the profile 'lexam_mcq'"),
        ({"min_score": 70.0}, "--min-score: 70 is not on the scale 0-1 of the datasets"),
        ({"compat": True}, "--compat: compat says how a profile treats failures, and no profile is named"),
        ({"profile": "mmlu"}, "--profile: profile is 'mmlu'; allowed: apex_v1, healthbench"),
    ],
)
def test_settings_of_a_profile_are_checked_before_any_call(tmp_path: Path, options: dict[str, Any], problem: str) -> None:
    path = write_rows(tmp_path / "law.jsonl", mcq_row("m"))
    (found,) = problems_of(RunRequest(datasets=(str(path),), models=("scripted/echo",), **options))
    assert found.startswith(problem)


def as_of_an_earlier_version(finished: RunResult, target: Path) -> Path:
    """The run as it would be if the attempt log had the providers' bodies in the place of the judges' words."""
    old, chain = Path(finished.run_dir), AttemptChain()
    with StagingFolder(target.parent) as staging:
        for path in old.iterdir():
            if path.name not in (MANIFEST, "attempt_logs.jsonl"):
                staging.write(path.name, path.read_bytes())
        writer = staging.open_lines("attempt_logs.jsonl")
        for line in api.open_run(str(old)).predictions():
            for attempt in map(msgspec.to_builtins, api.open_run(str(old)).attempts(line.record_id)):
                kept = {name: value for name, value in attempt.items() if name not in ("raw", "chain_sha256")}
                writer.line(chain.line(json.dumps({**kept, "response": attempt["raw"]}).encode()))
        manifest = {**document(finished, MANIFEST), "attempt_chain_sha256": chain.hexdigest()}
        staging.seal({name: member for name, member in manifest.items() if name not in ("artifacts", "manifest_sha256")})
        staging.publish(target)
    return target


def test_bodies_of_providers_are_not_taken_for_the_words_of_judges(tmp_path: Path) -> None:
    finished = run_all(tmp_path, *ROWS, run={"keep_raw": True})
    earlier = as_of_an_earlier_version(finished, tmp_path / "runs" / "earlier")
    assert api.verify(str(earlier)) == []
    with pytest.raises(UsageProblem, match="an earlier version kept the providers' whole replies"):
        api.rescore(str(earlier), profile="prbench", compat=True)
    assert api.rescore(str(earlier), profile="prbench").metrics["profile"]["n"] == 2
