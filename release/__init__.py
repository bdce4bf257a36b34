"""Builds a release and proves what is said of it: `make release`, explained in docs/how-to/release.md."""
