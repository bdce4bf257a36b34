"""A maximum cost that workers share, as one of them counts it: its own cost, and the reported total of all."""

from assay.engine.records.run_counters import RunCounters

_NEARLY_SPENT = 0.9
"""Fraction of the budget from which on workers report each cost at once."""


class SharedBudget:
    """Maximum cost of a run, and the part of this worker's cost that the other workers do not know yet."""

    def __init__(self, counters: RunCounters, budget: float) -> None:
        self._counters = counters
        self._budget = budget
        self._reported = 0.0

    @property
    def is_nearly_empty(self) -> bool:
        """True when so little is left that a delayed report could let the workers exceed the budget."""
        return self._counters.cost >= _NEARLY_SPENT * self._budget

    def take(self) -> float:
        """Return the cost since the last call, and count it as reported."""
        spent, self._reported = self._counters.paid - self._reported, self._counters.paid
        return spent

    def update_total(self, spent: float) -> None:
        """Set the total cost: the reported total of all workers plus our unreported cost."""
        # Never lower: answers of the database may arrive out of date.
        self._counters.cost = max(self._counters.cost, spent + self._counters.paid - self._reported)
