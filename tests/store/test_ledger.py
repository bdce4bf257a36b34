"""The ledger, whichever database keeps it: what is durable, who may append, and in which order everything is read back."""

from collections.abc import Iterator
from itertools import pairwise

import pytest

from assay.core.errors import RunNotFound, UsageProblem
from assay.core.outcome import CancelledOutcome, FailedOutcome, InvalidOutcome
from assay.core.runs import State
from assay.store.ledger import SHARD_BYTES, SHARD_SIZE, Claim, ClaimLost, CommitEntry, RecordRow
from tests.store.books import Book
from tests.store.samples import attempt, done, graded, rows


def test_a_new_run_is_queued(book: Book) -> None:
    ledger = book.create("r1", at=2.5)
    run = ledger.run()
    assert (run.plan, run.plan_sha256, run.state, run.states) == (b"{}", "ab", "queued", (("queued", 2.5),))
    assert (run.is_cancel_requested, run.notes, ledger.counts(), ledger.shards()) == (False, {}, {"open": 0}, [])
    ledger.close()


def test_states_follow_by_compare_and_set(book: Book) -> None:
    ledger = book.new()
    assert ledger.set_state("queued", "validating", at=2.0)
    assert not ledger.set_state("queued", "validating", at=3.0)
    assert ledger.run().states == (("queued", 1.0), ("validating", 2.0))
    ledger.close()


def test_the_last_value_of_a_note_counts(book: Book) -> None:
    ledger = book.new()
    ledger.set_note("final_state", "completed")
    ledger.set_note("final_state", "cancelled")
    assert ledger.run().notes == {"final_state": "cancelled"}
    ledger.close()


def test_records_are_replaced_as_a_whole(book: Book) -> None:
    ledger = book.new(records=5)
    ledger.append(ledger.claim(0, owner="a"), [done(0)])
    assert ledger.replace_records(rows(2)) == 2
    assert (ledger.counts(), ledger.replace_records([])) == ({"open": 2}, 0)
    assert list(ledger.finished()) == []
    ledger.close()


def test_an_input_that_breaks_off_changes_nothing(book: Book) -> None:
    def breaking() -> Iterator[RecordRow]:
        yield from rows(2)
        raise OSError("the dataset is gone")

    ledger = book.new(records=3)
    with pytest.raises(OSError, match="the dataset is gone"):
        ledger.replace_records(breaking())
    assert ledger.counts() == {"open": 3}
    ledger.close()


def test_a_record_that_broke_its_contract_has_its_outcome_at_once(book: Book) -> None:
    ledger = book.new()
    issues = b'[{"code":"x","message":"w","severity":"warning"},{"code":"string_too_long","message":"too long","severity":"error"}]'
    ledger.replace_records([RecordRow(0, None, "0", None, issues), RecordRow(1, "q", "1", b"{}"), RecordRow(2, None, "2", None)])
    assert ledger.counts() == {"invalid_record": 2, "open": 1}
    assert [record.position for record in ledger.open_records(0)] == [1]
    outcomes = [record.outcome for record in ledger.finished()]
    assert outcomes == [
        InvalidOutcome(code="string_too_long", message="too long"),
        None,
        InvalidOutcome(code="invalid_record", message=""),
    ]
    ledger.close()


def test_shards_are_those_with_open_records(book: Book) -> None:
    ledger = book.new(records=2 * SHARD_SIZE + 1)
    ledger.append(ledger.claim(1, owner="a"), [done(SHARD_SIZE + number) for number in range(SHARD_SIZE)])
    assert ledger.shards() == [0, 2]
    assert [record.position for record in ledger.open_records(2)] == [2 * SHARD_SIZE]
    ledger.close()


def _sized(*sizes: int) -> Iterator[RecordRow]:
    return (RecordRow(position, f"q{position}", "0", b"x" * size) for position, size in enumerate(sizes))


