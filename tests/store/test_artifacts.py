"""Artifacts: written once, published whole, and every changed byte has a name."""

import hashlib
import json
import shutil
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.errors import RunSealed, StoreUnavailable
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
