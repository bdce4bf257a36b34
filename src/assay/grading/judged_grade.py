"""What judges found as a grade: every way of grading by judges ends here."""

from assay.core.outcome import FailureLabel, Grade
from assay.grading.assignment import Assignment
from assay.grading.panel import Ruling, normalized, panel_decisions, panel_flags, panel_reasons
from assay.grading.suspicion import suspicion_flags


def judged_grade(
    assignment: Assignment, answer: str, *, rulings: tuple[Ruling, ...], raw_score: float, passed: bool, label: FailureLabel
) -> Grade:
    """The grade with all votes, the judges' words, and how they came to decide."""
    scale = assignment.way.scale
    grade = Grade(
        score=normalized(raw_score, scale=scale),
        passed=passed,
        answer=answer,
        raw_score=raw_score,
        scale=scale,
        scores=tuple(score for ruling in rulings for score in ruling.scores),
        justification=panel_reasons(rulings),
        label=label,
        panel=panel_decisions(rulings),
        flags=(*panel_flags(rulings), *suspicion_flags(answer)),
    )
    return assignment.signed(grade)
