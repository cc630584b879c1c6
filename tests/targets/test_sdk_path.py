"""The Python path of scripts: the SDK first, then the existing path."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import write_project
from tests.faults.support import Workbench
from tests.targets.docker.test_container import spec as container_spec
from tests.targets.harness import LocalHarness, Script
from tui_workbench.targets.docker import container
from tui_workbench.targets.docker.container import Placement
from tui_workbench.targets.values import SDK_FOLDER, Outcome

NEVER = -1
SPEC = container_spec()
HERE = Placement(run_directory="/run", share="/share", user="1:1", sdk="/the/sdk")


def python_path(harness: LocalHarness, **variables: str) -> str:
    spec = harness.spec(Script(report=True), (), variables)
    harness.start(spec)
    assert harness.target().wait(spec, NEVER) == Outcome(0)
    found: str = harness.report(spec)["environment"]["PYTHONPATH"]
    return found


def test_local_python_path_follows_the_caller_or_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    harness = LocalHarness(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    assert python_path(harness) == SDK_FOLDER
    monkeypatch.setenv("PYTHONPATH", "/of/the/caller:/more")
    assert python_path(harness) == f"{SDK_FOLDER}:/of/the/caller:/more"
    assert python_path(harness, PYTHONPATH="src") == f"{SDK_FOLDER}:src"
    monkeypatch.setenv("PYTHONPATH", "")
    assert python_path(harness) == SDK_FOLDER  # an empty part would be the current directory


def test_container_python_path_follows_image_or_configuration() -> None:
    place = HERE._replace(python_path="/opt/app")
    assert container.variables(SPEC, HERE)["PYTHONPATH"] == "/workbench/sdk"
    assert container.variables(SPEC, place)["PYTHONPATH"] == "/workbench/sdk:/opt/app"
    configuration = SPEC.run_configuration._replace(environment_variables={"PYTHONPATH": "src"})
    spec = SPEC._replace(run_configuration=configuration)
    assert container.variables(spec, place)["PYTHONPATH"] == "/workbench/sdk:src"
    (mount,) = [mount for mount in container.mounts(SPEC, place) if mount.source == "/the/sdk"]
    assert (mount.target, mount.read_only) == ("/workbench/sdk", True)


@pytest.mark.parametrize(
    ("place", "outputs"),
    [
        (HERE, "/workbench/run/work/outputs"),
        (HERE._replace(copied=True), "/workbench/project/outputs"),
        (HERE._replace(project_root="/project"), "/workbench/run/outputs"),
    ],
)
def test_uploads_go_to_the_outputs_folder(place: Placement, outputs: str) -> None:
    assert container.variables(SPEC, place)["WORKBENCH_OUTPUTS_DIRECTORY"] == outputs


SCRIPT = """\
import os
from azureml.core.run import Run
import workbench
for step in range(5):
    workbench.log("loss", 1 / (step + 1), step)
Run.get_context().log("Accuracy", 0.9)
os.chdir("/")
workbench.upload_content("made.txt", "made")
print("epoch 1/1 val_loss 0.25", flush=True)
"""


@pytest.mark.parametrize("tracked", [True, False])
def test_run_keeps_its_metrics_and_uploads(tmp_path: Path, tracked: bool) -> None:
    workbench = Workbench(write_project(tmp_path / "project", tracked=tracked))
    (workbench.folder / "train.py").write_text(SCRIPT)
    run_id = workbench.submit("train.py").out.split()[1]
    run = workbench.folder / ".workbench" / "runs" / run_id
    stored = json.loads((run / "metrics.json").read_text())["metrics"]
    assert {name: (found["last"], found["source"]) for name, found in stored.items()} == {
        "loss": (0.2, "sdk"), "Accuracy": (0.9, "sdk"), "val_loss": (0.25, "output"),
    }  # fmt: skip
    assert workbench.info(run_id)["Accuracy"] == 0.9
    assert (run / "outputs" / "made.txt").read_text() == "made"
    assert not (workbench.folder / "outputs").exists()
