"""Make the pictures in docs/pictures/, one SVG file per screen, from the real program in a terminal.

    python -m docs.make_pictures [NAME...]

The runs really train, on the CPU. The GPUs are stand-ins (tests/gpu), which need gcc. They report a process of the
run, whose script prints the name of a GPU. Times and losses differ each time, so make the pictures only when a screen
has changed.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.terminal import Terminal
from docs.terminal_pictures import draw, svg
from tests.gpu import standin

REPOSITORY = Path(__file__).resolve().parent.parent
PICTURES = REPOSITORY / "docs" / "pictures"
COLUMNS, ROWS = 120, 32
ENTER, ESCAPE, RUN = "\r", "\x1b", "\x12"


class Setup(NamedTuple):
    """A home, a project and stand-in GPUs for the program."""

    home: Path
    project: Path
    variables: dict[str, str]
    gpus: standin.Standin

    def run(self, *words: str) -> None:
        """Run a `workbench-tui` command."""
        subprocess.run(
            ["workbench-tui", *words],
            cwd=self.project,
            env={**os.environ, **self.variables},
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def with_gpus(self) -> Setup:
        """Return the setup with two idle stand-in GPUs."""
        variables = {**self.variables, **self.gpus.variables}
        variables["PATH"] = f"{self.gpus.built.programs}:{self.variables['PATH']}"
        self.gpus.write(standin.gpu(0, words=standin.REST), standin.gpu(1, words=standin.REST))
        return self._replace(variables=variables)

    def compute_on_gpu(self, number: int) -> bool:
        """Let the process of a run compute on the first stand-in GPU. Return False while the run has no process."""
        for record in self.project.glob(".workbench/runs/*/run.json"):
            pid = record.with_name("pid")
            if json.loads(record.read_text())["run_number"] == number and pid.exists():
                self.gpus.write(
                    standin.gpu(0, util=random.randint(86, 97), mem=4312, temp=71, power=68200),
                    standin.gpu(1, words=standin.REST),
                    standin.process(int(pid.read_text().split()[0]), 0, 4290),
                )
                return True
        return False

    def screens(self) -> Terminal:
        return Terminal(
            ["workbench-tui", "."],
            columns=COLUMNS,
            rows=ROWS,
            changes=self.variables,
            directory=str(self.project),
        )


def set_up(folder: Path) -> Setup:
    """Create a project with three real runs."""
    home, project = folder / "home", folder / "digits"
    home.mkdir()
    # The pictures must not show where Python is installed on this machine.
    (home / "venv").symlink_to(sys.prefix)
    shutil.copytree(REPOSITORY / "sample_project", project, ignore=shutil.ignore_patterns(".workbench", "outputs"))
    script = project / "train.py"
    text = script.read_text(encoding="utf-8").replace('f"training on the CPU: {reason}"', '"training on Tesla T4"')
    script.write_text(
        text.replace('"--epochs", type=positive, default=15', '"--epochs", type=positive, default=200'),
        encoding="utf-8",
    )
    (folder / "gpu").mkdir()
    gpus = standin.Standin(folder / "gpu" / "state", standin.build(folder / "gpu"))
    variables = {
        "HOME": str(home),
        "PATH": f"{home}/venv/bin:{os.environ['PATH']}",
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
        "LANG": "C.UTF-8",
        **{f"XDG_{name}_HOME": "" for name in ("CONFIG", "DATA", "STATE", "CACHE")},
    }
    setup = Setup(home, project, variables, gpus)
    setup.run("experiment", "submit", "-c", "local", "train.py", "--epochs", "6")
    setup.run("experiment", "submit", "-c", "local", "train.py", "--epochs", "12", "--lr", "0.03")
    setup.run("experiment", "submit", "-c", "local", "train.py", "--epochs", "12", "--lr", "0.003")
    return setup


def main_screen(setup: Setup) -> Iterator[Terminal]:
    """Show an active run with its log and GPU use, then its chart."""
    watched = setup.with_gpus()
    with watched.screens() as terminal:
        terminal.until_text("[3]")
        type_into(terminal, "/", "train", ENTER)
        terminal.until_text("Train a small convolutional network")
        type_into(terminal, ESCAPE, RUN)
        terminal.until_text("[4]")
        type_into(terminal, "5")
        # The log is full and its run has a verdict.
        terminal.until(lambda: watched.compute_on_gpu(4) and _shows(terminal, "✓ GPU", "epoch 12/"), seconds=120)
        yield terminal
        type_into(terminal, "d")
        # The axis of the chart ends at the last step.
        terminal.until(
            lambda: watched.compute_on_gpu(4) and _shows(terminal, "1 Metrics", r"step .*[3-9][05]\n"), seconds=120
        )
        yield terminal
        type_into(terminal, ESCAPE)
        terminal.until(lambda: "running" not in terminal.text(), seconds=300)


def _shows(terminal: Terminal, *patterns: str) -> bool:
    """Return True if the screen matches every regular expression."""
    return all(re.search(pattern, terminal.text()) for pattern in patterns)


def all_runs(setup: Setup) -> Iterator[Terminal]:
    """Show the runs table with charts."""
    with setup.screens() as terminal:
        terminal.until_text("[3]")
        type_into(terminal, "6")
        terminal.until_text("duration")
        terminal.settle()
        yield terminal


def run_details(setup: Setup) -> Iterator[Terminal]:
    """Show a run with its curve."""
    with setup.screens() as terminal:
        terminal.until_text("[3]")
        type_into(terminal, "6")
        terminal.until_text("duration")
        type_into(terminal, ENTER)
        terminal.until_text("step")
        terminal.settle(0.5)
        yield terminal


def comparison(setup: Setup) -> Iterator[Terminal]:
    """Show three runs side by side."""
    with setup.screens() as terminal:
        terminal.until_text("[3]")
        type_into(terminal, "6")
        terminal.until_text("duration")
        terminal.settle()
        type_into(terminal, " ", " ", " ", "c")
        terminal.until_text("arguments")
        terminal.settle()
        yield terminal


def families(setup: Setup) -> Iterator[Terminal]:
    """Show two families, and their comparison. The project and its sweep are those of docs/research-day.md."""
    page = (REPOSITORY / "docs" / "research-day.md").read_text(encoding="utf-8")
    (script,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (sweep,) = re.findall(r"^workbench-tui (experiment sweep .*)", page, re.MULTILINE)
    project = setup.project.with_name("research")
    project.mkdir()
    (project / "train.py").write_text(script, encoding="utf-8")
    research = setup._replace(project=project)
    research.run("project", "add", ".")
    research.run(*sweep.split())
    with research.screens() as terminal:
        terminal.until_text("[10]")
        type_into(terminal, "6")
        terminal.until_text("10 runs")
        for group in ("script", "target", "state", "sweep", "family"):
            terminal.send("b")
            terminal.until_text(f"by {group}")
        terminal.settle()
        type_into(terminal, "m", " ", " ")
        terminal.until(lambda: _shows(terminal, "10 marked", r"\(n = 5\)"))
        terminal.settle(0.5)
        yield terminal
        type_into(terminal, "c")
        terminal.until_text("is better by")
        terminal.settle(0.5)
        yield terminal


def gpu_ready(setup: Setup) -> Iterator[Terminal]:
    """Show the changes that a Docker target needs to use a GPU."""
    with setup.screens() as terminal:
        terminal.until_text("[3]")
        type_into(terminal, "2", "m")
        terminal.until_text("Make docker GPU-ready")
        terminal.settle()
        yield terminal


def gpus(setup: Setup) -> Iterator[Terminal]:
    """Show the GPU monitor with stand-in GPUs."""
    setup.gpus.write(
        standin.gpu(0, util=93, mem=4312, temp=71, power=68200),
        standin.gpu(1, words=standin.REST),
    )
    (setup.project / "aml_config" / "gpu-box.compute").unlink()
    with setup.with_gpus().screens() as terminal:
        terminal.until_text("[3]")
        type_into(terminal, "7")
        terminal.until_text("Tesla T4")
        for utilization in (0, 4, 35, 88, 91, 97, 64, 12, 80, 95, 96, 99, 93, 97, 95, 90, 71, 92, 96, 93):
            setup.gpus.write(
                standin.gpu(0, util=utilization, mem=4312, temp=71, power=40000 + 300 * utilization),
                standin.gpu(1, words=standin.REST),
                standin.process(os.getpid(), 0, 4290, kind="C"),
            )
            wait(terminal, 1.1)
        yield terminal


SCREENS: dict[str, Callable[[Setup], Iterator[Terminal]]] = {
    "main": main_screen,
    "all-runs": all_runs,
    "run-details": run_details,
    "comparison": comparison,
    "families": families,
    "gpu-ready": gpu_ready,
    "gpus": gpus,
}


def type_into(terminal: Terminal, *keys: str) -> None:
    """Press keys, each after the screen has settled."""
    for key in keys:
        terminal.send(key)
        terminal.settle(0.15)


def wait(terminal: Terminal, seconds: float) -> None:
    """Wait while the program draws."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        terminal.pump(0.1)


def main() -> None:
    """Make all pictures, or those that the arguments name."""
    names = sys.argv[1:] or list(SCREENS)
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="pictures-") as folder:
        setup = set_up(Path(folder))
        for name in names:
            text = svg([draw(terminal, str(setup.home)) for terminal in SCREENS[name](setup)])
            (PICTURES / f"{name}.svg").write_text(text, encoding="utf-8")
            sys.stdout.write(f"{name}.svg: {len(text) / 1000:.1f} kB\n")


if __name__ == "__main__":
    main()
