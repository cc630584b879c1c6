"""Parse Docker image references, and recognize images with CUDA or ROCm by their names."""

from __future__ import annotations

import re
from typing import NamedTuple

from tui_workbench.core.errors import UsageError

DEFAULT_GPU_IMAGE = "pytorch/pytorch:2.13.0-cuda13.0-cudnn9-runtime"
"""A current public image with CUDA and PyTorch. CUDA 13 needs NVIDIA driver 580 or newer."""

OLDER_DRIVER_GPU_IMAGE = "pytorch/pytorch:2.13.0-cuda12.6-cudnn9-runtime"
"""A similar image for machines with an older driver. It needs NVIDIA driver 525 or newer."""


DEFAULT_AMD_IMAGE = "rocm/pytorch:latest"
"""AMD's image with ROCm and PyTorch."""


class Image(NamedTuple):
    """The parts of a Docker image reference. A missing tag or digest is ""."""

    repository: str  # host and path
    tag: str
    digest: str


_REFERENCE = r"(?P<name>[^@\s]+?)(?::(?P<tag>[\w][\w.-]{0,127}))?(?:@(?P<digest>[\w+.-]+:[0-9a-fA-F]{32,}))?\Z"
_COMPONENT = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_PATH = rf"(?:[a-zA-Z0-9.-]+(?::[0-9]+)?/)?{_COMPONENT}(?:/{_COMPONENT})*\Z"


def parse_image(reference: str) -> Image | None:
    """Return the parts of an image reference, or None if Docker would not accept it."""
    match = re.match(_REFERENCE, reference)
    if match is None or not re.match(_PATH, match["name"]):
        return None
    return Image(match["name"], match["tag"] or "", match["digest"] or "")


def require_image(reference: str) -> None:
    """Raise UsageError if Docker would not accept an image reference."""
    if parse_image(reference) is None:
        remedy = "Write REPOSITORY:TAG, with the repository in lowercase."
        raise UsageError(f"invalid image name {reference!r}", remedy=remedy)


def image_parts(reference: str) -> Image:
    """Return the parts of an image reference. They are empty if Docker would not accept it."""
    return parse_image(reference) or Image("", "", "")


def is_gpu_image(reference: str) -> bool | None:
    """Return whether an image has CUDA or ROCm, or None if its name does not show this."""
    name, tag = short_name(reference), image_parts(reference).tag.lower()
    if re.search(r"(?:^|[^a-z])(?:gpu|cuda|cu\d{2,3}|nvidia|rocm)(?:[^a-z]|\d|$)", f"{name}:{tag}"):
        return True
    if name in _CPU_UNLESS_TAGGED or name.split("/")[-1] in _CPU_REPOSITORIES:
        return False
    return "cpu" not in tag if name == "pytorch/pytorch" else None


_CPU_UNLESS_TAGGED = {"microsoft/mmlspark", "tensorflow/tensorflow", "microsoft/cntk", "jupyter/tensorflow-notebook"}
_CPU_REPOSITORIES = frozenset(
    ("python", "ubuntu", "debian", "alpine", "fedora", "centos", "miniconda3", "anaconda3", "micromamba")
)


def short_name(reference: str) -> str:
    """Return the repository without its registry and `library/`; "" for an invalid reference."""
    repository = image_parts(reference).repository
    first, slash, rest = repository.partition("/")
    path = rest if slash and ("." in first or ":" in first or first == "localhost") else repository
    return path.removeprefix("library/")
