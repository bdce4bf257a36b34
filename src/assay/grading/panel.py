"""Questions to one judge or to a panel: every vote kept, the majority or the median counts, and a tie is said to be one."""

from collections.abc import Generator, Sequence

import msgspec

from assay.core.ask import Ask, Reply
from assay.core.outcome import Decision, FailureLabel, GradingFailure, Score
from assay.grading.judge_call import ASKED_AGAIN, Answer, JudgeCall, Manner, Part, Question
from assay.grading.settings import GradingSettings
from assay.grading.verdict import SALVAGED, Verdict

Asking = Generator[tuple[Ask, ...], tuple[Reply, ...], None]
Judging = Generator[tuple[Ask, ...], tuple[Reply, ...], tuple["Ruling", ...]]
Bench = list[JudgeCall]
"""The calls to all judges who were asked one question."""
NO_QUORUM = "judge_quorum"
"""Code of a record on which too few judges voted."""
DISAGREE = "judges_disagree"
TIED = "judges_tied"
ESCALATED = "escalated"
VOTE_LOST = "vote_lost"
NEAR = 0.1
"""How far from the pass mark a score of tenths is still unsure."""
_TOLERANCE = 1e-9


class Ruling(msgspec.Struct, frozen=True, kw_only=True):
    """What the judges together say to one criterion."""

    value: float
    """The middle vote, the lower one of two; so a tie on a criterion is not met."""
    votes: tuple[Verdict, ...]
    scores: tuple[Score, ...]
    decision: Decision

    @property
    def is_lone(self) -> bool:
        """True when one judge was asked and has voted, so that there was nothing to decide."""
        return len(self.votes) == 1 and not self.decision.missing

    @property
    def is_split(self) -> bool:
        """True when not all judges say the same."""
        return len(self.votes) > 1 and len({vote.value for vote in self.votes}) > 1


def ask_judges(questions: tuple[Question, ...], settings: GradingSettings, *, answer: Answer) -> Judging:
    """Every question to every judge, or to the first one and to the others where it is unsure.

    Raises GradingFailure when a judge gives no verdict even when asked again, unless enough others vote.
    """
    judges, panel = settings.judges, settings.panel
    if not judges:
        raise GradingFailure("judge_missing", "the case needs a judge and the run has none")
    escalates = panel.escalate and len(judges) > 1
    manner = Manner(is_panel=len(judges) > 1, may_fail=len(judges) > 1)
    # The others can decide without one of them only where the run says how many are enough.
    needs_all = panel.quorum is None or panel.quorum >= len(judges)
    alone = msgspec.structs.replace(manner, is_confident=True) if escalates else manner
    asked = judges[:1] if escalates else judges
    benches = [[JudgeCall(question, judge, answer=answer, manner=alone) for judge in asked] for question in questions]
    yield from _hear_all([call for bench in benches for call in bench])
    if needs_all:
        _check_none_lost(benches)
    if escalates:
        unsure = [bench for bench in benches if _is_unsure(bench[0], settings)]
        for bench in unsure:
            bench += [JudgeCall(bench[0].question, judge, answer=answer, manner=manner) for judge in judges[1:]]
        yield from _hear_all([call for bench in unsure for call in bench[1:]])
        if needs_all:
            _check_none_lost(benches)
    try:
        return tuple(ruling for bench in benches for ruling in _rulings(bench, settings))
    except GradingFailure as failure:
        failure.scores = _kept_scores(benches)
        raise


def _hear_all(calls: Bench) -> Asking:
    """Ask side by side, and once more those whose reply cannot be used."""
    if not calls:
        return
    replies = yield tuple(call.ask() for call in calls)
    for call, reply in zip(calls, replies, strict=True):
        call.hear(reply)
    refused = [call for call in calls if not call.verdicts and not call.lost]
    if refused:
        replies = yield tuple(call.ask_again() for call in refused)
        for call, reply in zip(refused, replies, strict=True):
            call.hear_again(reply)


