"""`assay run --server` and its companions beside the same commands without a server."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from assay.testing import example_dataset
from tests.commands import assay, document, write_broken_batch
from tests.surfaces.server.serving import Serving

RUN = ("run", "golden.json", "--model", "scripted/echo", "--judge", "scripted/judge-5")


@pytest.fixture(autouse=True)
def folder(workplace: Path) -> Path:
    """A working folder with datasets and a run file."""
    Path("questions.jsonl").write_bytes(example_dataset("legal_eval_v1"))
    write_broken_batch()
    Path("run.yaml").write_text("datasets: [golden.json]\ncandidates: [scripted/echo]\n", encoding="utf-8")
    return workplace


@pytest.fixture
def server(service: Serving) -> tuple[str, str]:
    return ("--server", f"http://127.0.0.1:{service.port}")


@pytest.mark.parametrize(
    ("source", "options"),
    [
        ("golden.json", ("--judge", "scripted/judge-5")),
        ("golden.json", ("--judge", "scripted/judge-1", "--pass-rate", "0.8", "--limit", "2")),
        ("golden.json", ("--judge", "scripted/judge-5", "--judge", "scripted/judge-3", "--repeat", "2")),
        ("questions.jsonl", ("--judge", "scripted/judge-5", "--sample", "2", "--seed", "7", "--max-error-rate", "1")),
        ("batch.json", ("--judge", "scripted/judge-5")),
    ],
)
def test_server_gives_the_same_document_and_exit_code(server: tuple[str, str], source: str, options: tuple[str, ...]) -> None:
    there = assay("run", source, "--model", "scripted/echo", *options, *server, "--json")
    here = assay("run", source, "--model", "scripted/echo", *options, "--json", "--runs-dir", "here")
    assert (there.exit_code, document(there)["state"]) == (here.exit_code, document(here)["state"])
    for member in ("counts", "gate"):
        assert document(there)[member] == document(here)[member]
    assert document(there).keys() == document(here).keys()
    assert Path(document(there)["run_dir"]).parent == Path(document(here)["run_dir"]).parent.with_name("runs")
    assert document(there)["metrics"].keys() == document(here)["metrics"].keys()
    assert document(there)["metrics"]["pass_rate"] == document(here)["metrics"]["pass_rate"]


def test_artifacts_are_brought_here_and_verified(server: tuple[str, str]) -> None:
    result = assay(*RUN, *server, "--json")
    run_id = document(result)["run_id"]
    assert document(result)["run_dir"] == str(Path("runs", run_id).absolute())
    assert assay("verify", run_id).exit_code == 0
    assert assay("show", "latest").exit_code == 0


def test_report_and_progress_are_those_of_a_run_here(server: tuple[str, str]) -> None:
    result = assay(*RUN, *server)
    run_id = next(Path("runs").iterdir()).name
    assert result.stdout.startswith(f"{run_id} · completed\n")
    assert f"artifacts   runs/{run_id}\n" in result.stdout
    assert result.stderr.splitlines()[0] == f"run {run_id} · 5 records · scripted/echo · {server[1]}"
    assert result.stderr.splitlines()[-1].startswith("5/5 records · 100 %")


def test_artifacts_may_stay_at_the_server(server: tuple[str, str]) -> None:
    result, told = assay(*RUN, *server, "--no-download"), assay(*RUN, *server, "--no-download", "--json")
    assert "pass rate   100.0 %" in result.stdout
    assert f"artifacts   {server[1]}/v1/runs/run_" in result.stdout
    assert document(told)["run_dir"] == f"{server[1]}/v1/runs/{document(told)['run_id']}"
    assert not Path("runs").exists()


def test_markdown_and_charts_are_made_here(server: tuple[str, str]) -> None:
    result = assay(*RUN, *server, "--markdown", "summary.md", "--charts", "charts", "-q")
    assert result.exit_code == 0
    assert "predictions.jsonl](<runs/run_" in Path("summary.md").read_text(encoding="utf-8")
    assert list(Path("charts").glob("*.svg"))


def test_same_name_finds_the_same_run_again(server: tuple[str, str]) -> None:
    first, second = (document(assay(*RUN, *server, "--run-id", "build-41", "--json"))["run_id"] for _ in range(2))
    assert first == second


def test_records_that_are_left_out_are_counted(server: tuple[str, str]) -> None:
    result = assay("run", "batch.json", "--model", "scripted/echo", "--judge", "scripted/judge-5", *server)
    assert "assay: 1 invalid record is left out of 5\n" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("run.yaml",), "a run file"),
        (("golden.json", "batch.json"), "several datasets"),
        (("-",), "standard input"),
        (("golden.json", "--model", "scripted/a", "--model", "scripted/b"), "several candidates"),
        (("golden.json", "--responses", "answers.jsonl"), "--responses"),
        (("golden.json", "--config", "config.yaml"), "--config"),
        (("golden.json", "--dry-run"), "--dry-run"),
    ],
)
def test_what_a_server_cannot_do_is_refused_in_one_line(server: tuple[str, str], arguments: tuple[str, ...], what: str) -> None:
    result = assay("run", *arguments, *server)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.splitlines()[0] == f"assay: {what} cannot be used with --server"


@pytest.mark.parametrize("option", [("--key-variable", "KEY"), ("--allow-http",), ("--no-download",)])
def test_option_for_servers_without_one_is_refused(option: tuple[str, ...]) -> None:
    assert f"{option[0]} is for a server" in assay(*RUN, *option).stderr


def test_everything_that_the_server_refuses_is_listed(server: tuple[str, str]) -> None:
    Path("golden.json").write_text(json.dumps({"version": "1.0.0", "cases": [{"id": "A"}]}), encoding="utf-8")
    result = assay(*RUN, *server)
    assert result.exit_code == 2
    assert "  cases[0].rubric: rubric is required" in result.stderr


def test_server_that_is_not_there_is_told_at_once() -> None:
    result = assay(*RUN, "--server", "http://127.0.0.1:1")
    assert (result.exit_code, result.stderr.splitlines()[0]) == (
        2,
        "assay: no answer from 'http://127.0.0.1:1': connection refused",
    )


def test_key_comes_from_the_named_variable_and_is_never_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "service").mkdir()
    key = assay("keys", "add", "ci", "--scope", "write", "--runs-dir", "service/runs").stdout.split()[0]
    assert key.startswith("assay_")
    with Serving(tmp_path / "service", settings='models: ["scripted/*"]\njudges: ["scripted/*"]\n') as serving:
        url = ("--server", f"http://127.0.0.1:{serving.port}")
        without = assay(*RUN, *url)
        monkeypatch.setenv("CI_KEY", key)
        result = assay(*RUN, *url, "--key-variable", "CI_KEY")
    assert (without.exit_code, "a key is needed" in without.stderr) == (2, True)
    assert (result.exit_code, key in result.output) == (0, False)


def test_variable_without_a_key_is_named(server: tuple[str, str]) -> None:
    assert "the variable 'NO_SUCH_KEY' is not set" in assay(*RUN, *server, "--key-variable", "NO_SUCH_KEY").stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted_command_says_how_to_go_on_and_the_run_goes_on(server: tuple[str, str], number: int) -> None:
    slow = [sys.executable, "-m", "assay", "run", "golden.json", "--model", "scripted/slow-500", "--concurrency", "1"]
    # So often that it goes on for minutes, however long the command takes to end.
    process = subprocess.Popen(
        [*slow, "--repeat", "100", "--judge", "scripted/judge-5", *server, "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    run_id = process.stderr.readline().split()[1]
    process.send_signal(number)
    output, complaints = process.communicate(timeout=60)
    assert (process.returncode, json.loads(output)["run_id"]) == (130, run_id)
    assert "assay: interrupted; the run continues on the server\n" in complaints
    assert f"resume with: assay resume {run_id} --server {server[1]} · cancel it with: assay cancel {run_id} --server" in complaints
    cancelled = assay("cancel", run_id, *server)
    assert (cancelled.exit_code, run_id in cancelled.stdout) == (0, True)
    resumed = assay("resume", run_id, *server, "--json")
    assert (resumed.exit_code, document(resumed)["state"]) == (130, "cancelled")


def test_run_of_a_server_is_resumed_to_its_end(server: tuple[str, str]) -> None:
    run_id = document(assay(*RUN, *server, "--no-download", "--json"))["run_id"]
    result = assay("resume", run_id, *server)
    assert result.exit_code == 0
    assert Path("runs", run_id, "run_manifest.json").is_file()
