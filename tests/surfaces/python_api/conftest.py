"""The browser that the tests of pages use, for the cards of a notebook."""

from tests.surfaces.pages.conftest import browser

__all__ = ["browser"]
