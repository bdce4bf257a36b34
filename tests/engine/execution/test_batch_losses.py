"""Batches that are lost, doubtful or never to be had: the run ends all the same, counts what is so, and pays nothing twice."""

import time
from collections.abc import Callable
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from assay import api
from assay.core.errors import ServerProblem
from assay.core.manifest import read_manifest
from assay.engine.execution.batch_collector import LOST_LOOKS, PATIENCE
from assay.engine.execution.run_context import RunEnvironment
from assay.engine.planning.request import RunRequest
from assay.engine.runs import start
from assay.models.batch_api import SKEW, BatchKey, earliest
from assay.presentation.subject import batch_words
from tests.engine.batch_runs import attempts, manifest, resumed, run, write_run
from tests.engine.run_settings import planned
from tests.models.batch_provider import BatchProvider, Faults, Refused, Request

BOTH = pytest.mark.parametrize("kind", ["openai", "anthropic"])
RESULTS = ("/content", "/results")
FETCH = {"openai": "GET /v1/files/ID/content", "anthropic": "GET /v1/messages/batches/ID/results"}
CREATE = "/v1/messages/batches"
NOON = 1_792_000_000.0


def refusing(refused: Refused, *endings: str) -> Callable[[str, str, int], Refused | None]:
    """Refuses every look at paths that end so."""
    return lambda method, path, _: refused if method == "GET" and path.endswith(endings) else None


def not_created(*request: object) -> str | None:
    """Swallows what would create the second batch."""
    return "hang_before" if request == ("POST", CREATE, 2) else None


def impatient(provider: BatchProvider) -> dict[str, object]:
    """The provider, from which nobody waits long for an answer."""
    return {"name": "shop", "kind": "anthropic", "base_url": provider.base_url, "timeout": 1.5}


def doubtful(folder: Path, provider: BatchProvider) -> Path:
    """A detached run of which nobody knows whether the batch of another one, which is as large, is its own."""
    (folder / "other").mkdir()
    run(write_run(folder / "other", provider, kind="anthropic"), is_detached=True)
    provider.meddle = not_created
    run_file = write_run(folder, provider, kind="anthropic", providers=[impatient(provider)])
    run(run_file, is_detached=True)
    return run_file


@BOTH
def test_requests_whose_results_the_provider_has_no_more_are_asked_one_by_one(kind: str, tmp_path: Path) -> None:
    with BatchProvider(meddle=refusing(Refused(404, "No such File object"), *RESULTS)) as provider:
        run_file = write_run(tmp_path, provider, kind=kind)
        assert run(run_file).counts.evaluated_records == 6
    (batch,) = manifest(run_file)["batches"]
    assert (provider.seen[FETCH[kind]], len(provider.live)) == (LOST_LOOKS, 6)
    assert (batch["answered"], batch["errors"], batch["asked_live"]) == (0, {"batch_lost": 6}, 6)


@BOTH
def test_results_that_can_never_be_fetched_end_the_run_and_a_resumed_one_collects_them(kind: str, tmp_path: Path) -> None:
    with BatchProvider(meddle=refusing(Refused(500), *RESULTS)) as provider:
        run_file = write_run(tmp_path, provider, kind=kind, batch={"poll_seconds": 0.001})
        with pytest.raises(ServerProblem, match="could not be collected"):
            run(run_file)
        provider.meddle = lambda *_: None
        assert resumed(run_file).counts.evaluated_records == 6
    assert (provider.seen[FETCH[kind]], provider.created, provider.live) == (PATIENCE + 1, 1, [])


def test_answers_that_were_merged_before_a_second_file_failed_are_counted(tmp_path: Path) -> None:
    def meddle(method: str, path: str, number: int) -> Refused | None:
        return Refused(500) if (method, number) == ("GET", 2) and path.endswith("/content") else None

    with BatchProvider(meddle=meddle, faults=Faults(refused=2)) as provider:
        run_file = write_run(tmp_path, provider)
        run(run_file)
    (batch,) = manifest(run_file)["batches"]
    assert (batch["answered"], batch["errors"], provider.live) == (4, {"invalid_request": 2}, [])


def test_a_batch_taken_for_ours_that_is_gone_has_ours_handed_in_and_nothing_asked_at_the_full_price(tmp_path: Path) -> None:
    with BatchProvider(faults=Faults(looks=50)) as provider:
        run_file = doubtful(tmp_path, provider)
        provider.batches.clear()
        provider.faults = Faults()
        assert resumed(run_file).counts.evaluated_records == 6
    (batch,) = manifest(run_file)["batches"]
    assert (provider.created, provider.live, batch["answered"]) == (1, [], 6)


def test_a_run_is_cancelled_at_once_although_its_batch_may_be_somebody_elses(tmp_path: Path) -> None:
    with BatchProvider(faults=Faults(looks=100_000)) as provider:
        run_file = doubtful(tmp_path, provider)
        result = api.cancel("x", runs_dir=tmp_path / "runs")
    told = " · ".join(batch_words(read_manifest(manifest(run_file)).batches))
    assert (result.state, provider.seen["POST /v1/messages/batches/ID/cancel"]) == ("cancelled", 0)
    assert told.startswith("1 batch · 0 of 6 requests answered · batch_uncertain 6 · batch msgbatch_0001 may not be ours, so")


def test_a_cancelled_run_counts_nothing_as_asked_one_by_one(tmp_path: Path) -> None:
    with BatchProvider(faults=Faults(looks=999)) as provider:
        run_file = write_run(tmp_path, provider)
        run(run_file, is_detached=True)
        api.cancel("x", runs_dir=tmp_path / "runs")
    (batch,) = manifest(run_file)["batches"]
    assert (batch["answered"], batch["asked_live"], provider.live, len(attempts(run_file))) == (3, 0, [], 6)


