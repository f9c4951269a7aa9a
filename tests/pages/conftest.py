"""Fixtures of the page tests."""

from tests.pages.browser import browser, window

__all__ = ["browser", "window"]
