"""Readers of runs and their records, finished or under way."""
