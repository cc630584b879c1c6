"""The short version of `soak`."""

from __future__ import annotations

import random
from pathlib import Path

from tests.targets.slurm.project import SlurmProject
from tests.targets.slurm.soak import PATIENCE, Soak

KILLS = 12


def test_killing_at_random_moments_loses_nothing(project: SlurmProject, connections: Path) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    soak = Soak(project, connections, seed)
    soak.kill(KILLS)
    soak.finish(PATIENCE)
    verdict = soak.verdict()
    assert verdict.failures == []
    assert verdict.right
