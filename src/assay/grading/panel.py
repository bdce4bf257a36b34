"""Questions to one or several judges: asked side by side, asked again once, every vote kept."""

import hashlib
from collections.abc import Generator
from typing import Any

import msgspec

from assay.core.ask import Ask, Reply
from assay.core.case import Message
from assay.core.outcome import FailureLabel, GradingFailure, Score
from assay.grading.reply_object import Refusal
from assay.grading.templates import fill, load_template
from assay.grading.verdict import Shape, Verdict, list_schema, read_verdict, read_verdicts, reply_schema, salvaged_verdict

Judging = Generator[tuple[Ask, ...], tuple[Reply, ...], tuple["Finding", ...]]
ASKED_AGAIN = "asked_again"
AGAIN = ":again"
"""Ends the id of a call that repeats a question."""
DISAGREE = "judges_disagree"
_MARK_LENGTH = 16


class Part(msgspec.Struct, frozen=True):
    """One of several criteria that a reply decides on together."""

    criterion: str
    weight: float = 1.0


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to ask every judge about one answer."""

    criterion: str
    """What is decided on; names the call."""
    template_id: str
    blocks: dict[str, str]
    """Texts by the template's slots; an empty text leaves its block out."""
    shape: Shape
    weight: float = 1.0
    parts: tuple[Part, ...] = ()
    """Criteria that the reply has a verdict on each, in this order; empty where it is one verdict on `criterion`."""


class Answer(msgspec.Struct, frozen=True):
    """The candidate's text and the record that it belongs to."""

    text: str
    record_sha256: str


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What the judges together say to one criterion."""

    value: float
    """The middle vote, the lower one of two; so a tie on a criterion is not met."""
    votes: tuple[Verdict, ...]
    scores: tuple[Score, ...]

    @property
    def is_split(self) -> bool:
        """True when not all judges say the same."""
        return len(self.votes) > 1 and len({vote.value for vote in self.votes}) > 1


def ask_judges(questions: tuple[Question, ...], judges: tuple[str, ...], *, answer: Answer) -> Judging:
    """Every question to every judge; raises GradingFailure when a judge gives no verdict even when asked again."""
    if not judges:
        raise GradingFailure("judge_missing", "the case needs a judge and the run has none")
    calls = [_Call(question, judge, answer, is_panel=len(judges) > 1) for question in questions for judge in judges]
    replies = yield tuple(call.ask() for call in calls)
    for call, reply in zip(calls, replies, strict=True):
        call.hear(reply)
    refused = [call for call in calls if not call.verdicts]
    if refused:
        replies = yield tuple(call.ask_again() for call in refused)
        for call, reply in zip(refused, replies, strict=True):
            call.hear_again(reply)
    size = len(judges)
    return tuple(finding for start in range(0, len(calls), size) for finding in _findings(calls[start : start + size]))


class _Call:
    """One question to one judge while it is being answered."""

    def __init__(self, question: Question, judge: str, answer: Answer, *, is_panel: bool) -> None:
        self.question = question
        self.judge = judge
        self.answer = answer
        self.call_id = judge_call_id(question.criterion, judge if is_panel else "")
        self.texts: list[str] = []
        self.refusal = Refusal("")
        self.verdicts: tuple[Verdict, ...] = ()

    def ask(self) -> Ask:
        return Ask(
            stage="judge",
            call_id=self.call_id,
            model=self.judge,
            messages=judge_messages(self.question, self.answer, call_id=self.call_id),
            reply_schema=self._schema(),
        )

    def _schema(self) -> dict[str, Any]:
        question = self.question
        return list_schema(question.shape) if question.parts else reply_schema(question.shape)

    def ask_again(self) -> Ask:
        first = self.ask()
        system, user = first.messages
        reminder = fill(load_template("ask_again/1").text.rstrip("\n"), {"reason": self.refusal.reason})
        messages = (system, Message("user", user.content + reminder))
        return msgspec.structs.replace(first, call_id=self.call_id + AGAIN, messages=messages, is_fresh=True)

    def hear(self, reply: Reply) -> None:
        self.texts.append(reply.text)
        read = self._read(reply.text)
        if isinstance(read, Refusal):
            self.refusal = read
        else:
            self.verdicts = read

    def _read(self, text: str) -> tuple[Verdict, ...] | Refusal:
        question = self.question
        if question.parts:
            return read_verdicts(text, question.shape, answer=self.answer.text, count=len(question.parts))
        read = read_verdict(text, question.shape, answer=self.answer.text)
        return read if isinstance(read, Refusal) else (read,)

    def hear_again(self, reply: Reply) -> None:
        self.hear(reply)
        verdicts = self.verdicts or self._salvaged()
        if not verdicts:
            raise GradingFailure(
                "judge_parse_error", f"{self.call_id}: {self.judge!r} gave no verdict, twice: {self.refusal.reason}"
            )
        self.verdicts = tuple(msgspec.structs.replace(verdict, flags=(ASKED_AGAIN, *verdict.flags)) for verdict in verdicts)

    def _salvaged(self) -> tuple[Verdict, ...]:
        """What can be saved of the two replies; of half a list, nothing."""
        if self.question.parts:
            return ()
        saved = salvaged_verdict(self.texts, self.question.shape, answer=self.answer.text)
        return () if saved is None else (saved,)


def judge_messages(question: Question, answer: Answer, *, call_id: str) -> tuple[Message, Message]:
    """The judge's prompt; every text that is not ours stands in a block between marks that the text cannot contain."""
    blocks = {**question.blocks, "answer": answer.text}
    mark = _mark(answer, call_id, texts=tuple(blocks.values()))
    slots = {name: _block(name, text, mark=mark) for name, text in blocks.items()}
    if not answer.text:
        slots["answer"] = _block("answer", "(the answer is empty)", mark=mark)
    template = load_template(question.template_id)
    # Our own text with one slot: no filling can hold another.
    return Message("system", template.system.replace("{{mark}}", mark)), Message("user", fill(template.user, slots))


