"""Details of a run for its page: shares that add up, key metrics, files with their state."""

import json

import msgspec

from assay.core.manifest import ArtifactHash
from assay.presentation.charts import DistributionPlot, IntervalPlot
from assay.presentation.run_details import (
    artifact_table,
    error_table,
    hash_facts,
    key_metrics,
    plan_text,
    run_charts,
    shares,
    spending_table,
)
from assay.presentation.sections import NO_LINKS
from assay.store.verify import FileProblem
from tests.surfaces.run_views import golden_view, manifest, other_view, result, unfinished_view


def test_shares_add_up_to_all_records() -> None:
    found = shares(golden_view())
    assert [(share.label, share.count.text) for share in found] == [("passed", "3"), ("not passed", "1"), ("error", "2")]
    assert round(sum(share.width for share in found), 2) == 100.0
    assert "1 of them invalid" in found[2].count.says


def test_the_key_metrics_say_their_interval_and_what_the_unscored_could_change() -> None:
    rate, score, cost, *_ = key_metrics(golden_view())
    assert (rate.figure.text, rate.note) == (
        "75.0 %",
        "95 % interval 30.0 % to 95.4 %; 1 unscored: 60.0 % at worst, 80.0 % at best",
    )
    assert (score.label, score.figure.text, score.note) == ("Mean score", "3.75", "scale 1-5 · 95 % interval 2.00 to 5.00")
    assert (cost.figure.text, cost.figure.says) == (
        "> $0.0123",
        "cost in US dollars of candidate and judges; price unknown for 1 record",
    )


def test_errors_are_listed_by_code_the_most_frequent_first() -> None:
    view = msgspec.structs.replace(golden_view(), errors={"timeout": 1, "rate_limited": 2})
    table = error_table(view)
    assert table is not None
    assert [(row[0].text, row[1].text) for row in table.rows] == [("rate_limited", "2"), ("timeout", "1")]
    assert error_table(msgspec.structs.replace(golden_view(), errors={})) is None


def test_what_is_not_known_has_no_row_of_spending() -> None:
    summary = golden_view().summary
    assert summary is not None
    assert [row[0].text for row in spending_table(summary).rows] == ["Cost", "Tokens, input", "Tokens, output", "Tokens, total"]


def test_each_file_says_whether_it_is_as_it_was_published() -> None:
    files = {name: ArtifactHash(bytes=2048, lines=3, sha256="ab") for name in ("a.jsonl", "b.jsonl", "c.jsonl")}
    table = artifact_table(
        msgspec.structs.replace(manifest(), artifacts=files),
        run_id="x",
        links=NO_LINKS,
        files=["a.jsonl", "b.jsonl"],
        problems=[FileProblem("b.jsonl", "another hash")],
    )
    states = {row[0].text: (row[3].text, row[3].tone) for row in table.rows}
    assert states["a.jsonl"] == ("as published", "good")
    assert states["b.jsonl"] == ("not as published", "bad")
    assert states["c.jsonl"] == ("removed", "quiet")


def test_a_manifest_without_hashes_shows_none() -> None:
    assert list(hash_facts(manifest())) == []
    assert result("x").run_id == "x"


def test_one_run_has_its_scores_and_its_slices() -> None:
    charts = {chart.name: chart for chart in run_charts([golden_view()])}
    assert list(charts) == ["distribution.svg", "slices.svg", "slices-score.svg"]
    scores = charts["distribution.svg"].plot
    assert isinstance(scores, DistributionPlot)
    assert ([level.count for level in scores.levels], scores.domain) == ([0, 1, 0, 1, 2], (1.0, 5.0))
    slices = charts["slices.svg"].plot
    assert isinstance(slices, IntervalPlot)
    assert [(row.group, row.label) for row in slices.rows] == [("dataset", "assistant"), ("dataset", "other"), ("tags", "(none)")]


def test_several_runs_are_compared_and_their_charts_name_them() -> None:
    charts = run_charts([golden_view(), other_view(), unfinished_view()])
    assert [chart.name for chart in charts[:2]] == ["candidates.svg", "candidates-score.svg"]
    assert [chart.heading for chart in charts if chart.subject] == [
        "How often each score was given: small",
        "How often each score was given: large",
    ]
    rates = charts[0].plot
    assert isinstance(rates, IntervalPlot)
    assert [(row.label, row.estimate.middle) for row in rates.rows] == [("small", 0.75), ("large", 1.0)]
    assert rates.reference is not None
    assert rates.reference.label == "gate 80.0 %"


def test_a_run_without_metrics_has_no_chart() -> None:
    assert run_charts([unfinished_view()]) == []


def test_the_settings_of_a_run_name_its_files_without_their_folders() -> None:
    members = {
        "datasets": [{"path": "/home/ann/law/questions.jsonl", "dataset_id": "questions"}],
        "plugins": [{"folder": "/home/ann/law", "reference": "/home/ann/law/own.py:grade"}],
        "comparison": {"runs": [{"path": "/home/ann/runs/r1", "run_id": "r1"}], "notes": []},
        "responses_path": "/home/ann/answers.jsonl",
        "cache_dir": "/home/ann/.cache/assay",
        "system_prompt": "/no folder/",
    }
    shown = json.loads(plan_text(members))
    assert shown["datasets"] == [{"path": "questions.jsonl", "dataset_id": "questions"}]
    assert shown["plugins"] == [{"folder": "law", "reference": "own.py:grade"}]
    assert shown["comparison"] == {"runs": [{"path": "r1", "run_id": "r1"}], "notes": []}
    assert [shown[name] for name in ("responses_path", "cache_dir", "system_prompt")] == ["answers.jsonl", "assay", "/no folder/"]
