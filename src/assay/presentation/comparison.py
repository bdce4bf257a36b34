"""A comparison of two runs into sections: what changed, whether it can be believed, the flips, and what a gate decided."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from assay import api
from assay.core.number_text import rate_change_text
from assay.presentation.charts import Chart, DifferencePlot, FlipChartData, IntervalRow, PlottedEstimate
from assay.presentation.sections import (
    NO_LINKS,
    Badge,
    Cell,
    Column,
    DecisionView,
    DisplayValue,
    Fact,
    KeyMetric,
    RecordLinks,
    Section,
    Table,
    Tone,
    command_facts,
)
from assay.presentation.words import (
    DASH,
    NO_RESULT,
    NO_VALUE,
    NOT_PASSED,
    PASSED,
    TONES,
    UNFINISHED,
    UNKNOWN,
    ExplainedEstimate,
    change_text,
    change_word,
    counted,
    cut,
    decimal,
    ends_of,
    finding_word,
    first_datasets,
    gate_word,
    level_name,
    one_line,
    p_text,
    rate,
    sample_name,
    shown,
    whisker,
)

MAX_SLICES = 12
NAME_LIMIT = 120
ID_LIMIT = 48
SLICE_LIMIT = 32
TEXT_LIMIT = 400
CORRECTED = "p values are corrected for the number of comparisons (Holm); intervals are those of each comparison alone"
_LINE = 0.05
"""Of p, below which an interval of 95 % leaves out 0."""
_FLIP_TONES: dict[str, Tone] = {"worse": "bad", "better": "good"}
_FLIPS = {
    "worse": "It passed before and does not pass any more.",
    "better": "It did not pass before and passes now.",
}


def comparison_sections(found: api.RunComparison, *, is_verbose: bool = False, commands: Sequence[str] = ()) -> list[Section]:
    """Return both runs, the differences, slices, flips and the conclusion; `commands` are what the reader may call next."""
    # A comparison holds only as many flips as were asked for; `n_flips` counts all of them.
    omitted = found.n_flips - len(found.flips)
    note = f"… and {counted(omitted, 'more flip')} (--flips all lists them)" if omitted else ""
    slices = slice_table(found, is_verbose=is_verbose)
    sections = [
        Section(title="The two runs", facts=tuple(side_facts(found))),
        Section(title="Difference", tables=(difference_table(found),)) if found.n else None,
        Section(title="Checks and graders", tables=(named_table(found),)) if found.checks or found.graders else None,
        # A terminal has no room for the score and raw p of each slice; pages and Markdown take the whole table.
        Section(title="Slices", tables=(slices.only("slice", "value", "n", "pass rate", "p (Holm)"),)) if slices.rows else None,
        Section(title="Flips", tables=(_flip_lines(found, is_verbose=is_verbose, note=note),)) if found.flips else None,
        Section(title="Result", facts=(*conclusion_facts(found), *command_facts(commands))),
    ]
    return [section for section in sections if section is not None]


# Several runs


def group_comparison_sections(found: api.GroupComparison, *, commands: Sequence[str] = ()) -> list[Section]:
    """Return a row for each pair, then what keeps a difference from being the candidates' alone."""
    notes = list(dict.fromkeys([CORRECTED, *(note for pair in found.pairs for note in pair.comparison.notes), *found.skipped]))
    table = pair_table(found)
    return [
        Section(title="Comparisons", heading=(Cell(found.title), Cell(counted(len(found.pairs), "comparison"))), tables=(table,)),
        Section(title="Result", facts=(*(Fact("note", note, limit=TEXT_LIMIT) for note in notes), *command_facts(commands))),
    ]


