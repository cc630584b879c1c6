"""Check settings for GPUs, the framework, environments and the number of processes."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator

from tui_workbench.config.checks import image_names, images
from tui_workbench.config.checks.findings import INFO, Finding, remove_field, set_field
from tui_workbench.config.checks.packages import requirements_of
from tui_workbench.config.checks.project_context import ProjectContext, Subject
from tui_workbench.config.schema import fields
from tui_workbench.config.schema.slurm_options import OVERRIDE, requested_gpus
from tui_workbench.config.yaml_edit.values import GPUS_WORD
from tui_workbench.core import target_types
from tui_workbench.core.files import read_file
from tui_workbench.core.model import ComputeTarget, RunConfiguration, slurm_options
from tui_workbench.core.notebooks import is_notebook
from tui_workbench.core.plaintext import counted

KEY = "ProcessesPerNode"

_TORCH = frozenset(("torch", "pytorch", "pytorch-cuda", "pytorch-gpu", "pytorch-cpu"))
_NBCLIENT = frozenset(("nbclient", "jupyter", "jupyterlab", "notebook"))


def check(subject: Subject) -> Iterator[Finding]:
    """Yield the findings about the GPU settings of a target or run configuration."""
    if subject.kind is fields.COMPUTE:
        yield from _target(subject)
        yield from _reservations(subject)
    else:
        yield from _framework(subject)
        yield from _prepare(subject)
        yield from _processes(subject)
        yield from _requested(subject)
        yield from _notebook(subject)


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
    if has_cuda and not asks and not gpus:
        platform = "ROCm" if "rocm" in image else "CUDA"
        message = f"the image has {platform}, but without nvidiaDocker: true the container gets no GPU"
        remedy = f"Set `nvidiaDocker: true`, or use an image without {platform}."
        at = subject.nodes.get("nvidiaDocker", subject.nodes[key])
        yield subject.finding("gpu-unused", message, remedy, "nvidiaDocker", set_field("nvidiaDocker", True), at=at)
    if asks and has_cuda is False:
        needs = _needs(subject)
        better = (
            images.fitting_image(image, needs) if needs else images.gpu_variant(image) or image_names.DEFAULT_GPU_IMAGE
        )
        request = f"gpus is {gpus}" if gpus else "nvidiaDocker is true"
        message = f"{request}, but {image} has no CUDA"
        remedy = f"Use an image with CUDA, for example {better}."
        yield subject.finding("gpu-image-missing", message, remedy, key, set_field(key, better))
    removed = images.removed_reason(image)
    if removed:
        remedy = "Use another image, or a copy of this image in your own registry."
        yield subject.finding("image-removed", removed, remedy, key)
    yield from _age(subject, key, image, wants_gpu=asks or bool(has_cuda))


def _needs(subject: Subject) -> list[images.Need]:
    context = subject.context
    return images.needs_of_runs(context, context.configurations_of(subject.name)) if context is not None else []


def _age(subject: Subject, key: str, image: str, *, wants_gpu: bool) -> Iterator[Finding]:
    message = images.stale_reason(image)
    needs = _needs(subject) if message and wants_gpu else []
    parsed = image_names.parse_image(image)
    if needs and all(images.fits(image, need) for need in needs):
        remedy = f"The image fits {needs[0].title}; a newer GPU needs a newer framework and image."
        yield subject.finding("stale-image", message, remedy, key, severity=INFO)
    elif message:
        better = images.fitting_image("", needs) if wants_gpu else images.newest_cpu_image(image)
        fix = set_field(key, better, is_choice=wants_gpu) if better else None
        remedy = f"Use a newer image, for example {better}." if better else "Use a newer image."
        severity = "" if wants_gpu and image not in images.ORIGINAL_GPU_IMAGES else INFO
        yield subject.finding("stale-image", message, remedy, key, fix, severity=severity)
    elif parsed is not None and not parsed.digest and parsed.tag in ("", "latest"):
        message = f"{image} has no fixed tag, so its content may change"
        yield subject.finding("no-tag", message, "Use a tag that names a version.", key)


def _reservations(subject: Subject) -> Iterator[Finding]:
    key, gpus = "gpuReservations", str(subject.values.get("gpus", ""))
    if key not in subject.values or not target_types.find(subject.target_type).reads(key):
        return
    if gpus != "free" and (not gpus.isdigit() or gpus == "0"):
        message = f"runs reserve no GPU in `{key}`, because gpus is {gpus or 'not set'}"
        remedy = f"Set `gpus: free` or a number of GPUs, or remove `{key}`."
        yield subject.finding("reservations-unused", message, remedy, key, set_field("gpus", "free"))


def _framework(subject: Subject) -> Iterator[Finding]:
    configuration = subject.configuration
    key = configuration.key("Framework")
    spark = subject.context.uses_spark(configuration.script) if subject.context is not None else None
    node = subject.nodes.get(key)
    if any(fault.field is not None and fault.field.key == key for fault in subject.reading.faults):
        return
    if node is None or node.is_null:
        message = f"`{key}` is missing, so every run starts Spark (the default is PySpark)"
        remedy = f"Set {key} to Python, or to PySpark if the script uses Spark."
        yield subject.finding(
            "framework-missing", message, remedy, key, set_field(key, "PySpark" if spark else "Python")
        )
    elif configuration.framework == "PySpark" and spark is False and not is_notebook(configuration.script):
        which = configuration.script or "no script of the project"
        message = f"`{key}` is PySpark, but {which} {'does not use' if configuration.script else 'uses'} Spark"
        yield subject.finding("framework-pyspark", message, f"Set `{key}: Python`.", key, set_field(key, "Python"))


def _prepare(subject: Subject) -> Iterator[Finding]:
    """Check PrepareEnvironment, which has an effect only on targets that build environments."""
    configuration = subject.configuration
    key = configuration.key("PrepareEnvironment")
    context = subject.context
    target = context.target(configuration.target) if context is not None else None
    if context is None or target is None or configuration.prepare_environment:
        return
    if context.always_builds(target):
        state = "is false" if key in subject.values else "is missing, which means false"
        message = f"`{key}` {state}: a run on {target.name} fails unless its environment is already built"
        yield subject.finding("not-prepared", message, f"Set `{key}: true`.", key, set_field(key, True))


def _processes(subject: Subject) -> Iterator[Finding]:
    processes, context = subject.values.get(KEY), subject.context
    if subject.kind is not fields.RUNCONFIG or not processes or context is None:
        return
    target = context.target(subject.configuration.target)
    for machine in context.machines_of(target) if target is not None else ():
        yield from _processes_on(subject, context, machine, processes)


def _processes_on(
    subject: Subject, context: ProjectContext, target: ComputeTarget, processes: str
) -> Iterator[Finding]:
    count = _gpus_given(target, subject.configuration)
    if count == 0 and processes == GPUS_WORD:
        message = f"`{KEY}` is gpus, but {target.name} gives its runs no GPU, so they fail"
        setting = "Slurm.gpus" if target.kind.has_scheduler else f"gpus or nvidiaDocker of {target.name}"
        remedy = f"Set {setting}, or set {KEY} to a number."
        yield subject.finding("processes-without-gpu", message, remedy, KEY)
    elif count:
        yield from _gpus_per_node(subject, target, count, processes)
    if _lacks(subject, context, target, _TORCH, "torch"):
        message = f"`{KEY}` needs PyTorch, but runs on {target.name} do not have it"
        yield subject.finding("no-torch", message, _install(subject, target, "torch"), KEY)


def _notebook(subject: Subject) -> Iterator[Finding]:
    """Check that a notebook is started without torchrun and Spark, and that its environment has nbclient."""
    context, configuration = subject.context, subject.configuration
    script, framework = configuration.script, configuration.key("Framework")
    if context is None or not is_notebook(script):
        return
    remedy = "Choose a Python file as the script, or"
    if configuration.processes_per_node:
        message = f"`{KEY}` starts torchrun, which cannot run the notebook {script}"
        yield subject.finding("notebook-launcher", message, f"{remedy} remove {KEY}.", KEY, remove_field(KEY))
    elif configuration.uses_spark and framework in subject.values:
        message = f"`{framework}` starts Spark, which cannot run the notebook {script}"
        fix = set_field(framework, "Python")
        yield subject.finding("notebook-launcher", message, f"{remedy} set {framework}: Python.", framework, fix)
    target = context.target(configuration.target)
    if target is not None and _lacks(subject, context, target, _NBCLIENT, "nbclient"):
        message = f"the notebook {script} needs nbclient and ipykernel, but runs on {target.name} do not have them"
        install = _install(subject, target, "nbclient and ipykernel")
        yield subject.finding("no-nbclient", message, install, configuration.key("ArgumentVector"))


def _install(subject: Subject, target: ComputeTarget, names: str) -> str:
    """Return the advice to install packages for runs on a target."""
    if _is_built(target):
        return f"Add {names} to {subject.configuration.conda_file}."
    return f"Install {names} in the Python of {target.name}."


def _gpus_per_node(subject: Subject, target: ComputeTarget, count: int, processes: str) -> Iterator[Finding]:
    """Check that a node has a GPU for each of its processes."""
    nodes = int(slurm_options(target, subject.configuration).get("nodes") or 1) if target.kind.has_scheduler else 1
    suffix = " on each node" if nodes > 1 else ""
    if processes == GPUS_WORD and count < nodes:
        message = f"`{KEY}` is gpus, but a job on {target.name} has {counted(count, 'GPU')} for {nodes} nodes"
        fix = set_field(f"{OVERRIDE}.gpus", nodes)
        yield subject.finding("nodes-without-gpu", message, f"Set {OVERRIDE}.gpus to {nodes} or more.", KEY, fix)
    elif processes != GPUS_WORD and int(processes) > count // nodes:
        gpus = counted(count // nodes, "GPU") + suffix
        reason = "NCCL does not let processes share a GPU"
        message = f"`{KEY}` is {processes}, but runs on {target.name} get {gpus}: {reason}"
        remedy = f"Set `{KEY}: gpus`, or give each run {int(processes) * nodes} GPUs."
        yield subject.finding("more-processes-than-gpus", message, remedy, KEY, set_field(KEY, GPUS_WORD))


def _requested(subject: Subject) -> Iterator[Finding]:
    """Check that a Slurm job that requires a GPU requests one."""
    context, configuration = subject.context, subject.configuration
    target = context.target(configuration.target) if context is not None and configuration.require_gpu else None
    if target is not None and target.kind.has_scheduler and _gpus_given(target, configuration) == 0:
        message = f"`RequireGpu` is true, but runs on {target.name} request no GPU from Slurm and are refused"
        fix = set_field(f"{OVERRIDE}.gpus", 1)
        yield subject.finding("no-gpu-requested", message, f"Set `{OVERRIDE}.gpus: 1`.", "RequireGpu", fix)


def _gpus_given(target: ComputeTarget, configuration: RunConfiguration) -> int | None:
    """Return the number of GPUs of a run on the target, or None if the files do not show it."""
    if target.kind.has_scheduler:
        return requested_gpus(slurm_options(target, configuration))
    gpus = target.gpus
    if gpus.isdigit():
        return int(gpus)
    if gpus == "free" or target.named_gpus:
        return len(target.named_gpus) or 1
    return 0 if target.kind.runs_in_container and not target.gives_gpus else None


def _is_built(target: ComputeTarget) -> bool:
    """Return True if the environment is built from the conda dependencies file."""
    return target.kind.runs_in_container or not target.user_managed_environment


def _lacks(
    subject: Subject, context: ProjectContext, target: ComputeTarget, packages: frozenset[str], module: str
) -> bool:
    """Return True if runs on the target certainly lack `module`, which each of `packages` contains or requires.

    The packages of images and system interpreters are unknown.
    """
    if _is_built(target):
        if target.kind.runs_in_container and not target.base_docker_image.startswith("python:"):
            return False
        tree = context.tree(context.absolute(subject.configuration.conda_file))
        return tree is not None and not any(requirement.name in packages for requirement in requirements_of(tree.root))
    if not target.kind.runs_here or "/" not in target.python_location:
        return False
    python = os.path.join(context.root, os.path.expanduser(target.python_location))
    return _is_closed_environment(os.path.dirname(os.path.dirname(python)), module)


def _is_closed_environment(folder: str, module: str) -> bool:
    """Return True for a virtual environment that lacks `module` and cannot use packages of other folders."""
    try:
        text = read_file(os.path.join(folder, "pyvenv.cfg")).decode("utf-8", "replace")
        lines = [line.replace(" ", "").strip().lower() for line in text.splitlines()]
    except OSError:
        return False
    if "include-system-site-packages=true" in lines:
        return False
    packages = os.path.join(glob.escape(folder), "lib", "python3*", "site-packages")
    # A .pth file can add any folder to `sys.path`.
    return not glob.glob(os.path.join(packages, module)) and not glob.glob(os.path.join(packages, "*.pth"))
