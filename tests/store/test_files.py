from multiprocessing import get_context
from pathlib import Path

import pytest

from assay.core.errors import StoreUnavailable
from assay.store.files import AppendLog, replace_file


def append_many(path: Path, word: bytes) -> None:
    for number in range(50):
        AppendLog(path).append(b"%s %d" % (word, number))


def test_lines_are_read_back_in_their_order(tmp_path: Path) -> None:
    log = AppendLog(tmp_path / "log.jsonl")
    for line in (b"one", b"two", b"three"):
        log.append(line)
    assert log.lines() == [b"one", b"two", b"three"]
    assert log.path.read_bytes() == b"one\ntwo\nthree\n"


def test_a_log_that_was_never_written_has_no_lines_and_no_file(tmp_path: Path) -> None:
    log = AppendLog(tmp_path / "log.jsonl")
    assert log.lines() == []
    assert not log.path.exists()


def test_an_unfinished_line_does_not_count_and_the_next_one_replaces_it(tmp_path: Path) -> None:
    log = AppendLog(tmp_path / "log.jsonl")
    log.path.write_bytes(b"one\ntw")
    assert log.lines() == [b"one"]
    log.append(b"three")
    assert log.path.read_bytes() == b"one\nthree\n"


def test_a_log_of_one_unfinished_line_begins_anew(tmp_path: Path) -> None:
    log = AppendLog(tmp_path / "log.jsonl")
    log.path.write_bytes(b"on")
    assert log.lines() == []
    log.append(b"one")
    assert log.lines() == [b"one"]


def test_no_line_of_several_processes_is_lost_or_broken(tmp_path: Path) -> None:
    path, context = tmp_path / "log.jsonl", get_context("spawn")
    workers = [context.Process(target=append_many, args=(path, word)) for word in (b"a", b"b")]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    lines = AppendLog(path).lines()
    assert [line for line in lines if line.startswith(b"a")] == [b"a %d" % number for number in range(50)]
    assert sorted(lines) == sorted(b"%s %d" % (word, number) for word in (b"a", b"b") for number in range(50))


def test_a_locked_log_reads_from_an_offset_and_keeps_the_lines_before_a_write(tmp_path: Path) -> None:
    log = AppendLog(tmp_path / "log.jsonl")
    log.path.write_bytes(b"one\ntwo\nthr")
    with log.locked() as locked:
        assert (locked.read(4), locked.read(4, 3)) == (b"two\nthr", b"two")
        assert locked.complete(locked.read(4)) == b"two\n"
        locked.write(b"four\n", at=8)
    assert log.lines() == [b"one", b"two", b"four"]


def test_a_log_that_is_a_link_is_refused_and_its_target_stays(tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"mine")
    (tmp_path / "log.jsonl").symlink_to(tmp_path / "other")
    with pytest.raises(StoreUnavailable, match=r"log\.jsonl"):
        AppendLog(tmp_path / "log.jsonl").append(b"one")
    assert (tmp_path / "other").read_bytes() == b"mine"


def test_only_its_owner_may_read_a_log(tmp_path: Path) -> None:
    log = AppendLog(tmp_path / "log.jsonl")
    log.append(b"one")
    assert log.path.stat().st_mode & 0o777 == 0o600


def test_a_file_is_replaced_as_a_whole_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "made" / "file.json"
    for content in (b"{}", b"[]"):
        replace_file(path, content)
        assert path.read_bytes() == content
    assert list(path.parent.iterdir()) == [path]


def test_a_file_that_cannot_be_written_is_an_error_of_the_store(tmp_path: Path) -> None:
    (tmp_path / "file.json").mkdir()
    with pytest.raises(StoreUnavailable, match=r"file\.json"):
        replace_file(tmp_path / "file.json", b"{}")
