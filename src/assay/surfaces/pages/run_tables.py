"""The tables of a run's page: slices, failures, judges, times and spending, files."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from assay.core.manifest import Manifest
from assay.core.metrics_summary import latencies
from assay.core.summary import Latency
from assay.surfaces.pages import display_values
from assay.surfaces.pages.display_values import Badge, DisplayValue
from assay.surfaces.pages.links import PageLinks
from assay.surfaces.pages.tables import PageCell, PageColumn, PageTable, text_cell
from assay.surfaces.reporters.run_numbers import decimal, latency
from assay.surfaces.reporters.run_ranking import ranking_rows
from assay.surfaces.reporters.run_slices import HEADLINE, NO_VALUE, SliceMean, shared_mean
from assay.surfaces.reporters.run_view import Json, RunReport, SliceValue
from assay.surfaces.reporters.wording import counted

MAX_SLICE_ROWS = 60


def slice_table(view: RunReport, place: PageLinks) -> PageTable:
    """A row for each value of each slice."""
    mean = shared_mean([view])
    shown = view.slices[:MAX_SLICE_ROWS]
    left_out = len(view.slices) - len(shown) + view.omitted_slice_values
    return PageTable(
        caption="Slices",
        columns=(
            PageColumn(
                "Slice",
                "What the records of a row have in common: a tag, a dataset, a member of metadata.",
            ),
            PageColumn("Records", "Scored records of the slice.", is_number=True),
            PageColumn("Pass rate", "Share of them that passed; the bar is its 95 % interval from 0 to 100 %.", is_number=True),
            PageColumn(mean.title.capitalize(), "Their mean, with its 95 % interval.", is_number=True),
            PageColumn("Errors", "Records of the slice without a grade.", is_number=True),
        ),
        rows=tuple(_slice_row(found, mean, run_id=view.result.run_id, place=place) for found in shown),
        note=f"{counted(left_out, 'more value')} in metrics_by_slice.json" if left_out else "",
    )


def _slice_row(found: SliceValue, mean: SliceMean, *, run_id: str, place: PageLinks) -> tuple[PageCell, ...]:
    row = found.figures
    n, interval = row["n_scored"], display_values.ends(row, "pass_rate")
    source, member = (row["profile"], "headline") if mean.member == HEADLINE else (row, mean.member)
    scale = row.get("scale") or ""
    ends = display_values.ends(source, member)
    over = display_values.basis(n, row, "pass_rate")
    middle = display_values.score(source[member], ends, over=over, scale=scale, name=mean.title)
    domain = display_values.domain(source.get("scale") or "")
    query = {} if found.value is None else {"slice": f"{found.name}:{found.value}"}
    return (
        PageCell(
            figure=DisplayValue(NO_VALUE if found.value is None else found.value, "", found.name),
            address=place.records(run_id, **query) if query else "",
        ),
        text_cell(f"{n:,}", f"{over.says} of {row['total_records']:,}"),
        PageCell(
            figure=_without_n(display_values.rate(row["pass_rate"], interval, over=over)),
            bar=display_values.whisker(row["pass_rate"], interval),
        ),
        PageCell(figure=_without_n(middle), bar=display_values.whisker(source[member], ends, domain=domain)),
        text_cell(f"{row['failed_records']:,}", f"of {counted(row['total_records'], 'record')}"),
    )


def _without_n(figure: DisplayValue) -> DisplayValue:
    """Where n has a column of its own."""
    return DisplayValue(figure.text, figure.says)


def error_table(view: RunReport, place: PageLinks) -> PageTable | None:
    """Records without a grade, by the code of what kept them from one; None where all have theirs."""
    metrics, run_id = view.result.metrics, view.result.run_id
    # Where the records were removed, the summary still has the codes.
    errors, total = view.errors or metrics.get("errors") or {}, metrics["total_records"]
    columns = (
        PageColumn("Error", "The code of what left a record without a grade. An error is never a score."),
        PageColumn("Records", "How many records ended with it.", is_number=True),
        PageColumn("Share", "Of all records of the run.", is_number=True),
    )
    rows = tuple(
        (
            text_cell(code, address=place.records(run_id, code=code), is_code=True),
            text_cell(f"{count:,}", f"{counted(count, 'record')} of {total:,}"),
            PageCell(figure=display_values.share(count, total)),
        )
        for code, count in sorted(errors.items(), key=lambda item: (-item[1], item[0]))
    )
    return PageTable(caption="Errors by code", columns=columns, rows=rows) if rows else None


def reason_table(view: RunReport) -> PageTable | None:
    """Answers that did not pass, by reason; None where all passed."""
    reasons = view.reasons
    total = sum(reasons.values())
    columns = (
        PageColumn("Reason", "What is wrong with an answer, in the words of the contract."),
        PageColumn("Records", "Answers that did not pass.", is_number=True),
        PageColumn("Share", "Of all answers that did not pass.", is_number=True),
    )
    rows = tuple(
        (
            text_cell(reason.replace("_", " ")),
            text_cell(f"{count:,}", f"of {total:,}"),
            PageCell(figure=display_values.share(count, total)),
        )
        for reason, count in sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    )
    return PageTable(caption="Not passed, by reason", columns=columns, rows=rows) if rows else None


def judge_table(judges: Sequence[Json]) -> PageTable:
    """A row for each judge of a panel."""
    columns = (
        PageColumn("Judge", "A model that graded the answers."),
        PageColumn("Votes", "Criteria of records that it graded.", is_number=True),
        PageColumn("Mean 0-1", "Mean of its scores, normalized to 0-1.", is_number=True),
        PageColumn("Agrees", "Share of its votes that are what the panel decided; the bar is its 95 % interval.", is_number=True),
        PageColumn("Calls", "Requests that were made.", is_number=True),
        PageColumn("Failed calls", "Requests without a reply.", is_number=True),
        PageColumn("Half below", "Median time of a call.", is_number=True),
        PageColumn("Tokens", "Of its requests and replies.", is_number=True),
        PageColumn("Cost", "US dollars; > where some prices are not known.", is_number=True),
    )
    return PageTable(caption="Judges", columns=columns, rows=tuple(map(_judge_row, judges)))


def _judge_row(judge: Json) -> tuple[PageCell, ...]:
    agreement, cost, tokens = judge["agreement"], judge["cost_usd"], judge["tokens"]["sum"]
    ends = display_values.ends_of(agreement["interval"])
    return (
        text_cell(judge["judge"]),
        text_cell(f"{judge['n_votes']:,}"),
        PageCell(figure=DisplayValue(display_values.shown(decimal(judge["score_mean"])), "", f"n {judge['n_votes']:,}")),
        PageCell(
            figure=display_values.rate(
                agreement["value"], ends, over=display_values.MetricBasis(agreement["n"]), name="agreement with the panel"
            ),
            bar=display_values.whisker(agreement["value"], ends),
        ),
        text_cell(f"{judge['n_calls']:,}"),
        text_cell(f"{judge['n_failed_calls']:,}"),
        text_cell(display_values.shown(latency(judge["latency_ms"]["p50"]))),
        text_cell(display_values.DASH if tokens is None else f"{tokens:,}"),
        PageCell(figure=display_values.money(cost["sum"], unpriced=cost["n_unknown"])),
    )


def ranking_tables(ranking: Json) -> tuple[PageTable, ...]:
    """The candidates, the pairs and the judges of a ranking."""
    captions = ("Candidates, the strongest first", "Pairs", "Judges and places")
    return tuple(
        PageTable(
            caption=caption,
            columns=tuple(
                PageColumn(title.capitalize(), _RANKING.get(title, ""), is_number=title not in _TEXTS) for title in titles
            ),
            rows=tuple(tuple(text_cell(display_values.shown(cell)) for cell in row) for row in rows),
        )
        for caption, (titles, rows) in zip(captions, ranking_rows(ranking), strict=True)
        if rows
    )


_TEXTS = ("rank", "candidate", "first", "second", "judge")
_RANKING = {
    "rank": "Rank by strength; none if the comparisons order no candidates.",
    "beats the average": "Chance of winning against the average candidate, with its 95 % interval.",
    "ahead of next": "How much stronger than the next candidate, with its 95 % interval; surely where that leaves 0 out.",
    "wins": "Comparisons won in both orders.",
    "losses": "Comparisons lost in both orders.",
    "ties": "Comparisons in which both answers were called equal in both orders.",
    "inconsistent": "Comparisons whose two orders disagree; neither candidate wins.",
    "first wins": "Comparisons that the first candidate won in both orders.",
    "second wins": "Comparisons that the second candidate won in both orders.",
    "no grade": "Comparisons without a verdict.",
    "share of first": "Share of the comparisons that went to the first, a tie counting half, with its 95 % interval.",
    "comparisons": "Comparisons that the judge made in both orders.",
    "first place": "Inconsistent comparisons in which it preferred the first answer.",
    "second place": "Inconsistent comparisons in which it preferred the second answer.",
    "rate": "Share of its comparisons in which the order decided, with its 95 % interval.",
}


_TIMES = {
    "p50": ("Half below", "The median (p50): half of the records took less."),
    "p95": ("95 % below", "The 95th percentile (p95)."),
    "mean": ("Mean", "The arithmetic mean."),
    "max": ("Longest", "The largest value."),
}


def latency_table(metrics: Json, *, graded_by: str) -> PageTable:
    """How long the calls took."""
    judges = ("Judges", "Time with at least one judge call in flight for a record.")
    names = {
        "model": ("Candidate", "The candidate's call that was answered."),
        "judge": ("Grader", "Time that the run's own grader took on a record.") if graded_by == "grader" else judges,
        "end_to_end": (
            "Whole record",
            "Time in which at least one call of a record was under way, calls without a reply included.",
        ),
    }
    rows = [
        (
            text_cell(names.get(name, (name, ""))[0], names.get(name, ("", ""))[1]),
            text_cell(f"{found.n:,}"),
            *(text_cell(display_values.shown(latency(value))) for value in found.figures().values()),
        )
        for name, found in latencies(metrics).items()
        if found.n
    ]
    columns = (
        PageColumn("Latency", "How long calls took; waits between attempts are left out."),
        PageColumn("Records", "Records with a known time.", is_number=True),
        *(PageColumn(*_TIMES[member], is_number=True) for member in Latency.__struct_fields__ if member != "n"),
    )
    return PageTable(caption="Latency", columns=columns, rows=tuple(rows))


def spending_table(metrics: Json) -> PageTable:
    """What was used and paid."""
    cost = metrics["cost_usd"]
    mean = display_values.money(cost["mean"])
    rows = [
        (
            text_cell("Cost", "US dollars of candidate and judges."),
            PageCell(figure=display_values.money(cost["sum"], unpriced=cost["n_unknown"])),
            PageCell(figure=mean),
            text_cell(f"{cost['n_known']:,}"),
            text_cell(f"{cost['n_unknown']:,}"),
        )
    ]
    for name, found in metrics["tokens"].items():
        if found["sum"] is None:
            continue
        label = "Tokens of judges" if name == "judge" else f"Tokens, {name}"
        rows.append(
            (
                text_cell(label),
                text_cell(f"{found['sum']:,}"),
                text_cell(f"{found['mean']:,.1f}"),
                text_cell(f"{found['n_known']:,}"),
                text_cell(f"{found['n_unknown']:,}"),
            )
        )
    columns = (
        PageColumn("Spending", "Tokens are those of the candidate, but for the row of the judges."),
        PageColumn("Sum", "Over all records with a known value.", is_number=True),
        PageColumn("Each", "Mean of the records with a known value.", is_number=True),
        PageColumn("Known", "Records with a known value.", is_number=True),
        PageColumn("Unknown", "Records without a value from the provider, or of unknown price.", is_number=True),
    )
    return PageTable(caption="Spending", columns=columns, rows=tuple(rows))


def artifact_table(
    manifest: Manifest, *, run_id: str, place: PageLinks, files: Mapping[str, Path], problems: Sequence[str] | None
) -> PageTable:
    """The files of a finished run; `problems` is what a verification said of them, None before one."""
    known = manifest.files
    rows = tuple(
        (
            text_cell(name, address=place.artifact(run_id, name) if name in files else "", is_code=True),
            text_cell(display_values.size(known[name].bytes) if name in known else display_values.DASH),
            text_cell(f"{known[name].lines:,}" if name in known else display_values.DASH),
            PageCell(mark=_condition(name, is_there=name in files, problems=problems)),
            text_cell(known[name].sha256, is_code=True) if name in known else text_cell("names and hashes all others"),
        )
        for name in dict.fromkeys(("run_manifest.json", *sorted(known)))
    )
    columns = (
        PageColumn("File", "A file of the run's folder."),
        PageColumn("Size", "A KB has 1024 bytes.", is_number=True),
        PageColumn("Lines", "Lines of the file.", is_number=True),
        PageColumn("State", "Whether the file is as it was published; verifying reads it and compares its hash."),
        PageColumn("SHA-256", "From the manifest."),
    )
    return PageTable(caption="Artifacts", columns=columns, rows=rows)


def _condition(name: str, *, is_there: bool, problems: Sequence[str] | None) -> Badge:
    found = [problem for problem in problems or () if problem.startswith(f"{name}: ")]
    if found:
        return Badge("not as published", "bad", "; ".join(found))
    if not is_there:
        return Badge("removed", "quiet", "Retention has removed it; its hash stays.")
    return Badge("not checked", "quiet", "Verify the files to compare it with its hash.") if problems is None else _VERIFIED


_VERIFIED = Badge("as published", "good", "Its SHA-256, bytes and lines are those of the manifest.")
