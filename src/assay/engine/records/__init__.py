"""What planning, execution and finalization all need of a run's records: groups, counters, figures, redaction."""
