"""Inputs made to exhaust a reader: each ends in a clean verdict and in bounded memory, in a process of its own."""

import gzip
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple

import pytest

MB = 1 << 20
BASE = 200
"""MB that validation may take besides twice the size of the file."""
HANG_SECONDS = 600
"""The slowest needs 20 s; what takes this long will never end."""
HEAD = b'{"dataset_id":"d","dataset_version":"1","schema_version":"1.0","records":['
GOOD = b'{"record_id":"good","input":{"prompt":"p"}}'
TURN = b'[{"turn_id":1,"speaker":"user","message":"m","metadata":{"x":'
ROW = b'{"schema_version":"legal_eval_v1","id":"a","dataset":"d","task_type":"reference_qa","prompt":"p","reference_answers":["x"]'
MARKS = "\u0316\u0301".encode()

CHILD = """
import json, pathlib, re, sys
from assay import AssayError, validate
# Not getrusage: after a fork it starts from the peak of the parent.
def peak(): return int(re.search(r"VmHWM:\\s+(\\d+) kB", pathlib.Path("/proc/self/status").read_text()).group(1)) / 1024
try:
    report = validate(sys.argv[1], sys.argv[2])
    shown = {"outcome": report.outcome, "codes": sorted({code for code, _ in report.issue_counts}), "issues": len(report.issues)}
except AssayError as problem:
    shown = {"outcome": problem.code, "codes": [], "issues": 0}
print(json.dumps({**shown, "peak": peak()}))
"""


class Bomb(NamedTuple):
    """How to make it, what to read it as, and what must come out."""

    contract: str
    pieces: Callable[[], Iterator[bytes]]
    outcome: str
    codes: tuple[str, ...] = ()
    name: str = "bomb.json"


def whole(*parts: bytes) -> Callable[[], Iterator[bytes]]:
    return lambda: iter(parts)


def repeated(start: bytes, piece: bytes, times: int, end: bytes) -> Callable[[], Iterator[bytes]]:
    """Long texts are written block by block."""
    block = max(1, MB // len(piece))

    def pieces() -> Iterator[bytes]:
        yield start
        for at in range(0, times, block):
            yield piece * min(block, times - at)
        yield end

    return pieces


def numbered(start: bytes, template: str, times: int, end: bytes) -> Callable[[], Iterator[bytes]]:
    def pieces() -> Iterator[bytes]:
        yield start
        for at in range(0, times, 1000):
            yield ",".join(template % number for number in range(at, min(at + 1000, times))).encode() + (
                b"," if at + 1000 < times else b""
            )
        yield end

    return pieces


def packed(byte: bytes, size: int, times: int) -> Callable[[], Iterator[bytes]]:
    """Gzip members may follow each other, so one packed block many times over is a valid bomb."""
    return lambda: repeat(gzip.compress(byte * size, 9), times)


LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9))
MERGES = "m0: &m0 {k: v}\n" + "".join(f"m{n}: &m{n} {{<<: [*m{n - 1}, *m{n - 1}]}}\n" for n in range(1, 30))

