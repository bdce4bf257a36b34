"""The gates of a run for people: what each asks for, what the run has for it, and whether that is enough."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from assay.core.metrics_summary import interval_of
from assay.core.number_text import RATE_PLACES, SCORE_PLACES, rate_text, score_text

_MOST_PLACES = 9


class GateText(msgspec.Struct, frozen=True, kw_only=True):
    """One gate that is set, next to the figure that it is about."""

    gate: str
    """The member of the plan's gates: `pass_rate`, `min_score`, `max_error_rate`."""
    name: str
    """`pass rate`, `mean score`, `error rate`, or the id of a profile."""
    limit: float
    value: float | None
    interval: dict[str, Any] | None
    is_rate: bool
    is_most: bool
    """The limit is the largest value that meets the gate."""

    def number(self, value: float) -> str:
        """A value of this gate: a percentage or a score."""
        return rate_text(value) if self.is_rate else score_text(value)

    @property
    def asked(self) -> str:
        """`pass rate at least 80.0 %`."""
        return f"{self.name} {'at most' if self.is_most else 'at least'} {self.number(self.limit)}"

    @property
    def met(self) -> str:
        """`pass rate 83.3 % (at least 80.0 %)`."""
        found = "unknown" if self.value is None else self.number(self.value)
        return f"{self.name} {found} ({'at most' if self.is_most else 'at least'} {self.number(self.limit)})"

    @property
    def missed(self) -> str:
        """`pass rate 79.96 % is below 80.00 %`, with as many digits as it takes to tell the two apart."""
        if self.value is None:
            return f"{self.name} is undefined"
        text: Callable[[float, int], str] = rate_text if self.is_rate else score_text
        first = RATE_PLACES if self.is_rate else SCORE_PLACES
        places = next(
            (places for places in range(first, _MOST_PLACES) if text(self.value, places) != text(self.limit, places)), _MOST_PLACES
        )
        words = "is above" if self.is_most else "is below"
        return f"{self.name} {text(self.value, places)} {words} {text(self.limit, places)}"


def gate_texts(gates: Mapping[str, float | None], summary: Mapping[str, Any]) -> list[GateText]:
    """The gates that are set, in the order in which reports list them; `summary` is empty where a run has no metrics."""
    profile = summary.get("profile")
    # With a profile the gate on the score is one on its headline.
    score = (profile["id"], profile, "headline") if profile else ("mean score", summary, "raw_score_mean")
    found = (
        ("pass_rate", "pass rate", summary, "pass_rate"),
        ("min_score", *score),
        ("max_error_rate", "error rate", summary, "error_rate"),
    )
    return [
        GateText(
            gate=gate,
            name=name,
            limit=limit,
            value=figures.get(member),
            interval=interval_of(figures, member) if figures.get(member) is not None else None,
            is_rate=gate != "min_score",
            is_most=gate == "max_error_rate",
        )
        for gate, name, figures, member in found
        if (limit := gates.get(gate)) is not None
    ]


def reason_text(reason: str, gates: list[GateText]) -> str:
    """A reason of a stored decision as it is shown; artifacts hold rates as numbers from 0 to 1."""
    for gate in gates:
        if gate.value is not None and reason.startswith(f"{gate.name} ") and (" is below " in reason or " is above " in reason):
            return gate.missed
    return reason
