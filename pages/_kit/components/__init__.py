"""Widgets of our own in the browser, and what they are fed with."""
