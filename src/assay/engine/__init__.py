"""The engine: the only place that knows the order of things."""
