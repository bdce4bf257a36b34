"""The commands on runs that exist: list, show, verify, replay, retry, cancel, purge, check."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from assay.testing import example_dataset
from tests.commands import assay, document, write_broken_batch
from tests.models.vendor_stub import Asked, Said, vendor

ARTIFACTS = 8


@pytest.fixture(autouse=True)
def folder(workplace: Path) -> Path:
    """A working folder with a dataset that has an invalid record, and a finished run over it."""
    write_broken_batch()
    assay("run", "batch.json", "--model", "scripted/echo", "--judge", "scripted/judge-4", "--run-id", "good", "--quiet")
    return workplace


@pytest.fixture
def failed() -> str:
    """A run whose candidate never answered."""
    options = ("--model", "scripted/fail-invalid_request", "--judge", "scripted/judge-4", "--run-id", "failed", "--quiet")
    assay("run", "batch.json", *options)
    return "failed"


def test_runs_are_listed_the_newest_first(failed: str) -> None:
    lines = assay("runs").stdout.splitlines()
    assert [line.split()[0] for line in lines[1:3]] == [failed, "good"]
    assert lines[-1] == "2 runs"


def test_a_report_says_what_the_first_error_of_each_kind_was(failed: str) -> None:
    text = assay("show", failed).stdout
    assert "error       invalid_request (sum-1): the script fails with 'invalid_request'\n" in text
    assert "error       missing_required_field (sum-2): " in text


@pytest.mark.usefixtures("failed")
def test_the_list_may_be_limited_and_read_by_programs() -> None:
    listed = document(assay("runs", "--json", "--limit", "1"))["runs"]
    assert [(run["run_id"], run["state"], run["total_records"]) for run in listed] == [("failed", "completed_with_failures", 5)]


def test_an_empty_folder_has_no_runs() -> None:
    result = assay("runs", "--runs-dir", "elsewhere")
    assert (result.exit_code, result.stdout) == (0, "0 runs\n")
    assert result.stderr == "hint: there is no folder 'elsewhere'; --runs-dir names another folder\n"


@pytest.fixture
def begun() -> Iterator[subprocess.Popen[bytes]]:
    """A run that a process works on until it is killed."""
    options = ("--model", "scripted/slow-60000", "--judge", "scripted/judge-4", "--run-id", "begun", "--quiet")
    with subprocess.Popen([sys.executable, "-m", "assay", "run", "batch.json", *options]) as process:
        deadline = time.monotonic() + 60
        while document(assay("runs", "--json"))["runs"][0]["state"] != "running" and time.monotonic() < deadline:
            time.sleep(0.05)
        yield process
        process.kill()


def test_a_run_that_was_killed_is_interrupted_and_not_running(begun: subprocess.Popen[bytes]) -> None:
    assert "begun" in assay("runs").stdout.splitlines()[1]
    assert " running " in assay("runs").stdout.splitlines()[1]
    assert f"UNFINISHED  process {begun.pid} works on it; assay resume waits for its end\n" in assay("show", "begun").stdout
    begun.kill()
    begun.wait()
    assert " interrupted " in assay("runs").stdout.splitlines()[1]
    assert document(assay("runs", "--json"))["runs"][0]["state"] == "running"
    shown = assay("show", "begun").stdout
    assert shown.startswith("begun · interrupted\n")
    assert "UNFINISHED  the run can be resumed; finished records are not repeated\n" in shown


@pytest.mark.parametrize("name", ["good", "go", "latest", "runs/good"])
def test_a_run_is_found_by_id_beginning_latest_or_path(name: str) -> None:
    result = assay("show", name)
    assert result.exit_code == 0
    assert result.stdout.startswith("good · completed with failures\n")


@pytest.mark.parametrize("command", ["show", "verify", "replay", "retry", "cancel", "resume", "purge"])
def test_a_run_that_is_not_there_is_one_clear_line(command: str) -> None:
    result = assay(command, "nothing")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("assay: there is no run 'nothing' in 'runs'\nhint: ")


def test_a_run_is_shown_to_programs_as_it_was_printed_at_its_end() -> None:
    assert list(document(assay("show", "good", "--json"))) == ["run_id", "state", "run_dir", "counts", "metrics", "gate"]


def test_a_record_is_shown_with_prompt_answer_score_and_attempts() -> None:
    text = assay("show", "good", "sum-1").stdout
    assert text.startswith("sum-1 · passed · score 4 on 1-5 · scripted/echo\n")
    for wanted in ("prompt\n    What is 2 + 2?\n", "answer\n    What is 2 + 2?", "judge, round 1", "candidate, round 1"):
        assert wanted in text


def test_an_invalid_record_is_shown_with_what_is_wrong() -> None:
    assert assay("show", "good", "sum-2").stdout.startswith("sum-2 · error\n\nerror\n    missing_required_field: ")


def test_a_record_is_shown_to_programs_whole() -> None:
    assert set(document(assay("show", "good", "sum-1", "--json"))) == {"input", "prediction", "attempts"}


def test_a_record_that_is_not_there_is_one_clear_line() -> None:
    result = assay("show", "good", "sum-9")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "sum-9" in result.stderr


def test_untouched_files_are_as_published() -> None:
    result = assay("verify", "latest")
    assert (result.exit_code, result.stdout) == (0, "good · every file is as it was published\n")


def test_a_changed_file_is_named() -> None:
    path = Path("runs/good/predictions.jsonl")
    path.chmod(0o644)
    path.write_bytes(path.read_bytes().replace(b"What is", b"What was"))
    result = assay("verify", "good")
    assert result.exit_code == 1
    assert "  predictions.jsonl: was changed" in result.stdout
    assert document(assay("verify", "good", "--json"))["is_unchanged"] is False


def test_metrics_come_out_the_same() -> None:
    result = assay("replay", "good")
    assert (result.exit_code, result.stdout) == (0, "good · every metric comes out the same\n")


def test_a_changed_score_makes_metrics_differ() -> None:
    path = Path("runs/good/predictions.jsonl")
    path.chmod(0o644)
    path.write_bytes(path.read_bytes().replace(b'"passed":true', b'"passed":false', 1))
    result = assay("replay", "good")
    assert result.exit_code == 1
    assert "metrics_summary.json: pass_count is 4, but the records give 3" in result.stdout
    assert document(assay("replay", "good", "--json"))["is_same"] is False


def test_failed_records_are_run_again_as_a_new_run(failed: str) -> None:
    result = assay("retry", failed, "--run-id", "again", "--json")
    assert (result.exit_code, document(result)["run_id"]) == (2, "again")
    assert document(result)["counts"]["total_records"] == 4
    assert "repeats     the records of failed with an error\n" in assay("show", "again").stdout


def test_a_run_of_another_folder_is_repeated_there(failed: str) -> None:
    Path("runs").rename("archive")
    result = assay("retry", f"archive/{failed}", "--run-id", "again", "--quiet")
    assert "next        assay show again sum-1 --runs-dir archive\n" in result.stdout
    assert Path("archive/again").is_dir()


def test_a_run_without_failed_records_is_not_repeated() -> None:
    result = assay("retry", "good")
    assert result.exit_code == 2
    assert "run 'good' has no records with an error" in result.stderr


def test_a_run_that_has_ended_is_not_cancelled() -> None:
    result = assay("cancel", "good")
    assert result.exit_code == 2
    assert "run 'good' has ended" in result.stderr


def test_nothing_is_purged_before_its_time() -> None:
    swept, named = assay("purge"), assay("purge", "good")
    assert (swept.exit_code, swept.stdout) == (0, "0 files of 0 runs removed\n")
    assert (named.exit_code, named.stdout) == (2, "")
    assert "earlier only with --force and a --reason" in named.stderr


def test_a_purge_of_one_run_names_the_cache_that_it_leaves(folder: Path) -> None:
    Path("run.yaml").write_text("{datasets: [batch.json], cache: {folder: kept}}", encoding="utf-8")
    assay("run", "run.yaml", "--model", "scripted/echo", "--judge", "scripted/judge-4", "--run-id", "kept", "--quiet")
    purged = assay("purge", "kept", "--force", "--reason", "erasure request 18")
    assert f"the cache of replies in '{folder / 'kept'}' is shared by runs and stays" in purged.stdout
    assert "the cache of replies" not in assay("purge", "good", "--force", "--reason", "erasure request 19").stdout


def test_an_early_purge_needs_a_reason_and_leaves_the_manifest() -> None:
    refused, purged = (assay("purge", "good", "--force", *reason) for reason in ((), ("--reason", "erasure request 17")))
    assert (refused.exit_code, purged.exit_code) == (2, 0)
    assert "predictions.jsonl" in purged.stdout
    assert sorted(path.name for path in Path("runs/good").iterdir()) == ["purged.json", "run_manifest.json"]
    assert "erasure request 17" in Path("runs/audit.jsonl").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("purge --force --reason x", "--force needs a run"),
        ("purge good --reason x", "--reason is for --force"),
        ("check", "missing argument 'RUNFILE'"),
        ("check none.yaml", "cannot read 'none.yaml': no such file"),
        ("runs --limit 0", "invalid value for '--limit'"),
    ],
)
def test_bad_usage_is_one_clear_line_and_exit_2(arguments: str, message: str) -> None:
    result = assay(*arguments.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"assay: {message}")


def test_a_good_run_file_is_ready() -> None:
    Path("good.yaml").write_text(
        "datasets: [batch.json]\ncandidates: [scripted/echo]\njudges: [scripted/judge-4]\n", encoding="utf-8"
    )
    result = assay("check", "good.yaml")
    assert (result.exit_code, result.stdout) == (0, "good.yaml · ready to run\n")


def test_a_dataset_in_place_of_a_run_file_is_one_problem() -> None:
    result = assay("check", "batch.json")
    assert (result.exit_code, result.stdout.splitlines()) == (
        2,
        [
            "batch.json · 1 problem",
            "  'batch.json' is a dataset (batch_v1), not a run file; check it with: assay validate batch.json",
        ],
    )


def test_a_run_file_that_cannot_be_read_is_not_also_missing_everything() -> None:
    Path("broken.yaml").write_text("datasets: [batch.json\n", encoding="utf-8")
    lines = assay("check", "broken.yaml").stdout.splitlines()
    assert [line[:20] for line in lines] == ["broken.yaml · 1 prob", "  broken.yaml:1:22: "]


def test_every_problem_of_a_run_file_is_listed_with_its_place() -> None:
    Path("bad.yaml").write_text("dataset: [batch.json]\ncandidates: [openai/gpt-5]\nconcurency: 3\n", encoding="utf-8")
    result = assay("check", "bad.yaml")
    assert result.exit_code == 2
    assert "bad.yaml:3:1: unknown key 'concurency'" in result.stdout
    assert document(assay("check", "bad.yaml", "--json"))["is_ready"] is False


# Probes of the models of a run file


def probe_file(url: str, *, judge: str = "scripted/judge-4") -> None:
    """A run file with one candidate behind an address, which is sent a key."""
    provider = f'providers: [{{name: shop, kind: openai, base_url: "{url}/v1", key_variable: TEST_KEY}}]'
    lines = ("datasets: [batch.json]", provider, "candidates: [shop/gpt-5.6]", f"judges: [{judge}]")
    Path("probe.yaml").write_text("\n".join(lines), encoding="utf-8")


def shop(asked: Asked) -> Said:
    """A vendor that accepts one key."""
    if asked.headers.get("Authorization") != "Bearer sk-right-key-1":
        return Said({"error": {"message": f"bad key {asked.headers.get('Authorization')}", "code": "invalid_api_key"}}, status=401)
    if asked.method == "GET":
        return Said({"data": [{"id": "gpt-5.6"}]})
    choice = {"message": {"role": "assistant", "content": "4"}, "finish_reason": "stop"}
    return Said({"model": "gpt-5.6", "choices": [choice], "usage": {"prompt_tokens": 14, "completion_tokens": 3}})


def test_a_probe_shows_each_model_and_that_all_are_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_KEY", "sk-right-key-1")
    with vendor(shop) as (url, asked):
        probe_file(url)
        result = assay("check", "probe.yaml", "--probe")
        json_result = assay("check", "probe.yaml", "--probe", "--json")
    assert (result.exit_code, result.stdout.splitlines()[0]) == (0, "shop/gpt-5.6 · candidate")
    assert result.stdout.endswith(
        "\nscripted/judge-4 · judge\n  ok   reachable            answers without a network; not called\n\n2 models ready\n"
    )
    assert [request.method for request in asked] == ["GET", "POST"] * 2
    shown = document(json_result)
    assert (shown["is_ready"], shown["problems"]) == (True, [])
    candidate = shown["models"][0]
    assert (candidate["name"], candidate["role"], candidate["is_well"]) == ("shop/gpt-5.6", "candidate", True)
    assert candidate["checks"][1] == {"subject": "key", "standing": "ok", "says": "accepted"}


def test_a_probe_that_finds_a_problem_ends_with_2_and_shows_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_KEY", "sk-canary-of-a-wrong-key")
    with vendor(shop) as (url, _):
        probe_file(url)
        result = assay("check", "probe.yaml", "--probe")
        json_result = assay("check", "probe.yaml", "--probe", "--json")
    assert (result.exit_code, json_result.exit_code) == (2, 2)
    assert result.stdout.endswith("\n1 of 2 models to fix\n")
    assert "canary" not in result.output + json_result.output


def test_a_run_file_that_cannot_be_planned_is_not_probed() -> None:
    with vendor(shop) as (url, asked):
        probe_file(url)
        result = assay("check", "probe.yaml", "--probe")
    assert result.exit_code == 2
    assert "the environment variable TEST_KEY with the key of provider 'shop' is not set" in result.stdout
    assert asked == []


# What retention leaves


def expire(run: str, days: int) -> None:
    """The run as if it had ended so many days ago."""
    path = Path("runs", run, "run_manifest.json")
    ended = datetime.now(UTC) - timedelta(days=days)
    path.chmod(0o644)
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), "completed_at": ended.isoformat()}))


def test_a_purged_run_is_listed_from_its_manifest(failed: str) -> None:
    assay("purge", "good", "--force", "--reason", "x")
    newest, purged = document(assay("runs", "--json"))["runs"]
    assert (newest["run_id"], newest["note"]) == (failed, "")
    figures = [purged[name] for name in ("run_id", "state", "total_records", "pass_rate", "note")]
    assert figures == ["good", "completed_with_failures", 5, None, "its metrics were removed by retention"]
    assert "good: its metrics were removed by retention\n2 runs\n" in assay("runs").stdout


def test_a_run_whose_records_have_expired_keeps_its_figures_in_the_list() -> None:
    expire("good", 31)
    assert assay("purge").exit_code == 0
    (listed,) = document(assay("runs", "--json"))["runs"]
    assert (listed["pass_rate"], listed["note"]) == (1.0, "its records were removed by retention")


@pytest.mark.parametrize("days", [31, 181])
def test_a_run_is_shown_and_repeated_after_its_artifacts_have_expired(days: int) -> None:
    expire("good", days)
    assay("purge")
    models = ("--model", "scripted/echo", "--judge", "scripted/judge-4")
    shown, again = assay("show", "good"), assay("run", "batch.json", *models, "--run-id", "good", "--quiet")
    assert (shown.exit_code, again.exit_code) == (0, 0)
    assert all("was removed by retention" in " ".join(result.stdout.split()) for result in (shown, again))


def test_a_purged_run_that_reached_its_gates_is_shown() -> None:
    options = ("--judge", "scripted/judge-4", "--run-id", "gated", "--pass-rate", "0.5", "--quiet")
    assay("run", "batch.json", "--model", "scripted/echo", *options)
    assay("purge", "gated", "--force", "--reason", "x")
    assert "\nMET " in assay("show", "gated").stdout
    assert document(assay("runs", "--json", "--limit", "1"))["runs"][0]["passed"] is True


def test_verify_names_what_retention_has_removed() -> None:
    assay("purge", "good", "--force", "--reason", "erasure request 17")
    result = assay("verify", "good")
    assert result.exit_code == 0
    assert result.stdout.startswith("good · every file that is left is as it was published\n")
    assert "  predictions.jsonl: was removed by retention, 20" in result.stdout
    assert {gone["reason"] for gone in document(assay("verify", "good", "--json"))["removed"]} == {"erasure request 17"}


def test_a_purge_does_not_make_an_old_run_the_latest(failed: str) -> None:
    assay("purge", "good", "--force", "--reason", "x")
    assert assay("show", "latest").stdout.startswith(f"{failed} · ")


# Runs that are damaged


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"run_id": "good", "status": "completed"}'])
def test_a_damaged_manifest_has_a_row_of_its_own(failed: str, content: str) -> None:
    path = Path("runs/good/run_manifest.json")
    path.chmod(0o644)
    path.write_text(content)
    result = assay("runs")
    assert result.exit_code == 0
    assert {line.split()[0] for line in result.stdout.splitlines()[1:3]} == {failed, "good"}
    assert result.stdout.endswith("2 runs · 1 damaged\n")
    assert assay("show", "good").stderr.startswith("assay: ")


def test_a_damaged_ledger_has_a_row_of_its_own() -> None:
    folder = Path("runs/.active/junk")
    folder.mkdir(parents=True)
    (folder / "ledger.sqlite").write_bytes(b"junk" * 1000)
    states = {run["run_id"]: run["state"] for run in document(assay("runs", "--json"))["runs"]}
    assert states == {"good": "completed_with_failures", "junk": "damaged"}


def test_a_damaged_run_keeps_no_other_from_being_purged(failed: str) -> None:
    expire(failed, 31)
    path = Path("runs/good/run_manifest.json")
    path.chmod(0o644)
    path.write_text("{")
    result = assay("purge")
    assert result.exit_code == 1
    assert result.stdout.startswith(f"{failed} · predictions.jsonl")
    assert "good · nothing removed: " in result.stdout
    assert [entry["run_id"] for entry in document(assay("purge", "--json"))["problems"]] == ["good"]


# Names that are none


@pytest.mark.parametrize("command", ["show", "verify", "replay", "retry", "cancel", "resume", "purge"])
def test_an_empty_name_is_no_run(command: str) -> None:
    result = assay(command, "")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("assay: the name of the run is empty\n")


@pytest.mark.parametrize("name", ["", "go", "latest"])
def test_an_early_purge_wants_the_whole_id(name: str) -> None:
    result = assay("purge", name, "--force", "--reason", "x")
    assert (result.exit_code, result.stdout) == (2, "")
    assert assay("verify", "good").stdout == "good · every file is as it was published\n"


@pytest.mark.parametrize("name", ["good", "runs/good", "runs/good/"])
def test_an_early_purge_takes_an_id_or_a_path(name: str) -> None:
    assert assay("purge", name, "--force", "--reason", "x").exit_code == 0
    assert '"run_id":"good"' in Path("runs/audit.jsonl").read_text(encoding="utf-8")


def test_a_run_is_found_from_inside_its_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("runs/good")
    assert assay("verify", ".").stdout == "good · every file is as it was published\n"


def test_a_repetition_needs_a_name_or_none(failed: str) -> None:
    result = assay("retry", failed, "--run-id", "")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "'' cannot be a run id" in result.stderr


def test_a_record_is_shown_without_the_rest_of_the_input() -> None:
    path = Path("runs/good/cases.jsonl")
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-40])
    assert "What is 2 + 2?" in assay("show", "good", "sum-1").stdout


def test_a_run_in_which_nothing_could_be_evaluated_does_not_pass(failed: str) -> None:
    gate = document(assay("show", failed, "--json"))["gate"]
    assert (gate["passed"], gate["reasons"]) == (False, ["nothing could be evaluated"])


def test_a_record_that_does_not_exist_is_answered_with_the_nearest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("golden.json").write_bytes(example_dataset("golden_v1"))
    assay("run", "golden.json", "--model", "scripted/echo", "--judge", "scripted/judge-5", "--run-id", "near", "--quiet")
    assert assay("show", "near", "som-1").stderr.endswith("hint: did you mean 'sum-1'?\n")
    assert assay("show", "neer").stderr.endswith("hint: did you mean 'near'?\n")
    assert assay("show", "latst").stderr.endswith("hint: did you mean 'latest'?\n")
