"""Runs in an object store: each file is written once, the manifest last, and every changed byte shows."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from assay import api
from assay.core.errors import RunNotFound, RunSealed, StoreUnavailable, UsageProblem
from assay.integrations.object_store import ObjectRunStorage
from assay.store.published_run import WHOLE, publish_files
from assay.store.verify import verify_place
from tests.store.buckets import Bucket, running_bucket
from tests.store.samples import sealed_run

HOME = "s3://runs/nightly"


@pytest.fixture(scope="module")
def server() -> Iterator[Bucket]:
    """One server for all tests, each with runs of its own."""
    with running_bucket() as bucket:
        yield bucket


@pytest.fixture
def bucket(server: Bucket, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """The server, and the variables with which it is found."""
    for name, value in server.environ.items():
        monkeypatch.setenv(name, value)
    return server


def test_a_published_run_is_there_and_unchanged(bucket: Bucket, tmp_path: Path) -> None:
    folder = sealed_run(tmp_path, "whole")
    place = api.publish("whole", HOME, runs_dir=tmp_path)
    assert place == f"{HOME}/whole"
    assert ObjectRunStorage(place).names() == {path.name for path in folder.iterdir()}
    assert api.verify(place) == []
    assert bucket.ask("GET", "/runs/nightly/whole/failures.jsonl") == (200, (folder / "failures.jsonl").read_bytes())


def test_publishing_again_changes_nothing(bucket: Bucket, tmp_path: Path) -> None:
    folder = sealed_run(tmp_path, "twice")
    assert publish_files(folder, f"{HOME}/twice") == len(list(folder.iterdir()))
    before = bucket.ask("GET", "/runs?list-type=2&prefix=nightly/twice/")[1]
    assert publish_files(folder, f"{HOME}/twice") == 0
    assert bucket.ask("GET", "/runs?list-type=2&prefix=nightly/twice/")[1] == before


def test_what_was_cut_off_is_no_run_and_is_completed_later(bucket: Bucket, tmp_path: Path) -> None:
    folder = sealed_run(tmp_path, "half")
    bucket.ask("PUT", "/runs/nightly/half/failures.jsonl", (folder / "failures.jsonl").read_bytes())
    with pytest.raises(RunNotFound, match="no finished run"):
        api.verify(f"{HOME}/half")
    assert publish_files(folder, f"{HOME}/half") == len(list(folder.iterdir())) - 1
    assert api.verify(f"{HOME}/half") == []


def test_a_large_file_is_written_in_parts_and_once(bucket: Bucket, tmp_path: Path) -> None:
    large, other = tmp_path / "large", tmp_path / "other"
    large.write_bytes(bytes(range(256)) * (1 << 16) + b"the end")
    other.write_bytes(bytes(WHOLE + 1))
    place = ObjectRunStorage(f"{HOME}/parts")
    assert (place.put("large", large), place.put("large", other)) == (True, False)
    assert bucket.ask("GET", "/runs/nightly/parts/large")[1] == large.read_bytes()


def test_another_run_is_never_overwritten(bucket: Bucket, tmp_path: Path) -> None:
    publish_files(sealed_run(tmp_path / "a", "same", records=3), f"{HOME}/same")
    with pytest.raises(RunSealed, match="is another one"):
        publish_files(sealed_run(tmp_path / "b", "same", records=4), f"{HOME}/same")
    assert verify_place(ObjectRunStorage(f"{HOME}/same")) == []
    assert bucket.ask("GET", "/runs/nightly/same/predictions.jsonl")[1].count(b"\n") == 3


def test_a_changed_a_missing_and_a_foreign_object_are_named(bucket: Bucket, tmp_path: Path) -> None:
    publish_files(sealed_run(tmp_path, "spoilt"), f"{HOME}/spoilt")
    bucket.ask("PUT", "/runs/nightly/spoilt/responses.jsonl", b"{}\n")
    bucket.ask("DELETE", "/runs/nightly/spoilt/failures.jsonl")
    bucket.ask("PUT", "/runs/nightly/spoilt/notes.txt", b"hello")
    assert api.verify(f"{HOME}/spoilt") == [
        "failures.jsonl: is missing",
        "responses.jsonl: was changed, its SHA-256, bytes or lines differ from the manifest",
        "notes.txt: is not part of the run",
    ]


def test_a_run_that_was_changed_on_this_machine_is_not_published(bucket: Bucket, tmp_path: Path) -> None:
    folder = sealed_run(tmp_path, "changed")
    (folder / "responses.jsonl").unlink()
    with pytest.raises(UsageProblem, match="is not as it was published"):
        api.publish("changed", HOME, runs_dir=tmp_path)
    assert b"nightly/changed" not in bucket.ask("GET", "/runs?list-type=2")[1]


def test_a_bucket_that_is_not_there_is_named_without_a_secret(bucket: Bucket, tmp_path: Path) -> None:
    sealed_run(tmp_path, "lost")
    with pytest.raises(StoreUnavailable, match=r"cannot use s3://nowhere/lost: PUT: 404 Not Found \(NoSuchBucket\)$") as problem:
        api.publish("lost", "s3://nowhere", runs_dir=tmp_path)
    assert bucket.environ["AWS_SECRET_ACCESS_KEY"] not in problem.value.message


@pytest.mark.parametrize(
    "address",
    [
        "s3://",
        "s3://bucket",
        "ftp://bucket/run",
        "s3://me:secret@bucket/run",
        "s3://b/x#y",
        "s3://b/../x",
        "s3://b/a//b",
        "s3://b/a%2Fb",
    ],
)
def test_an_address_that_names_no_run_is_refused(address: str) -> None:
    with pytest.raises(UsageProblem) as problem:
        ObjectRunStorage(address)
    assert problem.value.hint
