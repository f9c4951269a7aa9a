"""The sections of the live page."""
