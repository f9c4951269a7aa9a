"""Logit logs: read, searched for damage, compared between engines, and written by runs of our own."""