def pair_table(found: api.GroupComparison, links: RecordLinks = NO_LINKS) -> Table:
    """Return a row for each pair of runs: both pass rates, the difference, its p value for all pairs together, and the result."""
    names = [(pair.comparison.before, pair.comparison.after) for pair in found.pairs]
    # The same candidate in two groups is distinguished by its runs.
    is_by_run = any(before.candidate == after.candidate for before, after in names)
    columns = (
        Column("before", is_name=True, limit=ID_LIMIT),
        Column("after", is_name=True, limit=ID_LIMIT),
        Column("records", "Records that both runs graded.", is_number=True),
        Column("rate before", "Pass rate of the first run over these records.", is_number=True),
        Column("rate after", "Pass rate of the second run over the same records.", is_number=True),
        Column("difference", "After minus before in percentage points (pp), with its 95 % interval.", is_number=True),
        Column("score", "After minus before, with its 95 % interval.", is_number=True),
        Column("p (Holm)", "For the pass rates, corrected for the number of pairs (Holm).", is_number=True),
        Column("result", "By the corrected p value, below 0.05."),
    )
    rows = []
    for pair in found.pairs:
        one = pair.comparison
        before, after = one.before, one.after
        word = pair_word(pair)
        names_shown = [side.run_id if is_by_run else side.candidate for side in (before, after)]
        rows.append(
            (
                *(Cell(name, link=links.run(side.run_id)) for name, side in zip(names_shown, (before, after), strict=True)),
                Cell(f"{one.n:,}"),
                Cell(rate(before.pass_rate)),
                Cell(rate(after.pass_rate)),
                Cell(change_text(one.passes, before=before.pass_rate, after=after.pass_rate, is_rate=True)),
                Cell(change_text(one.scores, before=before.mean, after=after.mean)),
                Cell(p_text(pair.p_passes_adjusted)),
                Cell(word, tone=TONES[word]),
            )
        )
    return Table(title="Comparisons", columns=columns, rows=tuple(rows))


def pair_word(pair: api.PairComparison) -> str:
    """Return whether the pass rate of the second run is higher or lower, as far as the corrected p value shows."""
    p, value = pair.p_passes_adjusted, pair.comparison.passes.value
    if p is None or value is None or p >= _LINE:
        return "UNDECIDED"
    return "IMPROVED" if value > 0 else "WORSE"


# The two runs


def side_facts(found: api.RunComparison) -> Iterator[Fact]:
    """Yield both runs, their datasets, and what of them was compared."""
    for label, side in (("before", found.before), ("after", found.after)):
        judges = [f"judged by {', '.join(side.judges)}"] if side.judges else []
        parts = (side.run_id, side.candidate, *judges, counted(side.records, "record"))
        yield Fact(label, " · ".join(parts), limit=NAME_LIMIT, parts=parts)
    yield Fact("dataset", compared_datasets(found), limit=TEXT_LIMIT)
    yield Fact("compared", listed_records(found))


def side_table(found: api.RunComparison, links: RecordLinks = NO_LINKS) -> Table:
    """Return both runs, a row for each."""
    rows = tuple(
        (
            Cell(label),
            Cell(side.run_id, link=links.run(side.run_id), is_code=True),
            Cell(side.candidate),
            Cell(", ".join(side.judges) or UNKNOWN),
            Cell(_joined(side.datasets)),
            Cell(f"{side.records:,}"),
        )
        for label, side in (("Before", found.before), ("After", found.after))
    )
    columns = (
        Column("side"),
        Column("run", is_name=True),
        Column("candidate", "The model that answered."),
        Column("judge", "Who graded the answers."),
        Column("dataset"),
        Column("records", "Records of this run, compared or not.", is_number=True),
    )
    return Table(title="The two runs", columns=columns, rows=rows)


def listed_records(found: api.RunComparison) -> str:
    """Return `118 records · 2 without a grade in one of the runs · 1 changed · 3 only before · 0 only after`."""
    parts = [counted(found.n, "record")]
    if found.n_clusters is not None:
        parts.append(f"in {counted(found.n_clusters, 'cluster')} by {found.cluster}")
    kinds = (
        ("without a grade in one of the runs", found.unscored),
        ("with other contents", found.changed),
        ("only before", found.missing),
        ("only after", found.added),
    )
    return " · ".join([*parts, *(f"{kind.count:,} {words}{_first(kind.record_ids)}" for words, kind in kinds if kind.count)])


def compared_datasets(found: api.RunComparison) -> str:
    """Return the datasets of both runs, by id, version and file; once where they are the same."""
    return " and ".join(map(_joined, dict.fromkeys((found.before.datasets, found.after.datasets))))


def _joined(datasets: Sequence[str]) -> str:
    listed, more = first_datasets(datasets)
    return ", ".join(listed) + (more and f" {more}")


