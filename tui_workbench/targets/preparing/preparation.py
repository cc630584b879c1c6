"""Find the missing software for runs on a machine, and install it as root.

`look` changes nothing on the machine, and does not use sudo. No step restarts the machine.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tui_workbench.core.errors import ConfigurationError, WorkbenchError
from tui_workbench.core.model import ComputeTarget
from tui_workbench.core.shell_scripts import shell_script
from tui_workbench.targets.docker.docker_socket import SYSTEM_SOCKET, engine_socket
from tui_workbench.targets.hosts.host import READ_SIZE, Host
from tui_workbench.targets.preparing.steps import (
    ENGINE_STEPS,
    GROUP,
    OLDEST,
    PRELUDE,
    REMOVE_REFUSED,
    RESTART_NEEDED,
    RUNTIME,
    Step,
    steps_of,
)
from tui_workbench.targets.ssh.host_for import host_of
from tui_workbench.targets.ssh.ssh_host import SshHost

PRESENT, MISSING, UNNEEDED, RESTART = "ok", "missing", "unneeded", "restart"

_FACTS = shell_script("targets/preparing/scripts/machine_facts.sh")

_CHECK = "if {{ {check}; }} >/dev/null 2>&1; then echo {present}; else echo {missing}; fi\n"

_SYSTEM_SOCKETS = (SYSTEM_SOCKET, SYSTEM_SOCKET.removeprefix("/var"))

_ROOTLESS = (
    "the engine of the user {user} is not the system's engine and is not configured for the NVIDIA Container Toolkit. "
    "Configure it as this user: "
    "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html#rootless-mode"
)


class StepResult(NamedTuple):
    """A step and its state on a machine: PRESENT, MISSING, UNNEEDED or RESTART (installed, but not working yet)."""

    step: Step
    state: str
    message: str

    @property
    def commands(self) -> tuple[str, ...]:
        """The commands for the shell of root; empty if the part is not missing, or if root cannot install it."""
        return self.step.commands if self.state == MISSING else ()


class Machine:
    """The machine of a target. Call `look` before the other methods."""

    def __init__(self, target: ComputeTarget) -> None:
        """Raises ConfigurationError if the workbench cannot prepare machines of this target."""
        _refuse_type(target)
        self.host = host_of(target)
        self.user = ""
        self._kind = target.kind
        self._is_root = False

    def look(self) -> list[StepResult]:
        """Return the state of each step.

        Raises TargetUnreachable, or ConfigurationError if the workbench cannot prepare this system or version.
        """
        facts = _facts(self.host)
        distribution = _distribution(facts, self.host)
        self.user, self._is_root = facts["user"], "root" in facts
        if "engine" in facts and self._kind.runs_in_container and _is_own_engine(self.host):
            facts["own-engine"] = "yes"
        steps = steps_of(self._kind, distribution, shlex.quote(self.user))
        script = "".join(_CHECK.format(check=step.check, present=PRESENT, missing=MISSING) for step in steps)
        states = self.host.check(["sh", "-c", PRELUDE + script]).text.split()
        return [_result(step, state, facts) for step, state in zip(steps, states, strict=True)]

    def require_root(self) -> None:
        """Raise WorkbenchError unless commands can be run as root without a password."""
        if self._is_root:
            return
        done = self.host.run(["sudo", "-n", "true"])
        if done.code:
            raise WorkbenchError(
                f"{self.host.label}: commands cannot be run as root: {done.complaint}",
                remedy="Nothing was changed. Run the commands there yourself in a shell that `sudo -i` opens (without "
                f"sudo, `su -`), or ask an administrator to run them or to allow {self.user} to use sudo without a "
                "password.",
            )

    def install(self, results: Sequence[StepResult]) -> Iterator[str]:
        """Run the commands of the missing steps as root; yield each command and its output in lines.

        Raises WorkbenchError if a command fails. The commands can be run again after any error.
        """
        self.require_root()
        for result in results:
            for command in result.commands:
                yield f"# {command}"
                yield from self._run(command)
            if result.step.name == GROUP and result.commands:
                yield from self._log_in_again()

    def verify(self) -> list[StepResult]:
        """Return the state of each step after `install`. Raises WorkbenchError if `install` left a step incomplete."""
        results = self.look()
        missing = [result.step.name for result in results if result.commands]
        if missing:
            raise WorkbenchError(
                f"{self.host.label}: the commands have ended, but these steps are incomplete: {', '.join(missing)}",
                remedy="The output of the commands shows the cause. Correct it, then prepare the machine again.",
            )
        return results

    def _run(self, command: str) -> Iterator[str]:
        sudo = () if self._is_root else ("sudo", "-n")
        # REMOVE_REFUSED is the English text of an error of apt-get, and apt-get must not ask questions.
        words = [*sudo, "env", "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive", "sh", "-c", f"exec 2>&1; {command}"]
        process, rest, last = self.host.open(words), b"", ""
        try:
            process.close_stdin()
            while data := os.read(process.stdout, READ_SIZE):
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    last = _text(line) or last
                    yield _text(line)
            if rest:
                last = _text(rest)
                yield last
            code = process.wait()
        finally:
            process.close()
        if code:
            if REMOVE_REFUSED in last:
                raise WorkbenchError(
                    f"{self.host.label}: `{command}` would remove installed packages, which the workbench never does",
                    remedy="Run `apt-get install -s` with the same packages there to list the conflicts. Ask the "
                    "administrator whether other programs need the installed packages.",
                )
            raise WorkbenchError(
                f"{self.host.label}: `{command}` failed with exit code {code}: {last or 'no output'}",
                remedy="Correct the cause, then prepare the machine again. Steps that are complete are not repeated.",
            )

    def _log_in_again(self) -> Iterator[str]:
        # A login keeps the groups that it had at its beginning.
        if isinstance(self.host, SshHost):
            self.host.disconnect()
            yield "The connection was closed, so that the next login gets the new group. Runs continue."
        elif not self._is_root:
            yield "Log out and log in again, so that your programs get the new group."


def missing_commands(results: Sequence[StepResult]) -> int:
    """Return the number of commands that the missing steps need."""
    return sum(len(result.commands) for result in results)


def _refuse_type(target: ComputeTarget) -> None:
    if target.problem is not None:
        problem = target.problem
        raise ConfigurationError(problem.message, remedy=problem.remedy, file=problem.file, line=problem.line)
    if target.members:
        names = " ".join(f"`workbench-tui computetarget prepare {shlex.quote(name)}`." for name in target.members)
        raise ConfigurationError("a group is not a machine", remedy=f"Prepare its members: {names}", file=target.path)
    if not target.kind.can_prepare:
        raise ConfigurationError(
            f"the workbench cannot prepare machines of targets of type {target.type}",
            remedy="Ask the administrator of the machine. `workbench-tui computetarget check "
            f"{shlex.quote(target.name)}` shows what is missing.",
            file=target.path,
        )


def _facts(host: Host) -> dict[str, str]:
    lines = host.check(["sh", "-c", _FACTS, "sh", RESTART_NEEDED]).text.split("\n")
    pairs = (line.partition("=") for line in lines)
    return {key: value.strip("\"'") for key, _, value in pairs}


def _is_own_engine(host: Host) -> bool:
    """Return True if the user's engine is not the engine of the system. It may be a rootless engine."""
    try:
        return engine_socket(host) not in _SYSTEM_SOCKETS
    except ConfigurationError:  # the engine has no Unix socket that the workbench knows
        return True


