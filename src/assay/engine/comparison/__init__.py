"""Finished runs beside each other: differences, gates, baselines, trends."""
