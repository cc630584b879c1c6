"""Checks from the driver to a matrix product: each tests one thing and names the fix.

Drivers, GPUs and frameworks are stand-ins; the processes, containers and connections are real.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.engines import EMPTY_IMAGE, PYTHON_IMAGE, DockerEngine, docker_engine
from tests.gpu import frameworks as standins
from tests.gpu.standin import REST, Standin, gpu
from tests.machines import Machine
from tui_workbench.config.checks.image_names import DEFAULT_GPU_IMAGE
from tui_workbench.core.directories import user_cache_directory
from tui_workbench.core.model import ComputeTarget, RunConfiguration
from tui_workbench.targets.checks.preflight import Preflight
from tui_workbench.targets.checks.result import (
    BROKEN,
    COMPATIBILITY,
    COMPUTES,
    CONTAINER,
    DEVICES,
    FRAMEWORK,
    GPU,
    MEMORY,
    OK,
    RUNTIME,
    UNNEEDED,
    WARNING,
    CheckResult,
)
from tui_workbench.targets.gpu import gpus
from tui_workbench.targets.gpu.framework_location import spec_of
from tui_workbench.targets.gpu.frameworks import ONE
from tui_workbench.targets.registry import checks_for, target_for


class Here:
    """This machine as a target, with two stand-in GPUs, and stand-in frameworks in `packages`."""

    def __init__(self, folder: Path, standin: Standin) -> None:
        self.standin = standin
        standin.write(gpu(0), gpu(1, REST))
        self.packages = standin.state.with_name("packages")  # which other users can read
        self.packages.mkdir()
        (folder / "aml_config").mkdir()
        # Without the packages of the Python that these tests run in, PyTorch among them.
        self.python = folder / "python"
        self.python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
        self.python.chmod(0o755)
        self.target = ComputeTarget(
            "here", str(folder / "aml_config" / "here.compute"), "local", python_location=str(self.python), gpus="all"
        )
        self.variables = {"PYTHONPATH": str(self.packages)}

    def configuration(self, **variables: str) -> RunConfiguration:
        path = str(Path(self.target.path).with_suffix(".runconfig"))
        return RunConfiguration("here", path, "here", environment_variables={**self.variables, **variables})

    def climb(self, **variables: str) -> list[CheckResult]:
        return list(checks_for(self.target).run_gpus(spec_of(self.target, self.configuration(**variables))))

    def broken(self, **variables: str) -> CheckResult:
        """Return the last result, which must be broken; all results before it must be ok."""
        *good, last = self.climb(**variables)
        assert {result.state for result in good} <= {OK}
        assert last.state == BROKEN
        return last


@pytest.fixture
def here(tmp_path: Path, standin: Standin) -> Here:
    return Here(tmp_path, standin)


def messages(results: list[CheckResult]) -> dict[str, str]:
    return {result.name: result.message for result in results}


def test_all_checks_pass_on_a_working_machine(here: Here) -> None:
    standins.torch(here.packages, capabilities=("7.5", "7.5"))
    results = here.climb()
    said = messages(results)
    assert list(said) == [GPU, DEVICES, FRAMEWORK, COMPATIBILITY, COMPUTES, MEMORY]
    assert {result.state for result in results[:-1]} == {OK}
    assert said[GPU] == "driver 550.54, supports CUDA 12.4"
    assert said[DEVICES] == "2 x Tesla T4 (15360 MiB)"
    assert said[FRAMEWORK] == f"PyTorch 2.4.0+cu121 for CUDA 12.1 in {here.python}"
    assert said[COMPATIBILITY] == "CUDA 12.1 needs driver 525 or newer: 550.54 is installed"
    assert said[COMPUTES] == "PyTorch sees 2 GPUs; a matrix product on each was correct"
    assert "/dev/shm" in said[MEMORY]


# The driver.


def test_missing_driver_is_reported(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    result = here.broken()
    assert (result.name, result.command) == (GPU, "workbench-tui computetarget prepare here")


def test_apple_gpu_is_named(
    here: Here, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("mac")
    (folder / "uname").write_text("#!/bin/sh\necho Darwin\n")
    (folder / "uname").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    result = here.broken()
    assert "the workbench cannot measure Apple GPUs, so no run gets a GPU verdict" in result.message
    assert "Scripts can still use the device `mps` of PyTorch" in result.remedy
    _, gpus_there = checks_for(here.target._replace(gpus="")).run()
    assert (gpus_there.state, gpus_there.message) == (UNNEEDED, "no NVIDIA or AMD GPU, and none is requested")


def test_driver_without_devices_is_reported(here: Here) -> None:
    here.standin.write()
    result = here.broken()
    assert (result.name, result.message) == (GPU, "the NVIDIA driver finds no GPU: No devices were found")
    assert result.command == "lspci | grep -i nvidia"


def test_broken_driver_is_reported(here: Here) -> None:
    here.standin.write("fail Failed to initialize NVML: Driver/library version mismatch")
    result = here.broken()
    assert (result.name, result.command) == (GPU, "sudo reboot")
    assert "version mismatch" in result.message


def test_hanging_driver_is_reported(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "SECONDS", 0.3)
    here.standin.write(gpu(0), "hang")
    result = here.broken()
    assert (result.name, result.message) == (
        GPU, "the NVIDIA driver does not work: nvidia-smi did not answer within 0.3 s"
    )  # fmt: skip


def test_old_nvidia_smi_reports_fewer_fields(
    here: Here, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("old")
    (folder / "nvidia-smi").write_text(
        "#!/bin/sh\ncase $1 in\n"
        "*compute_cap*) echo 'Field \"compute_cap\" is not a valid field to query.'; exit 2 ;;\n"
        "--query*) echo 'Tesla K80, 384.81, 11441 MiB, GPU-1' ;;\n*) echo 'table' ;;\nesac\n"
    )
    (folder / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    said = messages(here.climb())
    assert (said[GPU], said[DEVICES]) == ("driver 384.81", "1 x Tesla K80 (11441 MiB)")


def test_mig_is_mentioned(here: Here) -> None:
    here.standin.write(gpu(0, mig=1))
    assert "MIG is on: a run gets one slice" in messages(here.climb())[DEVICES]


# GPUs that the project's files hide from a run.


@pytest.mark.parametrize("hidden", ["", "-1"])
def test_variable_that_hides_every_gpu_is_reported(here: Here, hidden: str) -> None:
    result = here.broken(CUDA_VISIBLE_DEVICES=hidden)
    assert result.command == "workbench-tui config unset here.runconfig EnvironmentVariables.CUDA_VISIBLE_DEVICES"


def test_target_without_gpus_is_reported(here: Here) -> None:
    here.target = here.target._replace(gpus="0")
    assert here.broken().command == "workbench-tui config set here.compute gpus all"


# The framework.


def test_missing_framework_is_a_warning(here: Here) -> None:
    results = here.climb()
    assert (results[2].name, results[2].state) == (FRAMEWORK, WARNING)
    assert [result.name for result in results] == [GPU, DEVICES, FRAMEWORK, MEMORY]


def test_cpu_build_is_reported(here: Here) -> None:
    standins.torch(here.packages, version="2.4.0+cpu", cuda=None, capabilities=())
    result = here.broken()
    assert (result.name, result.message) == (FRAMEWORK, "PyTorch 2.4.0+cpu is a CPU build: it trains on the CPU")
    assert result.command == f"{here.python} -m pip install --force-reinstall torch"
    assert "CUDA 12 or older" in result.remedy


def test_framework_that_cannot_be_loaded_is_reported(here: Here) -> None:
    standins.stand_in(here.packages, "torch", "import libcudart_10\n")
    assert here.broken().message == "PyTorch cannot be loaded: ModuleNotFoundError: No module named 'libcudart_10'"


def test_old_driver_for_the_build_is_reported(here: Here) -> None:
    standins.torch(here.packages, version="2.13.0", cuda="13.0", capabilities=(), warning="driver is too old")
    result = here.broken()
    assert result.name == COMPATIBILITY
    assert result.message == (
        "PyTorch 2.13.0 for CUDA 13.0 needs driver 580 or newer, but 550.54 is installed (NVIDIA, CUDA Compatibility)"
    )


def test_build_without_support_for_the_gpu_is_reported(here: Here) -> None:
    standins.torch(here.packages, architectures=("sm_80", "sm_90"), errors=("no kernel image is available",))
    result = here.broken()
    assert result.name == COMPATIBILITY
    assert "does not support GPUs of compute capability 7.5 (only sm_80 sm_90)" in result.message


def test_framework_without_gpus_is_reported(here: Here) -> None:
    standins.torch(here.packages, capabilities=(), warning="CUDA initialization: unknown error")
    result = here.broken()
    assert result.name == COMPUTES
    assert result.message == ("PyTorch sees no GPU, but the driver lists 2 GPUs: CUDA initialization: unknown error")
    assert "torch.zeros(1).cuda()" in result.command


def test_failed_product_is_reported(here: Here) -> None:
    standins.torch(here.packages, errors=("CUDA error: an illegal memory access was encountered",))
    result = here.broken()
    assert (result.name, result.command) == (COMPUTES, "nvidia-smi")
    assert "illegal memory access" in result.message


@pytest.mark.parametrize(
    ("errors", "remedy"),
    [
        (
            ("CUDA out of memory. Tried to allocate 2.00 MiB",),
            "Another program may use the memory of a GPU. The command lists the programs.",
        ),
        (("", "CUDA error: an illegal memory access was encountered"), "The message of the framework shows the cause."),
    ],
    ids=["full", "one of two fails"],
)
def test_unusable_gpu_is_a_warning(here: Here, errors: tuple[str, ...], remedy: str) -> None:
    standins.torch(here.packages, capabilities=("7.5",) * len(errors), errors=errors)
    computes = here.climb()[-2]
    assert (computes.name, computes.state) == (COMPUTES, WARNING)
    assert computes.remedy.startswith(remedy)


def test_only_imported_frameworks_count(here: Here, tmp_path: Path) -> None:
    standins.torch(here.packages)
    standins.jax(here.packages)
    spec = spec_of(here.target, here.configuration())._replace(script="train.py")
    for text, name in (("import jax\n", "JAX"), ("import torch\n", "PyTorch"), ("", "PyTorch")):
        (tmp_path / "train.py").write_text(text)
        said = list(checks_for(spec.target).run_gpus(spec))
        assert (said[-1].state == BROKEN) is (name == "JAX")
        assert name in messages(said)[FRAMEWORK]


def test_invalid_interpreter_is_reported(here: Here) -> None:
    here.python.write_text("#!/bin/sh\necho hello\n")
    result = here.broken()
    assert (result.name, result.message) == (FRAMEWORK, f"{here.python} is not a working Python interpreter")


# Runs that request no GPU.


def test_checks_without_gpu_request_give_remarks(here: Here) -> None:
    standins.torch(here.packages, version="2.4.0+cpu", cuda=None, capabilities=())
    target = here.target._replace(gpus="")
    climbed = list(Preflight(target_for(target), spec_of(target, here.configuration())).run(is_wanted=False))
    assert [(result.name, result.state) for result in climbed] == [(GPU, OK), (DEVICES, OK), (FRAMEWORK, WARNING)]
    here.standin.write()
    assert [(result.name, result.state) for result in list(checks_for(target).run())[1:]] == [(GPU, UNNEEDED)]


# Cached results.


def asked(here: Here) -> int:
    """Return the number of times that the framework was loaded."""
    path = here.packages / "loaded"
    return len(path.read_text()) if path.exists() else 0


@pytest.fixture
def counted(here: Here) -> Here:
    standins.torch(here.packages)
    module = here.packages / "torch" / "__init__.py"
    module.write_text(f"open({str(here.packages / 'loaded')!r}, 'a').write('x')\n" + module.read_text())
    return here


def glance(here: Here, **variables: str) -> list[CheckResult]:
    """Run the checks as before a run, which may use cached results."""
    preflight = Preflight(target_for(here.target), spec_of(here.target, here.configuration(**variables)), which=ONE)
    return list(preflight.run(is_quick=True))


def test_result_before_a_run_is_cached(counted: Here) -> None:
    first = glance(counted)
    assert [result.name for result in first] == [GPU, DEVICES, FRAMEWORK, COMPATIBILITY, COMPUTES]
    assert messages(glance(counted)) == messages(first)
    assert asked(counted) == 1


def test_full_check_asks_again_and_fills_the_cache(counted: Here) -> None:
    counted.climb()
    counted.climb()
    assert asked(counted) == 2
    glance(counted)
    assert asked(counted) == 2


@pytest.mark.parametrize("change", ["packages", "driver", "gpu", "variable"])
def test_change_invalidates_the_cache(counted: Here, change: str) -> None:
    glance(counted)
    if change == "packages":
        os.utime(counted.packages / "torch", (1, 1))
    elif change == "driver":
        counted.standin.write(gpu(0), gpu(1, REST), driver="driver 555.42\ncuda 12050")
    elif change == "gpu":
        counted.standin.write(gpu(0))
    glance(counted, **({"CUDA_DEVICE_ORDER": "PCI_BUS_ID"} if change == "variable" else {}))
    assert asked(counted) == 2


def test_uncertain_result_is_not_cached(counted: Here) -> None:
    module = (counted.packages / "torch" / "__init__.py").read_text()
    standins.torch(counted.packages, errors=("CUDA out of memory",))
    (counted.packages / "torch" / "__init__.py").write_text(module)
    glance(counted)
    glance(counted)
    assert asked(counted) == 2


def test_invalid_cache_entry_is_ignored(counted: Here) -> None:
    glance(counted)
    (entry,) = Path(user_cache_directory(), "gpu").iterdir()
    entry.write_text("{")
    glance(counted)
    assert asked(counted) == 2


def test_unknown_target_type_fails_the_check(here: Here) -> None:
    here.target = here.target._replace(type="magic")
    assert here.broken().message == "unknown target type 'magic'"


def test_secrets_are_not_passed_to_the_framework(here: Here) -> None:
    spec = spec_of(here.target, here.configuration(NVIDIA_API_KEY="hunter2", TF_FORCE_GPU_ALLOW_GROWTH="true", A="b"))
    place = target_for(here.target).python_environment(spec).framework_location()
    assert set(place.variables) == {"PYTHONPATH", "TF_FORCE_GPU_ALLOW_GROWTH"}


def test_missing_environment_is_a_warning(here: Here, tmp_path: Path) -> None:
    (tmp_path / "aml_config" / "conda_dependencies.yml").write_text("dependencies:\n  - pip:\n    - torch\n")
    here.target = here.target._replace(user_managed_environment=False, python_location=sys.executable)
    result = here.climb()[2]
    assert (result.name, result.state, result.command) == (
        FRAMEWORK,
        WARNING,
        "workbench-tui experiment prepare -c here",
    )
    assert "the environment is not built yet" in result.message


# Another machine.


def test_checks_run_on_another_machine(here: Here, gpubox: Machine, ssh_folder: Path) -> None:
    standins.torch(here.packages)
    here.target = here.target._replace(
        type="remote", address=gpubox.address, username="research", python_location="/usr/bin/python3"
    )
    variables = f"SetEnv PATH={here.standin.built.programs}:/usr/bin:/bin STANDIN_NVML_STATE={here.standin.state}"
    with gpubox.configured(variables):
        results = here.climb()
        here.standin.write()
        last = here.climb()[-1]
    assert [result.name for result in results] == [GPU, DEVICES, FRAMEWORK, COMPATIBILITY, COMPUTES, MEMORY], results[
        -1
    ]
    said = messages(results)
    assert said[FRAMEWORK] == "PyTorch 2.4.0+cu121 for CUDA 12.1 in /usr/bin/python3"
    assert said[COMPUTES] == "PyTorch sees 1 GPU; a matrix product on it was correct"
    assert (last.name, last.there) == (GPU, True)


# Containers.


@pytest.fixture
def hooked(here: Here) -> Here:
    """Make Docker on this machine the target, with GPUs for its runs."""
    here.target = here.target._replace(
        type="localdocker", base_docker_image=PYTHON_IMAGE, nvidia_docker=True, gpus="", python_location="python"
    )
    here.variables = {}
    return here


def test_checks_run_in_a_container(hooked: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "nvidia-container-runtime-hook").write_text("#!/bin/sh\nexit 0\n")
    (tools / "nvidia-container-runtime-hook").chmod(0o755)
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:{tools}")
    path = f"{tools}:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"
    with docker_engine(environment={"PATH": path}) as engine:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{engine.socket}")
        said = hooked.climb()
        assert [(result.name, result.state) for result in said] == [
            (GPU, OK), (DEVICES, OK), (RUNTIME, OK), (CONTAINER, OK), (FRAMEWORK, WARNING), (MEMORY, OK)
        ]  # fmt: skip
        with_torch(engine)
        hooked.target = hooked.target._replace(base_docker_image="tests/torch:1")
        said = hooked.climb()
        assert messages(said)[COMPUTES] == "PyTorch sees 1 GPU; a matrix product on it was correct"
        assert "tests/torch:1" in messages(said)[FRAMEWORK]
        with_torch(engine, version="2.4.0+cpu", cuda=None, capabilities=())
        result = hooked.broken()
        assert result.name == FRAMEWORK
        # By default, gpu-ready keeps an image whose name does not show whether it has CUDA.
        assert result.command == f"workbench-tui config gpu-ready here --image {DEFAULT_GPU_IMAGE}"
        assert engine.containers() == []


def with_torch(engine: DockerEngine, **facts: Any) -> None:
    """Create `tests/torch:1`: the test image with a stand-in for PyTorch."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        standins.torch(Path(folder), **facts)
        engine.docker("create", "--name", "made", PYTHON_IMAGE, "true")
        engine.docker("cp", f"{folder}/torch", "made:/usr/lib/python3/dist-packages/torch")
    engine.docker("commit", "made", "tests/torch:1")
    engine.docker("rm", "made")


def test_missing_image_is_a_warning(hooked: Here, engine: DockerEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    hooked.target = hooked.target._replace(base_docker_image="nobody/has-this:1")
    monkeypatch.setattr("tui_workbench.targets.docker.checks.TOOLKIT_PROGRAMS", ("true",))
    results = hooked.climb()
    states = {result.name: (result.state, result.command) for result in results}
    assert states[CONTAINER] == states[FRAMEWORK] == (WARNING, "workbench-tui experiment prepare -c here")


def test_container_target_without_gpus_is_reported(hooked: Here, engine: DockerEngine) -> None:
    hooked.target = hooked.target._replace(nvidia_docker=False, base_docker_image=EMPTY_IMAGE)
    result = hooked.broken()
    assert (result.name, result.command) == (GPU, "workbench-tui config gpu-ready here")
