"""Planning: a request into plans; everything that can be known before the first call is checked here."""