def _distribution(facts: dict[str, str], host: Host) -> str:
    """Return UBUNTU or DEBIAN. Raises ConfigurationError for other systems and for versions older than OLDEST."""
    distribution, version = facts.get("os-ID", ""), facts.get("os-VERSION_ID", "").partition(".")[0]
    if distribution in OLDEST and version.isdigit() and int(version) >= OLDEST[distribution]:
        return distribution
    system = facts.get("os-PRETTY_NAME") or "an unknown system"
    raise ConfigurationError(
        f"{host.label} runs {system}, but only Ubuntu {OLDEST['ubuntu']}.04, Debian {OLDEST['debian']} and newer "
        "versions can be prepared",
        remedy="Install the driver, Docker and the container toolkit as their makers describe: "
        "https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/, "
        "https://docs.docker.com/engine/install/ and "
        "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html.",
    )


def _result(step: Step, state: str, facts: dict[str, str]) -> StepResult:
    if step.needs_gpu and "gpu" not in facts and state == MISSING:
        return StepResult(step, UNNEEDED, "the machine has no NVIDIA GPU")
    if step.name in ENGINE_STEPS and "engine" in facts:
        return StepResult(step, PRESENT, f"the user {facts['user']} can use an engine")
    if step.name == GROUP and "root" in facts:
        return StepResult(step, UNNEEDED, "root needs no group")
    if step.name == RUNTIME and state == MISSING and "own-engine" in facts:
        return StepResult(step._replace(commands=(), warning=""), MISSING, _ROOTLESS.format(user=facts["user"]))
    if step.distribution and state == PRESENT and {"gpu", "restart"} <= facts.keys():
        return StepResult(
            step,
            RESTART,
            "the NVIDIA driver is installed, but nvidia-smi fails. Restart the machine to load the driver: `sudo "
            "reboot`",
        )
    return StepResult(step, state, step.present if state == PRESENT else step.missing)


def _text(line: bytes) -> str:
    # Progress overwrites the beginning of a line.
    return line.decode("utf-8", "replace").rstrip("\r").rpartition("\r")[2]
