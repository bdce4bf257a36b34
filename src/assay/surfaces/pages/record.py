"""One record: what was asked, what was answered, every vote, every attempt."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from assay import api
from assay.core.number_text import score_text
from assay.core.open_fields import grading_fields, question_fields, stored_case
from assay.presentation.sections import Badge, DisplayValue, Fact, Timestamp
from assay.presentation.subject import stage_word
from assay.presentation.words import DASH, NOT_PASSED, PASSED, domain, error_text, latency, level_name, moment, money, shown
from assay.surfaces.pages.page_renderer import PageLinks
from assay.surfaces.pages.records import score_figure, verdict_mark
from assay.surfaces.reporters.json_document import json_text

Json = dict[str, Any]
LONG = 4_000
"""Characters from which a text is folded; all of it is in the page."""
LONG_LINES = 60
BEGINNING = 600
"""Characters of a folded text that are shown before it is opened."""
Speaker = Literal["user", "assistant", "system", "tool"]


class TextBlock(msgspec.Struct, frozen=True, kw_only=True):
    """A text under a title."""

    title: str
    text: str
    is_code: bool = False
    note: str = ""

    @property
    def is_long(self) -> bool:
        """True when it is folded."""
        return len(self.text) > LONG or self.text.count("\n") > LONG_LINES

    @property
    def beginning(self) -> str:
        """What a folded text begins with."""
        return "\n".join(self.text[:BEGINNING].split("\n")[:8])

    @property
    def size(self) -> str:
        """How long it is."""
        return f"{len(self.text):,} characters"


class TurnView(msgspec.Struct, frozen=True, kw_only=True):
    """One turn of a conversation."""

    speaker: str
    kind: Speaker
    passages: tuple[TextBlock, ...]
    note: str = ""


class ChoiceView(msgspec.Struct, frozen=True, kw_only=True):
    """One option of a question."""

    id: str
    text: str
    marks: tuple[Badge, ...]


class VoteView(msgspec.Struct, frozen=True, kw_only=True):
    """What one judge says of one criterion."""

    judge: str
    mark: Badge
    justification: TextBlock
    note: str
    """How sure the judge was, and what had to be done to read it."""
    reply: TextBlock | None
    """What the judge said word by word."""


class CriterionView(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that judges looked for."""

    name: str
    title: str
    description: str
    weight: str
    mark: Badge | None
    words: str
    """How the votes became one."""
    votes: tuple[VoteView, ...]


class AttemptView(msgspec.Struct, frozen=True, kw_only=True):
    """One call that was made for the record."""

    number: int
    stage: str
    about: str
    """The criterion that it is about, where there are several."""
    model: str
    at: Timestamp | None
    round: int
    latency: DisplayValue
    outcome: Badge
    problem: str
    tokens: DisplayValue
    cost: DisplayValue
    passages: tuple[TextBlock, ...]
    facts: tuple[Fact, ...]


class SampleView(msgspec.Struct, frozen=True, kw_only=True):
    """One of several answers to the same record."""

    text: str
    address: str
    mark: Badge
    score: DisplayValue
    is_here: bool


class LabelView(msgspec.Struct, frozen=True, kw_only=True):
    """What a person says of the answer."""

    rater: str
    mark: Badge | None
    score: str
    note: str
    at: Timestamp | None


class RecordNavigation(msgspec.Struct, frozen=True, kw_only=True):
    """The way to the records beside this one."""

    text: str = ""
    """Where it stands among those of the list."""
    list_address: str
    previous_address: str = ""
    next_address: str = ""


class RecordView(msgspec.Struct, frozen=True, kw_only=True):
    """The page of one record."""

    run_id: str
    index: int
    name: str
    steps: RecordNavigation
    run_address: str
    json_address: str = ""
    verdict: Badge
    score: DisplayValue
    marks: tuple[Badge, ...] = ()
    facts: tuple[Fact, ...] = ()
    asked: tuple[TextBlock, ...] = ()
    thread: tuple[TurnView, ...] = ()
    choices: tuple[ChoiceView, ...] = ()
    expected: tuple[TextBlock, ...] = ()
    """Context, reference, notes: what stands beside the question."""
    answer: TextBlock | None = None
    problem: TextBlock | None = None
    """Reason for no grade."""
    reasons: TextBlock | None = None
    criteria: tuple[CriterionView, ...] = ()
    is_judged: bool = False
    """True when models voted; False for a grade by rule."""
    attempts: tuple[AttemptView, ...] = ()
    samples: tuple[SampleView, ...] = ()
    rest: tuple[TextBlock, ...] = ()
    """Metadata and members that have no place of their own."""
    labels: tuple[LabelView, ...] = ()
    label_address: str = ""
    """Where a label is sent; empty where none can be given."""
    scale: str = ""


