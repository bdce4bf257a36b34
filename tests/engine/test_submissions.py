"""Submissions of a server: an upload becomes a queued run, and what servers that are gone have left is removed."""

import json
from pathlib import Path

import msgspec
import pytest

from assay import validate
from assay.core.errors import RunNotFound
from assay.engine.planning.request import RunRequest
from assay.engine.submissions import (
    UploadFolder,
    accept,
    exact_run,
    new_upload,
    one_report,
    prepare_run,
    queued_errors,
    sweep_gone,
    sweep_uploads,
    temporary,
    upload_verdict,
)
from assay.testing import example_dataset


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A folder of runs that servers use."""
    temporary(tmp_path).mkdir(parents=True)
    return tmp_path


def uploaded(runs: Path, presence: UploadFolder, run_id: str, content: bytes) -> RunRequest:
    path = new_upload(runs, run_id, place=presence.folder) / "data.json"
    path.write_bytes(content)
    return RunRequest(
        datasets=(str(path),), models=("scripted/echo",), judges=("scripted/judge-5",), run_id=run_id, runs_dir=str(runs)
    )


def batch(*prompts: object) -> bytes:
    records = [{"record_id": f"r{number}", "input": {"prompt": prompt}} for number, prompt in enumerate(prompts)]
    return json.dumps({"dataset_id": "d", "dataset_version": "1", "schema_version": "1.0", "records": records}).encode()


def test_an_upload_becomes_a_queued_run_which_the_next_server_finds(runs: Path) -> None:
    presence = UploadFolder(runs)
    verdict = prepare_run(uploaded(runs, presence, "one", batch("p", 7)))
    assert (verdict.outcome, verdict.evaluations) == ("accepted_with_record_errors", 1)
    assert verdict.record_errors_total == 1
    accept(verdict.plan, runs, at=1.0)
    presence.leave()
    following = UploadFolder(runs)
    assert sweep_uploads(runs, place=following.folder) == ["one"]
    assert [error["code"] for error in queued_errors(exact_run(runs, "one"))] == ["invalid_field_type"]
    following.leave()


def test_a_plan_without_a_name_of_its_dataset_has_the_id_of_the_document(runs: Path) -> None:
    presence = UploadFolder(runs)
    verdict = prepare_run(uploaded(runs, presence, "one", batch("p")))
    assert [dataset["name"] for dataset in json.loads(verdict.plan)["datasets"]] == ["d"]
    presence.leave()


def test_an_upload_of_a_server_that_is_gone_is_removed_and_one_under_way_stays(runs: Path) -> None:
    gone, here = UploadFolder(runs), UploadFolder(runs)
    left, kept = (new_upload(runs, name, place=place.folder) for name, place in (("left", gone), ("kept", here)))
    gone.leave()
    sweep_gone(runs, place=here.folder)
    assert (left.exists(), kept.exists(), gone.folder.exists(), here.folder.exists()) == (False, True, False, True)
    here.leave()


def test_settings_that_cannot_work_leave_no_plan(runs: Path) -> None:
    presence = UploadFolder(runs)
    request = msgspec.structs.replace(uploaded(runs, presence, "one", example_dataset("golden_v1")), judges=())
    verdict = prepare_run(request)
    assert (verdict.outcome, verdict.plan) == ("rejected", b"")
    assert any("judge" in problem for problem in verdict.problems)
    presence.leave()


@pytest.mark.parametrize("name", ["", "latest", "on", "../one", "two"])
def test_a_run_is_found_by_its_whole_id_alone(runs: Path, name: str) -> None:
    presence = UploadFolder(runs)
    accept(prepare_run(uploaded(runs, presence, "one", batch("p"))).plan, runs, at=1.0)
    assert exact_run(runs, "one").run_id == "one"
    with pytest.raises(RunNotFound):
        exact_run(runs, name)
    presence.leave()


def test_reports_on_several_datasets_are_one_with_the_worst_outcome() -> None:
    good, mixed = validate(batch("p"), "batch_v1"), validate(batch("p", 7, 8), "batch_v1")
    whole = one_report([good, mixed])
    assert (whole.outcome, whole.counts.accepted_records, whole.counts.rejected_records) == ("accepted_with_record_errors", 2, 2)
    assert upload_verdict(whole).record_errors_total == 2
    assert one_report([good]) is good
