"""Start the launcher of ranks with a stand-in for torchrun."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from tui_workbench.targets.base.run_environment import LAUNCHER
from tui_workbench.targets.values import SDK_FOLDER

if TYPE_CHECKING:
    from pathlib import Path

FAKE_TORCHRUN = """\
import os, signal, subprocess, sys, time
print(" ".join(sys.argv[1:3]), os.environ["OMP_NUM_THREADS"], os.environ["PET_LOCAL_ADDR"], flush=True)
first = int(os.environ.get("FIRST_RANK", 0))
ranks = [subprocess.Popen([sys.executable, *sys.argv[3:]], env={**os.environ, "RANK": str(r)},
                          start_new_session=True)
         for r in range(first, first + 2)]
def end(*_):
    for rank in ranks:
        rank.terminate()
signal.signal(signal.SIGTERM, (lambda *_: os._exit(1)) if "LEAVES_RANKS" in os.environ else end)
if "ENDS_OTHERS" in os.environ:
    ranks[1].wait()
    print("Sending process", ranks[0].pid, "closing signal SIGTERM", flush=True)
    ranks[0].terminate()
codes = [rank.wait() for rank in ranks]
if codes[1] == 9:
    os.kill(os.getpid(), signal.SIGKILL)
sys.exit(max(abs(code) for code in codes))
"""
"""Starts processes like torchrun, but faster."""


def start(folder: Path, script: str, **variables: str) -> subprocess.Popen[bytes]:
    """Start the launcher with two processes of a script and a stand-in for torchrun."""
    package = folder / "path" / "torch" / "distributed"
    package.mkdir(parents=True, exist_ok=True)
    for init in (package.parent / "__init__.py", package / "__init__.py"):
        init.touch()
    (package / "run.py").write_text(FAKE_TORCHRUN)
    (folder / "script.py").write_text(script)
    words = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", "script.py", "-x"]
    launcher = os.path.join(SDK_FOLDER, LAUNCHER)
    environment = {**os.environ, "PYTHONPATH": str(folder / "path"), **variables}
    environment.pop("OMP_NUM_THREADS", None)
    return subprocess.Popen(
        [sys.executable, launcher, str(folder / "ranks"), *words],
        cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
    )  # fmt: skip
