"""What the app's worker does for its pages: write lanes live, and ask a model about stored samples."""
