"""The words for gates: met or missed, and what a comparison with a baseline adds to that."""

from typing import Any

MET = "MET"
MISSED = "MISSED"
NO_RESULT = "NO RESULT"
"""Neither: nothing could be graded, or the run was cancelled."""
NOTE = "NOTE"
"""A reason that is worth knowing and decides nothing."""
BASELINE = "against the baseline"
"""Part of every reason that is about the difference from a baseline."""


def gate_word(*, passed: bool) -> str:
    """What became of a gate."""
    return MET if passed else MISSED


def change_word(verdict: Any) -> str:
    """` · regression` or ` · improved` where a comparison with a baseline shows it; else empty."""
    words = {finding.word for finding in verdict.reasons if BASELINE in finding.reason}
    return next((f" · {word.lower()}" for word in ("REGRESSION", "IMPROVED") if word in words), "")


def finding_word(finding: Any) -> str:
    """MISSED for a reason that keeps the gate from being met, NOTE for one that is only worth knowing; else MET."""
    if finding.is_failure:
        return MISSED
    return NOTE if finding.word == "WARNING" else MET