def test_a_shard_ends_before_it_holds_too_many_bytes(book: Book) -> None:
    ledger, half = book.new(), SHARD_BYTES // 2
    assert ledger.replace_records(_sized(half, half, 1, SHARD_BYTES + 1, 2, 3)) == 6
    sizes = {shard: [len(record.case) for record in ledger.open_records(shard)] for shard in ledger.shards()}
    assert sizes == {0: [half, half], 1: [1], 2: [SHARD_BYTES + 1], 3: [2, 3]}
    ledger.close()


def test_a_shard_of_large_records_is_done_when_each_of_them_is(book: Book) -> None:
    ledger = book.new()
    ledger.replace_records(_sized(SHARD_BYTES, SHARD_BYTES, 1, 1))
    ledger.append(ledger.claim(1, owner="a"), [done(1)])
    ledger.append(ledger.claim(2, owner="a"), [done(3)])
    assert ledger.shards() == [0, 2]
    assert [record.position for record in ledger.open_records(2)] == [2]
    ledger.close()


def test_another_input_has_shards_of_its_own(book: Book) -> None:
    ledger = book.new()
    ledger.replace_records(_sized(*[SHARD_BYTES] * 3))
    ledger.replace_records(_sized(1, 1, 1))
    assert ledger.shards() == [0]
    assert (len(ledger.open_records(0)), ledger.open_records(1)) == (3, [])
    ledger.close()


def test_open_records_know_what_was_tried(book: Book) -> None:
    ledger = book.new()
    claim = ledger.claim(0, owner="a")
    tries = (attempt(reply=None, error_code="timeout"), attempt(round=2))
    ledger.append(claim, [CommitEntry(1, tries[:1]), done(0)])
    ledger.append(claim, [CommitEntry(1, tries[1:])])
    assert [(record.position, record.attempts) for record in ledger.open_records(0)] == [(1, tries), (2, ())]
    ledger.close()


def test_a_zombie_is_fenced_and_leaves_nothing(book: Book) -> None:
    ledger = book.new()
    stale = ledger.claim(0, owner="a")
    assert ledger.claim(0, owner="b") == Claim(0, 2)
    with pytest.raises(ClaimLost):
        ledger.append(stale, [done(0)])
    assert (ledger.counts(), next(ledger.finished()).attempts) == ({"open": 3}, ())
    ledger.close()


def test_nobody_appends_without_a_claim(book: Book) -> None:
    ledger = book.new()
    with pytest.raises(ClaimLost):
        ledger.append(Claim(0, 1), [done(0)])
    ledger.close()


def test_the_first_outcome_counts(book: Book) -> None:
    ledger = book.new(records=1)
    claim = ledger.claim(0, owner="a")
    ledger.append(claim, [done(0, score=0.5)])
    ledger.append(claim, [CommitEntry(0, (), FailedOutcome(code="timeout", message="late"))])
    assert (ledger.counts(), next(ledger.finished()).outcome) == ({"evaluated": 1, "open": 0}, graded(0.5))
    ledger.close()


def test_an_append_sees_the_cancel_of_another_process(book: Book) -> None:
    ledger, other = book.new(), book.open("r1")
    claim = ledger.claim(0, owner="a")
    assert not ledger.append(claim, [done(0)])
    other.request_cancel()
    other.close()
    assert ledger.append(claim, [done(1)])
    assert ledger.run().is_cancel_requested
    ledger.close()


def test_closing_gives_open_records_one_outcome_and_leaves_the_others(book: Book) -> None:
    ledger = book.new()
    ledger.append(ledger.claim(0, owner="a"), [done(1)])
    assert ledger.close_open(CancelledOutcome()) == 2
    assert ledger.counts() == {"cancelled": 2, "evaluated": 1, "open": 0}
    ledger.close()


def test_finished_records_come_in_order_with_all_they_have(book: Book) -> None:
    ledger = book.new(records=4)
    claim = ledger.claim(0, owner="a")
    ledger.append(claim, [CommitEntry(2, (attempt(round=1),)), done(1)])
    ledger.append(claim, [CommitEntry(2, (attempt(round=2),)), done(0)])
    found = [(record.record.position, len(record.attempts), record.outcome is not None) for record in ledger.finished()]
    assert found == [(0, 2, True), (1, 2, True), (2, 2, False), (3, 0, False)]
    assert [each.round for each in list(ledger.finished())[2].attempts] == [1, 2]
    ledger.close()