def record_view(run_id: str, found: Json, steps: RecordNavigation, *, place: PageLinks, issues: Sequence[Json] = ()) -> RecordView:
    """Everything that is known of a record; `issues` are those of one that broke its contract."""
    if "failure" in found:
        return _broken(run_id, found["failure"], steps, place=place, issues=issues)
    asked, line, attempts = found["input"], found["prediction"], found["attempts"]
    return RecordView(
        run_id=run_id,
        index=line["index"],
        name=line["record_id"] or f"record {line['index']}",
        steps=steps,
        run_address=place.run(run_id),
        verdict=verdict_mark(line),
        score=score_figure(line),
        marks=tuple(Badge(flag.replace("_", " "), "quiet") for flag in dict.fromkeys(line["flags"])),
        facts=tuple(_facts(line, asked)),
        asked=tuple(_asked(asked)),
        thread=tuple(_thread(asked)),
        choices=tuple(_choices(asked, line)),
        expected=tuple(_expected(asked)),
        answer=None if line["model_response"] is None else TextBlock(title="Answer", text=line["model_response"]),
        problem=_problem(line),
        reasons=_reasons(line),
        criteria=tuple(_criteria(asked, line, attempts)),
        is_judged=any(score.get("judge") for score in line["evaluator_scores"]),
        attempts=tuple(map(_attempt, attempts)),
        samples=tuple(_sample(run_id, sample, line["index"], place=place) for sample in found.get("samples", ())),
        rest=tuple(_rest(asked)),
        scale=line["scale"] or "",
    )


def _broken(run_id: str, failure: Json, steps: RecordNavigation, *, place: PageLinks, issues: Sequence[Json]) -> RecordView:
    """A record that was never sent anywhere."""
    said = [f"{issue['path']}: {issue['message']} ({issue['code']})" for issue in issues] or [
        error_text(failure["code"], failure["message"])
    ]
    return RecordView(
        run_id=run_id,
        index=failure["index"],
        name=failure["record_id"] or f"record {failure['index']}",
        steps=steps,
        run_address=place.run(run_id),
        verdict=verdict_mark(failure),
        score=score_figure(failure),
        facts=(Fact("Index", f"{failure['index']:,}"), Fact("Error", failure["code"])),
        problem=TextBlock(title="What is wrong with it", text="\n".join(said)),
    )


def _facts(line: Json, asked: Json) -> Iterator[Fact]:
    candidate = line["candidate_name"]
    yield Fact("Candidate", candidate if line["model"] in ("", candidate) else f"{candidate} ({line['model']})")
    yield Fact("Dataset", line["dataset"])
    yield Fact("Task", str(asked.get("task", "")))
    named = {
        "Tags": ", ".join(asked.get("tags") or ()),
        "Graded by": " · ".join(filter(None, (line["evaluator"], line["template"], line["policy_id"]))),
        "Error": line["error_code"] or "",
        "Reason": "" if line["error_code"] else (line["label"] or "").replace("_", " "),
        "Ended with": line["finish_reason"] or "",
        "Latency": _latencies(line),
        "Tokens": _tokens(line),
        "Cost": "" if line["cost"] is None else money(line["cost"]).text,
        "Rounds": str(line["record_attempts"] or ""),
    }
    yield from (Fact(label, text) for label, text in named.items() if text)
    yield Fact("Index", f"{line['index']:,}")
    yield Fact("Record SHA-256", line["record_sha256"], is_hash=True)
    if line["response_sha256"]:
        yield Fact("Answer SHA-256", line["response_sha256"], is_hash=True)


