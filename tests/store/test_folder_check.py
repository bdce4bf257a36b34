"""Checks of a runs folder."""

import os
from pathlib import Path

import pytest

from assay.store.folder_check import check_runs_folder, file_system
from tests.surfaces.cli.test_doctor import doctor


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is closed to root")
def test_a_folder_that_cannot_be_written_is_to_be_mended(folder: Path) -> None:
    folder.chmod(0o500)
    (check,) = check_runs_folder(folder)
    assert (check.standing, check.hint.startswith("make it writable")) == ("problem", True)


def test_a_file_in_place_of_the_folder_is_to_be_mended(folder: Path) -> None:
    (folder / "runs").write_text("", encoding="utf-8")
    assert doctor("--offline").exit_code == 1


@pytest.mark.parametrize(("place", "kind"), [("/srv/runs", "nfs4"), ("/srv runs/x", "cifs"), ("/home/me", "ext4")])
def test_the_file_system_is_that_of_the_nearest_mount(place: str, kind: str) -> None:
    mounts = "/dev/sda / ext4 rw 0 0\nhost:/x /srv nfs4 rw 0 0\n//host/y /srv\\040runs cifs rw 0 0\n"
    assert file_system(Path(place), mounts) == kind
