"""What survives a crash: the ledger of a run, its sealed artifacts, and the rules that keep and redact them."""
