"""`assay run` and `assay resume` through their entry, with scripted models."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from assay.testing import example_dataset
from tests.commands import assay, document, write_broken_batch
from tests.crash.job import wait_until_heard
from tests.crash.provider import CountingProvider
from tests.engine.run_settings import batch_record, write_batch

ASSAY = [sys.executable, "-m", "assay"]
GOLDEN = ("golden.json", "--model", "scripted/echo")
RUN_FILE = """
datasets: [golden.json]
candidates: [scripted/echo]
judges: [scripted/judge-5]
gates: {pass_rate: 0.8}
run: {id: filed, runs_dir: kept}
"""


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[CountingProvider]:
    """A provider that answers once, and then not until it lets go: a run that asks it hears signals by then, and is not over."""
    with CountingProvider(lambda *_: (200, "4", {})) as provider:
        provider.hold(after=1)
        monkeypatch.setenv("OPENAI_BASE_URL", provider.base_url)
        yield provider


def interrupted(command: list[str], provider: CountingProvider) -> tuple[int, str, str]:
    """The exit code of a run that is stopped with Ctrl-C, what it printed and what it complained of."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        provider.wait_for(2, while_alive=run)
        run.send_signal(signal.SIGINT)
        wait_until_heard(run, signal.SIGINT)
        provider.let_go()
        printed, complaints = run.communicate(timeout=60)
    return run.returncode, printed, complaints
    return False


@pytest.fixture(autouse=True)
def folder(workplace: Path) -> Path:
    """A working folder with a dataset of each kind, one of them with an invalid record, and a run file."""
    Path("questions.jsonl").write_bytes(example_dataset("legal_eval_v1"))
    write_broken_batch()
    Path("run.yaml").write_text(RUN_FILE, encoding="utf-8")
    return workplace


def test_a_run_ends_with_a_report_and_eight_artifacts() -> None:
    result = assay("run", *GOLDEN, "--judge", "scripted/judge-4", "--run-id", "first", "--pass-rate", "0.8")
    assert result.exit_code == 0
    assert "pass rate   100.0 % [56.6 %, 100.0 %] · 5 of 5\n" in result.stdout
    assert "MET         pass rate 100.0 % (at least 80.0 %), mean score 4.00 (at least 3.50)" in result.stdout
    assert (
        len(
            [
                path
                for path in Path("runs/first").iterdir()
                if path.name not in ("cases.jsonl", "responses.jsonl", "eval_results.json")
            ]
        )
        == 8
    )


def test_golden_cases_are_listed_with_score_verdict_and_reason() -> None:
    lines = assay("run", *GOLDEN, "--judge", "scripted/judge-2").stdout.splitlines()
    assert "sum-1       2  not passed  The script gives every answer the score 2." in lines


def test_other_records_are_listed_on_request_only() -> None:
    options = ("questions.jsonl", "--model", "scripted/mcq-first")
    assert "\nsums:1 " not in assay("run", *options).stdout
    assert "\nsums:1 " in assay("run", *options, "--verbose").stdout


def test_json_is_one_document_with_progress_beside_it() -> None:
    result = assay("run", *GOLDEN, "--judge", "scripted/judge-4", "--run-id", "first", "--json")
    assert list(document(result)) == ["run_id", "state", "run_dir", "counts", "metrics", "gate"]
    assert document(result)["counts"]["evaluated_records"] == 5
    gate = document(result)["gate"]
    assert (gate["passed"], gate["reasons"]) == (True, [])
    assert [(check["name"], check["met"]) for check in gate["gates"]] == [
        ("pass_rate", True),
        ("min_score", True),
        ("max_error_rate", True),
    ]
    assert result.stderr.startswith("run first · 5 records · scripted/echo\n5/5 records · 100 % · ")


def test_a_quiet_run_keeps_standard_error_empty() -> None:
    assert assay("run", *GOLDEN, "--judge", "scripted/judge-4", "--quiet").stderr == ""


def test_a_missed_gate_exits_1_and_says_why() -> None:
    result = assay("run", *GOLDEN, "--judge", "scripted/judge-2", "--pass-rate", "0.8", "--min-score", "3.5")
    assert result.exit_code == 1
    assert "MISSED      pass rate 0.0 % is below 80.0 %\nMISSED      mean score 2.00 is below 3.50\n" in result.stdout


