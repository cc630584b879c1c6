"""Random keys at four sizes, in new and in restored sessions. `tests/ui/walk.py` has the checks.

`make walk` presses 2,000 keys in each, which takes a quarter of an hour; `WALK_KEYS` and `WALK_SEED` set number and
seed. A failure names its seed and the last keys.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.ui.runs.past import falling, past_run
from tests.ui.walk import Walk

if TYPE_CHECKING:
    from tui_workbench.projects.project import Project

pytestmark = pytest.mark.slow

KEYS = int(os.environ.get("WALK_KEYS", "100"))
SEED = os.environ.get("WALK_SEED", "1")
SIZES = [(80, 24), (100, 30), (120, 40), (160, 48)]
NEW, RESTORED = (SIZES, SIZES) if "WALK_KEYS" in os.environ else (SIZES[1::2], SIZES[::2])
"""`make test` walks each size once; the restored sessions include the smallest one."""

BOX = "type: remotedocker\naddress: 127.0.0.1:1\nusername: ada\nbaseDockerImage: python:3.12-slim\n"


@pytest.fixture
def walked(project: Project) -> Project:
    """Return a project with runs, files, a folder, and an unreachable target."""
    root = Path(project.root)
    for number in range(1, 6):
        curves = {"loss": falling(float(number))}
        files = {"outputs/model.txt": b"weights\n"}
        past_run(project, number, exit_code=0, curves=curves, output=b"epoch 1\n" * 60, files=files)
    (root / "aml_config" / "box.compute").write_text(BOX)
    (root / "aml_config" / "box.runconfig").write_text("Target: box\nFramework: Python\n")
    (root / "readme.md").write_text("# Walked\n\nA project.\n")
    (root / "long.py").write_text("".join(f"print({number})  # {'x' * number}\n" for number in range(200)))
    (root / "data").mkdir()
    (root / "data" / "values.csv").write_text("a,b\n1,2\n")
    return project


def name_of(size: tuple[int, int]) -> str:
    return f"{size[0]}x{size[1]}"


@pytest.mark.timeout(420 + KEYS)
@pytest.mark.parametrize("size", NEW, ids=name_of)
async def test_random_keys_in_a_new_session(walked: Project, home: Path, size: tuple[int, int]) -> None:
    await Walk(walked.root, str(home), f"{SEED} first {size}", size).run(KEYS)


@pytest.mark.timeout(420 + KEYS)
@pytest.mark.parametrize("size", RESTORED, ids=name_of)
async def test_random_keys_in_a_restored_session(walked: Project, home: Path, size: tuple[int, int]) -> None:
    walk = Walk(walked.root, str(home), f"{SEED} left {size}", size)
    await walk.leave_a_session()
    await walk.run(KEYS)
