"""Validation takes at most 200 MB of memory and twice the size of the file, whatever the file."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from assay import validate
from tests.datasets.test_scaling import FLOODS

MB = 1_000_000
BASE = 200
"""MB of a process that validates, besides twice the size of the file."""
SIZE = 2 * MB
NAMES = (
    *("batch-keys", "batch-unknown-keys", "batch-metadata-of-the-document", "batch-duplicate-ids"),
    *("batch-records-with-lone-surrogates", "record-nested-metadata", "record-tags", "record-lone-surrogates"),
    *("legal-unknown-fields", "legal-attachments", "legal-choices", "legal-duplicate-criteria"),
    *("golden-tags", "golden-unknown-fields", "turns-that-are-numbers", "turns-on-lines-that-are-not-json"),
    *("turn-nested-objects", "turn-unknown-fields", "yaml-brackets", "yaml-unknown-fields"),
)
CHILD = """
import pathlib, re, sys
from assay.surfaces.cli.program import program
try:
    program(["validate", sys.argv[1], "--contract", sys.argv[2], "--format", "json", "--max-issues", "0"])
except SystemExit as end:
    code = end.code
# Not getrusage: after a fork it starts from the peak of the parent.
peak = re.search(r"VmHWM:\\s+(\\d+) kB", pathlib.Path("/proc/self/status").read_text()).group(1)
print(code, peak, file=sys.stderr)
"""

LONG = 30 * MB
EMOJI = "😀".encode()
BATCH = b'"dataset_id":"a","dataset_version":"1","schema_version":"1.0","records":[{"record_id":"a","input":{"prompt":"p"}}'
LEGAL = b'{"schema_version":"legal_eval_v1","id":"a","dataset":"d","task_type":"reference_qa","reference_answers":["x"],"prompt":"'
CASES = b"".join(b',{"id":"c-%d","user_prompt":"q","rubric":"a good answer"}' % number for number in range(5))
LONG_TEXTS: dict[str, tuple[str, str, bytes, bytes]] = {
    "description-of-a-batch": ("batch_v1", "accepted", b'{"description":"', b'",' + BATCH + b"]}"),
    "metadata-of-a-batch": ("batch_v1", "rejected", b'{"metadata":{"a":"', b'"},' + BATCH + b"]}"),
    "prompt-of-a-record": (
        "batch_v1",
        "accepted_with_record_errors",
        b"{" + BATCH + b',{"record_id":"b","input":{"prompt":"',
        b'"}}]}',
    ),
    "message-of-a-turn": ("conversation_v1", "rejected", b'[{"turn_id":1,"speaker":"user","message":"', b'"}]'),
    "metadata-of-a-turn": (
        "conversation_v1",
        "accepted",
        b'[{"turn_id":1,"speaker":"user","message":"m","metadata":{"a":"',
        b'"}}]',
    ),
    "prompt-of-a-row": ("legal_eval_v1", "accepted", LEGAL, b'"}'),
    "id-of-a-case": (
        "golden_v1",
        "rejected",
        b'{"version":"1.0.0","cases":[{"user_prompt":"q","rubric":"a good answer","id":"',
        b'"}' + CASES + b"]}",
    ),
    "context-of-a-case": (
        "golden_v1",
        "accepted",
        b'{"version":"1.0.0","cases":[{"id":"a","user_prompt":"q","rubric":"a good answer","context":"',
        b'"}' + CASES + b"]}",
    ),
    "escapes-in-no-contract": ("auto", "rejected", b'["\\x', b'"]'),
}
"""A contract, the outcome, and what stands before and after a text of 30 MB with an emoji."""


def validated(path: Path, contract: str) -> tuple[str, float]:
    """The outcome and the MB that the command took."""
    ended = subprocess.run([sys.executable, "-c", CHILD, str(path), contract], capture_output=True, check=True)
    (file,) = json.loads(ended.stdout)["files"]
    return file["outcome"], int(ended.stderr.split()[-1]) / 1024


@pytest.mark.parametrize("escaped", [False, True], ids=["as-it-is", "escaped"])
@pytest.mark.parametrize("name", LONG_TEXTS)
def test_a_long_text_with_an_emoji_stays_below_the_limit(tmp_path: Path, name: str, *, escaped: bool) -> None:
    contract, outcome, before, after = LONG_TEXTS[name]
    path = tmp_path / ("long.jsonl" if contract == "legal_eval_v1" else "long.json")
    emoji, filler = (b"\\ud83d\\ude00", b"\\u0041") if escaped else (EMOJI, b"x")
    path.write_bytes(before + filler * (LONG // len(filler)) + emoji + after)
    found, peak = validated(path, contract)
    assert found == outcome
    assert peak < BASE + 2 * path.stat().st_size / MB


def test_what_was_checked_in_short_is_read_as_it_is(tmp_path: Path) -> None:
    text = "あ" * 3_000_000 + "😀"
    batch = tmp_path / "batch.json"
    batch.write_bytes(b'{"description":"' + text.encode() + b'",' + BATCH + b"]}")
    assert validate(batch, "batch_v1").head["description"] == text
    golden = tmp_path / "golden.json"
    _, _, before, after = LONG_TEXTS["context-of-a-case"]
    golden.write_bytes(before + text.encode() + after)
    assert next(iter(validate(golden, "golden_v1").cases)).notes == text


@pytest.mark.parametrize("name", NAMES)
def test_a_flood_of_two_megabytes_stays_below_the_limit(tmp_path: Path, name: str) -> None:
    flood = FLOODS[name]
    count = SIZE // (len(flood.element) + len(flood.separator))
    path = tmp_path / f"flood.{'yaml' if name.startswith('yaml') else 'jsonl' if 'lines' in name else 'json'}"
    path.write_text(flood.text(count), encoding="utf-8")
    ended = subprocess.run([sys.executable, "-c", CHILD, str(path), flood.contract], capture_output=True, check=True)
    code, peak = map(int, ended.stderr.split()[-2:])
    (file,) = json.loads(ended.stdout)["files"]
    listed = sum(len(file[kind]) for kind in ("dataset_errors", "record_errors", "warnings"))
    assert (code, listed > 0) == (0 if file["outcome"] == "accepted" else 1, True)
    assert peak / 1024 < BASE + 2 * path.stat().st_size / MB
