"""Logit logs: read, searched for damage, and compared between engines."""
