"""Requests of a batch on disk: their size, who can read them, and what replaces damaged ones."""

import stat
from pathlib import Path

import pytest

from assay import api
from assay.core.errors import ServerProblem
from tests.engine.batch_runs import attempts, manifest, resumed, run, write_run
from tests.engine.execution.test_batch_collector import BOTH
from tests.models.batch_provider import BatchProvider, Faults, Refused


@BOTH
def test_no_batch_is_larger_than_its_limit_and_its_size_is_exact(kind: str, tmp_path: Path) -> None:
    with BatchProvider() as provider:
        run_file = write_run(tmp_path, provider, kind=kind, records=9, batch={"max_bytes": 1_500})
        run(run_file)
    sizes = [batch["bytes"] for batch in manifest(run_file)["batches"]]
    assert len(sizes) > 1
    assert max(sizes) <= 1_500
    assert provider.sizes == sizes


def test_a_request_that_is_larger_than_a_batch_may_be_is_asked_by_itself(tmp_path: Path) -> None:
    with BatchProvider() as provider:
        run_file = write_run(tmp_path, provider, records=2, batch={"max_bytes": 100})
        assert run(run_file).counts.evaluated_records == 2
    assert (provider.created, len(provider.live)) == (0, 2)
    assert [line["error_code"] for line in attempts(run_file)] == ["batch_too_large", None] * 2


def test_requests_on_their_way_are_readable_by_nobody_else_and_gone_when_they_are_handed_in(tmp_path: Path) -> None:
    with BatchProvider(
        meddle=lambda method, path, _: Refused(400) if (method, path) == ("POST", "/v1/files") else None
    ) as provider:
        run_file = write_run(tmp_path, provider)
        with pytest.raises(ServerProblem, match="could not be handed in"):
            run(run_file)
        (spool,) = (tmp_path / "runs" / ".active" / "x" / "batches").iterdir()
        assert stat.S_IMODE(spool.stat().st_mode) == 0o600
        provider.meddle = lambda *_: None
        provider.faults = Faults(looks=99)
        run(run_file, is_detached=True)
    assert list(spool.parent.iterdir()) == []


def test_no_batch_holds_what_the_cache_knows(tmp_path: Path) -> None:
    with BatchProvider() as provider:
        run_file = write_run(tmp_path, provider, records=4, cache={})
        run(run_file)
        more = write_run(tmp_path, provider, records=6, cache={})
        (result,) = api.run(more, run_id="y", runs_dir=str(tmp_path / "runs"))
    assert result.counts.evaluated_records == 6
    assert [len(batch.requests) for batch in provider.batches.values()] == [4, 2]


def test_a_file_that_was_changed_on_the_disk_is_written_anew_before_it_is_handed_in(tmp_path: Path) -> None:
    with BatchProvider(meddle=lambda _, path, __: Refused(400) if path == "/v1/files" else None) as provider:
        run_file = write_run(tmp_path, provider)
        with pytest.raises(ServerProblem):
            run(run_file)
        (spool,) = (tmp_path / "runs" / ".active" / "x" / "batches").iterdir()
        spool.write_bytes(spool.read_bytes().replace(b"Is it 0?", b"Is it 9?"))
        provider.meddle = lambda *_: None
        resumed(run_file)
    assert b"Is it 9?" not in b"".join(provider.files.values())
