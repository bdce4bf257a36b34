"""The cache of replies: shared, private to its owner, and without failures."""

import sqlite3
import stat
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.core.errors import StoreUnavailable
from assay.core.model_call import Reply, Usage
from assay.core.secrets import RedactRule
from assay.store.cache import CACHE_FILE, FLUSH_AFTER, MAX_WAITING, ReplyCache
from assay.store.redact import Redactor
from tests.store.samples import full_disk

REPLY = Reply(text="yes", finish_reason="stop", usage=Usage(input_tokens=3), applied={"temperature": 0.0})


def test_a_reply_is_found_again_by_another_process(tmp_path: Path) -> None:
    first = ReplyCache(tmp_path / "cache")
    first.put("a", REPLY)
    assert (first.get("a"), first.get("b")) == (REPLY, None)
    first.close()
    second = ReplyCache(tmp_path / "cache")
    assert second.get("a") == REPLY
    second.close()


def test_two_caches_share_one_file_while_both_are_open(tmp_path: Path) -> None:
    first, second = ReplyCache(tmp_path), ReplyCache(tmp_path)
    for number in range(FLUSH_AFTER):
        first.put(f"a{number}", REPLY)
        second.put(f"b{number}", REPLY)
    first.flush()
    second.flush()
    assert (first.get("b0"), second.get("a0")) == (REPLY, REPLY)
    first.close()
    second.close()


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_answer_is_not_kept(text: str, tmp_path: Path) -> None:
    cache = ReplyCache(tmp_path)
    cache.put("a", Reply(text=text))
    cache.close()
    again = ReplyCache(tmp_path)
    assert again.get("a") is None
    again.close()


def test_only_the_owner_can_read_the_cache(tmp_path: Path) -> None:
    cache = ReplyCache(tmp_path / "cache")
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "cache").iterdir()}
    assert (modes, stat.S_IMODE((tmp_path / "cache").stat().st_mode)) == ({0o600}, 0o700)
    cache.close()


def test_a_damaged_entry_counts_as_none(tmp_path: Path) -> None:
    cache = ReplyCache(tmp_path)
    cache.put("a", REPLY)
    cache.flush()
    with sqlite3.connect(tmp_path / CACHE_FILE) as database:
        database.execute("UPDATE reply SET body = x'00'")
    database.close()
    assert cache.get("a") is None
    cache.close()


def test_a_cache_that_cannot_be_used_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreUnavailable, match="Not a directory"):
        ReplyCache(tmp_path / "file" / "cache")
    (tmp_path / CACHE_FILE).write_bytes(b"not a database" * 1000)
    with pytest.raises(StoreUnavailable, match="not a database"):
        ReplyCache(tmp_path)


def test_a_full_disk_loses_nothing_that_waits(tmp_path: Path) -> None:
    cache = ReplyCache(tmp_path)
    cache.put("a", REPLY)
    with full_disk(), pytest.raises(StoreUnavailable, match="cannot use"):
        cache.flush()
    cache.close()
    again = ReplyCache(tmp_path)
    assert again.get("a") == REPLY
    again.close()


def test_what_cannot_be_written_goes_on_waiting(tmp_path: Path) -> None:
    cache, other = ReplyCache(tmp_path, busy_seconds=0.01), ReplyCache(tmp_path)
    other.database.execute("BEGIN IMMEDIATE")
    cache.put("a", REPLY)
    with pytest.raises(StoreUnavailable, match="locked"):
        cache.flush()
    other.database.execute("ROLLBACK")
    cache.close()
    assert other.get("a") == REPLY
    other.close()


def test_replies_are_written_without_being_asked_for(tmp_path: Path) -> None:
    first, second = ReplyCache(tmp_path), ReplyCache(tmp_path)
    for number in range(FLUSH_AFTER):
        first.put(f"a{number}", REPLY)
    seen = next((reply for reply in (_soon(second, "a0") for _ in range(10_000)) if reply is not None), None)
    first.close()
    second.close()
    assert seen == REPLY


def _soon(cache: ReplyCache, key: str) -> Reply | None:
    """What the cache holds a moment later; asked often enough, half a minute."""
    time.sleep(0.003)
    return cache.get(key)


