"""Checks of a Docker engine: reachable and allowed, new enough, room for images, GPUs for containers.

The last is proved by a container where the engine holds the target's image already; nothing is fetched for it, and the
container is removed.
"""

from __future__ import annotations

import re
import shlex
from functools import cached_property

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.model import ComputeTarget
from tui_workbench.targets.checks.check_machine import clean_command, disk
from tui_workbench.targets.checks.result import (
    CONTAINER,
    DOCKER,
    ENGINE,
    OK,
    RUNTIME,
    WARNING,
    CheckFailed,
    CheckResult,
)
from tui_workbench.targets.docker.container import SHM_BYTES, start_failure
from tui_workbench.targets.docker.docker_socket import EngineOutOfReach, docker_socket
from tui_workbench.targets.docker.engine import Engine, EngineFacts, EngineRefused
from tui_workbench.targets.docker.image_probe import probe
from tui_workbench.targets.hosts.host import Host

OLDEST_ENGINE = (19, 3)
"""The first that gives a container GPUs on request."""

_TOOLKIT = ("nvidia-container-runtime-hook", "nvidia-container-toolkit", "nvidia-ctk")
_INSTALL_TOOLKIT = (
    "sudo apt-get install -y nvidia-container-toolkit && "
    "sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker"
)


class EngineChecks:
    """The checks of one engine, in this order: docker, engine, disk, runtime, gpu_container."""

    shared_memory_bytes = SHM_BYTES
    """The size that containers of runs get at `/dev/shm`."""

    def __init__(self, target: ComputeTarget, host: Host) -> None:
        self._target = target
        self._host = host
        self._is_proved = False

    @cached_property
    def connected(self) -> Engine:
        """The engine. Raises CheckFailed, TargetUnreachable or ConfigurationError."""
        try:
            return Engine(docker_socket(self._host), self._host.label, self._host.ssh_words)
        except EngineOutOfReach as error:
            raise self._out_of_reach(error) from error

    @cached_property
    def _facts(self) -> EngineFacts:
        return self.connected.facts()

    def docker(self) -> CheckResult:
        """Whether its socket is there and this user may use it. Raises CheckFailed, TargetUnreachable."""
        self.connected.facts()
        return CheckResult(DOCKER, OK, "the engine answers, and this user may use it")

    def engine(self) -> CheckResult:
        """Whether it is new enough, and runs Linux containers. Raises CheckFailed."""
        return check_version(self._facts)

    def disk(self) -> CheckResult:
        """Whether there is room for an image and for our folder. Raises CheckFailed, TargetUnreachable."""
        folders = list(dict.fromkeys((self._facts.root, self._host.home())))
        return disk(self._host, folders, clean_command(self._target))

    def runtime(self) -> CheckResult:
        """Whether what gives containers GPUs is installed. Raises CheckFailed, TargetUnreachable."""
        places = " ".join(f"command -v {tool} ||" for tool in _TOOLKIT)
        has_toolkit = self._host.run(["sh", "-c", f"PATH=$PATH:/usr/sbin:/sbin; {places} false"]).code == 0
        if has_toolkit or "nvidia" in self._facts.runtimes:
            return CheckResult(RUNTIME, OK, "the NVIDIA Container Toolkit is installed")
        if self._in_a_container():
            return CheckResult(RUNTIME, OK, "the engine gives GPUs, without NVIDIA's toolkit that could be found")
        raise _no_toolkit("the NVIDIA Container Toolkit is not installed")

    def gpu_container(self) -> CheckResult:
        """Whether a container of the target's image, where it is there, is given the GPUs.

        Raises CheckFailed, TargetUnreachable.
        """
        if self._in_a_container():
            return CheckResult(CONTAINER, OK, "a container was given the GPUs")
        image, name = self._target.base_docker_image, shlex.quote(self._target.name)
        return CheckResult(
            CONTAINER, WARNING, f"not proved: the image {image} is not there yet",
            "The first run that needs it fetches it, or you do now.", f"workbench-tui experiment prepare -c {name}",
        )  # fmt: skip

    def _out_of_reach(self, error: EngineOutOfReach) -> CheckFailed:
        there = not self._host.is_local
        if not error.group:
            mended = "An administrator starts it." if error.command else error.remedy
            return CheckFailed(error.message, mended, error.command)
        # The groups on record by now, not those that our login was given.
        groups = self._host.run(["sh", "-c", 'id -nG "$(id -un)"']).text.split()
        anew = f"workbench-tui computetarget disconnect {shlex.quote(self._target.name)}"
        if error.group not in groups:
            remedy = "An administrator adds the user to the group, once; nothing here ever uses sudo."
            remedy += f" After that log in anew{f': {anew}' if there else '.'}"
            return CheckFailed(error.message, remedy, error.command)
        return CheckFailed(
            f"the user is in the group {error.group} by now, and this login is from before",
            "Log in anew; runs go on meanwhile.",
            anew if there else f"newgrp {error.group}",
        )

    def _in_a_container(self) -> bool:
        """Give a container of the target's image all GPUs; False without the image. Raises CheckFailed."""
        if self._is_proved:
            return True
        engine = self.connected
        image = engine.image(self._target.base_docker_image)
        if image is None:
            return False
        try:
            said, code = probe(engine, image.id, ["nvidia-smi", "-L"], {"HOME": "/tmp"}, self._target)
        except EngineRefused as refused:
            # The engine adds the GPUs before it looks for the program.
            if "executable file not found" not in refused.said:
                raise self.refusal(refused) from refused
            code = 0
        if code:
            told = " ".join(said.decode("utf-8", "replace").split()) or f"exit code {code}"
            raise CheckFailed(
                f"a container sees no GPU: {told}",
                "Restarting Docker mends it after an update of the driver or of the toolkit.",
                "sudo systemctl restart docker",
            )
        self._is_proved = True
        return True

    def refusal(self, error: WorkbenchError) -> WorkbenchError:
        """Why a container could not be given the GPUs; an error of another kind as it is."""
        if not isinstance(error, EngineRefused):
            return error
        message, remedy = start_failure(error.said, host=self._host.label, image=self._target.base_docker_image)
        if "could not select device driver" in error.said:
            return _no_toolkit(message)
        return CheckFailed(message, remedy, "nvidia-smi")


def check_version(facts: EngineFacts) -> CheckResult:
    """Whether an engine with these facts will do. Raises CheckFailed."""
    if facts.os_type != "linux":
        raise CheckFailed("the engine runs Windows containers", "Switch it to Linux containers.")
    numbers = tuple(int(number) for number in re.findall(r"\d+", facts.version)[:2])
    if numbers and numbers < OLDEST_ENGINE:
        command = "curl -fsSL https://get.docker.com | sudo sh"
        raise CheckFailed(
            f"the engine is of version {facts.version}, and GPUs need at least 19.03",
            "Install a current Docker Engine: https://docs.docker.com/engine/install/",
            command,
        )
    rootless = ", rootless" if facts.rootless else ""
    return CheckResult(ENGINE, OK, f"Docker {facts.version} for {facts.architecture}{rootless}")


def _no_toolkit(message: str) -> CheckFailed:
    return CheckFailed(
        message,
        "Add NVIDIA's package source and install it: "
        "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/install-guide.html",
        _INSTALL_TOOLKIT,
    )
