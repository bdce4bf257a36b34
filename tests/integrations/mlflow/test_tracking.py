"""Addresses of MLflow: malformed ones, what servers answer oddly, and secrets that stay where they were written."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import ServerProblem, UsageProblem
from assay.integrations.mlflow.tracking import check_uri, connected, shown_uri
from tests.integrations.mlflow.pushing import command, golden_file, golden_run, pushed
from tests.integrations.mlflow.serving import MlflowServer, answering

MODELS = ("--model", "scripted/say-4", "--judge", "scripted/judge-5")
ODD = b'{"experiment": {"experiment_id": "1", "name": "x", "lifecycle_stage": "active"}, "runs": "abc"}'
MALFORMED = (
    *("http://[bad", "foo://x", "http://", "localhost:5000", "http://host:none", "postgresql://[bad"),
    *("http://me:hunter22@[bad", "foo://me:hunter22@x/y", "http://me:hunter22/1@host", "http://me:hunter22#1@host"),
    *("me:hunter22@host:5000", "http://me:hunter22@host:none", "http://me:hun\nter22@[bad"),
)
SHOWN = {
    "http://me:hunter22@host:5000/path@here?token=hunter22": "http://host:5000/path@here",
    "postgresql://me:hunter22@one:5432,two:5433/db": "postgresql://one:5432,two:5433/db",
    "sqlite:///folder@home/mlflow.db": "sqlite:///folder@home/mlflow.db",
    "./mlruns": "./mlruns",
}


@pytest.fixture
def odd() -> Iterator[str]:
    with answering(200, ODD) as uri:
        yield uri


@pytest.mark.parametrize("uri", MALFORMED)
def test_what_can_be_no_address_is_refused_without_its_password(uri: str) -> None:
    with pytest.raises(UsageProblem) as problem:
        check_uri(uri)
    assert "ter22" not in problem.value.message


@pytest.mark.parametrize("uri", SHOWN)
def test_an_address_is_shown_without_login_and_query(uri: str) -> None:
    check_uri(uri)
    assert shown_uri(uri) == SHOWN[uri]


def test_a_malformed_address_is_said_before_anybody_is_asked(tmp_path: Path) -> None:
    ran = command("run", golden_file(tmp_path), *MODELS, "--mlflow", "http://me:hunter22@[bad", folder=tmp_path)
    assert (ran.returncode, (tmp_path / "runs").exists(), "hunter22" in ran.stderr) == (2, False, False)
    assert "'http://[bad' is a malformed address of MLflow" in ran.stderr


def test_a_malformed_address_in_a_suite_is_said_before_anybody_is_asked(tmp_path: Path) -> None:
    golden_file(tmp_path)
    models = "candidates: [scripted/say-4]\njudges: [scripted/judge-5]\n"
    (tmp_path / "one.yaml").write_text(f"datasets: [sums.json]\n{models}", encoding="utf-8")
    (tmp_path / "two.yaml").write_text(f"datasets: [sums.json]\n{models}mlflow: {{uri: 'foo://x'}}\n", encoding="utf-8")
    (tmp_path / "suite.yaml").write_text("suite: nightly\nruns: [{run: one.yaml}, {run: two.yaml}]\n", encoding="utf-8")
    ran = command("suite", "suite.yaml", folder=tmp_path)
    assert (ran.returncode, "'foo://x' is not an address that MLflow takes" in ran.stderr) == (2, True)
    assert not list(tmp_path.glob("runs/*/run_manifest.json"))


def test_a_server_that_answers_oddly_costs_a_finished_run_nothing_but_a_warning(
    mlflow: Any,  # noqa: ARG001  # skips without it
    odd: str,
    tmp_path: Path,
) -> None:
    ran = command("run", golden_file(tmp_path), *MODELS, "--run-id", "kept", "--mlflow", odd, folder=tmp_path)
    assert (ran.returncode, "internal error" in ran.stderr) == (0, False)
    assert f"push it later: assay mlflow push kept --uri {odd}" in ran.stderr


def test_what_an_odd_answer_raises_is_a_problem_of_the_server_without_the_password(
    mlflow: Any,  # noqa: ARG001  # skips without it
    odd: str,
    tmp_path: Path,
) -> None:
    with pytest.raises(ServerProblem, match="cannot be used: ParseError") as problem:
        pushed(golden_run(tmp_path), f"{odd.replace('http://', 'http://me:hunter22@')}?token=hunter33", "odd")
    assert ("hunter" in problem.value.message, "\n" in problem.value.message) == (False, False)


def test_a_server_that_hangs_is_given_up_within_two_minutes(mlflow: Any, server: MlflowServer) -> None:
    settings = mlflow.environment_variables
    with connected(server.uri):
        tries = 1 + settings.MLFLOW_HTTP_REQUEST_MAX_RETRIES.get()
        assert tries * settings.MLFLOW_HTTP_REQUEST_TIMEOUT.get() <= 120


def test_pushes_at_the_same_time_share_the_settings_of_the_client(mlflow: Any, server: MlflowServer) -> None:
    retries = mlflow.environment_variables.MLFLOW_HTTP_REQUEST_MAX_RETRIES
    with ExitStack() as first, ExitStack() as second:
        first.enter_context(connected(server.uri))
        second.enter_context(connected(server.uri))
        first.close()
        assert retries.get() == 2
    assert retries.get() == retries.default


def test_a_database_that_is_not_there_is_said_at_once(mlflow: Any, tmp_path: Path) -> None:  # noqa: ARG001  # skips without it
    with socket.socket() as held:
        # Bound, and nobody listens.
        held.bind(("127.0.0.1", 0))
        uri = f"postgresql://me:hunter22@127.0.0.1:{held.getsockname()[1]}/mlflow"
        with pytest.raises(ServerProblem, match="no database answers at postgresql://127"):
            pushed(golden_run(tmp_path), uri, "nowhere")