# Somebody else keeps the file


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """Another process that keeps the file for its own writing."""
    ReplyCache(tmp_path).close()
    database = sqlite3.connect(tmp_path / CACHE_FILE, isolation_level=None)
    database.execute("BEGIN IMMEDIATE")
    yield database
    database.close()


def test_a_busy_file_neither_stops_nor_delays_who_keeps_replies(tmp_path: Path, writer: sqlite3.Connection) -> None:
    cache = ReplyCache(tmp_path, busy_seconds=3600)
    for number in range(3 * FLUSH_AFTER):
        cache.put(f"a{number}", REPLY)
    assert (cache.get("a0"), cache.get("other")) == (REPLY, None)
    writer.execute("ROLLBACK")
    cache.close()
    assert writer.execute("SELECT count(*) FROM reply").fetchone() == (3 * FLUSH_AFTER,)


def test_a_file_that_stays_busy_keeps_nothing_and_stops_nobody(tmp_path: Path, writer: sqlite3.Connection) -> None:
    cache = ReplyCache(tmp_path, busy_seconds=0.01)
    for number in range(MAX_WAITING + 5):
        cache.put(f"a{number}", REPLY)
    assert (cache.get(f"a{MAX_WAITING - 1}"), cache.get(f"a{MAX_WAITING}")) == (REPLY, None)
    cache.close()
    assert (writer.execute("SELECT count(*) FROM reply").fetchone(), writer.in_transaction) == ((0,), True)


def test_a_reply_that_cannot_be_read_at_once_is_asked_for_again(tmp_path: Path) -> None:
    cache = ReplyCache(tmp_path, busy_seconds=0.01)
    cache.put("a", REPLY)
    cache.flush()
    # As on a file system without shared memory, where whoever writes keeps readers out.
    cache.database.execute("PRAGMA journal_mode = DELETE")
    writer = sqlite3.connect(tmp_path / CACHE_FILE, isolation_level=None)
    writer.execute("BEGIN EXCLUSIVE")
    assert cache.get("a") is None
    writer.close()
    assert cache.get("a") == REPLY
    cache.close()


def test_a_cache_waits_while_another_process_creates_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, connect = threading.Event(), sqlite3.connect

    def connect_and_tell(*arguments: Any, **options: Any) -> sqlite3.Connection:
        database = connect(*arguments, **options)
        # SQLite tells of a statement when it begins with it; what it then needs, the creator has.
        database.set_trace_callback(lambda _: begun.set())
        return database

    creator = sqlite3.connect(tmp_path / CACHE_FILE, isolation_level=None, check_same_thread=False)
    creator.execute("CREATE TABLE made(x)")
    creator.execute("BEGIN IMMEDIATE")
    with ThreadPoolExecutor() as threads:
        monkeypatch.setattr(sqlite3, "connect", connect_and_tell)
        opening = threads.submit(ReplyCache, tmp_path)
        creator.execute("INSERT INTO made VALUES (1)")
        assert begun.wait(60)
        assert not opening.done()
        creator.close()
        opening.result().close()
    assert (tmp_path / CACHE_FILE).is_file()


KEY = "tk-Zq81LmW0vRk3TnB7yHs5"
UNCLEAN = (f"the key is {KEY}", "write to jane@example.org", "employee EMP-1234")


def own_redactor() -> Redactor:
    return Redactor([KEY], [RedactRule(name="employee", pattern=r"EMP-\d+")])


@pytest.mark.parametrize("text", UNCLEAN)
def test_a_reply_with_something_to_redact_is_not_kept(text: str, tmp_path: Path) -> None:
    cache = ReplyCache(tmp_path, redactor=own_redactor())
    assert not cache.put("a", Reply(text=text))
    assert cache.put("b", REPLY)
    assert cache.get("a") is None
    cache.close()
    assert all(text.encode() not in path.read_bytes() for path in tmp_path.iterdir())


def test_what_only_looks_like_something_to_redact_is_kept_as_it_came(tmp_path: Path) -> None:
    reply = Reply(text="invoice 1234 5678 9012 3456 under section 1.2.3.4")
    cache = ReplyCache(tmp_path, redactor=own_redactor())
    assert cache.put("a", reply)
    assert cache.get("a") == reply
    cache.close()


