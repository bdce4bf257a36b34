"""Pages of single records."""

import json
from pathlib import Path

from assay import api
from assay.presentation.sections import Badge
from assay.surfaces.pages.page_renderer import ServerLinks
from assay.surfaces.pages.record import RecordNavigation, record_view
from tests.surfaces.pages.browsing import aside
from tests.surfaces.server.serving import dataset


def test_the_mark_of_a_panel_is_that_of_the_vote_that_counts(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text(json.dumps(dataset(1)), encoding="utf-8")
    judges = ("scripted/judge-1", "scripted/judge-5", "scripted/judge-2")
    aside(api.run, tmp_path / "one.json", run_id="panel", runs_dir=str(tmp_path), model="scripted/echo", judges=judges)
    found = api.open_run("panel", runs_dir=tmp_path).record_at(0)
    (criterion,) = record_view("panel", found, RecordNavigation(list_address=""), place=ServerLinks()).criteria
    assert criterion.mark == Badge("2 on 1-5", "quiet", "0.25 of 1")
