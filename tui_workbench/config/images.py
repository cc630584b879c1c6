"""What is known about Docker images by their names.

Invariant: a function answers None where the tables know nothing; a check that builds on a guess would be worse than
none.
"""

from __future__ import annotations

import re

from tui_workbench.config.packages import Version
from tui_workbench.records import NamedTuple

DEFAULT_GPU_IMAGE = "pytorch/pytorch:2.13.0-cuda13.0-cudnn9-runtime"
"""A current public image with CUDA and PyTorch. CUDA 13 needs an NVIDIA driver of at least 580."""

OLDER_DRIVER_GPU_IMAGE = "pytorch/pytorch:2.13.0-cuda12.6-cudnn9-runtime"
"""The same for machines whose driver is older than 580 (at least 525)."""

ORIGINAL_GPU_IMAGES = (
    "microsoft/mmlspark:plus-gpu-0.9.9",
    "microsoft/mmlspark:plus-gpu-0.7.91",
    "microsoft/mmlspark:plus-gpu-0.7.9",
)
"""The GPU images of the original product, newest first."""

LAST_CPU_IMAGE = "microsoft/mmlspark:plus-0.9.9"
"""The original product's last default image."""


class Image(NamedTuple):
    """A Docker image reference in its parts."""

    repository: str  # host and path, without a tag
    tag: str  # "" when the reference has none
    digest: str  # "" when the reference has none


_REFERENCE = re.compile(
    r"(?P<name>[^@\s]+?)(?::(?P<tag>[\w][\w.-]{0,127}))?(?:@(?P<digest>[\w+.-]+:[0-9a-fA-F]{32,}))?\Z"
)
_COMPONENT = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_PATH = re.compile(rf"(?:[a-zA-Z0-9.-]+(?::[0-9]+)?/)?{_COMPONENT}(?:/{_COMPONENT})*\Z")


def parse_image(reference: str) -> Image | None:
    """The parts of an image reference, None when Docker would not accept it."""
    match = _REFERENCE.match(reference)
    if match is None or not _PATH.match(match["name"]):
        return None
    return Image(match["name"], match["tag"] or "", match["digest"] or "")


def is_gpu_image(reference: str) -> bool | None:
    """Whether an image holds CUDA: True, False, or None when its name does not tell."""
    image = parse_image(reference)
    if image is None:
        return None
    name, tag = _short(image.repository), image.tag.lower()
    if re.search(r"(?:^|[^a-z])(?:gpu|cuda|cu\d{2,3}|nvidia)(?:[^a-z]|\d|$)", f"{name}:{tag}"):
        return True
    if name in _CPU_UNLESS_TAGGED or name.split("/")[-1] in _CPU_REPOSITORIES:
        return False
    if name == "pytorch/pytorch":
        return "cpu" not in tag
    return None


_CPU_UNLESS_TAGGED = {"microsoft/mmlspark", "tensorflow/tensorflow", "microsoft/cntk", "jupyter/tensorflow-notebook"}
_CPU_REPOSITORIES = {
    "python",
    "ubuntu",
    "debian",
    "alpine",
    "fedora",
    "centos",
    "miniconda3",
    "anaconda3",
    "micromamba",
}


def _short(repository: str) -> str:
    """The path without a registry's host name and the `library/` of official images."""
    first, slash, rest = repository.partition("/")
    path = rest if slash and ("." in first or ":" in first or first == "localhost") else repository
    return path.removeprefix("library/")


def cuda_of_image(reference: str) -> Version | None:
    """The CUDA version that the image's name tells, None when it does not."""
    image = parse_image(reference)
    if image is None:
        return None
    if _short(image.repository) == "nvidia/cuda":
        match = re.match(r"(\d+)\.(\d+)", image.tag)
    else:
        match = re.search(r"cuda[-_]?(\d+)\.(\d+)", image.tag) or re.search(r"cu(\d{2})(\d)(?!\d)", image.tag)
    return (int(match[1]), int(match[2])) if match else None


def gpu_twin(reference: str) -> str | None:
    """The image of the same family and version that holds CUDA, None when none is known."""
    image = parse_image(reference)
    if image is None or is_gpu_image(reference):
        return None
    name = _short(image.repository)
    if name == "microsoft/mmlspark":
        match = re.match(r"plus-(\d[\w.]*)\Z", image.tag)
        twin = f"microsoft/mmlspark:plus-gpu-{match[1]}" if match else ORIGINAL_GPU_IMAGES[0]
        return twin if twin in ORIGINAL_GPU_IMAGES else ORIGINAL_GPU_IMAGES[0]
    if name == "tensorflow/tensorflow":
        tag = image.tag or "latest"
        return f"tensorflow/tensorflow:{tag.replace('-py3', '')}-gpu{'-py3' if tag.endswith('-py3') else ''}"
    return None


def newest_relative(reference: str) -> str | None:
    """The newest image of the same family without CUDA, None when the family is not known."""
    image = parse_image(reference)
    return LAST_CPU_IMAGE if image is not None and _short(image.repository) == "microsoft/mmlspark" else None


def stale_reason(reference: str) -> str:
    """Why an image is too old to be a good base, "" when nothing speaks against it."""
    image = parse_image(reference)
    if image is None:
        return ""
    name = _short(image.repository)
    if name == "microsoft/mmlspark":
        if image.tag and image.tag not in _LAST_MMLSPARK:
            return "an early image of 2017 that newer ones of its family replaced"
        if not image.tag:
            return "an image of 2017 without a tag, so nobody knows which version it is"
        return "an image of 2017, made for the GPUs of its time (Tesla K80)" if "gpu" in image.tag else ""
    cuda = cuda_of_image(reference)
    if cuda is not None and cuda < (11, 0):
        return f"CUDA {cuda[0]}.{cuda[1]} is older than every GPU since 2020 needs"
    return ""


_LAST_MMLSPARK = {"plus-0.9.9", "plus-gpu-0.9.9", "plus-0.7.91", "plus-gpu-0.7.91"}
