"""The file of a ledger: who can read it, what damages it, and what a full disk does."""

import shutil
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import LedgerLost, RunNotFound, StoreUnavailable, UsageProblem
from assay.core.model_call import Reply
from assay.store.ledger import SHARD_SIZE, CommitEntry
from assay.store.sqlite import FORMAT, SqliteLedger, create_ledger, open_ledger
from tests.store.samples import attempt, done, new_ledger


def test_only_the_owner_can_read_the_files_of_a_ledger(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {"ledger.sqlite": 0o600, "ledger.sqlite-wal": 0o600, "ledger.sqlite-shm": 0o600}
    ledger.close()


def test_a_run_is_created_once(tmp_path: Path) -> None:
    new_ledger(tmp_path).close()
    with pytest.raises(UsageProblem, match="holds a run already"):
        create_ledger(tmp_path / "ledger.sqlite", plan=b"{}", plan_sha256="cd", at=1.0)
    assert [path.name for path in tmp_path.iterdir()] == ["ledger.sqlite"]
    ledger = open_ledger(tmp_path / "ledger.sqlite")
    assert ledger.run().plan_sha256 == "ab"
    ledger.close()


def test_a_missing_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunNotFound, match="there is no run"):
        open_ledger(tmp_path / "none")


def test_a_damaged_row_is_named(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path)
    ledger.append(ledger.claim(0, owner="a"), [CommitEntry(0, (attempt(),))])
    with sqlite3.connect(ledger.path) as database:
        database.execute("UPDATE attempt SET body = x'7b'")
    database.close()
    with pytest.raises(StoreUnavailable, match="damaged row"):
        ledger.open_records(0)
    ledger.close()


def test_a_ledger_of_another_version_is_refused(tmp_path: Path) -> None:
    new_ledger(tmp_path).close()
    database = sqlite3.connect(tmp_path / "ledger.sqlite")
    database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(StoreUnavailable, match="has format 99"):
        open_ledger(tmp_path / "ledger.sqlite")


def test_a_ledger_of_the_first_version_goes_on_with_the_shards_that_it_had(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path, records=2 * SHARD_SIZE + 1)
    ledger.append(ledger.claim(1, owner="a"), [done(SHARD_SIZE + number) for number in range(SHARD_SIZE)])
    ledger.database.execute("DROP TABLE span")
    for column in ("row", "head"):
        ledger.database.execute(f"ALTER TABLE record DROP COLUMN {column}")
    ledger.database.execute("PRAGMA user_version = 1")
    ledger.close()
    again = open_ledger(tmp_path / "ledger.sqlite")
    assert (again.shards(), again.open_records(2)[0].position) == ([0, 2], 2 * SHARD_SIZE)
    assert again.database.execute("PRAGMA user_version").fetchone() == (FORMAT,)
    assert {(finished.record.row, finished.record.head) for finished in again.finished()} == {(b"", b"")}
    again.close()


def test_a_closed_ledger_is_the_callers_mistake(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path)
    ledger.close()
    with pytest.raises(sqlite3.ProgrammingError):
        ledger.run()


@pytest.mark.parametrize(("length", "statements"), [(10, 1), (1 << 20, 3)], ids=["short", "long"])
def test_short_results_are_inserted_together_and_long_ones_a_few_at_a_time(tmp_path: Path, length: int, statements: int) -> None:
    ledger = new_ledger(tmp_path)
    claim = ledger.claim(0, owner="w")
    said: list[str] = []
    ledger.database.set_trace_callback(said.append)
    tried = attempt(reply=Reply(text="x" * length))
    ledger.append(claim, [CommitEntry(position, (tried,), None) for position in range(3)])
    assert sum(statement.startswith("INSERT INTO attempt") for statement in said) == statements
    assert [len(record.attempts) for record in ledger.open_records(0)] == [1, 1, 1]
    ledger.close()


def test_a_ledger_is_opened_while_another_process_writes(tmp_path: Path) -> None:
    writer = new_ledger(tmp_path)
    with writer.transaction():
        open_ledger(tmp_path / "ledger.sqlite").close()
    writer.close()


