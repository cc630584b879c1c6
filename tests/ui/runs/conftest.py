"""The project with past runs, for every test of this folder."""

from tests.ui.dashboard.conftest import past as past
