"""What targets share whose runs have a directory on a host, which can be lost and regained while a run goes on."""

from __future__ import annotations

import abc
import contextlib

from tui_workbench.core.errors import ConfigurationError, NeverStarted, StorageError, TargetUnreachable, WorkbenchError
from tui_workbench.core.model import ComputeTarget, RunSpec
from tui_workbench.core.waiting import Interrupted, Pauses
from tui_workbench.targets.base.protocol import Target
from tui_workbench.targets.base.values import Outcome, ProjectNames
from tui_workbench.targets.hosts import supervisor
from tui_workbench.targets.hosts.host import Host
from tui_workbench.targets.hosts.host_layout import records_of_runs

SLOW_SECONDS = 2.0
"""A shell that takes longer to start is worth a word: every step of a run needs one."""

TOOLS = (
    "cat", "cmp", "cp", "cut", "du", "find", "grep", "head", "ls", "mkdir", "mv", "rm", "rmdir", "sed", "setsid",
    "sha256sum", "sleep", "sort", "tail", "tar", "touch", "tr", "wc", "xargs",
)  # fmt: skip

_MISSING = 'for tool; do command -v "$tool" >/dev/null 2>&1 || printf \'%s\\n\' "$tool"; done'


class HostedTarget(Target):
    """A target that survives the loss of its machine."""

    keeps_runs = True

    def reach(self) -> None:
        if not self.host.is_local:
            require_tools(self.target, self.host)
            if said := slow_shell(self.host):
                self.report.line(said)

    def has_ended(self, spec: RunSpec) -> bool:
        return supervisor.read_exit_code(spec.run_directory) is not None

    def known_runs(self, project: ProjectNames) -> list[tuple[str, bytes]]:
        return records_of_runs(self.host, project)

    def wait(self, spec: RunSpec, interrupted: int) -> Outcome:
        pauses = Pauses()
        while True:
            try:
                return self.wait_once(spec, interrupted)
            except NeverStarted:
                raise
            except WorkbenchError as error:
                # Whatever it is, a full disk here among others: the script may be running.
                with contextlib.suppress(StorageError):
                    self.report.lost(str(error))
                self.wait_until_reachable(interrupted)
                pauses.take(interrupted)

    def wait_until_reachable(self, interrupted: int) -> None:
        pauses = Pauses()
        while True:
            try:
                if not self.host.wait_until_reachable(interrupted):
                    raise Interrupted
                self.see_that_it_answers()
                return
            except TargetUnreachable as error:
                self.report.lost(str(error))
            pauses.take(interrupted)

    @abc.abstractmethod
    def wait_once(self, spec: RunSpec, interrupted: int) -> Outcome:
        """Wait for the end of a run, as `wait` does, but raise TargetUnreachable when the target is lost meanwhile."""

    def see_that_it_answers(self) -> None:
        """Raise TargetUnreachable while the target does not answer, though its host does."""


def require_tools(target: ComputeTarget, host: Host) -> None:
    """Raise ConfigurationError, with their names, when the machine lacks some of them. Raises TargetUnreachable."""
    missing = host.check(["sh", "-c", _MISSING, "sh", *TOOLS]).text.split()
    if missing:
        raise ConfigurationError(
            f"{host.label} lacks {', '.join(missing)}, which runs there need",
            remedy="Install coreutils, diffutils, findutils, grep, sed, tar and util-linux there.",
            file=target.path,
        )


def slow_shell(host: Host) -> str:
    """What is to be said of a machine whose shell takes long to start; "" for any other."""
    seconds = host.shell_seconds
    if seconds < SLOW_SECONDS:
        return ""
    return f"starting a shell on {host.label} takes {seconds:.0f} s: its start-up files there, as ~/.bashrc, are slow"
