"""The short version of `soak`."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests import rings
from tests.targets.group_project import Group
from tests.targets.group_project import box2 as box2
from tests.targets.group_project import group as group
from tests.targets.soak import PATIENCE, Soak

ATTEMPTS = 3 * rings.REPEATS


@pytest.mark.soak
def test_killing_at_random_moments_loses_nothing(group: Group, connections: Path) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    soak = Soak(group, connections, seed)
    soak.run(ATTEMPTS)
    soak.finish(PATIENCE)
    verdict = soak.verdict()
    assert verdict.failures == []
    assert verdict.right
