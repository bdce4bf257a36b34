"""Batches on the command line: the price before, progress while they are waited for, and what became of them."""

import json
from pathlib import Path

import msgspec
import pytest

from assay.core.manifest import BatchEntry
from assay.engine.records.run_counters import BatchProgress
from assay.presentation.run import run_sections
from assay.surfaces.cli.progress import RunProgress, Throughput, plain_line
from assay.surfaces.reporters.formats import ReportSettings
from assay.surfaces.reporters.terminal import report_text
from tests.commands import assay
from tests.engine.batch_runs import write_run
from tests.models.batch_provider import BatchProvider, Faults
from tests.surfaces.cli.test_progress import Screen, at
from tests.surfaces.conftest import HOSTILE
from tests.surfaces.run_views import golden_view


def test_a_detached_run_ends_well_and_says_how_its_batches_are_collected(tmp_path: Path) -> None:
    with BatchProvider() as provider:
        run_file = write_run(tmp_path, provider)
        left = assay("run", run_file, "--detach", "--run-id", "x", "--runs-dir", tmp_path / "runs")
        listed = assay("runs", "--runs-dir", tmp_path / "runs")
        shown = assay("show", "x", "--runs-dir", tmp_path / "runs")
        collected = assay("resume", "x", "--runs-dir", tmp_path / "runs")
    assert (left.exit_code, collected.exit_code) == (0, 0)
    assert "1 batch of shop/model-1 for 6 requests, price unknown; answers within 24 hours" in left.stderr
    assert "the batches are submitted\nhint: collect them with: assay resume x" in left.stderr
    assert "waits for 1 batch with 6 requests" in listed.stdout
    assert "UNFINISHED  the run waits for 1 batch with 6 requests; assay resume collects" in shown.stdout
    assert "batches     1 batch · 6 of 6 requests answered" in collected.stdout


def test_the_report_says_what_became_of_requests_without_an_answer(tmp_path: Path) -> None:
    with BatchProvider(faults=Faults(expired=2, duplicated=1)) as provider:
        result = assay("run", write_run(tmp_path, provider), "--run-id", "x", "--runs-dir", tmp_path / "runs", "--quiet")
    wanted = "1 batch · 4 of 6 requests answered · batch_expired 2 · 2 sent as single calls · 1 repeated line of results"
    assert wanted in result.stdout


def test_a_dry_run_shows_the_batches_and_both_prices(tmp_path: Path) -> None:
    pytest.importorskip("genai_prices", reason="prices come with the extra 'prices'")
    with BatchProvider() as provider:
        write_run(tmp_path, provider)
    shown = assay(
        "run", tmp_path / "law.jsonl", "--model", "openai/gpt-4.1", "--batch", "--dry-run", OPENAI_API_KEY="sk-test-123456"
    )
    assert "1 batch of openai/gpt-4.1 for 6 requests, about $0.00" in shown.stdout
    assert " instead of $0.01" in shown.stdout
    assert "unanswered  sent as single calls at full price" in shown.stdout


def test_a_dry_run_says_the_batches_as_json_too(tmp_path: Path) -> None:
    with BatchProvider() as provider:
        shown = assay("run", write_run(tmp_path, provider, batch={"max_requests": 4}), "--dry-run", "--json")
    document = json.loads(shown.stdout)
    assert document["estimate"]["models"][0]["batches"] == 2
    assert document["plans"][0]["batch"]["max_requests"] == 4


@pytest.mark.parametrize("option", [("--detach",), ("--batch-fallback", "fail")])
def test_options_about_batches_want_batches(option: tuple[str, ...], tmp_path: Path) -> None:
    with BatchProvider() as provider:
        write_run(tmp_path, provider)
    refused = assay("run", tmp_path / "law.jsonl", "--model", "scripted/echo", *option)
    assert (refused.exit_code, f"{option[0]} is for batches" in refused.stderr) == (2, True)


def test_a_server_is_not_asked_for_batches(tmp_path: Path) -> None:
    refused = assay("run", tmp_path / "law.jsonl", "--model", "a/b", "--batch", "--server", "http://127.0.0.1:9")
    assert (refused.exit_code, "--batch cannot be used with --server" in refused.stderr) == (2, True)


def test_a_refused_batch_ends_the_command_with_everything_that_is_wrong(tmp_path: Path) -> None:
    problems = tuple({"code": "bad", "message": f"no {n}", "line": n} for n in (1, 2))
    with BatchProvider(faults=Faults(problems=problems)) as provider:
        refused = assay("run", write_run(tmp_path, provider), "--run-id", "x", "--runs-dir", tmp_path / "runs", "--quiet")
    assert refused.exit_code == 2
    assert "line 1: no 1 (bad); line 2: no 2 (bad)" in refused.stderr
    assert "assay resume x" in refused.stderr


WAITING = BatchProgress(batches=3, merged=1, requests=120_000, done=61_204)


def test_a_line_of_a_log_says_how_the_batches_stand() -> None:
    line = plain_line(at(3_700.0, 0, batch=WAITING), Throughput())
    assert line == "1 of 3 batches collected · 61,204/120,000 requests done · 1 h 02 min so far"


def test_the_live_display_says_how_the_batches_stand_and_why_a_look_failed() -> None:
    screen = Screen()
    with RunProgress("nightly", console=screen.console) as progress:
        progress.watch(at(10.0, 0, batch=BatchProgress(batches=1, merged=0, requests=9, done=0, problem=f"busy {HOSTILE}")))
    assert "waiting for the provider · 0 of 1 batch collected · 0/9 requests done · last error: busy " in screen.text
    assert "\x1b[31m" not in screen.file.getvalue()


def test_a_log_is_not_filled_while_nothing_changes(capsys: pytest.CaptureFixture[str]) -> None:
    with RunProgress("nightly") as progress:
        for second in range(0, 290, 10):
            progress.watch(at(float(second), 0, batch=WAITING))
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_words_of_a_provider_are_harmless_in_a_report() -> None:
    batch = BatchEntry(
        number=1,
        batch_id="b",
        status="ended",
        submitted_at="",
        requests=1,
        bytes=1,
        input_sha256="",
        **dict.fromkeys(("answered", "asked_live", "duplicates", "unknown", "malformed"), 0),
        errors={HOSTILE: 1},
        problems=(HOSTILE,),
    )
    view = msgspec.structs.replace(golden_view(), manifest=msgspec.structs.replace(golden_view().manifest, batches=(batch,)))
    said = "".join(report_text(run_sections(view), ReportSettings(version="1")))
    assert "batches     1 batch · 0 of 1 request answered" in said
    assert "\x1b" not in said


def test_a_run_that_was_handed_in_as_it_was_asked_for_is_no_error_of_a_pipeline(tmp_path: Path) -> None:
    with BatchProvider() as provider:
        words = ("--detach", "--run-id", "x", "--runs-dir", tmp_path / "runs", "--github", "--junit", tmp_path / "j.xml")
        left = assay("run", write_run(tmp_path, provider), *words)
    assert (left.exit_code, "::error" in left.output) == (0, False)
    assert "<error" not in (tmp_path / "j.xml").read_text()
