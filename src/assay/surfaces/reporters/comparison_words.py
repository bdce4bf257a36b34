"""A comparison in words: what changed, whether it can be believed, and what would settle it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from assay import api
from assay.core.number_text import ChangeText, rate_change_text, score_change_text
from assay.surfaces.printable import printable
from assay.surfaces.reporters.run_numbers import UNKNOWN, decimal, level_name, rate
from assay.surfaces.reporters.run_text import one_line
from assay.surfaces.reporters.wording import NOT_PASSED, PASSED, counted, first_datasets

MAX_SLICES = 12
_LINE = 0.05
"""Of p, below which an interval of 95 % leaves out 0."""


def rate_change(estimate: Any, *, before: float | None = None, after: float | None = None) -> str:
    """`+5.0 pp [-1.2 pp, +11.3 pp]`; `before` and `after` are given where they are shown with it."""
    return _change(estimate, rate_change_text, before=before, after=after)


def score_change(estimate: Any, *, before: float | None = None, after: float | None = None) -> str:
    """`+0.05 [-0.01, +0.11]`; `before` and `after` are given where they are shown with it."""
    return _change(estimate, score_change_text, before=before, after=after)


def _change(estimate: Any, text: ChangeText, *, before: float | None, after: float | None) -> str:
    if estimate.value is None:
        return UNKNOWN
    shown = text(estimate.value, before=before, after=after)
    if estimate.interval is None:
        return f"{shown} (no interval)"
    return f"{shown} [{text(estimate.interval.low)}, {text(estimate.interval.high)}]"


def difference_rows(found: api.RunComparison) -> list[tuple[str, ...]]:
    """Pass rates and scores before and after, the difference of each, and p; none where no record was graded in both runs."""
    if not found.n:
        return []
    before, after = found.before, found.after
    return [
        (
            "pass rate",
            rate(before.pass_rate),
            rate(after.pass_rate),
            rate_change(found.passes, before=before.pass_rate, after=after.pass_rate),
            p_text(found.p_passes),
        ),
        (
            f"score {found.scale}",
            decimal(before.mean),
            decimal(after.mean),
            score_change(found.scores, before=before.mean, after=after.mean),
            p_text(found.p_scores),
        ),
    ]


def p_text(p: float | None) -> str:
    """`0.031`, `<0.001`."""
    if p is None:
        return UNKNOWN
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def listed_records(found: api.RunComparison) -> str:
    """`118 records · 2 without a grade in one of the runs · 1 changed · 3 only before · 0 only after`."""
    parts = [counted(found.n, "record")]
    if found.n_clusters is not None:
        parts.append(f"in {counted(found.n_clusters, 'cluster')} by {printable(found.cluster)}")
    kinds = (
        ("without a grade in one of the runs", found.unscored),
        ("with other contents", found.changed),
        ("only before", found.missing),
        ("only after", found.added),
    )
    return " · ".join([*parts, *(f"{kind.count:,} {words}{_first(kind.record_ids)}" for words, kind in kinds if kind.count)])


def compared_datasets(found: api.RunComparison) -> str:
    """The datasets of both runs, by id, version and file; once where they are the same."""
    sides = dict.fromkeys((found.before.datasets, found.after.datasets))
    return " and ".join(", ".join(listed) + (more and f" {more}") for listed, more in map(first_datasets, sides))


def _first(record_ids: Sequence[str]) -> str:
    # Answers to one record have one id.
    names = list(dict.fromkeys(record_ids))
    shown = ", ".join(printable(name, limit=48) for name in names[:3])
    return f" ({shown}{', …' if len(names) > 3 else ''})"


def conclusion(found: api.RunComparison) -> tuple[str, str]:
    """One word on the difference of pass rates, and the sentence behind it."""
    interval = found.passes.interval
    if interval is None or found.n == 0:
        return "UNDECIDED", found.passes.reason or "no records to compare"
    flips = f"{found.mcnemar.better:,} better and {found.mcnemar.worse:,} worse of {counted(found.n, 'record')}"
    if interval.low > 0 or interval.high < 0:
        word = "IMPROVED" if interval.low > 0 else "WORSE"
        direction = "higher" if word == "IMPROVED" else "lower"
        return word, f"the pass rate is {direction} ({flips}, p {p_text(found.p_passes)}{_exact(found)})"
    return "UNDECIDED", f"no significant difference in pass rate ({flips}{_exact(found)}){_power(found)}"


def told_notes(found: api.RunComparison) -> list[str]:
    """What should be known of the comparison beside its conclusion."""
    return [note for note in found.notes if note != conclusion(found)[1]]


def _exact(found: api.RunComparison) -> str:
    """McNemar's exact p, and why it may look less sure than the test that decides; records in clusters have none."""
    if found.n_clusters is not None:
        return ""
    is_shown, p = (found.p_passes or 0.0) < _LINE, found.mcnemar.p_value
    why = ": it is the more cautious test, and does not decide" if is_shown and p >= _LINE else ""
    return f"; McNemar's exact p {p_text(p)}{why}"


def _power(found: api.RunComparison) -> str:
    unit = "record" if found.n_clusters is None else "cluster"
    units = counted(found.n_clusters or found.n, unit)
    words = f"; {units} would show one of {detectable_text(found)} or more"
    if found.detectable_effect is None:
        words = f"; {units} {'is' if (found.n_clusters or found.n) == 1 else 'are'} too few to show any for certain"
    if found.required_records is None:
        return words
    return f"{words}, the one seen here would take {counted(found.required_records, unit)}"


def detectable_text(found: api.RunComparison) -> str:
    """The smallest difference of pass rates that so many records would show: `12.5 pp`."""
    return UNKNOWN if found.detectable_effect is None else rate_change_text(found.detectable_effect, sign=False)


def shown_slices(found: api.RunComparison, *, is_verbose: bool) -> tuple[Sequence[Any], int]:
    """The slices that a reader looks for first: the least likely to be chance, then the largest."""
    ordered = sorted(found.slices, key=lambda row: (row.p_adjusted is None, row.p_adjusted, -row.n))
    shown = ordered if is_verbose else ordered[:MAX_SLICES]
    return shown, len(ordered) - len(shown)


def told(said: Any, *, limit: int | None) -> str:
    """`not passed 2 · "the answer" · why`."""
    score = UNKNOWN if said.score is None else level_name(said.score)
    verdict = PASSED if said.passed else NOT_PASSED
    answer = printable(one_line(said.answer or ""), limit=limit)
    why = printable(one_line(said.justification or ""), limit=limit)
    return " · ".join(part for part in (f"{verdict} {score}", f"“{answer}”", why) if part)
