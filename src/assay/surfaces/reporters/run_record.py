"""One record of a run: what was asked, what was answered, how it was judged, and every attempt."""

from collections.abc import Iterator, Mapping, Sequence

from assay.core.open_fields import grading_fields, question_fields, stored_case
from assay.presentation.run import result_cell, score_of
from assay.presentation.run_report import Json
from assay.presentation.run_subject import NAME_LIMIT, stage_word
from assay.presentation.sections import Cell, Column
from assay.presentation.words import UNKNOWN, dollars, error_text, latency, level_name, sampled_name
from assay.surfaces.printable import printable, printable_lines
from assay.surfaces.reporters.settings import ReportSettings
from assay.surfaces.reporters.terminal import Paint, Row, hanging, painter, table

INDENT = 4
TEXT_LIMIT = 4_000
"""Characters of a prompt or an answer that are shown unless all are called for."""
UNREADABLE_VERDICT = "judge_parse_error"
"""The error for which one wants to see what the judge said."""
_ATTEMPT_COLUMNS = (
    Column("attempt", is_number=True),
    Column("stage"),
    Column("call"),
    Column("model"),
    Column("latency", is_number=True),
    Column("tokens", is_number=True),
    Column("cost", is_number=True),
    Column("what came back"),
)
_SAMPLE_COLUMNS = (
    Column("sample", is_number=True),
    Column("score", is_number=True),
    Column("result"),
    Column("why"),
)


def record_text(record: Json, settings: ReportSettings) -> Iterator[str]:
    """The record as one reads it: question, reference, answer, scores, attempts."""
    paint = painter(is_coloured=settings.is_coloured)
    if "failure" in record:
        yield from _failure(record["failure"], settings, paint=paint)
        return
    asked, found = record["input"], record["prediction"]
    yield _heading(found, paint)
    for title, text in _texts(asked, found):
        yield from _section(title, text, settings, paint=paint)
    if found["evaluator_scores"]:
        yield "\n"
        yield from _scores(found["evaluator_scores"], settings, paint=paint)
    yield "\n"
    if "samples" in record:
        yield from table(_SAMPLE_COLUMNS, [_sample_row(sample) for sample in record["samples"]], paint=paint, width=settings.width)
        yield "\n"
    rows = [_attempt_row(attempt) for attempt in record["attempts"]]
    yield from table(_ATTEMPT_COLUMNS, rows, paint=paint, width=settings.width)
    if settings.is_verbose or found["error_code"] == UNREADABLE_VERDICT:
        for attempt in record["attempts"]:
            yield from _section(f"reply · {attempt['call_id']}", attempt.get("response") or "", settings, paint=paint)


def _sample_row(sample: Json) -> Row:
    """One of several answers to the record."""
    score = score_of(sample)
    return (f"{sample['sample']}", score, result_cell(sample), printable(sample["error_code"] or "", limit=NAME_LIMIT))


def _failure(failure: Json, settings: ReportSettings, *, paint: Paint) -> Iterator[str]:
    """A record that was never sent anywhere."""
    mark = result_cell(failure)
    yield f"{paint(printable(failure['record_id'], limit=NAME_LIMIT), 'strong')} · {paint(mark.text, mark.tone)}\n"
    yield from _section("error", error_text(failure["code"], failure["message"]), settings, paint=paint)


def _heading(found: Json, paint: Paint) -> str:
    mark = result_cell(found)
    score = f" · score {score_of(found)} on {found['scale']}" if found["raw_score"] is not None else ""
    name = paint(printable(sampled_name(found), limit=NAME_LIMIT), "strong")
    return f"{name} · {paint(mark.text, mark.tone)}{score} · {printable(found['candidate_name'], limit=NAME_LIMIT)}\n"


def _texts(asked: Json, found: Json) -> Iterator[tuple[str, str]]:
    messages = asked.get("messages") or ()
    for message in messages:
        yield f"message · {message['role']}", message["content"]
    yield "prompt", "" if messages and messages[-1]["content"] == asked.get("prompt") else asked.get("prompt", "")
    yield "context", asked.get("model_context") or ""
    case = stored_case(asked)
    for field in () if case is None else question_fields(case):
        yield field.name, field.text
    yield "choices", "\n".join(f"{choice['id']}. {choice['text']}" for choice in asked.get("choices") or ())
    yield "correct", ", ".join(asked.get("correct_choice_ids") or ())
    criteria = asked.get("criteria") or ()
    yield "rubric", "\n".join(_criterion(criterion, is_one=len(criteria) == 1) for criterion in criteria)
    yield "reference", "\n\n".join(asked.get("references") or ())
    for field in () if case is None else grading_fields(case):
        yield f"{field.name} · judge only", field.text
    yield "notes", asked.get("notes") or ""
    yield "answer", found["model_response"] or ""
    yield "chosen", ", ".join(found["selected_choice_ids"])
    yield "justification", _untold(found)
    yield "profile score", _profile_score(found)
    yield "cost by judge", _costs(found.get("judge_costs") or {})
    yield "reason", "" if found["error_code"] else found["label"] or ""
    yield "error", error_text(found["error_code"], found["error_message"]) if found["error_code"] else ""
    yield "flags", ", ".join(found["flags"])