def _latencies(line: Json) -> str:
    parts = {"candidate": line["latency_ms"], "grading": line["judge_latency_ms"], "in all": line["total_latency_ms"]}
    return " · ".join(f"{latency(value)} {name}" for name, value in parts.items() if value is not None)


def _tokens(line: Json) -> str:
    names = {"input_tokens": "in", "output_tokens": "out", "cached_tokens": "cached", "judge_tokens": "judges"}
    return " · ".join(f"{line[name]:,} {word}" for name, word in names.items() if line.get(name) is not None)


def _asked(asked: Json) -> Iterator[TextBlock]:
    messages = asked.get("messages") or ()
    prompt = asked.get("prompt") or ""
    if prompt and not (messages and messages[-1]["content"] == prompt):
        yield TextBlock(title="Prompt", text=prompt)


def _thread(asked: Json) -> Iterator[TurnView]:
    for message in asked.get("messages") or ():
        yield TurnView(
            speaker=message["role"], kind=_kind(message["role"]), passages=(TextBlock(title="", text=message["content"]),)
        )
    for turn in asked.get("turns") or ():
        yield from _turn(turn)


def _kind(speaker: str) -> Speaker:
    kinds: dict[str, Speaker] = {
        "assistant": "assistant",
        "system": "system",
        "tool": "tool",
        "agent": "assistant",
        "bot": "assistant",
    }
    return kinds.get(speaker.casefold(), "user")


def _turn(turn: Json) -> Iterator[TurnView]:
    """What was said in a turn, and what its tool was given and gave back."""
    number = f"turn {turn['turn_id']}"
    sure = turn.get("confidence_score")
    note = number if sure is None else f"{number} · confidence {sure:g}"
    if turn.get("message"):
        yield TurnView(
            speaker=turn["speaker"], kind=_kind(turn["speaker"]), passages=(TextBlock(title="", text=turn["message"]),), note=note
        )
    if turn.get("tool_used"):
        passages = (
            [TextBlock(title="Input", text=_pretty(turn["tool_input"]), is_code=True)] if turn.get("tool_input") is not None else []
        )
        if turn.get("has_tool_output") or turn.get("tool_output") is not None:
            passages.append(TextBlock(title="Output", text=_pretty(turn.get("tool_output")), is_code=True))
        yield TurnView(speaker=f"tool {turn['tool_used']}", kind="tool", passages=tuple(passages), note=number)
    if turn.get("assistant_reply"):
        yield TurnView(
            speaker="assistant", kind="assistant", passages=(TextBlock(title="", text=turn["assistant_reply"]),), note=note
        )
    beside = {**(turn.get("metadata") or {}), **(turn.get("extra") or {})}
    if beside:
        yield TurnView(
            speaker="recorded beside it",
            kind="system",
            passages=(TextBlock(title="", text=_pretty(beside), is_code=True),),
            note=number,
        )


def _choices(asked: Json, line: Json) -> Iterator[ChoiceView]:
    right, chosen = asked.get("correct_choice_ids") or (), line["selected_choice_ids"]
    for choice in asked.get("choices") or ():
        marks = [Badge("right", "good", "The correct choice in the dataset.")] if choice["id"] in right else []
        if choice["id"] in chosen:
            is_wrong = bool(right) and choice["id"] not in right
            marks.append(Badge("chosen", "bad" if is_wrong else "live" if not right else "good", "The candidate chose this."))
        yield ChoiceView(id=choice["id"], text=choice["text"], marks=tuple(marks))


def _expected(asked: Json) -> Iterator[TextBlock]:
    if asked.get("model_context"):
        yield TextBlock(title="Context", text=asked["model_context"])
    case = stored_case(asked)
    for field in () if case is None else question_fields(case):
        yield TextBlock(title=field.name, text=field.text)
    for field in () if case is None else grading_fields(case):
        yield TextBlock(title=field.name, text=field.text, note="only judges saw this")
    references = asked.get("references") or ()
    for number, reference in enumerate(references, 1):
        yield TextBlock(title="Reference" if len(references) == 1 else f"Reference {number}", text=reference)
    if _is_pair(asked) and asked.get("criteria"):
        yield TextBlock(title="Criteria", text="\n".join(map(_criterion_line, asked["criteria"])))
    if asked.get("notes"):
        yield TextBlock(title="Notes for people", text=asked["notes"], note="no model saw this")
    for attachment in asked.get("attachments") or ():
        words = [attachment.get("title") or "", attachment["path"], attachment.get("kind") or "", attachment.get("sha256") or ""]
        yield TextBlock(title="Attachment", text="\n".join(filter(None, words)))


