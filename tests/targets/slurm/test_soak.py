"""The short version of `soak`."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests import rings
from tests.targets.slurm.project import SlurmProject
from tests.targets.slurm.soak import PATIENCE, Soak

KILLS = 4 * rings.REPEATS


@pytest.mark.soak
@pytest.mark.parametrize("requeues", [False, True])
def test_killing_at_random_moments_loses_nothing(project: SlurmProject, connections: Path, requeues: bool) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    soak = Soak(project, connections, seed, requeues=requeues)
    soak.kill(KILLS)
    soak.finish(PATIENCE)
    verdict = soak.verdict()
    assert verdict.failures == []
    assert verdict.right
