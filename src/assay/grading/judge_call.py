"""Judge calls: the question, its prompt, and the reply with one more attempt."""

import hashlib

import msgspec

from assay.core.case import Message
from assay.core.model_call import FailedReply, ModelRequest, Reply, failure_words
from assay.core.outcome import CriterionResult
from assay.grading.templates import ASK_AGAIN, CONFIDENCE, Template, fill, load_template
from assay.grading.verdict import (
    JsonSchema,
    ReplySchema,
    UnusableReply,
    Verdict,
    confident_schema,
    list_schema,
    read_verdict,
    read_verdicts,
    reply_schema,
    salvaged_verdict,
)


class ReplySpec(msgspec.Struct, frozen=True, kw_only=True):
    """One question to every judge."""

    name: str
    """Part of the call's id."""
    shape: ReplySchema
    marks: tuple[CriterionResult, ...]
    """Results of the criteria that a reply decides, without values."""
    is_list: bool = False
    """True if the reply is a list with one verdict per criterion."""
    is_swapped: bool = False
    """True if the two answers were swapped, so that a verdict for the first is one for the second."""


def criterion_spec(criterion: str, shape: ReplySchema, *, weight: float = 1.0) -> ReplySpec:
    """Build the specification of a question about one criterion, after which it is named."""
    return ReplySpec(name=criterion, shape=shape, marks=(empty_result(criterion, shape, weight=weight),))


def empty_result(criterion: str, shape: ReplySchema, *, weight: float) -> CriterionResult:
    """Build a result that has no value yet."""
    return CriterionResult(criterion=criterion, value=None, scale=shape.scale, weight=weight)


ASKED_AGAIN = "asked_again"
AGAIN = ":again"
"""Suffix of the id of a call that repeats a question."""
# 64 bits: enough that no text contains a mark by chance.
_MARK_LENGTH = 16


class RubricPart(msgspec.Struct, frozen=True):
    """One of several criteria that a single reply decides."""

    criterion: str
    weight: float = 1.0


class CustomPrompt(msgspec.Struct, frozen=True):
    """A prompt of the user around the texts of a record."""

    pieces: tuple[str, ...]
    """Its own text and the names of placeholders, in turn."""
    member: str
    """Member of the reply that decides."""
    words: str
    """Values that it may have."""


class JudgeQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """One question about one answer, for every judge."""

    criterion: str
    """Criterion to decide; part of the call's id."""
    template_id: str
    blocks: dict[str, str]
    """Texts by the template's slots; an empty text leaves its block out."""
    shape: ReplySchema
    weight: float = 1.0
    parts: tuple[RubricPart, ...] = ()
    """Criteria, in order, that the reply has one verdict each for; empty for one verdict on `criterion`."""
    prompt: CustomPrompt | None = None
    """The user's prompt, which the texts are put into."""


class CandidateAnswer(msgspec.Struct, frozen=True):
    """Candidate's text and the record that it belongs to."""

    text: str
    record_sha256: str


class JudgeCallOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of one call to a judge."""

    is_panel: bool = False
    """One of several judges, so that the call id includes its name."""
    may_fail: bool = False
    """If this call fails, the other judges' votes are kept and may decide."""
    is_confident: bool = False
    """True if the judge is also asked for its confidence."""


