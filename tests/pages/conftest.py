"""Fixtures of the page tests."""

from tests.pages.browser import browser

__all__ = ["browser"]
