from multiprocessing import get_context
from pathlib import Path

import pytest

from assay.core.errors import StoreUnavailable
from assay.store.audit import AUDIT_FILE, UNFINISHED, AuditLog, append_audit, read_audit


def write_many(folder: Path, name: str) -> None:
    for number in range(20):
        append_audit(folder, {"action": name, "number": number})


def test_decisions_are_read_back_in_their_order(tmp_path: Path) -> None:
    for number in range(3):
        append_audit(tmp_path, {"action": "gate", "number": number})
    assert [entry["number"] for entry in read_audit(tmp_path)] == [0, 1, 2]


def test_a_folder_without_decisions_has_an_empty_log(tmp_path: Path) -> None:
    assert read_audit(tmp_path) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [(b'"number":1', b'"number":7'), (b'{"action":"gate","number":0', b'{"action":"gate","number":3'), (b"\n", b"\n\n")],
)
def test_a_changed_line_is_noticed(tmp_path: Path, old: bytes, new: bytes) -> None:
    write_many(tmp_path, "gate")
    path = tmp_path / AUDIT_FILE
    path.write_bytes(path.read_bytes().replace(old, new, 1))
    with pytest.raises(StoreUnavailable, match="was changed: line"):
        read_audit(tmp_path)


def test_a_dropped_line_is_noticed_and_nothing_is_added_after_it(tmp_path: Path) -> None:
    write_many(tmp_path, "gate")
    path = tmp_path / AUDIT_FILE
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[1:]))
    with pytest.raises(StoreUnavailable, match="line 1 does not follow"):
        append_audit(tmp_path, {"action": "gate"})


@pytest.mark.parametrize("lost", [1, 30])
def test_what_a_crash_left_unfinished_is_set_aside_with_a_word(tmp_path: Path, lost: int) -> None:
    write_many(tmp_path, "gate")
    path = tmp_path / AUDIT_FILE
    path.write_bytes(path.read_bytes()[:-lost])
    assert len(read_audit(tmp_path)) == 19
    append_audit(tmp_path, {"action": "next"})
    assert [entry["action"] for entry in read_audit(tmp_path)[-3:]] == ["gate", UNFINISHED, "next"]


def test_processes_that_decide_at_the_same_time_do_not_break_the_chain(tmp_path: Path) -> None:
    context = get_context("spawn")
    workers = [context.Process(target=write_many, args=(tmp_path, name)) for name in ("a", "b")]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(entry["action"] for entry in read_audit(tmp_path)) == ["a"] * 20 + ["b"] * 20


def test_log_that_is_added_to_again_and_again_reads_its_end_only(tmp_path: Path) -> None:
    log = AuditLog(tmp_path)
    for number in range(50):
        log.append({"action": "gate", "number": number})
        append_audit(tmp_path, {"action": "other", "number": number})
    assert [entry["number"] for entry in read_audit(tmp_path)] == [number for number in range(50) for _ in range(2)]


@pytest.mark.parametrize("lost", [1, 200])
def test_log_that_has_become_shorter_is_read_anew(tmp_path: Path, lost: int) -> None:
    log, path = AuditLog(tmp_path), tmp_path / AUDIT_FILE
    for number in range(5):
        log.append({"action": "gate", "number": number})
    path.write_bytes(path.read_bytes()[:-lost])
    log.append({"action": "next"})
    assert [entry["action"] for entry in read_audit(tmp_path)][-2:] == [UNFINISHED, "next"]


def test_nothing_is_added_behind_a_line_that_was_changed_meanwhile(tmp_path: Path) -> None:
    log, path = AuditLog(tmp_path), tmp_path / AUDIT_FILE
    for number in range(5):
        log.append({"action": "gate", "number": number})
    path.write_bytes(path.read_bytes().replace(b'"number":4', b'"number":7'))
    with pytest.raises(StoreUnavailable, match="line 5 does not follow"):
        log.append({"action": "next"})