def test_a_run_without_any_grade_exits_2() -> None:
    result = assay("run", "golden.json", "--model", "scripted/fail-invalid_request", "--judge", "scripted/judge-4")
    assert result.exit_code == 2
    assert "NO RESULT   nothing could be evaluated\n" in result.stdout


def test_several_candidates_stand_side_by_side() -> None:
    result = assay("run", *GOLDEN, "--model", "scripted/empty", "--judge", "scripted/judge-4", "--run-id", "both")
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.stdout.splitlines() if " completed " in line] == ["scripted/echo", "scripted/empty"]


def test_json_of_several_candidates_is_a_list_of_runs() -> None:
    result = assay("run", *GOLDEN, "--model", "scripted/empty", "--judge", "scripted/judge-4", "--run-id", "both", "--json")
    assert [run["run_id"] for run in document(result)["runs"]] == ["both-scripted-echo", "both-scripted-empty"]


def test_records_are_listed_worst_first() -> None:
    rows = Path("questions.jsonl").read_text(encoding="utf-8").splitlines()
    rows[1] = rows[1].replace('"correct_choice_ids": ["A"]', '"correct_choice_ids": ["B"]')
    Path("mixed.jsonl").write_text("\n".join(rows), encoding="utf-8")
    lines = assay("run", "mixed.jsonl", "--model", "scripted/mcq-first", "--verbose").stdout.splitlines()
    listed = [re.split(" {2,}", line)[:3] for line in lines if line.startswith("sums:")]
    assert listed[:2] == [["sums:2", "0.00", "not passed"], ["sums:1", "1.00", "passed"]]


def test_a_report_names_the_artifacts_that_are_gone() -> None:
    assay("run", "questions.jsonl", "--model", "scripted/say-B", "--run-id", "old")
    assay("purge", "old", "--force", "--reason", "asked to")
    result = assay("show", "old")
    assert result.exit_code == 0
    assert 'missing     "runs/old/predictions.jsonl" was removed by retention\n' in result.stdout


def test_the_lowest_scores_are_named_with_a_reason() -> None:
    lines = assay("run", "questions.jsonl", "--model", "scripted/say-B").stdout.splitlines()
    start = lines.index(next(line for line in lines if line.startswith("worst")))
    assert lines[start + 1].split()[0] == "0.00"
    assert "selected B; correct" in lines[start + 1]


def test_slices_with_several_values_are_in_the_report() -> None:
    options = ("golden.json", "questions.jsonl", "--model", "scripted/mcq-first", "--judge", "scripted/judge-4")
    names = [line.split()[:2] for line in assay("run", *options).stdout.splitlines() if line.startswith("dataset  ")]
    assert len([words for words in names if len(words) == 2]) >= 2


def test_markdown_takes_the_place_of_the_report() -> None:
    result = assay("run", *GOLDEN, "--judge", "scripted/judge-2", "--pass-rate", "0.8", "--quiet", "--markdown")
    assert (result.exit_code, result.stderr) == (1, "")
    assert result.stdout.startswith("## Evaluation: MISSED\n\n- **MISSED** · scripted/echo: pass rate 0.0 % is below 80.0 %\n")


def test_markdown_goes_to_a_file_with_links_that_lead_from_there(folder: Path) -> None:
    Path("out").mkdir()
    result = assay("run", *GOLDEN, "--judge", "scripted/judge-4", "--run-id", "first", "--json", "--markdown", "out/summary.md")
    assert document(result)["run_id"] == "first"
    assert result.stderr.endswith("first: MET · report in out/summary.md\n")
    assert "(<../runs/first/failures.jsonl>)" in (folder / "out/summary.md").read_text(encoding="utf-8")


def test_a_finished_run_is_told_again_as_markdown() -> None:
    assay("run", *GOLDEN, "--judge", "scripted/judge-4", "--run-id", "first")
    assert assay("resume", "first", "--markdown", "-").stdout.startswith("## Evaluation: MET\n")


