"""Uploads that somebody looks at: kept for an hour, a few for each owner, and for their owner alone."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from assay import api
from assay.core.errors import RunNotFound
from assay.surfaces.server.uploads import (
    DRAFT_SECONDS,
    MAX_DRAFTS,
    MAX_DRAFTS_OF_ONE,
    MAX_RESULTS,
    DraftStore,
    SpooledUpload,
    UploadDraft,
)


class Shelf:
    """DraftStore with a clock that is set by hand."""

    def __init__(self, runs_dir: Path) -> None:
        self.now = 1000.0
        self.submissions = api.Submissions(runs_dir)
        self.drafts = DraftStore(self.submissions, lambda: self.now)

    def add(self, owner: str = "ann") -> UploadDraft:
        self.now += 1
        upload = self.submissions.new_upload()
        path = upload.folder / "dataset.json"
        path.write_bytes(b"{}")
        draft = UploadDraft(
            upload=upload,
            owner=owner,
            file_name="a.json",
            name="a",
            contract="auto",
            spooled=SpooledUpload(path, 2, ""),
            at=self.now,
        )
        self.drafts.keep(draft)
        return draft


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    made = Shelf(tmp_path)
    yield made
    made.submissions.close()


def test_an_owner_keeps_the_newest_and_the_files_of_the_others_are_gone(shelf: Shelf) -> None:
    drafts = [shelf.add() for _ in range(MAX_DRAFTS_OF_ONE + 2)]
    assert [draft.spooled.path.exists() for draft in drafts] == [False] * 2 + [True] * MAX_DRAFTS_OF_ONE


def test_all_owners_together_keep_only_so_many(shelf: Shelf) -> None:
    drafts = [shelf.add(f"owner-{number}") for number in range(MAX_DRAFTS + 3)]
    assert sum(draft.spooled.path.exists() for draft in drafts) == MAX_DRAFTS


def test_a_draft_is_nobody_elses(shelf: Shelf) -> None:
    draft = shelf.add("ann")
    assert shelf.drafts.of(draft.id, "ann") == draft
    with pytest.raises(RunNotFound):
        shelf.drafts.of(draft.id, "bob")


def test_after_an_hour_a_draft_is_gone_and_the_next_one_removes_its_file(shelf: Shelf) -> None:
    draft = shelf.add()
    shelf.now += DRAFT_SECONDS + 1
    with pytest.raises(RunNotFound):
        shelf.drafts.of(draft.id, "ann")
    shelf.add("bob")
    assert not draft.spooled.path.exists()


def test_what_was_found_out_goes_with_its_draft(shelf: Shelf) -> None:
    draft = shelf.add()
    shelf.drafts.keep_result(draft, "report", "fine")
    assert shelf.drafts.result(draft, "report") == "fine"
    shelf.drafts.drop(draft)
    shelf.drafts.keep_result(draft, "report", "too late")
    assert shelf.drafts.result(draft, "report") is None


def test_a_draft_keeps_its_report_and_the_newest_estimates(shelf: Shelf) -> None:
    draft = shelf.add()
    names = ["report", *(f"cost {number}" for number in range(MAX_RESULTS + 5))]
    for name in names:
        shelf.drafts.keep_result(draft, name, "found")
    assert [name for name in names if shelf.drafts.result(draft, name)] == ["report", *names[-MAX_RESULTS:]]
