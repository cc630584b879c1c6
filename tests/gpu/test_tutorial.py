"""The tutorial works: every block of commands in it, and in the README, is run in a real shell.

If a block is not run, the page itself states the reason. The steps on a GPU machine use a real machine, a real engine
and a real SSH connection; its GPU, the image and the framework in it are stand-ins.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.conftest import REPOSITORY, open_folder, require
from tests.engines import PYTHON_IMAGE, DockerEngine, NvidiaStandIn, load_images
from tests.gpu import frameworks
from tests.gpu.standin import REST, Built, Standin, gpu, process
from tests.machines import Machine, machine
from tests.terminal.tmux import Tmux, workbench
from tests.waiting import wait_until
from tui_workbench.config.checks.image_names import DEFAULT_GPU_IMAGE
from tui_workbench.runs.gpu.run_verdict import brief_of

if TYPE_CHECKING:
    from collections.abc import Iterator

TUTORIAL = REPOSITORY / "docs" / "tutorial.md"
README = REPOSITORY / "README.md"

TRAIN = """
import os, subprocess, sys, time
def load():
    import torch  # not in the image of the test; `config gpu-ready` looks for such a module
print("name: Tesla T4", flush=True)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600) # computes"])
while not os.path.exists("/azureml-share/enough"):
    time.sleep(0.05)
child.kill()
print("test accuracy 0.9")
"""
"""Replaces the training on the GPU machine; it computes until the test ends it."""

DRIVER = "driver 580.65\ncuda 13000"
DEPENDENCIES = "name: project_environment\ndependencies: []\n"


class Block(NamedTuple):
    """Commands of a page, and where they run: `here`, `gpubox`, or the reason why they are not run."""

    mark: str
    commands: str


def blocks(page: Path) -> list[Block]:
    """Return the shell blocks of a page, each with the remark before it."""
    text = page.read_text(encoding="utf-8")
    found = re.findall(r"(?:<!-- ((?:not )?tested: [^\n]*) -->\n)?```sh\n(.*?)```", text, re.DOTALL)
    return [Block(mark, commands) for mark, commands in found]


class Shell:
    """A shell that keeps its current folder between commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.said = ""

    def type(self, commands: str) -> str:
        """Run the commands and return their output; fail if a command fails."""
        reader, writer = os.pipe()
        with os.fdopen(reader) as place:
            done = subprocess.run(
                [require("bash"), "-e", "-c", f"{commands}\npwd >&{writer}"],
                cwd=self.folder,
                env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
                pass_fds=(writer,),
            )
            os.close(writer)
            assert done.returncode == 0, f"{commands}\n{done.stdout}"
            self.folder = Path(place.read().strip())
        self.said += done.stdout
        return done.stdout


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.mark.parametrize("page", [README, TUTORIAL], ids=lambda page: page.name)
def test_every_block_of_the_tutorial_is_tested(page: Path) -> None:
    found = blocks(page)
    assert found
    for block in found:
        assert re.match(r"tested: (here|gpubox)$|not tested: \w.{15,}", block.mark), block.commands


def test_readme_claims_are_in_the_tutorial() -> None:
    typed = {line for block in blocks(TUTORIAL) for line in block.commands.splitlines()}
    shown = [line for block in blocks(README) if block.mark == "tested: here" for line in block.commands.splitlines()]
    assert len(shown) > 3
    assert set(shown) <= typed


@pytest.mark.train
def test_tutorial_steps_on_this_machine(shell: Shell) -> None:
    for block in blocks(TUTORIAL):
        if block.mark == "tested: here":
            shell.type(block.commands)
    assert "ok        python" in shell.said
    assert "test accuracy 0.9" in shell.said
    assert (shell.folder.parent / "results" / "outputs" / "model.pt").is_file()


# -- on a machine with a stand-in GPU --------------------------------------------------------------------------------


class GpuBox:
    """Another machine with an engine, an image that contains a stand-in framework, and a stand-in GPU."""

    def __init__(self, box: Machine, engine: DockerEngine, gpus: Standin) -> None:
        self.box, self.engine, self.gpus = box, engine, gpus
        self.share = box.home() / ".azureml" / "share" / "my-digits"

    def show_what_computes(self, root: Path) -> None:
        """Simulate GPU work of the run's process until the run's samples prove it."""
        wait_until(lambda: self._computing())
        self.gpus.write(gpu(0, util=80), process(self._computing()[0], 0, 4300), driver=DRIVER)
        runs = root / ".workbench" / "runs"
        wait_until(lambda: any(brief_of(str(path)).get("verdict") == "proven" for path in runs.iterdir()))
        self.share.joinpath("enough").touch()

    def _computing(self) -> list[int]:
        rows = [
            row
            for name in self.engine.containers()
            for row in self.engine.docker("top", name, "-eo", "pid,args", check=False).splitlines()
        ]
        return [int(row.split()[0]) for row in rows if "# computes" in row]


