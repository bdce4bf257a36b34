"""The ledger: what is durable, who may append, and in which order everything is read back."""

import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from assay.core.errors import RunNotFound, StoreUnavailable, UsageProblem
from assay.core.outcome import Cancelled, Failed, Invalid
from assay.store.ledger import SHARD_SIZE, Claim, Entry, Fenced, Ledger, RecordRow
from assay.store.sqlite import create_ledger, open_ledger
from tests.store.samples import attempt, done, full_disk, graded, new_ledger, rows, run_python

FULL_DISK = """
import resource, sys
from pathlib import Path
from assay.core.errors import StoreUnavailable
from assay.store.sqlite import open_ledger
from tests.store.samples import rows
ledger = open_ledger(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
try:
    ledger.replace_records(rows(20_000))
except StoreUnavailable as problem:
    print(ledger.counts(), problem.message.count("\\n"), problem.hint != "")
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(ledger.replace_records(rows(20_000)))
"""


def test_a_new_run_is_queued(tmp_path: Path) -> None:
    ledger: Ledger = create_ledger(tmp_path / "l", plan=b"{}", plan_sha256="ab", at=2.5)
    run = ledger.run()
    assert (run.plan, run.plan_sha256, run.state, run.states) == (b"{}", "ab", "queued", (("queued", 2.5),))
    assert (run.is_cancel_requested, run.notes, ledger.counts(), ledger.shards()) == (False, {}, {"open": 0}, [])
    ledger.close()


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


def test_states_follow_by_compare_and_set(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path)
    assert ledger.set_state("queued", "validating", at=2.0)
    assert not ledger.set_state("queued", "validating", at=3.0)
    assert ledger.run().states == (("queued", 1.0), ("validating", 2.0))
    ledger.close()


def test_the_last_value_of_a_note_counts(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path)
    ledger.set_note("final_state", "completed")
    ledger.set_note("final_state", "cancelled")
    assert ledger.run().notes == {"final_state": "cancelled"}
    ledger.close()


def test_records_are_replaced_as_a_whole(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path, records=5)
    ledger.append(ledger.claim(0, owner="a"), [done(0)])
    assert ledger.replace_records(rows(2)) == 2
    assert (ledger.counts(), ledger.replace_records([])) == ({"open": 2}, 0)
    assert list(ledger.finished()) == []
    ledger.close()


def test_an_input_that_breaks_off_changes_nothing(tmp_path: Path) -> None:
    def breaking() -> Iterator[RecordRow]:
        yield from rows(2)
        raise OSError("the dataset is gone")

    ledger = new_ledger(tmp_path, records=3)
    with pytest.raises(OSError, match="the dataset is gone"):
        ledger.replace_records(breaking())
    assert ledger.counts() == {"open": 3}
    ledger.close()


def test_a_record_that_broke_its_contract_has_its_outcome_at_once(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path)
    issues = b'[{"code":"x","message":"w","severity":"warning"},{"code":"string_too_long","message":"too long","severity":"error"}]'
    ledger.replace_records([RecordRow(0, None, "0", None, issues), RecordRow(1, "q", "1", b"{}"), RecordRow(2, None, "2", None)])
    assert ledger.counts() == {"invalid_record": 2, "open": 1}
    assert [record.position for record in ledger.open_records(0)] == [1]
    outcomes = [record.outcome for record in ledger.finished()]
    assert outcomes == [Invalid(code="string_too_long", message="too long"), None, Invalid(code="invalid_record", message="")]
    ledger.close()


def test_shards_are_those_with_open_records(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path, records=2 * SHARD_SIZE + 1)
    ledger.append(ledger.claim(1, owner="a"), [done(SHARD_SIZE + number) for number in range(SHARD_SIZE)])
    assert ledger.shards() == [0, 2]
    assert [record.position for record in ledger.open_records(2)] == [2 * SHARD_SIZE]
    ledger.close()


def test_open_records_know_what_was_tried(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path)
    claim = ledger.claim(0, owner="a")
    tries = (attempt(reply=None, error_code="timeout"), attempt(round=2))
    ledger.append(claim, [Entry(1, tries[:1]), done(0)])
    ledger.append(claim, [Entry(1, tries[1:])])
    assert [(record.position, record.attempts) for record in ledger.open_records(0)] == [(1, tries), (2, ())]
    ledger.close()


