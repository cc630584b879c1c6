"""Rungs about a Docker engine: reachable and allowed, new enough, room for images, GPUs for containers.

The last is proved by a container where the engine holds the target's image already; nothing is fetched for it, and the
container is removed.
"""

from __future__ import annotations

import os
import re
import shlex

from tui_workbench.errors import WorkbenchError
from tui_workbench.records import TYPE_CHECKING
from tui_workbench.targets.check import CONTAINER, DOCKER, ENGINE, OK, RUNTIME, WARNING, Broken, Rung
from tui_workbench.targets.check_machine import clean_command, disk
from tui_workbench.targets.docker_socket import EngineOutOfReach

if TYPE_CHECKING:
    from tui_workbench.model import ComputeTarget
    from tui_workbench.targets.engine import Engine, EngineFacts
    from tui_workbench.targets.host import Host

OLDEST_ENGINE = (19, 3)
"""The first that gives a container GPUs on request."""

_TOOLKIT = ("nvidia-container-runtime-hook", "nvidia-container-toolkit", "nvidia-ctk")
_INSTALL_TOOLKIT = (
    "sudo apt-get install -y nvidia-container-toolkit && "
    "sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker"
)


class EngineRungs:
    """The rungs of one engine, to be asked in this order: docker, engine, disk, runtime, gpu_container."""

    def __init__(self, target: ComputeTarget, host: Host) -> None:
        self._target = target
        self._host = host
        self._socket = ""
        self._facts: EngineFacts | None = None
        self._is_proved = False

    def docker(self) -> Rung:
        """Whether its socket is there and this user may use it. Raises Broken, TargetUnreachable."""
        try:
            self._socket = self._host.docker_socket()
        except EngineOutOfReach as error:
            raise self._out_of_reach(error) from error
        self._facts = self._connect().facts()
        return Rung(DOCKER, OK, "the engine answers, and this user may use it")

    def engine(self) -> Rung:
        """Whether it is new enough, and runs Linux containers. Raises Broken."""
        return judged(self._known(), there=not self._host.is_local)

    def disk(self) -> Rung:
        """Whether there is room for an image and for our folder. Raises Broken, TargetUnreachable."""
        return disk(self._host, list(dict.fromkeys((self._known().root, self._host.home()))),
                    clean_command(self._target))  # fmt: skip

    @property
    def connected(self) -> Engine:
        """The engine. Raises TargetUnreachable or ConfigurationError."""
        self._known()
        return self._connect()

    def runtime(self) -> Rung:
        """Whether what gives containers GPUs is installed. Raises Broken, TargetUnreachable."""
        places = " ".join(f"command -v {tool} ||" for tool in _TOOLKIT)
        has_toolkit = self._host.run(["sh", "-c", f"PATH=$PATH:/usr/sbin:/sbin; {places} false"]).code == 0
        if has_toolkit or "nvidia" in self._known().runtimes:
            return Rung(RUNTIME, OK, "the NVIDIA Container Toolkit is installed")
        if self._in_a_container():
            return Rung(RUNTIME, OK, "the engine gives GPUs, without NVIDIA's toolkit that could be found")
        raise _no_toolkit("the NVIDIA Container Toolkit is not installed", there=not self._host.is_local)

    def gpu_container(self) -> Rung:
        """Whether a container of the target's image, where it is there, is given the GPUs.

        Raises Broken, TargetUnreachable.
        """
        if self._in_a_container():
            return Rung(CONTAINER, OK, "a container was given the GPUs")
        image, name = self._target.base_docker_image, shlex.quote(self._target.name)
        return Rung(
            CONTAINER, WARNING, f"not proved: the image {image} is not there yet",
            "The first run that needs it fetches it, or you do now.", f"workbench-tui experiment prepare -c {name}",
        )  # fmt: skip

    def _out_of_reach(self, error: EngineOutOfReach) -> Broken:
        there = not self._host.is_local
        if not error.group:
            mended = "An administrator starts it." if error.command else error.remedy
            return Broken(WorkbenchError(error.message, remedy=mended), error.command, there=there)
        # The groups on record by now, not those that our login was given.
        groups = self._host.run(["sh", "-c", 'id -nG "$(id -un)"']).text.split()
        anew = f"workbench-tui computetarget disconnect {shlex.quote(self._target.name)}"
        if error.group not in groups:
            remedy = (
                "An administrator adds the user to the group, once; nothing here ever uses sudo. After that log in "
            )
            remedy += f"anew: {anew}" if there else "anew."
            return Broken(WorkbenchError(error.message, remedy=remedy), error.command, there=there)
        since = WorkbenchError(
            f"the user is in the group {error.group} by now, and this login is from before",
            remedy="Log in anew; runs go on meanwhile.",
        )
        return Broken(since, anew if there else f"newgrp {error.group}")

    def _known(self) -> EngineFacts:
        if self._facts is None:
            self.docker()
        assert self._facts is not None
        return self._facts

    def _connect(self) -> Engine:
        from tui_workbench.targets.engine import Engine

        return Engine(self._socket, self._host.label, self._host.ssh_words)

    def _in_a_container(self) -> bool:
        """Give a container of the target's image all GPUs; False when the image is not there yet. Raises Broken."""
        from tui_workbench.targets.engine import EngineRefused
        from tui_workbench.targets.gpu.places import gpu_container

        if self._is_proved:
            return True
        engine = self.connected
        name = f"workbench-check-{os.urandom(6).hex()}"
        try:
            image = engine.image(self._target.base_docker_image)
            if image is None:
                return False
            engine.create(name, gpu_container(image.id, ["nvidia-smi", "-L"], self._target, {}))
            try:
                engine.start(name)
                engine.wait(name)
                self._refuse_failed(engine, name)
            finally:
                engine.remove(name)
        except EngineRefused as refused:
            # The engine adds the GPUs before it looks for the program.
            if "executable file not found" not in refused.said:
                raise self.refusal(refused) from refused
        self._is_proved = True
        return True

    def _refuse_failed(self, engine: Engine, name: str) -> None:
        """Raise Broken when nvidia-smi ran in the container and did not find its GPUs."""
        container = engine.container(name)
        if container is None or not container.exit_code:
            return
        said = b" ".join(record.partition(b" ")[2].strip() for record in engine.records(name, follow=False))
        error = WorkbenchError(
            f"a container sees no GPU: {said.decode('utf-8', 'replace') or f'exit code {container.exit_code}'}",
            remedy="Restarting Docker mends it after an update of the driver or of the toolkit.",
        )
        raise Broken(error, "sudo systemctl restart docker", there=not self._host.is_local)

    def refusal(self, error: WorkbenchError) -> WorkbenchError | Broken:
        """Why a container could not be given the GPUs; an error of another kind as it is."""
        from tui_workbench.targets.container import start_failure
        from tui_workbench.targets.engine import EngineRefused

        if not isinstance(error, EngineRefused):
            return error
        message, remedy = start_failure(error.said, host=self._host.label, image=self._target.base_docker_image)
        if "could not select device driver" in error.said:
            return _no_toolkit(message, there=not self._host.is_local)
        return Broken(WorkbenchError(message, remedy=remedy), "nvidia-smi", there=not self._host.is_local)


def judged(facts: EngineFacts, *, there: bool) -> Rung:
    """Whether an engine with these facts will do; `there` is true when it is another machine's. Raises Broken."""
    if facts.os_type != "linux":
        raise Broken(WorkbenchError("the engine runs Windows containers", remedy="Switch it to Linux containers."))
    numbers = tuple(int(number) for number in re.findall(r"\d+", facts.version)[:2])
    if numbers and numbers < OLDEST_ENGINE:
        error = WorkbenchError(
            f"the engine is of version {facts.version}, and GPUs need at least 19.03",
            remedy="Install a current Docker Engine: https://docs.docker.com/engine/install/",
        )
        command = "curl -fsSL https://get.docker.com | sudo sh"
        raise Broken(error, command, there=there)
    rootless = ", rootless" if facts.rootless else ""
    return Rung(ENGINE, OK, f"Docker {facts.version} for {facts.architecture}{rootless}")


def _no_toolkit(message: str, *, there: bool) -> Broken:
    error = WorkbenchError(
        message,
        remedy="Add NVIDIA's package source and install it: "
        "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/install-guide.html",
    )
    return Broken(error, _INSTALL_TOOLKIT, there=there)
