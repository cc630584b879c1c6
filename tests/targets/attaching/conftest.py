"""Requests for the tests of attaching."""

from __future__ import annotations

import pytest

from tests.machines import Machine
from tui_workbench.targets.attaching.attach import AttachRequest


@pytest.fixture
def request_(gpubox: Machine) -> AttachRequest:
    """Return the account of the user research on gpubox, without a choice of login."""
    return AttachRequest("remotedocker", "box", gpubox.address, "research")