def _is_pair(asked: Json) -> bool:
    """Two answers beside each other: criteria say what matters in both, and nobody votes on one of them."""
    return bool(asked.get("task") == "pairwise")


def _criterion_line(criterion: Json) -> str:
    words = (criterion.get("title") or criterion["id"], criterion.get("description") or "")
    return f"{': '.join(filter(None, words))} (weight {criterion.get('weight', 1.0):g})"


def _rest(asked: Json) -> Iterator[TextBlock]:
    for title, name in (("Metadata", "metadata"), ("Other members", "extra")):
        if asked.get(name):
            yield TextBlock(title=title, text=_pretty(asked[name]), is_code=True)


def _problem(line: Json) -> TextBlock | None:
    if not line["error_code"]:
        return None
    return TextBlock(title="Reason for no grade", text=error_text(line["error_code"], line["error_message"]))


def _reasons(line: Json) -> TextBlock | None:
    """Why the grade is as it is, where no vote says so."""
    is_said = any(score.get("justification") for score in line["evaluator_scores"])
    return None if is_said or not line["justification"] else TextBlock(title="Why", text=line["justification"])


def _criteria(asked: Json, line: Json, attempts: Sequence[Json]) -> Iterator[CriterionView]:
    """Every criterion with its votes; those that nobody voted on are there too."""
    known = {criterion["id"]: criterion for criterion in (() if _is_pair(asked) else asked.get("criteria") or ())}
    decided = {decision["criterion"]: decision for decision in line.get("panel") or ()}
    voted: dict[str, list[Json]] = {name: [] for name in known}
    for score in line["evaluator_scores"]:
        voted.setdefault(score["criterion"], []).append(score)
    for name, votes in voted.items():
        criterion, decision = known.get(name, {}), decided.get(name, {})
        weight = criterion.get("weight", votes[0].get("weight", 1.0) if votes else 1.0)
        yield CriterionView(
            name=name,
            title="" if criterion.get("title") == name else criterion.get("title") or "",
            description=criterion.get("description") or "",
            weight="" if weight == 1 and not known else f"weight {weight:g}",
            # Without a grade the votes decide nothing.
            mark=_vote_mark(_decided(votes[0], decision), weight) if votes and not line["error_code"] else None,
            words=_decision(decision, votes),
            votes=tuple(_vote(vote, weight, attempts) for vote in votes),
        )


def _decided(vote: Json, decision: Mapping[str, Any]) -> Json:
    """What counts of several votes, in the shape of one."""
    if "score" not in decision:
        return vote
    low, high = domain(vote["scale"])
    return {**vote, "score": decision["score"], "normalized": (decision["score"] - low) / (high - low)}


def _decision(decision: Mapping[str, Any], votes: Sequence[Json]) -> str:
    missing = ", ".join(decision.get("missing") or ())
    absent = f"no vote of {missing}" if missing else "" if votes else "No votes."
    return "; ".join(filter(None, (decision.get("words") or "", absent)))


def _vote_mark(vote: Json, weight: float) -> Badge:
    """Met or not, or the score; to meet a criterion that costs points is no good news."""
    if vote["scale"] != "0/1":
        return Badge(f"{level_name(vote['score'])} on {vote['scale']}", "quiet", f"{score_text(vote['normalized'])} of 1")
    is_met = vote["score"] >= 1
    return Badge("met" if is_met else "not met", "good" if is_met == (weight >= 0) else "bad")


def _vote(vote: Json, weight: float, attempts: Sequence[Json]) -> VoteView:
    sure = vote.get("confidence")
    flags = [flag.replace("_", " ") for flag in vote.get("flags") or ()]
    reply = _reply(vote, attempts)
    return VoteView(
        judge=vote.get("judge") or "by rule",
        mark=_vote_mark(vote, weight),
        justification=TextBlock(title="", text=vote.get("justification") or ""),
        note=" · ".join([*([] if sure is None else [f"confidence {sure:g}"]), *flags]),
        reply=None if reply is None else TextBlock(title="Raw reply", text=reply, is_code=True),
    )


