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
    edits = {each.requirement.path: each for each in gpu_edits(requirements, python)}
    for one in requirements:
        yield from _not_a_package(subject, one)
        if problem := packages.option_problem(one):
            severity = "" if usage.is_built else WARNING
            yield _finding(subject, one, "pip-option", problem, packages.OPTION_REMEDY, severity=severity)
        if one.path in edits and usage.wants_gpu is not False:
            edit = edits[one.path]
            severity, fix = "" if usage.wants_gpu else INFO, Fix(edit.title, (edit.edit,))
            remedy = "Change or remove this line, so that a build with CUDA is installed."
            yield _finding(subject, one, "cpu-build", edit.why, remedy, fix, severity)
        yield from _wheel(subject, one, usage)
        yield from _versions(subject, one, usage)


def _usage_of(subject: Subject, python: Version) -> Usage:
    context = subject.context
    if context is None:
        return Usage(python)
    names = dict.fromkeys(one.target for one in context.users_of(subject.path))
    targets = [target for name in names if (target := context.target(name)) is not None]
    with_gpu = [target for target in targets if wants_gpu(target)]
    cuda = next((found for target in with_gpu if (found := cuda_of_image(target.base_docker_image))), None)
    in_container = any(target.kind.runs_in_container for target in targets)
    is_built = any(target.builds_environment or context.always_builds(target) for target in targets)
    return Usage(python, bool(with_gpu), cuda, in_container, is_built)


def _finding(
    subject: Subject, one: Requirement, code: str, message: str, remedy: str, fix: Fix | None = None, severity: str = ""
) -> Finding:
    return subject.finding(code, message, remedy, "dependencies", fix, at=(one.start, one.end), severity=severity)


def _rewrite(one: Requirement, text: str, title: str, *, is_choice: bool = False) -> Fix:
    return Fix(title, (SetValue(one.path, text),), is_choice)


def _not_a_package(subject: Subject, one: Requirement) -> Iterator[Finding]:
    if one.name in packages.STANDARD_LIBRARY and not one.version and not one.url:
        fix = Fix(f"remove {one.name}", (Unset(one.path),))
        message = f"`{one.name}` is a module of the Python standard library, not a package"
        yield _finding(subject, one, "standard-library", message, "Remove this line.", fix)


# -- CPU builds ------------------------------------------------------------------------------------------------------


class GpuEdit(NamedTuple):
    """An edit that removes a package, or replaces the package with a Linux build with CUDA."""

    requirement: Requirement
    why: str  # a clause
    edit: SetValue | Unset
    title: str


def gpu_edits(requirements: Sequence[Requirement], python: Version) -> Iterator[GpuEdit]:
    """Yield an edit for each CPU build. If the file already contains the GPU build, the edit removes the CPU build."""
    found = [(one, _gpu_build(one, python)) for one in requirements]
    present = {one.name for one, build in found if build is None}
    for one, build in found:
        if build is None:
            continue
        why, better, title = build
        name = packages.name_of(better)
        if name and name in present:
            why, better, title = f"{why}, and {name} is already listed", "", ""
        present.add(name)
        if better:
            yield GpuEdit(one, why, SetValue(one.path, better), title or f"write {better}")
        else:
            yield GpuEdit(one, why, Unset(one.path), title or f"remove {one.name}")


def _gpu_build(one: Requirement, python: Version) -> tuple[str, str, str] | None:
    """Return the reason why a package is a CPU build, its replacement ("" to remove it), and a title or "".

    Return None for other packages.
    """
    text, name = one.text, one.name
    if one.manager == "pip" and not name and re.search(r"https?://\S+/whl/cpu(?=[/\s]|\Z)", text):
        return "this index has only CPU builds", "", "remove the CPU-only index"
    if name in packages.CPU_MARKERS:
        return f"`{name}` is {packages.CPU_MARKERS[name]}", "", ""
    if "/CPU-Only/" in one.url:
        return "this is the CPU wheel of CNTK", text.replace("/CPU-Only/", "/GPU/"), "use the GPU wheel"
    if one.wheel is not None and ("%2Bcpu" in one.url or "+cpu" in one.url):
        version = one.version.replace("+cpu", "").replace("%2Bcpu", "")
        return f"this wheel of {one.wheel.name} is a CPU build", f"{name or one.wheel.name}=={version}", ""
    if one.wheel is not None or one.url:
        return None
    if "+cpu" in one.version:
        return f"`{text}` is a CPU build", text.replace("+cpu", ""), ""
    if one.manager == "conda" and re.search(r"=\S*\bcpu", one.spec):
        return f"`{text}` selects a CPU build", re.sub(r"=[^=\s]*\bcpu\S*\Z", "", text), ""
    if name == "tensorflow" and is_old_tensorflow(one, python):
        better = re.sub(r"\btensorflow\b", "tensorflow-gpu", text, count=1, flags=re.IGNORECASE)
        return "`tensorflow` 1.x is a CPU build", better, ""
    if name in packages.GPU_PACKAGES:
        return f"`{name}` is a CPU build", re.sub(r"\A[\w.-]*", packages.GPU_PACKAGES[name], text.strip()), ""
    return None


