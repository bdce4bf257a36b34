"""Outcomes into the artifacts of a finished run: lines, figures, hashes."""
