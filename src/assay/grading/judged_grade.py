"""The grade from the judges' results: every method with judges ends here."""

from assay.core.outcome import FailureLabel, Grade
from assay.grading.assignment import Assignment
from assay.grading.injection_check import suspicion_flags
from assay.grading.panel import PanelResult, normalized, panel_decisions, panel_flags, panel_reasons


def judged_grade(
    assignment: Assignment,
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
    return assignment.signed(grade)