def test_what_an_earlier_version_kept_unredacted_is_deleted(tmp_path: Path) -> None:
    ReplyCache(tmp_path).close()
    database = sqlite3.connect(tmp_path / CACHE_FILE)
    rows = [(str(number), msgspec.json.encode(Reply(text=text))) for number, text in enumerate((*UNCLEAN, "fine"))]
    with database:
        database.executemany("INSERT INTO reply VALUES (?, ?)", rows)
    database.close()
    cache = ReplyCache(tmp_path, redactor=own_redactor())
    assert [cache.get(str(number)) for number in range(4)] == [None, None, None, Reply(text="fine")]
    cache.close()
    assert KEY.encode() not in (tmp_path / CACHE_FILE).read_bytes()


CASE_NUMBER = RedactRule(name="case_number", pattern=r"^AZ-\d{4}$")


def _put(folder: Path, redactor: Redactor, **replies: str) -> None:
    cache = ReplyCache(folder, redactor=redactor)
    for key, text in replies.items():
        assert cache.put(key, Reply(text=text))
    cache.close()


def _kept(folder: Path, redactor: Redactor, *keys: str) -> list[bool]:
    cache = ReplyCache(folder, redactor=redactor)
    found = [cache.get(key) is not None for key in keys]
    cache.close()
    return found


@pytest.mark.parametrize(
    ("text", "later"),
    [("AZ-4711", Redactor(custom=(CASE_NUMBER,))), ("qz81-AZ-4711-x7", Redactor(extra_secrets=("qz81-AZ-4711-x7",)))],
    ids=["a custom rule", "another key"],
)
def test_what_the_rules_of_a_later_run_find_is_deleted(text: str, later: Redactor, tmp_path: Path) -> None:
    _put(tmp_path, Redactor(), a=text, b="fine", c=text)
    assert _kept(tmp_path, later, "a", "b", "c") == [False, True, False]
    assert all(b"AZ-4711" not in path.read_bytes() for path in tmp_path.iterdir())


def test_rules_that_have_looked_at_a_cache_look_only_at_what_is_new(tmp_path: Path) -> None:
    """The number of a reply that one set of rules deletes is given again: another set looks at it all the same."""
    later, other = Redactor(custom=(CASE_NUMBER,)), Redactor(custom=(RedactRule(name="court", pattern="Court of .+"),))
    _put(tmp_path, Redactor(), a="fine", b="Court of Appeal")
    assert _kept(tmp_path, later, "a", "b") == [True, True]
    assert _kept(tmp_path, other, "a", "b") == [True, False]
    _put(tmp_path, Redactor(), c="AZ-4712")
    assert _kept(tmp_path, later, "a", "c") == [True, False]
    _put(tmp_path, Redactor(), a="AZ-4713")
    assert _kept(tmp_path, later, "a") == [False]


def test_what_another_run_keeps_meanwhile_is_deleted_at_the_end(tmp_path: Path) -> None:
    cache = ReplyCache(tmp_path, redactor=Redactor(custom=(CASE_NUMBER,)))
    _put(tmp_path, Redactor(), a="AZ-4711")
    cache.close()
    assert all(b"AZ-4711" not in path.read_bytes() for path in tmp_path.iterdir())


def test_a_long_cache_is_looked_through_to_its_end(tmp_path: Path) -> None:
    _put(tmp_path, Redactor(), **{f"k{number}": f"AZ-{number}" for number in range(1, 2_500)})
    assert _kept(tmp_path, Redactor(custom=(CASE_NUMBER,)), "k999", "k1000", "k2499") == [True, False, False]


def test_the_fingerprint_of_rules_tells_rules_apart_and_no_key() -> None:
    sets = [
        Redactor(),
        Redactor(("short",)),
        Redactor(("other",)),
        Redactor(custom=(CASE_NUMBER,)),
        Redactor(custom=(RedactRule(name="case_number", pattern="x"),)),
        Redactor(known_hosts=("10.0.0.5",)),
    ]
    assert len({redactor.fingerprint for redactor in sets}) == len(sets)
    assert Redactor(("short", "other")).fingerprint == Redactor(("other", "short")).fingerprint
