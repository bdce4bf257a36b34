"""Judge cards: how one judge behaved under every probe, and whether it is sound."""

from typing import Literal

import msgspec

from assay.core.canonical import JsonObject

Soundness = Literal["pass", "warn", "fail", "not_enough_evidence", "not_tried"]
ProbeId = Literal["retest", "discernment", "stray", "empty", "length", "injection", "reference", "position", "family"]


class ProbeResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Result of one probe."""

    id: ProbeId
    verdict: Soundness
    words: str
    """Result in a sentence."""
    expectation: str
    """Behaviour of a sound judge."""
    n: int = 0
    """Answers, or pairs of answers, with every judgment that the probe needs."""
    slips: int = 0
    """Number of them that a sound judge would have decided differently."""
    rate: float | None = None
    low: float | None = None
    """Lower end of the 95 % interval of the rate (Wilson)."""
    high: float | None = None
    tolerance: float | None = None
    """Maximum rate of slips of a sound judge; None when rises are compared with falls."""
    p_value: float | None = None
    """Probability that a sound judge slips as often, or more often."""
    # A judge that did not answer has not slipped. Counted as slips, an outage of the provider would make it unsound.
    failed: dict[str, int] = {}
    """Judgments that the judge did not deliver, by code: they are not verdicts and count in no rate."""
    seen: tuple[str, ...] = ()
    """Ids of the first records with a slip."""


class JudgeCard(msgspec.Struct, frozen=True, kw_only=True):
    """One judge, how it was probed, and the results."""

    judge: str
    verdict: Soundness
    probes: tuple[ProbeResult, ...]
    candidate: str = ""
    """Model that the judge is to grade, if it was named."""
    source: str
    """Dataset of the records, `run` and the id of the run, or `shipped`."""
    source_sha256: str
    records: int
    records_left_out: int = 0
    """Records that no judge grades, such as multiple choice, records without points or answer, and duplicates."""
    repeats: int
    seed: int
    parameters: JsonObject
    """Judge's sampling parameters."""
    templates: dict[str, str]
    """Prompts that were used, with their hashes."""
    created_at: str
    product_version: str
    calls: int
    failed_calls: int
    cost: float
    """US dollars of the calls with a known price."""
    unknown_costs: int
    """Calls with an unknown price."""

    @property
    def passed(self) -> bool:
        """Return whether no probe failed."""
        return self.verdict != "fail"

    @property
    def run_id(self) -> str:
        """Id of the run whose records were used; empty for a dataset and for the shipped questions."""
        # Stored cards have no member for it, so the format of `source` is read here and nowhere else.
        kind, _, run_id = self.source.partition(" ")
        return run_id if kind == "run" else ""

    def to_dict(self) -> dict[str, object]:
        """Return the card as JSON values."""
        members: dict[str, object] = msgspec.to_builtins(self)
        return members