@pytest.fixture(scope="module")
def engine_elsewhere(key: Path) -> Iterator[tuple[Machine, DockerEngine]]:
    """Another machine, and its engine, which can give containers GPUs."""
    with open_folder() as folder, machine("gpubox", folder, key) as box:
        (folder / "hook").mkdir()
        hook = NvidiaStandIn(folder / "hook")
        engine = DockerEngine(folder / "docker", machine=box, environment=hook.environment)
        engine.start()
        try:
            load_images(engine)
            image_with_framework(engine, folder)
            yield box, engine
        finally:
            engine.destroy()


@pytest.fixture
def gpu_machine(
    engine_elsewhere: tuple[Machine, DockerEngine],
    standin: Standin,
    standin_parts: Built,
    home: Path,
    connections: Path,
    key: Path,
) -> Iterator[GpuBox]:
    box, engine = engine_elsewhere
    (home / ".ssh").mkdir(mode=0o700)
    shutil.copy(key, home / ".ssh" / "id_ed25519")
    (home / ".ssh" / "known_hosts").write_text(box.known_hosts_line)
    shutil.copytree(standin_parts.programs, box.folder / "bin", dirs_exist_ok=True)
    standin.state = box.folder / "gpus"
    standin.write(gpu(0, REST), driver=DRIVER)
    with box.configured(f"SetEnv PATH={box.folder / 'bin'}:/usr/bin:/bin STANDIN_NVML_STATE={standin.state}"):
        yield GpuBox(box, engine, standin)
    shutil.rmtree(box.home() / ".azureml", ignore_errors=True)


def image_with_framework(engine: DockerEngine, folder: Path) -> None:
    """Create the image that `attach` chooses for a GPU: the test image with a framework that finds a GPU."""
    packages = folder / "framework"
    packages.mkdir()
    frameworks.torch(packages, capabilities=("7.5",))
    engine.docker("create", "--name", "made", PYTHON_IMAGE)
    engine.docker("cp", f"{packages}/.", "made:/usr/lib/python3/dist-packages/")
    engine.docker("commit", "made", DEFAULT_GPU_IMAGE)
    engine.docker("rm", "made")


@pytest.fixture
def guide(shell: Shell) -> Path:
    """Return the project of step 1, with a training script that the test can end."""
    shell.type("workbench-tui project create my-digits --template digits; cd my-digits")
    (shell.folder / "train.py").write_text(TRAIN)
    (shell.folder / "aml_config" / "conda_dependencies.yml").write_text(DEPENDENCIES)
    return shell.folder


def test_tutorial_steps_on_a_gpu_machine(shell: Shell, guide: Path, gpu_machine: GpuBox) -> None:
    shows = threading.Thread(target=gpu_machine.show_what_computes, args=(guide,))
    shows.start()
    for block in blocks(TUTORIAL):
        if block.mark == "tested: gpubox":
            said = shell.type(block.commands.replace("gpu.example.org", gpu_machine.box.address))
            if "--query gpu" in block.commands:
                shows.join()
                assert json.JSONDecoder().raw_decode(said)[0]["verdict"] == "proven"
    for text in (
        "gpubox is attached. Run a script: workbench-tui experiment submit -c gpubox SCRIPT",
        "gpubox is already GPU-ready",
        "PyTorch sees 1 GPU; a matrix product on it was correct",
        "name: Tesla T4",
        "GPU proven: its processes computed on a GPU",
        "moved to the trash: aml_config/gpubox.compute",
    ):
        assert text in shell.said, shell.said


def test_tutorial_steps_in_the_screens(guide: Path, gpu_machine: GpuBox, home: Path) -> None:
    environment = {name: os.environ[name] for name in ("HOME", "XDG_RUNTIME_DIR", "PATH")}
    with Tmux(
        workbench(str(guide)), size=(120, 36), name=f"tutorial-{os.getpid()}", environment=environment
    ) as screens:
        screens.until_text("2 Compute targets", "gpu-box", "No runs yet.")
        screens.press("2", "a")
        screens.until_text("Attach a machine", "Docker over SSH")
        screens.press(*"gpubox", "Down", *gpu_machine.box.address, "Down", *"research", "Enter")
        screens.until_text("gpubox is ready.", "a matrix product on it was correct")
        screens.press("Enter")
        screens.until(lambda: "Attach a machine" not in screens.text())
        screens.press("m")
        screens.until_text("gpubox is already GPU-ready.")
        screens.press("Escape")
        screens.until(lambda: "GPU-ready." not in screens.text())
        screens.press("C-r")
        screens.until_text("4 Log", "name: Tesla T4")
        gpu_machine.show_what_computes(guide)
        screens.until_text("test accuracy 0.9", "completed", "✓ GPU")
        screens.press("5", "d")
        screens.until_text("7 GPU", "✓ GPU proven", "GPU 0 Tesla T4, peak 4.2 GiB")
