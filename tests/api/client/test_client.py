"""The client and a real service on a real socket."""

import asyncio
import gzip
import hashlib
import json
import threading
from pathlib import Path

import pytest

import assay
from assay.api import RunStatus
from assay.core.run_result import RunListing
from assay.testing import example_dataset
from tests.surfaces.server.serving import Serving, dataset

DOCUMENT = json.dumps(dataset(3)).encode()
LONG = json.dumps(dataset(1_000)).encode()
"""One by one, its records take longer than anybody looks."""


def broken_document() -> bytes:
    document = dataset(3)
    document["records"][1]["input"]["prompt"] = 7
    return json.dumps(document).encode()


@pytest.fixture(scope="module")
def finished(client: assay.Client) -> RunStatus:
    return client.wait(client.start(broken_document(), model="scripted/echo").run_id)


def test_service_says_its_version(client: assay.Client) -> None:
    assert (client.health().status, client.health().version) == ("ok", assay.__version__)


def test_validation_says_what_is_wrong_without_a_run(client: assay.Client) -> None:
    found = client.validate(broken_document())
    assert (found.contract, found.outcome, found.summary.rejected_records) == ("batch_v1", "accepted_with_record_errors", 1)
    assert [(error.index, error.code, error.path) for error in found.record_errors] == [
        (1, "invalid_field_type", "records[1].input.prompt")
    ]


@pytest.mark.parametrize("contract", ["batch_v1", "golden_v1", "legal_eval_v1", "conversation_v1"])
def test_file_of_every_contract_is_recognised(client: assay.Client, tmp_path: Path, contract: str) -> None:
    path = tmp_path / ("rows.jsonl" if contract == "legal_eval_v1" else "document.json")
    path.write_bytes(example_dataset(contract))
    found = client.validate(path)
    assert (found.contract, found.is_valid) == (contract, True)


def test_packed_file_and_file_packed_on_the_way_say_the_same(client: assay.Client, tmp_path: Path) -> None:
    (tmp_path / "plain.json").write_bytes(DOCUMENT)
    (tmp_path / "packed.json.gz").write_bytes(gzip.compress(DOCUMENT))
    packing = assay.Client(client.url, compress=True)
    found = [client.validate(tmp_path / "packed.json.gz"), packing.validate(tmp_path / "plain.json"), packing.validate(DOCUMENT)]
    assert [(one.outcome, one.summary.total_records) for one in found] == [("accepted", 3)] * 3


def test_run_is_started_and_followed_to_its_end(client: assay.Client, finished: RunStatus) -> None:
    assert (finished.state, finished.model, finished.done_records) == ("completed_with_failures", "scripted/echo", 3)
    assert (finished.counts.evaluated_records, finished.counts.invalid_records) == (2, 1)
    assert finished.metrics is not None
    assert finished.gate is not None
    assert client.run(finished.run_id).state == finished.state


def test_watcher_sees_the_run_on_its_way(client: assay.Client) -> None:
    seen: list[RunStatus] = []
    started = client.start(LONG, model="scripted/slow-300", concurrency=1)

    def watch(status: RunStatus) -> None:
        seen.append(status)
        if len(seen) == 1:
            client.cancel(started.run_id)

    assert client.wait(started.run_id, watch=watch) == seen[-1]
    assert len(seen) > 1


def test_waiting_ends_when_the_time_is_up_and_the_run_goes_on(client: assay.Client) -> None:
    started = client.start(LONG, model="scripted/slow-300", concurrency=1)
    assert not client.wait(started.run_id, seconds=0.2).is_finished
    client.cancel(started.run_id)
    assert client.wait(started.run_id).state == "cancelled"


def test_same_key_finds_the_same_run_and_refuses_another_dataset(client: assay.Client) -> None:
    first, second = (client.start(DOCUMENT, idempotency_key="nightly-17") for _ in range(2))
    assert first.run_id == second.run_id
    with pytest.raises(assay.ServerProblem) as caught:
        client.start(broken_document(), idempotency_key="nightly-17")
    assert (caught.value.code, caught.value.status, caught.value.details["run_id"]) == ("conflict", 409, first.run_id)


def test_without_a_key_each_start_is_a_run_of_its_own(client: assay.Client) -> None:
    assert client.start(DOCUMENT).run_id != client.start(DOCUMENT).run_id


def test_refusal_has_everything_that_the_service_says(client: assay.Client) -> None:
    with pytest.raises(assay.ServerProblem) as caught:
        client.start(DOCUMENT, model="nosuch/model")
    problem = caught.value
    assert (problem.code, problem.status, bool(problem.request_id)) == ("invalid_request", 400, True)
    assert "unknown provider 'nosuch'" in problem.problems[0]


def test_setting_that_the_service_does_not_know_is_refused(client: assay.Client) -> None:
    with pytest.raises(assay.ServerProblem, match="temprature"):
        client.start(DOCUMENT, temprature=0)


def test_unknown_run_is_a_refusal_with_its_code(client: assay.Client) -> None:
    with pytest.raises(assay.ServerProblem) as caught:
        client.run("run_no_such")
    assert (caught.value.code, caught.value.status) == ("not_found", 404)


def test_runs_are_listed_page_by_page(client: assay.Client, service: Serving, finished: RunStatus) -> None:
    listed = list(client.runs())
    assert isinstance(listed[0], RunListing)
    assert {run.run_id for run in listed} >= {finished.run_id}
    assert finished.run_id in [run.run_id for run in client.runs(model="scripted/echo", state="completed_with_failures")]
    assert finished.run_id not in [run.run_id for run in client.runs(model="scripted/echo", state="completed")]
    assert [run.run_id for run in listed] == [run["run_id"] for run in service.runs()]


