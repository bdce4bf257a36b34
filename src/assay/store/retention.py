"""Retention: which artifacts of a run may be removed, and the tombstones and audit lines that stay."""

import os
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from assay.core.errors import RunDamaged, UsageProblem
from assay.core.retention import RetentionPolicy, RetentionSettings, longest_retention
from assay.store.artifacts import EXPORTS, self_hashed
from assay.store.audit import append_audit
from assay.store.failures import disk_errors, sync_folder
from assay.store.published_run import TOMBSTONES, TOMBSTONES_OWN_HASH, Tombstone, open_run_folder, read_tombstones

# Raw is what holds texts of records and answers, also as an export; aggregates hold numbers only.
RAW = (
    "predictions.jsonl",
    "attempt_logs.jsonl",
    "input_dataset.json",
    "cases.jsonl",
    "record_validation.jsonl",
    "failures.jsonl",
    *EXPORTS,
)
AGGREGATE = ("metrics_summary.json", "metrics_by_slice.json")
"""The manifest is in neither list: it stays forever, next to the tombstones."""

_DAY = 86400.0


_NOTHING_SET = RetentionSettings()


class _Times(msgspec.Struct):
    completed_at: str = ""


class _RetentionManifest(_Times):
    """The members of a manifest that decide how long artifacts are kept, also of one whose other members are damaged."""

    created_at: str = ""
    retention: RetentionPolicy = RetentionPolicy()
    rescored_from: _Times | None = None


def retention_of(run_dir: Path, wanted: RetentionSettings = _NOTHING_SET) -> RetentionPolicy:
    """Return how long a run's artifacts are stored: as its manifest or contract says, or longer if that is wanted."""
    try:
        # As narrow as possible: a run with a damaged manifest must still be removable in time.
        stated = msgspec.convert(open_run_folder(run_dir).members, _RetentionManifest).retention
    except msgspec.ValidationError as problem:
        raise RunDamaged(f'the manifest in "{run_dir}" is damaged: {problem}') from problem
    return longest_retention(RetentionSettings(**msgspec.structs.asdict(stated)), wanted)


def purgeable(run_dir: Path, *, now: float, wanted: RetentionSettings = _NOTHING_SET, force: bool = False) -> list[str]:
    """List the artifacts whose retention is over, with `force` all that are left; `now` is in seconds since 1970."""
    if force:
        return _present(run_dir, RAW + AGGREGATE)
    policy, age = retention_of(run_dir, wanted), (now - _ended_at(run_dir)) / _DAY
    expired = (RAW if age >= policy.raw_days else ()) + (AGGREGATE if age >= policy.aggregate_days else ())
    return _present(run_dir, expired)


def purge_run(
    run_dir: Path, *, now: float, wanted: RetentionSettings = _NOTHING_SET, force: bool = False, reason: str = ""
) -> tuple[Tombstone, ...]:
    """Remove what has expired, or with `force` and a reason everything but the manifest; returns the new tombstones.

    The audit line comes first, then the tombstones, then the files: an interrupted purge can be repeated, and nothing disappears
    without a trace. Raises UsageProblem when nothing may be removed.
    """
    expired = purgeable(run_dir, now=now, wanted=wanted)
    names = purgeable(run_dir, now=now, wanted=wanted, force=force)
    # The contract lets nothing go before its time; an operator who overrides that leaves a reason in the audit log.
    if force and not reason.strip():
        raise UsageProblem("an early purge needs a reason", hint="give one with --reason; it is written to the audit log")
    if not names:
        raise UsageProblem(f'nothing in "{run_dir}" may be removed yet', hint=_when(run_dir, retention_of(run_dir, wanted)))
    at, reason = _utc(now), reason or "retention"
    tombstones = _tombstones(run_dir, names, at=at, reason=reason)
    entry = {
        "run_id": run_dir.name,
        "at": at,
        "action": "purge",
        "artifacts": names,
        "is_early": set(names) > set(expired),
        "reason": reason,
    }
    append_audit(run_dir.parent, entry)
    _add_tombstones(run_dir, tombstones)
    with disk_errors(run_dir):
        for tombstone in tombstones:
            (run_dir / tombstone.name).unlink(missing_ok=True)
    sync_folder(run_dir)
    return tombstones


def _ended_at(run_dir: Path) -> float:
    try:
        times = msgspec.convert(open_run_folder(run_dir).members, _RetentionManifest)
        # A rescored run holds the texts of the original run, and must not keep them longer.
        ended = times.completed_at if times.rescored_from is None else times.rescored_from.completed_at
        return datetime.fromisoformat(ended or times.created_at).timestamp()
    except ValueError:
        raise UsageProblem(
            f'the manifest in "{run_dir}" does not say when the run ended', hint="`assay verify` shows what was changed"
        ) from None


def _present(run_dir: Path, names: Collection[str]) -> list[str]:
    return [name for name in names if (run_dir / name).exists()]


def _when(run_dir: Path, policy: RetentionPolicy) -> str:
    ended = _ended_at(run_dir)
    raw, aggregate = _utc(ended + policy.raw_days * _DAY), _utc(ended + policy.aggregate_days * _DAY)
    return f"raw artifacts may go from {raw}, aggregates from {aggregate}; earlier only with --force and a --reason"


def _utc(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _tombstones(run_dir: Path, names: Collection[str], *, at: str, reason: str) -> tuple[Tombstone, ...]:
    """Build tombstones from the manifest's hashes; a file that the manifest does not name is not an artifact and stays."""
    hashes = open_run_folder(run_dir).hashes
    known = [(name, hashes[name]) for name in names if name in hashes]
    return tuple(Tombstone(name, found.sha256, found.bytes, found.lines, at, reason) for name, found in known)


def _add_tombstones(run_dir: Path, tombstones: Collection[Tombstone]) -> None:
    """Replace the list of tombstones by a longer one in one step."""
    earlier = {tombstone.name: tombstone for tombstone in read_tombstones(run_dir)}
    # Earlier ones win: a purge that is repeated after a crash keeps the time and the reason of the first.
    merged = {**{tombstone.name: tombstone for tombstone in tombstones}, **earlier}
    document = {"purged": msgspec.to_builtins(list(merged.values()))}
    # Written next to the run folder, so that an interrupted purge leaves no unknown file in it.
    new = run_dir.parent / f".{run_dir.name}.{TOMBSTONES}"
    with disk_errors(new):
        new.unlink(missing_ok=True)
        with new.open("wb") as file:
            file.write(self_hashed(document, TOMBSTONES_OWN_HASH))
            file.flush()
            os.fchmod(file.fileno(), 0o444)
            os.fsync(file.fileno())
        new.replace(run_dir / TOMBSTONES)
    sync_folder(run_dir)