@pytest.mark.parametrize("ahead", [-86_400.0, 900.0, 86_400.0])
def test_a_clock_that_is_wrong_has_no_batch_handed_in_twice(ahead: float, tmp_path: Path) -> None:
    def meddle(method: str, path: str, number: int) -> str | None:
        return "reset" if (method, path, number) == ("POST", CREATE, 1) else None

    with BatchProvider(meddle=meddle) as provider:
        request = RunRequest(
            run_file=str(write_run(tmp_path, provider, kind="anthropic")), run_id="x", runs_dir=str(tmp_path / "runs")
        )
        (plan,) = planned(request).plans
        result = start(plan, tmp_path / "runs", RunEnvironment(environ={}, clock=lambda: time.time() + ahead))
    assert (result.counts.evaluated_records, provider.created, provider.live) == (6, 1, [])


@pytest.mark.parametrize(
    ("at", "now", "date", "since"),
    [
        (NOON, NOON + 60, formatdate(NOON + 60, usegmt=True), NOON - SKEW),
        (NOON + 900, NOON + 960, formatdate(NOON + 60, usegmt=True), NOON - SKEW),
        (NOON - 900, NOON - 840, formatdate(NOON + 60, usegmt=True), NOON - 900 - SKEW),
        (NOON, NOON + 60, "yesterday", NOON - SKEW),
        (NOON, NOON + 60, "", NOON - SKEW),
        (NOON + 900, NOON, formatdate(NOON, usegmt=True), 0.0),
    ],
    ids=["right", "ahead", "behind", "unreadable", "untold", "set back"],
)
def test_a_batch_is_looked_for_since_the_earlier_of_both_clocks(at: float, now: float, date: str, since: float) -> None:
    assert earliest(BatchKey(name="a", run_id="x", requests=1, at=at, now=now), date) == since


def test_a_batch_of_the_same_size_from_before_the_run_is_not_even_looked_at(tmp_path: Path) -> None:
    with BatchProvider(faults=Faults(looks=100_000)) as provider:
        (tmp_path / "other").mkdir()
        run(write_run(tmp_path / "other", provider, kind="anthropic"), is_detached=True)
        provider.batches["msgbatch_0001"].created_at -= SKEW + 60
        looks = provider.batches["msgbatch_0001"].looks
        provider.meddle = not_created
        provider.faults = Faults()
        run_file = write_run(tmp_path, provider, kind="anthropic", providers=[impatient(provider)])
        assert run(run_file).counts.evaluated_records == 6
    assert (manifest(run_file)["batches"][0]["batch_id"], provider.batches["msgbatch_0001"].looks) == ("msgbatch_0002", looks)


def test_an_error_whose_code_is_no_text_costs_its_own_record_alone(tmp_path: Path) -> None:
    with BatchProvider(faults=Faults(expired=1)) as provider:
        run_file = write_run(tmp_path, provider)
        run(run_file, is_detached=True)
        looked_at = [provider.carry_out(Request("GET", "/v1/batches/batch_0001", {}, {}, b"")) for _ in range(2)]
        errors = looked_at[-1]["error_file_id"]
        provider.files[errors] = provider.files[errors].replace(b'"batch_expired"', b'["batch_expired"]')
        assert resumed(run_file).counts.total_records == 6
    assert manifest(run_file)["batches"][0]["answered"] == 5


def test_a_creation_that_is_refused_for_the_moment_does_not_have_the_file_uploaded_again(tmp_path: Path) -> None:
    def meddle(method: str, path: str, number: int) -> Refused | None:
        return Refused(429, headers={"Retry-After": "0"}) if (method, path) == ("POST", "/v1/batches") and number < 3 else None

    with BatchProvider(meddle=meddle) as provider:
        assert run(write_run(tmp_path, provider)).counts.evaluated_records == 6
    assert (provider.seen["POST /v1/files"], provider.seen["POST /v1/batches"], provider.created) == (1, 3, 1)


def test_a_detached_run_does_not_say_that_all_is_handed_in_when_the_queue_is_full(tmp_path: Path) -> None:
    with BatchProvider(faults=Faults(most_waiting=1)) as provider:
        run_file = write_run(tmp_path, provider, batch={"max_requests": 3})
        with pytest.raises(ServerProblem, match="not everything is handed in"):
            run(run_file, is_detached=True)
        assert resumed(run_file).counts.evaluated_records == 6
    assert provider.live == []


def test_a_detached_run_hands_its_batch_in_when_the_one_it_found_is_somebody_elses(tmp_path: Path) -> None:
    with BatchProvider() as provider:
        doubtful(tmp_path, provider)
    assert (provider.created, provider.live) == (2, [])


@pytest.mark.parametrize("name", ["../files/file-0001", "a/b", "batch?x=1", "", ".."])
def test_an_id_that_leads_to_another_path_is_never_asked_for(name: str, tmp_path: Path) -> None:
    class Misnaming(BatchProvider):
        def carry_out(self, request: Request) -> Any:
            said = super().carry_out(request)
            return {**said, "id": name} if (request.method, request.path) == ("POST", "/v1/batches") else said

    with Misnaming() as provider:
        assert run(write_run(tmp_path, provider)).counts.evaluated_records == 6
    assert {path for path in provider.seen if path.startswith("GET")} == {"GET /v1/batches", "GET /v1/batches/ID", FETCH["openai"]}
    assert (provider.created, provider.live) == (1, [])
