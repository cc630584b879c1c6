"""Fixtures of the tests of the screens."""

from tests.ui.idle import quick_pilot

__all__ = ["quick_pilot"]
