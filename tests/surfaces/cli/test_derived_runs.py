"""`assay rank`."""

import json
from pathlib import Path

import pytest

from tests.commands import assay
from tests.engine.planning.test_pairs import LONG, MIDDLE, SHORT, answered, same
from tests.surfaces.conftest import HOSTILE

FAIR, BIASED = ("--judge", "scripted/judge-sound"), ("--judge", "scripted/judge-first")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("ranked")
    for run_id, text in (("long", LONG), ("middle", MIDDLE), ("short", SHORT), ("hostile", HOSTILE.replace("\ud800", ""))):
        answered(folder, run_id, same(text))
    return str(folder / "runs")


def test_the_report_names_who_is_ahead_and_how_surely(runs: str) -> None:
    result = assay("rank", "long", "middle", "short", *FAIR, "--run-id", "three", "--runs-dir", runs)
    assert result.exit_code == 0
    assert "ranking     'long' is ahead of 'middle'" in result.stdout
    assert "decided     100.0 % [61.0 %, 100.0 %] · 18 of 18 comparisons the same in both orders" in result.stdout
    assert "run three · 18 comparisons of 6 records · 36 calls · long, middle, short" in result.stderr


def test_a_shown_ranking_is_the_one_that_was_printed(runs: str) -> None:
    printed = assay("rank", "long", "short", *FAIR, "--run-id", "two", "--runs-dir", runs, "--quiet").stdout
    assert assay("show", "two", "--runs-dir", runs).stdout == printed


def test_without_a_winner_the_report_says_why(runs: str) -> None:
    result = assay("rank", "long", "short", *BIASED, "--run-id", "biased", "--runs-dir", runs)
    assert result.exit_code == 0
    assert "ranking     none: no candidate won a comparison in both orders" in result.stdout
    assert "scripted/judge-first            6             6            6             0  100.0 % [61.0 %, 100.0 %]" in result.stdout


def test_scripts_get_the_whole_ranking(runs: str) -> None:
    found = json.loads(assay("rank", "long", "short", *FAIR, "--json", "--runs-dir", runs, "--limit", "4").stdout)
    ranking = found["metrics"]["ranking"]
    assert (ranking["n_comparisons"], ranking["candidates"][0]["name"]) == (4, "long")


def test_a_ranking_says_that_workers_have_no_part_in_it(runs: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_ENGINE", "temporal")
    result = assay("rank", "long", "short", *FAIR, "--run-id", "alone", "--runs-dir", runs)
    assert (result.exit_code, "a ranking is made on this machine; ASSAY_ENGINE is not for it" in result.stderr) == (0, True)


def test_markdown_and_a_chart_show_the_candidates(runs: str, tmp_path: Path) -> None:
    charts = tmp_path / "charts"
    result = assay("rank", "long", "short", *FAIR, "--markdown", "--charts", str(charts), "--runs-dir", runs, "--quiet")
    assert "| 1 | `long` | " in result.stdout
    assert "### Slices" not in result.stdout
    assert [path.name for path in charts.iterdir()] == ["ranking.svg"]
    assert "Chance of beating the average candidate" in (charts / "ranking.svg").read_text()


def test_one_comparison_is_shown_with_both_answers(runs: str) -> None:
    assay("rank", "short", "long", *FAIR, "--run-id", "one", "--runs-dir", runs)
    shown = assay("show", "one", "q0#1-2", "--runs-dir", runs).stdout
    assert shown.startswith("q0#1-2 · second won · score 0.00")
    assert f"long. {LONG}" in shown


def test_answers_of_models_reach_no_terminal_and_no_markdown_as_they_are(runs: str) -> None:
    options = ("--run-id", "hostile-ranking", "--runs-dir", runs, "--verbose")
    text = assay("rank", "hostile", "long", *BIASED, *options).stdout
    shown = assay("show", "hostile-ranking", "q0#1-2", "--runs-dir", runs).stdout
    assert "\x1b" not in text + shown
    assert "\u202e" not in text + shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "one run alone has no rank"),
        (("long", "short"), "no judge is named"),
        (("long", "short", *FAIR, "--run-id", ""), "--run-id is empty"),
        (("long", "short", *FAIR, "--json", "--markdown"), "both want standard output"),
        (("long", "nowhere", *FAIR), "nowhere"),
    ],
)
def test_what_cannot_be_ranked_is_one_line_and_exit_2(runs: str, arguments: tuple[str, ...], message: str) -> None:
    result = assay("rank", *arguments, "--runs-dir", runs)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
