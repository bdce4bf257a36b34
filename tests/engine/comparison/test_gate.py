import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from assay import api
from assay.core.errors import RunNotFound, UsageProblem
from assay.core.plan import Plan
from assay.core.settings import Gates
from assay.core.summary import Interval, Summary
from assay.engine.comparison.gate import decide_gate
from assay.metrics.summary import summarize
from tests.crash.job import write_job
from tests.crash.provider import Answer, CountingProvider
from tests.engine.execution.test_faults import BAD_KEY, finished, good
from tests.engine.graded_runs import graded, passing, question
from tests.engine.run_settings import write_golden, write_rows

ROWS = [question(f"q{number:03}") for number in range(100)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs over 100 questions in which 10, 10, 40 and no answers are wrong."""
    folder = tmp_path_factory.mktemp("gated")
    for name, wrong in (("usual", range(10)), ("same", range(5, 15)), ("worse", range(40)), ("better", range(0))):
        graded(folder, name, ROWS, passing(ROWS, *wrong))
    graded(folder, "half", ROWS[:50], passing(ROWS[:50], *range(10)))
    return folder


def decided(folder: Path, run: str, baseline: str = "none", **demand: Any) -> api.GateDecision:
    return api.gate(run, api.GateSpec(**demand), runs_dir=folder / "runs", baseline=baseline)


@pytest.mark.parametrize(
    ("run", "mode", "delta", "decision"),
    [
        ("same", "absolute", None, ("PASS", True)),
        ("worse", "absolute", None, ("REGRESSION", False)),
        ("better", "absolute", None, ("IMPROVED", True)),
        ("same", "superiority", None, ("WARNING", False)),
        ("worse", "superiority", None, ("REGRESSION", False)),
        ("better", "superiority", None, ("IMPROVED", True)),
        ("same", "non-inferiority", 0.2, ("PASS", True)),
        ("same", "non-inferiority", 0.01, ("WARNING", False)),
        ("worse", "non-inferiority", 0.1, ("REGRESSION", False)),
        ("worse", "non-inferiority", 0.5, ("PASS", True)),
        ("better", "non-inferiority", 0.01, ("IMPROVED", True)),
    ],
)
def test_a_mode_decides_by_the_interval(folder: Path, run: str, mode: str, delta: float | None, decision: tuple[str, bool]) -> None:
    verdict = decided(folder, run, "usual", mode=mode, delta=delta)
    assert (verdict.word, verdict.passed) == decision
    assert verdict.baseline == "usual"


def test_a_missed_threshold_is_a_regression_whatever_the_comparison_says(folder: Path) -> None:
    verdict = decided(folder, "better", "usual", gates=Gates(max_error_rate=0, min_score=1.1))
    assert (verdict.word, verdict.passed) == ("REGRESSION", False)
    assert verdict.reasons[0].reason == "mean score 1.00 is below 1.10"


def test_a_threshold_of_the_run_stays_beside_one_that_is_given(tmp_path: Path) -> None:
    (finished,) = api.run(
        write_golden(tmp_path / "g.json"), model="scripted/echo", judge="scripted/judge-3", runs_dir=str(tmp_path / "runs")
    )
    verdict = api.gate(finished.run_id, api.GateSpec(gates=Gates(pass_rate=0.0)), runs_dir=tmp_path / "runs")
    assert [finding.reason for finding in verdict.reasons if finding.is_failure] == ["mean score 3.00 is below 3.50"]


def test_a_threshold_that_may_be_reached_by_luck_is_a_warning_that_passes(folder: Path) -> None:
    verdict = decided(folder, "usual", gates=Gates(pass_rate=0.88))
    assert (verdict.word, verdict.passed) == ("WARNING", True)
    assert "(at least 88.0 %), but its 95 % interval begins at 82." in verdict.reasons[0].reason


def test_records_of_the_baseline_that_are_not_in_the_run_are_a_warning(folder: Path) -> None:
    verdict = decided(folder, "half", "usual")
    assert (verdict.word, verdict.passed) == ("WARNING", True)
    assert "50 of 100 records of the baseline are not in the run" in [finding.reason for finding in verdict.reasons]


def test_without_thresholds_and_baseline_the_verdict_says_that_nothing_was_demanded(folder: Path) -> None:
    verdict = decided(folder, "worse")
    assert (verdict.word, verdict.passed, "nothing was demanded" in verdict.reasons[0].reason) == ("PASS", True, True)


@pytest.mark.parametrize(
    ("baseline", "demand", "message"),
    [
        ("none", {"mode": "superiority"}, "--mode superiority needs a baseline"),
        ("usual", {"mode": "non-inferiority"}, "needs the loss that is acceptable"),
        ("usual", {"delta": 0.1}, "--delta has no meaning for --mode absolute"),
    ],
)
def test_a_demand_that_makes_no_sense_is_refused(folder: Path, baseline: str, demand: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageProblem, match=message):
        decided(folder, "same", baseline, **demand)


def test_a_baseline_is_found_by_the_dataset_of_the_run(tmp_path: Path) -> None:
    graded(tmp_path, "old", ROWS[:20], passing(ROWS[:20]))
    graded(tmp_path, "new", ROWS[:20], passing(ROWS[:20]))
    api.set_baseline("old", runs_dir=tmp_path / "runs", reason="first release")
    assert api.gate("new", runs_dir=tmp_path / "runs").baseline == "old"
    assert api.gate("old", runs_dir=tmp_path / "runs").baseline == ""


def test_the_last_promotion_of_a_name_counts(folder: Path) -> None:
    for run in ("usual", "same"):
        api.set_baseline(run, runs_dir=folder / "runs", name="release")
    assert [(one.name, one.run_id) for one in api.list_baselines(folder / "runs") if one.name == "release"] == [("release", "same")]


def test_every_decision_is_in_the_audit_log(tmp_path: Path) -> None:
    graded(tmp_path, "only", ROWS[:5], passing(ROWS[:5]))
    api.set_baseline("only", runs_dir=tmp_path / "runs", name="release", reason="it is good")
    api.gate("only", api.GateSpec(gates=Gates(pass_rate=0.2)), runs_dir=tmp_path / "runs")
    promoted, gated = api.audit(tmp_path / "runs")
    assert (promoted["action"], promoted["name"], promoted["reason"]) == ("baseline_set", "release", "it is good")
    assert (gated["action"], gated["run_id"], gated["verdict"], gated["passed"]) == ("gate", "only", "PASS", True)


def test_a_baseline_whose_run_was_replaced_is_refused(tmp_path: Path) -> None:
    graded(tmp_path, "old", ROWS[:5], passing(ROWS[:5]))
    graded(tmp_path, "new", ROWS[:5], passing(ROWS[:5]))
    graded(tmp_path, "newest", ROWS[:5], passing(ROWS[:5]))
    api.set_baseline("old", runs_dir=tmp_path / "runs")
    (tmp_path / "runs" / "old").rename(tmp_path / "gone")
    (tmp_path / "runs" / "new").rename(tmp_path / "runs" / "old")
    with pytest.raises(UsageProblem, match="is not the one that became baseline"):
        api.gate("newest", runs_dir=tmp_path / "runs")


def test_a_baseline_that_does_not_exist_is_named(folder: Path) -> None:
    with pytest.raises(RunNotFound, match="no baseline and no run 'nowhere'"):
        decided(folder, "same", "nowhere")


def test_a_purge_leaves_the_audit_log_readable(tmp_path: Path) -> None:
    graded(tmp_path, "old", ROWS[:5], passing(ROWS[:5]))
    graded(tmp_path, "new", ROWS[:5], passing(ROWS[:5]))
    api.set_baseline("new", runs_dir=tmp_path / "runs")
    api.purge(tmp_path / "runs", run_name="old", reason="asked to")
    api.gate("new", runs_dir=tmp_path / "runs")
    assert [entry["action"] for entry in api.audit(tmp_path / "runs")] == ["baseline_set", "purge", "gate"]


def test_the_previous_complete_run_may_be_the_baseline(folder: Path) -> None:
    assert decided(folder, "worse", "previous").baseline == "same"


def test_the_first_run_has_no_previous_one(folder: Path) -> None:
    with pytest.raises(RunNotFound, match="no complete run over"):
        decided(folder, "usual", "previous")


def test_a_run_that_did_not_end_is_no_baseline(tmp_path: Path) -> None:
    is_revoked: list[bool] = []

    def script(model: str, case: str, time: int) -> Answer:
        if is_revoked or provider.calls_to("candidate") > 3:
            is_revoked.append(True)
            return BAD_KEY
        return good(model, case, time)

    with CountingProvider(script) as provider:
        finished(write_job(tmp_path, provider.base_url, records=6, concurrency=1))
    cancelled = api.cancel("x", runs_dir=tmp_path / "runs")
    assert cancelled.counts.evaluated_records > 0
    with pytest.raises(UsageProblem, match="run 'x' is cancelled: it did not go through all its records"):
        api.set_baseline("x", runs_dir=tmp_path / "runs")


def test_a_run_that_evaluated_nothing_is_not_decided_about(folder: Path) -> None:
    rows = write_rows(folder / "law.jsonl", *ROWS[:5])
    api.run(rows, model="scripted/fail-invalid_request", run_id="dead", runs_dir=str(folder / "runs"))
    with pytest.raises(UsageProblem, match="evaluated nothing: there is nothing to decide by"):
        decided(folder, "dead")
    with pytest.raises(UsageProblem, match="nothing can be measured against it"):
        api.set_baseline("dead", runs_dir=folder / "runs")


def test_runs_whose_records_were_all_edited_cannot_be_compared(tmp_path: Path) -> None:
    edited = [question(row["id"], prompt="Is it now?") for row in ROWS[:5]]
    graded(tmp_path, "old", ROWS[:5], passing(ROWS[:5]))
    graded(tmp_path, "new", edited, passing(edited))
    with pytest.raises(UsageProblem, match="nothing can be compared"):
        decided(tmp_path, "new", "old")


@pytest.mark.parametrize("name", ["none", "previous", "latest", "usual"])
def test_a_name_that_means_something_else_is_no_baseline(folder: Path, name: str) -> None:
    with pytest.raises(UsageProblem, match="a baseline cannot be called"):
        api.set_baseline("same", runs_dir=folder / "runs", name=name)


def test_a_margin_without_an_end_is_refused(folder: Path) -> None:
    with pytest.raises(UsageProblem, match="--delta is inf"):
        decided(folder, "worse", "usual", mode="non-inferiority", delta=float("inf"))


def test_a_cancelled_run_does_not_pass() -> None:
    summary = replace(
        summarize(()), cancelled_records=3, total_records=10, pass_rate=1.0, error_rate=0.3, raw_score_mean=1.0, n_scored=7
    )
    plan = msgspec.convert({"run_id": "x", "datasets": [], "candidate": {"name": "m", "provider": "p", "model": "m"}}, Plan)
    verdict = decide_gate(plan, summary, api.GateSpec())
    assert (verdict.word, verdict.passed) == ("WARNING", False)
    assert "3 of 10 records were cancelled" in verdict.reasons[0].reason


def test_a_threshold_on_a_profile_is_about_its_headline_and_its_interval(tmp_path: Path) -> None:
    graded(tmp_path, "official", ROWS, passing(ROWS, *range(10)), profile="lexam_mcq", min_score=0.85)
    verdict = decided(tmp_path, "official")
    assert verdict.word == "WARNING"
    assert verdict.reasons[0].reason.startswith("lexam_mcq 0.90 (at least 0.85), but its 95 % interval begins at 0.8")


@pytest.mark.parametrize(("lost", "word"), [(1, "PASS"), (2, "WARNING")], ids=["the twentieth", "more"])
def test_a_loss_above_a_twentieth_that_few_records_cannot_prove_is_a_warning(tmp_path: Path, lost: int, word: str) -> None:
    graded(tmp_path, "old", ROWS[:20], passing(ROWS[:20]))
    graded(tmp_path, "new", ROWS[:20], passing(ROWS[:20], *range(lost)))
    verdict = decided(tmp_path, "new", "old")
    assert (verdict.word, verdict.passed) == (word, True)
    assert ("a loss is seen" in verdict.reasons[0].reason) is (word == "WARNING")


@pytest.mark.parametrize(
    ("answer", "word", "lost"), [("Paris London Berlin", "PASS", 0.0), ("Nothing.", "WARNING", 0.1)], ids=["4 of 5", "1 of 5"]
)
def test_a_noticeable_loss_of_score_is_a_share_of_its_scale(tmp_path: Path, answer: str, word: str, lost: float) -> None:
    standard = "Paris London Berlin Warsaw Vienna"
    cases = [{"id": f"c{number}", "user_prompt": "Which cities?", "rubric": standard} for number in range(10)]
    (tmp_path / "golden.json").write_text(json.dumps({"version": "1.0.0", "cases": cases}))
    for run_id, first in (("old", standard), ("new", answer)):
        texts = {case["id"]: standard for case in cases} | {"c0": first}
        rows = [{"example_id": name, "candidate_name": "big", "response_text": text} for name, text in texts.items()]
        responses = write_rows(tmp_path / f"{run_id}.jsonl", *rows)
        options = {"judge": "scripted/judge-sound", "run_id": run_id, "runs_dir": str(tmp_path / "runs")}
        api.run(tmp_path / "golden.json", responses=str(responses), **options)
    # A loss of 0.1 and of 0.4 points, on a scale with four points between its ends.
    verdict = decided(tmp_path, "new", "old", measure="score")
    assert [reason.word for reason in verdict.reasons if reason.is_difference] == [word]
    # The pass rate changes by another number, and the decision is about the measure that was asked for.
    of_passes = decided(tmp_path, "new", "old", measure="pass_rate").difference
    assert of_passes is not None
    assert of_passes.value == pytest.approx(-lost)


def plan_with(**gates: float) -> Plan:
    members = {"run_id": "x", "datasets": [], "candidate": {"name": "m", "provider": "p", "model": "m"}, "gates": gates}
    return msgspec.convert(members, Plan)


def measured(*, low: float = 0.5) -> Summary:
    """A complete run that half of the records have passed, with an interval from `low` on."""
    interval = Interval(low=low, high=0.75, method="wilson", n=10)
    return replace(
        summarize(()),
        total_records=10,
        n_scored=10,
        error_rate=0.25,
        pass_rate=0.5,
        pass_rate_interval=interval,
        raw_score_mean=0.5,
        raw_score_mean_interval=interval,
    )


@pytest.mark.parametrize(
    "gate", [{"pass_rate": 0.5}, {"min_score": 0.5}, {"max_error_rate": 0.25}], ids=lambda gate: next(iter(gate))
)
def test_a_limit_that_is_met_exactly_is_met(gate: dict[str, float]) -> None:
    verdict = decide_gate(plan_with(**gate), measured(), api.GateSpec())
    assert (verdict.word, verdict.passed) == ("PASS", True)


def test_an_interval_that_begins_below_the_limit_is_a_warning() -> None:
    verdict = decide_gate(plan_with(pass_rate=0.5), measured(low=0.4999), api.GateSpec())
    assert (verdict.word, verdict.passed) == ("WARNING", True)


@pytest.mark.parametrize(("missing", "warned"), [(5, False), (6, True)])
def test_a_twentieth_of_the_baseline_may_be_missing_without_a_warning(tmp_path: Path, missing: int, *, warned: bool) -> None:
    graded(tmp_path, "old", ROWS, passing(ROWS))
    graded(tmp_path, "new", ROWS[missing:], passing(ROWS[missing:]))
    reasons = [finding.reason for finding in decided(tmp_path, "new", "old").reasons]
    assert (f"{missing} of 100 records of the baseline are not in the run" in reasons) is warned
