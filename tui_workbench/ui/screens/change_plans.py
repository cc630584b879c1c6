"""What can be done to the configuration files of a project, each as something to be asked, shown and then applied.

The invariant: planning reads and never writes; a plan is shown exactly as it would be applied.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple, Protocol

from tui_workbench.config import lifecycle
from tui_workbench.config.changes import ChangeSet
from tui_workbench.config.gpu_ready import plan_gpu_ready
from tui_workbench.config.schema import TARGET_TYPES
from tui_workbench.config.surroundings import Surroundings
from tui_workbench.targets.detach import plan_detaching

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from tui_workbench.project import Project
    from tui_workbench.targets.detach import Detachment


class Asked(NamedTuple):
    """Something that a person says about a change: a text, or one of the `choices`."""

    key: str
    label: str
    value: str
    choices: tuple[str, ...] = ()


class Hunk(NamedTuple):
    """A part of a change that is shown, and can be left out when it has an `id`."""

    path: str  # relative to the project
    lines: tuple[tuple[str, str], ...]  # kind (`+`, `-`, ` `) and text
    id: str = ""
    title: str = ""
    reason: str = ""


class Plan(NamedTuple):
    """A change as far as it is planned."""

    hunks: tuple[Hunk, ...]
    notes: tuple[str, ...]
    change_set: Callable[[Collection[str]], ChangeSet]  # without the hunks of these ids
    choices: Mapping[str, tuple[str, ...]] = {}  # what is asked has these choices now
    done: str = ""  # said when there is nothing to change


class Change(Protocol):
    """A kind of change."""

    @property
    def title(self) -> str:
        """What is done, as the head of the screen."""

    @property
    def asked(self) -> tuple[Asked, ...]:
        """What a person says about it."""

    def plan(self, values: Mapping[str, str]) -> Plan:
        """The plan for what was said. Reads files; raises WorkbenchError when it cannot be done."""


class CreateTarget:
    """A new compute target."""

    def __init__(self, root: str) -> None:
        self._root = root
        self.title = "New compute target"
        self.asked = (Asked("name", "Name", ""), Asked("type", "Type", TARGET_TYPES[0], TARGET_TYPES))

    def plan(self, values: Mapping[str, str]) -> Plan:
        """The new file."""
        return _whole(lifecycle.create_target(self._root, values["name"], values["type"]), self._root)


class CreateRunConfiguration:
    """A new run configuration."""

    def __init__(self, root: str, target: str = "") -> None:
        self._root = root
        self.title = "New run configuration"
        names = tuple(Surroundings(root).names(lifecycle.COMPUTE)) or ("local",)
        self.asked = (
            Asked("name", "Name", target),
            Asked("target", "Target", target if target in names else names[0], names),
        )

    def plan(self, values: Mapping[str, str]) -> Plan:
        """The new file."""
        return _whole(lifecycle.create_run_configuration(self._root, values["name"], values["target"]), self._root)


class Duplicate:
    """A copy under another name."""

    def __init__(self, root: str, path: str) -> None:
        self._root = root
        self._path = path
        self.title = f"Duplicate {os.path.basename(path)}"
        self.asked = (Asked("name", "Name of the copy", f"{_stem(path)}-copy"),)

    def plan(self, values: Mapping[str, str]) -> Plan:
        """The copy."""
        return _whole(lifecycle.duplicate(self._path, values["name"]), self._root)


class Rename:
    """Another name; what names it follows."""

    def __init__(self, root: str, path: str) -> None:
        self._root = root
        self._path = path
        self.title = f"Rename {os.path.basename(path)}"
        self.asked = (Asked("name", "New name", _stem(path)),)

    def plan(self, values: Mapping[str, str]) -> Plan:
        """The file, and the run configurations that name it."""
        if values["name"] == _stem(self._path):
            return Plan((), (), lambda _: ChangeSet("", ()), done="This is its name.")
        change_set = lifecycle.rename(self._path, values["name"])
        moved = os.path.relpath(change_set.changes[0].path, self._root)
        old = os.path.relpath(self._path, self._root)
        hunks = [Hunk(f"{old} → {moved}", ())]
        hunks += [hunk for hunk in _hunks(change_set, self._root) if hunk.path not in (old, moved)]
        return Plan(tuple(hunks), change_set.notes, lambda _: change_set)


class Delete:
    """To the trash."""

    def __init__(self, root: str, path: str) -> None:
        self._root = root
        self._path = path
        self.title = f"Delete {os.path.basename(path)}"
        self.asked: tuple[Asked, ...] = ()

    def plan(self, values: Mapping[str, str]) -> Plan:
        """The file goes; the copy in the trash is not worth showing."""
        change_set = lifecycle.delete(self._path)
        wanted = os.path.relpath(self._path, self._root)
        hunks = tuple(hunk for hunk in _hunks(change_set, self._root) if hunk.path == wanted)
        notes = (*change_set.notes, "It is kept in .workbench/trash, and undo brings it back.")
        return Plan(hunks, notes, lambda _: change_set)


class Detach:
    """A target goes, with the run configuration of its name, and its secrets leave the keyring."""

    def __init__(self, project: Project, name: str) -> None:
        self._project = project
        self._name = name
        self.title = f"Detach {name}"
        self.asked: tuple[Asked, ...] = ()
        self.detachment: Detachment | None = None  # as it was planned last

    def plan(self, values: Mapping[str, str]) -> Plan:
        """The files go; the copies in the trash are not worth showing."""
        detachment = plan_detaching(self._project, self._name)
        self.detachment = detachment
        root = self._project.root
        gone = {os.path.relpath(change.path, root) for change in detachment.change_set.changes if change.after is None}
        hunks = tuple(hunk for hunk in _hunks(detachment.change_set, root) if hunk.path in gone)
        notes = [*detachment.change_set.notes, "Nothing on the machine is touched."]
        if detachment.references:
            notes.append("Its secret leaves the keyring; undo brings it back as long as the workbench is open.")
        return Plan(hunks, tuple(notes), lambda _: detachment.change_set)


class MakeGpuReady:
    """All that a target or run configuration needs to use a GPU."""

    def __init__(self, root: str, name: str) -> None:
        self._root = root
        self._name = name
        self.title = f"Make {name} GPU-ready"
        self.asked = (Asked("image", "Image", ""),)

    def plan(self, values: Mapping[str, str]) -> Plan:
        """The hunks of all files."""
        plan = plan_gpu_ready(self._root, self._name, image=values["image"])
        hunks = tuple(
            Hunk(os.path.relpath(hunk.path, self._root), _lines(hunk.diff), hunk.id, hunk.title, hunk.reason)
            for hunk in plan.hunks
        )
        images = tuple(image.reference for image in plan.images)
        done = f"Nothing is left to do: {plan.target} is GPU-ready." if plan.is_done else ""
        return Plan(hunks, plan.notes, plan.change_set, {"image": images}, done)


def _whole(change_set: ChangeSet, root: str) -> Plan:
    return Plan(tuple(_hunks(change_set, root)), change_set.notes, lambda _: change_set)


def _hunks(change_set: ChangeSet, root: str) -> Iterator[Hunk]:
    for change in change_set.changes:
        diff = change_set._replace(changes=(change,)).diff(root)
        yield Hunk(os.path.relpath(change.path, root), _lines(diff))


def _lines(diff: str) -> tuple[tuple[str, str], ...]:
    """The changed lines of a unified diff, each with the line before and the line after it."""
    lines = diff.split("\n")
    start = next((number for number, line in enumerate(lines) if line.startswith("@@")), len(lines))
    lines = [line for line in lines[start + 1 :] if line[:1] in ("+", "-", " ")]
    changed = [number for number, line in enumerate(lines) if line[0] != " "]
    near = {number + step for number in changed for step in (-1, 0, 1)}
    return tuple((line[0], line[1:]) for number, line in enumerate(lines) if number in near)


def _stem(path: str) -> str:
    return os.path.splitext(os.path.basename(path))[0]
