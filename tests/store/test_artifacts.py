"""Artifacts: written once, published whole, and every changed byte has a name."""

import hashlib
import json
import shutil
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.core.errors import RunNotFound, RunSealed, StoreUnavailable
from assay.core.manifest import ArtifactHash
from assay.store.artifacts import (
    ARTIFACTS,
    CASES,
    EXPORTS,
    AttemptChain,
    MerkleTree,
    StagingFolder,
    merkle_root,
    remove_stale_staging,
)
from assay.store.published_run import open_run_folder
from assay.store.verify import verify_run
from tests.store.samples import fill, run_python, sealed_run

FULL_DISK = """
import resource, sys
from pathlib import Path
from assay.core.errors import StoreUnavailable
from assay.store.artifacts import StagingFolder
from tests.store.samples import sealed_run
runs = Path(sys.argv[1])
LIMIT, ROOM = resource.KIND, resource.getrlimit(resource.KIND)
resource.setrlimit(LIMIT, (int(sys.argv[2]), ROOM[1]))
try:
    sealed_run(runs, records=20_000)
except StoreUnavailable as problem:
    print(problem.message.count("\\n"), "then try again" in problem.hint)
resource.setrlimit(LIMIT, ROOM)
print([path.name for path in runs.rglob("*")])
print(sealed_run(runs, records=20_000).name)
"""


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder that tests may damage if they mend it."""
    return sealed_run(tmp_path_factory.mktemp("runs"))


def test_a_published_run_has_all_artifacts_read_only(tmp_path: Path) -> None:
    run = sealed_run(tmp_path)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in run.iterdir()}
    assert modes == dict.fromkeys((*ARTIFACTS, CASES, *EXPORTS), 0o444)
    assert list((tmp_path / ".active").iterdir()) == []


def test_the_manifest_has_hash_bytes_and_lines_of_every_file(tmp_path: Path) -> None:
    run = open_run_folder(sealed_run(tmp_path))
    content = (run.path / "predictions.jsonl").read_bytes()
    assert run.hashes["predictions.jsonl"] == ArtifactHash(hashlib.sha256(content).hexdigest(), len(content), 3)
    assert set(run.hashes) == {*ARTIFACTS, CASES, *EXPORTS} - {"run_manifest.json"}


def test_large_files_are_hashed_in_pieces(tmp_path: Path) -> None:
    run = sealed_run(tmp_path, records=10_000)
    assert open_run_folder(run).hashes["predictions.jsonl"].lines == 10_000
    assert verify_run(run) == []


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


def test_publishing_other_bytes_under_the_same_name_is_refused(tmp_path: Path) -> None:
    run = sealed_run(tmp_path)
    with pytest.raises(RunSealed, match="exists already"):
        sealed_run(tmp_path, records=4)
    assert (verify_run(run), list((tmp_path / ".active").iterdir())) == ([], [])


def test_publishing_the_same_bytes_again_changes_nothing(tmp_path: Path) -> None:
    run = sealed_run(tmp_path)
    before = run.stat().st_ino
    assert sealed_run(tmp_path) == run
    assert run.stat().st_ino == before


def test_what_is_not_published_disappears(tmp_path: Path) -> None:
    with StagingFolder(tmp_path) as staging:
        staging.seal(fill(staging))
        assert [path.is_dir() for path in tmp_path.iterdir()] == [True]
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_can_be_cleared(tmp_path: Path) -> None:
    StagingFolder(tmp_path).open_lines("predictions.jsonl").discard()
    (tmp_path / "ledger.sqlite").write_bytes(b"")
    assert remove_stale_staging(tmp_path) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["ledger.sqlite"]


def test_a_folder_below_a_file_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreUnavailable, match="Not a directory"):
        StagingFolder(tmp_path / "file" / "work")
    with pytest.raises(StoreUnavailable, match="cannot use"):
        sealed_run(tmp_path / "file")


def test_a_staging_folder_that_is_gone_publishes_nothing(tmp_path: Path) -> None:
    with StagingFolder(tmp_path / "work") as staging:
        staging.seal(fill(staging))
        shutil.rmtree(staging.folder)
        with pytest.raises(StoreUnavailable, match="No such file"):
            staging.publish(tmp_path / "r1")


def test_a_full_disk_publishes_nothing_and_the_same_call_works_later(tmp_path: Path) -> None:
    printed = run_python(FULL_DISK.replace("KIND", "RLIMIT_FSIZE"), str(tmp_path), "100000")
    assert printed.splitlines() == ["0 True", "['.active']", "r1"]


def test_too_few_file_handles_publish_nothing_and_the_same_call_works_later(tmp_path: Path) -> None:
    printed = run_python(FULL_DISK.replace("KIND", "RLIMIT_NOFILE"), str(tmp_path), "5")
    assert printed.splitlines() == ["0 True", "['.active']", "r1"]


def test_lines_and_documents_are_read_back(tmp_path: Path) -> None:
    run = open_run_folder(sealed_run(tmp_path))
    assert [line["record_id"] for line in run.lines("predictions.jsonl")] == ["q0", "q1", "q2"]
    assert run.document("metrics_summary.json") == {"name": "metrics_summary.json"}
    assert (run.members["run_id"], run.purged()) == ("r1", ())


def test_a_damaged_or_missing_artifact_is_named_when_read(tmp_path: Path) -> None:
    run = open_run_folder(sealed_run(tmp_path))
    (run.path / "failures.jsonl").chmod(0o644)
    (run.path / "failures.jsonl").write_bytes(b"{")
    with pytest.raises(StoreUnavailable, match="is damaged"):
        list(run.lines("failures.jsonl"))
    (run.path / "failures.jsonl").unlink()
    with pytest.raises(RunNotFound, match="is missing"):
        list(run.lines("failures.jsonl"))


def test_each_link_of_the_chain_covers_the_line_and_the_one_before() -> None:
    chain = AttemptChain()
    first, second = chain.line(b'{"a":1}'), chain.line(b'{"b":2}')
    link = hashlib.sha256(bytes(32) + b'{"a":1}').digest()
    assert json.loads(first) == {"a": 1, "chain_sha256": link.hex()}
    assert json.loads(second)["chain_sha256"] == hashlib.sha256(link + b'{"b":2}').hexdigest() == chain.hexdigest()


def recursive_root(leaves: list[bytes]) -> bytes:
    """RFC 6962, 2.1, as written there."""
    if len(leaves) <= 1:
        return hashlib.sha256(b"".join(b"\x00" + leaf for leaf in leaves)).digest()
    split = 1 << (len(leaves) - 1).bit_length() - 1
    return hashlib.sha256(b"\x01" + recursive_root(leaves[:split]) + recursive_root(leaves[split:])).digest()


@given(st.lists(st.binary(max_size=4), max_size=40))
def test_the_merkle_root_is_that_of_the_standard(leaves: list[bytes]) -> None:
    assert merkle_root(iter(leaves)) == recursive_root(leaves).hex()


def test_the_tree_holds_one_hash_per_level() -> None:
    tree = MerkleTree()
    for number in range(1000):
        tree.add(number.to_bytes(2))
    assert len(tree._peaks) <= 10
