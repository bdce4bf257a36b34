"""What a run decides about grading, the same for all its cases."""

import msgspec


class GradingSettings(msgspec.Struct, frozen=True):
    """Who answers, who judges, and what is enough to pass."""

    candidate: str
    """Name of the plan's model that answers."""
    judges: tuple[str, ...] = ()
    """Names of the plan's models that judge; several of them are a panel."""
    system_prompt: str = ""
    """Sent to the candidate where neither the case nor its policy has one of its own."""
    pass_threshold: float = 0.7
    """A score of 0..1 from which a case passes."""
    case_pass_score: int = 4
    """A score of 1..5 from which a case passes."""
