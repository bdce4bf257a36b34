"""The engine: the only place that knows the order of things.

A run goes through `planning`, `running` and `sealing`, in `places` of its own; `runs` is how its user names it. Afterwards there is
`looking`, `comparing` and `judging`, and runs that nobody is asked for: `importing`, `rescore`.
`temporal` is the way to many machines.
"""
