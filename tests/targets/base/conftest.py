"""Requests for the tests of attaching."""

from __future__ import annotations

import pytest

from tests.machines import Machine
from tui_workbench.targets.base.attach import AttachRequest


@pytest.fixture
def request_(gpubox: Machine) -> AttachRequest:
    """The user research's account on gpubox, by whatever lets us in."""
    return AttachRequest("remotedocker", "box", gpubox.address, "research")
