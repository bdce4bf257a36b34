"""A plan into outcomes: states, shards, cases, calls within limits, and what is written before more is spent."""
