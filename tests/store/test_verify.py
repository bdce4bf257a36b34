"""Verification: every change to a published run has a name."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.core.errors import RunNotFound
from assay.store.artifacts import (
    ARTIFACTS,
    CASES,
    EXPORTS,
)
from assay.store.verify import verify_run
from tests.store.samples import sealed_run


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder that tests may damage if they mend it."""
    return sealed_run(tmp_path_factory.mktemp("runs"))


def test_an_untouched_run_verifies(published: Path) -> None:
    assert verify_run(published) == []


@settings(max_examples=150)
@given(st.sampled_from((*ARTIFACTS, CASES, *EXPORTS)), st.floats(0, 1, exclude_max=True), st.integers(1, 255))
def test_any_changed_byte_is_named(published: Path, name: str, place: float, change: int) -> None:
    path = published / name
    content = path.read_bytes()
    index = int(place * len(content))
    path.chmod(0o644)
    path.write_bytes(content[:index] + bytes([content[index] ^ change]) + content[index + 1 :])
    problems = verify_run(published)
    path.write_bytes(content)
    assert any(problem.name == name and problem.problem.startswith("was changed") for problem in problems)


@pytest.mark.parametrize("name", sorted({*ARTIFACTS, CASES, *EXPORTS} - {"run_manifest.json"}))
def test_a_missing_file_is_named(name: str, tmp_path: Path) -> None:
    run = sealed_run(tmp_path)
    (run / name).unlink()
    assert list(map(str, verify_run(run))) == [f"{name}: is missing"]


def test_an_extra_file_and_a_link_are_named(tmp_path: Path) -> None:
    run = sealed_run(tmp_path)
    (run / "notes.txt").write_text("hello")
    (run / "failures.jsonl").rename(tmp_path / "elsewhere")
    (run / "failures.jsonl").symlink_to(tmp_path / "elsewhere")
    assert list(map(str, verify_run(run))) == ["failures.jsonl: is not a regular file", "notes.txt: is not part of the run"]


def test_the_first_bad_line_of_the_attempt_log_is_named(tmp_path: Path) -> None:
    run = sealed_run(tmp_path, records=9)
    lines = (run / "attempt_logs.jsonl").read_bytes().splitlines(keepends=True)
    (run / "attempt_logs.jsonl").chmod(0o644)
    (run / "attempt_logs.jsonl").write_bytes(b"".join(lines[:4] + lines[5:]))
    assert str(verify_run(run)[1]) == "attempt_logs.jsonl: line 5 breaks the hash chain"
    (run / "attempt_logs.jsonl").write_bytes(b"".join(lines[:4]))
    assert str(verify_run(run)[1]) == "attempt_logs.jsonl: its last line is not the end of the hash chain"


def test_moved_records_do_not_have_the_merkle_root(tmp_path: Path) -> None:
    run = sealed_run(tmp_path)
    lines = (run / "predictions.jsonl").read_bytes().splitlines(keepends=True)
    (run / "predictions.jsonl").chmod(0o644)
    (run / "predictions.jsonl").write_bytes(b"".join(reversed(lines)))
    assert str(verify_run(run)[1]) == "predictions.jsonl: its records do not have the Merkle root of the manifest"
    (run / "predictions.jsonl").write_bytes(lines[0] + b"{}\n")
    assert str(verify_run(run)[1]) == "predictions.jsonl: line 2 has no record_sha256"


def test_a_manifest_with_new_hashes_does_not_hide_a_change(tmp_path: Path) -> None:
    run = sealed_run(tmp_path)
    manifest = json.loads((run / "run_manifest.json").read_bytes())
    manifest["status"] = "completed_with_failures"
    (run / "run_manifest.json").chmod(0o644)
    (run / "run_manifest.json").write_text(json.dumps(manifest, indent=2))
    assert list(map(str, verify_run(run))) == ["run_manifest.json: was changed, its own hash differs"]
    (run / "run_manifest.json").write_text("{}")
    assert str(verify_run(run)[0]).startswith("run_manifest.json: was changed, it cannot be read")


def test_a_folder_without_a_run_is_not_verified(tmp_path: Path) -> None:
    with pytest.raises(RunNotFound, match="no finished run"):
        verify_run(tmp_path)
