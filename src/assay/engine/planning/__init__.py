"""What somebody asks for into a plan: everything that can be known before the first call is checked here."""
