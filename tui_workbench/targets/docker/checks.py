"""Checks of a Docker engine: permission, version, disk space, and GPUs in containers.

The GPU check starts a container of the target's image and removes it. It pulls no image.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.model import ComputeTarget
from tui_workbench.targets.checks.check_machine import clean_command, disk, require_writable
from tui_workbench.targets.checks.ladder import Check, Checks
from tui_workbench.targets.checks.result import (
    CONTAINER,
    DISK,
    DOCKER,
    ENGINE,
    OK,
    RUNTIME,
    WARNING,
    CheckFailed,
    CheckResult,
    install_command,
)
from tui_workbench.targets.docker.container import SHM_BYTES, start_failure
from tui_workbench.targets.docker.docker_socket import EngineOutOfReach, docker_socket
from tui_workbench.targets.docker.engine import Engine, EngineRefused, Refusal
from tui_workbench.targets.docker.engine_answers import EngineFacts
from tui_workbench.targets.docker.gpu_access import DRI, GpuAccess, gpu_access
from tui_workbench.targets.docker.image_probe import probe
from tui_workbench.targets.gpu.vendors import AMD, KFD
from tui_workbench.targets.hosts.host import Host

OLDEST_ENGINE = (19, 3)
OLDEST_PODMAN = (4, 0)
"""The first version with `docker run --gpus`."""

TOOLKIT_PROGRAMS = ("nvidia-container-runtime-hook", "nvidia-container-toolkit", "nvidia-ctk")
"""Programs of the NVIDIA Container Toolkit. One of them on the PATH shows that the toolkit is installed."""


class EngineChecks:
    """The checks of one engine, in this order: docker, engine, disk, runtime, gpu_container."""

    shared_memory_bytes = SHM_BYTES
    """The size of `/dev/shm` in the containers of runs."""

    def __init__(self, target: ComputeTarget, host: Host) -> None:
        self._target = target
        self._host = host
        self._is_proved = False

    @cached_property
    def connected(self) -> Engine:
        """The engine. Raises CheckFailed or another WorkbenchError."""
        try:
            return Engine(docker_socket(self._host), self._host.label, self._host.ssh_words)
        except EngineOutOfReach as error:
            raise self._out_of_reach(error) from error

    @cached_property
    def _access(self) -> GpuAccess:
        return gpu_access(self._host)

    @cached_property
    def _facts(self) -> EngineFacts:
        return self.connected.facts()

    def docker(self) -> CheckResult:
        """Check that the socket exists and this user may use it. Raises CheckFailed or another WorkbenchError."""
        self.connected.facts()
        return CheckResult(DOCKER, OK, "the engine answers, and this user may use it")

    def engine(self) -> CheckResult:
        """Check the version and platform of the engine. Raises CheckFailed or another WorkbenchError."""
        return check_version(self._facts, is_podman=self.connected.is_podman())

    def disk(self) -> CheckResult:
        """Check the free space for images and for `~/.workbench-tui`, and that files can be written there.

        Raises CheckFailed or another WorkbenchError.
        """
        folders = list(dict.fromkeys((self._facts.root, self._host.home())))
        remedy = "Free some space: a CUDA image takes 7 GB to 15 GB, and twice that while it is unpacked."
        check_result = disk(self._host, folders, clean_command(self._target), remedy)
        if not self._host.is_local:
            require_writable(self._target, self._host)
        return check_result

    def runtime(self) -> CheckResult:
        """Check that containers can get GPUs, with the NVIDIA Container Toolkit or the device files of AMD.

        Raises CheckFailed or another WorkbenchError.
        """
        if self._access.vendor is AMD:
            if self._host.run(["sh", "-c", f"[ -e {KFD} ] && [ -d {DRI} ]"]).code == 0:
                return CheckResult(RUNTIME, OK, f"containers get {KFD} and {DRI}; AMD GPUs need no other runtime")
            raise CheckFailed(
                f"{KFD} or {DRI} is missing, so containers get no GPU",
                "Load the amdgpu driver.",
                "sudo modprobe amdgpu",
            )
        lookups = " ".join(f"command -v {tool} ||" for tool in TOOLKIT_PROGRAMS)
        has_toolkit = self._host.run(["sh", "-c", f"PATH=$PATH:/usr/sbin:/sbin; {lookups} false"]).code == 0
        if has_toolkit or "nvidia" in self._facts.runtimes:
            return CheckResult(RUNTIME, OK, "the NVIDIA Container Toolkit is installed")
        if self._in_a_container():
            return CheckResult(
                RUNTIME, OK, "a container can use the GPUs; the NVIDIA Container Toolkit is not on the PATH"
            )
        raise self._no_toolkit("the NVIDIA Container Toolkit is not installed")

    def gpu_container(self) -> CheckResult:
        """Start a container of the target's image with GPUs; warn if the engine does not have the image.

        Raises CheckFailed or another WorkbenchError.
        """
        if self._in_a_container():
            return CheckResult(CONTAINER, OK, "a container can use the GPUs")
        message = f"not checked: the engine does not have the image {self._target.base_docker_image} yet"
        command = f"workbench-tui experiment prepare -c {shlex.quote(self._target.name)}"
        return CheckResult(
            CONTAINER, WARNING, message, "The first run pulls the image. To pull it now, use the command.", command
        )

    def _out_of_reach(self, error: EngineOutOfReach) -> CheckFailed:
        there = not self._host.is_local
        if error.is_missing:
            return CheckFailed(
                error.message,
                f"{error.remedy} On Ubuntu and Debian, use the command shown.",
                install_command(self._target),
            )
        if not error.group:
            start = "Start the engine (needs admin rights)." if error.command else error.remedy
            return CheckFailed(error.message, start, error.command)
        # With a user name, `id` prints the current groups of the user, not those of this login.
        groups = self._host.run(["sh", "-c", 'id -nG "$(id -un)"']).text.split()
        reconnect = f"workbench-tui computetarget disconnect {shlex.quote(self._target.name)}"
        if error.group not in groups:
            login = f"close the connection, so that the next command logs in again: `{reconnect}`"
            join = "Add the user to the group (needs admin rights). Then "
            return CheckFailed(error.message, f"{join}{login if there else 'log out and log in again'}.", error.command)
        disconnect = "Close the connection, so that the next command logs in again. Runs continue."
        logout = "Log out and log in again. Or run the command, and start the workbench in the shell that it opens."
        return CheckFailed(
            f"the user was added to the group {error.group} after this login",
            disconnect if there else logout,
            reconnect if there else f"newgrp {error.group}",
        )

    def _in_a_container(self) -> bool:
        """Start a container with the target's GPUs, and return True if it can use them; False if the image is missing.

        Raises CheckFailed if the container cannot use the GPUs.
        """
        if self._is_proved:
            return True
        engine = self.connected
        image = engine.image(self._target.base_docker_image)
        if image is None:
            return False
        gpus = self._access.host_config(self._target.named_gpus)
        try:
            output, code = probe(engine, image.id, self._access.check, {"HOME": "/tmp"}, gpus)
        except EngineRefused as refused:
            # The engine adds the GPUs before it looks for the program, so the GPUs work.
            if refused.kind != Refusal.NO_PROGRAM:
                raise self.refusal(refused) from refused
            code = 0
        if code:
            message = " ".join(output.decode("utf-8", "replace").split()) or f"exit code {code}"
            raise CheckFailed(
                f"a container sees no GPU: {message}",
                "Restart Docker. This is necessary after each update of the driver or of the container toolkit.",
                "sudo systemctl restart docker",
            )
        self._is_proved = True
        return True

    def _no_toolkit(self, message: str) -> CheckFailed:
        return CheckFailed(
            message,
            "Install the toolkit: "
            "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html. "
            "On Ubuntu and Debian, use the command shown.",
            install_command(self._target),
        )

    def refusal(self, error: WorkbenchError) -> WorkbenchError:
        """Return an error that explains why the engine did not start a container with GPUs.

        Errors that are not from the engine are returned unchanged.
        """
        if not isinstance(error, EngineRefused):
            return error
        message, remedy = start_failure(error, host=self._host.label, image=self._target.base_docker_image)
        if error.kind == Refusal.NO_NVIDIA_RUNTIME:
            return self._no_toolkit(message)
        return CheckFailed(message, remedy, "nvidia-smi" if error.kind == Refusal.NVIDIA_RUNTIME else "")


class DockerChecks(Checks):
    """The checks of `type: localdocker` and `type: remotedocker`."""

    container_checks: ClassVar[tuple[str, ...]] = (RUNTIME, CONTAINER)

    @cached_property
    def _engine(self) -> EngineChecks:
        return EngineChecks(self.target, self.host)

    def of_type(self) -> Sequence[Check]:
        engine = Check(ENGINE, lambda: self._engine.engine())
        return (*self.before_gpus(), engine, Check(DISK, lambda: self._engine.disk()))

    def before_gpus(self) -> Sequence[Check]:
        return (Check(DOCKER, lambda: self._engine.docker()),)

    def containers(self) -> EngineChecks:
        return self._engine

    @property
    def wants_gpus(self) -> bool:
        return self.target.gives_gpus


def check_version(facts: EngineFacts, *, is_podman: bool = False) -> CheckResult:
    """Check the version and platform of an engine. Raises CheckFailed."""
    if facts.os_type != "linux":
        raise CheckFailed(
            "the engine runs Windows containers", "Choose `Switch to Linux containers` in the menu of Docker Desktop."
        )
    numbers = tuple(int(number) for number in re.findall(r"\d+", facts.version)[:2])
    if is_podman:
        if numbers and numbers < OLDEST_PODMAN:
            message = f"podman {facts.version} is too old: the workbench needs 4.0 or newer"
            raise CheckFailed(message, "Install a newer podman: https://podman.io/docs/installation")
        return CheckResult(ENGINE, OK, f"podman {facts.version} for {facts.architecture}{_rootless(facts)}")
    if numbers and numbers < OLDEST_ENGINE:
        command = "curl -fsSL https://get.docker.com | sudo sh"
        raise CheckFailed(
            f"Docker Engine {facts.version} is too old: GPUs need 19.03 or newer",
            "Install a current Docker Engine: https://docs.docker.com/engine/install/",
            command,
        )
    return CheckResult(ENGINE, OK, f"Docker {facts.version} for {facts.architecture}{_rootless(facts)}")


def _rootless(facts: EngineFacts) -> str:
    return ", rootless" if facts.rootless else ""
