"""Batch runs: molecules, a model and an LP into an immutable run of the store."""
