"""The plugin for pytest: records of a dataset as tests, and runs inside tests."""