def made_by_version(version: int, folder: Path) -> Path:
    """A ledger as that version of the format has it, with two shards."""
    ledger = new_ledger(folder, records=SHARD_SIZE + 1)
    for column in ("row", "head"):
        ledger.database.execute(f"ALTER TABLE record DROP COLUMN {column}")
    if version < 2:
        ledger.database.execute("DROP TABLE span")
    ledger.database.execute(f"PRAGMA user_version = {version}")
    ledger.close()
    return ledger.path


def before_first(beginning: str, act: Callable[[], object], patch: pytest.MonkeyPatch) -> None:
    """Have something done in the moment before a statement that begins so is carried out for the first time."""
    connect, pending = sqlite3.connect, [act]

    def connect_traced(*arguments: Any, **options: Any) -> sqlite3.Connection:
        database = connect(*arguments, **options)
        database.set_trace_callback(lambda statement: pending.pop()() if pending and statement.startswith(beginning) else None)
        return database

    patch.setattr(sqlite3, "connect", connect_traced)


def test_a_new_run_is_whole_in_its_file_although_another_process_has_it_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others: list[sqlite3.Connection] = []

    def open_elsewhere() -> None:
        (new,) = tmp_path.glob(".ledger.sqlite-*[0-9a-f]")
        others.append(sqlite3.connect(new))
        others[0].execute("SELECT * FROM sqlite_master").fetchall()

    # With a second connection, closing the first one leaves all in the log, which does not go with the file to its name.
    before_first("INSERT INTO state", open_elsewhere, monkeypatch)
    ledger = create_ledger(tmp_path / "ledger.sqlite", plan=b"{}", plan_sha256="ab", at=1.0)
    assert (ledger.run().plan_sha256, len(others)) == ("ab", 1)
    for database in (ledger, *others):
        database.close()


@pytest.mark.parametrize("version", [1, 2])
def test_an_older_ledger_is_brought_up_to_date(tmp_path: Path, version: int) -> None:
    ledger = open_ledger(made_by_version(version, tmp_path))
    assert (ledger.shards(), ledger.database.execute("PRAGMA user_version").fetchone()) == ([0, 1], (FORMAT,))
    ledger.close()


@pytest.mark.parametrize("version", [1, 2])
def test_two_processes_that_open_an_older_ledger_bring_it_up_to_date_once(
    tmp_path: Path, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, others = made_by_version(version, tmp_path), list[SqliteLedger]()
    before_first("BEGIN IMMEDIATE", lambda: others.append(open_ledger(path)), monkeypatch)
    ledgers = [open_ledger(path), *others]
    assert [ledger.shards() for ledger in ledgers] == [[0, 1], [0, 1]]
    for ledger in ledgers:
        ledger.close()


def test_a_ledger_whose_folder_is_gone_is_rescued_into_a_folder_for_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    ledger = new_ledger(folder)
    ledger.append(ledger.claim(0, owner="a"), [done(0)])
    shutil.rmtree(folder)
    with pytest.raises(LedgerLost, match="was removed or replaced"):
        ledger.append(ledger.claim(0, owner="a"), [done(1)])
    assert ledger.rescue()
    ledger.close()
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.iterdir())}
    assert modes == {"run": 0o700, "ledger.sqlite": 0o600}
    again = open_ledger(ledger.path)
    assert (again.counts(), again.run().plan_sha256) == ({"evaluated": 1, "open": 2}, "ab")
    again.close()


def test_a_ledger_that_is_in_its_place_needs_no_rescue(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path)
    before = ledger.path.stat().st_ino
    assert not ledger.rescue()
    assert ledger.path.stat().st_ino == before
    ledger.close()


def test_what_was_spent_is_the_cost_of_all_attempts_with_a_known_price(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path)
    claim = ledger.claim(0, owner="me")
    ledger.append(
        claim, [CommitEntry(0, (attempt(cost=0.25), attempt(cost=None, call_id="judge"))), CommitEntry(1, (attempt(cost=0.5),))]
    )
    assert ledger.spent() == 0.75
