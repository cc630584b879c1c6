"""The five edits of the GPU guide of Azure ML Workbench, by keyboard and in one step.

The guide changed by hand these parts of the files that `attach` had written: the image, nvidiaDocker, the framework,
PrepareEnvironment, and a dependency. `KEYS` is the number of key presses for this.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.terminal.tmux import Tmux, workbench

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ATTACHED = {
    "myvm.compute": """\
address: 10.0.0.7
baseDockerImage: microsoft/mmlspark:plus-0.9.9
nativeSharedDirectory: ~/.azureml/share/
password: AzureMlSecret=myvm#me#00112233445566778899aabbccddeeff
sharedVolumes: true
type: remotedocker
username: me
""",
    "myvm.runconfig": """\
ArgumentVector:
- $file
CondaDependenciesFile: aml_config/conda_dependencies.yml
EnvironmentVariables: null
Framework: PySpark
PrepareEnvironment: false
SparkDependenciesFile: aml_config/spark_dependencies.yml
Target: myvm
TrackedRun: true
UseSampling: true
""",
    "conda_dependencies.yml": """\
# What the project needs.
name: project_environment
dependencies:
  - python=3.5.2
  - pip:
    - tensorflow==1.4.0   # the CPU build
""",
}

READY = {
    "myvm.compute": ATTACHED["myvm.compute"]
    .replace("plus-0.9.9", "plus-gpu-0.9.9")
    .replace(
        "nativeSharedDirectory: ~/.azureml/share/\n", "nativeSharedDirectory: ~/.azureml/share/\nnvidiaDocker: true\n"
    ),
    "myvm.runconfig": ATTACHED["myvm.runconfig"]
    .replace("PySpark", "Python")
    .replace("Environment: false", "Environment: true"),
    "conda_dependencies.yml": ATTACHED["conda_dependencies.yml"].replace("tensorflow==", "tensorflow-gpu=="),
}

MOST_KEYS_BY_HAND, MOST_KEYS_IN_ONE_STEP = 70, 10


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "guide" / "aml_config"
    folder.mkdir(parents=True)
    for name, text in ATTACHED.items():
        (folder / name).write_text(text)
    (folder / "spark_dependencies.yml").write_text("packages: []\n")
    (folder.parent / "train.py").write_text("import tensorflow\n")
    return folder.parent


class Typist:
    """A terminal that counts key presses."""

    def __init__(self, terminal: Tmux) -> None:
        self.terminal = terminal
        self.keys = 0

    def press(self, *keys: str) -> None:
        self.keys += len(keys)
        self.terminal.press(*keys)

    def see(self, *texts: str) -> None:
        self.terminal.until_text(*texts)

    def gone(self, text: str) -> None:
        self.terminal.until(lambda: text not in self.terminal.text())


@pytest.fixture
def typist(root: Path, home: Path, request: pytest.FixtureRequest) -> Iterator[Typist]:
    name = f"{os.getpid()}-{request.node.name}"
    with Tmux(workbench(str(root)), size=(120, 36), name=name, environment={"HOME": str(home)}) as terminal:
        terminal.until_text("1 Files", "myvm.compute", "unchecked", "No runs yet.")
        yield Typist(terminal)


def files(root: Path) -> dict[str, str]:
    return {name: (root / "aml_config" / name).read_text() for name in ATTACHED}


@pytest.mark.tmux
def test_five_steps_by_keyboard(typist: Typist, root: Path) -> None:
    typist.press("/", *"vm.c", "Enter")
    typist.see("3 myvm.compute", "baseDockerImage")
    typist.press("Down", "Enter")
    typist.see("plus-gpu-0.9.9")
    typist.press(*"gpu-0.9", "Down", "Enter")
    typist.see("▲ the image has CUDA")
    typist.press("F8")
    typist.see("f fix")
    typist.press("f")
    typist.see("● on")
    typist.press("C-s")
    typist.see("Saved.")
    typist.press("1", "/", *"vm.r", "Enter")
    typist.see("myvm.runconfig", "▲ `Framework` is PySpark", "▲ `PrepareEnvironment` is false")
    for _ in range(2):
        typist.press("F8")
        typist.see("f fix")
        typist.press("f")
        typist.gone("f fix")
    typist.press("C-s")
    typist.see("Saved.")
    typist.press("1", "/", *"conda", "Enter")
    typist.see("▲ `tensorflow` 1.x is a CPU build")
    typist.press("F8")
    typist.see("f fix")
    typist.press("f")
    typist.see("tensorflow-gpu==1.4.0")
    typist.press("C-s")
    typist.see("Saved.")
    assert files(root) == READY
    assert typist.keys <= MOST_KEYS_BY_HAND
    print(f"keys for the five steps: {typist.keys}")


@pytest.mark.tmux
def test_gpu_ready_in_one_step(typist: Typist, root: Path) -> None:
    typist.press("2")
    typist.see("m Make GPU-ready")
    typist.press("m")
    typist.see("Make myvm GPU-ready", "[✓] nvidiaDocker: true")

    def choice() -> str:
        return next((line for line in typist.terminal.lines() if " ›" in line), "")

    while "plus-gpu-0.9.9 ›" not in (before := choice()):
        typist.press("Right")
        typist.terminal.until(lambda before=before: choice() not in ("", before))  # type: ignore[misc]
    typist.see("+ baseDockerImage: microsoft/mmlspark:plus-gpu-0.9.9")
    typist.press("Enter")
    typist.see("Done: make myvm GPU-ready")
    assert files(root) == READY
    assert typist.keys <= MOST_KEYS_IN_ONE_STEP
    print(f"keys in one step: {typist.keys}")
