"""Check that runs on a target would compute on its GPUs, from the driver to the framework.

Most failed checks name a command that fixes or explains the problem. The framework is checked in the run's own
environment, with the variables of a run, by a matrix product; nothing is installed, downloaded or left behind. If no
GPU is requested, a failed check is not an error, but no checks follow it.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from typing import Protocol

from tui_workbench.config.checks.image_names import (
    DEFAULT_AMD_IMAGE,
    DEFAULT_GPU_IMAGE,
    OLDER_DRIVER_GPU_IMAGE,
    is_gpu_image,
)
from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.model import RunSpec
from tui_workbench.core.plaintext import counted
from tui_workbench.targets.checks.checked import CheckedTarget
from tui_workbench.targets.checks.imported_frameworks import imported_frameworks
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
    CheckFailed,
    CheckResult,
    install_command,
    run_check,
)
from tui_workbench.targets.gpu import cuda_compat, vendors
from tui_workbench.targets.gpu.framework_location import (
    EnvironmentMissing,
    FrameworkLocation,
    framework_report,
    known_report,
)
from tui_workbench.targets.gpu.frameworks import ALL, Framework
from tui_workbench.targets.gpu.gpus import OLDEST_DRIVER_OF_DEFAULT_IMAGE, Gpus, gpus_of
from tui_workbench.targets.hosts.host import ConnectionLost, Host

SMALL_SHM_BYTES = 1 << 30  # in a smaller /dev/shm, data loaders with several workers fail with a bus error
_HIDDEN = frozenset(("", "-1", "none", "void", "NoDevFiles"))
_INSTALL_DRIVER = "sudo ubuntu-drivers install --gpgpu"
_ROCM_PACKAGES = "AMD describes the packages at https://rocm.docs.amd.com."
_ROCM_WHEELS = "https://download.pytorch.org/whl/rocm6.4"
_NO_FRAMEWORK = Framework("", "", "", (), (), (), 0, "")


class ContainerChecks(Protocol):
    """The checks of GPUs in containers. The type of the target implements them for its engine."""

    shared_memory_bytes: int
    """The size of `/dev/shm` in the containers of runs."""

    def runtime(self) -> CheckResult:
        """Check that containers can get GPUs. Raises CheckFailed or another WorkbenchError."""

    def gpu_container(self) -> CheckResult:
        """Check that containers of the image can use the GPUs. Raises CheckFailed or another WorkbenchError."""

    def refusal(self, error: WorkbenchError) -> WorkbenchError:
        """Return an error that explains why the engine did not start a container with GPUs."""


_PACKAGES = {"TensorFlow": "tensorflow[and-cuda]", "JAX": "jax[cuda12]"}
"""The packages with the builds of frameworks for CUDA, if they have other names than torch."""


class Preflight:
    """The GPU checks of a run configuration on its target.

    `engine` has the checks of a target with containers. `which` is ALL or ONE (see `frameworks`).
    With `only_known`, no interpreter is started, and the framework is checked only if its report is cached.
    """

    def __init__(
        self,
        target: CheckedTarget,
        spec: RunSpec,
        engine: ContainerChecks | None = None,
        which: str = ALL,
        *,
        only_known: bool = False,
    ) -> None:
        self._implementation = target
        self._spec = spec
        self._target = spec.target
        self._host = target.host
        self._engine = engine
        self._which = which
        self._only_known = only_known
        self._gpus = Gpus()
        self._python = ""  # the interpreter or the image
        self._best = _NO_FRAMEWORK

    def run(self, *, is_wanted: bool = True, is_quick: bool = False) -> Iterator[CheckResult]:
        """Yield the results one by one, up to the first failure.

        With `is_quick`, omit checks that the framework's report makes unnecessary. Raises TargetUnreachable.
        """
        engine = self._engine
        checks: dict[str, Callable[[], CheckResult]] = {
            GPU: self._driver, DEVICES: self._devices,
            **({} if engine is None or is_quick else {RUNTIME: engine.runtime, CONTAINER: engine.gpu_container}),
            FRAMEWORK: self._framework, COMPATIBILITY: self._compatibility, COMPUTES: self._computes,
            MEMORY: self._memory,
        }  # fmt: skip
        for name, check in checks.items():
            if (name == MEMORY and is_quick) or (name in (COMPATIBILITY, COMPUTES) and not self._best.name):
                continue
            result = run_check(name, check, self._host)
            is_broken = result.state == BROKEN
            yield self._unneeded(result) if is_broken and not is_wanted else result
            if is_broken:
                return

    @property
    def _is_amd(self) -> bool:
        return self._gpus.vendor is vendors.AMD

    def _unneeded(self, result: CheckResult) -> CheckResult:
        if result.name != GPU:
            return result._replace(state=WARNING, error=None)
        if self._gpus.listed:
            # The GPU works, but runs do not get it.
            return CheckResult(GPU, OK, f"{self._gpus.text}; {result.message}", result.remedy, result.command)
        return CheckResult(GPU, UNNEEDED, self._gpus.complaint or "no NVIDIA or AMD GPU, and none is requested")

    # -- the machine -------------------------------------------------------------------------------------------------

    def _driver(self) -> CheckResult:
        self._gpus = gpus_of(self._host, with_cuda=self._which == ALL)
        self._refuse_withheld()
        if self._gpus.listed:
            cuda = f", supports CUDA {self._gpus.cuda}" if self._gpus.cuda else ""
            if self._is_amd:
                if self._engine is None:  # containers get the groups of the devices
                    _refuse_closed_device(self._host, self._target.name)
            else:
                self._refuse_old_for_image()
            return CheckResult(GPU, OK, f"{'amdgpu ' if self._is_amd else ''}driver {self._gpus.driver}{cuda}")
        complaint, vendor = self._gpus.complaint, self._gpus.vendor
        if complaint and "No devices" not in complaint and "lists no GPU" not in complaint:
            raise CheckFailed(
                f"the {vendor.name} driver does not work: {complaint}",
                "Load the installed driver with the command, or restart the machine. If the error remains, "
                "reinstall the driver.",
                "sudo modprobe amdgpu" if self._is_amd and "not loaded" in complaint else "sudo reboot",
            )
        if complaint:
            raise CheckFailed(
                f"the {vendor.name} driver finds no GPU: {complaint}",
                "If the command lists a GPU, restart the machine. Otherwise, check the hardware; a container or a "
                "virtual machine needs GPU passthrough.",
                f"lspci | grep -i {vendor.name.lower()}",
            )
        if self._is_amd:
            raise CheckFailed(
                f"there is an AMD driver ({vendors.KFD}), but no {' or '.join(vendor.tools)}",
                "Install amd-smi, on Ubuntu from AMD's repository with the command shown. If the machine has an NVIDIA "
                "GPU, install the NVIDIA driver.",
                "sudo apt-get install -y amd-smi-lib",
            )
        if self._engine is None:
            _refuse_mac(self._host)
        alternative = "\nIf the machine has no GPU, choose another target."
        wants_gpus = self._engine is not None and self._target.nvidia_docker
        if wants_gpus:
            file = shlex.quote(f"{self._target.name}.compute")
            alternative = f"\nIf the machine has no GPU, run `workbench-tui config set {file} nvidiaDocker false`."
        raise CheckFailed(
            f"there is no NVIDIA driver (nvidia-smi not found){', and nvidiaDocker is true' if wants_gpus else ''}",
            f"Install the NVIDIA driver. On Ubuntu and Debian, use the command shown.{alternative}",
            install_command(self._target),
        )

    def _refuse_withheld(self) -> None:
        target, configuration = self._target, self._spec.run_configuration
        name = shlex.quote(target.name)
        if target.gpus == "0":
            raise CheckFailed(
                f"gpus of target {target.name!r} is 0, so runs get no GPU",
                "Set `gpus` to `all`, or to the number of GPUs that each run needs.",
                f"workbench-tui config set {name}.compute gpus all",
                file=target.path,
            )
        if self._engine is not None and not target.gives_gpus:
            raise CheckFailed(
                "the GPUs are not used, because nvidiaDocker is not true",
                "Set `nvidiaDocker: true`, and choose an image for GPUs. The command does both where necessary.",
                f"workbench-tui config gpu-ready {name}",
                file=target.path,
            )
        for variable in self._gpus.vendor.visible:
            visible = configuration.environment_variables.get(variable)
            if visible is not None and visible.partition(",")[0].strip() in _HIDDEN:
                file = shlex.quote(f"{configuration.name}.runconfig")
                raise CheckFailed(
                    f"{variable} is {visible!r} in {configuration.name}.runconfig, which hides every GPU",
                    "Remove the variable, or set it to the numbers of the GPUs to use.",
                    f"workbench-tui config unset {file} EnvironmentVariables.{variable}",
                    file=configuration.path,
                )

    def _refuse_old_for_image(self) -> None:
        number = self._gpus.driver.partition(".")[0]
        is_old = number.isdigit() and int(number) < OLDEST_DRIVER_OF_DEFAULT_IMAGE
        if is_old and self._engine is not None and self._target.base_docker_image == DEFAULT_GPU_IMAGE:
            file = shlex.quote(f"{self._target.name}.compute")
            raise CheckFailed(
                f"driver {self._gpus.driver} is too old for CUDA 13 in {DEFAULT_GPU_IMAGE}",
                f"Use {OLDER_DRIVER_GPU_IMAGE}, or install driver {OLDEST_DRIVER_OF_DEFAULT_IMAGE} or newer.",
                f"workbench-tui config set {file} baseDockerImage {OLDER_DRIVER_GPU_IMAGE}",
            )

    def _devices(self) -> CheckResult:
        is_sliced = any(gpu.sliced for gpu in self._gpus.listed)
        mig = "; MIG is on: a run gets one slice, whose utilization is not reported" if is_sliced else ""
        return CheckResult(DEVICES, OK, f"{self._gpus.devices}{mig}")

    # -- the framework -----------------------------------------------------------------------------------------------

    def _framework(self) -> CheckResult:
        try:
            location = self._implementation.python_environment(self._spec).framework_location()
        except EnvironmentMissing as missing:
            return CheckResult(FRAMEWORK, WARNING, f"not checked: {missing.message}", missing.remedy, missing.command)
        self._python = location.name
        if self._only_known and known_report(location, self._target, self._gpus) is None:
            return CheckResult(FRAMEWORK, WARNING, f"the framework in {self._python} is checked when the run starts")
        installed = self._installed_frameworks(location)
        if not installed:
            text = f"no known framework in {self._python} (PyTorch, TensorFlow, JAX, CNTK)"
            return CheckResult(FRAMEWORK, WARNING, text, "The GPU verdict of a run shows whether the run used the GPU.")
        relevant = list(installed)
        if self._spec.script and not self._spec.starts_jupyter:
            imported = imported_frameworks(self._spec.project_root, self._spec.script)
            relevant = [framework for framework in installed if framework.name in imported]
            if not relevant:
                names = ", ".join(framework.title for framework in installed)
                text = f"the script imports none of the frameworks in {self._python} ({names})"
                return CheckResult(FRAMEWORK, WARNING, text)
        # One framework that computes is enough.
        self._best = best = max(relevant, key=lambda framework: (framework.computed, bool(framework.cuda)))
        if not best.version:
            raise self._broken_framework(f"{best.name} cannot be loaded: {best.problem}", f"Reinstall {best.name}.")
        vendor = self._gpus.vendor
        newest = cuda_compat.newest_for(self._gpus.driver)
        versions = f" {newest} or older" if newest and not self._is_amd else ""
        remedy = f"Install a build for {vendor.platform}{versions}."
        if not best.cuda and not best.devices:
            raise self._broken_framework(f"{best.title} is a CPU build: it trains on the CPU", remedy)
        if best.cuda and best.is_for_amd != self._is_amd and not best.computed:
            other_vendor = vendors.AMD if best.is_for_amd else vendors.NVIDIA
            message = f"{best.title} is a build for {other_vendor.name} GPUs, but the machine has {vendor.name} GPUs"
            raise self._broken_framework(message, remedy)
        titles = [f"{build.title}{'' if build.cuda or build.devices else ' (CPU build)'}" for build in installed]
        return CheckResult(FRAMEWORK, OK, f"{', '.join(titles)} in {self._python}")

    def _installed_frameworks(self, location: FrameworkLocation) -> tuple[Framework, ...]:
        try:
            report = framework_report(location, self._target, self._gpus, self._which)
        except ConnectionLost as error:
            # Raises TargetUnreachable, unless only the framework hangs.
            self._host.run(["true"])
            raise self._broken_framework(error.message, error.remedy) from error
        except WorkbenchError as error:
            if self._engine is not None:
                raise self._engine.refusal(error) from error
            raise
        if report is None:
            command = f"{shlex.quote(location.name)} -c 'import sys'"
            raise CheckFailed(
                f"{location.name} is not a working Python interpreter",
                "The command shows the error. Reinstall the interpreter.",
                command,
            )
        return report.frameworks

    def _broken_framework(self, message: str, remedy: str) -> CheckFailed:
        """Return the error for a framework that does not work, with the command that fixes the problem, if known.

        The command depends on the place of installation.
        """
        name, file = shlex.quote(self._target.name), self._spec.run_configuration.path
        if self._engine is not None:
            if self._is_amd:
                command = f"workbench-tui config set {name}.compute baseDockerImage {DEFAULT_AMD_IMAGE}"
                return CheckFailed(message, remedy, command, file=file)
            # `gpu-ready` keeps an image that may contain CUDA, but this image does not work.
            is_kept = is_gpu_image(self._target.base_docker_image) is not False
            option = f" --image {DEFAULT_GPU_IMAGE}" if is_kept else ""
            return CheckFailed(message, remedy, f"workbench-tui config gpu-ready {name}{option}", file=file)
        if self._target.builds_environment:
            return CheckFailed(message, remedy, "workbench-tui config check", file=file)
        package = _PACKAGES.get(self._best.name, "torch")
        words = shlex.quote(package)
        if self._is_amd:
            if package != "torch":
                return CheckFailed(message, f"{remedy} {_ROCM_PACKAGES}", file=file)
            words += f" --index-url {_ROCM_WHEELS}"
        command = f"{shlex.quote(self._python)} -m pip install --force-reinstall {words}"
        return CheckFailed(message, remedy, command, file=file)

    def _compatibility(self) -> CheckResult:
        best, driver = self._best, self._gpus.driver
        oldest = cuda_compat.driver_for(best.cuda)
        if not best.computed and not cuda_compat.serves(driver, best.cuda):
            raise CheckFailed(
                f"{best.title} needs driver {oldest} or newer, but {driver} is installed ({cuda_compat.SOURCE})",
                f"Install a newer driver, or a build of {best.name} for an older CUDA version.",
                _INSTALL_DRIVER,
            )
        capabilities = best.capabilities or tuple(gpu.capability for gpu in self._gpus.listed)
        unsupported = [
            capability for capability in capabilities if not cuda_compat.computes_on(best.architectures, capability)
        ]
        if unsupported and not best.computed:
            raise self._broken_framework(
                f"{best.title} does not support GPUs of compute capability {unsupported[0]} "
                f"(only {' '.join(best.architectures)})",
                "Install a build that supports this GPU: a newer build for a new GPU, an older build for an old GPU.",
            )
        if not oldest:
            return CheckResult(COMPATIBILITY, OK, f"{best.title}: no known problem with driver {driver}")
        return CheckResult(COMPATIBILITY, OK, f"CUDA {best.cuda} needs driver {oldest} or newer: {driver} is installed")

    def _computes(self) -> CheckResult:
        best = self._best
        count = len(best.devices)
        if not count:
            reason = f": {best.problem}" if best.problem else ""
            raise self._unseen(
                f"{best.name} sees no GPU, but the driver lists {counted(len(self._gpus.listed), 'GPU')}{reason}"
            )
        if best.computed and (self._which != ALL or best.computed == count):
            extent = "" if self._which != ALL else " on each" if count > 1 else " on it"
            return CheckResult(
                COMPUTES, OK, f"{best.name} sees {counted(count, 'GPU')}; a matrix product{extent} was correct"
            )
        text = f"{best.name} computes on {best.computed} of {counted(count, 'GPU')}: {best.problem}"
        if best.is_busy:
            return CheckResult(
                COMPUTES,
                WARNING,
                text,
                "Another program may use the memory of a GPU. The command lists the programs.",
                self._processes_command,
            )
        remedy = "The message of the framework shows the cause. If the driver hangs, restart the machine."
        if best.computed:
            return CheckResult(COMPUTES, WARNING, text, remedy, self._processes_command)
        raise CheckFailed(text, remedy, self._processes_command)

    def _unseen(self, message: str) -> CheckFailed:
        vendor = self._gpus.vendor
        remedy = f"Check that {vendor.visible[0]} is not set, and that the {vendor.platform} libraries are installed."
        if self._best.name == "PyTorch" and self._engine is None:
            command = f"{shlex.quote(self._python)} -c 'import torch; torch.zeros(1).cuda()'"
            return CheckFailed(message, remedy, command)
        return CheckFailed(message, remedy, self._processes_command)

    @property
    def _processes_command(self) -> str:
        return "amd-smi process" if self._is_amd else "nvidia-smi"

    # -- shared memory -----------------------------------------------------------------------------------------------

    def _memory(self) -> CheckResult:
        if self._engine is not None:
            size = self._engine.shared_memory_bytes
            return CheckResult(MEMORY, OK, f"containers get a /dev/shm of up to {size >> 30} GiB")
        words = self._host.run(["sh", "-c", "df -Pk /dev/shm 2>/dev/null | tail -n 1"]).text.split()
        if len(words) < 4 or not words[1].isdigit():
            remedy = "Mount a tmpfs at /dev/shm: data loaders with workers need it."
            return CheckResult(MEMORY, WARNING, "there is no /dev/shm", remedy)
        size = int(words[1]) << 10
        if size >= SMALL_SHM_BYTES:
            return CheckResult(MEMORY, OK, f"/dev/shm has {size / (1 << 30):.1f} GiB")
        return CheckResult(
            MEMORY, WARNING, f"/dev/shm has {size >> 20} MiB: data loaders with workers may fail with a bus error",
            "Enlarge /dev/shm. If the machine is a container, start it with `--shm-size=8g`.",
            "sudo mount -o remount,size=8G /dev/shm",
        )  # fmt: skip


def _refuse_mac(host: Host) -> None:
    if host.run(["uname", "-s"]).text.strip() == "Darwin":
        raise CheckFailed(
            "this machine is a Mac: the workbench cannot measure Apple GPUs, so no run gets a GPU verdict",
            "Scripts can still use the device `mps` of PyTorch. To get a verdict, attach a machine with an NVIDIA "
            "or AMD GPU as a target, and submit the run there.",
        )


def _refuse_closed_device(host: Host, target: str) -> None:
    """Raise CheckFailed if scripts on the machine itself may not use its AMD GPUs."""
    device = vendors.KFD
    script = '[ -e "$1" ] || { echo missing; exit; }; [ -r "$1" ] && [ -w "$1" ] || echo closed'
    answer = host.run(["sh", "-c", script, "sh", device]).text.strip()
    if answer == "missing":
        raise CheckFailed(
            f"there is no {device}, so scripts cannot use the AMD GPUs",
            "Load the amdgpu driver. If the machine is a container, start it with `--device /dev/kfd --device "
            "/dev/dri`.",
            "sudo modprobe amdgpu",
        )
    if answer:
        raise CheckFailed(
            f"this user has no read and write permission for {device}, so scripts cannot use the AMD GPUs",
            "Add the user to the groups of the GPU devices, and log in again. Over SSH, close the connection too: "
            f"`workbench-tui computetarget disconnect {shlex.quote(target)}`.",
            'sudo usermod -a -G render,video "$LOGNAME"',
        )
