"""Find messages of frameworks about GPUs in the log of a run.

A message is not proof: a framework names the devices that it found, even if it does not use them. Only the first
HEAD_BYTES and the last TAIL_BYTES of the log are read.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import NamedTuple

from tui_workbench.core.files import open_regular
from tui_workbench.runs.gpu.verdict import Evidence

FOR, AGAINST = "gpu", "cpu"

HEAD_BYTES, TAIL_BYTES = 2 << 20, 1 << 18
_MOST = 8
_LONGEST_LINE = 300
_LONGEST_QUOTE = 6

# Color codes, and the prefix that torchrun adds to a line.
_COLORS = re.compile(rb"^\[rank\d+\]: |\x1b\[[0-9;]*m")


class _Rule(NamedTuple):
    pattern: bytes
    framework: str
    cause: str = ""  # why no GPU is used; "" if the message shows that the framework found a GPU
    following: bytes = b""  # pattern of further lines of the message


# Properties of a device, as TensorFlow 1 and the sample project print them.
_BLOCK = rb"^\s*(?:major: \d+ minor: \d+|pciBusID|total ?memory|free ?memory|coreClock|memoryClockRate)"

_RULES = (
    _Rule(rb"Found device \d+ with properties", "TensorFlow 1", following=_BLOCK + rb"|^name: "),
    _Rule(rb"Creat(?:ed|ing) TensorFlow device .*(?:GPU|gpu):?\d* ?.*device: \d+, name: ", "TensorFlow 1"),
    _Rule(rb"Created device /job:\S+/device:GPU:\d+ with .*name: ", "TensorFlow 2"),
    _Rule(rb"^name: \S", "PyTorch", following=_BLOCK),
    _Rule(rb"Selected GPU\[\d+\] .* as the process wide default device", "CNTK"),
    _Rule(rb"^\s*Device\[\d+\]: cores = \d+; computeCapability", "CNTK"),
    _Rule(rb"Selected CPU as the process wide default device", "CNTK", "CNTK chose the CPU"),
    _Rule(rb"Could not find cuda drivers on your machine", "TensorFlow 2", "TensorFlow found no CUDA driver"),
    _Rule(rb"Cannot dlopen some GPU libraries", "TensorFlow 2", "TensorFlow did not find all of its CUDA libraries"),
    _Rule(
        rb"Could not load dynamic library '(?:libcud|libnv)", "TensorFlow 2", "TensorFlow did not find a CUDA library"
    ),
    _Rule(
        rb"CUDA_ERROR_NO_DEVICE|no CUDA-capable device is detected", "CUDA",
        "CUDA found no device (CUDA_VISIBLE_DEVICES may hide it, or the container may have none)",
    ),
    _Rule(
        rb"No HIP GPUs are available|no ROCm-capable device is detected", "ROCm",
        "ROCm found no device (HIP_VISIBLE_DEVICES may hide it, or /dev/kfd may be inaccessible)",
    ),
    _Rule(rb"Torch not compiled with CUDA enabled|PyTorch \S+ is a CPU build", "PyTorch", "PyTorch is a CPU build"),
    _Rule(rb"Found no NVIDIA driver on your system", "PyTorch", "PyTorch found no NVIDIA driver"),
    _Rule(
        rb"The NVIDIA driver on your system is too old|CUDA driver version is insufficient", "CUDA",
        "the driver is too old for the framework's CUDA version",
    ),
    _Rule(rb"PyTorch \S+ finds no GPU on this machine", "PyTorch", "PyTorch found no GPU"),
    _Rule(
        rb"CUDA-enabled jaxlib is not installed|No GPU/TPU found, falling back to CPU", "JAX",
        "JAX is a CPU build, or found no GPU",
    ),
)  # fmt: skip
# A first search that excludes almost all lines.
_ANY = re.compile(rb"GPU|/gpu:|CUDA|cuda|ROCm|CPU|^(?:\[rank\d+\]: )?name: |Device\[|NVIDIA|Found device")


def evidence_in(path: str, start: int = 0, end: int | None = None) -> tuple[Evidence, ...]:
    """Return the first message of each kind in the log at `path`, in order; empty without a log.

    Only the bytes from `start` to `end` are read, by default all. Line numbers count from `start`.
    """
    try:
        with open_regular(path) as file:
            end = file.seek(0, 2) if end is None else end
            file.seek(start)
            head = file.read(max(0, min(HEAD_BYTES, end - start)))
            tail = b""
            if len(head) == HEAD_BYTES:
                begin = file.seek(max(start + HEAD_BYTES, end - TAIL_BYTES))
                tail = file.read(max(0, end - begin))
    except OSError:
        return ()
    messages: dict[tuple[object, ...], Evidence] = {}
    for message in itertools.chain(_evidence(head), (message._replace(line=0) for message in _evidence(tail))):
        messages.setdefault((message.speaks, message.framework, message.cause, message.quote[:1]), message)
    return tuple(messages.values())[:_MOST]


def _evidence(text: bytes) -> Iterator[Evidence]:
    lines = text.split(b"\n")
    taken = 0
    for number, raw in enumerate(lines):
        if number < taken or not _ANY.search(raw):
            continue
        line = _plain(raw)
        rule = next((rule for rule in _RULES if len(line) < 4 * _LONGEST_LINE and re.search(rule.pattern, line)), None)
        if rule is None:
            continue
        quote = [line]
        if rule.following:
            behind = map(_plain, lines[number + 1 : number + _LONGEST_QUOTE])
            quote += itertools.takewhile(re.compile(rule.following, re.IGNORECASE).search, behind)
            if rule.framework == "PyTorch" and len(quote) == 1 and b"major:" not in line:
                continue  # a single line `name: ...` may have any meaning
        taken = number + len(quote)
        shown = tuple(part.decode("utf-8", "replace").strip()[:_LONGEST_LINE] for part in quote)
        yield Evidence(AGAINST if rule.cause else FOR, rule.framework, shown, number + 1, rule.cause)


def _plain(line: bytes) -> bytes:
    return _COLORS.sub(b"", line).rstrip(b"\r")
