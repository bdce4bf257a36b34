"""What `import assay` gives to scripts and notebooks: rich display in notebooks, and tables of their records."""
