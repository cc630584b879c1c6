"""The machine with the commands of Slurm, and the folder `runRoot`, which it shares with the compute nodes."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from tui_workbench.core.errors import TargetUnreachable, WorkbenchError
from tui_workbench.core.shell_scripts import shell_script
from tui_workbench.targets.hosts.host import DEFAULT_TIMEOUT, Completed, Host, HostProcess, PortForward

# $1: a path that may begin with `~`. Prints it as an absolute path.
_EXPAND = 'case $1 in "~") printf %s "$HOME" ;; "~/"*) printf %s "$HOME/${1#"~/"}" ;; *) printf %s "$1" ;; esac'

PREPARE = shell_script("targets/slurm/scripts/prepare.sh")
"""Shell code at the beginning of every script that calls Slurm's commands."""

TRANSIENT = (
    "Unable to contact slurm controller",
    "Unable to connect to slurm controller",
    "Socket timed out",
    "Connection refused",
    "Connection reset",
    "Connection timed out",
    "Communication connection failure",
    "Communication shutdown failure",
    "Zero Bytes were transmitted",
    "Message receive failure",
    "Message send failure",
    "missing socket error",
    "Transport endpoint",
    "Resource temporarily unavailable",
    "Slurm temporarily unable to accept job",
    "standby mode",
    "Slurm controller not responding",
    "Incompatible versions",
    "Protocol authentication error",
)
"""Parts of errors of Slurm's commands after which another attempt may succeed (slurm_errno.c)."""


class SlurmSilent(TargetUnreachable):
    """Slurm does not answer, so the state of a job is unknown."""


def raise_if_silent(label: str, complaint: str) -> None:
    """Raise SlurmSilent if another attempt may succeed after this error of a Slurm command."""
    if any(part in complaint for part in TRANSIENT):
        remedy = "Try again later. `sinfo` on that machine shows whether Slurm answers."
        raise SlurmSilent(f"Slurm on {label} does not answer: {complaint}", remedy=remedy)


class LoginHost(Host):
    """A host that stores the workbench's files in `runRoot`.

    Runs execute on compute nodes, in a copy of the project. Therefore `is_local` is False, even if Slurm's commands are
    on this machine.
    """

    is_local = False

    def __init__(self, host: Host, run_root: str) -> None:
        """`run_root` is absolute, begins with `~/`, or is "" for the default."""
        self._host = host
        self._run_root = run_root
        self._home = run_root.rstrip("/") if run_root.startswith("/") else ""
        self.label = host.label

    @property
    def ssh_words(self) -> str:
        return self._host.ssh_words

    @property
    def shell_seconds(self) -> float:
        return self._host.shell_seconds

    def open(self, argv: Sequence[str], *, timeout: float = DEFAULT_TIMEOUT) -> HostProcess:
        return self._host.open(argv, timeout=timeout)

    def forward(self, path: str) -> str:
        return self._host.forward(path)

    def forward_port(self, address: str, port: int, here: int) -> PortForward | None:
        return self._host.forward_port(address, port, here)

    def home(self) -> str:
        if not self._home:
            path = self._run_root or "~/.workbench-tui"
            self._home = posixpath.normpath(self.check(["sh", "-c", _EXPAND, "sh", path]).text)
        return self._home

    def wait_until_reachable(self, interrupted: int = -1) -> bool:
        return self._host.wait_until_reachable(interrupted)

    @property
    def shown_home(self) -> str:
        """The path of the folder for plans. It may begin with `~`, because the machine is not contacted."""
        return self._home or self._run_root.rstrip("/") or "~/.workbench-tui"

    def ask(self, script: str, *arguments: str, timeout: float = DEFAULT_TIMEOUT) -> Completed:
        """Run an `sh` script, which may call Slurm's commands, on the login host."""
        return self.run(["sh", "-c", f"{PREPARE}{script}", "sh", *arguments], timeout=timeout)

    def ask_slurm(self, script: str, *arguments: str, timeout: float) -> str:
        """Return the output of a script that must succeed. Raises SlurmSilent, or WorkbenchError if a command fails."""
        done = self.ask(script, *arguments, timeout=timeout)
        if done.code != 0:
            raise_if_silent(self.label, done.complaint)
            remedy = "Check that `squeue` and `sinfo` work on that machine."
            raise WorkbenchError(f"a Slurm command failed on {self.label}: {done.complaint}", remedy=remedy)
        return done.text
