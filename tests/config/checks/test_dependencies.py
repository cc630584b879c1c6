"""Packages: CPU builds, incompatible wheels and versions, missing versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.config.documents import document, in_project, project
from tui_workbench.config.checks.findings import INFO, WARNING, Finding
from tui_workbench.config.document import Document

GPU_TARGET = "type: localdocker\nbaseDockerImage: {image}\nnvidiaDocker: true\n"
CUDA_13 = "pytorch/pytorch:2.13.0-cuda13.0-cudnn9-runtime"


def environment(*packages: str, pip: tuple[str, ...] = (), python: str = "") -> str:
    lines = [*([f"python={python}"] if python else []), *packages]
    text = "name: e\ndependencies:\n" + "".join(f"  - {line}\n" for line in lines)
    return text + ("  - pip:\n" + "".join(f"    - {line}\n" for line in pip) if pip else "")


def used_with(tmp_path: Path, target: str, text: str) -> Document:
    """Return the document of an environment that a target uses."""
    project(
        tmp_path,
        t__compute=target,
        t__runconfig="Target: t\nFramework: Python\nPrepareEnvironment: true\n",
        conda_dependencies__yml=text,
    )
    return in_project(tmp_path, "conda_dependencies.yml")


def of_code(editing: Document, code: str) -> list[Finding]:
    return [finding for finding in editing.problems() if finding.code == code]


@pytest.mark.parametrize(
    ("text", "after"),
    [
        (environment("tensorflow", python="3.5.2"), environment("tensorflow-gpu", python="3.5.2")),
        (environment("tensorflow=1.4.0"), environment("tensorflow-gpu=1.4.0")),
        (environment(pip=("tensorflow==1.14.0",)), environment(pip=("tensorflow-gpu==1.14.0",))),
        (environment(pip=("tensorflow<2",)), environment(pip=("tensorflow-gpu<2",))),
        (environment(pip=("tensorflow-cpu==2.15.0",)), environment(pip=("tensorflow==2.15.0",))),
        (environment(pip=("torch==2.1.0+cpu",)), environment(pip=("torch==2.1.0",))),
        (environment("pytorch=1.10=cpu_py39"), environment("pytorch=1.10")),
        (environment("numpy", "cpuonly"), environment("numpy")),
        (
            environment(pip=("--extra-index-url https://wheels.example.org/whl/cpu", "torch==2.1.0")),
            environment(pip=("torch==2.1.0",)),
        ),
        (
            environment(pip=("https://cntk.example.org/PythonWheel/CPU-Only/cntk-2.1-cp35-cp35m-linux_x86_64.whl",)),
            environment(pip=("https://cntk.example.org/PythonWheel/GPU/cntk-2.1-cp35-cp35m-linux_x86_64.whl",)),
        ),
        (
            environment(pip=("https://x.org/whl/cpu/torch-2.1.0%2Bcpu-cp311-cp311-linux_x86_64.whl",)),
            environment(pip=("torch==2.1.0",)),
        ),
        (environment(pip=("onnxruntime==1.17",)), environment(pip=("onnxruntime-gpu==1.17",))),
    ],
)
def test_cpu_build_is_found_with_a_fix(tmp_path: Path, text: str, after: str) -> None:
    editing = used_with(tmp_path, GPU_TARGET.format(image="mine:1"), text)
    (finding,) = of_code(editing, "cpu-build")
    assert finding.severity == WARNING
    assert finding.fix is not None
    editing.apply(finding.fix)
    assert editing.text == after
    assert of_code(editing, "cpu-build") == []


@pytest.mark.parametrize(
    "text",
    [
        environment(pip=("tensorflow==2.15.0",)),
        environment(pip=("tensorflow==1.15.0",)),
        environment(pip=("tensorflow",), python="3.11"),
        environment(pip=("torch==2.1.0",)),
        environment("pytorch=2.1=cuda118"),
        environment(pip=("--extra-index-url https://wheels.example.org/whl/cu121", "torch==2.1.0")),
        environment(pip=("tensorflow-gpu==1.4.0",), python="3.5.2"),
        environment("numpy", pip=("keras==2.1", "cpuinfo==1.0")),
    ],
)
def test_gpu_build_has_no_finding(tmp_path: Path, text: str) -> None:
    assert of_code(used_with(tmp_path, GPU_TARGET.format(image="mine:1"), text), "cpu-build") == []


def test_cpu_build_matters_only_with_a_gpu(tmp_path: Path) -> None:
    text = environment("tensorflow=1.4")
    cpu = used_with(tmp_path, "type: localdocker\nbaseDockerImage: python:3.12\n", text)
    assert of_code(cpu, "cpu-build") == []
    assert [finding.severity for finding in of_code(document(text, "conda_dependencies.yml"), "cpu-build")] == [INFO]


def test_windows_wheel_in_a_linux_container_is_reported() -> None:
    wheel = "https://cntk.example.org/PythonWheel/GPU/cntk-2.2-cp35-cp35m-win_amd64.whl"
    editing = document(environment(pip=(wheel,)), "conda_dependencies.yml")
    (finding,) = editing.problems()
    assert (finding.code, finding.line, finding.column) == ("wrong-platform", 4, 7)
    assert finding.fix is not None
    editing.apply(finding.fix)
    assert editing.text == environment(pip=(wheel.replace("win_amd64", "linux_x86_64"),))
    assert editing.problems() == []


def test_wheel_for_another_python_is_reported() -> None:
    wheel = "https://cntk.example.org/PythonWheel/GPU/cntk-2.2-cp35-cp35m-linux_x86_64.whl"
    editing = document(environment(python="3.6.4", pip=(wheel,)), "conda_dependencies.yml")
    (finding,) = editing.problems()
    assert finding.code == "wrong-python"
    assert "is for Python 3.5, but python=3.6.4 is pinned" in finding.message
    assert finding.fix is not None
    editing.apply(finding.fix)
    assert "cp36-cp36m" in editing.text
    assert editing.problems() == []
    for fine in ("x-1-py3-none-any.whl", "x-1-cp36-abi3-linux_x86_64.whl", "x-1-cp35.cp36-none-any.whl"):
        assert document(environment(python="3.6.4", pip=(f"./{fine}",)), "conda_dependencies.yml").problems() == []


@pytest.mark.parametrize(
    ("package", "python", "said"),
    [
        ("tensorflow-gpu==1.4.0", "3.7", "TensorFlow 1.4.0 supports Python 2.7 to 3.6"),
        ("torch==2.8.0", "3.8", "PyTorch 2.8.0 supports Python 3.9 to 3.13"),
        ("torch==1.0.0", "3.12", "PyTorch 1.0.0 supports Python 2.7 to 3.7"),
        ("cntk==2.7", "3.7", "CNTK 2.7 supports Python 2.7 to 3.6"),
    ],
)
def test_incompatible_python_version(package: str, python: str, said: str) -> None:
    editing = document(environment(python=python, pip=(package,)), "conda_dependencies.yml")
    (finding,) = of_code(editing, "cannot-install")
    assert said in finding.message
    assert finding.fix is not None
    assert finding.fix.is_choice
    editing.apply(finding.fix)
    assert of_code(editing, "cannot-install") == []


def test_unknown_version_has_no_finding() -> None:
    assert document(environment(python="3.14", pip=("torch==9.9.0",)), "conda_dependencies.yml").problems() == []


def test_framework_with_other_cuda_than_the_image(tmp_path: Path) -> None:
    old = used_with(tmp_path / "a", GPU_TARGET.format(image=CUDA_13), environment(pip=("tensorflow-gpu==1.4.0",)))
    (finding,) = of_code(old, "wrong-cuda")
    assert finding.message == "TensorFlow 1.4.0 needs CUDA 8.0, but the image has CUDA 13.0"
    fits = used_with(
        tmp_path / "b", GPU_TARGET.format(image="nvidia/cuda:8.0-cudnn6"), environment(pip=("tensorflow-gpu==1.4.0",))
    )
    assert of_code(fits, "wrong-cuda") == []
    brings_its_own = used_with(tmp_path / "c", GPU_TARGET.format(image=CUDA_13), environment(pip=("torch==1.5.0",)))
    assert of_code(brings_its_own, "wrong-cuda") == []


@pytest.mark.parametrize(
    ("text", "pinned"),
    [
        (environment(python="3.11", pip=("torch",)), "torch==2.8.*"),
        (environment("pytorch", python="3.8"), "pytorch=2.4"),
        (environment(pip=("tensorflow-gpu",), python="3.5.2"), "tensorflow-gpu==1.14.*"),
    ],
)
def test_large_package_without_a_version(text: str, pinned: str) -> None:
    editing = document(text, "conda_dependencies.yml")
    (finding,) = of_code(editing, "unpinned")
    assert finding.severity == WARNING
    assert finding.fix is not None
    editing.apply(finding.fix)
    assert pinned in editing.text
    assert of_code(editing, "unpinned") == []


def test_small_packages_need_no_version() -> None:
    assert (
        document(environment("numpy", "scikit-learn", pip=("keras", "requests")), "conda_dependencies.yml").problems()
        == []
    )


def test_module_of_python_is_not_a_package() -> None:
    editing = document(environment("numpy", "os", "pickle", pip=("json",)), "conda_dependencies.yml")
    assert [finding.code for finding in editing.problems()] == ["standard-library"] * 3
    for finding in reversed(editing.problems()):
        assert finding.fix is not None
        editing.apply(finding.fix)
    assert editing.get("dependencies") == ("numpy", {"pip": ()})
