"""Runs and records for whoever looks at them, finished or under way."""