def _costs(costs: Mapping[str, float | None]) -> str:
    """A line for each judge; empty where no price is known."""
    lines = (f"{judge}: {'unknown price' if cost is None else dollars(cost)}" for judge, cost in costs.items())
    return "\n".join(lines) if any(cost is not None for cost in costs.values()) else ""


def _profile_score(found: Json) -> str:
    """Empty without a profile."""
    if found.get("profile_score") is not None:
        return level_name(found["profile_score"])
    return f"none: {found['profile_unscored']}" if found.get("profile_unscored") else ""


def _untold(found: Json) -> str:
    """Of the justification what the table of scores does not say."""
    told = {line for score in found["evaluator_scores"] for line in str(score.get("justification") or "").split("\n")} - {""}
    lines = str(found["justification"] or "").split("\n")
    return "\n".join(line for line in lines if not line.endswith(tuple(told)))


def _criterion(criterion: Json, *, is_one: bool) -> str:
    """`c1: Names the court (weight 3)`; the only criterion needs no name."""
    weight, name = criterion.get("weight", 1), "" if is_one or criterion["id"] == criterion["title"] else f"{criterion['id']}: "
    return f"{name}{criterion['title']} (weight {weight:g})" if weight != 1 else f"{name}{criterion['title']}"


def _section(title: str, text: str, settings: ReportSettings, *, paint: Paint) -> Iterator[str]:
    if not text:
        return
    yield f"\n{paint(printable(title), 'quiet')}\n"
    is_cut = len(text) > TEXT_LIMIT and not settings.is_verbose
    for line in printable_lines(text[:TEXT_LIMIT] if is_cut else text).split("\n"):
        yield f"{'':{INDENT}}{hanging(line, first=INDENT, width=settings.width, indent=INDENT)}".rstrip() + "\n"
    if is_cut:
        yield f"{'':{INDENT}}{paint(f'… and {len(text) - TEXT_LIMIT:,} more characters (--verbose shows all)', 'quiet')}\n"


def _scores(scores: Sequence[Json], settings: ReportSettings, *, paint: Paint) -> Iterator[str]:
    is_weighted = any(score.get("weight", 1) != 1 for score in scores)
    weights = (Column("weight", is_number=True),) if is_weighted else ()
    columns = (
        Column("criterion"),
        *weights,
        Column("score", is_number=True),
        Column("scale"),
        Column("judge"),
        Column("justification"),
    )
    rows = [
        (
            printable(score["criterion"], limit=NAME_LIMIT),
            *([f"{score.get('weight', 1):g}"] if is_weighted else []),
            f"{score['score']:g}",
            score["scale"],
            printable(score.get("judge") or UNKNOWN, limit=NAME_LIMIT),
            printable(score.get("justification", ""), limit=None if settings.is_verbose else TEXT_LIMIT),
        )
        for score in scores
    ]
    yield from table(columns, rows, paint=paint, width=settings.width)


def _attempt_row(attempt: Json) -> Row:
    tokens, cost = attempt["total_tokens"], attempt["cost"]
    return (
        f"{attempt['attempt']}",
        f"{stage_word(attempt)}, round {attempt['record_attempt']}",
        printable(attempt["call_id"], limit=NAME_LIMIT),
        printable(attempt["model"], limit=NAME_LIMIT),
        latency(attempt["latency_ms"]),
        UNKNOWN if tokens is None else f"{tokens:,}",
        UNKNOWN if cost is None else dollars(cost),
        _came_back(attempt),
    )


def _came_back(attempt: Json) -> Cell:
    if not attempt["error_code"]:
        return Cell(printable(attempt["finish_reason"] or "answered", limit=NAME_LIMIT))
    status = f" (HTTP {attempt['http_status']})" if attempt["http_status"] else ""
    waited = f"; waited {attempt['wait_s']:.1f} s" if attempt["wait_s"] else ""
    words = f"{attempt['error_code']}{status}: {attempt['error_message'] or ''}{waited}"
    return Cell(printable(words, limit=NAME_LIMIT * 2), tone="bad")