def test_a_zombie_is_fenced_and_leaves_nothing(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path)
    stale = ledger.claim(0, owner="a")
    assert ledger.claim(0, owner="b") == Claim(0, 2)
    with pytest.raises(Fenced):
        ledger.append(stale, [done(0)])
    assert (ledger.counts(), next(ledger.finished()).attempts) == ({"open": 3}, ())
    ledger.close()


def test_nobody_appends_without_a_claim(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path)
    with pytest.raises(Fenced):
        ledger.append(Claim(0, 1), [done(0)])
    ledger.close()


def test_the_first_outcome_counts(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path, records=1)
    claim = ledger.claim(0, owner="a")
    ledger.append(claim, [done(0, score=0.5)])
    ledger.append(claim, [Entry(0, (), Failed(code="timeout", message="late"))])
    assert (ledger.counts(), next(ledger.finished()).outcome) == ({"evaluated": 1, "open": 0}, graded(0.5))
    ledger.close()


def test_an_append_sees_the_cancel_of_another_process(tmp_path: Path) -> None:
    ledger, other = new_ledger(tmp_path), open_ledger(tmp_path / "ledger.sqlite")
    claim = ledger.claim(0, owner="a")
    assert not ledger.append(claim, [done(0)])
    other.request_cancel()
    other.close()
    assert ledger.append(claim, [done(1)])
    assert ledger.run().is_cancel_requested
    ledger.close()


def test_closing_gives_open_records_one_outcome_and_leaves_the_others(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path)
    ledger.append(ledger.claim(0, owner="a"), [done(1)])
    assert ledger.close_open(Cancelled()) == 2
    assert ledger.counts() == {"cancelled": 2, "evaluated": 1, "open": 0}
    ledger.close()


def test_finished_records_come_in_order_with_all_they_have(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path, records=4)
    claim = ledger.claim(0, owner="a")
    ledger.append(claim, [Entry(2, (attempt(round=1),)), done(1)])
    ledger.append(claim, [Entry(2, (attempt(round=2),)), done(0)])
    found = [(record.record.position, len(record.attempts), record.outcome is not None) for record in ledger.finished()]
    assert found == [(0, 2, True), (1, 2, True), (2, 2, False), (3, 0, False)]
    assert [each.round for each in list(ledger.finished())[2].attempts] == [1, 2]
    ledger.close()


def test_the_ledger_can_be_written_while_it_is_read(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path)
    reading = ledger.finished()
    assert next(reading).outcome is None
    ledger.close_open(Cancelled())
    assert [record.outcome for record in reading] == [None, None]
    ledger.close()


def test_a_folder_that_cannot_be_written_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreUnavailable, match="Not a directory") as problem:
        create_ledger(tmp_path / "file" / "ledger", plan=b"{}", plan_sha256="ab", at=1.0)
    assert problem.value.hint


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "ledger").write_bytes(b"not a database, but long enough to be taken for one" * 100)
    with pytest.raises(StoreUnavailable, match="file is not a database") as problem:
        open_ledger(tmp_path / "ledger")
    assert "damaged" in problem.value.hint


def test_a_damaged_database_is_named(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    new_ledger(tmp_path, records=500).close()
    content = path.read_bytes()
    path.write_bytes(content[:8192] + b"\xff" * (len(content) - 8192))
    ledger = open_ledger(path)
    with pytest.raises(StoreUnavailable, match="malformed"):
        list(ledger.finished())
    with pytest.raises(StoreUnavailable, match="malformed"):
        ledger.run()
    ledger.close()


def test_a_damaged_row_is_named(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path)
    ledger.append(ledger.claim(0, owner="a"), [Entry(0, (attempt(),))])
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


def test_a_closed_ledger_is_the_callers_mistake(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path)
    ledger.close()
    with pytest.raises(sqlite3.ProgrammingError):
        ledger.run()


def test_an_append_on_a_full_disk_is_all_or_nothing(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path)
    claim = ledger.claim(0, owner="a")
    with full_disk(), pytest.raises(StoreUnavailable, match="cannot use"):
        ledger.append(claim, [done(0), done(1)])
    assert ledger.counts() == {"open": 3}
    ledger.append(claim, [done(0), done(1)])
    assert ledger.counts() == {"evaluated": 2, "open": 1}
    ledger.close()


def test_a_full_disk_changes_nothing_and_the_same_call_works_later(tmp_path: Path) -> None:
    new_ledger(tmp_path).close()
    assert run_python(FULL_DISK, str(tmp_path / "ledger.sqlite")).splitlines() == ["{'open': 3} 0 True", "20000"]
