"""Check packages for CPU builds, wrong wheels, incompatible versions and missing versions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tui_workbench.config.checks import packages
from tui_workbench.config.checks.findings import INFO, WARNING, Finding, Fix, SetValue, Unset
from tui_workbench.config.checks.images import cuda_of_image, is_old_tensorflow, wants_gpu
from tui_workbench.config.checks.packages import Requirement, Version, show_version
from tui_workbench.config.checks.project_context import Subject


class Usage(NamedTuple):
    """The pinned Python version, and properties of the targets that use the packages."""

    python: Version
    wants_gpu: bool | None = None  # True if a target uses a GPU; None if no project is known
    cuda: Version | None = None  # CUDA version of the GPU target's image; None if unknown
    in_container: bool = True  # False if no target installs the packages in a container
    is_built: bool = True  # False if all targets use other environments


def check(subject: Subject) -> Iterator[Finding]:
    """Yield the findings about the packages of a conda environment file."""
    requirements = packages.requirements_of(subject.tree.root)
    python = packages.python_of(requirements)
    usage = _usage_of(subject, python)
    edits = {gpu_edit.requirement.path: gpu_edit for gpu_edit in gpu_edits(requirements, python)}
    for requirement in requirements:
        yield from _not_a_package(subject, requirement)
        if problem := packages.option_problem(requirement):
            severity = "" if usage.is_built else WARNING
            yield _finding(subject, requirement, "pip-option", problem, packages.OPTION_REMEDY, severity=severity)
        if requirement.path in edits and usage.wants_gpu is not False:
            edit = edits[requirement.path]
            severity, fix = "" if usage.wants_gpu else INFO, Fix(edit.title, (edit.edit,))
            remedy = "Change or remove this line, so that a build with CUDA is installed."
            yield _finding(subject, requirement, "cpu-build", edit.why, remedy, fix, severity)
        yield from _wheel(subject, requirement, usage)
        yield from _versions(subject, requirement, usage)


def _usage_of(subject: Subject, python: Version) -> Usage:
    context = subject.context
    if context is None:
        return Usage(python)
    names = dict.fromkeys(configuration.target for configuration in context.users_of(subject.path))
    targets = [target for name in names if (target := context.target(name)) is not None]
    with_gpu = [target for target in targets if wants_gpu(target)]
    cuda = next((version for target in with_gpu if (version := cuda_of_image(target.base_docker_image))), None)
    in_container = any(target.kind.runs_in_container for target in targets)
    is_built = any(target.builds_environment or context.always_builds(target) for target in targets)
    return Usage(python, bool(with_gpu), cuda, in_container, is_built)


def _finding(
    subject: Subject,
    requirement: Requirement,
    code: str,
    message: str,
    remedy: str,
    fix: Fix | None = None,
    severity: str = "",
) -> Finding:
    span = (requirement.start, requirement.end)
    return subject.finding(code, message, remedy, "dependencies", fix, at=span, severity=severity)


def _rewrite(requirement: Requirement, text: str, title: str, *, is_choice: bool = False) -> Fix:
    return Fix(title, (SetValue(requirement.path, text),), is_choice)


def _not_a_package(subject: Subject, requirement: Requirement) -> Iterator[Finding]:
    if requirement.name in packages.STANDARD_LIBRARY and not requirement.version and not requirement.url:
        fix = Fix(f"remove {requirement.name}", (Unset(requirement.path),))
        message = f"`{requirement.name}` is a module of the Python standard library, not a package"
        yield _finding(subject, requirement, "standard-library", message, "Remove this line.", fix)


# -- CPU builds ------------------------------------------------------------------------------------------------------


class GpuEdit(NamedTuple):
    """An edit that removes a package, or replaces the package with a Linux build with CUDA."""

    requirement: Requirement
    why: str  # a clause
    edit: SetValue | Unset
    title: str


def gpu_edits(requirements: Sequence[Requirement], python: Version) -> Iterator[GpuEdit]:
    """Yield an edit for each CPU build. If the file already contains the GPU build, the edit removes the CPU build."""
    builds = [(requirement, _gpu_build(requirement, python)) for requirement in requirements]
    present = {requirement.name for requirement, build in builds if build is None}
    for requirement, build in builds:
        if build is None:
            continue
        why, better, title = build
        name = packages.name_of(better)
        if name and name in present:
            why, better, title = f"{why}, and {name} is already listed", "", ""
        present.add(name)
        if better:
            yield GpuEdit(requirement, why, SetValue(requirement.path, better), title or f"write {better}")
        else:
            yield GpuEdit(requirement, why, Unset(requirement.path), title or f"remove {requirement.name}")


def _gpu_build(requirement: Requirement, python: Version) -> tuple[str, str, str] | None:
    """Return the reason why a package is a CPU build, its replacement ("" to remove it), and a title or "".

    Return None for other packages.
    """
    text, name = requirement.text, requirement.name
    if requirement.manager == "pip" and not name and re.search(r"https?://\S+/whl/cpu(?=[/\s]|\Z)", text):
        return "this index has only CPU builds", "", "remove the CPU-only index"
    if name in packages.CPU_MARKERS:
        return f"`{name}` is {packages.CPU_MARKERS[name]}", "", ""
    if "/CPU-Only/" in requirement.url:
        return "this is the CPU wheel of CNTK", text.replace("/CPU-Only/", "/GPU/"), "use the GPU wheel"
    wheel = requirement.wheel
    if wheel is not None and ("%2Bcpu" in requirement.url or "+cpu" in requirement.url):
        version = requirement.version.replace("+cpu", "").replace("%2Bcpu", "")
        return f"this wheel of {wheel.name} is a CPU build", f"{name or wheel.name}=={version}", ""
    if wheel is not None or requirement.url:
        return None
    if "+cpu" in requirement.version:
        return f"`{text}` is a CPU build", text.replace("+cpu", ""), ""
    if requirement.manager == "conda" and re.search(r"=\S*\bcpu", requirement.spec):
        return f"`{text}` selects a CPU build", re.sub(r"=[^=\s]*\bcpu\S*\Z", "", text), ""
    if name == "tensorflow" and is_old_tensorflow(requirement, python):
        better = re.sub(r"\btensorflow\b", "tensorflow-gpu", text, count=1, flags=re.IGNORECASE)
        return "`tensorflow` 1.x is a CPU build", better, ""
    if name in packages.GPU_PACKAGES:
        return f"`{name}` is a CPU build", re.sub(r"\A[\w.-]*", packages.GPU_PACKAGES[name], text.strip()), ""
    return None


# -- wheels ----------------------------------------------------------------------------------------------------------


def _wheel(subject: Subject, requirement: Requirement, usage: Usage) -> Iterator[Finding]:
    wheel, python = requirement.wheel, usage.python
    if wheel is None:
        return
    is_cntk = wheel.name.lower() == "cntk"
    platforms = (("win", "Windows"), ("macosx", "macOS"))
    foreign = next((title for mark, title in platforms if wheel.platform.startswith(mark)), "")
    if foreign and usage.in_container:
        better = requirement.text.replace(f"-{wheel.platform}.whl", "-linux_x86_64.whl")
        fix = _rewrite(requirement, better, "use the Linux wheel") if is_cntk else None
        message = f"this wheel of {wheel.name} is for {foreign}, but containers run Linux"
        yield _finding(subject, requirement, "wrong-platform", message, "Use the Linux wheel (linux_x86_64).", fix)
    tags = [tuple(map(int, (match[1], match[2]))) for match in re.finditer(r"cp(\d)(\d+)", wheel.python)]
    if tags and python and wheel.abi != "abi3" and python[:2] not in tags:
        built, pinned = ("".join(map(str, version)) for version in (tags[0], python[:2]))
        better = requirement.text.replace(f"cp{built}-cp{built}", f"cp{pinned}-cp{pinned}")
        is_made = is_cntk and (2, 7) <= python[:2] <= (3, 6) and better != requirement.text
        fix = _rewrite(requirement, better, f"use the wheel for Python {show_version(python[:2])}") if is_made else None
        wheel_python = show_version(tags[0])
        message = (
            f"this wheel of {wheel.name} is for Python {wheel_python}, but python={show_version(python)} is pinned"
        )
        remedy = f"Use a wheel with cp{pinned}, or pin python={wheel_python}."
        yield _finding(subject, requirement, "wrong-python", message, remedy, fix)


# -- versions --------------------------------------------------------------------------------------------------------


def _versions(subject: Subject, requirement: Requirement, usage: Usage) -> Iterator[Finding]:
    has_version = bool(requirement.url) or re.search(r"[\d*]", requirement.spec) is not None
    if requirement.name in packages.LARGE_PACKAGES and not has_version:
        yield _unpinned(subject, requirement, usage)
    build = packages.build_of(requirement.name, requirement.pin)
    if build is None:
        return
    title = f"{packages.TITLES[requirement.name]} {show_version(requirement.pin)}"
    python, cuda = usage.python[:2], usage.cuda
    oldest, newest = build.oldest_python, build.newest_python
    if len(python) == 2 and requirement.wheel is None and not oldest <= python <= newest:
        line = packages.newest_for(requirement.name, python, None)
        python_text = show_version(newest if python > newest else oldest)
        span = f"{show_version(oldest)} to {show_version(newest)}"
        message = f"{title} supports Python {span}, but python={show_version(usage.python)} is pinned"
        remedy = f"Pin python={python_text}" + (f", or {requirement.name} {show_version(line)}." if line else ".")
        requirements = packages.requirements_of(subject.tree.root)
        pinned = (other for other in requirements if (other.manager, other.name) == ("conda", "python"))
        text = f"python={python_text}"
        fix = next((_rewrite(other, text, f"pin {text}", is_choice=True) for other in pinned), None)
        yield _finding(subject, requirement, "cannot-install", message, remedy, fix)
    if build.cuda and cuda and usage.wants_gpu and cuda != build.cuda and requirement.manager == "pip":
        message = f"{title} needs CUDA {show_version(build.cuda)}, but the image has CUDA {show_version(cuda)}"
        remedy = (
            f"Use an image with CUDA {show_version(build.cuda)}, or a release of the framework that fits the image."
        )
        yield _finding(subject, requirement, "wrong-cuda", message, remedy)


def _unpinned(subject: Subject, requirement: Requirement, usage: Usage) -> Finding:
    # For a Python that implies TensorFlow 1, choose the last release with a separate GPU package.
    is_old = requirement.name == "tensorflow-gpu" or is_old_tensorflow(requirement, usage.python)
    below = (1, 15) if is_old and usage.python[:2] <= (3, 5) else (99,)
    line = packages.newest_for(requirement.name, usage.python, usage.cuda, below=below)
    joint, tail = ("=", "") if requirement.manager == "conda" else ("==", ".*")
    better = f"{requirement.text.strip()}{joint}{show_version(line)}{tail}" if line and not requirement.spec else ""
    fix = _rewrite(requirement, better, f"pin {better}", is_choice=True) if better else None
    message = f"`{requirement.name}` is not pinned to a version, so each rebuild may download hundreds of megabytes"
    remedy = f"Pin a version, for example {better or requirement.name + joint + 'VERSION'}."
    return _finding(subject, requirement, "unpinned", message, remedy, fix)
