"""Python API for scripts and notebooks: runs with rich display, and tables of their records."""
