"""Finished runs whose answers are compared: what is compared, what comes of it, and that a kill loses no verdict."""

import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from assay import api
from assay.core.case import Case
from assay.core.errors import RunNotFound, RunSealed, UsageProblem
from assay.core.run_result import RunResult
from assay.core.runs import TemporalServer
from assay.testing import StubAnswer, StubProvider, StubReply, StubRequest
from tests.crash.provider import Answer, CountingProvider
from tests.engine.run_settings import mcq_row, write_rows

FAIR = "scripted/judge-sound"
"""Grades by the share of the reference's words."""
BIASED = "scripted/judge-first"
REFUSED = StubReply(status=400, body={"error": {"message": "no"}})
LONG, MIDDLE, SHORT = "Water freezes below thirty-two degrees.", "Water freezes.", "No."


def open_row(row_id: str, prompt: str = "Why is it so?") -> dict[str, Any]:
    row = {"schema_version": "legal_eval_v1", "id": row_id, "dataset": "law", "task_type": "reference_qa", "prompt": prompt}
    return {**row, "reference_answers": [LONG]}


ROWS = [open_row(f"q{number}") for number in range(6)]


def answered(folder: Path, run_id: str, answers: Mapping[str, str], rows: list[dict[str, Any]] = ROWS) -> RunResult:
    """A finished run of a candidate that is called like it, with these answers."""
    dataset = write_rows(folder / f"{run_id}.jsonl", *rows)
    given = [{"example_id": name, "candidate_name": run_id, "response_text": text} for name, text in answers.items()]
    responses = write_rows(folder / f"{run_id}-answers.jsonl", *given)
    options = {"judge": "scripted/judge-4", "run_id": run_id, "runs_dir": str(folder / "runs")}
    (result,) = api.run(dataset, responses=str(responses), **options)
    return result


def same(text: str, rows: list[dict[str, Any]] = ROWS) -> dict[str, str]:
    return {row["id"]: text for row in rows}


def rank(folder: Path, *runs: str, judges: tuple[str, ...] = (FAIR,), **options: Any) -> RunResult:
    request = api.RankRequest(runs=runs, judges=judges, runs_dir=str(folder / "runs"), run_id="ranking", **options)
    return api.rank(request)


def ranking_of(result: RunResult) -> dict[str, Any]:
    found: dict[str, Any] = result.metrics["ranking"]
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for run_id, text in (("long", LONG), ("middle", MIDDLE), ("short", SHORT)):
        answered(tmp_path, run_id, same(text))
    return tmp_path


def test_a_consistent_judge_ranks_the_candidates(folder: Path) -> None:
    found = ranking_of(rank(folder, "short", "long", "middle"))
    assert [(one["name"], one["wins"], one["losses"]) for one in found["candidates"]] == [
        ("long", 12, 0),
        ("middle", 6, 6),
        ("short", 0, 12),
    ]
    assert [one["rate"]["value"] for one in found["position_bias"]] == [0.0]
    assert (found["n_comparisons"], found["n_clusters"], found["notes"]) == (18, 6, [])


def test_a_judge_that_prefers_a_place_lets_nobody_win(folder: Path) -> None:
    result = rank(folder, "long", "short", judges=(BIASED,))
    found = ranking_of(result)
    assert [(one["wins"], one["inconsistent"], one["strength"]) for one in found["candidates"]] == [(0, 6, None), (0, 6, None)]
    assert (found["position_bias"][0]["n_first_place"], found["position_bias"][0]["rate"]["value"]) == (6, 1.0)
    assert result.metrics["pass_rate"] == 0.0


def test_the_majority_of_judges_decides_and_all_votes_are_kept(folder: Path) -> None:
    found = ranking_of(rank(folder, "long", "short", judges=(FAIR, BIASED, "scripted/judge-3")))
    assert found["candidates"][0]["inconsistent"] == 6
    line = next(api.open_run("ranking", runs_dir=folder / "runs").predictions())
    votes = [(vote.judge, vote.criterion, vote.score) for vote in line.evaluator_scores]
    assert votes == [
        *((judge, "in_order", score) for judge, score in ((FAIR, 1.0), (BIASED, 1.0), ("scripted/judge-3", 0.5))),
        *((judge, "swapped", score) for judge, score in ((FAIR, 1.0), (BIASED, 0.0), ("scripted/judge-3", 0.5))),
    ]