def _check_none_lost(benches: Sequence[Bench]) -> None:
    """Raises GradingFailure when a judge gave no vote; it names that judge, and keeps the votes of the others."""
    lost = [call for bench in benches for call in bench if call.lost]
    if lost:
        label: FailureLabel = "timeout_or_latency_exceeded" if lost[0].lost_code == "timeout" else "other"
        raise GradingFailure(lost[0].lost_code, _lost_words(lost), label=label, scores=_kept_scores(benches))


def _lost_words(calls: Bench) -> str:
    return "; ".join(dict.fromkeys(f"judge {call.judge}: {call.lost}" for call in calls if call.lost))


def _kept_scores(benches: Sequence[Bench]) -> tuple[Score, ...]:
    """The votes that there are, of a panel that came to no decision."""
    voting = [call for bench in benches for call in bench if call.verdicts]
    return tuple(
        _score(part, vote, call=call)
        for call in voting
        for part, vote in zip(_parts(call.question), call.verdicts, strict=True)
        if call.manner.is_panel
    )


def _parts(question: Question) -> tuple[Part, ...]:
    return question.parts or (Part(question.criterion, question.weight),)


def _is_unsure(call: JudgeCall, settings: GradingSettings) -> bool:
    """A vote that others should join: none, one that was hard to get, one near the pass mark, or one without confidence."""
    return not call.verdicts or any(_is_doubtful(verdict, call, settings) for verdict in call.verdicts)


def _is_doubtful(verdict: Verdict, call: JudgeCall, settings: GradingSettings) -> bool:
    if ASKED_AGAIN in verdict.flags or SALVAGED in verdict.flags:
        return True
    if verdict.confidence is None or verdict.confidence < settings.panel.min_confidence:
        return True
    match call.question.shape.scale:
        case "1-5":
            return verdict.value == settings.case_pass_score - 1
        case "0-1":
            return abs(verdict.value - settings.pass_threshold) <= NEAR + _TOLERANCE
        case _:
            return False


def _rulings(bench: Bench, settings: GradingSettings) -> list[Ruling]:
    """What the judges of one question say, criterion by criterion; raises GradingFailure when too few of them say anything."""
    voting = [call for call in bench if call.verdicts]
    wanted = min(settings.panel.quorum or len(bench), len(bench))
    if len(voting) < wanted:
        lost = _lost_words(bench)
        said = f"{len(voting)} of {len(bench)} judges voted on '{bench[0].question.criterion}', {wanted} must"
        raise GradingFailure(NO_QUORUM, f"{said}; {lost}")
    question = bench[0].question
    missing = tuple(call.judge for call in bench if not call.verdicts)
    is_escalated = settings.panel.escalate and len(bench) > 1
    return [
        _ruling(part, number, voting, missing=missing, is_escalated=is_escalated) for number, part in enumerate(_parts(question))
    ]


