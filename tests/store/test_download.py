"""Runs from another place into a folder: whole and unchanged, or not at all."""

from pathlib import Path

import pytest

from assay.core.errors import RunDamaged
from assay.store.download import fetch_run, published_at
from assay.store.published_run import TOMBSTONES, LocalRunStorage
from assay.store.retention import purge_run
from tests.store.samples import sealed_run


class Store(LocalRunStorage):
    """A folder that holds whatever its manifest names, as a store may that somebody else writes to."""

    def names(self) -> set[str]:
        found = published_at(LocalRunStorage(self.path))
        return super().names() | set(found.artifacts if found else ())


def changed(folder: Path, old: bytes, new: bytes) -> Store:
    """The run with another manifest."""
    manifest = folder / "run_manifest.json"
    text = manifest.read_bytes()
    manifest.unlink()
    manifest.write_bytes(text.replace(old, new))
    return Store(folder)


def test_a_run_comes_whole_and_cannot_be_written(tmp_path: Path) -> None:
    source = sealed_run(tmp_path, "whole")
    fetch_run(LocalRunStorage(source), tmp_path / "there" / "whole", work=tmp_path / "work")
    fetched = {path.name: path.read_bytes() for path in (tmp_path / "there" / "whole").iterdir()}
    assert fetched == {path.name: path.read_bytes() for path in source.iterdir()}
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "there" / "whole").iterdir()} == {0o444}
    assert list((tmp_path / "work").iterdir()) == []


def test_what_retention_has_removed_stays_removed(tmp_path: Path) -> None:
    source = sealed_run(tmp_path, "purged")
    purge_run(source, now=0.0, force=True, reason="asked for")
    fetch_run(LocalRunStorage(source), tmp_path / "there", work=tmp_path / "work")
    assert {path.name for path in (tmp_path / "there").iterdir()} == {path.name for path in source.iterdir()} >= {TOMBSTONES}


@pytest.mark.parametrize("name", [b"../responses.jsonl", b"/responses.jsonl", b"run_manifest.json"])
def test_a_manifest_that_names_other_places_is_refused(name: bytes, tmp_path: Path) -> None:
    place = changed(sealed_run(tmp_path, "wandering"), b'"responses.jsonl"', b'"%s"' % name)
    with pytest.raises(RunDamaged, match="is not a name of an artifact"):
        fetch_run(place, tmp_path / "there", work=tmp_path / "work")
    assert not (tmp_path / "there").exists()


def test_a_manifest_that_was_changed_is_refused(tmp_path: Path) -> None:
    place = changed(sealed_run(tmp_path, "changed"), b'"completed"', b'"cancelled"')
    with pytest.raises(RunDamaged, match="its own hash differs"):
        fetch_run(place, tmp_path / "there", work=tmp_path / "work")
    assert not (tmp_path / "there").exists()
