"""Judge whether a run used a GPU, from what its samples add up to.

`proven` is said only of what was seen: processes of the run held memory of a device and that device computed meanwhile.
What could not be seen is named, and never taken for rest. The verdict of a run that has ended is stored; before, it is
made from the samples so far.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence

from tui_workbench.core.errors import storage_errors
from tui_workbench.core.files import write_below
from tui_workbench.core.model import RunConfiguration, RunState
from tui_workbench.runs.gpu.evidence import AGAINST, FOR, evidence_in
from tui_workbench.runs.gpu.usage import BUSY_PERCENT, UNSOUND, DeviceUse, Usage, read_usage
from tui_workbench.runs.gpu.verdict import (
    IDLE,
    NOT_USED,
    PROVEN,
    REQUIRED,
    SHARED,
    UNKNOWN,
    UNUSED,
    DeviceFigures,
    Evidence,
    Verdict,
    figures_text,
    size_text,
    time_text,
    to_json,
)
from tui_workbench.runs.store.rundir import GPU_SAMPLES, GPU_VERDICT, OUTPUT, Ending, RunDirectory

SHORTEST_SECONDS = 3.0
"""Less than this is not enough to say that nothing was done: a process needs a second to load CUDA."""

SHARED_PART = 0.1
"""Others on the device for longer than this part of the time make its figures those of all."""

_VISIBLE = "CUDA_VISIBLE_DEVICES"


def judge(usage: Usage, evidence: Sequence[Evidence], variables: Mapping[str, str], *, final: bool) -> Verdict:
    """The verdict on a run with these samples, log and variables of its run configuration."""
    held = {number: use for number, use in usage.devices.items() if use.held > 0}
    figures = tuple(
        sorted((_figures(usage, number, use) for number, use in held.items()), key=lambda each: -each.gpu_seconds)
    )
    word, text, cause = _decide(usage, held, figures, evidence, variables)
    if figures:
        text = f"{text}: {figures_text(figures)}"
    return Verdict(word, text, cause, figures, tuple(evidence), _unseen(usage, held), usage.samples, final)


def _decide(
    usage: Usage,
    held: Mapping[int, DeviceUse],
    figures: Sequence[DeviceFigures],
    evidence: Sequence[Evidence],
    variables: Mapping[str, str],
) -> tuple[str, str, str]:
    """Word, its sentence and the cause."""
    if not held:
        return _decide_unheld(usage, evidence, variables)
    if all(use.untold >= use.held for use in held.values()):
        why = "MIG is on" if any(device.slices for device in usage.machine.devices) else "the driver does not tell it"
        return UNKNOWN, f"its processes held memory, and no utilisation could be seen ({why})", ""
    seconds = sum(use.held for use in held.values())
    busy = sum(use.busy for use in held.values())
    if busy < 1.0 and seconds < SHORTEST_SECONDS:
        return UNKNOWN, "its processes held memory for too short a time to see them compute", ""
    # Work in bursts has a mean that no rest has.
    in_bursts = any((use.mean_utilization or 0.0) >= BUSY_PERCENT for use in held.values())
    if busy < max(1.0, seconds * BUSY_PERCENT / 100) and not in_bursts:
        cause = "the model may be on the GPU and the work on the CPU, or it waits for data"
        return IDLE, "its processes held memory and hardly computed", _against(evidence) or cause
    if sum(use.shared for use in held.values()) > SHARED_PART * seconds:
        others = ", ".join(dict.fromkeys(name for each in figures for name in each.others))
        return SHARED, f"its processes computed, and so may have others meanwhile ({others})", ""
    where = "a GPU" if len(figures) == 1 else f"{len(figures)} GPUs"
    return PROVEN, f"its processes computed on {where}", ""


def _decide_unheld(usage: Usage, evidence: Sequence[Evidence], variables: Mapping[str, str]) -> tuple[str, str, str]:
    against = _against(evidence)
    speaks_for = any(each.speaks == FOR for each in evidence)
    watched = max((use.watched for use in usage.devices.values()), default=0.0)
    if against and not speaks_for:
        return NOT_USED, f"{UNUSED}{against}", against
    if usage.machine.hides_processes:
        return UNKNOWN, f"from inside a container nobody can see whose processes use the GPU{_meanwhile(usage)}", ""
    if watched < SHORTEST_SECONDS:
        short = "it was over before its processes could be seen on a GPU"
        return UNKNOWN, short if usage.samples else "no sample of a GPU was taken while it ran", ""
    if speaks_for:
        return UNKNOWN, "its log names a GPU, and none of its processes was seen on one", ""
    cause = _cause_of_absence(usage, variables)
    return NOT_USED, f"{UNUSED}{cause}", cause


def _cause_of_absence(usage: Usage, variables: Mapping[str, str]) -> str:
    visible = usage.facts.get("visible", variables.get(_VISIBLE))
    if visible is not None:
        known = {str(device.number) for device in usage.machine.devices}
        wanted = [part.strip() for part in str(visible).split(",")]
        if not wanted[0] or wanted[0] == "-1":
            return f"{_VISIBLE} is {str(visible)!r}, which hides every device"
        if wanted[0].isdigit() and wanted[0] not in known:
            return f"{_VISIBLE} is {str(visible)!r}, and there is no such device"
    if usage.facts.get("cuda") is False:
        return "none of its processes loaded CUDA (a CPU build of the framework, or nothing that asks for a GPU)"
    if usage.facts.get("cuda"):
        return "CUDA was loaded and no device addressed (a model that was never moved to the GPU?)"
    return "none of its processes held memory of one"


def _against(evidence: Sequence[Evidence]) -> str:
    return next((each.cause for each in evidence if each.speaks == AGAINST), "")


def _meanwhile(usage: Usage) -> str:
    """What devices did while the run went on, whoever's doing it was."""
    said = []
    for number, use in sorted(usage.devices.items()):
        if use.watched and (use.work or (use.peak_all or 0.0) > (use.first_memory or 0.0)):
            grown = (use.peak_all or 0.0) - (use.first_memory or 0.0)
            said.append(
                f"GPU {number} was at {100 * use.work / use.watched:.0f} % and its memory grew by {size_text(grown)}"
            )
    return f"; meanwhile {', '.join(said)}" if said else ""


