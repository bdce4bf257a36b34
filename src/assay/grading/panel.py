"""Questions to one judge or a panel: every vote is kept, the majority or the median decides, and ties are marked."""

from collections.abc import Generator, Sequence

import msgspec

from assay.core.model_call import ModelRequest, Reply
from assay.core.outcome import FailureLabel, Grade, GradingFailure, PanelDecision, Score
from assay.grading.answer_text import suspicion_flags
from assay.grading.assignment import GradingAssignment, GradingSettings
from assay.grading.judge_call import ASKED_AGAIN, CandidateAnswer, JudgeCall, JudgeCallOptions, JudgeQuestion, RubricPart
from assay.grading.verdict import SALVAGED, Verdict

CallRounds = Generator[tuple[ModelRequest, ...], tuple[Reply, ...], None]
PanelFlow = Generator[tuple[ModelRequest, ...], tuple[Reply, ...], tuple["PanelResult", ...]]
JudgeCalls = list[JudgeCall]
"""Calls to all judges for one question."""
NO_QUORUM = "judge_quorum"
"""Failure code of a record on which too few judges voted."""
DISAGREE = "judges_disagree"
TIED = "judges_tied"
ESCALATED = "escalated"
VOTE_LOST = "vote_lost"
# One step of the scale: the judge could as well have given the score on the other side.
NEAR = 0.1
"""Distance from the pass threshold within which a score in tenths counts as unsure."""
_TOLERANCE = 1e-9


class PanelResult(msgspec.Struct, frozen=True, kw_only=True):
    """Judges' combined result on one criterion."""

    value: float
    """Median vote, the lower one of two; so a tie on a criterion is not met."""
    votes: tuple[Verdict, ...]
    scores: tuple[Score, ...]
    decision: PanelDecision

    @property
    def is_lone(self) -> bool:
        """Return whether the only judge has voted, so that there was nothing to decide."""
        return len(self.votes) == 1 and not self.decision.missing

    @property
    def is_split(self) -> bool:
        """Return whether the judges' votes differ."""
        return len(self.votes) > 1 and len({vote.value for vote in self.votes}) > 1


def ask_judges(questions: tuple[JudgeQuestion, ...], settings: GradingSettings, *, answer: CandidateAnswer) -> PanelFlow:
    """Ask every judge every question, or the first judge only and the others when it is unsure.

    Raises GradingFailure when a judge gives no verdict even when asked again, unless enough others vote.
    """
    # One judge is a panel of one, so that there is a single path for both; its calls keep the ids they had without a panel.
    judges, panel = settings.judges, settings.panel
    if not judges:
        raise GradingFailure("judge_missing", "the case needs a judge and the run has none")
    escalates = panel.escalate and len(judges) > 1
    options = JudgeCallOptions(is_panel=len(judges) > 1, may_fail=len(judges) > 1)
    # Without a quorum in the plan, every judge must vote.
    needs_all = panel.quorum is None or panel.quorum >= len(judges)
    # Judges that are called in are not asked for their confidence: nothing is decided by it any more.
    alone = msgspec.structs.replace(options, is_confident=True) if escalates else options
    asked = judges[:1] if escalates else judges
    calls_per_question = [[JudgeCall(question, judge, answer=answer, options=alone) for judge in asked] for question in questions]
    yield from _collect_replies([call for calls in calls_per_question for call in calls])
    if needs_all:
        _check_none_lost(calls_per_question)
    if escalates:
        unsure = [calls for calls in calls_per_question if _is_unsure(calls[0], settings)]
        for calls in unsure:
            calls += [JudgeCall(calls[0].question, judge, answer=answer, options=options) for judge in judges[1:]]
        # All unsure questions in one round, so that escalation adds one wait to a record and not one for each criterion.
        yield from _collect_replies([call for calls in unsure for call in calls[1:]])
        if needs_all:
            _check_none_lost(calls_per_question)
    try:
        return tuple(result for calls in calls_per_question for result in _combine_votes(calls, settings))
    except GradingFailure as failure:
        # The votes were paid for, and tell what the others thought.
        failure.scores = _collect_scores(calls_per_question)
        raise


def _collect_replies(calls: JudgeCalls) -> CallRounds:
    """Send all calls in parallel, and repeat those with an unusable reply once."""
    if not calls:
        return
    # One yield for all calls: the driver sends the requests of a round in parallel.
    replies = yield tuple(call.ask() for call in calls)
    for call, reply in zip(calls, replies, strict=True):
        call.accept_reply(reply)
    refused = [call for call in calls if not call.verdicts and not call.lost]
    if refused:
        replies = yield tuple(call.ask_again() for call in refused)
        for call, reply in zip(refused, replies, strict=True):
            call.accept_second_reply(reply)


