"""Checkpoints: the registry, loading, and the form in which the embedded models are shipped."""