BOMBS: dict[str, Bomb] = {
    "deep-arrays": Bomb("batch_v1", whole(b"[" * 100_000, b"]" * 100_000), "rejected", ("invalid_json",)),
    "deep-open-arrays": Bomb("conversation_v1", whole(b"[" * 1_000_000), "rejected", ("invalid_json",)),
    "deep-objects-in-a-record": Bomb(
        "batch_v1", whole(HEAD, b'{"a":' * 100_000, b"1", b"}" * 100_000, b"]}"), "rejected", ("invalid_json",)
    ),
    "deep-metadata-in-a-row": Bomb(
        "legal_eval_v1", whole(ROW, b',"metadata":', b'{"a":' * 100_000, b"1", b"}" * 100_000, b"}"), "rejected", ("invalid_json",)
    ),
    "deep-turn": Bomb("conversation_v1", whole(TURN, b"[" * 900, b"]" * 900, b"}}]"), "rejected", ("invalid_json",)),
    "deep-golden": Bomb("golden_v1", whole(b'{"version":', b"[" * 100_000), "rejected", ("invalid_json",)),
    "deep-yaml": Bomb("conversation_v1", whole(b"- " * 100_000), "rejected", ("invalid_yaml",), name="bomb.yaml"),
    "unknown-members-of-the-document": Bomb("batch_v1", numbered(b"{", '"key%06d":1', 200_000, b"}"), "rejected"),
    "million-keys-in-metadata": Bomb(
        "batch_v1",
        numbered(HEAD + GOOD + b',{"record_id":"r","input":{"prompt":"p"},"metadata":{', '"key%07d":1', 1_000_000, b"}}]}"),
        "accepted_with_record_errors",
        ("record_too_large",),
    ),
    "unknown-fields-of-a-record": Bomb(
        "batch_v1",
        numbered(HEAD + GOOD + b',{"record_id":"r","input":{"prompt":"p"},', '"key%05d":1', 100_000, b"}]}"),
        "accepted_with_record_errors",
        ("record_too_large", "unsupported_field"),
    ),
    "unknown-fields-of-a-row": Bomb(
        "legal_eval_v1", numbered(ROW + b",", '"key%05d":1', 20_000, b"}"), "accepted", ("unsupported_field",)
    ),
    "unknown-fields-of-a-bad-row": Bomb(
        "legal_eval_v1",
        numbered(ROW + b',"context":1,', '"key%05d":1', 20_000, b"}"),
        "rejected",
        ("invalid_field_type", "unsupported_field"),
    ),
    "unknown-fields-of-a-turn": Bomb(
        "conversation_v1",
        numbered(b'[{"turn_id":1,"speaker":"user",', '"key%05d":1', 100_000, b"}]"),
        "rejected",
        ("missing_required_field", "unsupported_field"),
    ),
    "unknown-fields-of-a-golden-dataset": Bomb(
        "golden_v1",
        numbered(b"{", '"key%06d":1', 100_000, b"}"),
        "rejected",
        ("missing_required_field", "unsupported_field"),
    ),
    "long-float": Bomb(
        "batch_v1",
        repeated(HEAD + GOOD + b',{"record_id":"r","input":{"prompt":"p"},"metadata":{"n":0.', b"1", 10 * MB, b"}}]}"),
        "accepted_with_record_errors",
    ),
    "long-float-in-a-row": Bomb("legal_eval_v1", repeated(ROW + b',"metadata":{"n":0.', b"1", 10 * MB, b"}}"), "accepted"),
    "long-integer-in-a-turn": Bomb("conversation_v1", repeated(TURN, b"7", 10 * MB, b"}}]"), "rejected", ("value_out_of_range",)),
    "long-number-in-yaml": Bomb("conversation_v1", repeated(b"- turn_id: ", b"7", 7 * MB, b"\n"), "rejected", name="bomb.yaml"),
    "escapes-in-a-prompt": Bomb(
        "batch_v1",
        repeated(HEAD + GOOD + b',{"record_id":"r","input":{"prompt":"', b"\\u0041", 5 * MB, b'"}}]}'),
        "accepted_with_record_errors",
        ("record_too_large",),
    ),
    "escapes-in-a-row": Bomb("legal_eval_v1", repeated(ROW + b',"context":"', b"\\u0041", 5 * MB, b'"}'), "accepted"),
    "empty-records": Bomb(
        "batch_v1",
        repeated(HEAD, b"{},", 49_999, b"{}]}"),
        "rejected",
        ("all_records_invalid", "missing_required_field"),
    ),
    "flood-of-numbers": Bomb("batch_v1", repeated(HEAD, b"1,", 24 * MB, b"1]}"), "rejected", ("value_out_of_range",)),
    "flood-of-numbers-under-an-escaped-name": Bomb(
        "batch_v1",
        repeated(HEAD.replace(b"records", b"\\u0072ecords"), b"1,", 12 * MB, b"1]}"),
        "rejected",
        ("value_out_of_range",),
    ),
    "flood-of-numbers-under-a-name-used-twice": Bomb(
        "batch_v1", repeated(HEAD, b"1,", 12 * MB, b"1]," + HEAD[1:] + GOOD + b"]}"), "rejected", ("invalid_json",)
    ),
    "flood-of-arrays-in-a-record": Bomb(
        "batch_v1",
        repeated(HEAD + GOOD + b',{"record_id":"r","input":{"prompt":"p","x":[', b"[],", 8 * MB, b"[]]}}]}"),
        "accepted_with_record_errors",
        ("record_too_large",),
    ),
    "flood-of-arrays-in-another-member": Bomb(
        "batch_v1", repeated(b'{"x":[', b"[],", MB, b"[]]," + HEAD[1:] + GOOD + b"]}"), "accepted"
    ),
    "flood-of-numbers-in-a-row": Bomb(
        "legal_eval_v1",
        repeated(ROW + b',"metadata":{"x":[', b"1,", 4 * MB, b"1]}}"),
        "rejected",
        ("invalid_json",),
    ),
    "flood-of-numbers-in-a-turn": Bomb(
        "conversation_v1", repeated(TURN + b"[", b"1,", 4 * MB, b"1]}}]"), "rejected", ("invalid_json",)
    ),
    "flood-of-turns": Bomb("conversation_v1", repeated(b"[", b"{},", 60_000, b"{}]"), "rejected"),
    "flood-of-dashes": Bomb("conversation_v1", repeated(b"", b"- ~\n", MB, b""), "rejected", name="bomb.yaml"),
    "million-laughs": Bomb("conversation_v1", whole(LAUGHS.encode()), "rejected", ("invalid_yaml",), name="bomb.yaml"),
    "recursive-alias": Bomb("conversation_v1", whole(b"- &a [*a]\n"), "rejected", ("invalid_yaml",), name="bomb.yaml"),
    "merge-chain": Bomb("conversation_v1", whole(MERGES.encode()), "rejected", ("invalid_yaml",), name="bomb.yaml"),
    "lone-surrogates": Bomb(
        "batch_v1",
        repeated(HEAD + GOOD + b',{"record_id":"r","input":{"prompt":"', b"\\ud800", 16_000_000, b'"}}]}'),
        "rejected",
    ),
    "lone-surrogates-in-many-records": Bomb(
        "batch_v1",
        repeated(HEAD + GOOD, b',{"record_id":"r","input":{"prompt":"\\ud800"}}', 20_000, b"]}"),
        "accepted_with_record_errors",
        ("invalid_encoding",),
    ),
    "one-prompt-of-95-mb": Bomb(
        "batch_v1",
        repeated(HEAD + GOOD + b',{"record_id":"r","input":{"prompt":"', b"x", 95 * MB, b'"}}]}'),
        "accepted_with_record_errors",
        ("record_too_large",),
    ),
    "one-prompt-of-backslashes": Bomb(
        "batch_v1",
        repeated(HEAD + GOOD + b',{"record_id":"r","input":{"prompt":"', b"\\\\", 40 * MB, b'"}}]}'),
        "accepted_with_record_errors",
        ("record_too_large",),
    ),
    "unknown-member-of-95-mb": Bomb(
        "batch_v1",
        repeated(b'{"x":"', b"x", 95 * MB, b'",' + HEAD[1:] + GOOD + b"]}"),
        "accepted",
        ("unsupported_field",),
    ),
    "line-of-90-mb": Bomb("legal_eval_v1", repeated(ROW + b',"context":"', b"x", 90 * MB, b'"}'), "accepted", name="b.jsonl"),
    "bad-line-of-90-mb": Bomb(
        "legal_eval_v1",
        repeated(ROW + b',"context":"', b"x", 90 * MB, b""),
        "rejected",
        ("invalid_json",),
        name="b.jsonl",
    ),
    "combining-marks": Bomb(
        "batch_v1",
        repeated(HEAD + GOOD + b',{"record_id":"r","input":{"prompt":"a', MARKS, 60_000, b'"}}]}'),
        "accepted_with_record_errors",
        ("invalid_encoding",),
    ),
    "combining-marks-in-many-records": Bomb(
        "batch_v1",
        repeated(HEAD + GOOD, b',{"record_id":"r","input":{"prompt":"a' + MARKS * 50_000 + b'"}}', 100, b"]}"),
        "accepted_with_record_errors",
        ("invalid_encoding",),
    ),
    "combining-marks-in-metadata": Bomb(
        "batch_v1",
        repeated(HEAD + GOOD + b'],"metadata":{"x":"a', MARKS, MB, b'"}}'),
        "rejected",
        ("invalid_encoding", "record_too_large"),
    ),
    "issues-of-a-golden-dataset": Bomb(
        "golden_v1",
        repeated(b'{"version":"1.0.0","cases":[', b"\n{},", 33_000, b"{}]}"),
        "rejected",
        ("missing_required_field", "value_out_of_range"),
    ),
    "duplicate-keys": Bomb("golden_v1", repeated(b"{", b'"x":1,', 200_000, b'"x":1}'), "rejected"),
    "gzip": Bomb("batch_v1", packed(b" ", 64 * MB, 8), "source_unreadable", name="bomb.json.gz"),
    "damaged-gzip": Bomb("batch_v1", whole(b"\x1f\x8b\x08\x00" + b"\xff" * 1000), "source_unreadable", name="bomb.json.gz"),
}
HEAVY: dict[str, Bomb] = {
    "million-members-of-the-document": Bomb("batch_v1", numbered(b"{", '"key%07d":1', 1_000_000, b"}"), "rejected"),
    "large-flood-of-arrays-in-another-member": Bomb(
        "batch_v1", repeated(b'{"x":[', b"[],", 8 * MB, b"[]]," + HEAD[1:] + GOOD + b"]}"), "rejected"
    ),
    "large-flood-of-turns": Bomb("conversation_v1", repeated(b"[", b"{},", 600_000, b"{}]"), "rejected"),
    "gzip-of-10-gb": Bomb("legal_eval_v1", packed(b"\n", 64 * MB, 160), "source_unreadable", name="bomb.jsonl.gz"),
    "million-unknown-fields": Bomb(
        "legal_eval_v1",
        numbered(ROW + b",", '"key%06d":1', 1_000_000, b"}"),
        "rejected",
        ("invalid_json",),
    ),
    "million-fields-of-a-turn": Bomb(
        "conversation_v1",
        numbered(b'[{"turn_id":1,"speaker":"user",', '"key%06d":1', 1_000_000, b"}]"),
        "rejected",
    ),
}


