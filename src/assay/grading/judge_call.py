"""One question to one judge: the request, the reply, once more with the reason where it cannot be used."""

import hashlib
from typing import Any

import msgspec

from assay.core.ask import Ask, Lost, Reply, failure_words
from assay.core.case import Message
from assay.grading.reply_object import Refusal
from assay.grading.templates import ASK_AGAIN, CONFIDENCE, fill, load_template
from assay.grading.verdict import (
    Shape,
    Verdict,
    confident_schema,
    list_schema,
    read_verdict,
    read_verdicts,
    reply_schema,
    salvaged_verdict,
)

ASKED_AGAIN = "asked_again"
AGAIN = ":again"
"""Ends the id of a call that repeats a question."""
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


class Manner(msgspec.Struct, frozen=True, kw_only=True):
    """How a judge is asked."""

    is_panel: bool = False
    """It is one of several, so that the call bears its name."""
    may_fail: bool = False
    """When it is lost, the votes of the others are kept, and may decide."""
    is_confident: bool = False
    """It is asked how sure it is."""


class JudgeCall:
    """One question to one judge while it is being answered."""

    def __init__(self, question: Question, judge: str, *, answer: Answer, manner: Manner) -> None:
        self.question = question
        self.judge = judge
        self.answer = answer
        self.manner = manner
        self.call_id = judge_call_id(question.criterion, judge if manner.is_panel else "")
        self.texts: list[str] = []
        self.refusal = Refusal("")
        self.verdicts: tuple[Verdict, ...] = ()
        self.lost = ""
        """Why there is no verdict, when nothing is left to be tried."""
        self.lost_code = "judge_parse_error"

    def ask(self) -> Ask:
        """The request."""
        return Ask(
            stage="judge",
            call_id=self.call_id,
            model=self.judge,
            messages=self._messages(),
            reply_schema=self._schema(),
            may_fail=self.manner.may_fail,
        )

    def _messages(self) -> tuple[Message, Message]:
        system, user = judge_messages(self.question, self.answer, call_id=self.call_id)
        if not self.manner.is_confident:
            return system, user
        where = "each object of the list" if self.question.parts else "the object"
        return system, Message("user", user.content + fill(load_template(CONFIDENCE).text.rstrip("\n"), {"where": where}))

    def _schema(self) -> dict[str, Any]:
        question = self.question
        if self.manner.is_confident:
            return confident_schema(question.shape, is_list=bool(question.parts))
        return list_schema(question.shape) if question.parts else reply_schema(question.shape)

    def ask_again(self) -> Ask:
        """The request once more, with what was wrong with the reply."""
        first = self.ask()
        system, user = first.messages
        reminder = fill(load_template(ASK_AGAIN).text.rstrip("\n"), {"reason": self.refusal.reason})
        messages = (system, Message("user", user.content + reminder))
        return msgspec.structs.replace(first, call_id=self.call_id + AGAIN, messages=messages, is_fresh=True)

    def hear(self, reply: Reply) -> None:
        """Take the reply: there are verdicts now, or a reason to ask again, or none will come."""
        if isinstance(reply, Lost):
            self.lost, self.lost_code = failure_words(reply.code, reply.message, attempts=reply.attempts), reply.code
            return
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
        """Take the second reply, after which nothing more is asked."""
        self.hear(reply)
        verdicts = self.verdicts or self._salvaged()
        self.verdicts = tuple(msgspec.structs.replace(verdict, flags=(ASKED_AGAIN, *verdict.flags)) for verdict in verdicts)
        if not verdicts:
            self.lost = self.lost or f"no verdict on '{self.question.criterion}', twice: {self.refusal.reason}"

    def _salvaged(self) -> tuple[Verdict, ...]:
        """What can be saved of the two replies; of half a list, nothing."""
        if self.question.parts or self.lost:
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
    return f"judge:{quoted(criterion)}" + (f"@{quoted(judge)}" if judge else "")


def quoted(name: str) -> str:
    """A name without the characters that structure a call id."""
    return name.replace("%", "%25").replace(":", "%3A").replace("@", "%40")