def test_more_lines_than_a_page_has_are_all_read(client: assay.Client) -> None:
    status = client.wait(client.start(json.dumps(dataset(1_100)).encode(), model="scripted/echo").run_id)
    assert [line["index"] for line in client.records(status.run_id)] == list(range(1_100))


def test_records_errors_and_failures_are_read(client: assay.Client, finished: RunStatus) -> None:
    assert [line["record_id"] for line in client.records(finished.run_id, passed=True)] == ["q_0000", "q_0002"]
    assert client.record(finished.run_id, "q_0002")["prediction"]["model_response"] == "What is 2 + 1?"
    assert [error.record_id for error in client.errors(finished.run_id)] == ["q_0001"]
    assert [line["status"] for line in client.failures(finished.run_id)] == ["invalid_record"]
    assert client.distribution(finished.run_id)["graded_records"] == 2


def test_events_are_followed_to_the_end(client: assay.Client) -> None:
    started = client.start(LONG, model="scripted/slow-300", concurrency=1)
    events = []
    for event in client.events(started.run_id):
        events.append(event)
        if len(events) == 1:
            client.cancel(started.run_id)
    assert [event.is_end for event in events] == [False] * (len(events) - 1) + [True]
    assert len(events) > 1
    assert list(client.events(started.run_id, last_event_id=events[-1].id)) == []


def test_artifact_and_table_are_saved(client: assay.Client, finished: RunStatus, tmp_path: Path) -> None:
    entry = next(entry for entry in client.artifacts(finished.run_id) if entry.name == "predictions.jsonl")
    saved = client.artifact(finished.run_id, "predictions.jsonl", tmp_path / "answers.jsonl")
    assert hashlib.sha256(saved.read_bytes()).hexdigest() == entry.sha256
    assert client.export(finished.run_id, tmp_path / "table.csv", format="csv").read_bytes().startswith(b"index,record_id")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["answers.jsonl", "table.csv"]


def test_artifact_that_is_not_there_is_named_with_those_that_are(client: assay.Client, finished: RunStatus, tmp_path: Path) -> None:
    with pytest.raises(assay.UsageProblem) as caught:
        client.artifact(finished.run_id, "nothing.json", tmp_path / "nothing.json")
    assert "run_manifest.json" in caught.value.hint


def test_downloaded_run_is_a_run_like_any_other(client: assay.Client, finished: RunStatus, tmp_path: Path) -> None:
    from assay import api  # noqa: PLC0415  # the door for surfaces, beside the one for users

    for _ in range(2):
        assert client.download(finished.run_id, tmp_path) == tmp_path / finished.run_id
    assert api.verify(finished.run_id, runs_dir=tmp_path) == []
    assert assay.open_run("latest", runs_dir=tmp_path).result.metrics == finished.metrics
    assert [path.name for path in tmp_path.iterdir()] == [finished.run_id]


def test_two_runs_are_compared(client: assay.Client, finished: RunStatus) -> None:
    other = client.wait(client.start(broken_document(), model="scripted/echo", judge=["scripted/judge-1"]).run_id)
    assert client.compare(finished.run_id, other.run_id)["n"] == 2


def test_finished_run_cannot_be_cancelled_or_resumed(client: assay.Client, finished: RunStatus) -> None:
    for act in (client.cancel, client.resume):
        with pytest.raises(assay.ServerProblem) as caught:
            act(finished.run_id)
        assert caught.value.code == "conflict"


def test_event_loop_has_the_same_calls(client: assay.Client, tmp_path: Path) -> None:
    async def work() -> tuple[RunStatus, list[str], list[bool]]:
        there = assay.AsyncClient(client.url)
        started = await there.start(DOCUMENT, model="scripted/echo")
        status = await there.wait(started.run_id)
        await there.download(started.run_id, tmp_path)
        return (
            status,
            [line["record_id"] async for line in there.records(started.run_id)],
            [event.is_end async for event in there.events(started.run_id)],
        )

    status, names, ends = asyncio.run(work())
    assert (status.state, names, ends) == ("completed", ["q_0000", "q_0001", "q_0002"], [True])
    assert (tmp_path / status.run_id / "run_manifest.json").is_file()


def test_cancelled_follower_of_a_silent_run_hangs_up_at_once(client: assay.Client) -> None:
    run_id = client.start(LONG, model="scripted/slow-300", concurrency=1).run_id

    async def follow() -> list[str]:
        return [event.id async for event in assay.AsyncClient(client.url).events(run_id)]

    def followers() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name.startswith("assay events")]

    async def follow_and_leave() -> list[threading.Thread]:
        following = asyncio.create_task(follow())
        async with asyncio.timeout(60):
            while not followers():  # noqa: ASYNC110  # a thread that begins has no event
                await asyncio.sleep(0.01)
        begun = followers()
        following.cancel()
        with pytest.raises(asyncio.CancelledError):
            await following
        return begun

    begun = asyncio.run(follow_and_leave())
    assert begun
    for thread in begun:
        thread.join(20)
    assert [thread for thread in begun if thread.is_alive()] == []
    client.cancel(run_id)


def test_every_call_is_there_for_an_event_loop_too() -> None:
    public = {name for name in vars(assay.Client) if not name.startswith("_")} - {"url"}
    assert public <= set(vars(assay.AsyncClient))
