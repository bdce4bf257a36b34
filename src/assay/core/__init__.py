"""Values that every layer speaks of, and pure functions of them."""
