"""The GPU verdict of a run, and its conversion to JSON and text."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tui_workbench.core.files import load_json
from tui_workbench.core.json_values import read_as
from tui_workbench.runs.store.rundir import GPU_VERDICT
from tui_workbench.targets.gpu.sample import NODE_STEP

PROVEN, IDLE, NOT_USED, SHARED, UNKNOWN, STALLED = "proven", "idle", "not used", "shared", "unknown", "stalled"
WORDS = (PROVEN, IDLE, NOT_USED, SHARED, UNKNOWN, STALLED)

UNUSED = "it used no GPU: "

MOST_NODES = 4
"""Maximum number of nodes whose GPUs a text lists."""


class Evidence(NamedTuple):
    """Lines of the log that indicate the use of a GPU, or the lack of a GPU."""

    speaks: str  # gpu or cpu
    framework: str
    quote: tuple[str, ...]
    line: int  # number of the first line; 0 if unknown, as at the end of a long log
    cause: str = ""  # why no GPU is used, if `speaks` is cpu


class DeviceFigures(NamedTuple):
    """The use of a device by a run. A value that the driver does not report is None."""

    number: int
    name: str
    uuid: str
    seconds: float  # time in which processes of the run held memory of the device
    peak_memory: float | None  # MiB, of processes of the run
    mean_utilization: float | None  # %, of the device in that time
    p95_utilization: float | None
    own_utilization: float | None  # %, share of processes of the run
    gpu_seconds: float  # seconds times utilization
    energy: float  # Wh, of the device in that time
    shared_seconds: float
    others: tuple[str, ...]
    throttled_seconds: float
    ecc_errors: int
    idle: float | None = None  # %, part of that time in which the device did not compute
    ranks: tuple[int, ...] = ()  # of the processes of a run with torchrun


class Verdict(NamedTuple):
    """The GPU verdict of a run. `word` is one of WORDS, and `text` is a line with the figures."""

    word: str
    text: str
    cause: str = ""  # the probable cause of `not used` or `idle`
    devices: tuple[DeviceFigures, ...] = ()  # devices that the run used, the busiest first
    evidence: tuple[Evidence, ...] = ()
    unseen: tuple[str, ...] = ()  # gaps in the observation
    samples: int = 0
    final: bool = False
    advice: tuple[str, ...] = ()  # sentences about problems, with a figure and the usual fix

    @property
    def gpu_seconds(self) -> float:
        """Seconds times utilization, summed over all devices."""
        return sum(device.gpu_seconds for device in self.devices)

    @property
    def energy(self) -> float:
        """Energy of all devices in Wh."""
        return sum(device.energy for device in self.devices)


def figures_text(figures: Sequence[DeviceFigures]) -> str:
    """Return the totals of one or more devices in one line."""
    names = {figure.number: figure.name for figure in figures}
    node, model = split_name(figures[0].name)
    parts = [f"{gpus_text(sorted(names), names)}{',' if node else ''} {model}"]
    peaks = [figure.peak_memory for figure in figures if figure.peak_memory is not None]
    if peaks:
        parts.append(f"peak {size_text(max(peaks))}" + (" each" if len(peaks) > 1 else ""))
    reported = [figure for figure in figures if figure.mean_utilization is not None]
    if reported:
        seconds = sum(figure.seconds for figure in reported) or 1.0
        mean = sum((figure.mean_utilization or 0.0) * figure.seconds for figure in reported) / seconds
        parts.append(f"{mean:.0f} % mean, {max(figure.p95_utilization or 0.0 for figure in reported):.0f} % p95")
        parts.append(f"{time_text(sum(figure.gpu_seconds for figure in figures))} of GPU time")
    energy = sum(figure.energy for figure in figures)
    if energy:
        parts.append(f"{energy:.3g} Wh" if energy < 1000 else f"{energy / 1000:.3g} kWh")
    return ", ".join(parts)


def split_name(name: str) -> tuple[str, str]:
    """Return the node and model of a device. The node is "" for a run on one machine; see `sample.on_node`."""
    node, colon, model = name.partition(": ")
    return (node, model) if colon else ("", name)


def number_on_node(number: int, name: str) -> int:
    """Return the number of a device on its machine; `number` and `name` come from the samples of the run."""
    return number % NODE_STEP if split_name(name)[0] else number


def gpus_text(numbers: Sequence[int], names: Mapping[int, str]) -> str:
    """Return the numbers of GPUs: `GPU 3`, `GPUs 3,5`, or `GPUs 0,1 on box1, GPU 0 on box2` with several nodes.

    With more than MOST_NODES nodes, return only the counts, such as `9 GPUs on 5 nodes`. `names` are the names of the
    devices by number.
    """
    by_node: dict[str, list[int]] = {}
    for number in numbers:
        name = names.get(number, "")
        by_node.setdefault(split_name(name)[0], []).append(number_on_node(number, name))
    if len(by_node) > MOST_NODES:
        return f"{len(numbers)} GPUs on {len(by_node)} nodes"
    return ", ".join(
        f"{'GPU' if len(local) == 1 else 'GPUs'} {','.join(map(str, local))}{f' on {node}' if node else ''}"
        for node, local in by_node.items()
    )


def ranks_text(ranks: Sequence[int]) -> str:
    """Return `rank 5` or `ranks 4,5`."""
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {','.join(map(str, ranks))}"


def summary(verdict: Verdict, width: int = 65) -> list[str]:
    """Return the verdict as lines for a terminal: the sentence, the figures, the advice, and the missing samples."""
    figures = figures_text(verdict.devices) if verdict.devices else ""
    sentence = verdict.text.removesuffix(f": {figures}").removeprefix(UNUSED)
    texts = [f"GPU {verdict.word}: {sentence}", *([f"  {figures}"] if figures else [])]
    texts += [f"  {text}" for text in verdict.advice]
    texts += [f"  incomplete: {text}" for text in verdict.unseen]
    return [line for text in texts for line in textwrap.wrap(text, width, subsequent_indent="  ")]


def size_text(mib: float) -> str:
    """Format an amount of GPU memory, given in MiB."""
    return f"{mib:.0f} MiB" if mib < 1024 else f"{mib / 1024:.1f} GiB"


def time_text(seconds: float) -> str:
    """Format a duration, given in seconds, in one unit: `12 s`, `33 min` or `2.5 h`."""
    if seconds < 120:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def to_json(verdict: Verdict) -> dict[str, Any]:
    """Return the verdict in the format of `gpu.json` and of history records."""
    return {
        "verdict": verdict.word,
        "text": verdict.text,
        "cause": verdict.cause or None,
        "gpu_seconds": round(verdict.gpu_seconds, 2),
        "energy_wh": round(verdict.energy, 3),
        "devices": [figures._asdict() for figures in verdict.devices],
        "evidence": [message._asdict() for message in verdict.evidence],
        "unseen": list(verdict.unseen),
        "advice": list(verdict.advice),
        "samples": verdict.samples,
        "final": verdict.final,
    }


class _Stored(NamedTuple):
    """The keys of `gpu.json` that are read."""

    verdict: str
    text: str
    cause: str | None
    devices: tuple[DeviceFigures, ...]
    evidence: tuple[Evidence, ...]
    unseen: tuple[str, ...]
    samples: int
    final: bool
    advice: tuple[str, ...] = ()


def from_json(value: Any) -> Verdict:
    """Read the output of `to_json`. Raises ValueError for anything else."""
    stored = read_as(_Stored, value)
    return Verdict(
        stored.verdict, stored.text, stored.cause or "", stored.devices, stored.evidence, stored.unseen, stored.samples,
        stored.final, stored.advice,
    )  # fmt: skip


def stored_verdict(directory: str) -> Verdict | None:
    """Return the verdict that was stored at the end of the run, or None if it is missing or invalid."""
    try:
        return from_json(load_json(os.path.join(directory, GPU_VERDICT)))
    except (OSError, ValueError):
        return None
