"""Checks of packages: CPU builds, wheels that do not fit, versions that do not exist together, missing versions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tui_workbench.config.checks import packages
from tui_workbench.config.checks.findings import INFO, Finding, Fix, SetValue, Unset
from tui_workbench.config.checks.images import cuda_of_image, is_old_tensorflow, wants_gpu
from tui_workbench.config.checks.packages import Requirement, Version, show_version
from tui_workbench.config.checks.project_context import Subject


class Setting(NamedTuple):
    """What surrounds the packages: the pinned Python, and what the targets that use the file ask for."""

    python: Version
    wants_gpu: bool | None = None  # whether some of them asks for a GPU; None when nobody knows who uses the file
    cuda: Version | None = None  # of the GPU targets' image, when its name tells
    in_container: bool = True  # whether packages are installed into Linux containers, as far as is known


def check(subject: Subject) -> Iterator[Finding]:
    """All findings about the packages of a conda environment file."""
    requirements = packages.requirements_of(subject.tree.root)
    python = packages.python_of(requirements)
    setting = _setting(subject, python)
    edits = {each.requirement.path: each for each in gpu_edits(requirements, python)}
    for one in requirements:
        yield from _not_a_package(subject, one)
        if one.path in edits and setting.wants_gpu is not False:
            edit = edits[one.path]
            severity, fix = "" if setting.wants_gpu else INFO, Fix(edit.title, (edit.edit,))
            yield _finding(subject, one, "cpu-build", edit.why, "Take the build with CUDA.", fix, severity)
        yield from _wheel(subject, one, setting)
        yield from _versions(subject, one, setting)


def _setting(subject: Subject, python: Version) -> Setting:
    around = subject.surroundings
    if around is None:
        return Setting(python)
    names = dict.fromkeys(one.target for one in around.users_of(subject.path))
    targets = [target for name in names if (target := around.target(name)) is not None]
    with_gpu = [target for target in targets if wants_gpu(target)]
    cuda = next((found for target in with_gpu if (found := cuda_of_image(target.base_docker_image))), None)
    return Setting(python, bool(with_gpu), cuda, any(target.kind.runs_in_container for target in targets))


def _finding(
    subject: Subject, one: Requirement, code: str, message: str, remedy: str, fix: Fix | None = None, severity: str = ""
) -> Finding:
    return subject.finding(code, message, remedy, "dependencies", fix, at=(one.start, one.end), severity=severity)


def _writing(one: Requirement, text: str, title: str, *, is_choice: bool = False) -> Fix:
    return Fix(title, (SetValue(one.path, text),), is_choice)


def _not_a_package(subject: Subject, one: Requirement) -> Iterator[Finding]:
    if one.name in packages.STANDARD_LIBRARY and not one.version and not one.url:
        fix = Fix(f"remove {one.name}", (Unset(one.path),))
        message = f"`{one.name}` is part of Python, no package"
        yield _finding(subject, one, "standard-library", message, "Remove it.", fix)


# -- CPU builds ------------------------------------------------------------------------------------------------------


class GpuEdit(NamedTuple):
    """The edit that makes a package a Linux build with CUDA."""

    requirement: Requirement
    why: str  # a clause
    edit: SetValue | Unset
    title: str  # what the edit does


def gpu_edits(requirements: Sequence[Requirement], python: Version) -> Iterator[GpuEdit]:
    """The edits of all packages that are built without CUDA; none writes a package that the file has already."""
    found = [(one, _gpu_build(one, python)) for one in requirements]
    present = {one.name for one, build in found if build is None}
    for one, build in found:
        if build is None:
            continue
        why, better, title = build
        name = packages.name_of(better)
        if name and name in present:
            why, better, title = f"{why}, and {name} is there already", "", ""
        present.add(name)
        if better:
            yield GpuEdit(one, why, SetValue(one.path, better), title or f"write {better}")
        else:
            yield GpuEdit(one, why, Unset(one.path), title or f"remove {one.name}")


def _gpu_build(one: Requirement, python: Version) -> tuple[str, str, str] | None:
    """Why a package is a CPU build, the text of its GPU build ("": remove it), and a title; None if it is none."""
    text, name = one.text, one.name
    if one.manager == "pip" and not name and re.search(r"https?://\S+/whl/cpu(?=[/\s]|\Z)", text):
        return "this index has CPU builds only", "", "remove the index of CPU builds"
    if name in packages.CPU_MARKERS:
        return f"`{name}` is {packages.CPU_MARKERS[name]}", "", ""
    if "/CPU-Only/" in one.url:
        return "this is CNTK's wheel for the CPU", text.replace("/CPU-Only/", "/GPU/"), "take the GPU wheel"
    if one.wheel is not None and ("%2Bcpu" in one.url or "+cpu" in one.url):
        version = one.version.replace("+cpu", "").replace("%2Bcpu", "")
        return f"this wheel of {name or 'it'} is a CPU build", f"{name or 'it'}=={version}", ""
    if one.wheel is not None or one.url:
        return None
    if "+cpu" in one.version:
        return f"`{text}` is a CPU build", text.replace("+cpu", ""), ""
    if one.manager == "conda" and re.search(r"=\S*\bcpu", one.spec):
        return f"`{text}` asks for a CPU build", re.sub(r"=[^=\s]*\bcpu\S*\Z", "", text), ""
    if name == "tensorflow" and is_old_tensorflow(one, python):
        better = re.sub(r"\btensorflow\b", "tensorflow-gpu", text, count=1, flags=re.IGNORECASE)
        return "`tensorflow` of the 1.x line is a CPU build", better, ""
    if name in packages.GPU_PACKAGES:
        return f"`{name}` is a CPU build", re.sub(r"\A[\w.-]*", packages.GPU_PACKAGES[name], text.strip()), ""
    return None


# -- wheels ----------------------------------------------------------------------------------------------------------


def _wheel(subject: Subject, one: Requirement, setting: Setting) -> Iterator[Finding]:
    wheel, python = one.wheel, setting.python
    if wheel is None:
        return
    is_cntk = wheel.name.lower() == "cntk"
    platforms = (("win", "Windows"), ("macosx", "macOS"))
    foreign = next((title for mark, title in platforms if wheel.platform.startswith(mark)), "")
    if foreign and setting.in_container:
        better = one.text.replace(f"-{wheel.platform}.whl", "-linux_x86_64.whl")
        fix = _writing(one, better, "take the Linux wheel") if is_cntk else None
        message = f"this wheel of {wheel.name} is for {foreign}, and containers are Linux"
        yield _finding(subject, one, "wrong-platform", message, "Take the Linux wheel (linux_x86_64).", fix)
    tags = [tuple(map(int, (found[1], found[2]))) for found in re.finditer(r"cp(\d)(\d+)", wheel.python)]
    if tags and python and wheel.abi != "abi3" and python[:2] not in tags:
        mine, wanted = ("".join(map(str, each)) for each in (tags[0], python[:2]))
        better = one.text.replace(f"cp{mine}-cp{mine}", f"cp{wanted}-cp{wanted}")
        is_made = is_cntk and (2, 7) <= python[:2] <= (3, 6) and better != one.text
        fix = _writing(one, better, f"take the wheel for Python {show_version(python[:2])}") if is_made else None
        has = show_version(tags[0])
        message = f"this wheel of {wheel.name} is for Python {has}, and python={show_version(python)} is pinned"
        remedy = f"Take a wheel with cp{wanted}, or pin python={has}."
        yield _finding(subject, one, "wrong-python", message, remedy, fix)


# -- versions --------------------------------------------------------------------------------------------------------


def _versions(subject: Subject, one: Requirement, setting: Setting) -> Iterator[Finding]:
    if one.name in packages.LARGE_PACKAGES and not one.url and not re.search(r"[\d*]", one.spec):
        yield _unpinned(subject, one, setting)
    build = packages.build_of(one.name, one.pin)
    if build is None:
        return
    title = f"{packages.TITLES[one.name]} {show_version(one.pin)}"
    python, cuda = setting.python[:2], setting.cuda
    oldest, newest = build.oldest_python, build.newest_python
    if len(python) == 2 and one.wheel is None and not oldest <= python <= newest:
        line = packages.newest_for(one.name, python, None)
        wanted = show_version(newest if python > newest else oldest)
        span = f"{show_version(oldest)} to {show_version(newest)}"
        message = f"{title} exists for Python {span}, and python={show_version(setting.python)} is pinned"
        remedy = f"Pin python={wanted}" + (f", or {one.name} {show_version(line)}." if line else ".")
        found = packages.requirements_of(subject.tree.root)
        pinned = (each for each in found if (each.manager, each.name) == ("conda", "python"))
        text = f"python={wanted}"
        fix = next((_writing(each, text, f"pin {text}", is_choice=True) for each in pinned), None)
        yield _finding(subject, one, "cannot-install", message, remedy, fix)
    if build.cuda and cuda and setting.wants_gpu and cuda != build.cuda and one.manager == "pip":
        message = f"{title} needs CUDA {show_version(build.cuda)}, and the image has {show_version(cuda)}"
        remedy = "Take an image with that CUDA, or a newer release of the framework."
        yield _finding(subject, one, "wrong-cuda", message, remedy)


def _unpinned(subject: Subject, one: Requirement, setting: Setting) -> Finding:
    # Where the Python tells that TensorFlow 1 is meant, its last line with a GPU package of its own.
    is_old = one.name == "tensorflow-gpu" or is_old_tensorflow(one, setting.python)
    below = (1, 15) if is_old and setting.python[:2] <= (3, 5) else (99,)
    line = packages.newest_for(one.name, setting.python, setting.cuda, below=below)
    joint, tail = ("=", "") if one.manager == "conda" else ("==", ".*")
    better = f"{one.text.strip()}{joint}{show_version(line)}{tail}" if line and not one.spec else ""
    fix = _writing(one, better, f"pin {better}", is_choice=True) if better else None
    message = f"`{one.name}` has no version: each rebuild may fetch another, hundreds of megabytes large"
    remedy = f"Pin it, for example {better or one.name + joint + 'VERSION'}."
    return _finding(subject, one, "unpinned", message, remedy, fix)
