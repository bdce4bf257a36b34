"""Approximate token counts for estimates."""

BYTES_PER_TOKEN = 4
"""UTF-8 bytes of a prompt per token: correct for English, and close for other languages."""
ANSWER_TOKENS = 400
VERDICT_TOKENS = 150