def _first(record_ids: Sequence[str]) -> str:
    # Answers to one record have one id.
    names = list(dict.fromkeys(record_ids))
    return f" ({', '.join(cut(name, ID_LIMIT) for name in names[:3])}{', …' if len(names) > 3 else ''})"


# Differences


def difference_table(found: api.RunComparison) -> Table:
    """Return pass rates and scores before and after, the difference of each, and p."""
    before, after, n = found.before, found.after, found.n
    unit = "records" if found.n_clusters is None else f"records in {found.n_clusters:,} clusters by {found.cluster}"
    levels = (before.mean, after.mean)
    rows = (
        _difference("pass rate", (before.pass_rate, after.pass_rate), found.passes, p=found.p_passes, span=1.0, is_rate=True),
        # Without a common grade there is no scale that the scores share.
        _difference(f"score {found.scale}" if n else "score", levels, found.scores, p=found.p_scores, span=found.span),
    )
    columns = (
        Column(""),
        Column("before", f"Over the {n:,} records that both runs graded.", is_number=True),
        Column("after", f"Over the same {n:,} records.", is_number=True),
        Column(
            "difference", f"After minus before (pp: percentage points), with its 95 % interval over {n:,} {unit}.", is_number=True
        ),
        Column(
            "p",
            "Probability of this difference or more if neither run is better: McNemar's test for results, t test for scores.",
            is_number=True,
        ),
    )
    return Table(title="Differences", columns=columns, rows=rows)


def _difference(
    name: str,
    levels: tuple[float | None, float | None],
    found: ExplainedEstimate,
    *,
    p: float | None,
    span: float,
    is_rate: bool = False,
) -> tuple[Cell, ...]:
    text = change_text(found, before=levels[0], after=levels[1], is_rate=is_rate)
    says = f"{name.capitalize()}: {text} over {found.n:,}{f'; {found.reason}' if found.reason else ''}"
    return (
        Cell(name),
        *(Cell(rate(level) if is_rate else decimal(level)) for level in levels),
        # A difference is at most a whole scale in either direction, so 0 is in the middle of the bar.
        Cell(text, says, bar=whisker(found.value, ends_of(found.interval), domain=(-span, span))),
        Cell(p_text(p)),
    )


def named_table(found: api.RunComparison) -> Table:
    """Return a row for each check and grader that both runs have, with the difference of its pass rates."""
    rows = tuple(
        (
            Cell(kind),
            Cell(one.name),
            Cell(f"{one.n:,}"),
            Cell(rate(one.before)),
            Cell(rate(one.after)),
            Cell(
                change_text(one.passes, before=one.before, after=one.after, is_rate=True),
                one.passes.reason or "",
                bar=whisker(one.passes.value, ends_of(one.passes.interval), domain=(-1.0, 1.0)),
            ),
            Cell(p_text(one.p_adjusted)),
        )
        for kind, differences in (("check", found.checks), ("grader", found.graders))
        for one in differences
    )
    columns = (
        Column(""),
        Column("name", is_name=True, limit=SLICE_LIMIT),
        Column("n", "Compared records of which both runs have a result of it.", is_number=True),
        Column("before", "Pass rate over these records.", is_number=True),
        Column("after", "Pass rate over these records.", is_number=True),
        Column("difference", "After minus before in percentage points (pp), with its 95 % interval.", is_number=True),
        Column("p (Holm)", "Corrected for the number of checks and graders (Holm).", is_number=True),
    )
    return Table(title="Checks and graders", columns=columns, rows=rows)


def key_metrics(found: api.RunComparison) -> Iterator[KeyMetric]:
    """Yield how many records were compared and what became of them, and which difference they would show."""
    test, of_all = found.mcnemar, f"of {found.n:,} compared records"
    same = found.both_passed + found.both_failed
    left_out = found.unscored.count + found.changed.count + found.missing.count + found.added.count
    unit = "records" if found.n_clusters is None else "clusters"
    would_show = f"The smallest true difference in pass rate that 4 of 5 comparisons with this number of {unit} would detect."
    counts = (
        ("Compared", f"{found.n:,}", "Records that both runs graded, with the same contents."),
        ("Worse", f"{test.worse:,}", f"Passed before, not after; {of_all}."),
        ("Better", f"{test.better:,}", f"Passed after, not before; {of_all}."),
        ("Same result", f"{same:,}", f"{found.both_passed:,} passed in both, {found.both_failed:,} in neither; {of_all}."),
        ("Not compared", f"{left_out:,}", "Without a grade, changed, or in one run only; listed below."),
        ("Smallest detectable difference", shown(_detectable(found)), would_show),
    )
    yield from (KeyMetric(label=label, figure=DisplayValue(text, says)) for label, text, says in counts)


