"""The place of the suite: a project with scripts, the command line in it, and how long things take."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.faults.support import Workbench, until
from tests.gpu.real.observer import processes_on_gpu

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

COMPUTE = """\
import sys, time, torch
seconds, device = float(sys.argv[1]), sys.argv[2]
if device == "any":
    device = "cuda" if torch.cuda.is_available() else "cpu"
matrix = torch.rand(2048, 2048, device=device)
print("computing on", device, flush=True)
end = time.monotonic() + seconds
while time.monotonic() < end:
    for _ in range(20):
        product = matrix @ matrix
    if device != "cpu":
        torch.cuda.synchronize()
"""
"""Arguments: seconds, and `cuda`, `cpu` or `any`."""

HOLD = """\
import sys, time, torch
matrix = torch.rand(2048, 2048, device="cuda")
print("holding", flush=True)
time.sleep(float(sys.argv[1]))
"""

RANK = """\
import os, sys, time, torch
import torch.distributed as dist
dist.init_process_group("nccl")
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
total = torch.ones(1, device=device)
dist.all_reduce(total)
print("ranks:", int(total.item()), flush=True)
matrix = torch.rand(2048, 2048, device=device)
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    product = matrix @ matrix
    torch.cuda.synchronize()
dist.destroy_process_group()
"""

JAX = """\
import os, sys, time
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
import jax, jax.numpy as numpy
matrix = numpy.ones((2048, 2048))
print("computing on", jax.devices()[0].platform, flush=True)
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    product = (matrix @ matrix).block_until_ready()
"""

TENSORBOARD = """\
import torch
from torch.utils.tensorboard import SummaryWriter
with SummaryWriter("outputs/board") as board:
    for step in range(5):
        board.add_scalar("loss", 1.0 / (step + 1), step)
print("written on", torch.cuda.get_device_name(0), flush=True)
"""

SCRIPTS = {"compute.py": COMPUTE, "hold.py": HOLD, "rank.py": RANK, "board.py": TENSORBOARD, "jax_compute.py": JAX}

TARGETS = {"local": "", "free": "gpus: free\n"}
"""The compute targets, and the lines that their files have beside the usual ones."""


class Pace(NamedTuple):
    """Seconds of computing in a check (`short`) and in that of the figures (`long`), and the allowed relative error."""

    short: float
    long: float
    tolerance: float


REAL = Pace(7.0, 40.0, 0.05)
REHEARSAL = Pace(5.0, 10.0, 0.3)
"""With stand-ins the figures are those of a few samples, of which the first and the last are only partly of the run."""


class Skipped(Exception):
    """A check that this machine cannot make, and why."""


class Place:
    """A project below `folder`, whose scripts run with the interpreter `python` and these variables."""

    def __init__(self, folder: Path, python: str, pace: Pace, variables: Mapping[str, str]) -> None:
        self.folder = folder
        self.python = python
        self.pace = pace
        self.variables = dict(variables)
        home = folder / "home"
        home.mkdir(parents=True)
        names = ("CONFIG", "DATA", "STATE", "CACHE")
        os.environ.update({"HOME": str(home), **{f"XDG_{name}_HOME": str(home / name.lower()) for name in names}})
        self.workbench = Workbench(folder / "project")
        self._write_project()

    def submit(self, script: str, *arguments: str, configuration: str = "local") -> str:
        """Start a run and return its ID."""
        return self.workbench.detach(script, *arguments, configuration=configuration)

    def compute(self, seconds: float, device: str = "cuda", configuration: str = "local") -> str:
        """Start a run that computes, and return its ID when its script says so."""
        run_id = self.submit("compute.py", str(seconds), device, configuration=configuration)
        self.until_printed(run_id, "computing on")
        return run_id

    def ended(self, run_id: str) -> dict[str, Any]:
        """Wait for the end of a run and return its record."""
        self.workbench.until_status(run_id, "Completed", "Failed", "Canceled")
        return self.workbench.info(run_id)

    def until_printed(self, run_id: str, text: str) -> None:
        """Wait until the run has printed a text; fail if it ends without."""

        def printed() -> bool:
            log = self.workbench.log(run_id)
            ended = self.workbench.status(run_id) in ("Completed", "Failed", "Canceled")
            assert text in log or not ended, f"{run_id} ended: {log or self.workbench.info(run_id)['reason']}"
            return text in log

        until(printed, f"{text!r} in the log of {run_id}")

    def shell(self, run_id: str) -> int:
        """Return the process ID of the supervising shell of a run."""
        return int((self.workbench.run_directory(run_id) / "pid").read_text().split()[0])

    def sampler(self) -> int:
        """Return the process ID of the sampler of this place, once a run has samples."""
        mark = str(self.folder).encode()
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
                if b"tui_workbench.targets.gpu.sampler" in words and any(word.startswith(mark) for word in words):
                    return int(entry.name)
        raise AssertionError("no sampler")

    def until_sampled(self, run_id: str) -> None:
        """Wait until the run has samples."""
        samples = self.workbench.run_directory(run_id) / "gpu.jsonl"
        until(lambda: samples.exists() and samples.read_bytes().count(b'"d":') > 1, "samples")

    def pids(self, run_id: str) -> frozenset[int]:
        """Return the processes of a run: its supervising shell and the descendants of the shell."""
        shell = self.shell(run_id)
        children: dict[int, list[int]] = {}
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit():
                    fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
                    children.setdefault(int(fields[1]), []).append(int(entry.name))
        found = [shell]
        for each in found:
            found += children.get(each, ())
        return frozenset(found)

    def until_free(self, pids: frozenset[int]) -> float:
        """Wait until nvidia-smi lists none of the processes, and return the seconds that it took."""
        begun = time.monotonic()
        until(lambda: not pids & processes_on_gpu(), "the GPU's memory to be free")
        return time.monotonic() - begun

    @contextlib.contextmanager
    def other_process(self, script: str, *arguments: str) -> Iterator[int]:
        """Run a script outside the workbench within the context; yield its process ID when it has printed a line."""
        words = [self.python, str(self.workbench.folder / script), *arguments]
        environment = {**os.environ, **self.variables}
        with subprocess.Popen(words, stdout=subprocess.PIPE, env=environment) as process:
            assert process.stdout is not None
            process.stdout.readline()
            try:
                yield process.pid
            finally:
                process.kill()

    def has_module(self, name: str) -> bool:
        """Return True if the interpreter of the scripts can import a module."""
        words = [self.python, "-c", f"import {name}"]
        return not subprocess.run(words, capture_output=True, env={**os.environ, **self.variables}).returncode

    def configure(self, name: str, target: str, variables: Mapping[str, str] | None = None, **values: object) -> None:
        """Write a run configuration."""
        content = {
            "Target": target,
            "Framework": "Python",
            "TrackedRun": True,
            "EnvironmentVariables": {**self.variables, **(variables or {})},
            **values,
        }
        (self.workbench.folder / "aml_config" / f"{name}.runconfig").write_text(json.dumps(content))

    def _write_project(self) -> None:
        configuration = self.workbench.folder / "aml_config"
        configuration.mkdir(parents=True)
        for name, text in SCRIPTS.items():
            self.workbench.write(text, name)
        for name, lines in TARGETS.items():
            text = f'type: "local"\npythonLocation: {json.dumps(self.python)}\n{lines}'
            (configuration / f"{name}.compute").write_text(text)
            self.configure(name, name)
        self.configure("hidden", "local", {"CUDA_VISIBLE_DEVICES": ""})
        self.configure("ranks", "local", ProcessesPerNode="gpus")
        self.configure("stalled", "local", StopIfStalledMinutes=1)
