"""Engine: the only place that knows the order of the steps of a run.

A run's life cycle, folder by folder:

1. `planning` turns a request, its run file and its datasets into plans, before any call is made.
2. `runs` starts, resumes, cancels and retries a run by its name; `storage` knows its folders and addresses.
3. `execution` takes a run from state to state: `run` (the whole run), `shard`, `case` (one record: requests, rounds, outcome).
4. `finalization` writes the artifacts and seals them. `records` has what these stages share: redaction, counters, metrics.

Finished runs are read by `readers`, compared and gated by `comparison`, and their judges measured by `judge_quality`. Two modules
make runs without calling a candidate: `run_import` (results of another tool) and `rescore` (other rules for the same answers).
"""