def test_the_ledger_can_be_written_while_it_is_read(book: Book) -> None:
    ledger = book.new()
    reading = ledger.finished()
    assert next(reading).outcome is None
    ledger.close_open(CancelledOutcome())
    assert [record.outcome for record in reading] == [None, None]
    ledger.close()


def test_a_run_is_created_once(book: Book) -> None:
    book.new().close()
    with pytest.raises(UsageProblem, match="holds a run"):
        book.create("r1", at=2.0)
    ledger = book.open("r1")
    assert (ledger.run().plan_sha256, ledger.run().states) == ("ab", (("queued", 1.0),))
    ledger.close()


def test_a_missing_run_is_named(book: Book) -> None:
    with pytest.raises(RunNotFound, match="there is no run"):
        book.open("r2")


def test_a_part_of_the_finished_records_is_found_by_status_and_verdict(book: Book) -> None:
    ledger = book.new(records=5)
    failed = CommitEntry(1, (attempt(),), FailedOutcome(code="timeout", message="late"))
    ledger.append(ledger.claim(0, owner="a"), [done(0), failed, done(2), done(4)])
    total, part = ledger.finished_part(statuses=["evaluated"], passed=True, limit=2, first=1)
    assert (total, [each.record.position for each in part], len(part[0].attempts)) == (3, [2, 4], 2)
    assert ledger.finished_part(statuses=[], passed=False, limit=9) == (0, [])
    assert [each.record.position for each in ledger.latest_failures(9)] == [1]
    ledger.close()


def test_the_end_of_a_run_gets_each_record_as_its_contract_writes_it(book: Book) -> None:
    ledger = book.new()
    ledger.replace_records([RecordRow(0, "q", "0", b"{}", b"", b'{"id":"q"}', b'{"dataset":0}'), RecordRow(1, "q", "0", b"{}")])
    assert [(found.record.row, found.record.head) for found in ledger.finished()] == [
        (b'{"id":"q"}', b'{"dataset":0}'),
        (b"", b""),
    ]
    ledger.close()


def test_texts_come_back_as_they_were(book: Book) -> None:
    ledger = book.new()
    ledger.replace_records([RecordRow(0, "a\x00b\U0001f600", "0", b"\x00\xff", b"[]")])
    ledger.set_note("problem", "nul \x00 and \u00e9")
    assert next(ledger.finished()).record == RecordRow(0, "a\x00b\U0001f600", "0", b"\x00\xff", b"[]")
    assert ledger.run().notes == {"problem": "nul \x00 and \u00e9"}
    ledger.close()


def test_no_claim_from_before_holds_for_a_new_input(book: Book) -> None:
    ledger = book.new()
    stale = ledger.claim(0, owner="a")
    ledger.replace_records(rows(3))
    with pytest.raises(ClaimLost):
        ledger.append(stale, [done(0)])
    ledger.claim(0, owner="b")
    with pytest.raises(ClaimLost):
        ledger.append(stale, [done(0)])
    ledger.close()


def test_a_run_leaves_no_state_out(book: Book) -> None:
    ledger = book.new()
    with pytest.raises(AssertionError, match="completed does not follow queued"):
        ledger.set_state("queued", "completed", at=2.0)
    assert ledger.run().state == "queued"
    ledger.close()


@pytest.mark.parametrize("state", ["running", "finalizing", "completed"])
def test_the_records_of_a_run_that_is_worked_on_are_not_written_anew(book: Book, state: State) -> None:
    ledger = book.new()
    way: tuple[State, ...] = ("queued", "validating", "running", "finalizing", "completed")
    for old, new in pairwise(way[: way.index(state) + 1]):
        ledger.set_state(old, new, at=2.0)
    with pytest.raises(ClaimLost):
        ledger.replace_records(rows(7))
    assert ledger.counts() == {"open": 3}
    ledger.close()
