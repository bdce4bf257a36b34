"""Details of a run for its page: shares that add up, key metrics, files with their state."""

import msgspec

from assay.core.manifest import ArtifactHash
from assay.presentation.run_details import artifact_table, error_table, hash_facts, key_metrics, shares, spending_table
from assay.presentation.sections import NO_LINKS
from tests.surfaces.run_views import golden_view, manifest, result


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
        problems=["b.jsonl: another hash"],
    )
    states = {row[0].text: (row[3].text, row[3].tone) for row in table.rows}
    assert states["a.jsonl"] == ("as published", "good")
    assert states["b.jsonl"] == ("not as published", "bad")
    assert states["c.jsonl"] == ("removed", "quiet")


def test_a_manifest_without_hashes_shows_none() -> None:
    assert list(hash_facts(manifest())) == []
    assert result("x").run_id == "x"
