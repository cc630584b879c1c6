"""Run the checks of a target. Its type decides which they are, and their order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from tui_workbench.core.model import ComputeTarget, RunSpec
from tui_workbench.targets.checks.result import CheckResult
from tui_workbench.targets.hosts.host import Host
from tui_workbench.targets.registry import checks_for


def check_names(target: ComputeTarget) -> tuple[str, ...]:
    """Return the names of the checks of a target, in order.

    If the target requests no GPUs but its machine has some, `run_checks` may add checks of the GPUs.
    """
    return checks_for(target).names


def run_checks(target: ComputeTarget, *, with_job: bool = False) -> Iterator[CheckResult]:
    """Check a target; yield each result immediately. Only the last result can have the state `broken`.

    With `with_job`, also run a short job on a target with a scheduler.
    """
    return checks_for(target).run(with_job=with_job)


def run_gpu_checks(spec: RunSpec, hosts: Mapping[str, Host | None] = MappingProxyType({})) -> Iterator[CheckResult]:
    """Check the GPUs of a target, from the driver to the framework in the environment of a run.

    Results of earlier checks, such as the login, are yielded only if they fail. `hosts` maps the name of the target, or
    of each member of a group, to its machine, if known. Only the last result can have the state `broken`.
    """
    return checks_for(spec.target, hosts).run_gpus(spec)
