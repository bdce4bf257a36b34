"""What judges said of a record, from its scores or from the log of its calls, as one mark for each criterion."""

from collections.abc import Iterable, Mapping
from statistics import median_low

import msgspec

from assay.core.case import Case
from assay.core.mark import Mark
from assay.core.outcome import Score
from assay.grading.judge_call import AGAIN, judge_call_id
from assay.grading.reply_object import Refusal, only_object
from assay.grading.settings import GradingSettings
from assay.grading.topic import Topic
from assay.grading.verdict import Shape, Verdict, WordShape, read_verdict, read_verdicts, salvaged_verdict
from assay.grading.ways import assign


class UnknownCall(Exception):
    """A reply in the log that belongs to none of the record's questions."""


def marks_of(scores: Iterable[Score]) -> tuple[Mark, ...]:
    """The marks of a graded record: the middle vote of each criterion, the lower one of two."""
    votes: dict[str, list[Score]] = {}
    for score in scores:
        votes.setdefault(score.criterion, []).append(score)
    return tuple(
        Mark(criterion=name, value=median_low(vote.score for vote in cast), scale=cast[0].scale, weight=cast[0].weight)
        for name, cast in votes.items()
    )


def marks_heard(
    case: Case, settings: GradingSettings, *, replies: Mapping[str, str], answer: str | None, is_first: bool = False
) -> tuple[Mark, ...]:
    """The marks of a record from the replies to its judge calls, by call id; those that nobody gave are empty.

    With `is_first` only what a judge said when it was first asked counts, as it said it. Raises UnknownCall for a reply that
    belongs to no question: marks that leave it out would not be those of the record.
    """
    assignment = assign(case, settings)
    topics = assignment.way.topics(assignment, answer)
    known = {(topic.name, judge): call_id for topic in topics for judge, call_id in _call_ids(topic, settings.judges)}
    strangers = {call_id.removesuffix(AGAIN) for call_id in replies} - set(known.values())
    if strangers:
        raise UnknownCall(sorted(strangers)[0])
    return tuple(
        mark
        for topic in topics
        for mark in _settled(topic, _votes(topic, settings.judges, replies=replies, answer=answer or "", is_first=is_first))
    )


def _call_ids(topic: Topic, judges: tuple[str, ...]) -> list[tuple[str, str]]:
    return [(judge, judge_call_id(topic.name, judge if len(judges) > 1 else "")) for judge in judges]


def _votes(
    topic: Topic, judges: tuple[str, ...], *, replies: Mapping[str, str], answer: str, is_first: bool
) -> list[tuple[float, ...]]:
    """What each judge says to the criteria of a question; a judge without a verdict has no vote."""
    votes = []
    for _, call_id in _call_ids(topic, judges):
        texts = [replies[name] for name in (call_id, *(() if is_first else (call_id + AGAIN,))) if name in replies]
        read = [_values(topic, text, answer=answer, is_exact=is_first) for text in texts]
        votes.append(next(filter(None, read), ()) or (() if is_first else _salvaged(topic, texts, answer=answer)))
    return [tuple(1 - value for value in vote) if topic.is_turned else vote for vote in votes if vote]


def _values(topic: Topic, text: str, *, answer: str, is_exact: bool) -> tuple[float, ...]:
    found: tuple[Verdict, ...] | Verdict | Refusal
    if topic.is_list:
        found = read_verdicts(text, topic.shape, answer=answer, count=len(topic.marks))
    else:
        found = read_verdict(text, topic.shape, answer=answer)
    if isinstance(found, Refusal):
        return ()
    if isinstance(found, tuple):
        return tuple(verdict.value for verdict in found)
    is_number = not isinstance(topic.shape, WordShape)
    return (_said(text, topic.shape) if is_exact and is_number else found.value,)


def _said(text: str, shape: Shape) -> float:
    """The number of a verdict that can be read, before it is brought to tenths."""
    found = only_object(text)
    assert not isinstance(found, Refusal)
    return float(found[shape.value])


def _salvaged(topic: Topic, texts: list[str], *, answer: str) -> tuple[float, ...]:
    """What can be saved of two replies, as grading saves it; nothing of a list."""
    if topic.is_list or len(texts) < 2:
        return ()
    saved = salvaged_verdict(texts, topic.shape, answer=answer)
    return () if saved is None else (saved.value,)


def _settled(topic: Topic, votes: list[tuple[float, ...]]) -> Iterable[Mark]:
    if not votes:
        return topic.marks
    values = (median_low(vote[place] for vote in votes) for place in range(len(topic.marks)))
    return (msgspec.structs.replace(mark, value=value) for mark, value in zip(topic.marks, values, strict=True))