# -- wheels ----------------------------------------------------------------------------------------------------------


def _wheel(subject: Subject, one: Requirement, usage: Usage) -> Iterator[Finding]:
    wheel, python = one.wheel, usage.python
    if wheel is None:
        return
    is_cntk = wheel.name.lower() == "cntk"
    platforms = (("win", "Windows"), ("macosx", "macOS"))
    foreign = next((title for mark, title in platforms if wheel.platform.startswith(mark)), "")
    if foreign and usage.in_container:
        better = one.text.replace(f"-{wheel.platform}.whl", "-linux_x86_64.whl")
        fix = _rewrite(one, better, "use the Linux wheel") if is_cntk else None
        message = f"this wheel of {wheel.name} is for {foreign}, but containers run Linux"
        yield _finding(subject, one, "wrong-platform", message, "Use the Linux wheel (linux_x86_64).", fix)
    tags = [tuple(map(int, (found[1], found[2]))) for found in re.finditer(r"cp(\d)(\d+)", wheel.python)]
    if tags and python and wheel.abi != "abi3" and python[:2] not in tags:
        mine, wanted = ("".join(map(str, each)) for each in (tags[0], python[:2]))
        better = one.text.replace(f"cp{mine}-cp{mine}", f"cp{wanted}-cp{wanted}")
        is_made = is_cntk and (2, 7) <= python[:2] <= (3, 6) and better != one.text
        fix = _rewrite(one, better, f"use the wheel for Python {show_version(python[:2])}") if is_made else None
        has = show_version(tags[0])
        message = f"this wheel of {wheel.name} is for Python {has}, but python={show_version(python)} is pinned"
        remedy = f"Use a wheel with cp{wanted}, or pin python={has}."
        yield _finding(subject, one, "wrong-python", message, remedy, fix)


# -- versions --------------------------------------------------------------------------------------------------------


def _versions(subject: Subject, one: Requirement, usage: Usage) -> Iterator[Finding]:
    if one.name in packages.LARGE_PACKAGES and not one.url and not re.search(r"[\d*]", one.spec):
        yield _unpinned(subject, one, usage)
    build = packages.build_of(one.name, one.pin)
    if build is None:
        return
    title = f"{packages.TITLES[one.name]} {show_version(one.pin)}"
    python, cuda = usage.python[:2], usage.cuda
    oldest, newest = build.oldest_python, build.newest_python
    if len(python) == 2 and one.wheel is None and not oldest <= python <= newest:
        line = packages.newest_for(one.name, python, None)
        wanted = show_version(newest if python > newest else oldest)
        span = f"{show_version(oldest)} to {show_version(newest)}"
        message = f"{title} supports Python {span}, but python={show_version(usage.python)} is pinned"
        remedy = f"Pin python={wanted}" + (f", or {one.name} {show_version(line)}." if line else ".")
        found = packages.requirements_of(subject.tree.root)
        pinned = (each for each in found if (each.manager, each.name) == ("conda", "python"))
        text = f"python={wanted}"
        fix = next((_rewrite(each, text, f"pin {text}", is_choice=True) for each in pinned), None)
        yield _finding(subject, one, "cannot-install", message, remedy, fix)
    if build.cuda and cuda and usage.wants_gpu and cuda != build.cuda and one.manager == "pip":
        message = f"{title} needs CUDA {show_version(build.cuda)}, but the image has CUDA {show_version(cuda)}"
        remedy = (
            f"Use an image with CUDA {show_version(build.cuda)}, or a release of the framework that fits the image."
        )
        yield _finding(subject, one, "wrong-cuda", message, remedy)


def _unpinned(subject: Subject, one: Requirement, usage: Usage) -> Finding:
    # For a Python that implies TensorFlow 1, choose the last release with a separate GPU package.
    is_old = one.name == "tensorflow-gpu" or is_old_tensorflow(one, usage.python)
    below = (1, 15) if is_old and usage.python[:2] <= (3, 5) else (99,)
    line = packages.newest_for(one.name, usage.python, usage.cuda, below=below)
    joint, tail = ("=", "") if one.manager == "conda" else ("==", ".*")
    better = f"{one.text.strip()}{joint}{show_version(line)}{tail}" if line and not one.spec else ""
    fix = _rewrite(one, better, f"pin {better}", is_choice=True) if better else None
    message = f"`{one.name}` is not pinned to a version, so each rebuild may download hundreds of megabytes"
    remedy = f"Pin a version, for example {better or one.name + joint + 'VERSION'}."
    return _finding(subject, one, "unpinned", message, remedy, fix)
