"""A budget that workers share, on the side of one worker: what it has spent and has to tell, and what it hears of the others."""

from assay.engine.tally import Tally

_NEARLY = 0.9
"""Of a budget, from which on everybody tells at once what was spent."""


class Purse:
    """What a run may cost, and what this worker has paid of it."""

    def __init__(self, tally: Tally, budget: float) -> None:
        self._tally = tally
        self._budget = budget
        self._told = 0.0

    @property
    def is_nearly_empty(self) -> bool:
        """True when every call counts."""
        return self._tally.cost >= _NEARLY * self._budget

    def take(self) -> float:
        """What was spent here since the last time."""
        spent, self._told = self._tally.paid - self._told, self._tally.paid
        return spent

    def hear(self, spent: float) -> None:
        """All have spent so much, with what was last told here; what was spent here since then comes on top."""
        self._tally.cost = max(self._tally.cost, spent + self._tally.paid - self._told)
