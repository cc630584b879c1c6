"""Checks of packages: CPU builds, wheels that do not fit, versions that do not exist together, missing versions."""

from __future__ import annotations

import re

from tui_workbench.config.checks.subject import Subject
from tui_workbench.config.findings import INFO, Edit, Finding, Fix, SetValue, Unset
from tui_workbench.config.images import cuda_of_image
from tui_workbench.config.packages import (
    CPU_MARKERS,
    GPU_PACKAGES,
    LARGE_PACKAGES,
    STANDARD_LIBRARY,
    TITLES,
    Version,
    build_of,
    newest_for,
    parse_version,
    show_version,
)
from tui_workbench.config.requirements import Requirement, requirements_of
from tui_workbench.records import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator


class Setting(NamedTuple):
    """What surrounds the packages: the pinned Python, and what the targets that use the file ask for."""

    python: Version
    wants_gpu: bool | None = None  # whether some of them asks for a GPU; None when nobody knows who uses the file
    cuda: Version | None = None  # of the GPU targets' image, when its name tells
    in_container: bool = True  # whether packages are installed into Linux containers, as far as is known


def check(subject: Subject) -> Iterator[Finding]:
    """All findings about the packages of a conda environment file."""
    requirements = requirements_of(subject.tree.root)
    python = next((one.pin for one in requirements if one.manager == "conda" and one.name == "python"), ())
    setting = _setting(subject, python)
    for one in requirements:
        yield from _not_a_package(subject, one)
        yield from cpu_build(subject, one, setting)
        yield from _wheel(subject, one, setting)
        yield from _versions(subject, one, setting)


def _setting(subject: Subject, python: Version) -> Setting:
    around = subject.surroundings
    if around is None:
        return Setting(python)
    names = dict.fromkeys(one.target for one in around.users_of(subject.document.path))
    targets = [target for name in names if (target := around.target(name)) is not None]
    with_gpu = [target for target in targets if target.wants_gpu]
    cuda = next((found for target in with_gpu if (found := cuda_of_image(target.image))), None)
    return Setting(python, bool(with_gpu), cuda, any(target.is_docker for target in targets))


def _finding(
    subject: Subject, one: Requirement, code: str, message: str, remedy: str, fix: Fix | None = None, severity: str = ""
) -> Finding:
    return subject.finding(code, message, remedy, (one.start, one.end), key="dependencies", fix=fix, severity=severity)


def _not_a_package(subject: Subject, one: Requirement) -> Iterator[Finding]:
    if one.name in STANDARD_LIBRARY and not one.version and not one.url:
        fix = Fix(f"remove {one.name}", (Unset(one.path),))
        yield _finding(
            subject, one, "standard-library", f"`{one.name}` is part of Python, no package", "Remove it.", fix
        )


# -- CPU builds ------------------------------------------------------------------------------------------------------


def cpu_build(subject: Subject, one: Requirement, setting: Setting) -> Iterator[Finding]:
    """The finding about a package that is built without CUDA, with the edit that takes the build with it."""
    if setting.wants_gpu is False:
        return
    severity = "" if setting.wants_gpu else INFO
    found = gpu_edit(one, setting.python)
    if found is not None:
        why, edit, title = found
        yield _finding(subject, one, "cpu-build", why, "Take the build with CUDA.", Fix(title, (edit,)), severity)


def gpu_edit(one: Requirement, python: Version) -> tuple[str, Edit, str] | None:
    """Why a package is a CPU build, the edit that makes it a GPU build, and what that does; None if it is none."""
    text = one.text
    if one.manager == "pip" and not one.name and re.search(r"https?://\S+/whl/cpu(?=[/\s]|\Z)", text):
        return "this index has CPU builds only", Unset(one.path), "remove the index of CPU builds"
    if one.name in CPU_MARKERS:
        return f"`{one.name}` is {CPU_MARKERS[one.name]}", Unset(one.path), f"remove {one.name}"
    if one.wheel is not None or one.url:
        return _cpu_wheel(one)
    if "+cpu" in one.version:
        better = text.replace("+cpu", "")
        return f"`{text}` is a CPU build", SetValue(one.path, better), f"write {better}"
    if one.manager == "conda" and re.search(r"=\S*\bcpu", one.spec):
        better = re.sub(r"=[^=\s]*\bcpu\S*\Z", "", text)
        return f"`{text}` asks for a CPU build", SetValue(one.path, better), f"write {better}"
    if one.name == "tensorflow" and _is_old_tensorflow(one, python):
        better = re.sub(r"\btensorflow\b", "tensorflow-gpu", text, count=1, flags=re.IGNORECASE)
        return "`tensorflow` of the 1.x line is a CPU build", SetValue(one.path, better), f"write {better}"
    if one.name in GPU_PACKAGES:
        better = GPU_PACKAGES[one.name] + text.strip()[len(re.match(r"[\w.-]*", text.strip())[0]) :]  # type: ignore[index]
        return f"`{one.name}` is a CPU build", SetValue(one.path, better), f"write {better}"
    return None


def _is_old_tensorflow(one: Requirement, python: Version) -> bool:
    """1.x up to 1.14 has a GPU package of its own; without a version, Python 3.5 and older tell that 1.x is meant."""
    if one.pin:
        return (1, 0) <= one.pin[:2] < (1, 15)
    upper = re.search(r"<\s*=?\s*(\d+(?:\.\d+)*)", one.spec)
    if upper:
        return parse_version(upper[1]) <= (2,)
    return bool(python) and python[:2] <= (3, 5)


