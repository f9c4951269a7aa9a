"""The sections of the Evidence page."""