def comparison_charts(found: api.RunComparison) -> Iterator[Chart]:
    """Yield what became of the records, and the differences by slice."""
    test = found.mcnemar
    fates = FlipChartData(both_passed=found.both_passed, gained=test.better, lost=test.worse, both_failed=found.both_failed)
    note = f"{counted(found.n, 'record')} that both runs graded"
    yield Chart(name="flips.svg", title="Records by result", note=note, plot=fates)
    if found.slices:
        rows, omitted = shown_slices(found, is_verbose=False)
        # Sorted again: the plot puts rows of one slice under one heading, so they have to follow each other.
        plot = DifferencePlot(rows=tuple(map(_plotted, sorted(rows, key=lambda row: row.slice))), omitted=omitted)
        note = "after - before · 95 % intervals"
        yield Chart(name="differences.svg", title="Difference of pass rates by slice", note=note, plot=plot)


def _plotted(row: api.SliceDifference) -> IntervalRow:
    low, high = ends_of(row.passes.interval) or (None, None)
    return IntervalRow(_value(row.value), PlottedEstimate(low, row.passes.value, high, row.n, is_rate=True), row.slice)


# Slices


def slice_table(found: api.RunComparison, *, is_verbose: bool) -> Table:
    """Return a row for each value of each slice, the least likely to be chance first."""
    rows, omitted = shown_slices(found, is_verbose=is_verbose)
    columns = (
        Column("slice", "A member of the records.", is_name=True, limit=SLICE_LIMIT),
        Column("value", "Its value.", is_name=True, limit=SLICE_LIMIT),
        Column("n", "Compared records with this value.", is_number=True),
        Column("pass rate", "After minus before in percentage points (pp), with its 95 % interval.", is_number=True),
        Column("score", "After minus before, with its 95 % interval.", is_number=True),
        Column("p (Holm)", "For the pass rates, corrected for the number of slices (Holm).", is_number=True),
    )
    cells = tuple(
        (
            Cell(row.slice),
            Cell(_value(row.value)),
            Cell(f"{row.n:,}"),
            Cell(change_text(row.passes, is_rate=True)),
            Cell(change_text(row.scores)),
            Cell(p_text(row.p_adjusted)),
        )
        for row in rows
    )
    note = f"… and {counted(omitted, 'more value')} (--verbose lists them)" if omitted else ""
    return Table(title="Slices", columns=columns, rows=cells, note=note)


def shown_slices(found: api.RunComparison, *, is_verbose: bool) -> tuple[Sequence[api.SliceDifference], int]:
    """Return the slices that a reader looks for first: the least likely to be chance, then the largest."""
    # The first element keeps rows without a test at the end, and keeps None from being compared with a number.
    ordered = sorted(found.slices, key=lambda row: (row.p_adjusted is None, row.p_adjusted, -row.n))
    first = ordered if is_verbose else ordered[:MAX_SLICES]
    return first, len(ordered) - len(first)


def _value(value: str | None) -> str:
    return NO_VALUE if value is None else value


# Flips


def flip_table(found: api.RunComparison, *, text_limit: int) -> Table:
    """Return a row for each record that passed in only one of the runs, with both answers."""
    columns = (
        Column("flip"),
        Column("record", is_name=True, limit=ID_LIMIT),
        Column("before", limit=text_limit),
        Column("after", limit=text_limit),
        Column("why", limit=text_limit),
    )
    rows = tuple(
        (
            Cell(flip.direction, tone=_FLIP_TONES[flip.direction]),
            Cell(flip.record_id),
            Cell(f"{_score(flip.before)} · {flip.before.answer or ''}"),
            Cell(f"{_score(flip.after)} · {flip.after.answer or ''}"),
            Cell(flip.after.justification or ""),
        )
        for flip in found.flips
    )
    return Table(title=f"Flips: {found.n_flips:,}", columns=columns, rows=rows)


