"""The sections of the Drift inspector."""
