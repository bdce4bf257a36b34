"""Optional parts: each folder is found by its entry point, and may be deleted without any other code noticing."""
