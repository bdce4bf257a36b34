"""One run: whether it is good enough and why, what was counted, and the evidence."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from assay.surfaces.pages import figures
from assay.surfaces.pages.figures import Figure, Mark, Moment, Whisker
from assay.surfaces.pages.places import Place
from assay.surfaces.pages.tables import NARROW, WIDE, Cell, Column, Drawing, Table, text_cell
from assay.surfaces.reporters.run_charts import run_charts
from assay.surfaces.reporters.run_decision import NO_GATES, decisions
from assay.surfaces.reporters.run_numbers import decimal, duration, latency
from assay.surfaces.reporters.run_slices import NO_VALUE, shared_mean
from assay.surfaces.reporters.run_view import Json, RunView, SliceValue
from assay.surfaces.reporters.wording import counted

_VERDICTS: dict[str, figures.Kind] = {"PASS": "good", "FAIL": "bad", "NO RESULT": "bad", "BLOCKED": "bad", "UNFINISHED": "live"}
MAX_SLICE_ROWS = 60


class KeyFigure(msgspec.Struct, frozen=True, kw_only=True):
    """A number that stands large on a page."""

    label: str
    figure: Figure
    note: str = ""
    bar: Whisker | None = None
    address: str = ""


class Fact(msgspec.Struct, frozen=True):
    """A label and what belongs to it."""

    label: str
    text: str
    is_hash: bool = False


class Verdict(msgspec.Struct, frozen=True):
    """A decision on the run with its reason."""

    mark: Mark
    reason: str


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """How a run goes that has not ended."""

    state: Mark
    done: int
    total: int
    text: str
    pace: Figure
    failures: tuple[Fact, ...] = ()
    problem: str = ""


class RunPage(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the page of a run shows."""

    run_id: str
    state: Mark
    is_finished: bool
    verdicts: tuple[Verdict, ...]
    subject: tuple[Fact, ...]
    created: Moment | None
    started: Moment | None
    completed: Moment | None
    took: str
    key_figures: tuple[KeyFigure, ...]
    counts: tuple[KeyFigure, ...]
    drawings: tuple[Drawing, ...]
    slices: Table | None
    failures: Table | None
    latencies: Table | None
    spending: Table | None
    settings: tuple[Fact, ...]
    plan_json: str
    hashes: tuple[Fact, ...]
    artifacts: Table | None
    missing: tuple[str, ...]
    standing: Standing | None
    records_address: str
    compare_address: str
    exports: tuple[Cell, ...]


def run_page(
    view: RunView, *, place: Place, moments: Mapping[str, Any], files: Mapping[str, Path], standing: Standing | None = None
) -> RunPage:
    """The page of a run; `files` are its artifacts by name, `standing` is how it goes while it is under way."""
    result, metrics = view.result, view.result.metrics
    run_id = result.run_id
    return RunPage(
        run_id=run_id,
        state=figures.state_mark(result.state),
        is_finished=result.is_finished,
        verdicts=tuple(_verdict(decision.word, decision.reason) for decision in decisions(view)),
        subject=tuple(_subject(view)),
        created=figures.moment(moments["created_at"] or ""),
        started=figures.moment(moments["started_at"] or ""),
        completed=figures.moment(moments["completed_at"] or ""),
        took="" if view.seconds is None else duration(view.seconds),
        key_figures=tuple(_key_figures(view, place)) if metrics else (),
        counts=tuple(_counts(view, place)) if result.is_finished else (),
        drawings=_drawings(view) if metrics else (),
        slices=_slices(view) if view.slices else None,
        failures=_failures(metrics, run_id=run_id, place=place) if metrics else None,
        latencies=_latencies(metrics) if metrics else None,
        spending=_spending(metrics) if metrics else None,
        settings=tuple(_settings(view.plan)),
        plan_json=msgspec.json.format(msgspec.json.encode(view.plan), indent=2).decode(),
        hashes=tuple(_hashes(view.manifest)),
        artifacts=_artifacts(view.manifest, run_id=run_id, place=place, files=files) if files else None,
        missing=view.missing,
        standing=standing,
        records_address=place.records(run_id),
        compare_address=place.compare(after=run_id) if result.is_finished else "",
        exports=tuple(text_cell(kind.upper(), address=place.export(run_id, kind)) for kind in ("jsonl", "csv", "parquet", "json")),
    )


