"""What judges found as a grade: every way of grading by judges ends here."""

from assay.core.outcome import FailureLabel, Grade
from assay.grading.assignment import Assignment
from assay.grading.panel import Finding, normalized, panel_decisions, panel_flags, panel_reasons
from assay.grading.suspicion import suspicion_flags


def judged_grade(
    assignment: Assignment, answer: str, *, findings: tuple[Finding, ...], raw_score: float, passed: bool, label: FailureLabel
) -> Grade:
    """The grade with all votes, the judges' words, and how they came to decide."""
    scale = assignment.way.scale
    grade = Grade(
        score=normalized(raw_score, scale=scale),
        passed=passed,
        answer=answer,
        raw_score=raw_score,
        scale=scale,
        scores=tuple(score for finding in findings for score in finding.scores),
        justification=panel_reasons(findings),
        label=label,
        panel=panel_decisions(findings),
        flags=(*panel_flags(findings), *suspicion_flags(answer)),
    )
    return assignment.signed(grade)
