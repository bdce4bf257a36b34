"""Datasets behind paths, patterns and folders: each file once, in order."""

import gzip
from pathlib import Path

import pytest

from assay import SourceUnreadable, UsageProblem
from assay.api import find_sources
from tests.api.test_validation import GOLDEN, ROW, TURNS
from tests.conftest import Put


def test_paths_globs_and_folders_are_expanded_in_order_without_repeats(put: Put, tmp_path: Path) -> None:
    files = [str(put(name, TURNS)) for name in ("a/1.json", "a/2.json", "b.json")]
    found = find_sources([files[2], str(tmp_path / "a" / "*.json"), str(tmp_path / "a"), files[0], "-"])
    assert found == (files[2], files[0], files[1], "-")


def test_a_folder_gives_the_datasets_at_any_depth(put: Put, tmp_path: Path) -> None:
    wanted = [
        put("x/deep/er/a.jsonl", ROW),
        put("b.JSON", GOLDEN),
        put("c.yml", b"- turn_id: 1\n"),
        put("d.json.gz", gzip.compress(b'{"cases":[]}')),
    ]
    put("readme.md", b"# turn_id: 1")
    put("e.json", b'{"name": "a package"}')
    skipped: list[str] = []
    assert set(find_sources([str(tmp_path)], on_skip=skipped.append)) == {str(path) for path in wanted}
    assert skipped == [str(tmp_path / "e.json")]


def test_a_recursive_glob_finds_all_files(put: Put, tmp_path: Path) -> None:
    paths = [put("a.json", TURNS), put("b/c/d.json", TURNS)]
    assert find_sources([str(tmp_path / "**" / "*.json")]) == tuple(map(str, paths))


def test_a_file_whose_name_looks_like_a_pattern_is_a_file(put: Put) -> None:
    path = str(put("a[1].json", TURNS))
    assert find_sources([path]) == (path,)


@pytest.mark.parametrize(
    ("pattern", "error", "message"),
    [
        ("*.json", UsageProblem, "no file matches"),
        ("missing.json", SourceUnreadable, "no such file"),
        ("", UsageProblem, "no datasets in folder"),
    ],
)
def test_what_is_not_there_is_named(pattern: str, error: type[Exception], message: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=message):
        find_sources([str(tmp_path / pattern)])


def test_a_mistyped_name_gets_the_nearest_one(put: Put, tmp_path: Path) -> None:
    put("dataset.json", TURNS)
    with pytest.raises(SourceUnreadable) as caught:
        find_sources([str(tmp_path / "datset.json")])
    assert caught.value.hint == f"did you mean {str(tmp_path / 'dataset.json')!r}?"