def _flip_lines(found: api.RunComparison, *, is_verbose: bool, note: str) -> Table:
    """Return the same for a terminal, whose lines are too short for two answers."""
    rows = []
    for flip in found.flips:
        head = (Cell(flip.direction, tone=_FLIP_TONES[flip.direction]), Cell(flip_name(flip)))
        rows.append((*head, Cell("before"), Cell(_answer_line(flip.before, is_verbose=is_verbose))))
        rows.append((Cell(""), Cell(""), Cell("after"), Cell(_answer_line(flip.after, is_verbose=is_verbose))))
    columns = (Column("flip"), Column("record", is_name=True, limit=ID_LIMIT), Column(""), Column("answer and why"))
    return Table(title="Flips", columns=columns, rows=tuple(rows), note=note)


def _answer_line(side: api.FlipSide, *, is_verbose: bool) -> str:
    """Return `not passed 2 · "the answer" · why`."""
    answer, why = (one_line(text or "") for text in (side.answer, side.justification))
    if not is_verbose:
        answer, why = cut(answer, TEXT_LIMIT), cut(why, TEXT_LIMIT)
    result = f"{PASSED if side.passed else NOT_PASSED} {_score(side)}"
    return " · ".join(part for part in (result, f"“{answer}”", why) if part)


def flip_name(flip: api.Flip) -> str:
    """Return the record, and which of several answers to it flipped."""
    return sample_name(flip.record_id, flip.sample or None)


def flip_mark(flip: api.Flip) -> Badge:
    """Return whether the record is better or worse now."""
    return Badge(flip.direction, _FLIP_TONES[flip.direction], _FLIPS[flip.direction])


def flip_scores(flip: api.Flip) -> str:
    """Return `4 → 2`."""
    return f"{score_text(flip.before)} → {score_text(flip.after)}"


def score_text(side: api.FlipSide) -> str:
    """Return the score of one side of a flip, as pages show it."""
    return DASH if side.score is None else level_name(side.score)


def _score(side: api.FlipSide) -> str:
    return UNKNOWN if side.score is None else level_name(side.score)


# The conclusion


def conclusion(found: api.RunComparison) -> tuple[str, str]:
    """Return one word on the difference of pass rates, and the sentence behind it."""
    # The same interval as in the table, so that the word never contradicts the numbers above it.
    interval = found.passes.interval
    if interval is None or found.n == 0:
        return "UNDECIDED", found.passes.reason or "no records to compare"
    flips = f"{found.mcnemar.better:,} better and {found.mcnemar.worse:,} worse of {counted(found.n, 'record')}"
    if interval.low > 0 or interval.high < 0:
        word = "IMPROVED" if interval.low > 0 else "WORSE"
        direction = "higher" if word == "IMPROVED" else "lower"
        return word, f"the pass rate is {direction} ({flips}, p {p_text(found.p_passes)}{_exact(found)})"
    return "UNDECIDED", f"no significant difference in pass rate ({flips}{_exact(found)}){_power(found)}"


def conclusion_mark(found: api.RunComparison) -> DecisionView:
    """Return the word as a mark, with its sentence."""
    word, reason = conclusion(found)
    return DecisionView(Badge(word, TONES[word], "About the difference of pass rates, at 95 %."), reason)


def conclusion_facts(found: api.RunComparison) -> Iterator[Fact]:
    """Yield the word with its sentence, and what should be known besides."""
    word, reason = conclusion(found)
    yield Fact(word, reason, tone=TONES[word])
    yield from (Fact("note", note, limit=TEXT_LIMIT) for note in further_notes(found))


def further_notes(found: api.RunComparison) -> list[str]:
    """Return what should be known of the comparison in addition to its conclusion."""
    # Without a test the conclusion's sentence is the reason of the estimate, which is one of the notes as well.
    return [note for note in found.notes if note != conclusion(found)[1]]


def _exact(found: api.RunComparison) -> str:
    """McNemar's exact p, and why it may look less sure than the test that decides; records in clusters have none."""
    if found.n_clusters is not None:
        return ""
    # The interval of the paired test decides; the exact test can stay above 5 % where that one is below, and a
    # reader who knows it would take that for an error.
    is_shown, p = (found.p_passes or 0.0) < _LINE, found.mcnemar.p_value
    why = ": it is the more cautious test, and does not decide" if is_shown and p >= _LINE else ""
    return f"; McNemar's exact p {p_text(p)}{why}"


