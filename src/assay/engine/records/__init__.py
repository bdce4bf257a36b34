"""Shared parts of planning, execution and finalization: groups, counters, metrics and redaction of a run's records."""
