"""GPU requirements of targets and run configurations."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.config.documents import document, in_project, project
from tui_workbench.config.checks.findings import INFO, WARNING
from tui_workbench.config.checks.image_names import DEFAULT_GPU_IMAGE


def docker(image: str, rest: str = "", kind: str = "localdocker") -> str:
    address = "address: h\n" if kind == "remotedocker" else ""
    return f"type: {kind}\n{address}baseDockerImage: {image}\n{rest}"


def codes(text: str, name: str = "a.compute") -> list[str]:
    return [finding.code for finding in document(text, name).problems()]


@pytest.mark.parametrize("kind", ["localdocker", "remotedocker"])
def test_gpu_image_without_nvidia_docker_is_reported(kind: str) -> None:
    text = docker(DEFAULT_GPU_IMAGE, kind=kind)
    (finding,) = document(text, "a.compute").problems()
    assert (finding.code, finding.severity, finding.key) == ("gpu-unused", WARNING, "nvidiaDocker")
    assert finding.fix is not None
    editing = document(text, "a.compute")
    editing.apply(finding.fix)
    assert editing.text == text + "nvidiaDocker: true\n"
    assert editing.problems() == []


@pytest.mark.parametrize(("gpus", "found"), [("", 1), ("gpus: all\n", 1), ("gpus: [0]\n", 1), ("gpus: 2\n", 0)])
def test_reservations_need_free_gpus(gpus: str, found: int) -> None:
    text = f"type: local\n{gpus}gpuReservations: /srv/gpus\n"
    assert codes(text) == ["reservations-unused"] * found
    editing = document(text, "a.compute")
    for finding in editing.problems():
        assert finding.fix is not None
        editing.apply(finding.fix)
    assert editing.problems() == []


def test_relative_folder_of_reservations_is_an_error() -> None:
    (finding,) = document("type: local\ngpus: free\ngpuReservations: ~/gpus\n", "a.compute").problems()
    assert "a path that begins with /" in finding.message


def test_nvidia_docker_off_is_reported_at_its_line() -> None:
    (finding,) = document(docker(DEFAULT_GPU_IMAGE, "nvidiaDocker: false\n"), "a.compute").problems()
    assert (finding.code, finding.line) == ("gpu-unused", 3)


def test_gpu_image_of_a_target_with_gpus_0_is_not_reported() -> None:
    assert codes(docker(DEFAULT_GPU_IMAGE, "gpus: 0\nnvidiaDocker: false\n")) == []


@pytest.mark.parametrize(
    ("image", "better"),
    [
        ("microsoft/mmlspark:plus-0.9.9", "microsoft/mmlspark:plus-gpu-0.9.9"),
        ("python:3.12-slim", DEFAULT_GPU_IMAGE),
    ],
)
def test_nvidia_docker_needs_an_image_with_cuda(image: str, better: str) -> None:
    text = docker(image, "nvidiaDocker: true\n")
    finding = document(text, "a.compute").problems()[0]
    assert (finding.code, finding.line, finding.column) == ("gpu-image-missing", 2, 18)
    assert finding.fix is not None
    assert finding.fix.title == f"set baseDockerImage: {better}"


def test_unknown_image_has_no_finding() -> None:
    assert codes(docker("mine/train:1", "nvidiaDocker: true\n")) == []
    assert codes(docker("mine/train:1")) == []


@pytest.mark.parametrize(
    ("image", "rest", "severity"),
    [
        ("microsoft/mmlspark:0.7", "", INFO),
        ("microsoft/mmlspark", "", INFO),
        ("nvidia/cuda:8.0-cudnn6-devel-ubuntu16.04", "nvidiaDocker: true\n", WARNING),
        ("microsoft/mmlspark:plus-gpu-0.9.9", "nvidiaDocker: true\n", INFO),
    ],
)
def test_old_image_is_reported(image: str, rest: str, severity: str) -> None:
    (finding,) = (one for one in document(docker(image, rest), "a.compute").problems() if one.code == "stale-image")
    assert finding.severity == severity


@pytest.mark.parametrize(
    ("image", "is_removed"),
    [
        ("microsoft/mmlspark:plus-0.7.91", True),
        ("docker.io/microsoft/cntk:2.2-gpu-python3.5-cuda8.0-cudnn6.0", True),
        ("nvidia/cuda:8.0-cudnn6-devel-ubuntu16.04", True),
        ("nvidia/cuda:12.6.3-base-ubuntu24.04", False),
        ("registry.example.org/microsoft/mmlspark:plus-0.7.91", False),
        ("mcr.microsoft.com/cntk/release:2.7-gpu-python3.5-cuda10.0-cudnn7.3", False),
        ("tensorflow/tensorflow:1.4.0-gpu-py3", False),
    ],
)
def test_removed_image_is_reported(image: str, is_removed: bool) -> None:
    found = [one for one in document(docker(image), "a.compute").problems() if one.code == "image-removed"]
    assert [one.severity for one in found] == [INFO] * is_removed


def test_suggested_image_fits_the_packages(tmp_path: Path) -> None:
    project(
        tmp_path,
        t__compute=docker("microsoft/mmlspark:plus-0.9.9", "nvidiaDocker: true\n"),
        a__runconfig="Target: t\nFramework: Python\n",
        conda_dependencies__yml="dependencies:\n- python=3.6\n- pip:\n  - tensorflow-gpu==1.8.0\n",
    )
    editing = in_project(tmp_path, "t.compute")
    (finding,) = (one for one in editing.problems() if one.code == "gpu-image-missing")
    assert finding.fix is not None
    editing.apply(finding.fix)
    assert "tensorflow/tensorflow:1.8.0-gpu-py3" in editing.text
    (stale,) = (one for one in editing.problems() if one.code == "stale-image")
    assert (stale.severity, stale.fix) == (INFO, None)
    assert stale.remedy == "The image fits TensorFlow 1.8; a newer GPU needs a newer framework and image."


@pytest.mark.parametrize("image", ["mine/train", "mine/train:latest"])
def test_image_without_fixed_tag_is_reported(image: str) -> None:
    assert codes(docker(image)) == ["no-tag"]
    assert codes(docker(f"mine/train@sha256:{'0' * 64}")) == []


def test_missing_framework_means_spark() -> None:
    (finding,) = document("Target: x\n").problems()
    assert (finding.code, finding.severity) == ("framework-missing", WARNING)
    assert finding.fix is not None
    assert finding.fix.title == "set Framework: Python"
    assert codes("Target: x\nFramework: PySpark\n", "a.runconfig") == []


def test_pyspark_without_spark_is_a_warning(tmp_path: Path) -> None:
    files = {"a__runconfig": "Target: t\nFramework: PySpark\n", "t__compute": "type: local\n"}
    project(tmp_path / "plain", **files, **{"train.py": "import torch\n"})
    (finding,) = in_project(tmp_path / "plain", "a.runconfig").problems()
    assert (finding.code, finding.line) == ("framework-pyspark", 2)
    assert finding.fix is not None
    project(tmp_path / "spark", **files, **{"train.py": "from pyspark.sql import SparkSession\n"})
    assert in_project(tmp_path / "spark", "a.runconfig").problems() == []
    project(tmp_path / "empty", **files)
    assert in_project(tmp_path / "empty", "a.runconfig").problems() == []


def test_named_script_decides_on_spark(tmp_path: Path) -> None:
    project(
        tmp_path,
        a__runconfig="ArgumentVector: [plain.py]\nTarget: t\nFramework: PySpark\n",
        t__compute="type: local\n",
        **{"plain.py": "print()\n", "spark.py": "import pyspark\n"},
    )
    assert [finding.code for finding in in_project(tmp_path, "a.runconfig").problems()] == ["framework-pyspark"]


@pytest.mark.parametrize(
    ("target", "expected"),
    [("type: localdocker\nbaseDockerImage: i:1\n", ["not-prepared"]), ("type: local\n", [])],
)
def test_environment_that_is_not_prepared(tmp_path: Path, target: str, expected: list[str]) -> None:
    project(
        tmp_path,
        a__runconfig="Target: t\nFramework: Python\nPrepareEnvironment: false\n",
        b__runconfig="Target: t\nFramework: Python\nPrepareEnvironment: true\n",
        t__compute=target,
    )
    assert [finding.code for finding in in_project(tmp_path, "a.runconfig").problems()] == expected
    assert in_project(tmp_path, "b.runconfig").problems() == []