def _power(found: api.RunComparison) -> str:
    unit = "record" if found.n_clusters is None else "cluster"
    units = counted(found.n_clusters or found.n, unit)
    # Power is about independent units, so where records are in clusters it counts clusters.
    words = f"; {units} would show one of {_detectable(found)} or more"
    if found.detectable_effect is None:
        words = f"; {units} {'is' if (found.n_clusters or found.n) == 1 else 'are'} too few to show any for certain"
    if found.required_records is None:
        return words
    return f"{words}, the one seen here would take {counted(found.required_records, unit)}"


def _detectable(found: api.RunComparison) -> str:
    """Return the smallest difference of pass rates that so many records would show: `12.5 pp`."""
    return UNKNOWN if found.detectable_effect is None else rate_change_text(found.detectable_effect, sign=False)


# The verdict of a gate


def verdict_facts(verdict: api.GateDecision) -> Iterator[Fact]:
    """Yield the word with what was measured against what, and a fact for each reason."""
    against = f" against {verdict.baseline}" if verdict.baseline else ""
    word = gate_word(passed=verdict.passed)
    yield Fact(word, f"{verdict.run_id}{against}{change_word(verdict)}", tone=TONES[word], is_whole=True)
    for finding in verdict.reasons:
        found = finding_word(finding)
        yield Fact(found.lower(), finding.reason, tone=TONES[found], limit=TEXT_LIMIT)


def group_gate_sections(found: api.GroupDecision) -> list[Section]:
    """Return the verdict on each run of a group with its reasons, then that on all of them."""
    return [
        *(Section(facts=tuple(_gated_facts(one))) for one in found.runs),
        Section(facts=(Fact(group_word(found), group_gate_text(found), tone=TONES[group_word(found)], is_whole=True),)),
    ]


def _gated_facts(one: api.GatedRun) -> Iterator[Fact]:
    if one.verdict is not None:
        yield from verdict_facts(one.verdict)
    else:
        yield Fact(NO_RESULT, f"{one.run_id}: {one.problem}", tone=TONES[NO_RESULT], is_whole=True)


def group_word(found: api.GroupDecision) -> str:
    """Return what became of the gates of a group."""
    return gate_word(passed=found.passed) if found.passed or found.is_decided else NO_RESULT


def group_gate_text(found: api.GroupDecision) -> str:
    """Return `group nightly: 3 runs, 1 missed`."""
    missed = sum(1 for one in found.runs if one.verdict is not None and not one.verdict.passed)
    undecided = sum(1 for one in found.runs if one.verdict is None)
    without = f", {undecided:,} without a result" if undecided else ""
    return f"group {found.group}: {counted(len(found.runs), 'run')}, {missed:,} missed{without}"


def suite_sections(found: api.SuiteResult) -> list[Section]:
    """Return the verdict on each run with its reasons, then that on all of them."""
    missed = sum(1 for one in found.runs if one.verdict is not None and not one.verdict.passed)
    word, text = suite_word(found), f"suite {found.suite}: {counted(len(found.runs), 'run')}, {missed:,} missed"
    return [
        *(Section(facts=tuple(_suite_facts(one))) for one in found.runs),
        Section(facts=(Fact(word, text, tone=TONES[word], is_whole=True),)),
    ]


def _suite_facts(one: api.SuiteRun) -> Iterator[Fact]:
    if one.verdict is not None:
        yield from verdict_facts(one.verdict)
    else:
        # A run without a verdict was not started, is not finished, or could not be gated; only the last has a
        # problem to name.
        text = f"{one.run_id}: {one.problem}" if one.problem else one.run_id
        yield Fact(suite_run_word(one), text, tone=TONES[suite_run_word(one)], is_whole=True)


def suite_word(found: api.SuiteResult) -> str:
    """Return what became of a suite."""
    return gate_word(passed=found.passed) if found.is_finished else UNFINISHED


def suite_run_word(one: api.SuiteRun) -> str:
    """Return what became of the gate of one run of a suite."""
    if one.verdict is not None:
        return gate_word(passed=one.verdict.passed)
    return NO_RESULT if one.problem else UNFINISHED