def _verdict(word: str, reason: str) -> Verdict:
    says = "Nothing decides about this run: it has no gates." if word == NO_GATES else ""
    return Verdict(Mark(word.lower(), _VERDICTS.get(word, "quiet"), says), reason)


def _subject(view: RunView) -> Iterator[Fact]:
    plan = view.plan
    for dataset in plan.get("datasets", ()):
        named = dataset["name"] or dataset["dataset_id"]
        yield Fact("Dataset", " · ".join(filter(None, (named, dataset["dataset_version"], dataset["contract"]))))
    yield Fact("Candidate", _model(plan["candidate"]))
    for judge in plan.get("judges", ()):
        yield Fact("Judge", _model(judge))
    if view.manifest.get("rescored_from"):
        yield Fact("Rescored", f"from {view.manifest['rescored_from']['run_id']}, without any call")
    elif plan.get("parent_run_id"):
        yield Fact("Repeats", f"the failed records of {plan['parent_run_id']}")


def _model(model: Json) -> str:
    given = {name: value for name, value in (model.get("parameters") or {}).items() if value not in (None, {})}
    return " · ".join([str(model["name"]), *(f"{name.replace('_', ' ')} {value}" for name, value in given.items())])


def _key_figures(view: RunView, place: Place) -> Iterator[KeyFigure]:
    metrics = view.result.metrics
    if "ranking" in metrics:
        return
    n = metrics["n_scored"]
    interval = _ends(metrics["pass_rate_interval"])
    yield KeyFigure(
        label="Pass rate",
        figure=figures.rate(metrics["pass_rate"], interval, n=n),
        note=f"95 % interval {figures.interval_text(interval)}" if interval else "",
        bar=figures.whisker(metrics["pass_rate"], interval),
        address=place.records(view.result.run_id, passed="false"),
    )
    mean = shared_mean([view])
    profile = metrics.get("profile")
    if profile:
        ends = _ends(profile["headline_interval"])
        found = figures.score(profile["headline"], ends, n=profile["n"], scale=profile["scale"], name=profile["id"])
        yield KeyFigure(label=profile["id"], figure=found, note=f"95 % interval {figures.interval_text(ends)}")
        return
    ends = _ends(metrics[f"{mean.member}_interval"])
    scale = metrics["scale"] or "0-1"
    found = figures.score(metrics[mean.member], ends, n=n, scale=scale, name=mean.title)
    note = f"scale {scale} · 95 % interval {figures.interval_text(ends)}" if ends else f"scale {scale}"
    yield KeyFigure(
        label=mean.title.capitalize(),
        figure=found,
        note=note,
        bar=figures.whisker(metrics[mean.member], ends, domain=_domain(scale)),
    )


def _domain(scale: str) -> tuple[float, float]:
    low, _, high = scale.partition("-")
    return (float(low), float(high)) if low.isdigit() and high.isdigit() else (0.0, 1.0)


def _ends(interval: Json | None) -> tuple[float, float] | None:
    return None if interval is None else (interval["low"], interval["high"])


def _counts(view: RunView, place: Place) -> Iterator[KeyFigure]:
    counts, run_id = view.result.counts, view.result.run_id
    repeat = view.plan.get("repeat", 1)
    each = f"; every one of {repeat} answers to a record counts" if repeat > 1 else ""
    rows = (
        ("Records", counts.total_records, f"All records of the input, invalid ones included{each}.", ""),
        ("Evaluated", counts.evaluated_records, "Records with a grade: what pass rate and scores are means of.", "evaluated"),
        (
            "Failed",
            counts.failed_records,
            "Records without a grade: invalid, timed out, or with an error. An error is never a score.",
            "",
        ),
        ("Skipped", counts.skipped_records, "Valid records that were never evaluated, cancelled ones included.", "skipped"),
        ("Invalid", counts.invalid_records, "Records that break their contract; they are part of the failed ones.", ""),
    )
    for label, count, says, status in rows:
        address = place.records(run_id, status=status) if status and count else ""
        of = f"of {counts.total_records:,}" if label != "Records" else ""
        yield KeyFigure(label=label, figure=Figure(f"{count:,}", says, of), address=address)


