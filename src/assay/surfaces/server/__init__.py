"""The batch evaluation service over HTTP: `assay serve`."""
