"""`assay init`: what it writes is valid and runs at once, it asks only in a terminal, and it overwrites nothing."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import assay
from assay import api
from assay.core.contract import CONTRACTS
from assay.surfaces.cli.program import program
from assay.surfaces.cli.setup import RUN_FILE
from tests.sent_requests import texts_sent
from tests.surfaces.cli.test_completion import read_until


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(program, arguments, prog_name="assay")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("contract", CONTRACTS)
def test_every_contract_begins_with_a_clean_dataset_and_a_run_that_passes(contract: str) -> None:
    assert invoke("init", "first", "--contract", contract, "--yes").exit_code == 0
    (dataset,) = (path for path in Path("first").iterdir() if path.name != RUN_FILE)
    report = assay.validate(dataset)
    assert (report.contract, report.outcome, report.issues) == (contract, "accepted", ())
    assert invoke("check", f"first/{RUN_FILE}").exit_code == 0
    assert invoke("run", f"first/{RUN_FILE}", "--quiet").exit_code == 0


@pytest.mark.parametrize(
    ("contract", "facts"),
    [
        ("golden_v1", ["Saturday 9-13", "two US cups"]),
        ("batch_v1", ["within 30 days", "next working day and arrive after two to three", "valid for three years"]),
        ("legal_eval_v1", ["An offer", "200 euros", "one day late"]),
        ("conversation_v1", ["Wien Hbf to Venezia Santa Lucia on 2026-11-20", "It leaves at 06:25, arrives at 14:05"]),
    ],
)
def test_the_candidate_is_sent_everything_that_a_starter_asks_for(folder: Path, contract: str, facts: list[str]) -> None:
    assert invoke("init", "first", "--contract", contract, "--yes").exit_code == 0
    (dataset,) = (path for path in (folder / "first").iterdir() if path.name != RUN_FILE)
    sent = texts_sent(dataset, folder)
    records = {"golden_v1": 5, "batch_v1": 3, "legal_eval_v1": 3, "conversation_v1": 2}[contract]
    assert len(sent.candidate) == records
    assert [fact for fact in facts if not any(fact in text for text in sent.candidate)] == []
    assert not any('"context"' in line for line in dataset.read_text(encoding="utf-8").splitlines() if contract == "golden_v1")


def test_the_judge_of_recorded_replies_sees_what_they_answer(folder: Path) -> None:
    invoke("init", "first", "--contract", "conversation_v1", "--yes")
    sent = texts_sent(folder / "first" / "conversation.yaml", folder, candidates=[])
    assert sent.candidate == []
    (last,) = (text for text in sent.judge if "How long does it take?" in text)
    assert "It leaves at 06:25, arrives at 14:05" in last


def test_without_a_terminal_nothing_is_asked_and_three_commands_are_named() -> None:
    result = invoke("init", "my folder")
    assert (result.exit_code, result.stderr) == (0, "")
    assert [line.split("assay ")[1] for line in result.stdout.splitlines()[-3:]] == [
        "validate 'my folder/questions.json'",
        "run 'my folder/evaluation.yaml'",
        "show latest",
    ]


def test_a_real_model_answers_and_judges_and_is_checked_first() -> None:
    result = invoke("init", "--model", "openai/gpt-5-mini")
    assert "next   assay check evaluation.yaml" in result.stdout
    assert Path(RUN_FILE).read_text(encoding="utf-8").count("  - openai/gpt-5-mini") == 2
    assert "scripted/" not in Path(RUN_FILE).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [RUN_FILE, "questions.json"])
def test_what_exists_is_left_alone_and_nothing_is_written_beside_it(folder: Path, name: str) -> None:
    Path(name).write_text("mine", encoding="utf-8")
    result = invoke("init")
    assert (result.exit_code, result.stderr.splitlines()[0]) == (2, f"assay: '{name}' exists, and nothing is overwritten")
    assert [(path.name, path.read_text(encoding="utf-8")) for path in folder.iterdir()] == [(name, "mine")]


@pytest.mark.parametrize(
    ("model", "hint"),
    [
        (
            "opnai/gpt",
            "did you mean 'openai'? for another server add an entry with its base_url to providers, use --base-url, "
            "or write litellm/opnai/MODEL",
        ),
        ("gpt-5", "did you mean openai/gpt-5?"),
    ],
)
def test_a_model_that_no_run_could_use_is_refused_before_anything_is_written(folder: Path, model: str, hint: str) -> None:
    result = invoke("init", "--model", model)
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (2, f"hint: {hint}")
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("model", ["openai:gpt-5", "openai/gpt-5:", "litellm/a, b #c", "replay:/tmp/replies.jsonl"])
def test_whatever_a_run_file_can_name_is_written_into_one(model: str) -> None:
    assert invoke("init", "--model", model).exit_code == 0
    assert api.run_file_models("evaluation.yaml").candidates == (model,)


def test_a_scripted_model_that_does_not_exist_is_refused_with_those_that_do(folder: Path) -> None:
    result = invoke("init", "--model", "scripted/nope")
    assert (result.exit_code, result.stderr.splitlines()[0]) == (2, "assay: there is no scripted model 'nope'")
    assert "hint: there are echo, empty, mcq-first" in result.stderr
    assert list(folder.iterdir()) == []


def test_a_place_where_no_folder_can_be_is_said_to_be_none() -> None:
    Path("mine").write_text("mine", encoding="utf-8")
    result = invoke("init", "mine")
    assert (result.exit_code, result.stderr.splitlines()[0]) == (2, "assay: 'mine' is not a folder")


def test_nothing_is_written_where_nothing_can_be_said(folder: Path) -> None:
    command = f'"{sys.executable}" -m assay init first >&-'
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.splitlines()[0]) == (2, "assay: standard output is closed")
    assert list(folder.iterdir()) == []


def test_what_it_says_fits_the_terminal() -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "assay", "init", "first", "--yes"]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env={**os.environ, "COLUMNS": "80"}) as run:
        shown = read_until(ours, "show latest")
    assert run.returncode == 0
    assert [line for line in shown.replace("\r", "").splitlines() if len(line) > 80] == []


def test_in_a_terminal_the_contract_is_chosen_by_the_name_that_is_shown_too() -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "assay", "init", "first"]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True) as run:
        read_until(ours, "Number or name [1]")
        os.write(ours, b"batch\n")
        assert "'batch' is not a number from 1 to 4 or one of the names" in read_until(ours, "Number or name [1]")
        for answer, awaited in (("batch_v1", "needs no key"), ("", "show latest")):
            os.write(ours, f"{answer}\n".encode())
            read_until(ours, awaited)
    assert run.returncode == 0
    assert "dataset_version" in Path("first", "questions.json").read_text(encoding="utf-8")


def test_in_a_terminal_it_asks_for_the_contract_and_the_model_and_asks_again() -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "assay", "init", "first"]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True) as run:
        shown = [read_until(ours, "Number or name [1]")]
        for answer, awaited in (("2", "needs no key"), ("gpt-5", "has no provider prefix"), ("", "show latest")):
            os.write(ours, f"{answer}\n".encode())
            shown.append(read_until(ours, awaited))
    assert run.returncode == 0
    assert "conversation_v1  recorded conversations with tool calls" in shown[0]
    assert Path("first", "questions.jsonl").is_file()