def _drawings(view: RunView) -> tuple[Drawing, ...]:
    wide, narrow = run_charts([view], width=WIDE), run_charts([view], width=NARROW)
    return tuple(Drawing(title=one.title, wide=one.svg, narrow=other.svg) for one, other in zip(wide, narrow, strict=True))


def _slices(view: RunView) -> Table:
    mean = shared_mean([view])
    shown = view.slices[:MAX_SLICE_ROWS]
    left_out = len(view.slices) - len(shown) + view.omitted_slice_values
    return Table(
        caption="Slices",
        columns=(
            Column("Slice", "What the records are grouped by: a tag, a member of their metadata, the dataset."),
            Column("Value", "What the records of a row have in common."),
            Column("Records", "Scored records of the slice; the figures beside it are theirs.", is_number=True),
            Column("Pass rate", "Share of them that passed; the bar is its 95 % interval from 0 to 1.", is_number=True),
            Column(mean.title.capitalize(), "Their mean, with its 95 % interval.", is_number=True),
            Column("Failed", "Records of the slice without a grade.", is_number=True),
        ),
        rows=tuple(_slice_row(found, mean_member=mean.member, mean_title=mean.title) for found in shown),
        note=f"{counted(left_out, 'more value')} in metrics_by_slice.json" if left_out else "",
    )


def _slice_row(found: SliceValue, *, mean_member: str, mean_title: str) -> tuple[Cell, ...]:
    row = found.figures
    n, ends = row["n_scored"], _ends(row["pass_rate_interval"])
    profile = row.get("profile")
    value, interval = (
        (profile["headline"], profile["headline_interval"])
        if mean_member == "headline" and profile
        else (row.get(mean_member), row.get(f"{mean_member}_interval"))
    )
    return (
        text_cell(found.name),
        text_cell(NO_VALUE if found.value is None else found.value),
        text_cell(f"{n:,}", f"{counted(n, 'scored record')} of {row['total_records']:,}"),
        Cell(figure=figures.rate(row["pass_rate"], ends, n=n), bar=figures.whisker(row["pass_rate"], ends)),
        Cell(figure=figures.score(value, _ends(interval), n=n, scale=row.get("scale") or "", name=mean_title)),
        text_cell(f"{row['failed_records']:,}"),
    )


def _failures(metrics: Json, *, run_id: str, place: Place) -> Table | None:
    errors, labels = metrics.get("errors") or {}, metrics.get("labels") or {}
    total = metrics["total_records"]
    rows = [
        (
            Cell(mark=Mark("error", "bad", "The record has no grade.")),
            text_cell(code, is_code=True),
            text_cell(f"{count:,}", f"of {counted(total, 'record')}"),
        )
        for code, count in sorted(errors.items(), key=lambda item: -item[1])
    ] + [
        (
            Cell(
                mark=Mark("not passed", "warn", "The record was graded and did not pass."),
                address=place.records(run_id, passed="false"),
            ),
            text_cell(label, is_code=True),
            text_cell(f"{count:,}", f"of {counted(metrics['n_scored'], 'scored record')}"),
        )
        for label, count in sorted(labels.items(), key=lambda item: -item[1])
    ]
    if not rows:
        return None
    columns = (
        Column("Kind", "An error leaves a record without a grade; what did not pass has one."),
        Column("Why", "The code of the error, or what kind of failure the answer is."),
        Column("Records", "How many records; one may count in several rows.", is_number=True),
    )
    return Table(caption="What went wrong", columns=columns, rows=tuple(rows))


