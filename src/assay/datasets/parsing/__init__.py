"""Parts that every reader of a contract uses: sources, strict parsers, checks, hashes, and issues with locations."""
