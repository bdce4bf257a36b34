"""The words for gates: met or missed, and what a comparison with a baseline adds to that."""

from typing import Any

MET = "MET"
MISSED = "MISSED"


def gate_word(*, passed: bool) -> str:
    """What became of a gate."""
    return MET if passed else MISSED


def change_word(verdict: Any) -> str:
    """` · regression`, ` · warning`, ` · improved`; empty where a verdict or a suite says no more than met."""
    return "" if verdict.word == "PASS" else f" · {verdict.word.lower()}"


def finding_word(finding: Any) -> str:
    """MISSED for a reason that keeps the gate from being met; else MET, WARNING or IMPROVED."""
    if finding.is_failure:
        return MISSED
    return MET if finding.word == "PASS" else str(finding.word)
