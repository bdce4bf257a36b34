"""What `import assay` gives to scripts and notebooks: runs that show themselves, and tables of their records."""
