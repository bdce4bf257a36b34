"""A run, a comparison or a validation report into sections: facts, tables, notes and charts in words, which surfaces draw."""