def test_a_comparison_that_fails_is_without_a_result_and_no_tie(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge is lost in one order of one record only, and when that is repeated it is there."""
    calls: list[str] = []

    def judge(request: StubRequest) -> StubAnswer:
        text = request.body["messages"][-1]["content"]
        # The reference says the same as the better answer, and stands before both.
        winner = "first" if text.rindex(LONG) < text.index(SHORT) else "second"
        calls.append(text)
        is_lost = "Odd" in text and winner == "second" and len(calls) <= 8
        return REFUSED if is_lost else json.dumps({"winner": winner, "justification": "It is right."})

    rows = [*ROWS[:3], open_row("q3", prompt="Odd.")]
    for run_id, text in (("one", LONG), ("two", SHORT)):
        answered(folder, run_id, same(text, rows), rows)
    with StubProvider(judge) as provider:
        monkeypatch.setenv("OPENAI_BASE_URL", provider.base_url)
        result = rank(folder, "one", "two", judges=("openai/judge",))
        asked = len(calls)
        retried = api.retry("ranking", runs_dir=folder / "runs", run_id="again")
    (pair,) = ranking_of(result)["pairs"]
    assert (pair["first_wins"], pair["ties"], pair["inconsistent"], pair["unscored"]) == (3, 0, 0, 1)
    assert (result.state, result.counts.failed_records) == ("completed_with_failures", 1)
    (merged,) = ranking_of(retried)["pairs"]
    assert (merged["first_wins"], merged["unscored"], retried.counts.total_records) == (4, 0, 4)
    assert len(calls) - asked == 2
    assert (api.verify("again", runs_dir=folder / "runs"), api.replay("again", runs_dir=folder / "runs")) == ([], [])


def test_the_evidence_is_that_of_any_run(folder: Path) -> None:
    rank(folder, "long", "middle", "short", judges=(FAIR, BIASED))
    assert api.verify("ranking", runs_dir=folder / "runs") == []
    assert api.replay("ranking", runs_dir=folder / "runs") == []
    run = api.open_run("ranking", runs_dir=folder / "runs")
    record = run.record("q0#1-3")
    assert [choice.text for choice in record.input.choices] == [LONG, SHORT]
    assert record.prediction.evaluator == "judge_pairwise/1"
    assert {attempt.stage for attempt in record.attempts} == {"judge"}
    assert [entry.run_id for entry in run.plan.comparison.runs] == ["long", "middle", "short"]


def test_what_cannot_be_compared_is_named(folder: Path) -> None:
    rows = [open_row("q0"), open_row("q1", prompt="Why not?"), open_row("q2"), open_row("new"), mcq_row("choice")]
    answered(folder, "other", {**same(MIDDLE, rows), "choice": "A"}, rows)
    result = rank(folder, "long", "other")
    assert ranking_of(result)["n_comparisons"] == 2
    assert ranking_of(result)["notes"] == [
        "5 record(s) are not in every run: q3, q4, q5, new, choice",
        "1 record(s) have other contents in one run than in another: q1",
        "1 record(s) are multiple choice, where no answer is better than another right one: choice",
    ]


def test_a_grader_that_is_called_like_a_way_of_ours_makes_no_multiple_choice(tmp_path: Path) -> None:
    def mcq_exact(_record: Case, answer: str) -> bool:
        return bool(answer)

    dataset = write_rows(tmp_path / "law.jsonl", *ROWS)
    for number, answer in enumerate((LONG, SHORT)):
        options = {"run_id": f"run-{number}", "runs_dir": str(tmp_path / "runs"), "grader": mcq_exact}
        api.run(dataset, model=f"scripted/say-{answer}", **options)
    assert ranking_of(rank(tmp_path, "run-0", "run-1"))["n_comparisons"] == len(ROWS)


def test_a_record_that_one_run_has_not_answered_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [*ROWS[:2], open_row("q2", prompt="Fail.")]
    write_rows(folder / "failing.jsonl", *rows)

    def candidate(request: StubRequest) -> StubAnswer:
        return REFUSED if "Fail." in request.body["messages"][-1]["content"] else MIDDLE

    with StubProvider(candidate) as provider:
        monkeypatch.setenv("OPENAI_BASE_URL", provider.base_url)
        api.run(
            folder / "failing.jsonl", model="openai/x", judge="scripted/judge-4", run_id="failing", runs_dir=str(folder / "runs")
        )
    answered(folder, "whole", same(LONG, rows), rows)
    found = ranking_of(rank(folder, "whole", "failing"))
    assert (found["n_comparisons"], found["notes"]) == (2, ["1 record(s) have no answer in some run: q2"])


def test_an_answer_whose_judge_failed_is_compared_all_the_same(folder: Path) -> None:
    dataset, given = folder / "long.jsonl", folder / "long-answers.jsonl"
    api.run(dataset, responses=str(given), judge="scripted/say-nothing", run_id="unjudged", runs_dir=str(folder / "runs"))
    assert ranking_of(rank(folder, "unjudged", "short"))["candidates"][0]["wins"] == 6


def test_a_limit_and_a_sample_count_records(folder: Path) -> None:
    request = api.RankRequest(runs=("long", "middle", "short"), judges=(FAIR,), runs_dir=str(folder / "runs"))
    sizes = [
        api.plan_rank(api.RankRequest(**{**_members(request), **change})).n_comparisons
        for change in ({"limit": 2}, {"sample": 4}, {"sample": 4, "limit": 1})
    ]
    assert sizes == [6, 12, 3]


def _members(request: api.RankRequest) -> dict[str, Any]:
    return {name: getattr(request, name) for name in request.__struct_fields__}


def test_runs_of_one_candidate_are_told_apart_by_their_ids(folder: Path) -> None:
    dataset, given = folder / "long.jsonl", folder / "long-answers.jsonl"
    api.run(dataset, responses=str(given), judge="scripted/judge-4", run_id="again", runs_dir=str(folder / "runs"))
    names = [one["name"] for one in ranking_of(rank(folder, "long", "again"))["candidates"]]
    assert names == ["long · long", "long · again"]


@pytest.mark.parametrize(
    ("runs", "judges", "message"),
    [
        (("long",), (FAIR,), "one run alone has no rank"),
        (("long", "long"), (FAIR,), "'long' is named twice"),
        (("long", "nowhere"), (FAIR,), "no run 'nowhere'"),
        (("long", "short"), (), "no judge is named"),
        (("long", "short"), ("nonsense",), "has no provider prefix"),
    ],
)
def test_what_cannot_be_ranked_is_said_before_any_call(
    folder: Path, runs: tuple[str, ...], judges: tuple[str, ...], message: str
) -> None:
    with pytest.raises((UsageProblem, RunNotFound), match=message):
        rank(folder, *runs, judges=judges)
    assert not (folder / "runs" / "ranking").exists()


def test_runs_without_a_common_record_are_refused(folder: Path) -> None:
    rows = [open_row("elsewhere")]
    answered(folder, "other", same(SHORT, rows), rows)
    with pytest.raises(UsageProblem, match="no two of the runs have answered the same record; 7 record"):
        rank(folder, "long", "other")


def test_a_ranking_is_not_ranked(folder: Path) -> None:
    rank(folder, "long", "short")
    with pytest.raises(UsageProblem, match="'ranking' is itself a ranking"):
        rank(folder, "ranking", "short")


def test_a_run_that_was_changed_is_not_compared(folder: Path) -> None:
    predictions = folder / "runs" / "long" / "predictions.jsonl"
    predictions.chmod(0o600)
    predictions.write_text(predictions.read_text().replace("thirty", "twenty"))
    with pytest.raises(UsageProblem, match="not as it was published"):
        rank(folder, "long", "short")


def test_a_finished_ranking_asked_for_again_is_the_same_and_another_is_refused(folder: Path) -> None:
    first = rank(folder, "long", "short")
    assert rank(folder, "long", "short") == first
    with pytest.raises(RunSealed, match="other settings"):
        rank(folder, "long", "middle")


def tied(model: str, case: str, _: int) -> Answer:  # noqa: ARG001  # a script's signature
    return 200, json.dumps({"winner": "tie", "justification": "Both say it."}), {}


def test_a_kill_loses_no_verdict_that_was_paid_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [open_row(f"q{number}", prompt=f"Why [case {number}]?") for number in range(30)]
    for run_id, text in (("long", LONG), ("short", SHORT)):
        answered(tmp_path, run_id, same(text, rows), rows)
    options = [
        "--judge",
        "openai/judge",
        "--run-id",
        "ranking",
        "--runs-dir",
        str(tmp_path / "runs"),
        "--concurrency",
        "3",
        "--quiet",
    ]
    command = [sys.executable, "-m", "assay", "rank", "long", "short", *options]
    with CountingProvider(tied, latency=0.02) as provider:
        monkeypatch.setenv("OPENAI_BASE_URL", provider.base_url)
        provider.hold(after=20)
        running = subprocess.Popen(command, start_new_session=True, text=True)
        provider.wait_for(21, while_alive=running)
        running.send_signal(signal.SIGKILL)
        running.wait()
        provider.let_go()
        result = api.resume("ranking", runs_dir=tmp_path / "runs")
        calls = provider.calls.total()
    assert (result.state, ranking_of(result)["pairs"][0]["ties"]) == ("completed", 30)
    assert 60 <= calls <= 60 + 3
    assert api.verify("ranking", runs_dir=tmp_path / "runs") == []


def test_workers_are_not_given_a_ranking_and_nothing_is_left_of_it(folder: Path) -> None:
    pytest.importorskip("temporalio")
    request = api.RankRequest(runs=("long", "short"), judges=(FAIR,), runs_dir=str(folder / "runs"), run_id="ranking")
    away = api.RunBackend(ledger="postgresql://127.0.0.1:9/none", temporal=TemporalServer(address="127.0.0.1:9"))
    with pytest.raises(UsageProblem, match="a ranking is made on one machine"):
        api.rank(request, placement=away)
    assert not (folder / "runs" / ".active" / "ranking").exists()
