"""The user's limits for the runs of agents, and the reasons why a run exceeds them.

The limits apply to the resolved specification of a run. The project is not trusted, so its files cannot change the
limits.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import NamedTuple

from tui_workbench.config.document import Document
from tui_workbench.config.schema.retry import retry_of
from tui_workbench.config.schema.slurm_options import requested_gpus
from tui_workbench.core.directories import agents_path
from tui_workbench.core.errors import ConfigurationError
from tui_workbench.core.model import ComputeTarget, RunSpec
from tui_workbench.core.plaintext import counted
from tui_workbench.runs.agents.ledger import Use
from tui_workbench.runs.lifecycle.limits import count_gpus
from tui_workbench.targets.gpu.choice import wanted_count

THIS_MACHINE = "local"
"""The entry of `targets` for targets without an address."""

_DEVICES = "VISIBLE_DEVICES"
"""Suffix of variables such as CUDA_VISIBLE_DEVICES, which give a run other GPUs than those of its target."""

_GPU_OPTIONS = ("gpu", "gres", "tres", "exclus")
"""Texts that occur in Slurm options which request GPUs. With `--exclusive`, a job gets all GPUs of its nodes."""


class AgentLimits(NamedTuple):
    """The limits, which `schema.user_files.AGENTS` describes. By default, no target is allowed."""

    targets: tuple[str, ...] = ()
    concurrent_runs: int = 1
    minutes_per_run: int = 60
    hours_per_day: int = 4
    gpu_hours_per_day: int = 4


def load_limits() -> AgentLimits:
    """Load the limits; the defaults if the user has no file. Raises ConfigurationError for an invalid file."""
    path = agents_path()
    if not os.path.lexists(path):
        return AgentLimits()
    document = Document.open(path)
    for problem in document.problems():
        raise ConfigurationError(
            problem.message, remedy=problem.remedy, file=path, line=problem.line, column=problem.column
        )
    return AgentLimits(**document.values)


def minutes_of(spec: RunSpec) -> int:
    """Return the maximum duration of a run in minutes, including all attempts; 0 means no limit."""
    configuration = spec.run_configuration
    return configuration.max_duration_minutes * (1 + retry_of(configuration).times)


def gpus_of(spec: RunSpec) -> int | None:
    """Return the number of GPUs that a run gets on all its machines, or None if unknown."""
    if any(name.endswith(_DEVICES) for name in spec.run_configuration.environment_variables):
        return None
    if spec.target.kind.has_scheduler:
        extra = " ".join(spec.slurm.get("extra", ())).lower()
        return None if any(word in extra for word in _GPU_OPTIONS) else requested_gpus(spec.slurm)
    counts = [_gpus_of_part(part) for part in spec.parts]
    return None if None in counts else sum(count or 0 for count in counts)


def _gpus_of_part(spec: RunSpec) -> int | None:
    target = spec.target
    if not (target.kind.has_gpus and target.can_use_gpus):
        return 0
    if number := wanted_count(target) or len(target.named_gpus):
        return number
    return None if target.kind.is_remote else count_gpus()


def machines_of(target: ComputeTarget) -> list[str]:
    """Return the machines of a target, as `targets` of the limits names them."""
    return sorted({part.address or THIS_MACHINE for part in target.parts or (target,)})


def use_of(spec: RunSpec, agent: str) -> Use:
    """Return the resources that a run may use. An unknown number of GPUs, which needs an approval, counts as 1."""
    gpus, retry = gpus_of(spec), retry_of(spec.run_configuration)
    delay = retry.times * retry.delay
    return Use(agent, time.time(), minutes_of(spec), 1 if gpus is None else gpus, delay=delay)


def excess(spec: RunSpec, limits: AgentLimits, uses: Sequence[Use]) -> list[str]:
    """Return the reasons why a run exceeds the limits; `uses` are the other runs of agents."""
    reasons = [
        f"{machine} is not in `targets` of the limits for agents"
        for machine in machines_of(spec.target)
        if machine not in limits.targets
    ]
    minutes = minutes_of(spec)
    if minutes > limits.minutes_per_run:
        reasons.append(f"it may take {minutes} min, and the limit is {limits.minutes_per_run} min per run")
    if spec.target.kind.has_scheduler and spec.slurm.get("requeue"):
        reasons.append("Slurm may start it again any number of times, because `Slurm.requeue` is true")
    active = sum(use.is_active for use in uses)
    if active >= limits.concurrent_runs:
        runs = f"{counted(active, 'run')} of agents {'is' if active == 1 else 'are'} active"
        reasons.append(f"{runs}, and the limit is {limits.concurrent_runs}")
    return reasons + _excess_of_day(spec, limits, uses)


def _excess_of_day(spec: RunSpec, limits: AgentLimits, uses: Sequence[Use]) -> list[str]:
    gpus, longest = gpus_of(spec), minutes_of(spec) / 60
    hours, gpu_hours = used_hours(uses)
    hours, gpu_hours = hours + longest, gpu_hours + longest * (gpus or 0)
    could = "with it, runs of agents could take"
    reasons = []
    if hours > limits.hours_per_day:
        reasons.append(f"{could} {hours:.1f} h in 24 hours, and the limit is {limits.hours_per_day} h")
    if gpus is None:
        reasons.append(
            "the number of its GPUs is not known: the target has no `gpus`, or a variable such as CUDA_VISIBLE_DEVICES "
            "or an option in `Slurm.extra` selects GPUs"
        )
    elif gpus and gpu_hours > limits.gpu_hours_per_day:
        limit = limits.gpu_hours_per_day
        reasons.append(f"{could} {gpu_hours:.1f} GPU hours in 24 hours, and the limit is {limit} GPU hours")
    return reasons


def used_hours(uses: Sequence[Use]) -> tuple[float, float]:
    """Return the hours and the GPU hours of runs. Active runs count with their maximum duration."""
    return sum(use.hours for use in uses), sum(use.hours * use.gpus for use in uses)
