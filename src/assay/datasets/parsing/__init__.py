"""What every reader of a contract is made of: sources, strict parsers, checks, hashes, and issues with locations."""
