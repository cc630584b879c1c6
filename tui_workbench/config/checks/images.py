"""Look up the CUDA version of Docker images, and choose images with the CUDA version that packages need.

A function returns None if the tables contain no answer, because a check must not be based on a guess.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tui_workbench.config.checks import packages
from tui_workbench.config.checks.image_names import (
    DEFAULT_GPU_IMAGE,
    image_parts,
    is_gpu_image,
    parse_image,
    short_name,
)
from tui_workbench.config.checks.packages import Build, Requirement, Version, show_version
from tui_workbench.config.checks.project_context import ProjectContext
from tui_workbench.core.model import ComputeTarget, RunConfiguration

ORIGINAL_GPU_IMAGES = (
    "microsoft/mmlspark:plus-gpu-0.9.9",
    "microsoft/mmlspark:plus-gpu-0.7.91",
    "microsoft/mmlspark:plus-gpu-0.7.9",
)
"""The GPU images of Azure ML Workbench, newest first. They also contain Spark and Open MPI."""

_ORIGINAL_BUILD = Build((3, 5), (3, 5), cuda=(8, 0), cudnn=(6,))
LAST_CPU_IMAGE = "microsoft/mmlspark:plus-0.9.9"
"""The last default image of Azure ML Workbench."""


def cuda_of_image(reference: str) -> Version | None:
    """Return the CUDA version of an image from its name or the tables, or None if it is unknown."""
    tag = image_parts(reference).tag
    if short_name(reference) == "nvidia/cuda":
        match = re.match(r"(\d+)\.(\d+)", tag)
    else:
        match = re.search(r"cuda[-_]?(\d+)\.(\d+)", tag) or re.search(r"cu(\d{2})(\d)(?!\d)", tag)
    if match is not None:
        return int(match[1]), int(match[2])
    build = _build_of_image(reference)
    return build.cuda if build is not None else None


def cudnn_of_image(reference: str) -> Version | None:
    """Return the major cuDNN version of an image from its name or the tables, or None if it is unknown."""
    match = re.search(r"cudnn[-_]?(\d+)", image_parts(reference).tag)
    if match is not None:
        return (int(match[1]),)
    build = _build_of_image(reference)
    return build.cudnn if build is not None else None


def _build_of_image(reference: str) -> Build | None:
    """Return the requirements of the framework for which a GPU image is made, or None if they are unknown."""
    name, tag = short_name(reference), image_parts(reference).tag
    if "gpu" not in tag:
        return None
    if name == "microsoft/mmlspark":
        return _ORIGINAL_BUILD
    # The image of a TensorFlow release has the CUDA version that the release needs.
    return packages.build_of("tensorflow", packages.parse_version(tag)) if name == "tensorflow/tensorflow" else None


def removed_reason(reference: str) -> str:
    """Return the reason why a registry may no longer have an image, or ""."""
    image = image_parts(reference)
    repository = image.repository.removeprefix("docker.io/")
    cuda = cuda_of_image(reference)
    if repository.startswith("microsoft/") and not image.digest:
        return "Docker Hub removed all images of microsoft/ in July 2021"
    if repository == "nvidia/cuda" and not image.digest and cuda is not None and cuda < (11, 0):
        return "NVIDIA removed its images of CUDA 10.2 and older from Docker Hub in 2023"
    return ""


def newest_gpu_of(reference: str) -> str:
    """Return the newest GPU generation that the CUDA of an image supports; "" for CUDA 11 and newer or unknown."""
    cuda = cuda_of_image(reference)
    if cuda is None or cuda >= (11, 0):
        return ""
    return {8: "Pascal (2016)", 9: "Volta (2017)", 10: "Turing (2018)"}.get(cuda[0], "Maxwell (2014)")


def gpu_variant(reference: str) -> str | None:
    """Return the CUDA image of the same family, in the same version if there is one.

    Return None for other families, or if `reference` has CUDA.
    """
    name, tag = short_name(reference), image_parts(reference).tag
    if is_gpu_image(reference):
        return None
    if name == "microsoft/mmlspark":
        same = [image for image in ORIGINAL_GPU_IMAGES if mmlspark_version(image) == mmlspark_version(tag)]
        return (same or ORIGINAL_GPU_IMAGES)[0]
    if name == "tensorflow/tensorflow":
        end = "-py3" if tag.endswith("-py3") else ""
        return f"tensorflow/tensorflow:{(tag or 'latest').replace('-py3', '')}-gpu{end}"
    return None


def newest_cpu_image(reference: str) -> str | None:
    """Return the newest image of the same family without CUDA, or None for an unknown family."""
    return LAST_CPU_IMAGE if short_name(reference) == "microsoft/mmlspark" else None


def stale_reason(reference: str) -> str:
    """Return a message that says why an image is too old, or ""."""
    tag = image_parts(reference).tag
    if short_name(reference) == "microsoft/mmlspark":
        if tag and mmlspark_version(tag) < _FIRST_LASTING_MMLSPARK:
            return f"{reference} is an early image of 2017, which newer images have replaced"
        if not tag:
            return f"{reference} is an image of 2017 whose version is unknown, because it has no tag"
        age = "an image of 2017 or 2018, made for the GPUs of that time (Tesla K80)"
        return f"{reference} is {age}" if "gpu" in tag else ""
    cuda = cuda_of_image(reference)
    if cuda is not None and cuda < (11, 0):
        return f"{reference}: CUDA {cuda[0]}.{cuda[1]} is too old for Ampere (2020) and newer GPUs"
    return ""


_FIRST_LASTING_MMLSPARK = (0, 7, 91)
"""The first version of the image (September 2017) that was not replaced within days."""


def mmlspark_version(tag: str) -> Version:
    """Return the version in a tag such as `plus-gpu-0.10.9`, or () if it contains none."""
    match = re.search(r"(?:\A|-)(\d+(?:\.\d+)*)", tag)
    return packages.parse_version(match[1]) if match else ()


def wants_gpu(target: ComputeTarget) -> bool:
    """Return True if a target uses a GPU, according to its image or `nvidiaDocker`."""
    return target.nvidia_docker or bool(is_gpu_image(target.base_docker_image))


# -- requirements of the packages of a project ------------------------------------------------------------------------

_TENSORFLOW_RELEASES: dict[Version, str] = {(1, 13): "1.13.1", (2, 16): "2.16.1"}
"""The first releases of the minor versions of TensorFlow that have no release X.Y.0."""

_CNTK_IMAGES: dict[Version, str] = {
    (2, 0): "microsoft/cntk:2.0-gpu-python3.5-cuda8.0-cudnn5.1",
    (2, 1): "microsoft/cntk:2.1-gpu-python3.5-cuda8.0-cudnn6.0",
    (2, 2): "microsoft/cntk:2.2-gpu-python3.5-cuda8.0-cudnn6.0",
    (2, 3): "microsoft/cntk:2.3-gpu-python3.5-cuda8.0-cudnn6.0",
    (2, 4): "microsoft/cntk:2.4-gpu-python3.5-cuda9.0-cudnn7.0",
    (2, 5): "microsoft/cntk:2.5.1-gpu-python3.5-cuda9.0-cudnn7.0",
    (2, 6): "microsoft/cntk:2.6-gpu-python3.5-cuda9.0-cudnn7.0",
    (2, 7): "mcr.microsoft.com/cntk/release:2.7-gpu-python3.5-cuda10.0-cudnn7.3",
}
"""Images for CNTK, whose wheels need Open MPI in addition to CUDA. Images of other frameworks have no Open MPI."""


class Need(NamedTuple):
    """A framework of the project, which the image must support."""

    package: str  # name in the file, in lowercase
    line: Version  # minor release, such as (1, 14)
    build: Build
    manager: str  # conda or pip; conda packages include CUDA
    is_pinned: bool  # if False, `line` is the newest release for the pinned Python

    @property
    def title(self) -> str:
        return f"{packages.TITLES[self.package]} {show_version(self.line)}"


def needs_of_runs(context: ProjectContext, configurations: Iterable[RunConfiguration]) -> list[Need]:
    """Return the frameworks in the dependency files of run configurations."""
    files = dict.fromkeys(context.absolute(configuration.conda_file) for configuration in configurations)
    trees = [context.tree(path) for path in files]
    return [need for tree in trees if tree is not None for need in _needs_of(packages.requirements_of(tree.root))]


def _needs_of(requirements: Sequence[Requirement]) -> Iterator[Need]:
    """Yield the frameworks that use the CUDA of the image."""
    python = packages.python_of(requirements)
    for requirement in requirements:
        line = requirement.pin[:2] or newest_line(requirement, python)
        build = packages.build_of(requirement.name, line) if line else None
        if line and build is not None and _takes_cuda_of_image(requirement, build):
            yield Need(requirement.name, line, build, requirement.manager, bool(requirement.pin))


def newest_line(requirement: Requirement, python: Version, cuda: Version | None = None) -> Version | None:
    """Return the newest minor release in the tables for these versions of Python and CUDA (None: any), or None."""
    below = (1, 15) if is_old_tensorflow(requirement, python) else (99,)
    return packages.newest_for(requirement.name, python, cuda, below=below)


def is_old_tensorflow(requirement: Requirement, python: Version) -> bool:
    """Return True for TensorFlow 1.0 to 1.14, whose GPU build is a separate package.

    A requirement without a version means TensorFlow 1 if the pinned Python is 3.5 or older, as in projects of Azure ML
    Workbench: pip would install TensorFlow 2.3, with which the scripts of these projects fail. A range also means
    TensorFlow 1 if its upper bound is at most 2.
    """
    if requirement.name not in ("tensorflow", "tensorflow-gpu"):
        return False
    if requirement.pin:
        return (1, 0) <= requirement.pin[:2] < (1, 15)
    upper = re.search(r"<\s*=?\s*(\d+(?:\.\d+)*)", requirement.spec)
    if upper:
        return packages.parse_version(upper[1]) <= (2,)
    return bool(python) and python[:2] <= (3, 5)


def _takes_cuda_of_image(requirement: Requirement, build: Build) -> bool:
    if packages.TITLES[requirement.name] == "TensorFlow":
        # `tensorflow[and-cuda]` installs CUDA. Without this extra, every release needs the CUDA of the image.
        return "and-cuda" not in requirement.extras
    return build.cuda is not None


def fits(image: str, need: Need) -> bool:
    """Return True unless the image certainly lacks the CUDA or cuDNN version that a framework needs."""
    name = short_name(image)
    if need.build.cuda is None:
        # The CUDA version of the release is unknown: exclude only the images of other frameworks.
        return name not in ("pytorch/pytorch", "microsoft/mmlspark", "microsoft/cntk", "cntk/release")
    if packages.TITLES[need.package] == "CNTK" and name in ("tensorflow/tensorflow", "pytorch/pytorch"):
        return False
    pairs = ((cuda_of_image(image), need.build.cuda), (cudnn_of_image(image), need.build.cudnn))
    return all(held is None or needed is None or held[: len(needed)] == needed for held, needed in pairs)


def fitting_image(current: str, needs: Iterable[Need]) -> str:
    """Return the GPU image to replace `current`: the first candidate that fits all needs, or the first of all."""
    all_needs = list(needs)
    candidates = image_candidates(current, all_needs)
    return next((image for image in candidates if all(fits(image, need) for need in all_needs)), candidates[0])


def image_candidates(current: str, needs: Iterable[Need]) -> list[str]:
    """Return the GPU images that can replace `current`; the best image is first."""
    own = [image for need in needs if (image := _own_image(need))]
    variant = gpu_variant(current)
    family = [variant] if variant is not None else []
    is_original = short_name(current) == "microsoft/mmlspark"
    if is_original and any(packages.TITLES[need.package] == "CNTK" for need in needs):
        # The CNTK guide of Azure ML Workbench prefers these images. No registry has any of them now.
        return list(dict.fromkeys([*family, *own, *ORIGINAL_GPU_IMAGES]))
    originals = ORIGINAL_GPU_IMAGES if is_original else ()
    return list(dict.fromkeys([*own, *([] if own else [DEFAULT_GPU_IMAGE]), *family, *originals]))


def _own_image(need: Need) -> str:
    """Return the GPU image that the framework publishes for a release, or "" if it is unknown."""
    if packages.TITLES[need.package] == "CNTK":
        return _CNTK_IMAGES.get(need.line, "")
    if packages.TITLES[need.package] != "TensorFlow":
        return ""
    release = _TENSORFLOW_RELEASES.get(need.line, f"{show_version(need.line)}.0")
    # Up to 2.1, tags without -py3 have Python 2.
    return f"tensorflow/tensorflow:{release}-gpu{'-py3' if need.line < (2, 2) else ''}"


def is_kept(image: str, needs: Iterable[Need]) -> bool:
    """Return True if an image may have CUDA and may fit all needs, so that a target can keep the image."""
    if not image or is_gpu_image(image) is False or parse_image(image) is None:
        return False
    return all(fits(image, need) for need in needs)
