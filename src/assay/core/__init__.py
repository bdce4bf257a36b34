"""Values that every layer uses, and pure functions of them."""
