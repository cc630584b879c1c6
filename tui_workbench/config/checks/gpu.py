"""Advice about what a GPU needs of a target and of a run configuration."""

from __future__ import annotations

import os

from tui_workbench.config import fields, schema
from tui_workbench.config.checks.subject import Subject
from tui_workbench.config.findings import INFO, Finding, Fix, SetValue
from tui_workbench.config.images import (
    DEFAULT_GPU_IMAGE,
    ORIGINAL_GPU_IMAGES,
    gpu_twin,
    is_gpu_image,
    newest_relative,
    parse_image,
    stale_reason,
)
from tui_workbench.config.surroundings import configuration_of
from tui_workbench.records import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def check(subject: Subject) -> Iterator[Finding]:
    """All advice about GPUs, Spark and preparing."""
    if subject.kind is fields.COMPUTE:
        yield from _target(subject)
    else:
        yield from _framework(subject)
        yield from _prepare(subject)


def _target(subject: Subject) -> Iterator[Finding]:
    image = subject.values.get("baseDockerImage")
    if not image or subject.target_type not in schema.DOCKER_TYPES or parse_image(image) is None:
        return
    has_cuda = is_gpu_image(image)
    gpus = subject.values.get("gpus")
    asks = gpus != "0" if gpus else bool(subject.values.get("nvidiaDocker"))
    if has_cuda and not asks:
        message = "the image has CUDA, but without nvidiaDocker: true the GPU stays unused"
        key = "nvidiaDocker" if "nvidiaDocker" in subject.nodes else "baseDockerImage"
        fix = Fix("set nvidiaDocker: true", (SetValue(("nvidiaDocker",), True),))
        remedy = "Set nvidiaDocker: true, or take an image without CUDA."
        yield subject.finding("gpu-unused", message, remedy, subject.nodes[key], key="nvidiaDocker", fix=fix)
    if asks and has_cuda is False:
        better = gpu_twin(image) or DEFAULT_GPU_IMAGE
        fix = Fix(f"set baseDockerImage: {better}", (SetValue(("baseDockerImage",), better),))
        message = f"nvidiaDocker is on, but {image} has no CUDA"
        remedy = f"Take an image with CUDA, for example {better}."
        yield subject.finding(
            "gpu-image-missing", message, remedy, subject.nodes["baseDockerImage"], key="baseDockerImage", fix=fix
        )
    yield from _age(subject, image, wants_gpu=asks or bool(has_cuda))


def _age(subject: Subject, image: str, *, wants_gpu: bool) -> Iterator[Finding]:
    reason = stale_reason(image)
    node = subject.nodes["baseDockerImage"]
    key = "baseDockerImage"
    if reason:
        better = DEFAULT_GPU_IMAGE if wants_gpu else newest_relative(image)
        fix = Fix(f"set {key}: {better}", (SetValue((key,), better),), is_choice=wants_gpu) if better else None
        remedy = f"Take a newer one, for example {better}." if better else "Take a newer one."
        message = f"{image} is {reason}" if reason.startswith("an ") else f"{image}: {reason}"
        severity = "" if wants_gpu and image not in ORIGINAL_GPU_IMAGES else INFO
        yield subject.finding("stale-image", message, remedy, node, key=key, fix=fix, severity=severity)
        return
    parsed = parse_image(image)
    if parsed is not None and not parsed.digest and parsed.tag in ("", "latest"):
        message = f"{image} has no fixed tag: tomorrow it can be another image"
        yield subject.finding("no-tag", message, "Write the tag of a version.", node, key=key)


def _framework(subject: Subject) -> Iterator[Finding]:
    key = "framework" if subject.kind is fields.SDK_RUNCONFIG else "Framework"
    name = os.path.splitext(os.path.basename(subject.document.path))[0]
    configuration = configuration_of(name, subject.document.path, subject.values)
    spark = subject.surroundings.uses_spark(configuration.script) if subject.surroundings is not None else None
    fix = Fix(f"set {key}: Python", (SetValue((key,), "Python"),))
    node = subject.nodes.get(key)
    if any(fault.field is not None and fault.field.key == key for fault in subject.reading.faults):
        return
    if node is None or node.is_null:
        message = f"`{key}` is missing, which means PySpark: every run starts Spark"
        offered = fix if not spark else Fix(f"set {key}: PySpark", (SetValue((key,), "PySpark"),))
        yield subject.finding(
            "framework-missing",
            message,
            f"Write {key}: Python, or PySpark if that is meant.",
            node,
            key=key,
            fix=offered,
        )
    elif configuration.framework == "PySpark" and spark is False:
        which = configuration.script or "no script of the project"
        message = f"`{key}` is PySpark, but {which} {'does not use' if configuration.script else 'uses'} Spark"
        yield subject.finding("framework-pyspark", message, f"Set {key}: Python.", node, key=key, fix=fix)


def _prepare(subject: Subject) -> Iterator[Finding]:
    """Only Docker targets and clusters build environments; elsewhere the field has no effect."""
    key = "prepareEnvironment" if subject.kind is fields.SDK_RUNCONFIG else "PrepareEnvironment"
    if subject.surroundings is None or subject.values.get(key):
        return
    target = subject.surroundings.target(subject.values.get("Target") or subject.values.get("target") or "")
    if target is None or not (target.is_docker or target.type == schema.CLUSTER):
        return
    fix = Fix(f"set {key}: true", (SetValue((key,), True),))
    state = "is false" if key in subject.values else "is missing, which means false"
    message = f"`{key}` {state}: a run on {target.name} fails unless its environment was prepared before"
    yield subject.finding("not-prepared", message, f"Set {key}: true.", subject.nodes.get(key), key=key, fix=fix)
