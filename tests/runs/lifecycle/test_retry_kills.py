"""Attempts of `Retry` while their controllers are killed at random moments."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from pathlib import Path

import pytest

from tests import rings
from tests.faults.support import Workbench
from tests.runs.lifecycle.test_retrying import configure
from tests.waiting import PATIENCE
from tui_workbench.runs.store.rundir import ControllerLock, RunDirectory

pytestmark = [pytest.mark.processes, pytest.mark.soak]

TIMES = 5 * rings.REPEATS
SCRIPT = """\
import os, time
print("begin", os.environ["WORKBENCH_ATTEMPT"], flush=True)
time.sleep(0.1)
print("end", os.environ["WORKBENCH_ATTEMPT"], flush=True)
raise SystemExit(3)
"""


def test_each_attempt_runs_once_while_controllers_are_killed(project_root: Path) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    workbench = Workbench(project_root)
    configure(workbench, f"{{times: {TIMES}, delay: 0}}")
    workbench.write(SCRIPT)
    run_id = workbench.detach("train.py")
    directory = RunDirectory(str(workbench.run_directory(run_id)))
    kills, deadline = 0, time.monotonic() + PATIENCE
    while workbench.status(run_id) != "Failed":
        assert time.monotonic() < deadline, workbench.info(run_id)
        time.sleep(rng.uniform(0, 0.4))
        controller = ControllerLock.holder(directory)
        if controller > 0:
            with contextlib.suppress(ProcessLookupError):
                os.kill(controller, signal.SIGKILL)
                kills += 1
        workbench.run("experiment", "resume")
    assert kills
    expected = "".join(f"begin {number}\nend {number}\n" for number in range(1, TIMES + 2))
    assert workbench.log(run_id) == expected
    assert workbench.info(run_id)["reason"] == f"attempt {TIMES + 1}: exit code 3"
