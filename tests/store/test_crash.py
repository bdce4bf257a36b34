"""kill -9 at any moment: a transaction is there or it is not, and a run folder is complete or absent."""

import random
import signal
import time
from pathlib import Path

import pytest

from assay.store.lock import RunLock
from assay.store.sqlite import open_ledger
from assay.store.verify import verify_run
from tests.store.samples import start_python

APPENDING = """
import sys
from pathlib import Path
from tests.store.samples import done, new_ledger
print("up", flush=True)
ledger = new_ledger(Path(sys.argv[1]), records=5_000)
claims = {}
for start in range(0, 5_000, 10):
    shard = start // 250
    claim = claims.get(shard) or claims.setdefault(shard, ledger.claim(shard, owner="child"))
    ledger.append(claim, [done(start + number) for number in range(10)])
    print(start + 10, flush=True)
"""
PUBLISHING = """
import sys
from pathlib import Path
from assay.store.lock import RunLock
from tests.store.samples import sealed_run
print("up", flush=True)
for number in range(5_000):
    sealed_run(Path(sys.argv[1]), f"r{number}", records=50)
    print(number, flush=True)
"""


def kill_after(code: str, folder: Path, seconds: float) -> list[str]:
    """What a child had reported as done when it was killed."""
    with start_python(code, str(folder)) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "up\n"
        time.sleep(seconds)
        child.send_signal(signal.SIGKILL)
        # Not communicate(): it would pass over what readline() has already taken from the pipe.
        reported = child.stdout.read().splitlines()
        child.wait()
        return reported


@pytest.mark.parametrize("seed", range(10))
def test_a_killed_writer_leaves_whole_transactions(seed: int, tmp_path: Path) -> None:
    reported = kill_after(APPENDING, tmp_path, random.Random(seed).uniform(0, 0.7))
    ledgers = [open_ledger(path) for path in tmp_path.glob("ledger.sqlite")]
    finished = [record for ledger in ledgers for record in ledger.finished()]
    whole = [(len(record.attempts), record.outcome is not None) for record in finished]
    done = whole.count((2, True))
    assert len(finished) in (0, 5_000)
    assert whole == [(2, True)] * done + [(0, False)] * (len(whole) - done)
    assert done % 10 == 0
    assert done >= int(["0", *reported][-1])
    assert [ledger.close() for ledger in ledgers] == [None] * len(ledgers)


@pytest.mark.parametrize("seed", range(10))
def test_a_killed_publisher_leaves_whole_run_folders(seed: int, tmp_path: Path) -> None:
    reported = kill_after(PUBLISHING, tmp_path, random.Random(seed).uniform(0, 0.4))
    folders = sorted(tmp_path.glob("r*"))
    assert {path.name: verify_run(path) for path in folders} == {path.name: [] for path in folders}
    assert len(folders) in (len(reported), len(reported) + 1)


HOLDING = """
import sys, time
from pathlib import Path
from assay.store.lock import RunLock
assert RunLock(Path(sys.argv[1])).try_acquire()
print("up", flush=True)
time.sleep(60)
"""


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    with start_python(HOLDING, str(tmp_path)) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "up\n"
        lock = RunLock(tmp_path)
        assert (lock.try_acquire(), lock.wait(0.1, poll=0.01), lock.holder()) == (False, False, child.pid)
        child.kill()
        child.wait()
        assert lock.wait(60)
        lock.release()
