"""Folders of runs some of which are kept in a shared ledger that is away: they are named as such, and hide no other."""

import json
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from assay import api
from assay.core.errors import LedgerUnavailable
from tests.engine.graded_runs import graded, passing, question
from tests.store.databases import Database
from tests.surfaces.server.serving import free_port

ROWS = [question("one"), question("two")]
WITHOUT = "import sys; sys.modules['psycopg'] = None; from assay.surfaces.cli.main import main; main()"
MAX_TRIES = 5
"""So often somebody who only looks asks a server that hangs up: after 0.1, 0.2, 0.4 and 0.8 seconds again."""


class _Silent(socketserver.ThreadingTCPServer):
    """A server that hangs up on whoever comes, and counts them."""

    daemon_threads = True
    allow_reuse_address = True
    calls = 0

    def finish_request(self, request: object, client_address: object) -> None:
        del request, client_address
        self.calls += 1


@pytest.fixture
def silent() -> Iterator[_Silent]:
    with _Silent(("127.0.0.1", 0), socketserver.BaseRequestHandler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A folder with one finished run."""
    graded(tmp_path, "here", ROWS, passing(ROWS))
    return tmp_path / "runs"


def point(runs: Path, run_id: str, port: int) -> None:
    """Let a run be kept in a ledger at a port of this machine."""
    active = runs / ".active" / run_id
    active.mkdir(parents=True)
    (active / "ledger.json").write_text(json.dumps({"ledger": f"postgresql://assay@127.0.0.1:{port}/postgres"}), encoding="utf-8")


def states(runs: Path) -> dict[str, str]:
    return {listing.run_id: listing.state for listing in api.list_runs(runs)}


def test_a_ledger_that_is_away_is_waited_for_once_in_a_list_and_hides_no_other_run(runs: Path, silent: _Silent) -> None:
    for name in ("away-1", "away-2", "away-3"):
        point(runs, name, silent.server_address[1])
    away = dict.fromkeys(("away-1", "away-2", "away-3"), "unreachable")
    assert states(runs) == {"here": "completed", **away}
    assert 0 < silent.calls <= MAX_TRIES


def test_latest_is_no_older_run_while_the_ledger_of_the_newest_is_away(runs: Path) -> None:
    point(runs, "away", free_port())
    with pytest.raises(LedgerUnavailable, match="'away' seems to be the latest run: cannot use the ledger") as problem:
        api.open_run("latest", runs_dir=runs)
    assert "name another run, such as here" in problem.value.hint
    assert api.open_run("here", runs_dir=runs).result.is_finished


def test_a_run_that_its_ledger_has_no_more_is_listed_and_is_never_the_latest(runs: Path, database: Database) -> None:
    graded(runs.parent, "kept", ROWS, passing(ROWS), ledger=database.address)
    point(runs, "gone", database.port)
    assert states(runs) == {"here": "completed", "kept": "completed", "gone": "unreachable"}
    assert api.open_run("latest", runs_dir=runs).result.run_id == "kept"


def test_without_the_extra_only_the_runs_that_need_it_cannot_be_read(runs: Path) -> None:
    point(runs, "away", free_port())
    command = [sys.executable, "-c", WITHOUT, "runs", "--runs-dir", str(runs)]
    listed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    assert "away: a shared ledger needs psycopg" in listed
    assert listed.endswith("2 runs · 1 unreachable\n")
