"""The distributed engine: one Temporal workflow for each run, one heartbeating activity for each shard."""