def _ruling(part: Part, number: int, voting: Bench, *, missing: tuple[str, ...], is_escalated: bool) -> Ruling:
    votes = tuple(call.verdicts[number] for call in voting)
    scores = tuple(_score(part, vote, call=call) for call, vote in zip(voting, votes, strict=True))
    if len(votes) == 1 and not missing:
        return Ruling(
            value=votes[0].value, votes=votes, scores=scores, decision=Decision(criterion=part.criterion, score=votes[0].value)
        )
    values = sorted(vote.value for vote in votes)
    scale = voting[0].question.shape.scale
    decision = Decision(
        criterion=part.criterion,
        score=values[(len(values) - 1) // 2],
        spread=normalized(values[-1], scale=scale) - normalized(values[0], scale=scale),
        is_tied=_is_tied(values),
        is_escalated=is_escalated,
        missing=missing,
        words=_words(values, scale=scale, missing=len(missing)),
    )
    return Ruling(value=decision.score, votes=votes, scores=scores, decision=decision)


def _is_tied(values: Sequence[float]) -> bool:
    """The two votes in the middle are not the same."""
    return len(values) % 2 == 0 and values[len(values) // 2 - 1] != values[len(values) // 2]


def _words(values: Sequence[float], *, scale: str, missing: int) -> str:
    """How sorted votes were decided; empty where all judges say the same."""
    lost = f"; {missing} more gave no vote" if missing else ""
    if values[0] == values[-1]:
        said = "there is one vote" if len(values) == 1 else f"{len(values)} judges say the same"
        return f"{said}{lost}" if lost else ""
    if scale == "0/1":
        met = sum(value == 1 for value in values)
        tie = "; a tie counts as not met" if _is_tied(values) else ""
        return f"{met} of {len(values)} judges say met{tie}{lost}"
    said = ", ".join(f"{value:g}" for value in values)
    counts = "a tie: of the two middle votes the lower one counts" if _is_tied(values) else "the middle vote counts"
    return f"judges say {said}; {counts}{lost}"


def _score(part: Part, vote: Verdict, *, call: JudgeCall) -> Score:
    scale = call.question.shape.scale
    return Score(
        criterion=part.criterion,
        score=vote.value,
        scale=scale,
        normalized=normalized(vote.value, scale=scale),
        weight=part.weight,
        justification=vote.reason,
        judge=call.judge,
        confidence=vote.confidence if call.manner.is_confident else None,
        flags=vote.flags,
    )


def normalized(value: float, *, scale: str) -> float:
    """A score of its scale as 0..1."""
    return (value - 1) / 4 if scale == "1-5" else value


def panel_flags(rulings: tuple[Ruling, ...]) -> tuple[str, ...]:
    """What happened on the way to the rulings, each thing once."""
    raised = [flag for ruling in rulings for vote in ruling.votes for flag in vote.flags]
    decided = [ruling for ruling in rulings if not ruling.is_lone]
    return tuple(dict.fromkeys(raised + _marks(decided) if decided else raised))


def _marks(rulings: Sequence[Ruling]) -> list[str]:
    decisions = [ruling.decision for ruling in rulings]
    marked = {
        DISAGREE: any(ruling.is_split for ruling in rulings),
        TIED: any(decision.is_tied for decision in decisions),
        ESCALATED: any(decision.is_escalated for decision in decisions),
        VOTE_LOST: any(decision.missing for decision in decisions),
    }
    return [flag for flag, is_raised in marked.items() if is_raised]


def panel_decisions(rulings: tuple[Ruling, ...]) -> tuple[Decision, ...]:
    """The decisions that there is something to say about: judges differ, or did not all vote, or were called in."""
    decisions = (ruling.decision for ruling in rulings)
    return tuple(decision for decision in decisions if decision.words or decision.is_escalated)


def panel_reasons(rulings: tuple[Ruling, ...]) -> str:
    """One judge's words on one question as they are; otherwise each with what it is about, after how votes were decided."""
    scores = [score for ruling in rulings for score in ruling.scores]
    if len(scores) == 1 and not rulings[0].decision.words:
        return scores[0].justification
    is_alone = len({score.judge for score in scores}) == 1 and not any(ruling.decision.words for ruling in rulings)
    return "\n".join(line for ruling in rulings for line in _lines(ruling, is_alone=is_alone))


def _lines(ruling: Ruling, *, is_alone: bool) -> list[str]:
    words = ruling.decision.words
    head = [f"{ruling.decision.criterion}: {words}."] if words else []
    return head + [
        f"{score.criterion}{'' if is_alone else f' ({score.judge})'}: {score.score:g}. {score.justification}"
        for score in ruling.scores
    ]


def proposed_label(rulings: tuple[Ruling, ...]) -> FailureLabel:
    """What the judge of the lowest score thinks is mainly wrong; empty where no judge says anything."""
    votes = sorted((vote for ruling in rulings for vote in ruling.votes), key=lambda vote: vote.value)
    return next((vote.label for vote in votes if vote.label), "")
