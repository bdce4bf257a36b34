"""How many tokens texts are taken to have before anybody has counted them."""

BYTES_PER_TOKEN = 4
"""UTF-8 bytes of a prompt for one token: so it is for English, and not far from it for other languages."""
ANSWER_TOKENS = 400
VERDICT_TOKENS = 150