def _block(name: str, text: str, *, mark: str) -> str:
    return f"[{mark} {name} begins]\n{text}\n[{mark} {name} ends]\n\n" if text else ""


def _mark(answer: Answer, call_id: str, *, texts: tuple[str, ...]) -> str:
    """A code that differs from call to call and is the same whenever the same call is made again."""
    seed = "\0".join((answer.record_sha256, call_id, answer.text))
    while True:
        seed = hashlib.sha256(seed.encode("utf-8", "replace")).hexdigest()
        mark = seed[:_MARK_LENGTH]
        if not any(mark in text for text in texts):
            return mark


def judge_call_id(criterion: str, judge: str = "") -> str:
    """What the call about a criterion is called; the judge has a part in it only where there are several."""
    return f"judge:{_quoted(criterion)}" + (f"@{_quoted(judge)}" if judge else "")


def _quoted(name: str) -> str:
    """A name without the characters that structure a call id."""
    return name.replace("%", "%25").replace(":", "%3A").replace("@", "%40")


def _findings(calls: list[_Call]) -> list[Finding]:
    """What the judges of one question say, criterion by criterion."""
    question = calls[0].question
    parts = question.parts or (Part(question.criterion, question.weight),)
    return [_finding(part, number, calls=calls) for number, part in enumerate(parts)]


def _finding(part: Part, number: int, *, calls: list[_Call]) -> Finding:
    votes = tuple(call.verdicts[number] for call in calls)
    scores = tuple(_score(part, vote, call=call) for call, vote in zip(calls, votes, strict=True))
    # The lower one of the two in the middle, so that it is a value that a judge gave.
    median = votes[0].value if len(votes) == 1 else sorted(vote.value for vote in votes)[(len(votes) - 1) // 2]
    return Finding(value=median, votes=votes, scores=scores)


def _score(part: Part, vote: Verdict, *, call: _Call) -> Score:
    scale = call.question.shape.scale
    return Score(
        criterion=part.criterion,
        score=vote.value,
        scale=scale,
        normalized=normalized(vote.value, scale=scale),
        weight=part.weight,
        justification=vote.reason,
        judge=call.judge,
        flags=vote.flags,
    )


def normalized(value: float, *, scale: str) -> float:
    """A score of its scale as 0..1."""
    return (value - 1) / 4 if scale == "1-5" else value


def panel_flags(findings: tuple[Finding, ...]) -> tuple[str, ...]:
    """What happened on the way to the findings, each thing once."""
    raised = [flag for finding in findings for vote in finding.votes for flag in vote.flags]
    if any(finding.is_split for finding in findings):
        raised.append(DISAGREE)
    return tuple(dict.fromkeys(raised))


def panel_reasons(findings: tuple[Finding, ...]) -> str:
    """One judge's words on one question as they are; otherwise each with what it is about."""
    scores = [score for finding in findings for score in finding.scores]
    if len(scores) == 1:
        return scores[0].justification
    return "\n".join(f"{score.criterion} ({score.judge}): {score.score:g}. {score.justification}" for score in scores)


def proposed_label(findings: tuple[Finding, ...]) -> FailureLabel:
    """What the judge of the lowest score thinks is mainly wrong; empty where no judge says anything."""
    votes = sorted((vote for finding in findings for vote in finding.votes), key=lambda vote: vote.value)
    return next((vote.label for vote in votes if vote.label), "")