def test_a_dry_run_shows_the_plan_and_leaves_nothing_behind() -> None:
    result = assay("run", *GOLDEN, "--judge", "scripted/judge-4", "--dry-run", "--max-error-rate", "0")
    assert result.exit_code == 0
    assert "records     5 to evaluate\n" in result.stdout
    assert "error rate at most 0.0 % · pass rate, mean score: defaults of golden_v1\n" in result.stdout
    assert not Path("runs").exists()


def test_a_dry_run_tells_one_number_of_calls() -> None:
    """Of a rubric each criterion is a call, which the lines of calls and of costs both count."""
    rubric = [{"id": name, "title": f"Says {name}", "weight": 1} for name in "abc"]
    row = {"schema_version": "legal_eval_v1", "dataset": "law", "task_type": "rubric_qa", "prompt": "Advise.", "rubric": rubric}
    Path("law.jsonl").write_text("\n".join(json.dumps({**row, "id": f"r{number}"}) for number in range(2)), encoding="utf-8")
    said = assay("run", "law.jsonl", "--model", "scripted/echo", "--judge", "scripted/judge-4", "--dry-run").stdout
    assert "calls       2 calls of candidates · 6 of judges · before any retry\n" in said
    assert "cost        free: local or scripted models only (8 calls)\n" in said


def test_a_dry_run_of_many_records_says_about_how_often_judges_are_asked() -> None:
    write_batch(Path("many.json"), *(batch_record(f"q-{number}") for number in range(401)))
    said = assay("run", "many.json", "--model", "scripted/echo", "--judge", "scripted/judge-4", "--dry-run").stdout
    assert "calls       401 calls of candidates · about 401 of judges · before any retry\n" in said


def test_a_dry_run_as_json_has_the_whole_plan() -> None:
    plan = document(assay("run", *GOLDEN, "--judge", "scripted/judge-4", "--dry-run", "--json", "--seed", "7"))
    assert (plan["valid_records"], plan["plans"][0]["seed"]) == (5, 7)


def test_everything_that_is_wrong_is_said_at_once_before_any_call() -> None:
    result = assay("run", "golden.json", "missing.json", "--model", "nowhere/x", "--model", "scripted/nobody")
    lines = result.stderr.splitlines()
    assert (result.exit_code, result.stdout, Path("runs").exists()) == (2, "", False)
    assert lines[0] == f"assay: {len(lines) - 2} problems"
    assert [word for word in ("missing.json", "nowhere", "nobody", "judge") if word not in result.stderr] == []


def test_a_run_file_says_it_all() -> None:
    result = assay("run", "run.yaml", "--json")
    assert (result.exit_code, document(result)["run_id"]) == (0, "filed")
    assert Path("kept/filed/run_manifest.json").exists()


def test_a_finished_run_of_the_same_name_and_settings_is_shown_again() -> None:
    first, second = (assay("run", *GOLDEN, "--judge", "scripted/judge-4", "--run-id", "same", "--json") for _ in range(2))
    assert first.stdout == second.stdout


def test_an_empty_name_is_refused() -> None:
    result = assay("run", *GOLDEN, "--judge", "scripted/judge-4", "--run-id", "")
    assert (result.exit_code, result.stderr.splitlines()[0]) == (2, "assay: --run-id is empty")


def test_the_same_name_with_other_settings_is_refused() -> None:
    assay("run", *GOLDEN, "--judge", "scripted/judge-4", "--run-id", "same")
    result = assay("run", *GOLDEN, "--judge", "scripted/judge-5", "--run-id", "same")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "run 'same' has ended, and was made with other settings" in result.stderr


def test_a_golden_run_without_gates_of_its_own_is_decided_by_those_of_its_contract() -> None:
    result = assay("run", *GOLDEN, "--judge", "scripted/judge-3")
    assert result.exit_code == 1
    assert "MISSED      pass rate 0.0 % is below 80.0 %, the default of golden_v1\n" in result.stdout


def test_given_answers_are_graded_without_a_candidate() -> None:
    answers = [{"example_id": f"sum-{number}", "candidate_name": "human", "response_text": "4"} for number in range(1, 6)]
    Path("answers.jsonl").write_text("\n".join(map(json.dumps, answers)), encoding="utf-8")
    result = assay("run", "golden.json", "--responses", "answers.jsonl", "--judge", "scripted/judge-4")
    assert result.exit_code == 0
    assert "candidate   human · answers from a file\n" in result.stdout


