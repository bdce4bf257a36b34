"""What each address answers, by topic."""
