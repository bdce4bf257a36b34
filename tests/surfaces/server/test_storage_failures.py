"""Storage that fails under a run of the service: the run is failed, with its reason, and a resumed one completes."""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from assay import api
from assay.surfaces.server.keys import KeyStore
from tests.crash.provider import CountingProvider, error
from tests.surfaces.server.serving import Serving, dataset

SLOW = "candidates: [scripted/slow-20]\njudges: [scripted/judge-5]\nrun: {concurrency: 2}\n"
TERMINAL = ("completed", "completed_with_failures", "failed", "cancelled")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk for the runs of a service."""
    place = tmp_path / "runs"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", place], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("nothing can be mounted here")
    yield place
    subprocess.run(["umount", "--lazy", place], capture_output=True, check=False)


def fill(place: Path) -> Path:
    """Leave no space on a disk."""
    filler = place / "filler"
    with filler.open("wb", buffering=0) as file:
        while True:
            try:
                file.write(b"x" * 4096)
            except OSError:
                return filler


def begun(serving: Serving, records: int = 200) -> str:
    run_id: str = serving.submit(dataset(records)).json["run_id"]
    serving.wait_for(lambda: serving.ask("GET", f"/v1/runs/{run_id}").json["done_records"] >= 5)
    return run_id


def state_in_folder(serving: Serving, run_id: str) -> str:
    """The state as files say it; the service is not asked."""
    return api.open_run(run_id, runs_dir=serving.runs_dir).result.state


def check_resumed(serving: Serving, run_id: str) -> None:
    subprocess.run(["mount", "-o", "remount,size=64m", serving.runs_dir], check=True)
    resumed = serving.ask("POST", f"/v1/runs/{run_id}/resume")
    assert (resumed.status, resumed.json["state"]) == (202, "running")
    run = serving.ended(run_id)
    assert (run["state"], run["counts"]["evaluated_records"], run["is_resumable"]) == ("completed", 200, False)
    assert [entry["state"] for entry in run["states"]].count("failed") == 1


def test_a_full_disk_fails_the_run_and_a_resumed_one_completes(tmp_path: Path, disk: Path) -> None:
    with Serving(tmp_path, run_file=SLOW) as serving:
        run_id = begun(serving)
        filler = fill(disk)
        serving.wait_for(lambda: serving.ask("GET", f"/v1/runs/{run_id}").json["state"] in TERMINAL)
        run = serving.ask("GET", f"/v1/runs/{run_id}").json
        assert (run["state"], run["is_resumable"], run["is_interrupted"]) == ("failed", True, False)
        assert run["completed_at"] is not None
        assert "disk is full" in run["problem"]
        assert str(tmp_path) not in str(run)
        events = serving.ask("GET", f"/v1/runs/{run_id}/events").body.decode()
        assert "event: stopped" in events
        assert '"state":"failed"' in events.replace(" ", "")
        (listed,) = serving.ask("GET", "/v1/runs?state=failed").json["runs"]
        assert listed["run_id"] == run_id
        filler.unlink()
        check_resumed(serving, run_id)


def test_a_run_is_failed_as_soon_as_anything_can_be_written_and_nobody_asks(tmp_path: Path, disk: Path) -> None:
    with Serving(tmp_path, run_file=SLOW) as serving:
        run_id = begun(serving)
        # Without the space that was reserved for it, the reason can be written nowhere while the disk is full.
        (disk / ".active" / run_id / "failure.json").unlink()
        filler = fill(disk)
        serving.wait_for(lambda: "cannot continue" in (tmp_path / "server.log").read_text(encoding="utf-8"))
        assert state_in_folder(serving, run_id) == "running"
        filler.unlink()
        serving.wait_for(lambda: state_in_folder(serving, run_id) == "failed")
        check_resumed(serving, run_id)


def test_a_failed_run_stays_failed_when_the_service_is_started_again(tmp_path: Path, disk: Path) -> None:
    with Serving(tmp_path, run_file=SLOW) as serving:
        run_id = begun(serving)
        filler = fill(disk)
        serving.wait_for(lambda: serving.ask("GET", f"/v1/runs/{run_id}").json["state"] == "failed")
        filler.unlink()
        serving.end()
        serving.start()
        assert serving.ask("GET", f"/v1/runs/{run_id}").json["state"] == "failed"
        check_resumed(serving, run_id)


def test_a_rejected_key_fails_the_run_over_http(tmp_path: Path) -> None:
    with CountingProvider(lambda *_: (401, error("no such key", kind="authentication_error"), {})) as provider:
        run_file = (
            f"candidates: [stub/m]\njudges: [scripted/judge-5]\nproviders: [{{name: stub, base_url: '{provider.base_url}'}}]\n"
        )
        with Serving(tmp_path, run_file=run_file) as serving:
            run_id = serving.submit(dataset(5)).json["run_id"]
            run = serving.ended(run_id)
            assert (run["state"], run["is_resumable"], run["counts"]["failed_records"]) == ("failed", True, 0)
            assert "'stub' rejects the calls to 'stub/m'" in run["problem"]
            page = serving.ask("GET", f"/runs/{run_id}").body.decode()
            assert "rejects the calls to" in page
            assert f'action="/runs/{run_id}/resume"' in page
            provider.script = lambda *_: (200, "4", {})
            assert serving.ask("POST", f"/v1/runs/{run_id}/resume").status == 202
            assert serving.ended(run_id)["state"] == "completed"


def remove_ledger(active: Path) -> None:
    for path in active.glob("ledger.sqlite*"):
        path.unlink()


def overwrite_ledger(active: Path) -> None:
    (active / "ledger.sqlite").write_bytes(b"junk" * 20_000)


@pytest.mark.parametrize(
    ("lose", "why"), [(remove_ledger, "was put back"), (shutil.rmtree, "was put back"), (overwrite_ledger, "are lost")]
)
def test_a_ledger_that_is_lost_fails_the_run_and_its_owner_resumes_it(
    tmp_path: Path, lose: Callable[[Path], None], why: str
) -> None:
    serving = Serving(tmp_path, run_file=SLOW)
    keys = KeyStore(serving.runs_dir)
    owner, other = ({"x-api-key": keys.add(name, "write", project=name)} for name in ("ours", "theirs"))
    with serving:
        serving.headers = owner
        run_id = begun(serving)
        lose(serving.runs_dir / ".active" / run_id)
        # Nobody asks the service meanwhile.
        serving.wait_for(lambda: "cannot continue" in (tmp_path / "server.log").read_text(encoding="utf-8"))
        serving.wait_for(lambda: serving.ask("GET", f"/v1/runs/{run_id}").status == 200)
        for _ in range(2):
            run = serving.ask("GET", f"/v1/runs/{run_id}").json
            assert (run["state"], run["is_resumable"], run["is_interrupted"]) == ("failed", True, False)
            assert why in run["problem"]
            assert run["completed_at"] is not None
            (listed,) = serving.ask("GET", "/v1/runs?state=failed").json["runs"]
            assert listed["run_id"] == run_id
            assert '"state":"failed"' in serving.ask("GET", f"/v1/runs/{run_id}/events").body.decode().replace(" ", "")
            assert serving.ask("GET", f"/v1/runs/{run_id}", headers=other).status == 404
            serving.end()
            serving.start()
        assert serving.ask("POST", f"/v1/runs/{run_id}/resume").status == 202
        run = serving.ended(run_id)
        assert (run["state"], run["counts"]["evaluated_records"]) == ("completed", 200)