def test_an_invalid_record_is_marked_or_keeps_the_run_from_starting() -> None:
    options = ("batch.json", "--model", "scripted/echo", "--judge", "scripted/judge-4")
    skipped, rejected = assay("run", *options), assay("run", *options, "--on-invalid", "reject")
    assert (skipped.exit_code, rejected.exit_code) == (0, 2)
    assert "records     5 in total · 4 graded · 4 passed · 0 not passed · 1 error · 1 of them invalid\n" in skipped.stdout


def test_limit_and_sample_choose_records() -> None:
    options = ("questions.jsonl", "--model", "scripted/mcq-first", "--json", "--quiet")
    limited, sampled = (document(assay("run", *options, *more)) for more in (("--limit", "2"), ("--sample", "3", "--seed", "1")))
    assert [run["counts"]["total_records"] for run in (limited, sampled)] == [2, 3]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("run", "nothing to run"),
        ("run run.yaml run.yaml", "two run files are named: 'run.yaml' and 'run.yaml'"),
        ("run golden.json --pass-rate 2", "invalid value for '--pass-rate'"),
        ("run golden.json --concurrency 0", "invalid value for '--concurrency'"),
        ("run golden.json --on-invalid maybe", "invalid value for '--on-invalid'"),
        ("run golden.json --modle x/y", "no such option '--modle'"),
        ("run golden.json --json --markdown", "--json and --markdown both want standard output"),
        ("run run.yaml --markdown golden.json", "--markdown 'golden.json' is named like a dataset or a run file"),
        ("run golden.json --markdown missing/x.md", "--markdown 'missing/x.md': there is no folder 'missing'"),
        ("run golden.json --dry-run --markdown", "--markdown reports on a run, and --dry-run makes none"),
        ("resume nothing", "there is no run 'nothing' in 'runs'"),
        ("resume", "missing argument 'RUN'"),
    ],
)
def test_bad_usage_is_one_clear_line_and_exit_2(arguments: str, message: str) -> None:
    result = assay(*arguments.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"assay: {message}")


FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="needs a device that is always full")


@needs_full
@pytest.mark.parametrize(
    ("options", "again"),
    [
        (("--markdown", FULL), "assay resume first --markdown /dev/full"),
        (("--junit", FULL), "assay resume first --junit /dev/full"),
        (("--charts", "charts", "--markdown", FULL), "assay resume first --charts charts --markdown /dev/full"),
    ],
)
def test_a_report_that_cannot_be_written_leaves_the_run_and_says_where(options: tuple[str | Path, ...], again: str) -> None:
    result = assay("run", *GOLDEN, "--judge", "scripted/judge-4", "--run-id", "first", "--quiet", *options)
    assert result.exit_code == 2
    assert result.stderr == (
        "assay: cannot use '/dev/full': no space left on device\n"
        "  run 'first' has ended (completed), and its artifacts are in runs/first\n"
        f"hint: free some space on that disk, or write to another place; then write it again: {again}\n"
    )


@needs_full
def test_a_report_that_cannot_be_written_keeps_no_other_from_being_written() -> None:
    options = ("--run-id", "first", "--quiet", "--json", "--markdown", FULL, "--junit", "first.xml")
    result = assay("run", *GOLDEN, "--judge", "scripted/judge-4", *options)
    assert (result.exit_code, document(result)["state"], Path("first.xml").is_file()) == (2, "completed", True)


@needs_full
@pytest.mark.parametrize(
    ("options", "again"),
    [
        (("--run-id", "both"), "then repeat the same command: no call is repeated\n"),
        ((), "then write one for each run: assay resume RUN --markdown /dev/full\n"),
    ],
)
def test_a_report_on_several_runs_that_cannot_be_written_names_them_all(options: tuple[str, ...], again: str) -> None:
    models = ("--model", "scripted/echo", "--model", "scripted/empty", "--judge", "scripted/judge-4")
    result = assay("run", "golden.json", *models, *options, "--quiet", "--markdown", FULL)
    assert (result.exit_code, result.stderr.count("has ended (completed)"), result.stderr.endswith(again)) == (2, 2, True)
    assert assay("run", "golden.json", *models, *options, "--quiet").exit_code == 0


