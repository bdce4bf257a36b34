"""Results of a record's criteria, from its scores or from the log of its judge calls."""

from collections.abc import Iterable, Mapping
from statistics import median_low

import msgspec

from assay.core.case import Case
from assay.core.outcome import CriterionResult, Score
from assay.grading.assignment import GradingSettings
from assay.grading.judge_call import AGAIN, ReplySpec, judge_call_id
from assay.grading.methods import assign
from assay.grading.verdict import (
    ChoiceReplySchema,
    ReplySchema,
    UnusableReply,
    Verdict,
    only_object,
    read_verdict,
    read_verdicts,
    salvaged_verdict,
)


class UnknownCall(Exception):
    """A reply in the log that belongs to none of the record's questions."""


def marks_of(scores: Iterable[Score]) -> tuple[CriterionResult, ...]:
    """Combine the votes of a graded record: the median vote of each criterion, the lower one of two."""
    votes: dict[str, list[Score]] = {}
    for score in scores:
        votes.setdefault(score.criterion, []).append(score)
    return tuple(
        CriterionResult(criterion=name, value=median_low(vote.score for vote in cast), scale=cast[0].scale, weight=cast[0].weight)
        for name, cast in votes.items()
    )


def results_from_log(
    case: Case, settings: GradingSettings, *, replies: Mapping[str, str], answer: str | None, is_first: bool = False
) -> tuple[CriterionResult, ...]:
    """Read a record's results from the replies to its judge calls, by call id; criteria without a vote have no value.

    With `is_first` only a judge's first reply counts, as given. Raises UnknownCall for a reply that
    belongs to no question: results without it would not be those of the record.
    """
    assignment = assign(case, settings)
    specs = assignment.method.topics(assignment, answer)
    known = {(spec.name, judge): call_id for spec in specs for judge, call_id in _call_ids(spec, settings.judges)}
    # A reply that belongs to no question means that the rules have changed since; results without it would be quietly different.
    unknown = {call_id.removesuffix(AGAIN) for call_id in replies} - set(known.values())
    if unknown:
        raise UnknownCall(sorted(unknown)[0])
    return tuple(
        result
        for spec in specs
        for result in _combine_votes(spec, _votes(spec, settings.judges, replies=replies, answer=answer or "", is_first=is_first))
    )


def _call_ids(spec: ReplySpec, judges: tuple[str, ...]) -> list[tuple[str, str]]:
    return [(judge, judge_call_id(spec.name, judge if len(judges) > 1 else "")) for judge in judges]


def _votes(
    spec: ReplySpec, judges: tuple[str, ...], *, replies: Mapping[str, str], answer: str, is_first: bool
) -> list[tuple[float, ...]]:
    """Read each judge's values for the criteria of a question; a judge without a verdict has no vote."""
    votes = []
    for _, call_id in _call_ids(spec, judges):
        texts = [replies[name] for name in (call_id, *(() if is_first else (call_id + AGAIN,))) if name in replies]
        read = [_values(spec, text, answer=answer, is_exact=is_first) for text in texts]
        # The same order as in grading: the first reply that can be read, then the second, then what can be salvaged of both.
        votes.append(next(filter(None, read), ()) or (() if is_first else _salvaged(spec, texts, answer=answer)))
    return [tuple(1 - value for value in vote) if spec.is_swapped else vote for vote in votes if vote]


def _values(spec: ReplySpec, text: str, *, answer: str, is_exact: bool) -> tuple[float, ...]:
    found: tuple[Verdict, ...] | Verdict | UnusableReply
    if spec.is_list:
        found = read_verdicts(text, spec.shape, answer=answer, count=len(spec.marks))
    else:
        found = read_verdict(text, spec.shape, answer=answer)
    if isinstance(found, UnusableReply):
        return ()
    if isinstance(found, tuple):
        return tuple(verdict.value for verdict in found)
    is_number = not isinstance(spec.shape, ChoiceReplySchema)
    return (_exact_value(text, spec.shape) if is_exact and is_number else found.value,)


def _exact_value(text: str, shape: ReplySchema) -> float:
    """Return the number of a readable verdict before rounding to tenths."""
    found = only_object(text)
    assert not isinstance(found, UnusableReply)
    # Some benchmarks score what the judge wrote, and not what our scale made of it.
    value = found[shape.value]
    assert isinstance(value, int | float), "a readable verdict has a number"
    return float(value)


def _salvaged(spec: ReplySpec, texts: list[str], *, answer: str) -> tuple[float, ...]:
    """Salvage a value from two replies, as grading does; lists are not salvaged."""
    if spec.is_list or len(texts) < 2:
        return ()
    saved = salvaged_verdict(texts, spec.shape, answer=answer)
    return () if saved is None else (saved.value,)


def _combine_votes(spec: ReplySpec, votes: list[tuple[float, ...]]) -> Iterable[CriterionResult]:
    if not votes:
        return spec.marks
    values = (median_low(vote[number] for vote in votes) for number in range(len(spec.marks)))
    return (msgspec.structs.replace(result, value=value) for result, value in zip(spec.marks, values, strict=True))
