"""How the distributed engine is asked for: what does not fit together or is missing is said before anything happens."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import StoreUnavailable, UsageProblem
from assay.core.runs import TemporalServer
from assay.surfaces.cli.options import placement_of
from tests.surfaces.server.serving import free_port

WITHOUT = "import sys; sys.modules['temporalio'] = None; from assay.surfaces.cli.main import main; main()"
LEDGER = "postgresql://nobody@127.0.0.1:1/none"


def connected(**members: Any) -> object:
    """What becomes of a connection with these settings."""
    connection = pytest.importorskip("assay.integrations.temporal.connection")
    server = TemporalServer(**{"address": f"127.0.0.1:{free_port()}", **members})
    return asyncio.run(connection.connect(server, environ={"EMPTY": " "}, identity="test"))


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ({"engine": "temporal", "ledger": LEDGER}, "--temporal HOST:PORT"),
        ({"engine": "temporal", "temporal": "localhost:7233"}, "--ledger postgresql://"),
        ({"engine": "temporal", "temporal": "localhost", "ledger": LEDGER}, "temporal.example.org:7233"),
    ],
)
def test_what_the_engine_needs_is_asked_for(given: dict[str, Any], hint: str) -> None:
    with pytest.raises(UsageProblem) as problem:
        placement_of(given)
    assert hint in problem.value.hint


def test_a_server_in_the_environment_alone_changes_no_run() -> None:
    assert placement_of({"temporal": "localhost:7233", "ledger": ""}).temporal is None


def test_a_missing_extra_is_told_with_the_line_that_installs_it() -> None:
    command = [sys.executable, "-c", WITHOUT, "worker", "--temporal", "localhost:7233", "--ledger", LEDGER]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 2
    assert "pip install 'assay[temporal,postgres]'" in ended.stderr


def test_a_server_that_does_not_answer_is_named() -> None:
    with pytest.raises(StoreUnavailable, match=r"no Temporal server answers at 127\.0\.0\.1:\d+ \(namespace 'default'\)"):
        connected()


def test_a_key_comes_from_the_environment() -> None:
    with pytest.raises(UsageProblem, match="the environment variable EMPTY is not set"):
        connected(api_key_variable="EMPTY")


def test_a_certificate_without_its_key_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="belong together"):
        connected(client_certificate=str(tmp_path / "own.pem"))


def test_a_certificate_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "own.pem").write_text("none", encoding="utf-8")
    with pytest.raises(StoreUnavailable, match="the certificates do not lead to the Temporal server"):
        connected(client_certificate=str(tmp_path / "own.pem"), client_key=str(tmp_path / "own.pem"))


def test_a_certificate_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match=r"none\.pem' cannot be read: no such file"):
        connected(server_ca=str(tmp_path / "none.pem"))
