"""What a run's own log says about GPUs, in the words that frameworks print, quoted.

A log is evidence and no proof: a framework names the device that it found, not what it did with it. Read are the first
megabytes, where frameworks say what they found, and the last, where one says why it stopped.
"""

from __future__ import annotations

import re

from tui_workbench.records import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

FOR, AGAINST = "gpu", "cpu"

HEAD_BYTES, TAIL_BYTES = 2 << 20, 1 << 18
_MOST = 8
_LONGEST_LINE = 300

_COLOURS = re.compile(rb"^\[rank\d+\]: |\x1b\[[0-9;]*m")
"""What stands in a line without belonging to it; under torchrun, whose process wrote it."""


class Evidence(NamedTuple):
    """Lines of the log that speak for or against the use of a GPU."""

    speaks: str  # gpu or cpu
    framework: str
    quote: tuple[str, ...]
    line: int  # of the first, from 1; 0 when it is counted from nowhere (the end of a long log)
    cause: str = ""  # for `cpu`: why, in words


class _Rule(NamedTuple):
    pattern: re.Pattern[bytes]
    speaks: str
    framework: str
    following: re.Pattern[bytes] | None = None  # lines behind the first that belong to it
    cause: str = ""


# The block of TensorFlow 1, which the original's guide shows, and of the sample project.
_BLOCK = rb"^\s*(?:major: \d+ minor: \d+|pciBusID|total ?memory|free ?memory|coreClock|memoryClockRate)"


def _for(pattern: bytes, framework: str, following: bytes = b"") -> _Rule:
    return _Rule(re.compile(pattern), FOR, framework, re.compile(following, re.IGNORECASE) if following else None)


def _against(pattern: bytes, framework: str, cause: str) -> _Rule:
    return _Rule(re.compile(pattern), AGAINST, framework, None, cause)


_RULES = (
    _for(rb"Found device \d+ with properties", "TensorFlow 1", _BLOCK + rb"|^name: "),
    _for(rb"Creat(?:ed|ing) TensorFlow device .*(?:GPU|gpu):?\d* ?.*device: \d+, name: ", "TensorFlow 1"),
    _for(rb"Created device /job:\S+/device:GPU:\d+ with .*name: ", "TensorFlow 2"),
    _for(rb"^name: \S", "PyTorch", _BLOCK),
    _for(rb"Selected GPU\[\d+\] .* as the process wide default device", "CNTK"),
    _for(rb"^\s*Device\[\d+\]: cores = \d+; computeCapability", "CNTK"),
    _against(rb"Selected CPU as the process wide default device", "CNTK", "CNTK chose the CPU"),
    _against(rb"Could not find cuda drivers on your machine", "TensorFlow 2", "TensorFlow found no CUDA driver"),
    _against(
        rb"Cannot dlopen some GPU libraries",
        "TensorFlow 2",
        "TensorFlow found not all CUDA libraries that it was built for",
    ),
    _against(rb"Could not load dynamic library '(?:libcud|libnv)", "TensorFlow 2", "TensorFlow misses a CUDA library"),
    _against(
        rb"CUDA_ERROR_NO_DEVICE|no CUDA-capable device is detected",
        "CUDA",
        "CUDA was shown no device (CUDA_VISIBLE_DEVICES, or the container has none)",
    ),
    _against(rb"Torch not compiled with CUDA enabled|PyTorch \S+ is a CPU build", "PyTorch", "PyTorch is a CPU build"),
    _against(rb"Found no NVIDIA driver on your system", "PyTorch", "PyTorch found no NVIDIA driver"),
    _against(
        rb"The NVIDIA driver on your system is too old|CUDA driver version is insufficient",
        "CUDA",
        "the driver is too old for the CUDA of the framework",
    ),
    _against(rb"PyTorch \S+ finds no GPU on this machine", "PyTorch", "PyTorch found no GPU"),
    _against(
        rb"CUDA-enabled jaxlib is not installed|No GPU/TPU found, falling back to CPU",
        "JAX",
        "JAX is a CPU build, or found no GPU",
    ),
)

# One look decides for almost every line that it is none of these.
_ANY = re.compile(rb"GPU|/gpu:|CUDA|cuda|CPU|^(?:\[rank\d+\]: )?name: |Device\[|NVIDIA|Found device", re.MULTILINE)


def evidence_in(path: str) -> tuple[Evidence, ...]:
    """What the log at `path` says, in its order, each kind once; empty when there is no log."""
    try:
        with open(path, "rb") as file:
            head = file.read(HEAD_BYTES)
            tail = b""
            if len(head) == HEAD_BYTES:
                size = file.seek(0, 2)
                file.seek(max(HEAD_BYTES, size - TAIL_BYTES))
                tail = file.read()
    except OSError:
        return ()
    found: list[Evidence] = []
    for text, is_head in ((head, True), (tail, False)):
        for evidence in _evidence(text, counted=is_head):
            if len(found) < _MOST and not any(_same(evidence, known) for known in found):
                found.append(evidence)
    return tuple(found)


def _same(one: Evidence, other: Evidence) -> bool:
    return (one.speaks, one.framework, one.cause, one.quote[:1]) == (
        other.speaks, other.framework, other.cause, other.quote[:1]
    )  # fmt: skip


def _evidence(text: bytes, *, counted: bool) -> Iterator[Evidence]:
    lines = 0
    counted_to = end = 0
    for hit in _ANY.finditer(text):
        if hit.start() < end:
            continue
        start = text.rfind(b"\n", 0, hit.start()) + 1
        end = _line_end(text, hit.start())
        line = _COLOURS.sub(b"", text[start:end]).rstrip(b"\r")
        rule = next((rule for rule in _RULES if len(line) < 4 * _LONGEST_LINE and rule.pattern.search(line)), None)
        if rule is None:
            continue
        quote = [line]
        if rule.following is not None:
            end = _take_following(text, end, rule.following, quote)
            if rule.framework == "PyTorch" and len(quote) == 1 and b"major:" not in line:
                continue  # `name: ...` alone may be anything
        lines += text.count(b"\n", counted_to, start)
        counted_to = start
        shown = tuple(each.decode("utf-8", "replace").strip()[:_LONGEST_LINE] for each in quote)
        yield Evidence(rule.speaks, rule.framework, shown, lines + 1 if counted else 0, rule.cause)


def _take_following(text: bytes, end: int, following: re.Pattern[bytes], quote: list[bytes]) -> int:
    """Add the lines that belong to the block; where it ends."""
    while end < len(text) and len(quote) < 6:
        after = _line_end(text, end + 1)
        line = _COLOURS.sub(b"", text[end + 1 : after]).rstrip(b"\r")
        if not following.search(line):
            break
        quote.append(line)
        end = after
    return end


def _line_end(text: bytes, place: int) -> int:
    end = text.find(b"\n", place)
    return len(text) if end < 0 else end
