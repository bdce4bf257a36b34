"""One record of a run: what was asked, what was answered, how it was judged, and every attempt."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from assay.core.artifact_lines import AttemptLine, FailureLine, InvalidRecord, PredictionLine, RecordDetails, SampleResult
from assay.core.case import Case, Criterion
from assay.core.open_fields import grading_fields, question_fields
from assay.core.outcome import Score
from assay.core.text import printable, printable_lines
from assay.presentation.run import result_cell, score_of
from assay.presentation.sections import Cell, Column, Table
from assay.presentation.subject import NAME_LIMIT, stage_word
from assay.presentation.words import UNKNOWN, dollars, error_text, latency, level_name, sampled_name
from assay.surfaces.reporters.settings import ReportSettings
from assay.surfaces.reporters.terminal import Paint, hanging, painter, table_lines

INDENT = 4
TEXT_LIMIT = 4_000
"""Characters of a prompt or an answer that are shown unless all are called for."""
UNREADABLE_VERDICT = "judge_parse_error"
"""The error for which one wants to see what the judge said."""


def record_text(record: RecordDetails | InvalidRecord, settings: ReportSettings) -> Iterator[str]:
    """The record as one reads it: question, reference, answer, scores, attempts."""
    paint = painter(is_coloured=settings.is_coloured)
    if isinstance(record, InvalidRecord):
        yield from _failure(record.failure, settings, paint=paint)
        return
    asked, found = record.input, record.prediction
    yield _heading(found, paint)
    for title, text in _texts(asked, found):
        yield from _section(title, text, settings, paint=paint)
    if found.evaluator_scores:
        yield "\n"
        scores = _scores(found.evaluator_scores, limit=0 if settings.is_verbose else TEXT_LIMIT)
        yield from table_lines(scores, settings, paint=paint)
    yield "\n"
    if record.samples is not msgspec.UNSET:
        yield from table_lines(_samples(record.samples), settings, paint=paint)
        yield "\n"
    yield from table_lines(_attempts(record.attempts), settings, paint=paint)
    if settings.is_verbose or found.error_code == UNREADABLE_VERDICT:
        for attempt in record.attempts:
            yield from _section(f"reply · {attempt.call_id}", attempt.response or "", settings, paint=paint)


def _samples(samples: Sequence[SampleResult]) -> Table:
    """The answers to a record that was asked several times."""
    columns = (
        Column("sample", is_number=True),
        Column("score", is_number=True),
        Column("result"),
        Column("why", limit=NAME_LIMIT),
    )
    rows = (
        (Cell(f"{sample.sample}"), Cell(score_of(sample)), result_cell(sample), Cell(sample.error_code or "")) for sample in samples
    )
    return Table(columns=columns, rows=tuple(rows))


def _failure(failure: FailureLine, settings: ReportSettings, *, paint: Paint) -> Iterator[str]:
    """A record that was never sent anywhere."""
    mark = result_cell(failure)
    name = printable(failure.record_id or f"record {failure.index}", limit=NAME_LIMIT)
    yield f"{paint(name, 'strong')} · {paint(mark.text, mark.tone)}\n"
    yield from _section("error", error_text(failure.code, failure.message), settings, paint=paint)


def _heading(found: PredictionLine, paint: Paint) -> str:
    mark = result_cell(found)
    score = f" · score {score_of(found)} on {found.scale}" if found.raw_score is not None else ""
    name = paint(printable(sampled_name(found), limit=NAME_LIMIT), "strong")
    return f"{name} · {paint(mark.text, mark.tone)}{score} · {printable(found.candidate_name, limit=NAME_LIMIT)}\n"


def _texts(asked: Case, found: PredictionLine) -> Iterator[tuple[str, str]]:
    for message in asked.messages:
        yield f"message · {message.role}", message.content
    yield "prompt", "" if asked.messages and asked.messages[-1].content == asked.prompt else asked.prompt
    yield "context", asked.model_context
    for field in question_fields(asked):
        yield field.name, field.text
    yield "choices", "\n".join(f"{choice.id}. {choice.text}" for choice in asked.choices)
    yield "correct", ", ".join(asked.correct_choice_ids)
    yield "rubric", "\n".join(_criterion(criterion, is_one=len(asked.criteria) == 1) for criterion in asked.criteria)
    yield "reference", "\n\n".join(asked.references)
    for field in grading_fields(asked):
        yield f"{field.name} · judge only", field.text
    yield "notes", asked.notes
    yield "answer", found.model_response or ""
    yield "chosen", ", ".join(found.selected_choice_ids)
    yield "justification", _untold(found)
    yield "profile score", _profile_score(found)
    yield "cost by judge", _costs(found.judge_costs or {})
    yield "reason", "" if found.error_code else found.label or ""
    yield "error", error_text(found.error_code, found.error_message) if found.error_code else ""
    yield "flags", ", ".join(found.flags)


def _costs(costs: Mapping[str, float | None]) -> str:
    """A line for each judge; empty where no price is known."""
    lines = (f"{judge}: {'unknown price' if cost is None else dollars(cost)}" for judge, cost in costs.items())
    return "\n".join(lines) if any(cost is not None for cost in costs.values()) else ""


def _profile_score(found: PredictionLine) -> str:
    """Empty without a profile."""
    if found.profile_score is not None:
        return level_name(found.profile_score)
    return f"none: {found.profile_unscored}" if found.profile_unscored else ""


def _untold(found: PredictionLine) -> str:
    """Of the justification what the table of scores does not say."""
    told = {line for score in found.evaluator_scores for line in score.justification.split("\n")} - {""}
    lines = (found.justification or "").split("\n")
    return "\n".join(line for line in lines if not line.endswith(tuple(told)))


def _criterion(criterion: Criterion, *, is_one: bool) -> str:
    """`c1: Names the court (weight 3)`; the only criterion needs no name."""
    name = "" if is_one or criterion.id == criterion.title else f"{criterion.id}: "
    weight = f" (weight {criterion.weight:g})" if criterion.weight != 1 else ""
    return f"{name}{criterion.title}{weight}"


def _section(title: str, text: str, settings: ReportSettings, *, paint: Paint) -> Iterator[str]:
    if not text:
        return
    yield f"\n{paint(printable(title), 'quiet')}\n"
    is_cut = len(text) > TEXT_LIMIT and not settings.is_verbose
    for line in printable_lines(text[:TEXT_LIMIT] if is_cut else text).split("\n"):
        yield f"{'':{INDENT}}{hanging(line, first=INDENT, width=settings.width, indent=INDENT)}".rstrip() + "\n"
    if is_cut:
        yield f"{'':{INDENT}}{paint(f'… and {len(text) - TEXT_LIMIT:,} more characters (--verbose shows all)', 'quiet')}\n"


def _scores(scores: Sequence[Score], *, limit: int) -> Table:
    """What each judge said of each criterion; weights only where they differ from 1."""
    columns = (
        Column("criterion", limit=NAME_LIMIT),
        Column("weight", is_number=True),
        Column("score", is_number=True),
        Column("scale"),
        Column("judge", limit=NAME_LIMIT),
        Column("justification", limit=limit),
    )
    rows = (
        (
            Cell(score.criterion),
            Cell(f"{score.weight:g}"),
            Cell(f"{score.score:g}"),
            Cell(score.scale),
            Cell(score.judge or UNKNOWN),
            Cell(score.justification),
        )
        for score in scores
    )
    found = Table(columns=columns, rows=tuple(rows))
    is_weighted = any(score.weight != 1 for score in scores)
    return found if is_weighted else found.only("criterion", "score", "scale", "judge", "justification")


def _attempts(attempts: Sequence[AttemptLine]) -> Table:
    """Every call that was made for the record."""
    columns = (
        Column("attempt", is_number=True),
        Column("stage"),
        Column("call", limit=NAME_LIMIT),
        Column("model", limit=NAME_LIMIT),
        *(Column(title, is_number=True) for title in ("latency", "tokens", "cost")),
        Column("what came back", limit=NAME_LIMIT * 2),
    )
    return Table(columns=columns, rows=tuple(map(_attempt_row, attempts)))


def _attempt_row(attempt: AttemptLine) -> tuple[Cell, ...]:
    tokens, cost = attempt.total_tokens, attempt.cost
    texts = (
        f"{attempt.attempt}",
        f"{stage_word(attempt)}, round {attempt.record_attempt}",
        attempt.call_id,
        attempt.model,
        latency(attempt.latency_ms),
        UNKNOWN if tokens is None else f"{tokens:,}",
        UNKNOWN if cost is None else dollars(cost),
    )
    return (*map(Cell, texts), _came_back(attempt))


def _came_back(attempt: AttemptLine) -> Cell:
    if not attempt.error_code:
        return Cell(attempt.finish_reason or "answered")
    status = f" (HTTP {attempt.http_status})" if attempt.http_status else ""
    waited = f"; waited {attempt.wait_s:.1f} s" if attempt.wait_s else ""
    return Cell(f"{attempt.error_code}{status}: {attempt.error_message or ''}{waited}", tone="bad")