def _cpu_wheel(one: Requirement) -> tuple[str, Edit, str] | None:
    if "/CPU-Only/" in one.url:
        better = one.text.replace("/CPU-Only/", "/GPU/")
        return "this is CNTK's wheel for the CPU", SetValue(one.path, better), "take the GPU wheel"
    if "%2Bcpu" in one.url or "+cpu" in one.url:
        name = one.name or "it"
        version = one.version.replace("+cpu", "").replace("%2Bcpu", "")
        better = f"{name}=={version}" if one.wheel is not None else ""
        return (
            (f"this wheel of {name} is a CPU build", SetValue(one.path, better), f"write {better}") if better else None
        )
    return None


# -- wheels ----------------------------------------------------------------------------------------------------------


def _wheel(subject: Subject, one: Requirement, setting: Setting) -> Iterator[Finding]:
    wheel = one.wheel
    if wheel is None:
        return
    foreign = next(
        (title for mark, title in (("win", "Windows"), ("macosx", "macOS")) if wheel.platform.startswith(mark)), ""
    )
    if foreign and setting.in_container:
        better = one.text.replace(f"-{wheel.platform}.whl", "-linux_x86_64.whl")
        fix = Fix("take the Linux wheel", (SetValue(one.path, better),)) if wheel.name.lower() == "cntk" else None
        message = f"this wheel of {wheel.name} is for {foreign}, and containers are Linux"
        yield _finding(subject, one, "wrong-platform", message, "Take the Linux wheel (linux_x86_64).", fix)
    tags = [tuple(map(int, (found[1], found[2]))) for found in re.finditer(r"cp(\d)(\d+)", wheel.python)]
    if tags and setting.python and wheel.abi != "abi3" and setting.python[:2] not in tags:
        wanted, has = show_version(setting.python[:2]), show_version(tags[0])
        plain = "".join(map(str, setting.python[:2]))
        mine = "".join(map(str, tags[0]))
        fits = wheel.name.lower() == "cntk" and (2, 7) <= setting.python[:2] <= (3, 6)
        better = one.text.replace(f"cp{mine}-cp{mine}", f"cp{plain}-cp{plain}")
        fix = (
            Fix(f"take the wheel for Python {wanted}", (SetValue(one.path, better),))
            if fits and better != one.text
            else None
        )
        message = f"this wheel of {wheel.name} is for Python {has}, and python={show_version(setting.python)} is pinned"
        yield _finding(subject, one, "wrong-python", message, f"Take a wheel with cp{plain}, or pin python={has}.", fix)


# -- versions --------------------------------------------------------------------------------------------------------


def _versions(subject: Subject, one: Requirement, setting: Setting) -> Iterator[Finding]:
    if one.name in LARGE_PACKAGES and not one.url and not re.search(r"[\d*]", one.spec):
        yield _unpinned(subject, one, setting)
    build = build_of(one.name, one.pin)
    if build is None:
        return
    title = f"{TITLES[one.name]} {show_version(one.pin)}"
    python = setting.python[:2]
    if len(python) == 2 and one.wheel is None and not build.oldest_python <= python <= build.newest_python:
        span = f"{show_version(build.oldest_python)} to {show_version(build.newest_python)}"
        line = newest_for(one.name, python, None)
        wanted = f"{show_version(build.newest_python if python > build.newest_python else build.oldest_python)}"
        message = f"{title} exists for Python {span}, and python={show_version(setting.python)} is pinned"
        remedy = f"Pin python={wanted}" + (f", or {one.name} {show_version(line)}." if line else ".")
        yield _finding(subject, one, "cannot-install", message, remedy, _python_fix(subject, wanted))
    cuda = setting.cuda
    if (
        build.cuda is not None
        and cuda is not None
        and setting.wants_gpu
        and cuda != build.cuda
        and one.manager == "pip"
    ):
        message = f"{title} needs CUDA {show_version(build.cuda)}, and the image has {show_version(cuda)}"
        remedy = "Take an image with that CUDA, or a newer release of the framework."
        yield _finding(subject, one, "wrong-cuda", message, remedy)


def _unpinned(subject: Subject, one: Requirement, setting: Setting) -> Finding:
    # Where the Python tells that TensorFlow 1 is meant, its last line with a GPU package of its own.
    is_old = one.name == "tensorflow-gpu" or (one.name == "tensorflow" and _is_old_tensorflow(one, setting.python))
    below = (1, 15) if is_old and setting.python[:2] <= (3, 5) else (99,)
    line = newest_for(one.name, setting.python, setting.cuda, below=below)
    joint = "=" if one.manager == "conda" else "=="
    tail = "" if one.manager == "conda" else ".*"
    better = f"{one.text.strip()}{joint}{show_version(line)}{tail}" if line and not one.spec else ""
    fix = Fix(f"pin {better}", (SetValue(one.path, better),), is_choice=True) if better else None
    message = f"`{one.name}` has no version: each rebuild may fetch another, hundreds of megabytes large"
    return _finding(
        subject, one, "unpinned", message, f"Pin it, for example {better or one.name + joint + 'VERSION'}.", fix
    )


def _python_fix(subject: Subject, version: str) -> Fix | None:
    for one in requirements_of(subject.tree.root):
        if one.manager == "conda" and one.name == "python":
            return Fix(f"pin python={version}", (SetValue(one.path, f"python={version}"),), is_choice=True)
    return None
