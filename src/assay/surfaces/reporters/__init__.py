"""Values into text for people and programs."""