@needs_full
def test_a_gate_whose_report_cannot_be_written_says_what_was_decided() -> None:
    assay("run", *GOLDEN, "--judge", "scripted/judge-1", "--run-id", "first", "--quiet")
    result = assay("gate", "first", "--markdown", FULL)
    assert result.exit_code == 2
    assert "  MISSED is decided, and in the audit log\n" in result.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is closed to root")
@pytest.mark.parametrize("option", ["--markdown", "--junit", "--charts"])
def test_a_report_into_a_read_only_folder_is_refused_before_any_call(option: str) -> None:
    Path("closed").mkdir(mode=0o500)
    result = assay("run", *GOLDEN, "--judge", "scripted/judge-4", option, "closed/report.md")
    assert (result.exit_code, Path("runs").exists()) == (2, False)
    assert "this user may not write to" in result.stderr


def test_what_a_model_says_cannot_move_the_cursor() -> None:
    result = assay("run", "golden.json", "--model", "scripted/say-\x1b[2J[red]", "--judge", "scripted/judge-4", "--run-id", "odd")
    shown = assay("show", "odd", "sum-1").stdout
    assert "\x1b" not in result.stdout + result.stderr + shown
    assert "␛[2J[red]" in shown


def test_an_interrupted_run_exits_130_and_is_resumed(held: CountingProvider) -> None:
    slow = ["run", "golden.json", "--model", "openai/m", "--judge", "scripted/judge-4", "--run-id", "slow"]
    code, printed, complaints = interrupted([*ASSAY, *slow, "--concurrency", "1"], held)
    assert code == 130
    assert "UNFINISHED  the run can be resumed" in printed
    assert complaints.endswith("assay: interrupted\nhint: resume with: assay resume slow\n")
    resumed = assay("resume", "slow", "--json")
    assert (resumed.exit_code, document(resumed)["counts"]["evaluated_records"]) == (0, 5)


@pytest.mark.parametrize(
    ("named", "hint"),
    [
        (["--run-id", "two"], "hint: repeat the same command: it resumes this run, then starts the others\n"),
        ([], " (with --run-id, repeating the same command resumes all candidates)\n"),
    ],
)
def test_an_interrupted_run_of_several_candidates_keeps_the_shape_of_its_json(
    held: CountingProvider, named: list[str], hint: str
) -> None:
    models = ["--model", "openai/m", "--model", "scripted/echo", "--judge", "scripted/judge-4", "--concurrency", "1"]
    code, printed, complaints = interrupted([*ASSAY, "run", "golden.json", *models, *named, "--json"], held)
    assert (code, [found["state"] for found in json.loads(printed)["runs"]]) == (130, ["running"])
    assert "assay: interrupted; not started: scripted/echo\n" in complaints
    assert complaints.endswith(hint)


def test_a_run_that_is_cancelled_elsewhere_exits_130_and_is_sealed(held: CountingProvider) -> None:
    slow = ["run", "golden.json", "--model", "openai/m", "--judge", "scripted/judge-4", "--run-id", "slow", "--json"]
    environment = {**os.environ, "NO_COLOR": "1"}
    with subprocess.Popen([*ASSAY, *slow, "--concurrency", "1"], stdout=subprocess.PIPE, env=environment, text=True) as run:
        held.wait_for(2, while_alive=run)
        cancelled = assay("cancel", "slow")
        held.let_go()
        printed, _ = run.communicate(timeout=60)
    assert (cancelled.exit_code, run.returncode) == (0, 130)
    assert json.loads(printed)["state"] == "cancelled"
    assert json.loads(printed)["counts"]["cancelled_records"] > 0


def test_a_finished_run_is_shown_when_it_is_resumed() -> None:
    assay("run", *GOLDEN, "--judge", "scripted/judge-2", "--run-id", "done", "--pass-rate", "0.5")
    result = assay("resume", "done")
    assert (result.exit_code, result.stderr) == (1, "")
    assert result.stdout.startswith("done · completed\n")
