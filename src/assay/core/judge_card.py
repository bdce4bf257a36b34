"""A judge card: how one judge behaved under every probe, and whether that is sound."""

from typing import Any, Literal

import msgspec

Soundness = Literal["pass", "warn", "fail", "not_enough_evidence", "not_tried"]
ProbeId = Literal["retest", "discernment", "stray", "empty", "length", "injection", "reference", "position", "family"]


class ProbeResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one probe found."""

    id: ProbeId
    verdict: Soundness
    words: str
    """The finding in a sentence."""
    expectation: str
    """What a sound judge does."""
    n: int = 0
    """Answers, or pairs of them, with every judgment that the probe needs."""
    slips: int = 0
    """How many of them a sound judge would have decided otherwise."""
    rate: float | None = None
    low: float | None = None
    """The 95 % interval of the rate (Wilson)."""
    high: float | None = None
    tolerance: float | None = None
    """The rate of slips that is still sound; None where rises are weighed against falls."""
    p_value: float | None = None
    """How likely so much is, or more, of a judge that is sound."""
    failed: dict[str, int] = {}
    """Judgments that the judge did not deliver, by code: they are no verdicts and count in no rate."""
    seen: tuple[str, ...] = ()
    """Ids of the first records with a slip."""


class JudgeCard(msgspec.Struct, frozen=True, kw_only=True):
    """One judge, how it was probed, and what came out."""

    judge: str
    verdict: Soundness
    probes: tuple[ProbeResult, ...]
    candidate: str = ""
    """The model that the judge is to grade, where it was named."""
    source: str
    """The dataset that the records come from, `run` and the id of the run, or `shipped`."""
    source_sha256: str
    records: int
    records_left_out: int = 0
    """Records that no judge grades, such as multiple choice, that can have no points or have no answer, and those said twice."""
    repeats: int
    seed: int
    parameters: dict[str, Any]
    """The judge's sampling parameters."""
    templates: dict[str, str]
    """Prompts that were used, with their hashes."""
    created_at: str
    product_version: str
    calls: int
    failed_calls: int
    cost: float
    """US dollars of the calls whose price is known."""
    unknown_costs: int
    """Calls whose price is not known."""

    @property
    def passed(self) -> bool:
        """True unless a probe failed."""
        return self.verdict != "fail"

    def to_dict(self) -> dict[str, Any]:
        """The card as JSON holds it."""
        members: dict[str, Any] = msgspec.to_builtins(self)
        return members
