"""CUDA compatibility: the CUDA versions that a driver supports, and the GPUs that a framework's build supports.

Sources: the table of minimum driver versions in NVIDIA's "CUDA Compatibility"
(docs.nvidia.com/deploy/cuda-compatibility), and for CUDA 10 and older the CUDA Toolkit release notes. The "CUDA C++
Programming Guide" describes on which GPUs code runs. Binary code runs on GPUs of the same major version and the same or
a higher minor version. PTX runs on GPUs of the same or a higher version.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

SOURCE = "NVIDIA, CUDA Compatibility"

# A CUDA version, and the oldest Linux driver for it and for all newer versions below the previous entry.
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
    """Return the leading numbers of a version; empty if it does not start with a number."""
    match = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(map(int, match.group().split("."))) if match else ()


def driver_for(cuda: str) -> str:
    """Return the oldest driver that supports this CUDA version; "" if it is not known."""
    numbers = version_of(cuda)
    if not numbers:
        return ""
    version = (*numbers, 0)[:2]
    return next((driver for first, driver in _DRIVERS if version >= first), "")


def newest_for(driver: str) -> str:
    """Return the newest CUDA major version that a driver supports, for example 12; "" if it is not known."""
    own = version_of(driver)
    return next((str(first[0]) for first, oldest in _DRIVERS if own >= version_of(oldest)), "") if own else ""


def serves(driver: str, cuda: str) -> bool:
    """Return True if a driver supports this CUDA version, or if one of the versions is not known."""
    oldest, own = version_of(driver_for(cuda)), version_of(driver)
    return not oldest or not own or own >= oldest


def computes_on(architectures: Sequence[str], capability: str) -> bool:
    """Return True if a build for these architectures (`sm_75`, `compute_90`) runs on a GPU of this capability.

    Also True if the architectures or the capability are not known.
    """
    own = (*version_of(capability), 0)[:2]
    parts = [match.groups() for match in map(_ARCHITECTURE.fullmatch, architectures) if match]
    if len(own) < 2 or not parts or own == (0, 0):
        return True
    return any(_runs(kind, (int(major), int(minor)), letter, own) for kind, major, minor, letter in parts)


def _runs(kind: str, made_for: tuple[int, int], letter: str, own: Sequence[int]) -> bool:
    major, minor = own
    # Code for `sm_90a` uses features of this version, which no other GPU has.
    if letter == "a":
        return made_for == (major, minor)
    # `compute_90` is PTX, which the driver compiles for newer GPUs too.
    if kind == "compute" and not letter:
        return made_for <= (major, minor)
    return made_for[0] == major and made_for[1] <= minor