def _unseen(usage: Usage, held: Mapping[int, DeviceUse]) -> tuple[str, ...]:
    said = [text for _, text in usage.notes]
    if usage.unseen >= 1.0:
        said.append(f"nobody looked for {time_text(usage.unseen)}")
    if usage.machine.hides_processes:
        said.append("process ids of the driver are not those of this container")
    for number, use in sorted(held.items()):
        if use.peak is None:
            said.append(f"GPU {number}: the driver does not tell the memory of processes")
        if 0 < use.untold < use.held:
            said.append(f"GPU {number}: no utilisation for {time_text(use.untold)}")
        if not use.energy:
            said.append(f"GPU {number}: the driver does not tell its power")
    return tuple(dict.fromkeys(said))


def _figures(usage: Usage, number: int, use: DeviceUse) -> DeviceFigures:
    device = next((device for device in usage.machine.devices if device.number == number), None)
    mean, p95 = use.mean_utilization, use.quantile(0.95)
    return DeviceFigures(
        number,
        device.name if device else "GPU",
        device.uuid if device else "",
        round(use.held, 2),
        use.peak,
        None if mean is None else round(mean, 1),
        p95,
        round(100 * use.own_seconds / use.own_known, 1) if use.own_known else None,
        round(use.gpu_seconds, 2),
        round(use.energy / 3600, 3),
        round(use.shared, 2),
        tuple(use.others),
        round(use.throttled, 2),
        (use.ecc or 0) - (use.ecc_first or 0),
    )


def fresh_verdict(
    directory: str, variables: Mapping[str, str], *, final: bool = False, with_log: bool = True
) -> Verdict | None:
    """The verdict by what is there now; None without samples, or when they hold values that no sampler writes."""
    usage = read_usage(os.path.join(directory, GPU_SAMPLES))
    if usage is None:
        return None
    evidence = evidence_in(os.path.join(directory, OUTPUT)) if with_log else ()
    try:
        return judge(usage, evidence, variables, final=final)
    except UNSOUND:
        return None


def conclude(directory: RunDirectory, configuration: RunConfiguration, ending: Ending) -> Ending:
    """Store the verdict of a run that has ended; the ending as the run configuration's policies want it.

    Without samples nothing is stored. Raises StorageError.
    """
    verdict = fresh_verdict(directory.path, configuration.environment_variables, final=True)
    if verdict is None:
        return judged(configuration, ending, "", "there was none that it could use")
    with storage_errors("write", directory.file(GPU_VERDICT)):
        data = json.dumps(to_json(verdict), indent=1).encode() + b"\n"
        write_below(directory.path, GPU_VERDICT, data, durable=True)
    return judged(configuration, ending, verdict.word, verdict.cause)


def judged(configuration: RunConfiguration, ending: Ending, word: str, cause: str) -> Ending:
    """The ending of a run whose verdict is known, "" for one without; a run that needed a GPU has failed without one.

    `cause` says why none was used.
    """
    if not configuration.require_gpu or ending.state != RunState.COMPLETED or word not in ("", NOT_USED):
        return ending
    reason = f"{REQUIRED}: it used no GPU{f': {cause}' if cause else ''}"
    return ending._replace(state=RunState.FAILED, reason=reason, exit_code=None)
