"""The book of submissions: a key has one run, and every entry is durable."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from assay.core.errors import StoreUnavailable
from assay.store.submissions import SubmissionBook, SubmissionRow

ROW = SubmissionRow(run_id="run-1", owner="ci", key="k", fingerprint="ab", answer=b"{}", at=1.0)


def test_a_submission_is_found_by_its_run_and_by_its_key_of_its_owner(tmp_path: Path) -> None:
    with closing(SubmissionBook(tmp_path / ".server" / "submissions.db")) as book:
        book.enter(ROW)
        assert (book.of("run-1"), book.under("ci", "k")) == (ROW, ROW)
        assert (book.of("run-2"), book.under("other", "k"), book.under("ci", "K")) == (None, None, None)
    with closing(SubmissionBook(tmp_path / ".server" / "submissions.db")) as again:
        assert again.under("ci", "k") == ROW


def test_submissions_without_a_key_have_nothing_to_do_with_each_other(tmp_path: Path) -> None:
    with closing(SubmissionBook(tmp_path / "book.db")) as book:
        for name in ("run-1", "run-2"):
            book.enter(msgspec.structs.replace(ROW, run_id=name, key=""))
        assert book.under("ci", "") is None
        assert [found.run_id for name in ("run-1", "run-2") if (found := book.of(name))] == ["run-1", "run-2"]


def test_a_key_whose_run_was_never_made_is_that_of_the_next_submission(tmp_path: Path) -> None:
    with closing(SubmissionBook(tmp_path / "book.db")) as book:
        book.enter(ROW)
        book.enter(msgspec.structs.replace(ROW, run_id="run-2"))
        found = book.under("ci", "k")
        assert (found and found.run_id, book.of("run-1")) == ("run-2", None)


def test_a_run_is_entered_once_and_a_failed_entry_changes_nothing(tmp_path: Path) -> None:
    with closing(SubmissionBook(tmp_path / "book.db")) as book:
        book.enter(ROW)
        with pytest.raises((sqlite3.IntegrityError, StoreUnavailable)):
            book.enter(msgspec.structs.replace(ROW, key="other"))
        assert book.of("run-1") == ROW


def test_threads_take_turns(tmp_path: Path) -> None:
    rows = [msgspec.structs.replace(ROW, run_id=f"run-{number}", key=f"k{number}") for number in range(40)]
    with closing(SubmissionBook(tmp_path / "book.db")) as book, ThreadPoolExecutor(8) as pool:
        list(pool.map(book.enter, rows))
        assert list(pool.map(lambda row: book.under("ci", row.key), rows)) == rows


def test_only_its_owner_may_read_the_book(tmp_path: Path) -> None:
    path = tmp_path / "own" / "book.db"
    SubmissionBook(path).close()
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
