"""The manifest as a type: what earlier and later versions write is read, and what is damaged is named."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.core.errors import RunDamaged
from assay.core.manifest import Manifest, RescoredRun, read_manifest
from assay.core.retention import RetentionPolicy
from assay.store.published_run import PublishedRun, open_run_folder

EARLIER = Path(__file__).parent.parent / "engine" / "earlier_runs" / "batch"


def document(**changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((EARLIER / "run_manifest.json").read_text())
    return {**found, **changes}


def test_a_manifest_of_an_earlier_version_has_every_member() -> None:
    found = open_run_folder(EARLIER).manifest
    assert (found.assay_version, found.status, found.counts.evaluated_records) == ("0.1.0", "completed", 3)
    assert (found.not_sent, found.retention, found.rescored_from) == ((), RetentionPolicy(), None)
    assert found.files["predictions.jsonl"].lines == 3
    assert found.settings.judges == found.judges


def test_what_is_read_is_what_was_written() -> None:
    stored = document()
    written = msgspec.json.decode(msgspec.json.encode(read_manifest(stored)))
    later = {name for name in written if name not in stored}
    assert later == {"negotiated", "not_sent", "retention"}
    # Of the models and the gate, this version writes members that the earlier one did not.
    same = stored.keys() - {"candidate", "judges", "gate"}
    assert {name: written[name] for name in same} == {name: stored[name] for name in same}


def test_numbers_and_the_plan_stay_as_they_were_written() -> None:
    found = read_manifest(document(temperature=0))
    assert str(found.temperature) == "0"
    assert found.plan_members == document()["plan"]


def test_members_of_a_later_version_are_kept_but_not_needed() -> None:
    run = PublishedRun(EARLIER, document(weather="fine", counts={**document()["counts"], "postponed_records": 0}))
    assert run.manifest.counts.total_records == 3
    assert run.members["weather"] == "fine"


def test_a_plan_that_only_a_later_version_can_read_does_not_hide_the_run() -> None:
    found = read_manifest(document(plan={**document()["plan"], "rubric_mode": "one_call_for_two"}))
    assert (found.run_id, found.plan_members["rubric_mode"]) == ("earlier", "one_call_for_two")
    assert (found.plan.rubric_mode, found.plan.run_id, len(found.plan.datasets)) == ("per_criterion", "earlier", 1)
    with pytest.raises(RunDamaged, match=r"cannot be read: Invalid enum value 'one_call_for_two'"):
        _ = found.settings


@pytest.mark.parametrize("member", ["run_id", "status", "candidate", "counts", "gate", "plan"])
def test_a_manifest_without_a_member_that_every_version_writes_is_damaged(member: str) -> None:
    stored = document()
    del stored[member]
    with pytest.raises(RunDamaged, match=f"missing required field `{member}`"):
        _ = PublishedRun(EARLIER, stored).manifest


def test_hashes_are_known_though_other_members_are_damaged() -> None:
    run = PublishedRun(EARLIER, document(status=7))
    assert run.hashes["predictions.jsonl"].lines == 3
    with pytest.raises(RunDamaged, match="manifest"):
        _ = PublishedRun(EARLIER, document(artifacts=[])).hashes


def test_before_it_is_sealed_a_manifest_has_no_hashes() -> None:
    bare = msgspec.structs.replace(read_manifest(document()), artifacts=msgspec.UNSET, manifest_sha256=msgspec.UNSET)
    assert (bare.files, bare.own_hash) == ({}, "")
    assert not {"artifacts", "manifest_sha256"} & set(msgspec.to_builtins(bare))


def test_a_rescored_run_names_the_run_that_was_graded() -> None:
    origin = {"run_id": "first", "manifest_sha256": "0" * 64, "completed_at": "2026-11-16T18:10:22.099Z"}
    found: Manifest = read_manifest(document(rescored_from=origin))
    assert found.rescored_from == RescoredRun(**origin)
