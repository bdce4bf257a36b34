"""An upload takes no process of the server above 200 MB and twice its size."""

import re
from pathlib import Path

import pytest

from tests.server.serving import Serving

MB = 1_000_000
HEAD = b'{"dataset_id":"d","dataset_version":"1","schema_version":"1.0",'
BODIES = {
    "conversation_v1": b"[" + b"1," * MB + b"1]",
    "batch_v1": HEAD + b'"a":1,' * (MB // 3) + b'"records":[{"record_id":"r","input":{"prompt":"p"}}]}',
}


def peak(pid: int) -> float:
    """MB that a process has taken at most."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(encoding="utf-8"))
    assert found is not None
    return int(found[1]) / 1024


def with_children(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
    return [pid, *(found for child in children for found in with_children(int(child)))]


@pytest.mark.parametrize("contract", BODIES)
def test_a_hostile_upload_stays_below_the_limit(service: Serving, contract: str) -> None:
    body = BODIES[contract]
    answer = service.ask("POST", f"/v1/validate?contract={contract}", body)
    assert (answer.status, answer.json["outcome"]) == (200, "rejected")
    assert answer.json["record_errors_total"] + answer.json["dataset_errors_total"] > MB // 4
    assert max(map(peak, with_children(service.pid))) < 200 + 2 * len(body) / MB
