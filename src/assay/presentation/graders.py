"""Checks and graders of runs and records as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import msgspec

from assay import api
from assay.core.artifact_lines import CheckResultLine, GraderResultLine, PredictionLine
from assay.core.graders import CategoryScale, Scale
from assay.core.summary import CheckSummary, GraderSummary, MetricValue, ScoreSummary, Summary
from assay.presentation.run_report import RunReport
from assay.presentation.sections import Cell, Column, Fact, Section, Table, TextBlock, Tone
from assay.presentation.words import (
    NOT_PASSED,
    PASS_RATE_BAR,
    PASSED,
    UNKNOWN,
    MetricBasis,
    basis,
    decimal,
    dollars,
    ends_of,
    rate_value,
    record_score,
    score_value,
)

NAME_LIMIT = 48
BY_CHECKS = "checks/1"
"""Evaluator of records that checks alone grade: their scores are those of the checks."""
_STATUSES = {"not_assessed": "cannot be assessed", "error": "error"}


def grader_sections(views: Sequence[RunReport]) -> list[Section]:
    """Return the checks and the graders of runs, each as a section with a row for each run; empty without any."""
    tables = (check_table(views), grader_table(views), grader_score_table(views))
    shown = [table for table in tables if table.rows]
    titles = [column.title for column in shown[0].columns] if shown else []
    is_alone = len(views) == 1
    return [
        Section(title=table.title, tables=(_without(table, "candidate") if is_alone and "candidate" in titles else table,))
        for table in shown
    ]


def _without(table: Table, title: str) -> Table:
    return table.only(*(column.title for column in table.columns if column.title != title))


def check_table(views: Sequence[RunReport]) -> Table:
    """Return a row for each check and run, those of one check below each other."""
    names = _names(views, "checks")
    found = [
        (name, view, summary)
        for name in names
        for view in views
        if (summary := _of(view.summary, "checks").get(name)) is not None and isinstance(summary, CheckSummary)
    ]
    columns = (
        Column("check", is_name=True, limit=NAME_LIMIT),
        Column("candidate", is_name=True, limit=NAME_LIMIT),
        Column("type"),
        Column("n", "Answers with a result of the check.", is_number=True),
        Column("pass rate", f"Share of them that pass it; {PASS_RATE_BAR}.", is_number=True),
        Column("mean", "Mean similarity from 0 to 1, with its 95 % interval.", is_number=True),
        Column("unknown", "Answers of which is not known what the check is about.", is_number=True),
    )
    rows = tuple(_check_row(name, view, summary) for name, view, summary in found)
    table = Table(title="Checks", columns=columns, rows=rows)
    if not any(summary.type == "similarity" for _, _, summary in found):
        table = _without(table, "mean")
    return table if any(summary.n_unknown for _, _, summary in found) else _without(table, "unknown")


def _check_row(name: str, view: RunReport, check: CheckSummary) -> tuple[Cell, ...]:
    over = basis(check.n, check.pass_rate_interval, check.pass_rate_cluster_interval)
    mean = check.score_mean_metric if check.type == "similarity" else None
    return (
        Cell(name),
        Cell(view.name),
        Cell(check.type),
        Cell(f"{check.n:,}"),
        _rate(check.pass_rate_metric, over, f"pass rate of the check '{name}'"),
        Cell("") if mean is None else _score(mean, over, "0-1", f"mean similarity of '{name}'"),
        Cell(f"{check.n_unknown:,}"),
    )


def grader_table(views: Sequence[RunReport]) -> Table:
    """Return a row for each of several graders and each run."""
    found = [
        (name, view, summary)
        for name in _names(views, "graders")
        for view in views
        if (summary := _of(view.summary, "graders").get(name)) is not None and isinstance(summary, GraderSummary)
    ]
    columns = (
        Column("grader", is_name=True, limit=NAME_LIMIT),
        Column("candidate", is_name=True, limit=NAME_LIMIT),
        Column("kind", "Checks, a judge or a plugin; the primary one decides score and result of a record."),
        Column("n", "Answers that it gave a score.", is_number=True),
        Column("pass rate", f"Share of them that pass; {PASS_RATE_BAR}.", is_number=True),
        Column("mean", "Mean score on its own scale, with its 95 % interval.", is_number=True),
        Column("scale"),
        Column("not assessed", "Answers that its judge cannot assess.", is_number=True),
        Column("errors", "Answers on which it ended in an error.", is_number=True),
    )
    return Table(title="Graders", columns=columns, rows=tuple(_grader_row(*one) for one in found))


def _grader_row(name: str, view: RunReport, grader: GraderSummary) -> tuple[Cell, ...]:
    over = basis(grader.n, grader.pass_rate_interval, grader.pass_rate_cluster_interval)
    errors = ", ".join(f"{code} {count:,}" for code, count in grader.errors.items())
    return (
        Cell(name),
        Cell(view.name),
        Cell(f"{grader.kind}, primary" if grader.is_primary else grader.kind),
        Cell(f"{grader.n:,}"),
        _rate(grader.pass_rate_metric, over, f"pass rate by '{name}'"),
        _score(grader.score_mean_metric, over, grader.scale, f"mean score by '{name}'"),
        Cell(grader.scale or "mixed" if grader.n else UNKNOWN),
        Cell(f"{grader.n_not_assessed:,}"),
        Cell(f"{grader.n_errors:,}", errors),
    )


def grader_score_table(views: Sequence[RunReport]) -> Table:
    """Return a row for each further score that a custom grader gives."""
    columns = (
        Column("grader", is_name=True, limit=NAME_LIMIT),
        Column("candidate", is_name=True, limit=NAME_LIMIT),
        Column("score", is_name=True, limit=NAME_LIMIT),
        Column("n", "Answers with this score.", is_number=True),
        Column("mean", "Mean from 0 to 1, with its 95 % interval.", is_number=True),
    )
    rows = tuple(
        (Cell(name), Cell(view.name), Cell(part), Cell(f"{score.n:,}"), _part(name, part, score))
        for name in _names(views, "graders")
        for view in views
        if isinstance(grader := _of(view.summary, "graders").get(name), GraderSummary)
        for part, score in grader.scores.items()
    )
    return Table(title="Scores of graders", columns=columns, rows=rows)


def _part(name: str, part: str, score: ScoreSummary) -> Cell:
    return _score(score.metric, basis(score.n, score.interval, score.cluster_interval), "0-1", f"mean '{part}' by '{name}'")


def _rate(metric: MetricValue, over: MetricBasis, name: str) -> Cell:
    # n has a column of its own.
    return msgspec.structs.replace(rate_value(metric.value, ends_of(metric.interval), over=over, name=name), n="")


def _score(metric: MetricValue, over: MetricBasis, scale: str | None, name: str) -> Cell:
    found = score_value(metric.value, ends_of(metric.interval), over=over, scale=scale, name=name)
    return msgspec.structs.replace(found, n="")


def _of(summary: Summary | None, member: str) -> Mapping[str, CheckSummary | GraderSummary]:
    found = getattr(summary, member, None)
    return found if isinstance(found, dict) else {}


def _names(views: Sequence[RunReport], member: str) -> list[str]:
    return list(dict.fromkeys(name for view in views for name in _of(view.summary, member)))


# A prompt of a judge, tried on one record


def trial_sections(trial: api.PromptTrial) -> list[Section]:
    """Return what was sent to a judge, what came back, and what was read from it."""
    sent = [
        TextBlock(title=" · ".join(filter(None, ("sent", one.criterion, message.role))), text=message.content)
        for one in trial.sent
        for message in one.messages
    ]
    replies = [TextBlock(title="error" if reply.error else "reply", text=reply.error or reply.text) for reply in trial.replies]
    facts = [Fact("prompt", trial.prompt), Fact("scale", scale_text(trial.scale)), Fact("judge", trial.judge)]
    if trial.status is None:
        facts.append(Fact("result", "nothing was sent"))
    elif trial.status == "graded":
        word, tone = (PASSED, "good") if trial.passed else (NOT_PASSED, "bad")
        score = f"{word} · score {record_score(trial.raw_score, trial.score_scale)} on {trial.score_scale}"
        facts += [Fact("result", score, tone=cast("Tone", tone)), Fact("reason", trial.reason)]
    else:
        facts += [Fact("result", _STATUSES[trial.status], tone="warn"), Fact("reason", trial.reason)]
    spent = [reply.cost for reply in trial.replies]
    if trial.replies:
        total = None if None in spent else sum(cost for cost in spent if cost is not None)
        facts.append(Fact("cost", "price unknown" if total is None else dollars(total)))
    heading = (Cell(trial.record_id), Cell(trial.judge))
    return [Section(heading=heading), Section(texts=(*sent, *replies)), Section(facts=tuple(facts))]


def scale_text(scale: Scale) -> str:
    """Return `1-5`, or `good 1, poor 0.3`."""
    if isinstance(scale, CategoryScale):
        return ", ".join(f"{name} {value:g}" for name, value in scale.categories.items())
    return scale


# One record


def record_check_table(line: PredictionLine, *, limit: int = 0) -> Table | None:
    """Return what each check says of an answer; None without checks."""
    if isinstance(line.checks, msgspec.UnsetType) or not line.checks:
        return None
    columns = (
        Column("check", is_name=True, limit=NAME_LIMIT),
        Column("type"),
        Column("result"),
        Column("score", is_number=True),
        Column("reason", limit=limit),
    )
    table = Table(title="Checks", columns=columns, rows=tuple(map(_check_result, line.checks)))
    return table if any(check.type == "similarity" for check in line.checks) else _without(table, "score")


def _check_result(check: CheckResultLine) -> tuple[Cell, ...]:
    score = "" if check.type != "similarity" else decimal(check.score)
    return (Cell(check.name), Cell(check.type), _result(check), Cell(score), Cell(check.reason))


def record_grader_table(line: PredictionLine, *, limit: int = 0) -> Table | None:
    """Return what each of several graders says of an answer; None with one grader."""
    if isinstance(line.graders, msgspec.UnsetType) or not line.graders:
        return None
    columns = (
        Column("grader", is_name=True, limit=NAME_LIMIT),
        Column("kind"),
        Column("result"),
        Column("score", is_number=True),
        Column("scale"),
        Column("reason", limit=limit),
    )
    return Table(title="Graders", columns=columns, rows=tuple(map(_grader_result, line.graders)))


def _grader_result(grader: GraderResultLine) -> tuple[Cell, ...]:
    result = _result(grader) if grader.status == "graded" else Cell(_STATUSES[grader.status], tone="warn")
    parts = (
        ", ".join(f"{score.criterion} {decimal(score.normalized)}" for score in grader.scores) if grader.kind == "plugin" else ""
    )
    why = grader.error_message or " · ".join(filter(None, (parts, grader.justification)))
    return (
        Cell(grader.name),
        Cell(f"{grader.kind}, primary" if grader.is_primary else grader.kind),
        result,
        Cell(record_score(grader.raw_score, grader.scale or "")),
        Cell(grader.scale or UNKNOWN),
        Cell(why),
    )


def _result(line: CheckResultLine | GraderResultLine) -> Cell:
    if line.passed is None:
        return Cell("not known", tone="quiet")
    return Cell(PASSED, tone="good") if line.passed else Cell(NOT_PASSED, tone="bad")
