"""Figures for all floors above: statistics with one interval type, and one way to write a number."""
