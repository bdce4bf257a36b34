"""Pairwise comparison: every judge sees two answers in both orders, and only an answer preferred in both wins."""

from collections import Counter
from typing import Literal

import msgspec

from assay.core.case import Case
from assay.core.outcome import Flow, Grade, PanelDecision, Score
from assay.grading.answer_text import suspicion_flags
from assay.grading.assignment import GradingAssignment, GradingMethod
from assay.grading.candidate import context_text, criteria_text, grading_text, reference_text, task_text
from assay.grading.judge_call import CandidateAnswer, JudgeQuestion, ReplySpec, criterion_spec
from assay.grading.panel import PanelResult, ask_judges, panel_flags
from assay.grading.verdict import WINNER

IN_ORDER = "in_order"
"""Name of the question that shows the first answer first."""
SWAPPED = "swapped"
"""Name of the question that shows the second answer first; its scores are inverted, so that 1 is always for the first."""
INCONSISTENT = "inconsistent"
"""Flag of a comparison without a winner because the two orders, or the judges, disagree."""
Result = Literal["first", "second", "tie", "inconsistent"]
_RESULTS: dict[float, Result] = {1.0: "first", 0.5: "tie", 0.0: "second"}
# An inconsistent comparison counts as half a win for each: leaving it out would leave out the close ones.
_SCORES: dict[Result, float] = {"first": 1.0, "second": 0.0, "tie": 0.5, "inconsistent": 0.5}
TEMPLATE = "judge_pairwise/1"
WITH_GRADING = "judge_pairwise/2"
"""Template for records whose authors give graders more than criteria and a reference."""
_EMPTY = "(the answer is empty)"


def grade_pairwise(assignment: GradingAssignment) -> Flow:
    """Ask every judge twice which of the case's two choices is better; no candidate is called.

    The score is 1 if the first answer won, 0 if the second did, and 0.5 otherwise; the case passes if the comparison was
    decided, even as a tie. A judge without a verdict in one of the orders leaves the case without a grade.
    """
    case = assignment.case
    texts = tuple(choice.text for choice in case.choices)
    # Judges prefer a position. Only a verdict that survives the swap is about the answers.
    questions = (_question(case, IN_ORDER, texts=texts), _question(case, SWAPPED, texts=texts[::-1]))
    # Both texts together, for checking whether a judge only repeats what it was shown.
    answer = CandidateAnswer("\n\n".join(texts), case.record_sha256)
    panel_results = yield from ask_judges(questions, assignment.settings, answer=answer)
    scores = (*panel_results[0].scores, *map(_inverted, panel_results[1].scores))
    result = pairwise_winner(tuple(by_judge(scores).values()))
    grade = Grade(
        score=_SCORES[result],
        passed=result != "inconsistent",
        answer="",
        raw_score=_SCORES[result],
        scale="0-1",
        scores=scores,
        justification=_reasons(scores, result),
        label="other" if result == "inconsistent" else "",
        panel=tuple(_decision(panel_result, scores) for panel_result in panel_results if panel_result.is_split),
        flags=_flags(case, panel_results, result=result),
    )
    return assignment.sign(grade)


def by_judge(scores: tuple[Score, ...]) -> dict[str, Result]:
    """Combine both verdicts of each judge."""
    votes: dict[str, list[float]] = {}
    for score in scores:
        votes.setdefault(score.judge, []).append(score.score)
    return {judge: _RESULTS[values[0]] if len(set(values)) == 1 else "inconsistent" for judge, values in votes.items()}


def pairwise_winner(results: tuple[Result, ...]) -> Result:
    """Return the result of more than half of the judges; without such a majority there is no winner."""
    result, count = Counter(results).most_common(1)[0]
    # More than half of all judges, including those without a side.
    return result if 2 * count > len(results) else "inconsistent"


def _question(case: Case, name: str, *, texts: tuple[str, ...]) -> JudgeQuestion:
    first, second = (text or _EMPTY for text in texts)
    grading = grading_text(case)
    return JudgeQuestion(
        criterion=name,
        template_id=WITH_GRADING if grading else TEMPLATE,
        blocks={
            "task": task_text(case),
            "context": context_text(case),
            "criteria": criteria_text(case),
            "reference": reference_text(case),
            "first": first,
            "second": second,
            **({"grading": grading} if grading else {}),
        },
        shape=WINNER,
    )


def _inverted(score: Score) -> Score:
    """Invert a verdict on swapped answers."""
    return msgspec.structs.replace(score, score=1 - score.score, normalized=1 - score.normalized)


def _decision(panel_result: PanelResult, scores: tuple[Score, ...]) -> PanelDecision:
    name = panel_result.decision.criterion
    values = sorted(score.score for score in scores if score.criterion == name)
    middle, votes = values[(len(values) - 1) // 2], Counter(map(_RESULTS.__getitem__, values))
    words = ", ".join(f"{votes[result]} {result}" for result in ("first", "tie", "second") if votes[result])
    return msgspec.structs.replace(
        panel_result.decision,
        score=middle,
        words=f"of {len(values)} judges {words}; a win takes more than half of them, in both orders",
    )


def _reasons(scores: tuple[Score, ...], result: Result) -> str:
    # These words are stored in artifacts; another wording would make equal runs differ.
    outcome = {
        "first": "the first answer won",
        "second": "the second answer won",
        "tie": "a tie",
        INCONSISTENT: "neither answer won",
    }[result]
    lines = (f"{score.criterion} ({score.judge}): {_RESULTS[score.score]}. {score.justification}" for score in scores)
    return "\n".join((f"{outcome}.", *lines))


def _flags(case: Case, panel_results: tuple[PanelResult, ...], *, result: Result) -> tuple[str, ...]:
    suspicions = (flag for choice in case.choices for flag in suspicion_flags(choice.text))
    raised = (*panel_flags(panel_results), *suspicions)
    return tuple(dict.fromkeys((*raised, INCONSISTENT) if result == "inconsistent" else raised))


def _topics(*_: object) -> tuple[ReplySpec, ...]:
    return criterion_spec(IN_ORDER, WINNER), msgspec.structs.replace(criterion_spec(SWAPPED, WINNER), is_swapped=True)


METHOD = GradingMethod(
    about="two answers to one task",
    flow=grade_pairwise,
    names=lambda assignment: ("judge_pairwise/1", WITH_GRADING if grading_text(assignment.case) else TEMPLATE),
    evaluators=("judge_pairwise/1",),
    needs_judge=True,
    scale="0-1",
    topics=_topics,
)