def exploded(bomb: Bomb, folder: Path) -> dict[str, Any]:
    """What validation of the bomb said and how much memory it took, in a fresh process."""
    path = folder / bomb.name
    with path.open("wb") as file:
        file.writelines(bomb.pieces())
    finished = subprocess.run(
        [sys.executable, "-c", CHILD, str(path), bomb.contract], capture_output=True, text=True, timeout=HANG_SECONDS, check=False
    )
    size = path.stat().st_size
    path.unlink()
    assert finished.returncode == 0, finished.stderr[-2000:]
    measured: dict[str, Any] = json.loads(finished.stdout)
    return {**measured, "limit": BASE + 2 * size / MB}


def check(bomb: Bomb, folder: Path) -> None:
    measured = exploded(bomb, folder)
    assert measured["outcome"] == bomb.outcome
    assert set(bomb.codes) <= set(measured["codes"])
    assert measured["peak"] < measured["limit"]


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS.keys())
def test_a_bomb_ends_in_a_clean_verdict(bomb: Bomb, tmp_path: Path) -> None:
    check(bomb, tmp_path)


@pytest.mark.heavy
@pytest.mark.parametrize("bomb", HEAVY.values(), ids=HEAVY.keys())
def test_a_large_bomb_ends_in_a_clean_verdict(bomb: Bomb, tmp_path: Path) -> None:
    check(bomb, tmp_path)