def _check_none_lost(calls_per_question: Sequence[JudgeCalls]) -> None:
    """Raise GradingFailure when a judge gave no vote; it names that judge, and keeps the votes of the others."""
    lost = [call for calls in calls_per_question for call in calls if call.lost]
    if lost:
        label: FailureLabel = "timeout_or_latency_exceeded" if lost[0].lost_code == "timeout" else "other"
        raise GradingFailure(lost[0].lost_code, _loss_text(lost), label=label, scores=_collect_scores(calls_per_question))


def _loss_text(calls: JudgeCalls) -> str:
    return "; ".join(dict.fromkeys(f"judge {call.judge}: {call.lost}" for call in calls if call.lost))


def _collect_scores(calls_per_question: Sequence[JudgeCalls]) -> tuple[Score, ...]:
    """Collect the votes of a panel that came to no decision."""
    voting = [call for calls in calls_per_question for call in calls if call.verdicts]
    return tuple(
        _score(part, vote, call=call)
        for call in voting
        for part, vote in zip(_parts(call.question), call.verdicts, strict=True)
        if call.options.is_panel
    )


def _parts(question: JudgeQuestion) -> tuple[RubricPart, ...]:
    return question.parts or (RubricPart(question.criterion, question.weight),)


def _is_unsure(call: JudgeCall, settings: GradingSettings) -> bool:
    """Return whether other judges should vote too: no vote, a salvaged one, one near the threshold, or one without confidence."""
    return not call.verdicts or any(_is_doubtful(verdict, call, settings) for verdict in call.verdicts)


def _is_doubtful(verdict: Verdict, call: JudgeCall, settings: GradingSettings) -> bool:
    # A reply that had to be repaired is weaker evidence, regardless of its stated confidence.
    if ASKED_AGAIN in verdict.flags or SALVAGED in verdict.flags:
        return True
    # A missing confidence is not certainty: a judge that ignores the question must not decide alone.
    if verdict.confidence is None or verdict.confidence < settings.panel.min_confidence:
        return True
    match call.question.shape.scale:
        case "1-5":
            return verdict.value == settings.case_pass_score - 1
        case "0-1":
            # Tenths are not exact in binary: 0.8 - 0.7 is a little more than 0.1.
            return abs(verdict.value - settings.pass_threshold) <= NEAR + _TOLERANCE
        case _:
            return False


def _combine_votes(calls: JudgeCalls, settings: GradingSettings) -> list[PanelResult]:
    """Combine the judges' votes on one question, criterion by criterion; raises GradingFailure when too few have voted."""
    voting = [call for call in calls if call.verdicts]
    # Before escalation only one judge was asked, and a quorum of two cannot apply to it.
    wanted = min(settings.panel.quorum or len(calls), len(calls))
    if len(voting) < wanted:
        lost = _loss_text(calls)
        summary = f"{len(voting)} of {len(calls)} judges voted on '{calls[0].question.criterion}', {wanted} must"
        raise GradingFailure(NO_QUORUM, f"{summary}; {lost}")
    question = calls[0].question
    missing = tuple(call.judge for call in calls if not call.verdicts)
    is_escalated = settings.panel.escalate and len(calls) > 1
    return [
        _combine(part, number, voting, missing=missing, is_escalated=is_escalated) for number, part in enumerate(_parts(question))
    ]


