"""The types of the metrics files: what is written is read back, and what earlier versions wrote is read too."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.core.errors import RunDamaged
from assay.core.summary import RunKind, read_slices, read_summary
from assay.metrics.facts import RecordFacts
from assay.metrics.ranking import PairwiseComparison, PairwiseFigures
from assay.metrics.summary import summarize, summarize_slices
from assay.store.published_run import open_run_folder
from tests.metrics.documents import as_written

EARLIER = Path(__file__).parent.parent / "engine" / "earlier_runs" / "batch"
FACTS = [
    RecordFacts(position=n, status="evaluated", score=n / 4, raw_score=n + 1, scale="1-5", passed=n > 2, slices={"tags": ("a",)})
    for n in range(5)
]


def test_a_summary_is_read_back_as_it_was_made() -> None:
    made = summarize(FACTS, repeat=2)
    assert read_summary(as_written(made)) == made
    sliced = summarize_slices(FACTS)
    assert read_slices(as_written(sliced)) == sliced


def test_metrics_of_an_earlier_version_are_read_without_what_it_did_not_know() -> None:
    written: dict[str, Any] = json.loads((EARLIER / "metrics_summary.json").read_bytes())
    assert "pass_rate_standard_error" not in written
    found = open_run_folder(EARLIER).summary()
    assert (found.pass_rate, found.scale, found.kind) == (written["pass_rate"], written["scale"], RunKind.GRADING)
    assert (found.pass_rate_standard_error, found.pass_rate_metric.standard_error) == (None, None)
    slices = open_run_folder(EARLIER).slices()
    assert slices.slices_version == 1
    assert all(value.pass_rate_standard_error is None for entry in slices.slices.values() for value in entry.values)


def test_the_first_versions_counted_no_tokens_of_judges_and_had_no_profiles() -> None:
    written = as_written(summarize(FACTS))
    del written["tokens"]["judge"], written["profile"]
    found = read_summary(written)
    assert (found.tokens.judge.sum, found.profile) == (None, None)


def test_a_summary_with_a_ranking_is_of_another_kind() -> None:
    figures = PairwiseFigures(["one", "other"])
    figures.add(PairwiseComparison(first=0, second=1, cluster="r", result="first"))
    ranked = msgspec.structs.replace(summarize(FACTS), ranking=figures.summary())
    assert read_summary(as_written(ranked)).kind is RunKind.RANKING


@pytest.mark.parametrize("text", ["[]", "{}", '{"total_records": "many"}', '{"tokens": 1}', '{"profile": []}'])
def test_a_damaged_summary_is_said_to_be_damaged(tmp_path: Path, text: str) -> None:
    (tmp_path / "run_manifest.json").write_text("{}")
    (tmp_path / "metrics_summary.json").write_text(text)
    (tmp_path / "metrics_by_slice.json").write_text(text if text != "{}" else '{"slices": {"tags": {}}}')
    for read in (open_run_folder(tmp_path).summary, open_run_folder(tmp_path).slices):
        with pytest.raises(RunDamaged, match="is damaged"):
            read()
