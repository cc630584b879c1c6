"""Advice about what a GPU needs of a target and of a run configuration."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator

from tui_workbench.config.checks import image_names, images
from tui_workbench.config.checks.findings import INFO, Finding, setting
from tui_workbench.config.checks.packages import requirements_of
from tui_workbench.config.checks.project_context import Subject, Surroundings
from tui_workbench.config.schema import fields
from tui_workbench.config.yaml_edit.values import GPUS_WORD
from tui_workbench.core import target_types
from tui_workbench.core.model import ComputeTarget

KEY = "ProcessesPerNode"

_TORCH = frozenset(("torch", "pytorch", "pytorch-cuda", "pytorch-gpu", "pytorch-cpu"))


def check(subject: Subject) -> Iterator[Finding]:
    """All advice about GPUs, Spark, preparing and the number of processes."""
    if subject.kind is fields.COMPUTE:
        yield from _target(subject)
    else:
        yield from _framework(subject)
        yield from _prepare(subject)
        yield from _processes(subject)


def _target(subject: Subject) -> Iterator[Finding]:
    key = "baseDockerImage"
    image = subject.values.get(key)
    if (
        not image
        or not target_types.find(subject.target_type).runs_in_container
        or image_names.parse_image(image) is None
    ):
        return
    has_cuda = image_names.is_gpu_image(image)
    gpus = subject.values.get("gpus")
    asks = gpus != "0" if gpus else bool(subject.values.get("nvidiaDocker"))
    if has_cuda and not asks:
        message = "the image has CUDA, but without nvidiaDocker: true the GPU stays unused"
        remedy = "Set nvidiaDocker: true, or take an image without CUDA."
        at = subject.nodes.get("nvidiaDocker", subject.nodes[key])
        yield subject.finding("gpu-unused", message, remedy, "nvidiaDocker", setting("nvidiaDocker", True), at=at)
    if asks and has_cuda is False:
        needs = _needs(subject)
        better = (
            images.fitting_image(image, needs) if needs else images.gpu_twin(image) or image_names.DEFAULT_GPU_IMAGE
        )
        message = f"nvidiaDocker is on, but {image} has no CUDA"
        remedy = f"Take an image with CUDA, for example {better}."
        yield subject.finding("gpu-image-missing", message, remedy, key, setting(key, better))
    removed = images.removed_reason(image)
    if removed:
        remedy = "Keep a copy in a registry of your own, or take another image."
        yield subject.finding("image-removed", removed, remedy, key)
    yield from _age(subject, key, image, wants_gpu=asks or bool(has_cuda))


def _needs(subject: Subject) -> list[images.Need]:
    """Return the needs of the packages of all runs on this target."""
    around = subject.surroundings
    return images.needs_of_runs(around, around.configurations_of(subject.name)) if around is not None else []


def _age(subject: Subject, key: str, image: str, *, wants_gpu: bool) -> Iterator[Finding]:
    reason = images.stale_reason(image)
    message = f"{image} is {reason}" if reason.startswith("an ") else f"{image}: {reason}"
    needs = _needs(subject) if reason and wants_gpu else []
    parsed = image_names.parse_image(image)
    if needs and all(images.fits(image, need) for need in needs):
        remedy = f"It fits {needs[0].title}: a newer GPU needs a newer framework and image."
        yield subject.finding("stale-image", message, remedy, key, severity=INFO)
    elif reason:
        better = images.fitting_image("", needs) if wants_gpu else images.newest_relative(image)
        fix = setting(key, better, is_choice=wants_gpu) if better else None
        remedy = f"Take a newer one, for example {better}." if better else "Take a newer one."
        severity = "" if wants_gpu and image not in images.ORIGINAL_GPU_IMAGES else INFO
        yield subject.finding("stale-image", message, remedy, key, fix, severity=severity)
    elif parsed is not None and not parsed.digest and parsed.tag in ("", "latest"):
        message = f"{image} has no fixed tag: tomorrow it can be another image"
        yield subject.finding("no-tag", message, "Write the tag of a version.", key)


def _framework(subject: Subject) -> Iterator[Finding]:
    configuration = subject.configuration
    key = configuration.key("Framework")
    spark = subject.surroundings.uses_spark(configuration.script) if subject.surroundings is not None else None
    node = subject.nodes.get(key)
    if any(fault.field is not None and fault.field.key == key for fault in subject.reading.faults):
        return
    if node is None or node.is_null:
        message = f"`{key}` is missing, which means PySpark: every run starts Spark"
        remedy = f"Write {key}: Python, or PySpark if that is meant."
        yield subject.finding("framework-missing", message, remedy, key, setting(key, "PySpark" if spark else "Python"))
    elif configuration.framework == "PySpark" and spark is False:
        which = configuration.script or "no script of the project"
        message = f"`{key}` is PySpark, but {which} {'does not use' if configuration.script else 'uses'} Spark"
        yield subject.finding("framework-pyspark", message, f"Set {key}: Python.", key, setting(key, "Python"))


def _prepare(subject: Subject) -> Iterator[Finding]:
    """Only Docker targets and clusters build environments; elsewhere the field has no effect."""
    configuration = subject.configuration
    key = configuration.key("PrepareEnvironment")
    around = subject.surroundings
    target = around.target(configuration.target) if around is not None else None
    if target is not None and target.kind.builds_environments and not configuration.prepare_environment:
        state = "is false" if key in subject.values else "is missing, which means false"
        message = f"`{key}` {state}: a run on {target.name} fails unless its environment was prepared before"
        yield subject.finding("not-prepared", message, f"Set {key}: true.", key, setting(key, True))


def _processes(subject: Subject) -> Iterator[Finding]:
    wanted, around = subject.values.get(KEY), subject.surroundings
    if subject.kind is not fields.RUNCONFIG or not wanted or around is None:
        return
    target = around.target(subject.configuration.target)
    if target is None:
        return
    count = _gpus_given(target)
    if count == 0 and wanted == GPUS_WORD:
        message = f"`{KEY}: gpus`, and {target.name} gives its runs no GPU: they fail"
        remedy = "Give it GPUs (`gpus`, `nvidiaDocker`), or write a number of processes."
        yield subject.finding("processes-without-gpu", message, remedy, KEY)
    elif count and wanted != GPUS_WORD and int(wanted) > count:
        gpus = f"{count} GPU{'' if count == 1 else 's'}"
        message = f"{wanted} processes, and {target.name} gives a run {gpus}: some share one, which NCCL refuses"
        remedy = f"Write {KEY}: gpus, or give it as many GPUs."
        yield subject.finding("more-processes-than-gpus", message, remedy, KEY, setting(KEY, GPUS_WORD))
    if _lacks_torch(subject, around, target):
        message = f"`{KEY}` needs PyTorch, and nothing gives it to runs on {target.name}"
        where = "Add torch to the conda dependencies file." if _is_built(target) else "Install torch in its Python."
        yield subject.finding("no-torch", message, where, KEY)


def _gpus_given(target: ComputeTarget) -> int | None:
    """How many GPUs a run on the target gets; None where only the machine knows."""
    gpus = target.gpus
    if gpus.isdigit():
        return int(gpus)
    if gpus == "free" or gpus.startswith("["):
        return gpus.count(",") + 1
    return 0 if target.kind.runs_in_container and not target.gives_gpus else None


def _is_built(target: ComputeTarget) -> bool:
    """Whether its environment is made from the conda dependencies file."""
    return target.kind.runs_in_container or not target.user_managed_environment


def _lacks_torch(subject: Subject, around: Surroundings, target: ComputeTarget) -> bool:
    """True only where it is sure: what an image or an interpreter of the system holds cannot be seen in a file."""
    if _is_built(target):
        if target.kind.runs_in_container and not target.base_docker_image.startswith("python:"):
            return False
        tree = around.tree(around.absolute(subject.configuration.conda_file))
        return tree is not None and not any(one.name in _TORCH for one in requirements_of(tree.root))
    if not target.kind.runs_here or "/" not in target.python_location:
        return False
    # Of this project's folder, or absolute.
    python = os.path.join(around.root, os.path.expanduser(target.python_location))
    return _is_closed_environment(os.path.dirname(os.path.dirname(python)))


def _is_closed_environment(folder: str) -> bool:
    """Whether this is a virtual environment that holds no PyTorch and sees none of the system's."""
    try:
        with open(os.path.join(folder, "pyvenv.cfg"), encoding="utf-8", errors="replace") as file:
            lines = [line.replace(" ", "").strip().lower() for line in file]
    except OSError:
        return False
    if "include-system-site-packages=true" in lines:
        return False
    packages = os.path.join(glob.escape(folder), "lib", "python3*", "site-packages")
    # A .pth file may bring in any other folder.
    return not glob.glob(os.path.join(packages, "torch")) and not glob.glob(os.path.join(packages, "*.pth"))
