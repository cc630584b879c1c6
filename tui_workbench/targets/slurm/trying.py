"""Ask Slurm whether it would accept a job, and when the job would start; check a target without a run."""

from __future__ import annotations

import re

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.model import ComputeTarget, Problem, RunSpec
from tui_workbench.core.shell_scripts import shell_script
from tui_workbench.projects.project import line_of_key
from tui_workbench.targets.hosts.host import Completed
from tui_workbench.targets.hosts.host_layout import try_to_write
from tui_workbench.targets.slurm.cluster import LoginHost, raise_if_silent
from tui_workbench.targets.slurm.containers import container_support
from tui_workbench.targets.slurm.options import resource_words
from tui_workbench.targets.slurm.squeue import seconds_between
from tui_workbench.targets.slurm.submission import ANSWER_SECONDS, NO_SBATCH, messages, no_sbatch, remedy_of

_TRY_OPTIONS = shell_script("targets/slurm/scripts/try_options.sh")

_START = re.compile(r"to start at (\S+) using \d+ processors on nodes (.*)")


def test_only(host: LoginHost, spec: RunSpec) -> str:
    """Describe when the job of a run would start, or why sbatch would refuse it. Raises TargetUnreachable."""
    try:
        return f"accepted; {_expected(_tried(host, resource_words(spec.slurm)))}"
    except WorkbenchError as error:
        if error.exit_code == 4:
            raise
        return f"not accepted; {error.message}. {error.remedy}"


def problems(host: LoginHost, target: ComputeTarget) -> list[Problem]:
    """Return a list with the first problem that prevents runs, or an empty list.

    Checks the options, `runRoot` and the support for containers.
    """
    for key, check in (("slurm", accepted), ("runRoot", writable), ("container", container_support)):
        try:
            check(host, target)
        except WorkbenchError as error:
            line = line_of_key(target.path, key)
            return [Problem(target.path, line, 0, "error", "target", error.message, error.remedy)]
    return []


def accepted(host: LoginHost, target: ComputeTarget) -> str:
    """Describe when a job with the target's options would start. Raises WorkbenchError if Slurm would refuse it."""
    return _expected(_tried(host, resource_words(target.slurm)))


def writable(host: LoginHost, target: ComputeTarget) -> str:
    """Return the folder `runRoot` if the login node can write to it. Raises WorkbenchError."""
    tried = try_to_write(host, f"{host.home()}/runs")
    if tried.complaint:
        raise WorkbenchError(
            f"cannot write to runRoot {host.home()} on {host.label}: {tried.folder}: {tried.complaint}",
            remedy="Set `runRoot` to a folder that you can write to, on a file system that the compute nodes share.",
            file=target.path,
        )
    return host.home()


def _tried(host: LoginHost, words: tuple[str, ...]) -> Completed:
    done = host.ask(_TRY_OPTIONS, *words, timeout=ANSWER_SECONDS)
    if done.code == NO_SBATCH:
        raise no_sbatch(host.label)
    if done.code != 0:
        text = "; ".join(messages(done)) or f"exit code {done.code}"
        raise_if_silent(host.label, text)
        raise WorkbenchError(f"sbatch refuses the options below `slurm`: {text}", remedy=remedy_of(text, words))
    return done


def _expected(done: Completed) -> str:
    """Describe when and where the job would start. Both times are by the cluster's clock."""
    match = _START.search(done.stderr.decode("utf-8", "replace"))
    if match is None:
        return "its start time is unknown"
    seconds = seconds_between(done.text.split("\n")[0], match[1])
    return f"it would start {f'at {match[1]}' if seconds is None else in_words(seconds)} on {match[2]}"


def in_words(seconds: float) -> str:
    """Format a time from now: `at once`, `in 5 min`, `in 3 h`, `in 2 days`."""
    if seconds < 60:
        return "at once"
    if seconds < 2 * 3600:
        return f"in {seconds / 60:.0f} min"
    return f"in {seconds / 3600:.0f} h" if seconds < 48 * 3600 else f"in {seconds / 86400:.0f} days"
