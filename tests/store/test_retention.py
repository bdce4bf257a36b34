"""Retention: nothing goes too early, and nothing goes without a trace."""

import json
from pathlib import Path

import pytest

from assay.core.errors import RunNotFound, StoreUnavailable, UsageProblem
from assay.core.retention import RetentionPolicy, RetentionSettings
from assay.store.published_run import open_run_folder
from assay.store.retention import AGGREGATE, RAW, purge_run, purgeable
from assay.store.verify import removed_artifacts, verify_run
from tests.store.samples import DAY, ENDED_AT, sealed_run


def audit(runs: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (runs / "audit.jsonl").read_text().splitlines()]


@pytest.mark.parametrize(("days", "expected"), [(0, ()), (29.99, ()), (30, RAW), (179.99, RAW), (180, RAW + AGGREGATE)])
def test_artifacts_expire_on_their_day(days: float, expected: tuple[str, ...], tmp_path: Path) -> None:
    assert purgeable(sealed_run(tmp_path), now=ENDED_AT + days * DAY) == list(expected)


def test_a_longer_policy_keeps_longer_and_a_shorter_one_is_refused(tmp_path: Path) -> None:
    wanted = RetentionSettings(raw_days=90, aggregate_days=365)
    assert purgeable(sealed_run(tmp_path), now=ENDED_AT + 60 * DAY, wanted=wanted) == []
    with pytest.raises(UsageProblem, match="too short"):
        RetentionPolicy(raw_days=29)


def test_expired_artifacts_go_and_leave_tombstones(tmp_path: Path) -> None:
    run = sealed_run(tmp_path)
    hashes = open_run_folder(run).hashes
    tombstones = purge_run(run, now=ENDED_AT + 31 * DAY)
    assert {tombstone.name: tombstone.sha256 for tombstone in tombstones} == {name: hashes[name].sha256 for name in RAW}
    assert {path.name for path in run.iterdir()} == {"run_manifest.json", "purged.json", *AGGREGATE}
    assert (verify_run(run), open_run_folder(run).purged()) == ([], tombstones)


def test_after_the_last_day_only_manifest_and_tombstones_are_left(tmp_path: Path) -> None:
    run = sealed_run(tmp_path)
    purge_run(run, now=ENDED_AT + 31 * DAY)
    purge_run(run, now=ENDED_AT + 181 * DAY)
    assert {path.name for path in run.iterdir()} == {"run_manifest.json", "purged.json"}
    assert (verify_run(run), len(open_run_folder(run).purged())) == ([], len(RAW + AGGREGATE))


def test_an_early_purge_is_refused_and_says_when(tmp_path: Path) -> None:
    run = sealed_run(tmp_path)
    with pytest.raises(UsageProblem, match="may be removed yet") as problem:
        purge_run(run, now=ENDED_AT + DAY)
    assert "from 2026-02-14T10:00:00Z" in problem.value.hint
    assert verify_run(run) == []


def test_a_forced_purge_would_remove_everything_but_the_manifest(tmp_path: Path) -> None:
    assert purgeable(sealed_run(tmp_path), now=ENDED_AT, force=True) == list(RAW + AGGREGATE)


def test_an_early_purge_needs_a_reason(tmp_path: Path) -> None:
    run = sealed_run(tmp_path)
    with pytest.raises(UsageProblem, match="needs a reason"):
        purge_run(run, now=ENDED_AT + DAY, force=True, reason=" ")
    assert not (tmp_path / "audit.jsonl").exists()


def test_a_forced_purge_is_audited(tmp_path: Path) -> None:
    run = sealed_run(tmp_path)
    purge_run(run, now=ENDED_AT + DAY, force=True, reason="erasure request 17")
    entry = audit(tmp_path)[0]
    assert (entry["run_id"], entry["is_early"], entry["reason"]) == ("r1", True, "erasure request 17")
    assert {path.name for path in run.iterdir()} == {"run_manifest.json", "purged.json"}
    assert open_run_folder(run).purged()[0].reason == "erasure request 17"


def test_a_usual_purge_is_audited_too(tmp_path: Path) -> None:
    purge_run(sealed_run(tmp_path), now=ENDED_AT + 31 * DAY)
    assert [(entry["is_early"], entry["reason"], entry["at"]) for entry in audit(tmp_path)] == [
        (False, "retention", "2026-02-15T10:00:00Z")
    ]


def test_a_purge_that_was_cut_off_can_be_repeated(tmp_path: Path) -> None:
    run = sealed_run(tmp_path)
    content = (run / "failures.jsonl").read_bytes()
    purge_run(run, now=ENDED_AT + 31 * DAY)
    (run / "failures.jsonl").write_bytes(content)
    assert verify_run(run) == []
    assert [tombstone.name for tombstone in purge_run(run, now=ENDED_AT + 32 * DAY)] == ["failures.jsonl"]
    assert open_run_folder(run).purged()[0].purged_at == "2026-02-15T10:00:00Z"


def test_a_purged_artifact_says_so_when_it_is_read(tmp_path: Path) -> None:
    run = sealed_run(tmp_path)
    purge_run(run, now=ENDED_AT + 31 * DAY)
    with pytest.raises(RunNotFound, match="was removed by retention"):
        list(open_run_folder(run).lines("predictions.jsonl"))


def test_a_forged_tombstone_hides_nothing(tmp_path: Path) -> None:
    run = sealed_run(tmp_path)
    (run / "failures.jsonl").unlink()
    forged = {"name": "failures.jsonl", "sha256": "00", "bytes": 1, "lines": 1, "purged_at": "", "reason": ""}
    (run / "purged.json").write_text(json.dumps({"purged": [forged]}))
    assert list(map(str, verify_run(run))) == ["failures.jsonl: is missing", "purged.json: was changed, its own hash differs"]
    (run / "purged.json").write_text("{")
    assert list(map(str, verify_run(run))) == ["failures.jsonl: is missing", "purged.json: was changed, its own hash differs"]
    with pytest.raises(StoreUnavailable, match="is damaged"):
        open_run_folder(run).purged()


@pytest.mark.parametrize("manifest", ["[]", "{", '{"completed_at": "2026-01-15T10:00:00Z", "artifacts": []}'])
def test_a_damaged_manifest_is_one_clear_error_and_nothing_goes(manifest: str, tmp_path: Path) -> None:
    run = sealed_run(tmp_path)
    (run / "run_manifest.json").chmod(0o644)
    (run / "run_manifest.json").write_text(manifest)
    before = sorted(run.iterdir())
    with pytest.raises(StoreUnavailable, match="damaged"):
        purge_run(run, now=ENDED_AT + 1000 * DAY)
    assert sorted(run.iterdir()) == before


def test_what_retention_has_removed_is_told_unless_it_is_forged(tmp_path: Path) -> None:
    run = sealed_run(tmp_path)
    tombstones = purge_run(run, now=ENDED_AT + 31 * DAY)
    assert removed_artifacts(run) == tombstones
    (run / "purged.json").chmod(0o644)
    (run / "purged.json").write_text((run / "purged.json").read_text().replace(tombstones[0].sha256, "0" * 64))
    assert removed_artifacts(run) == tombstones[1:]


def test_a_run_that_does_not_say_when_it_ended_is_kept(tmp_path: Path) -> None:
    run = sealed_run(tmp_path)
    (run / "run_manifest.json").chmod(0o644)
    (run / "run_manifest.json").write_text("{}")
    with pytest.raises(UsageProblem, match="does not say when"):
        purgeable(run, now=ENDED_AT + 1000 * DAY)
