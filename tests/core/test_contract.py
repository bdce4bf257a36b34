"""Titles of datasets: id, version and file, each said once."""

import pytest

from assay.core.contract import dataset_title, file_stem, further_names


@pytest.mark.parametrize(
    ("path", "stem"), [("a/answers.json", "answers"), ("rows.jsonl.gz", "rows"), (".hidden", ".hidden"), ("v1.2.json", "v1.2")]
)
def test_a_file_is_called_without_its_extensions(path: str, stem: str) -> None:
    assert file_stem(path) == stem


@pytest.mark.parametrize(
    ("names", "title"),
    [
        ({"version": "2026-10-01", "file": "answers.json"}, "support 2026-10-01 (answers.json)"),
        ({"version": "sha256:0123", "file": "support"}, "support"),
        ({"version": "", "name": "nightly", "file": "answers.json"}, "support (nightly, answers.json)"),
        ({"version": "1", "name": "answers", "file": "answers.json"}, "support 1 (answers.json)"),
        ({"version": "1", "name": "support"}, "support 1"),
    ],
)
def test_a_title_has_each_name_once_and_no_version_that_is_a_hash(names: dict[str, str], title: str) -> None:
    assert dataset_title("support", **names) == title


def test_a_name_that_only_repeats_the_id_or_the_file_is_no_further_name() -> None:
    assert further_names("d", name="d", file="d.json") == ("d.json",)
    assert further_names("d", name="other", file="x.json") == ("other", "x.json")
    assert further_names("d") == ()