def _combine(part: RubricPart, number: int, voting: JudgeCalls, *, missing: tuple[str, ...], is_escalated: bool) -> PanelResult:
    votes = tuple(call.verdicts[number] for call in voting)
    scores = tuple(_score(part, vote, call=call) for call, vote in zip(voting, votes, strict=True))
    if len(votes) == 1 and not missing:
        return PanelResult(
            value=votes[0].value, votes=votes, scores=scores, decision=PanelDecision(criterion=part.criterion, score=votes[0].value)
        )
    # Median and not mean: one judge that is off the mark must not move the score, and the result is a value of the scale.
    values = sorted(vote.value for vote in votes)
    scale = voting[0].question.shape.scale
    decision = PanelDecision(
        criterion=part.criterion,
        # The lower of two middle votes: a tie never counts in favour of the answer.
        score=values[(len(values) - 1) // 2],
        spread=normalized(values[-1], scale=scale) - normalized(values[0], scale=scale),
        is_tied=_is_tied(values),
        is_escalated=is_escalated,
        missing=missing,
        words=_decision_text(values, scale=scale, missing=len(missing)),
    )
    return PanelResult(value=decision.score, votes=votes, scores=scores, decision=decision)


def _is_tied(values: Sequence[float]) -> bool:
    """Return whether the two middle votes differ."""
    return len(values) % 2 == 0 and values[len(values) // 2 - 1] != values[len(values) // 2]


def _decision_text(values: Sequence[float], *, scale: str, missing: int) -> str:
    """Describe how sorted votes were decided; empty when all judges agree."""
    lost = f"; {missing} more gave no vote" if missing else ""
    if values[0] == values[-1]:
        summary = "there is one vote" if len(values) == 1 else f"{len(values)} judges say the same"
        return f"{summary}{lost}" if lost else ""
    if scale == "0/1":
        met = sum(value == 1 for value in values)
        tie = "; a tie counts as not met" if _is_tied(values) else ""
        return f"{met} of {len(values)} judges say met{tie}{lost}"
    summary = ", ".join(f"{value:g}" for value in values)
    counts = "a tie: of the two middle votes the lower one counts" if _is_tied(values) else "the middle vote counts"
    return f"judges say {summary}; {counts}{lost}"


def _score(part: RubricPart, vote: Verdict, *, call: JudgeCall) -> Score:
    scale = call.question.shape.scale
    return Score(
        criterion=part.criterion,
        score=vote.value,
        scale=scale,
        normalized=normalized(vote.value, scale=scale),
        weight=part.weight,
        justification=vote.reason,
        judge=call.judge,
        confidence=vote.confidence if call.options.is_confident else None,
        flags=vote.flags,
    )


def normalized(value: float, *, scale: str) -> float:
    """Normalize a score of a scale to 0..1."""
    # 1 is the worst score of its scale and maps to 0; otherwise the two scales could not be compared.
    return (value - 1) / 4 if scale == "1-5" else value


def panel_flags(results: tuple[PanelResult, ...]) -> tuple[str, ...]:
    """Collect the flags of votes and decisions, each once."""
    raised = [flag for result in results for vote in result.votes for flag in vote.flags]
    decided = [result for result in results if not result.is_lone]
    return tuple(dict.fromkeys(raised + _decision_flags(decided) if decided else raised))


def _decision_flags(results: Sequence[PanelResult]) -> list[str]:
    decisions = [result.decision for result in results]
    is_set = {
        DISAGREE: any(result.is_split for result in results),
        TIED: any(decision.is_tied for decision in decisions),
        ESCALATED: any(decision.is_escalated for decision in decisions),
        VOTE_LOST: any(decision.missing for decision in decisions),
    }
    return [flag for flag, is_raised in is_set.items() if is_raised]


def panel_decisions(results: tuple[PanelResult, ...]) -> tuple[PanelDecision, ...]:
    """List the decisions worth reporting: judges differ, did not all vote, or were called in."""
    decisions = (result.decision for result in results)
    return tuple(decision for decision in decisions if decision.words or decision.is_escalated)


def panel_reasons(results: tuple[PanelResult, ...]) -> str:
    """Return a lone judge's reason unchanged; otherwise list each vote with its criterion, after how votes were decided."""
    scores = [score for result in results for score in result.scores]
    if len(scores) == 1 and not results[0].decision.words:
        return scores[0].justification
    is_alone = len({score.judge for score in scores}) == 1 and not any(result.decision.words for result in results)
    return "\n".join(line for result in results for line in _lines(result, is_alone=is_alone))


def _lines(result: PanelResult, *, is_alone: bool) -> list[str]:
    words = result.decision.words
    head = [f"{result.decision.criterion}: {words}."] if words else []
    return head + [
        f"{score.criterion}{'' if is_alone else f' ({score.judge})'}: {score.score:g}. {score.justification}"
        for score in result.scores
    ]


def proposed_label(results: tuple[PanelResult, ...]) -> FailureLabel:
    """Return the failure label of the lowest vote that has one; empty without any."""
    votes = sorted((vote for result in results for vote in result.votes), key=lambda vote: vote.value)
    return next((vote.label for vote in votes if vote.label), "")


def judged_grade(
    assignment: GradingAssignment,
    answer: str,
    *,
    results: tuple[PanelResult, ...],
    raw_score: float,
    passed: bool,
    label: FailureLabel,
) -> Grade:
    """Build the grade with all votes, the judges' reasons, and the panel's decisions."""
    scale = assignment.method.scale
    grade = Grade(
        score=normalized(raw_score, scale=scale),
        passed=passed,
        answer=answer,
        raw_score=raw_score,
        scale=scale,
        scores=tuple(score for result in results for score in result.scores),
        justification=panel_reasons(results),
        label=label,
        panel=panel_decisions(results),
        flags=(*panel_flags(results), *suspicion_flags(answer)),
    )
    return assignment.sign(grade)
