"""A small, seeded part of the fuzzing; `make fuzz` runs the rest."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.run import Chunk, attempt, run_chunk
from tests.fuzz.targets import TARGETS

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize("target", TARGETS)
def test_no_input_makes_a_reader_fail(target: str) -> None:
    failures = run_chunk(Chunk(target, seed=1, first=0, size=150))
    assert [(failure.signature, failure.content[:200]) for failure in failures] == []


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00",
        b"\xef\xbb\xbf",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b"null",
        b'""',
        b"\r",
        b"\n" * 10,
        b'{"a":1,"a":2}',
        b'[{"turn_id":1,"turn_id":1},',
        b'{"cases":[{"id":1,"id":2}',
        b'{"cases":1,"cases":[{"id":1,"id":2}]}',
        b'[\n{"task_type":1},\n{}\n]',
        b"[\n\xff\n",
        b"- {turn_id: 1, speaker: user, message: x, metadata: {a: .nan, b: .inf}}",
        b"\x1f\x8b",
        b'[{"turn_id":' + b"9" * 4300 + b',"speaker":"user","message":"m"},{"turn_id":1,"speaker":"user","message":"m"}]',
    ],
    ids=range(19),
)
@pytest.mark.parametrize("target", TARGETS)
def test_inputs_that_once_failed_do_not_fail_again(target: str, content: bytes) -> None:
    failure = attempt(target, content)
    assert failure is None, failure


def test_the_same_seed_gives_the_same_inputs() -> None:
    chunk = Chunk("golden_v1", seed=5, first=10, size=5)
    assert run_chunk(chunk) == run_chunk(chunk)


@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris is not installed")
@pytest.mark.parametrize("door", ["json", "yaml"])
def test_the_guided_stage_runs(door: str) -> None:
    command = [sys.executable, "-m", "tests.fuzz.guided", door, "-runs=300", "-seed=1"]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    assert finished.returncode == 0, finished.stderr[-2000:].decode("utf-8", "replace")
