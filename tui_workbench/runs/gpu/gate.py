"""The gate before a run that asks for a GPU: one that would train on the CPU does not start, unless it may.

It looks at what can be seen without making anything: the driver, the GPUs, and the framework in the run's environment
where that is there already. What cannot be seen yet is looked at again when the environment is there, before the
script is started. What is no matter of GPUs (an engine that is down, a machine out of reach) is left to the run.
"""

from __future__ import annotations

from typing import NamedTuple

from tui_workbench.core.errors import NoGpu, WorkbenchError
from tui_workbench.core.model import RunSpec
from tui_workbench.targets.base.registry import target_for
from tui_workbench.targets.checks.result import BROKEN, DOCKER, FRAMEWORK, WARNING, CheckResult, run_check
from tui_workbench.targets.gpu.frameworks import ONE
from tui_workbench.targets.gpu.gpus import asked_for

STEP = "preflight"
TITLE = "look whether it would compute on a GPU"


class Seen(NamedTuple):
    """What was found: `text` in one line, why the run is to be stopped, and whether something is still to be seen."""

    text: str
    refusal: NoGpu | None = None
    is_due: bool = False


def look(spec: RunSpec) -> Seen:
    """Look at the run's target. Blocks; a framework that nobody has asked before takes seconds to answer."""
    try:
        target = target_for(spec.target)
    except WorkbenchError as error:
        return Seen(error.message, is_due=True)
    engine = target.engine_checks()
    if engine is not None:
        answers = run_check(DOCKER, engine.docker, target.host)
        if answers.state == BROKEN:
            return Seen(answers.message, is_due=True)
    from tui_workbench.targets.gpu.preflight import Preflight

    said = ""
    for found in Preflight(target, spec, engine, ONE).run(is_quick=True):
        said = found.message
        if found.state == BROKEN:
            # What only GPUs can be the cause of comes with what mends it.
            if not found.command:
                return Seen(found.message, is_due=True)
            return Seen(found.message, _refusal(spec, found))
        if found.name == FRAMEWORK and found.state == WARNING:
            return Seen(found.message, is_due=bool(found.command))
    return Seen(said)


def admit(spec: RunSpec) -> RunSpec:
    """The specification of a run that asks for a GPU, marked when it is to be looked at again. Raises NoGpu."""
    seen = look(spec)
    if seen.refusal is not None:
        raise seen.refusal
    return spec._replace(gpu_check_due=seen.is_due)


def _refusal(spec: RunSpec, found: CheckResult) -> NoGpu:
    why = asked_for(spec.target, spec.run_configuration)
    place = f" on {spec.target.address}" if found.there and spec.target.address else ""
    first, *others = found.remedy.split("\n")
    return NoGpu(
        f"it would use no GPU, though {why}: {found.message.removesuffix(f', and {why}')}",
        remedy="\n".join([f"{first} Fix{place}: {found.command}".strip(), *others]),
        file=spec.run_configuration.path,
        command=found.command,
        there=found.there,
    )
