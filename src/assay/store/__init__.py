"""What survives: the ledger of a run, its sealed artifacts, and the rules for keeping and redacting them."""