class JudgeCall:
    """State of one question to one judge."""

    def __init__(self, question: JudgeQuestion, judge: str, *, answer: CandidateAnswer, options: JudgeCallOptions) -> None:
        self.question = question
        self.judge = judge
        self.answer = answer
        self.options = options
        self.call_id = judge_call_id(question.criterion, judge if options.is_panel else "")
        self.texts: list[str] = []
        # The state is in the object and not in the generator, because all judges are asked in parallel.
        self.refusal = UnusableReply("")
        self.verdicts: tuple[Verdict, ...] = ()
        self.lost = ""
        """Reason why there is no verdict, once no attempt is left."""
        # The code of batch_v1's taxonomy for a judge that cannot be read; a failed call replaces it by its own.
        self.lost_code = "judge_parse_error"

    def ask(self) -> ModelRequest:
        """Build the request."""
        return ModelRequest(
            stage="judge",
            call_id=self.call_id,
            model=self.judge,
            messages=self._messages(),
            # Providers that enforce a schema make second requests rare; the reply is read just as strictly in any case.
            reply_schema=self._schema(),
            may_fail=self.options.may_fail,
        )

    def _messages(self) -> tuple[Message, Message]:
        system, user = judge_messages(self.question, self.answer, call_id=self.call_id)
        if not self.options.is_confident:
            return system, user
        where = "each object of the list" if self.question.parts else "the object"
        return system, Message("user", user.content + fill(load_template(CONFIDENCE).text.rstrip("\n"), {"where": where}))

    def _schema(self) -> JsonSchema:
        question = self.question
        if self.options.is_confident:
            return confident_schema(question.shape, is_list=bool(question.parts))
        return list_schema(question.shape) if question.parts else reply_schema(question.shape)

    def ask_again(self) -> ModelRequest:
        """Build the second request, with the reason why the first reply was unusable."""
        first = self.ask()
        system, user = first.messages
        reminder = fill(load_template(ASK_AGAIN).text.rstrip("\n"), {"reason": self.refusal.reason})
        messages = (system, Message("user", user.content + reminder))
        # Fresh: the cache must not repeat a reply that could not be used.
        return msgspec.structs.replace(first, call_id=self.call_id + AGAIN, messages=messages, is_fresh=True)

    def accept_reply(self, reply: Reply) -> None:
        """Read a reply into verdicts, a reason to ask again, or a final failure."""
        # In a panel the others may decide without this judge; alone, the driver has ended the record before.
        if isinstance(reply, FailedReply):
            self.lost, self.lost_code = failure_words(reply.code, reply.message, attempts=reply.attempts), reply.code
            return
        self.texts.append(reply.text)
        read = self._read(reply.text)
        if isinstance(read, UnusableReply):
            self.refusal = read
        else:
            self.verdicts = read

    def _read(self, text: str) -> tuple[Verdict, ...] | UnusableReply:
        question = self.question
        if question.parts:
            return read_verdicts(text, question.shape, answer=self.answer.text, count=len(question.parts))
        read = read_verdict(text, question.shape, answer=self.answer.text)
        return read if isinstance(read, UnusableReply) else (read,)

    def accept_second_reply(self, reply: Reply) -> None:
        """Read the second reply; there is no third request."""
        self.accept_reply(reply)
        verdicts = self.verdicts or self._salvaged()
        self.verdicts = tuple(msgspec.structs.replace(verdict, flags=(ASKED_AGAIN, *verdict.flags)) for verdict in verdicts)
        if not verdicts:
            self.lost = self.lost or f"no verdict on '{self.question.criterion}', twice: {self.refusal.reason}"

    def _salvaged(self) -> tuple[Verdict, ...]:
        """Salvage a verdict from the two replies; half a list is not used."""
        # Half a list would grade some criteria and not the others.
        if self.question.parts or self.lost:
            return ()
        saved = salvaged_verdict(self.texts, self.question.shape, answer=self.answer.text)
        return () if saved is None else (saved,)


def judge_messages(question: JudgeQuestion, answer: CandidateAnswer, *, call_id: str) -> tuple[Message, Message]:
    """Build the judge's prompt; each foreign text is in a block between marks that the text cannot contain."""
    blocks = {**question.blocks, "answer": answer.text}
    # An answer may contain instructions to the judge. They stay recognizable because it cannot write the end of its block.
    mark = _mark(answer, call_id, texts=tuple(blocks.values()))
    if question.prompt is not None:
        return _custom_messages(question.prompt, blocks, template=load_template(question.template_id), mark=mark)
    slots = {name: _block(name, text, mark=mark) for name, text in blocks.items()}
    if not answer.text:
        slots["answer"] = _block("answer", "(the answer is empty)", mark=mark)
    template = load_template(question.template_id)
    # Our own text with one slot: a replaced value cannot contain another slot.
    return Message("system", template.system.replace("{{mark}}", mark)), Message("user", fill(template.user, slots))


def _custom_messages(prompt: CustomPrompt, blocks: dict[str, str], *, template: Template, mark: str) -> tuple[Message, Message]:
    """Fill a prompt of the user in one pass, so that a text that looks like a placeholder stays what it is."""
    pieces = list(prompt.pieces)
    for place in range(1, len(pieces), 2):
        name, text = pieces[place], blocks[pieces[place]]
        is_alone = pieces[place - 1][-1:] in ("", "\n") and pieces[place + 1][:1] in ("", "\n", "\r")
        space = "\n" if is_alone or "\n" in text else " "
        pieces[place] = f"[{mark} {name} begins]{space}{text or '(the answer is empty)'}{space}[{mark} {name} ends]"
    slots = {"prompt": "".join(pieces).rstrip(), "member": prompt.member, "words": prompt.words}
    return Message("system", template.system.replace("{{mark}}", mark)), Message("user", fill(template.user, slots))


def _block(name: str, text: str, *, mark: str) -> str:
    return f"[{mark} {name} begins]\n{text}\n[{mark} {name} ends]\n\n" if text else ""


def _mark(answer: CandidateAnswer, call_id: str, *, texts: tuple[str, ...]) -> str:
    """Derive a code that differs from call to call, and is the same when a call is repeated."""
    # The mark depends on the answer, so no answer can contain its own mark and end its block early.
    # The same for the same call, so that a resumed run finds the judge's reply by the hash of its request.
    seed = "\0".join((answer.record_sha256, call_id, answer.text))
    while True:
        seed = hashlib.sha256(seed.encode("utf-8", "replace")).hexdigest()
        mark = seed[:_MARK_LENGTH]
        # Records and references are not trusted either: one that happens to contain the mark needs another mark.
        if not any(mark in text for text in texts):
            return mark


def judge_call_id(criterion: str, judge: str = "") -> str:
    """Build the id of a call about a criterion; it names the judge only in a panel."""
    return f"judge:{escape_call_id(criterion)}" + (f"@{escape_call_id(judge)}" if judge else "")


def escape_call_id(name: str) -> str:
    """Escape the characters that structure a call id."""
    # Ids of criteria come from the dataset: one that contains `@` must not look like a call to another judge.
    return name.replace("%", "%25").replace(":", "%3A").replace("@", "%40")
