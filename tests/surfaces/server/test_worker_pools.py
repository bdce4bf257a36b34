"""An upload takes no process of the server above 200 MB and twice its size."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.surfaces.server.serving import Serving

MB = 1_000_000
HEAD = b'{"dataset_id":"d","dataset_version":"1","schema_version":"1.0",'
BODIES = {
    "conversation_v1": b"[" + b"1," * MB + b"1]",
    "batch_v1": HEAD + b'"a":1,' * (MB // 3) + b'"records":[{"record_id":"r","input":{"prompt":"p"}}]}',
}

LONG = b"x" * 30 * MB + "😀".encode()
LONG_TEXTS = {
    "batch_v1": (HEAD + b'"description":"' + LONG + b'","records":[{"record_id":"r","input":{"prompt":"p"}}]}', "accepted"),
    "conversation_v1": (b'[{"turn_id":1,"speaker":"user","message":"' + LONG + b'"}]', "rejected"),
    "legal_eval_v1": (
        b'{"schema_version":"legal_eval_v1","id":"a","dataset":"d","task_type":"reference_qa","reference_answers":["x"],"prompt":"'
        + LONG
        + b'"}',
        "accepted",
    ),
    "golden_v1": (b'{"version":"1.0.0","cases":[{"user_prompt":"q","rubric":"a good answer","id":"' + LONG + b'"}]}', "rejected"),
}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server that has nothing else to do: runs of other tests would be part of its peak."""
    with Serving(tmp_path_factory.mktemp("alone"), settings="idle_seconds: 120\n") as serving:
        yield serving


def peak(pid: int) -> float:
    """MB that a process has taken at most."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(encoding="utf-8"))
    assert found is not None
    return int(found[1]) / 1024


def with_children(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
    return [pid, *(found for child in children for found in with_children(int(child)))]


@pytest.mark.parametrize("contract", BODIES)
def test_a_hostile_upload_stays_below_the_limit(alone: Serving, contract: str) -> None:
    body = BODIES[contract]
    answer = alone.ask("POST", f"/v1/validate?contract={contract}", body)
    assert (answer.status, answer.json["outcome"]) == (200, "rejected")
    assert answer.json["record_errors_total"] + answer.json["dataset_errors_total"] > MB // 4
    assert max(map(peak, with_children(alone.pid))) < 200 + 2 * len(body) / MB


@pytest.mark.parametrize("contract", LONG_TEXTS)
def test_a_long_text_with_an_emoji_stays_below_the_limit(alone: Serving, contract: str) -> None:
    body, outcome = LONG_TEXTS[contract]
    answer = alone.ask("POST", f"/v1/validate?contract={contract}", body)
    assert (answer.status, answer.json["outcome"]) == (200, outcome)
    assert max(map(peak, with_children(alone.pid))) < 200 + 2 * len(body) / MB
