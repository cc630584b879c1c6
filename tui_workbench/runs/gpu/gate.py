"""The gate before a run that asks for a GPU: one that would train on the CPU does not start, unless it may.

It looks at what can be seen without making anything: the driver, the GPUs, and the framework in the run's environment
where that is there already. What cannot be seen yet is looked at again when the environment is there, before the
script is started. What is no matter of GPUs (an engine that is down, a machine out of reach) is left to the run.
"""

from __future__ import annotations

from tui_workbench.errors import NoGpu
from tui_workbench.records import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tui_workbench.model import RunSpec

STEP = "preflight"
TITLE = "look whether it would compute on a GPU"


class Seen(NamedTuple):
    """What was found: `text` in one line, why the run is to be stopped, and whether something is still to be seen."""

    text: str
    refusal: NoGpu | None = None
    is_due: bool = False


def look(spec: RunSpec) -> Seen:
    """Look at the run's target. Blocks; a framework that nobody has asked before takes seconds to answer."""
    from tui_workbench.errors import WorkbenchError
    from tui_workbench.targets.check import BROKEN, DOCKER, FRAMEWORK, WARNING, answered
    from tui_workbench.targets.check_engine import EngineRungs
    from tui_workbench.targets.gpu.frameworks import ONE
    from tui_workbench.targets.gpu.preflight import Preflight
    from tui_workbench.targets.host_for import host_of

    try:
        host = host_of(spec.target)
    except WorkbenchError as error:
        return Seen(error.message, is_due=True)
    engine = None
    if spec.target.type.endswith("docker"):
        engine = EngineRungs(spec.target, host)
        answers = answered(DOCKER, engine.docker, host.label)
        if answers.state == BROKEN:
            return Seen(answers.message, is_due=True)
    said = ""
    for rung in Preflight(spec, host, engine, ONE).climb(is_quick=True):
        said = rung.message
        if rung.state == BROKEN:
            # What only GPUs can be the cause of comes with what mends it.
            if not rung.command:
                return Seen(rung.message, is_due=True)
            return Seen(rung.message, _refusal(spec, rung.message, rung.remedy, rung.command, there=rung.there))
        if rung.name == FRAMEWORK and rung.state == WARNING:
            return Seen(rung.message, is_due=bool(rung.command))
    return Seen(said)


def admit(spec: RunSpec) -> RunSpec:
    """The specification of a run that asks for a GPU, marked when it is to be looked at again. Raises NoGpu."""
    seen = look(spec)
    if seen.refusal is not None:
        raise seen.refusal
    return spec._replace(gpu_check_due=seen.is_due)


def _refusal(spec: RunSpec, message: str, remedy: str, command: str, *, there: bool) -> NoGpu:
    from tui_workbench.targets.gpu.presence import asked_for

    why = asked_for(spec.target, spec.run_configuration)
    place = f" on {spec.target.address}" if there and spec.target.address else ""
    return NoGpu(
        f"it would use no GPU, though {why}: {message.removesuffix(f', and {why}')}",
        remedy=f"{remedy} Mend it{place}: {command}".strip(),
        file=spec.run_configuration.path,
        command=command,
        there=there,
    )
