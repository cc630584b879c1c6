"""A project whose runs execute in containers, controlled with `Runs` as in the screens."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.engines import PYTHON_IMAGE
from tests.waiting import wait_until
from tui_workbench.core.model import RunRequest
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui_workbench.core.model import Run

RUN_SECONDS = 180.0


class DockerProject:
    """A project at `root` with the target and run configuration `docker`."""

    def __init__(self, root: Path, **compute: Any) -> None:
        self.root = root
        self.configuration = root / "aml_config"
        self.configuration.mkdir(parents=True)
        self.compute(**compute)
        self.runconfig()

    @property
    def runs(self) -> Runs:
        return Runs(Project.find(str(self.root)))

    def compute(self, **values: Any) -> None:
        """Write docker.compute: these keys on top of a local engine and the test image."""
        write(self.configuration / "docker.compute", {"type": "localdocker", "baseDockerImage": PYTHON_IMAGE, **values})

    def runconfig(self, **values: Any) -> None:
        """Write docker.runconfig: these keys on top of a plain Python run."""
        usual = {"Target": "docker", "Framework": "Python", "ArgumentVector": ["$file"], "PrepareEnvironment": True}
        write(self.configuration / "docker.runconfig", {**usual, **values})

    def packages(self, *pip: str, conda: tuple[str, ...] = (), channels: tuple[str, ...] = ()) -> Path:
        """Write conda_dependencies.yml with one package per line."""
        lines = ["name: project_environment"]
        if channels:
            lines += ["channels:", *(f"  - {channel}" for channel in channels)]
        lines += ["dependencies:", *(f"  - {each}" for each in conda)]
        if pip:
            lines += ["  - pip:", *(f"    - {each}" for each in pip)]
        path = self.configuration / "conda_dependencies.yml"
        path.write_text("\n".join(lines) + "\n")
        return path

    def script(self, text: str, name: str = "train.py") -> str:
        """Write a script of the project."""
        (self.root / name).write_text(textwrap.dedent(text))
        return name

    def submit(self, text: str, *arguments: str) -> Run:
        """Submit a script, and return while it runs. It may request a GPU although the test machine has none."""
        return self.runs.submit(RunRequest("docker", self.script(text), arguments, allow_cpu=True))

    def run(self, text: str, *arguments: str) -> Run:
        """Submit a script and wait for the end of its run."""
        return self.ended(self.submit(text, *arguments))

    def ended(self, run: Run) -> Run:
        """Wait until the run has ended, and return it."""
        wait_until(lambda: not self.get(run).is_active, seconds=RUN_SECONDS)
        return self.get(run)

    def get(self, run: Run) -> Run:
        """Return the current state of the run. Unlike Runs.get, start no controller for a run without one."""
        return self.runs.directory(run.run_id).run()

    def until(self, run: Run, text: str) -> None:
        """Wait until the run's output on this machine contains a text."""
        wait_until(lambda: text in log(run) or not self.get(run).is_active, seconds=RUN_SECONDS)
        assert text in log(run), (self.get(run), log(run))

    def states(self, run: Run) -> list[str]:
        """Return all states of the run so far."""
        return [event["state"] for event in events(run) if event["event"] == "state"]


def write(path: Path, values: Mapping[str, Any]) -> None:
    """Write a configuration file; JSON is YAML too."""
    path.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in values.items()))


def log(run: Run) -> str:
    """Return the output of the run that has arrived on this machine."""
    path = Path(run.log_path)
    return path.read_text(errors="replace") if path.exists() else ""


def events(run: Run) -> list[dict[str, Any]]:
    """Return the run's events."""
    lines = Path(run.directory, "events.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def controller_of(run: Run) -> int:
    """Return the process ID of the run's controller; 0 if it has none."""
    from tui_workbench.runs.store.rundir import ControllerLock, RunDirectory

    return ControllerLock.holder(RunDirectory(run.directory))
