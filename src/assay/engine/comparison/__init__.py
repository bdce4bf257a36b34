"""Finished runs side by side: differences, gates, baselines, trends."""
