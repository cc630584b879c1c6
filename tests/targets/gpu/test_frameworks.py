"""Reports of frameworks about GPUs, each from a separate process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.support import until
from tests.gpu import frameworks as standins
from tui_workbench.targets.gpu.frameworks import (
    ALL,
    ALONE,
    LAUNCH,
    ONE,
    PROGRAM,
    WATCHED,
    Framework,
    FrameworkReport,
    from_json,
    parse_report,
    to_json,
)

BARE = Framework("PyTorch", "2.4.0+cu121", "12.1", ("Tesla T4",), ("7.5",), (), 1, "")


def ask(folder: Path, which: str = ALL, seconds: str = "60") -> FrameworkReport:
    """Return the report of a Python with only these modules."""
    command = [sys.executable, "-S", "-c", LAUNCH, PROGRAM, seconds, which, ALONE]
    done = subprocess.run(command, env={"PYTHONPATH": str(folder)}, stdout=subprocess.PIPE, cwd="/", check=True)
    told = parse_report(done.stdout)
    assert told is not None
    return told


def test_python_without_frameworks_reports_none(tmp_path: Path) -> None:
    told = ask(tmp_path)
    assert told.frameworks == ()
    assert told.version == ".".join(map(str, sys.version_info[:3]))


def test_framework_reports_its_build_and_gpus(tmp_path: Path) -> None:
    standins.torch(tmp_path, capabilities=("7.5", "9.0"))
    (found,) = ask(tmp_path).frameworks
    architectures = ("sm_70", "sm_75", "sm_90", "compute_90")
    assert found == Framework(
        "PyTorch", "2.4.0+cu121", "12.1", ("Tesla T4",) * 2, ("7.5", "9.0"), architectures, 2, ""
    )  # fmt: skip
    assert found.title == "PyTorch 2.4.0+cu121 for CUDA 12.1"


def test_one_product_needs_only_one_working_gpu(tmp_path: Path) -> None:
    standins.torch(tmp_path, capabilities=("7.5", "7.5", "7.5"), errors=("CUDA out of memory",))
    (found,) = ask(tmp_path, ONE).frameworks
    assert (found.computed, found.problem) == (1, "")
    (found,) = ask(tmp_path, ALL).frameworks
    assert (found.computed, found.problem, found.is_busy) == (2, "GPU 0: CUDA out of memory", True)


def test_framework_error_is_quoted(tmp_path: Path) -> None:
    standins.torch(tmp_path, capabilities=(), warning="The NVIDIA driver on your system is too old (found 11040).")
    (found,) = ask(tmp_path).frameworks
    assert (found.devices, found.computed) == ((), 0)
    assert found.problem == "The NVIDIA driver on your system is too old (found 11040)."


def test_crashed_framework_does_not_affect_others(tmp_path: Path) -> None:
    standins.torch(tmp_path, dies=True)
    standins.jax(tmp_path)
    standins.stand_in(tmp_path, "cntk", "import libcudart_10\n")
    standins.tensorflow(tmp_path)
    found = {each.name: each for each in ask(tmp_path).frameworks}
    assert found["PyTorch"].problem == "it ended with exit code 139"
    assert found["CNTK"].problem == "ModuleNotFoundError: No module named 'libcudart_10'"
    assert found["JAX"].problem.startswith("Unknown backend: 'gpu' requested")
    assert (found["JAX"].version, found["JAX"].cuda) == ("0.4.30", "")
    tensorflow = found["TensorFlow"]
    assert (tensorflow.cuda, tensorflow.devices, tensorflow.computed) == ("12.3", ("Tesla T4",), 1)
    assert tensorflow.architectures == ("sm_75", "compute_90")


def test_hanging_framework_times_out(tmp_path: Path) -> None:
    standins.stand_in(tmp_path, "torch", "import time; time.sleep(600)")
    (found,) = ask(tmp_path, seconds="0.3").frameworks
    assert found.problem == "it did not answer within 0.3 s"


def test_program_ends_with_its_input(tmp_path: Path) -> None:
    child = tmp_path / "child"
    standins.stand_in(
        tmp_path, "torch", f"import os, time; open({str(child)!r}, 'w').write('%d\\n' % os.getpid()); time.sleep(600)"
    )
    command = [sys.executable, "-S", "-c", LAUNCH, PROGRAM, "60", ALL, WATCHED]
    environment = {"PYTHONPATH": str(tmp_path)}
    asking = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/")
    until(lambda: child.exists() and child.read_text().endswith("\n"), "the framework's process")
    asking.communicate()
    assert asking.returncode == 1
    until(lambda: not Path(f"/proc/{int(child.read_text())}").exists(), "its end")


def test_cntk_is_checked_with_its_api(tmp_path: Path) -> None:
    standins.cntk(tmp_path)
    (found,) = ask(tmp_path).frameworks
    assert (found.devices, found.capabilities, found.computed, found.title) == (("Tesla K80",), ("3.7",), 1, "CNTK 2.7")


@pytest.mark.train
def test_real_pytorch_without_cuda_is_a_cpu_build() -> None:
    done = subprocess.run([sys.executable, "-c", LAUNCH, PROGRAM, "60", ALL, ALONE], stdout=subprocess.PIPE, check=True)
    told = parse_report(done.stdout)
    assert told is not None
    found = next(each for each in told.frameworks if each.name == "PyTorch")
    if found.cuda:
        pytest.skip("PyTorch is installed here for CUDA")
    assert (found.devices, found.computed, found.problem) == ((), 0, "")
    assert found.version


def test_report_has_paths_with_modification_times(tmp_path: Path) -> None:
    standins.jax(tmp_path)
    assert dict(ask(tmp_path).paths) == {
        str(path): int(path.stat().st_mtime) for path in (tmp_path, tmp_path / "jax")
    }  # fmt: skip


@pytest.mark.parametrize(
    "output", [b"", b"Traceback", b"workbench-gpu:", b"workbench-gpu:[]", b'workbench-gpu:{"python": 1}']
)
def test_invalid_output_has_no_report(output: bytes) -> None:
    assert parse_report(output) is None


def test_report_survives_json() -> None:
    told = FrameworkReport("/usr/bin/python3", "3.11.2", (BARE,), (("/usr/lib", 7),))
    assert from_json(to_json(told)) == told
