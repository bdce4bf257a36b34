"""Records that were asked several times, in words: how many of their answers pass, pass@k, pass^k and how much scores vary."""

from collections.abc import Iterator
from typing import Any

from assay.surfaces.printable import printable
from assay.surfaces.reporters.run_numbers import UNKNOWN, rate_with_interval
from assay.surfaces.reporters.wording import counted

Json = dict[str, Any]
_SHOWN_K = frozenset({1, 2, 3, 5, 10, 20, 50, 100, 200, 500})
"""Numbers of answers that a report names, beside the largest; the artifacts have them all."""


def sampled_name(line: Json) -> str:
    """The record's id, and which of several answers to it a line is about."""
    sample = line.get("sample")
    return str(line["record_id"]) if sample is None else f"{line['record_id']} (sample {sample})"


def repeat_lines(repeats: Json) -> Iterator[tuple[str, str]]:
    """Labels and texts of a report's lines on repeats."""
    yield "repeats", f"{counted(repeats['n_records'], 'record')}, {repeats['repeat']} answers each · {_passes(repeats)}"
    if repeats["n_left_out"]:
        reasons = ", ".join(f"{printable(reason)} {count:,}" for reason, count in repeats["left_out"].items())
        yield "", f"{counted(repeats['n_left_out'], 'record')} left out here, without a score for every answer: {reasons}"
    for label, name in (("pass@k", "pass_at_k"), ("pass^k", "pass_hat_k")):
        yield label, _by_k(repeats[name])
    yield "variance", _variance(repeats["variance"]["score"])


def _passes(repeats: Json) -> str:
    """How many records pass every time, sometimes and never."""
    records = [entry["records"] for entry in repeats["passes"]]
    named = ((records[-1], "always"), (sum(records[1:-1]), "sometimes"), (records[0], "never"))
    return ", ".join(f"{count:,} {'pass ' if number == 0 else ''}{word}" for number, (count, word) in enumerate(named))


def _by_k(entries: list[Json]) -> str:
    shown = [entry for entry in entries if entry["k"] in _SHOWN_K or entry is entries[-1]]
    return " · ".join(f"k={entry['k']} {rate_with_interval(entry['value'], entry['interval'])}" for entry in shown)


def _variance(variance: Json) -> str:
    named = (("within", "within a record"), ("between", "between records"))
    known = [f"{variance[name]:.4f} {words}" for name, words in named if variance[name] is not None]
    return f"of scores from 0 to 1: {', '.join(known)}" if known else UNKNOWN