def _reply(vote: Json, attempts: Sequence[Json]) -> str | None:
    """The last reply of the vote's judge, about the criterion where it was asked about each."""
    judge = vote.get("judge")
    said = [attempt for attempt in attempts if attempt["stage"] == "judge" and attempt["model"] == judge and attempt["response"]]
    about = f"judge:{vote['criterion']}"
    named = [
        attempt for attempt in said if attempt["call_id"] == about or attempt["call_id"].startswith((f"{about}@", f"{about}:"))
    ]
    return next((attempt["response"] for attempt in reversed(named or said)), None)


def _attempt(attempt: Json) -> AttemptView:
    texts = {"What came back": attempt["response"], "Whole body": attempt["raw"]}
    passages = [TextBlock(title=title, text=text, is_code=True) for title, text in texts.items() if text]
    if attempt["applied"]:
        passages.append(TextBlock(title="Parameters as sent", text=_pretty(attempt["applied"]), is_code=True))
    return AttemptView(
        number=attempt["attempt"],
        stage=stage_word(attempt),
        about=attempt["call_id"].removeprefix(stage_word(attempt)).lstrip(":").partition("@")[0],
        model=attempt["model"],
        at=moment(attempt["at"]),
        round=attempt["record_attempt"],
        latency=DisplayValue(shown(latency(attempt["latency_ms"])), "Duration of the call; none if no model was called."),
        outcome=_outcome(attempt),
        problem=attempt["error_message"] or "",
        tokens=DisplayValue(_tokens(attempt) or DASH, "Tokens as the provider counts them."),
        cost=DisplayValue(DASH, "No price is known.") if attempt["cost"] is None else money(attempt["cost"]),
        passages=tuple(passages),
        facts=tuple(_attempt_facts(attempt)),
    )


def _outcome(attempt: Json) -> Badge:
    status = "" if attempt["http_status"] is None else f" {attempt['http_status']}"
    if attempt["error_code"]:
        return Badge(f"{attempt['error_code']}{status}", "bad", attempt["error_message"] or "")
    given = next((flag for flag in ("prefilled", "cached", "replayed") if flag in attempt["flags"]), "")
    return Badge(given or f"answered{status}", "quiet" if given else "good", "No model was called for this." if given else "")


def _attempt_facts(attempt: Json) -> Iterator[Fact]:
    named = {
        "Call": attempt["call_id"],
        "Answered by": attempt["answered_by"] or "",
        "Ended with": attempt["finish_reason"] or "",
        "Flags": ", ".join(attempt["flags"]),
        "Told to wait": "" if attempt["retry_after"] is None else f"{attempt['retry_after']:g} s",
        "Waited": "" if attempt["wait_s"] is None else f"{attempt['wait_s']:g} s",
        "Request id": attempt["request_id"] or "",
    }
    yield from (Fact(label, text) for label, text in named.items() if text)
    for label, name in (("Request SHA-256", "request_sha256"), ("Reply SHA-256", "response_sha256")):
        if attempt[name]:
            yield Fact(label, attempt[name], is_hash=True)


def _sample(run_id: str, sample: Json, index: int, *, place: PageLinks) -> SampleView:
    return SampleView(
        text=f"answer {sample['sample']}",
        address=place.record(run_id, sample["index"]),
        mark=verdict_mark(sample),
        score=score_figure(sample),
        is_here=sample["index"] == index,
    )


def label_view(label: api.KeptLabel) -> LabelView:
    """What a person said, as it is shown."""
    verdicts = {True: Badge(PASSED, "good"), False: Badge(NOT_PASSED, "bad"), None: None}
    return LabelView(
        rater=label.rater,
        mark=verdicts[label.passed],
        score="" if label.score is None else f"{label.score:g}",
        note=label.note,
        at=moment(label.at),
    )


def _pretty(value: Any) -> str:
    return json_text(value, indent=2)
