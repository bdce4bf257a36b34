"""A ranking in words: who is ahead and how surely, who beat whom, and how far the judges go by places."""

from collections.abc import Iterator
from typing import Any

from assay.surfaces.printable import printable
from assay.surfaces.reporters.paint import Paint
from assay.surfaces.reporters.run_numbers import UNKNOWN, figure_text, rate_with_interval, with_interval
from assay.surfaces.reporters.run_table import TextColumn, table
from assay.surfaces.reporters.settings import ReportSettings
from assay.surfaces.reporters.wording import counted

Json = dict[str, Any]
NAME_LIMIT = 48
CANDIDATES = ("rank", "candidate", "beats the average", "ahead of next", "wins", "losses", "ties", "inconsistent")
PAIRS = ("first", "second", "first wins", "second wins", "ties", "inconsistent", "no grade", "share of first")
BIAS = ("judge", "comparisons", "inconsistent", "first place", "second place", "rate")
COMPARING = ("judge_pairwise/1",)
"""Ways of grading that say which of two answers is better."""
_WORDS = {1.0: "first won", 0.5: "tie", 0.0: "second won"}
_TEXTS = ("candidate", "first", "second", "judge")


def ranking_tables(ranking: Json, settings: ReportSettings, *, paint: Paint) -> Iterator[str]:
    """The candidates, the pairs and the judges of a ranking, each as a table of the terminal."""
    for titles, rows in ranking_rows(ranking):
        if rows:
            shown = [[printable(cell, limit=NAME_LIMIT) for cell in row] for row in rows]
            columns = tuple(TextColumn(title, is_number=title not in _TEXTS) for title in titles)
            yield from table(columns, shown, paint=paint, width=settings.width)
            yield "\n"


def ranking_rows(ranking: Json) -> list[tuple[tuple[str, ...], list[tuple[str, ...]]]]:
    """Titles and rows of the three tables; texts are as they came."""
    candidates = [_candidate(place, candidate) for place, candidate in enumerate(ranking["candidates"], 1)]
    return [
        (CANDIDATES, candidates),
        (PAIRS, [_pair(pair) for pair in ranking["pairs"]]),
        (BIAS, [_bias(judge) for judge in ranking["position_bias"]]),
    ]


def ranking_notes(ranking: Json) -> list[tuple[str, str]]:
    """Labels and texts of what is to be known about a ranking: whom nothing orders, what was left out."""
    conclusion = [("ranking", leader(ranking))]
    shown = [("note", ranking["reason"])] if ranking["reason"] and ranking["candidates"][0]["strength"] else []
    return [*conclusion, *shown, *(("left out", note) for note in ranking["notes"])]


def leader(ranking: Json) -> str:
    """Who is ahead, or why nobody can be said to be."""
    first, *others = ranking["candidates"]
    if first["strength"] is None:
        return f"none: {ranking['reason']}"
    ahead, interval = first["ahead_of_next"], first["ahead_of_next"]["interval"]
    if interval is None:
        return f"'{first['name']}' leads, but nothing is known of how surely: {ahead['reason']}"
    if interval["low"] > 0:
        return f"'{first['name']}' is ahead of '{others[0]['name']}'"
    return f"'{first['name']}' and '{others[0]['name']}' do not differ significantly: the interval of the difference contains 0"


def result_word(case: Json) -> str:
    """How one comparison ended."""
    return _WORDS[case["score"]] if case["passed"] else "no winner"


def decided_text(metrics: Json) -> str:
    """How many comparisons both orders, and most judges, agree on."""
    ranking = metrics["ranking"]
    rate = figure_text(metrics, "pass_rate")
    return f"{rate} · {metrics['pass_count']:,} of {counted(ranking['n_comparisons'], 'comparison')} the same in both orders"


def _candidate(place: int, candidate: Json) -> tuple[str, ...]:
    is_ranked = candidate["strength"] is not None
    estimates = ((candidate["win_chance"], rate_with_interval), (candidate["ahead_of_next"], with_interval))
    figures = [text(one["value"], one["interval"]) if one else UNKNOWN for one, text in estimates]
    counts = [f"{candidate[member]:,}" for member in ("wins", "losses", "ties", "inconsistent")]
    return (str(place) if is_ranked else UNKNOWN, candidate["name"], *figures, *counts)


def _pair(pair: Json) -> tuple[str, ...]:
    members = ("first_wins", "second_wins", "ties", "inconsistent", "unscored")
    share = rate_with_interval(pair["first_share"]["value"], pair["first_share"]["interval"])
    return (pair["first"], pair["second"], *(f"{pair[member]:,}" for member in members), share)


def _bias(judge: Json) -> tuple[str, ...]:
    members = ("n", "n_inconsistent", "n_first_place", "n_second_place")
    rate = rate_with_interval(judge["rate"]["value"], judge["rate"]["interval"])
    return (judge["judge"], *(f"{judge[member]:,}" for member in members), rate)
