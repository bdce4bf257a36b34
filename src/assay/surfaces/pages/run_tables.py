"""The tables of a run's page: slices, failures, judges, times and spending, files."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from assay.core.metrics_summary import Latency, latencies
from assay.surfaces.pages import figures
from assay.surfaces.pages.figures import Figure, Mark
from assay.surfaces.pages.places import Place
from assay.surfaces.pages.tables import Cell, Column, Table, text_cell
from assay.surfaces.reporters.run_numbers import decimal, latency
from assay.surfaces.reporters.run_ranking import ranking_rows
from assay.surfaces.reporters.run_slices import HEADLINE, NO_VALUE, Mean, shared_mean
from assay.surfaces.reporters.run_view import Json, RunView, SliceValue
from assay.surfaces.reporters.wording import counted

MAX_SLICE_ROWS = 60


def slice_table(view: RunView, place: Place) -> Table:
    """A row for each value of each slice."""
    mean = shared_mean([view])
    shown = view.slices[:MAX_SLICE_ROWS]
    left_out = len(view.slices) - len(shown) + view.omitted_slice_values
    return Table(
        caption="Slices",
        columns=(
            Column(
                "Slice",
                "What the records of a row have in common: a tag, a dataset, a member of metadata.",
            ),
            Column("Records", "Scored records of the slice; the figures beside it are theirs.", is_number=True),
            Column("Pass rate", "Share of them that passed; the bar is its 95 % interval from 0 to 100 %.", is_number=True),
            Column(mean.title.capitalize(), "Their mean, with its 95 % interval.", is_number=True),
            Column("Errors", "Records of the slice without a grade.", is_number=True),
        ),
        rows=tuple(_slice_row(found, mean, run_id=view.result.run_id, place=place) for found in shown),
        note=f"{counted(left_out, 'more value')} in metrics_by_slice.json" if left_out else "",
    )


def _slice_row(found: SliceValue, mean: Mean, *, run_id: str, place: Place) -> tuple[Cell, ...]:
    row = found.figures
    n, interval = row["n_scored"], figures.ends(row, "pass_rate")
    source, member = (row["profile"], "headline") if mean.member == HEADLINE else (row, mean.member)
    scale = row.get("scale") or ""
    ends = figures.ends(source, member)
    over = figures.basis(n, row, "pass_rate")
    middle = figures.score(source[member], ends, over=over, scale=scale, name=mean.title)
    domain = figures.domain(source.get("scale") or "")
    query = {} if found.value is None else {"slice": f"{found.name}:{found.value}"}
    return (
        Cell(
            figure=Figure(NO_VALUE if found.value is None else found.value, "", found.name),
            address=place.records(run_id, **query) if query else "",
        ),
        text_cell(f"{n:,}", f"{over.says} of {row['total_records']:,}"),
        Cell(
            figure=_without_n(figures.rate(row["pass_rate"], interval, over=over)), bar=figures.whisker(row["pass_rate"], interval)
        ),
        Cell(figure=_without_n(middle), bar=figures.whisker(source[member], ends, domain=domain)),
        text_cell(f"{row['failed_records']:,}", f"of {counted(row['total_records'], 'record')}"),
    )


def _without_n(figure: Figure) -> Figure:
    """Where n has a column of its own."""
    return Figure(figure.text, figure.says)


def error_table(view: RunView, place: Place) -> Table | None:
    """Records without a grade, by the code of what kept them from one; None where all have theirs."""
    metrics, run_id = view.result.metrics, view.result.run_id
    # Where the records were removed, the summary still has the codes.
    errors, total = view.errors or metrics.get("errors") or {}, metrics["total_records"]
    columns = (
        Column("Error", "The code of what left a record without a grade. An error is never a score."),
        Column("Records", "How many records ended with it.", is_number=True),
        Column("Share", "Of all records of the run.", is_number=True),
    )
    rows = tuple(
        (
            text_cell(code, address=place.records(run_id, code=code), is_code=True),
            text_cell(f"{count:,}", f"{counted(count, 'record')} of {total:,}"),
            Cell(figure=figures.share(count, total)),
        )
        for code, count in sorted(errors.items(), key=lambda item: (-item[1], item[0]))
    )
    return Table(caption="Errors by code", columns=columns, rows=rows) if rows else None


def reason_table(view: RunView) -> Table | None:
    """Answers that did not pass, by reason; None where all passed."""
    reasons = view.reasons
    total = sum(reasons.values())
    columns = (
        Column("Reason", "What is wrong with an answer, in the words of the contract."),
        Column("Records", "Answers that did not pass.", is_number=True),
        Column("Share", "Of all answers that did not pass.", is_number=True),
    )
    rows = tuple(
        (text_cell(reason.replace("_", " ")), text_cell(f"{count:,}", f"of {total:,}"), Cell(figure=figures.share(count, total)))
        for reason, count in sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    )
    return Table(caption="Not passed, by reason", columns=columns, rows=rows) if rows else None


def judge_table(judges: Sequence[Json]) -> Table:
    """A row for each judge of a panel."""
    columns = (
        Column("Judge", "A model that graded the answers."),
        Column("Votes", "Criteria of records that it graded.", is_number=True),
        Column("Mean 0-1", "The mean of its scores, each brought to 0-1.", is_number=True),
        Column("Agrees", "Share of its votes that are what the panel decided; the bar is its 95 % interval.", is_number=True),
        Column("Calls", "Requests that were made.", is_number=True),
        Column("Failed calls", "Requests that brought no reply.", is_number=True),
        Column("Half below", "Median time of a call.", is_number=True),
        Column("Tokens", "Of its requests and replies.", is_number=True),
        Column("Cost", "US dollars; > where some prices are not known.", is_number=True),
    )
    return Table(caption="Judges", columns=columns, rows=tuple(map(_judge_row, judges)))


def _judge_row(judge: Json) -> tuple[Cell, ...]:
    agreement, cost, tokens = judge["agreement"], judge["cost_usd"], judge["tokens"]["sum"]
    ends = figures.ends_of(agreement["interval"])
    return (
        text_cell(judge["judge"]),
        text_cell(f"{judge['n_votes']:,}"),
        Cell(figure=Figure(figures.shown(decimal(judge["score_mean"])), "", f"n {judge['n_votes']:,}")),
        Cell(
            figure=figures.rate(agreement["value"], ends, over=figures.Basis(agreement["n"]), name="agreement with the panel"),
            bar=figures.whisker(agreement["value"], ends),
        ),
        text_cell(f"{judge['n_calls']:,}"),
        text_cell(f"{judge['n_failed_calls']:,}"),
        text_cell(figures.shown(latency(judge["latency_ms"]["p50"]))),
        text_cell(figures.DASH if tokens is None else f"{tokens:,}"),
        Cell(figure=figures.money(cost["sum"], unpriced=cost["n_unknown"])),
    )


def ranking_tables(ranking: Json) -> tuple[Table, ...]:
    """The candidates, the pairs and the judges of a ranking."""
    captions = ("Candidates, the strongest first", "Pairs", "Judges and places")
    return tuple(
        Table(
            caption=caption,
            columns=tuple(Column(title.capitalize(), _RANKING.get(title, ""), is_number=title not in _TEXTS) for title in titles),
            rows=tuple(tuple(text_cell(figures.shown(cell)) for cell in row) for row in rows),
        )
        for caption, (titles, rows) in zip(captions, ranking_rows(ranking), strict=True)
        if rows
    )


_TEXTS = ("rank", "candidate", "first", "second", "judge")
_RANKING = {
    "rank": "Place by strength; none where the comparisons order nobody.",
    "beats the average": "Chance of winning against the average candidate, with its 95 % interval.",
    "ahead of next": "How much stronger than the next candidate, with its 95 % interval; surely where that leaves 0 out.",
    "wins": "Comparisons won in both orders.",
    "losses": "Comparisons lost in both orders.",
    "ties": "Comparisons in which both answers were called equal in both orders.",
    "inconsistent": "Comparisons whose two orders say different things: nobody has won them.",
    "first wins": "Comparisons that the first candidate won in both orders.",
    "second wins": "Comparisons that the second candidate won in both orders.",
    "no grade": "Comparisons without a verdict.",
    "share of first": "Share of the comparisons that went to the first, a tie counting half, with its 95 % interval.",
    "comparisons": "Comparisons that the judge made in both orders.",
    "first place": "Of the inconsistent ones, those in which it preferred whoever stood first.",
    "second place": "Of the inconsistent ones, those in which it preferred whoever stood second.",
    "rate": "Share of its comparisons in which the order decided, with its 95 % interval.",
}


_TIMES = {
    "p50": ("Half below", "The median (p50): half of the records took less."),
    "p95": ("95 % below", "The 95th percentile (p95)."),
    "mean": ("Mean", "The arithmetic mean."),
    "max": ("Longest", "The largest value."),
}


def latency_table(metrics: Json, *, graded_by: str) -> Table:
    """How long the calls took."""
    judges = ("Judges", "Time in which at least one judge was being asked about a record.")
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
            *(text_cell(figures.shown(latency(value))) for value in found.figures().values()),
        )
        for name, found in latencies(metrics).items()
        if found.n
    ]
    columns = (
        Column("Latency", "How long calls took; waits between attempts are left out."),
        Column("Records", "Records with a known time.", is_number=True),
        *(Column(*_TIMES[member], is_number=True) for member in Latency.__struct_fields__ if member != "n"),
    )
    return Table(caption="Latency", columns=columns, rows=tuple(rows))


def spending_table(metrics: Json) -> Table:
    """What was used and paid."""
    cost = metrics["cost_usd"]
    mean = figures.money(cost["mean"])
    rows = [
        (
            text_cell("Cost", "US dollars of candidate and judges."),
            Cell(figure=figures.money(cost["sum"], unpriced=cost["n_unknown"])),
            Cell(figure=mean),
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
        Column("Spending", "Tokens are those of the candidate, but for the row of the judges."),
        Column("Sum", "Over all records whose figure is known.", is_number=True),
        Column("Each", "The mean of the records whose figure is known.", is_number=True),
        Column("Known", "Records whose figure is known.", is_number=True),
        Column("Unknown", "Records whose provider told no figure, or whose price is not known.", is_number=True),
    )
    return Table(caption="Spending", columns=columns, rows=tuple(rows))


def artifact_table(
    manifest: Json, *, run_id: str, place: Place, files: Mapping[str, Path], problems: Sequence[str] | None
) -> Table:
    """The files of a finished run; `problems` is what a verification said of them, None before one."""
    known: Json = manifest.get("artifacts", {})
    rows = tuple(
        (
            text_cell(name, address=place.artifact(run_id, name) if name in files else "", is_code=True),
            text_cell(figures.size(known[name]["bytes"]) if name in known else figures.DASH),
            text_cell(f"{known[name]['lines']:,}" if name in known else figures.DASH),
            Cell(mark=_condition(name, is_there=name in files, problems=problems)),
            text_cell(known[name]["sha256"], is_code=True) if name in known else text_cell("names and hashes all others"),
        )
        for name in dict.fromkeys(("run_manifest.json", *sorted(known)))
    )
    columns = (
        Column("File", "A file of the run's folder."),
        Column("Size", "A KB has 1024 bytes.", is_number=True),
        Column("Lines", "Lines of the file.", is_number=True),
        Column("State", "Whether the file is as it was published; verifying reads it and compares its hash."),
        Column("SHA-256", "As the manifest says."),
    )
    return Table(caption="Artifacts", columns=columns, rows=rows)


def _condition(name: str, *, is_there: bool, problems: Sequence[str] | None) -> Mark:
    found = [problem for problem in problems or () if problem.startswith(f"{name}: ")]
    if found:
        return Mark("not as published", "bad", "; ".join(found))
    if not is_there:
        return Mark("removed", "quiet", "Retention has removed it; its hash stays.")
    return Mark("not checked", "quiet", "Verify the files to compare it with its hash.") if problems is None else _VERIFIED


_VERIFIED = Mark("as published", "good", "Its SHA-256, bytes and lines are those of the manifest.")
