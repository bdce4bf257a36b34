"""Two answers to one task, shown to every judge in both orders: only who wins in both has won."""

from collections import Counter
from typing import Literal

import msgspec

from assay.core.case import Case
from assay.core.outcome import Decision, Flow, Grade, Score
from assay.grading.assignment import Assignment, Way
from assay.grading.judge_call import Answer, Question
from assay.grading.panel import Ruling, ask_judges, panel_flags
from assay.grading.suspicion import suspicion_flags
from assay.grading.topic import Topic, topic_on
from assay.grading.transcript import context_text, criteria_text, grading_text, reference_text, task_text
from assay.grading.verdict import WINNER

IN_ORDER = "in_order"
"""Names the question that shows the first answer first."""
SWAPPED = "swapped"
"""Names the question that shows the second answer first; its scores are turned round, so that 1 is always for the first."""
INCONSISTENT = "inconsistent"
"""Flag of a comparison that nobody won because the two orders, or the judges, do not agree."""
Result = Literal["first", "second", "tie", "inconsistent"]
_RESULTS: dict[float, Result] = {1.0: "first", 0.5: "tie", 0.0: "second"}
_SCORES: dict[Result, float] = {"first": 1.0, "second": 0.0, "tie": 0.5, "inconsistent": 0.5}
TEMPLATE = "judge_pairwise/1"
WITH_GRADING = "judge_pairwise/2"
"""For a record whose author wrote more for graders than criteria and a reference."""
_EMPTY = "(the answer is empty)"


def grade_pairwise(assignment: Assignment) -> Flow:
    """Asks every judge twice which of the case's two choices is better; nobody is asked for an answer.

    The score is 1 where the first answer won, 0 where the second did, and 0.5 where nobody has; it passes where the comparison
    was decided, be it as a tie. A judge that gives no verdict in one of the orders leaves the case without a grade.
    """
    case = assignment.case
    texts = tuple(choice.text for choice in case.choices)
    questions = (_question(case, IN_ORDER, shown=texts), _question(case, SWAPPED, shown=texts[::-1]))
    answer = Answer("\n\n".join(texts), case.record_sha256)
    rulings = yield from ask_judges(questions, assignment.settings, answer=answer)
    scores = (*rulings[0].scores, *map(_turned, rulings[1].scores))
    result = decided(tuple(by_judge(scores).values()))
    grade = Grade(
        score=_SCORES[result],
        passed=result != "inconsistent",
        answer="",
        raw_score=_SCORES[result],
        scale="0-1",
        scores=scores,
        justification=_reasons(scores, result),
        label="other" if result == "inconsistent" else "",
        panel=tuple(_decision(ruling, scores) for ruling in rulings if ruling.is_split),
        flags=_flags(case, rulings, result=result),
    )
    return assignment.signed(grade)


def by_judge(scores: tuple[Score, ...]) -> dict[str, Result]:
    """What each judge says when both of its verdicts are taken together."""
    said: dict[str, list[float]] = {}
    for score in scores:
        said.setdefault(score.judge, []).append(score.score)
    return {judge: _RESULTS[values[0]] if len(set(values)) == 1 else "inconsistent" for judge, values in said.items()}


def decided(results: tuple[Result, ...]) -> Result:
    """What more than half of the judges say; where there is no such thing, nobody has won."""
    result, count = Counter(results).most_common(1)[0]
    return result if 2 * count > len(results) else "inconsistent"


def _question(case: Case, name: str, *, shown: tuple[str, ...]) -> Question:
    first, second = (text or _EMPTY for text in shown)
    grading = grading_text(case)
    return Question(
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


def _turned(score: Score) -> Score:
    """A verdict on swapped answers as one on the answers in their order."""
    return msgspec.structs.replace(score, score=1 - score.score, normalized=1 - score.normalized)


def _decision(ruling: Ruling, scores: tuple[Score, ...]) -> Decision:
    name = ruling.decision.criterion
    values = sorted(score.score for score in scores if score.criterion == name)
    middle, said = values[(len(values) - 1) // 2], Counter(map(_RESULTS.__getitem__, values))
    words = ", ".join(f"{said[result]} {result}" for result in ("first", "tie", "second") if said[result])
    return msgspec.structs.replace(
        ruling.decision, score=middle, words=f"of {len(values)} judges {words}; a win takes more than half of them, in both orders"
    )


def _reasons(scores: tuple[Score, ...], result: Result) -> str:
    won = {"first": "the first answer won", "second": "the second answer won", "tie": "a tie", INCONSISTENT: "nobody won"}[result]
    lines = (f"{score.criterion} ({score.judge}): {_RESULTS[score.score]}. {score.justification}" for score in scores)
    return "\n".join((f"{won}.", *lines))


def _flags(case: Case, rulings: tuple[Ruling, ...], *, result: Result) -> tuple[str, ...]:
    suspicions = (flag for choice in case.choices for flag in suspicion_flags(choice.text))
    raised = (*panel_flags(rulings), *suspicions)
    return tuple(dict.fromkeys((*raised, INCONSISTENT) if result == "inconsistent" else raised))


def _topics(*_: object) -> tuple[Topic, ...]:
    return topic_on(IN_ORDER, WINNER), msgspec.structs.replace(topic_on(SWAPPED, WINNER), is_turned=True)


WAY = Way(
    about="two answers to one task",
    flow=grade_pairwise,
    names=lambda assignment: ("judge_pairwise/1", WITH_GRADING if grading_text(assignment.case) else TEMPLATE),
    evaluators=("judge_pairwise/1",),
    needs_judge=True,
    scale="0-1",
    topics=_topics,
)
