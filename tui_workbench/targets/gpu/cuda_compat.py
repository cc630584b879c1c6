"""Which CUDA a driver serves, and which GPUs a framework's build computes on. A table that knows nothing says nothing.

Sources: NVIDIA's "CUDA Compatibility", table of minimum driver versions (docs.nvidia.com/deploy/cuda-compatibility),
and for what is older than CUDA 11 the table of the CUDA Toolkit release notes; kinds of code as "CUDA C++ Programming
Guide" describes them: binary code runs on its own major version from its minor one on, PTX on everything newer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

SOURCE = "NVIDIA, CUDA Compatibility"

# Oldest Linux driver for a CUDA version and what follows up to the next one.
_DRIVERS = (
    ((13, 0), "580"),
    ((12, 0), "525"),
    ((11, 0), "450"),
    ((10, 2), "440.33"),
    ((10, 1), "418.39"),
    ((10, 0), "410.48"),
    ((9, 2), "396.26"),
    ((9, 1), "390.46"),
    ((9, 0), "384.81"),
    ((8, 0), "367.48"),
    ((7, 5), "352.31"),
    ((7, 0), "346.46"),
)
_ARCHITECTURE = re.compile(r"(sm|compute)_(\d+)(\d)([a-z]?)")


def version_of(text: str) -> tuple[int, ...]:
    """The numbers of a version; empty when it begins with none."""
    found = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(map(int, found.group().split("."))) if found else ()


def driver_for(cuda: str) -> str:
    """The oldest driver on which a build for this CUDA version runs; "" when that is not known."""
    numbers = version_of(cuda)
    if not numbers:
        return ""
    wanted = (*numbers, 0)[:2]
    return next((driver for first, driver in _DRIVERS if wanted >= first), "")


def newest_for(driver: str) -> str:
    """The newest CUDA major version that a driver serves, as 12; "" when that is not known."""
    own = version_of(driver)
    return next((str(first[0]) for first, oldest in _DRIVERS if own >= version_of(oldest)), "") if own else ""


def serves(driver: str, cuda: str) -> bool:
    """Whether a driver serves a build for this CUDA version; True as well when it is not known."""
    oldest, own = version_of(driver_for(cuda)), version_of(driver)
    return not oldest or not own or own >= oldest


def computes_on(architectures: Sequence[str], capability: str) -> bool:
    """Whether a build with code for these architectures (`sm_75`, `compute_90`) computes on a GPU of this capability.

    True as well when either is not known.
    """
    own = (*version_of(capability), 0)[:2]
    parts = [found.groups() for found in map(_ARCHITECTURE.fullmatch, architectures) if found]
    if len(own) < 2 or not parts or own == (0, 0):
        return True
    return any(_runs(kind, (int(major), int(minor)), letter, own) for kind, major, minor, letter in parts)


def _runs(kind: str, made_for: tuple[int, int], letter: str, own: Sequence[int]) -> bool:
    major, minor = own
    if letter == "a":
        return made_for == (major, minor)
    if kind == "compute" and not letter:
        return made_for <= (major, minor)
    return made_for[0] == major and made_for[1] <= minor
