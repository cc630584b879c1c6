"""Advice about `ProcessesPerNode`: whether there are as many GPUs, and PyTorch to start the processes with."""

from __future__ import annotations

import glob
import os

from tui_workbench.config import fields, schema
from tui_workbench.config.checks.subject import Subject
from tui_workbench.config.findings import Finding, Fix, SetValue
from tui_workbench.config.requirements import requirements_of
from tui_workbench.config.surroundings import Target, configuration_of
from tui_workbench.config.values import GPUS_WORD
from tui_workbench.records import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY = "ProcessesPerNode"

_TORCH = frozenset(("torch", "pytorch", "pytorch-cuda", "pytorch-gpu", "pytorch-cpu"))


def check(subject: Subject) -> Iterator[Finding]:
    """All findings about the processes of a run configuration."""
    wanted = subject.values.get(KEY)
    around = subject.surroundings
    if subject.kind is not fields.RUNCONFIG or not wanted or around is None:
        return
    target = around.target(subject.values.get("Target") or "")
    if target is None:
        return
    count = gpus_given(target)
    if count is not None:
        yield from _count(subject, wanted, target, count)
    if _lacks_torch(subject, target):
        message = f"`{KEY}` needs PyTorch, and nothing gives it to runs on {target.name}"
        where = "Add torch to the conda dependencies file." if _is_built(target) else "Install torch in its Python."
        yield subject.finding("no-torch", message, where, subject.nodes[KEY], key=KEY)


def gpus_given(target: Target) -> int | None:
    """How many GPUs a run on the target gets; None where only the machine knows."""
    gpus = target.gpus
    if gpus.isdigit():
        return int(gpus)
    if gpus == "free":
        return 1
    if gpus.startswith("["):
        return gpus.count(",") + 1
    return 0 if target.is_docker and not gpus and not target.nvidia_docker else None


def _count(subject: Subject, wanted: str, target: Target, count: int) -> Iterator[Finding]:
    gpus = f"{count} GPU{'' if count == 1 else 's'}" if count else "no GPU"
    if wanted == GPUS_WORD:
        if not count:
            message = f"`{KEY}: gpus`, and {target.name} gives its runs no GPU: they fail"
            remedy = "Give it GPUs (`gpus`, `nvidiaDocker`), or write a number of processes."
            yield subject.finding("processes-without-gpu", message, remedy, subject.nodes[KEY], key=KEY)
    elif count and int(wanted) > count:
        message = f"{wanted} processes, and {target.name} gives a run {gpus}: some share one, which NCCL refuses"
        fix = Fix(f"set {KEY}: gpus", (SetValue((KEY,), GPUS_WORD),))
        remedy = f"Write {KEY}: gpus, or give it as many GPUs."
        yield subject.finding("more-processes-than-gpus", message, remedy, subject.nodes[KEY], key=KEY, fix=fix)


def _is_built(target: Target) -> bool:
    """Whether its environment is made from the conda dependencies file."""
    return target.is_docker or not target.user_managed


def _lacks_torch(subject: Subject, target: Target) -> bool:
    """True only where it is sure: what an image or an interpreter of the system holds cannot be seen in a file."""
    around = subject.surroundings
    assert around is not None
    if _is_built(target):
        if target.is_docker and not target.image.startswith("python:"):
            return False
        configuration = configuration_of("", subject.document.path, subject.values)
        tree = around.tree(around.absolute(configuration.conda_file))
        return tree is not None and not any(one.name in _TORCH for one in requirements_of(tree.root))
    if target.type != schema.LOCAL or "/" not in target.python:
        return False
    # Of this project's folder, or absolute.
    python = os.path.join(around.root, os.path.expanduser(target.python))
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
