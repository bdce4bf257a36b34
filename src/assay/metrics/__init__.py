"""The arithmetic, pure functions of numbers: a run's summary, slices and gates; intervals, comparisons, agreement, rankings."""
