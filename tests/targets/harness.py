"""Harnesses of the conformance suite: one per kind of target, which writes its scripts and starts its runs.

To add a target, write a subclass of Harness, a fixture `NAME_harness` that gives one, and add NAME to MARKS.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.faults.support import until
from tests.targets.fake import FakeTarget
from tests.targets.fake_cluster import NAME, FakeCluster
from tui_workbench.core.model import ComputeTarget, RunConfiguration, RunSpec
from tui_workbench.targets.hosts import supervisor
from tui_workbench.targets.local.local_target import LocalTarget

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui_workbench.targets.base.protocol import Target

MARKS = {
    "fake": "",
    "fakecluster": "",
    "local": "",
    "localdocker": "docker",
    "shellless": "docker",
    "remotedocker": "docker",
    "remote": "ssh",
    "cluster": "spark",
    "slurm": "slurm",
    "localslurm": "slurm",
}
"""The harnesses, with the mark of tests/rings.py for what each needs, or ""."""

HARNESSES = tuple(MARKS)


def harness_parameters(*names: str) -> list[Any]:
    """Return the names of harnesses as parameters with the marks of their rings; see tests/rings.py."""
    return [pytest.param(name, marks=[getattr(pytest.mark, mark)] if (mark := MARKS[name]) else []) for name in names]


class Script(NamedTuple):
    """The actions of a test script, in this order."""

    output: str = ""  # written first
    report: bool = False  # then a line of JSON with its arguments and environment
    leaves_child: bool = False  # starts a process that never ends, and writes its ID into the file `child`
    waits: bool = False  # then waits for a signal
    stubborn: bool = False  # and ignores signals
    exit_code: int = 0
    logs: bool = False  # logs a value to the workbench, after its output


class Harness:
    """Runs of one kind of target in a temporary folder. Every run is stopped at the end."""

    inherits_environment = True
    """False if scripts do not see the variables of the process that started them."""

    unusual_path = "/only/here"
    """An unusual value of PATH for a run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._specs: list[RunSpec] = []

    def target(self) -> Target:
        """Return a new instance of the implementation: it must not hold state."""
        raise NotImplementedError

    def compute_target(self) -> ComputeTarget:
        """Return the content of its `.compute` file."""
        raise NotImplementedError

    def write(self, path: Path, script: Script) -> None:
        """Write the script in the form that the target runs."""
        raise NotImplementedError

    def lose(self, spec: RunSpec) -> None:
        """End a started run so that its exit code is unknown."""
        raise NotImplementedError

    def spec(
        self, script: Script, arguments: tuple[str, ...] = (), variables: Mapping[str, str] | None = None
    ) -> RunSpec:
        """Return a run of the script, ready to be planned."""
        number = len(self._specs) + 1
        project = self.folder / "project"
        # Unique across test processes, because processes are found by run ID.
        run = self.folder / "runs" / f"project_{os.getpid()}{number:03}"
        project.mkdir(exist_ok=True)
        run.mkdir(parents=True)
        self.write(project / f"script_{number}", script)
        configuration = RunConfiguration(
            name="local",
            path=str(project / "aml_config" / "local.runconfig"),
            target="local",
            framework="Python",
            tracked_run=False,
            environment_variables=variables or {},
        )
        spec = RunSpec(
            run_id=run.name,
            run_directory=str(run),
            project_root=str(project),
            project_name="project",
            working_directory=str(project),
            script=f"script_{number}",
            arguments=arguments,
            run_configuration=configuration,
            target=self.compute_target(),
        )
        self._specs.append(spec)
        return spec

    def start(self, spec: RunSpec) -> None:
        """Plan and start a run."""
        target = self.target()
        target.start(spec, target.plan(spec), dict(os.environ))

    def log(self, spec: RunSpec) -> bytes:
        """Return the output so far."""
        path = Path(spec.run_directory, "output.log")
        return path.read_bytes() if path.exists() else b""

    def until_written(self, spec: RunSpec, text: str) -> None:
        """Wait until the output contains a text."""
        until(lambda: text.encode() in self.log(spec), f"{text!r} in the output")

    def report(self, spec: RunSpec) -> dict[str, Any]:
        """Return the report of a script with `report`."""
        found: dict[str, Any] = json.loads(self.log(spec))
        return found

    def close(self) -> None:
        """End all runs."""
        for spec in self._specs:
            self.target().stop(spec, grace=0)


class FakeHarness(Harness):
    def target(self) -> Target:
        return FakeTarget(self.compute_target())

    def compute_target(self) -> ComputeTarget:
        return ComputeTarget(name="fake", path=str(self.folder / "fake.compute"), type="fake")

    def write(self, path: Path, script: Script) -> None:
        path.write_text(json.dumps(script._asdict()))

    def lose(self, spec: RunSpec) -> None:
        """Make an ended process the owner of the run."""
        self.target().stop(spec, grace=0)
        from tests.targets import fake

        fake.forget(spec.run_directory)
        Path(spec.run_directory, "exit").unlink()
        Path(spec.run_directory, fake.OWNER).write_text(f"{os.getpid()} 1\n")


PYTHON = """\
import json, os, signal, subprocess, sys, time
output, report, leaves_child, waits, stubborn, exit_code, logs = {script!r}
if stubborn:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
if leaves_child:
    with open("child", "w") as file:
        file.write(str(subprocess.Popen(["sleep", "600"], start_new_session=True).pid))
os.write(1, output.encode("utf-8", "surrogateescape"))
if report:
    print(json.dumps({{"arguments": sys.argv[1:], "environment": dict(os.environ)}}))
if logs:
    import workbench
    workbench.log("loss", 0.5, 3)
    workbench.upload_content("made.txt", "made")
while waits or stubborn:
    time.sleep(60)
sys.exit(exit_code)
"""


class LocalHarness(Harness):
    def target(self) -> Target:
        return LocalTarget(self.compute_target())

    def compute_target(self) -> ComputeTarget:
        path = str(self.folder / "project" / "aml_config" / "local.compute")
        return ComputeTarget(name="local", path=path, type="local", python_location=sys.executable)

    def write(self, path: Path, script: Script) -> None:
        path.write_text(PYTHON.format(script=tuple(script)))

    def lose(self, spec: RunSpec) -> None:
        """Kill the supervising shell, then the script."""
        shell = until(lambda: supervisor.read_supervisor(spec.run_directory), "the supervisor")
        os.kill(shell.pid, signal.SIGKILL)
        self.target().stop(spec, grace=0)


class FakeClusterHarness(LocalHarness):
    def target(self) -> Target:
        return FakeCluster(self.compute_target())

    def compute_target(self) -> ComputeTarget:
        return super().compute_target()._replace(type=NAME, address=str(self.folder))