def _latencies(metrics: Json) -> Table:
    names = {
        "model": ("Candidate", "Time of the candidate's calls of a record."),
        "judge": ("Judges", "Time of the judges' calls of a record."),
        "end_to_end": ("Whole record", "From the first call of a record to its grade."),
    }
    rows = [
        (
            text_cell(names.get(name, (name, ""))[0], names.get(name, ("", ""))[1]),
            text_cell(f"{found['n']:,}"),
            *(text_cell(figures.shown(latency(found[member]))) for member in ("p50", "p95", "mean", "max")),
        )
        for name, found in metrics["latency_ms"].items()
        if found["n"]
    ]
    columns = (
        Column("Latency", "How long calls took, waiting between attempts left out."),
        Column("Records", "Records with a known time.", is_number=True),
        Column("Half below", "The median (p50): half of the records took less.", is_number=True),
        Column("95 % below", "The 95th percentile (p95).", is_number=True),
        Column("Mean", "The arithmetic mean.", is_number=True),
        Column("Longest", "The largest value.", is_number=True),
    )
    return Table(caption="Latency", columns=columns, rows=tuple(rows))


def _spending(metrics: Json) -> Table:
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


def _settings(plan: Json) -> Iterator[Fact]:
    gates = {name.replace("_", " "): limit for name, limit in (plan.get("gates") or {}).items() if limit is not None}
    yield Fact("Gates", ", ".join(f"{name} {decimal(limit)}" for name, limit in gates.items()) or "none")
    yield Fact("Concurrency", str(plan["concurrency"]))
    yield Fact("Attempts", f"at most {plan['retry']['max_attempts']} at each record")
    yield Fact("Answers to a record", str(plan.get("repeat", 1)))
    yield Fact("Seed", str(plan["seed"]))
    for label, member in (("Sample", "sample"), ("Limit", "limit"), ("Largest cost", "max_cost"), ("Profile", "profile")):
        if plan.get(member) is not None:
            yield Fact(label, str(plan[member]))
    yield Fact("Passing score", f"{plan['case_pass_score']} on 1-5, {plan['pass_threshold']} on 0-1")


def _hashes(manifest: Json) -> Iterator[Fact]:
    named = (
        ("Manifest", "manifest_sha256"),
        ("Plan", "plan_sha256"),
        ("Records (Merkle root)", "records_merkle_root"),
        ("Attempts (hash chain)", "attempt_chain_sha256"),
    )
    yield from (Fact(label, manifest[member], is_hash=True) for label, member in named if manifest.get(member))
    for dataset in (manifest.get("plan") or {}).get("datasets", ()):
        if dataset.get("sha256"):
            yield Fact(f"Dataset {dataset['dataset_id']}", dataset["sha256"], is_hash=True)
    if manifest.get("assay_version"):
        yield Fact("Made with", f"assay {manifest['assay_version']}")


def _artifacts(manifest: Json, *, run_id: str, place: Place, files: Mapping[str, Path]) -> Table:
    known: Json = manifest.get("artifacts", {})
    rows = [
        (
            text_cell(name, address=place.artifact(run_id, name) if name in files else "", is_code=True),
            text_cell(figures.size(known[name]["bytes"]) if name in known else figures.DASH),
            text_cell(f"{known[name]['lines']:,}" if name in known else figures.DASH),
            text_cell(known[name]["sha256"] if name in known else "names the others", is_code=name in known),
            Cell(mark=None if name in files else Mark("removed", "quiet", "Retention has removed it.")),
        )
        for name in dict.fromkeys(("run_manifest.json", *sorted(known)))
    ]
    columns = (
        Column("File", "A file of the run's folder."),
        Column("Size", "A KB has 1024 bytes.", is_number=True),
        Column("Lines", "Lines of the file.", is_number=True),
        Column("SHA-256", "As the manifest says; verifying compares it with the file."),
        Column("State"),
    )
    return Table(caption="Artifacts", columns=columns, rows=tuple(rows))
