"""Records of a finished run into metrics: summary, slices, gates, and golden_v1's result document."""
