"""Fixture `past`: a project with ended runs."""

from tests.ui.dashboard.conftest import past as past
