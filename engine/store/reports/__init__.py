"""Report files: the JSON that the reports' runner writes for a run, into the store and out of it."""
