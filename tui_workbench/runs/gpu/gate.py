"""Before a run that requests a GPU starts, check that it would not train on the CPU.

The check covers the driver, the GPUs and the framework. If the environment does not exist yet, the framework is checked
after the environment is built and before the script starts. Other problems, such as an unreachable machine, are ignored
here, because later steps of the run report them.
"""

from __future__ import annotations

from typing import NamedTuple

from tui_workbench.core.errors import NoGpu
from tui_workbench.core.model import RunSpec
from tui_workbench.targets.checks.result import BROKEN, FRAMEWORK, OF_GPUS, WARNING, CheckResult
from tui_workbench.targets.gpu.gpus import asked_for
from tui_workbench.targets.registry import checks_for

STEP = "preflight"
TITLE = "check that the run would use the GPU"


class GpuCheck(NamedTuple):
    """The result of the GPU check of a run: a line of text, and an error if the run must not start."""

    text: str
    refusal: NoGpu | None = None
    is_due: bool = False  # the check must be repeated before the script starts


def check_gpu(spec: RunSpec, *, is_plan: bool = False) -> GpuCheck:
    """Check that a run would use a GPU. This can block for seconds, because a framework may have to be loaded.

    For a plan, which is only shown, no interpreter is started: it could execute a program of the project, also through
    variables such as PYTHONPATH. The plan contains the result of an earlier check, if it is still valid.
    """
    checks = [_check_part(part, is_plan=is_plan) for part in spec.parts]
    return next((check for check in checks if check.refusal is not None or check.is_due), checks[0])


def _check_part(spec: RunSpec, *, is_plan: bool) -> GpuCheck:
    message = ""
    for result in checks_for(spec.target).run_before_start(spec, only_known=is_plan):
        message = result.message
        if result.state == BROKEN:
            # Only GPU problems have a command that fixes them.
            if not result.command or result.name not in OF_GPUS:
                return GpuCheck(message, is_due=True)
            return GpuCheck(message, _refusal(spec, result))
        if result.name == FRAMEWORK and result.state == WARNING:
            return GpuCheck(message, is_due=bool(result.command))
    return GpuCheck(message)


def admit(spec: RunSpec) -> RunSpec:
    """Check the GPU of a run. Raises NoGpu if the run must not start.

    Return the specification; `gpu_check_due` is set if the check must be repeated before the script starts.
    """
    check = check_gpu(spec)
    if check.refusal is not None:
        raise check.refusal
    return spec._replace(gpu_check_due=check.is_due)


def _refusal(spec: RunSpec, result: CheckResult) -> NoGpu:
    if isinstance(result.error, NoGpu):
        return result.error
    setting = asked_for(spec.target, spec.run_configuration)
    where = f" on {spec.target.address}" if result.there and spec.target.address else ""
    cause = result.message.removesuffix(f", and {setting}")
    first, *others = result.remedy.split("\n")
    fix_of_check = "\n".join([f"{first} Fix{where}: {result.command}".strip(), *others])
    return NoGpu(
        f"this run would not use a GPU, but {setting}: {cause}",
        remedy=fix_of_check,
        file=spec.run_configuration.path,
        command=result.command,
    )
