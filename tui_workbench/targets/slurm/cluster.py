"""The machine with the commands of Slurm, and the folder `runRoot`, which it shares with the compute nodes."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.targets.hosts.host import DEFAULT_TIMEOUT, Completed, Host, HostProcess

# $1: a path that may begin with `~`. Prints it as an absolute path.
_EXPAND = 'case $1 in "~") printf %s "$HOME" ;; "~/"*) printf %s "$HOME/${1#"~/"}" ;; *) printf %s "$1" ;; esac'


class LoginHost(Host):
    """A host whose files of the workbench are in `runRoot`.

    Runs execute on other machines, in a copy of the project, even if Slurm's commands are on this machine. Therefore
    `is_local` is False, and both cases have one implementation.
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

    def forward(self, socket: str) -> str:
        return self._host.forward(socket)

    def home(self) -> str:
        if not self._home:
            path = self._run_root or "~/.workbench-tui"
            self._home = posixpath.normpath(self.check(["sh", "-c", _EXPAND, "sh", path]).text)
        return self._home

    def wait_until_reachable(self, interrupted: int = -1) -> bool:
        return self._host.wait_until_reachable(interrupted)

    @property
    def shown_home(self) -> str:
        """The folder as it is shown in plans. The machine is not contacted."""
        return self._home or self._run_root.rstrip("/") or "~/.workbench-tui"

    def ask(self, script: str, *arguments: str, timeout: float = DEFAULT_TIMEOUT) -> Completed:
        """Run an `sh` script on the login host."""
        return self.run(["sh", "-c", script, "sh", *arguments], timeout=timeout)

    def ask_slurm(self, script: str, *arguments: str, timeout: float) -> str:
        """Return the output of a script that must succeed. Raises WorkbenchError with the output on stderr."""
        done = self.ask(script, *arguments, timeout=timeout)
        if done.code != 0:
            remedy = "Try again later. `sinfo` on that machine shows whether Slurm answers."
            raise WorkbenchError(f"Slurm on {self.label} does not answer: {done.complaint}", remedy=remedy)
        return done.text
