"""The changes that can be made to a project's configuration files.

The invariant: planning never writes, and a plan is shown exactly as it will be applied.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tui_workbench.config.changes import lifecycle
from tui_workbench.config.changes.change_set import ChangeSet
from tui_workbench.config.changes.gpu_ready import plan_gpu_ready
from tui_workbench.config.checks.project_context import ProjectContext
from tui_workbench.core import target_types
from tui_workbench.projects.project import Project
from tui_workbench.targets.attaching.detach import Detachment, plan_detaching
from tui_workbench.ui.widgets.dialog import DialogField


class Hunk(NamedTuple):
    """A part of a change. The user can exclude a hunk that has an `id`."""

    path: str  # the changed file, relative to the project
    lines: tuple[tuple[str, str], ...]  # kind (`+`, `-`, ` `) and text
    id: str = ""
    title: str = ""
    reason: str = ""


class Plan(NamedTuple):
    """A change as planned for the current values: its hunks and notes, and a function that makes the change set."""

    hunks: tuple[Hunk, ...]
    notes: tuple[str, ...]
    change_set: Callable[[Collection[str]], ChangeSet]  # makes the change set without the hunks with these IDs
    choices: Mapping[str, tuple[str, ...]] = {}  # the current choices of fields, by key
    done: str = ""  # the reason why there is nothing to change


@dataclass
class Change:
    """A kind of change: its title, its fields, and the function that plans the change for the values of the fields.

    `plan` reads files, and raises WorkbenchError when the change cannot be made.
    """

    title: str
    asked: tuple[DialogField, ...]
    plan: Callable[[Mapping[str, str]], Plan]
    detachment: Detachment | None = None  # the latest plan of the detachment, if the change detaches a target


def create_target(root: str) -> Change:
    """Return the change that creates a compute target."""
    types = target_types.names()
    asked = (DialogField("name", "Name"), _choice("type", "Type", types[0], types))
    return Change(
        "New compute target",
        asked,
        lambda values: _whole(lifecycle.create_target(root, values["name"], values["type"]), root),
    )


def create_run_configuration(root: str, target: str = "") -> Change:
    """Return the change that creates a run configuration, for `target` if it exists, else for the first target.

    Without targets, the run configuration is for `local`.
    """
    context = ProjectContext(root)
    targets = tuple(context.names(lifecycle.COMPUTE)) or ("local",)
    name = _free(target, context.names(lifecycle.RUNCONFIG))
    chosen = target if target in targets else targets[0]
    return Change(
        "New run configuration",
        (DialogField("name", "Name", name), _choice("target", "Target", chosen, targets)),
        lambda values: _whole(lifecycle.create_run_configuration(root, values["name"], values["target"]), root),
    )


def duplicate(root: str, path: str) -> Change:
    """Return the change that copies a configuration file under another name."""
    name = _free(f"{_stem(path)}-copy", ProjectContext(root).names(os.path.splitext(path)[1]))
    return Change(
        f"Duplicate {os.path.basename(path)}",
        (DialogField("name", "New name", name),),
        lambda values: _whole(lifecycle.duplicate(path, values["name"]), root),
    )


def rename(root: str, path: str) -> Change:
    """Return the change that renames a configuration file and updates the run configurations that refer to it."""

    def plan(values: Mapping[str, str]) -> Plan:
        if values["name"] == _stem(path):
            return Plan((), (), lambda _: ChangeSet("", ()), done="The file already has this name.")
        change_set = lifecycle.rename(path, values["name"])
        old, new = (os.path.relpath(file, root) for file in (path, change_set.changes[0].path))
        others = (hunk for hunk in _hunks(change_set, root) if hunk.path not in (old, new))
        return Plan((Hunk(f"{old} → {new}", ()), *others), change_set.notes, lambda _: change_set)

    return Change(f"Rename {os.path.basename(path)}", (DialogField("name", "New name", _stem(path)),), plan)


def delete(root: str, path: str) -> Change:
    """Return the change that moves a configuration file to the trash."""

    def plan(values: Mapping[str, str]) -> Plan:
        change_set = lifecycle.delete(path)
        notes = (*change_set.notes, "The file moves to .workbench/trash. Undo restores it.")
        return Plan(_hunks_of_removed(change_set, root), notes, lambda _: change_set)

    return Change(f"Delete {os.path.basename(path)}", (), plan)


def detach(project: Project, name: str) -> Change:
    """Return the change that removes a target, its run configuration of the same name, and its secrets."""

    def plan(values: Mapping[str, str]) -> Plan:
        change.detachment = detachment = plan_detaching(project, name)
        notes = [*detachment.change_set.notes, "Nothing changes on the machine itself."]
        if detachment.references:
            notes.append("Its secrets are removed from the keyring or from memory. Undo restores them until you quit.")
        hunks = _hunks_of_removed(detachment.change_set, project.root)
        return Plan(hunks, tuple(notes), lambda _: detachment.change_set)

    change = Change(f"Detach {name}", (), plan)
    return change


def make_gpu_ready(root: str, name: str) -> Change:
    """Return the change that edits a target or run configuration so that runs use the GPU."""

    def plan(values: Mapping[str, str]) -> Plan:
        ready = plan_gpu_ready(root, name, image=values.get("image", ""))
        hunks = tuple(
            Hunk(os.path.relpath(hunk.path, root), _lines(hunk.diff), hunk.id, hunk.title, hunk.reason)
            for hunk in ready.hunks
        )
        images = tuple(image.reference for image in ready.images)
        done = f"{ready.target} is already GPU-ready." if ready.is_ready else ""
        if ready.is_done and not ready.is_ready:
            why = f"{ready.doubt[:1].upper()}{ready.doubt[1:]}."
            done = f"No automatic changes. {'Fix the problems below.' if ready.problems else why}"
        left = [
            f"Not fixed in {os.path.basename(problem.file)}, line {problem.line}: {problem.message}."
            for problem in ready.problems
        ]
        return Plan(hunks, (*ready.notes, *left), ready.change_set, {"image": images}, done)

    # Only a target that uses containers has an image to choose.
    target = ProjectContext(root).target(name)
    has_image = target is None or target.kind.runs_in_container
    fields = (DialogField("image", "Image"),) if has_image else ()
    return Change(f"Make {name} GPU-ready", fields, plan)


def _choice(key: str, label: str, value: str, choices: Iterable[str]) -> DialogField:
    return DialogField(key, label, value, choices={choice: choice for choice in choices})


def _whole(change_set: ChangeSet, root: str) -> Plan:
    return Plan(tuple(_hunks(change_set, root)), change_set.notes, lambda _: change_set)


def _hunks(change_set: ChangeSet, root: str) -> Iterator[Hunk]:
    for change in change_set.changes:
        diff = change_set._replace(changes=(change,)).diff(root)
        yield Hunk(os.path.relpath(change.path, root), _lines(diff))


def _hunks_of_removed(change_set: ChangeSet, root: str) -> tuple[Hunk, ...]:
    """Return hunks for the removed files, without their copies in the trash."""
    return tuple(_hunks(change_set._replace(changes=tuple(c for c in change_set.changes if c.after is None)), root))


def _lines(diff: str) -> tuple[tuple[str, str], ...]:
    """Return the changed lines of a unified diff with one line of context."""
    lines = diff.split("\n")
    start = next((number for number, line in enumerate(lines) if line.startswith("@@")), len(lines))
    lines = [line for line in lines[start + 1 :] if line[:1] in ("+", "-", " ")]
    changed = [number for number, line in enumerate(lines) if line[0] != " "]
    near = {number + step for number in changed for step in (-1, 0, 1)}
    return tuple((line[0], line[1:]) for number, line in enumerate(lines) if number in near)


def _free(name: str, taken: Collection[str]) -> str:
    """Return `name`, or the first of `name-2`, `name-3` ... that is not taken."""
    numbered = (f"{name}-{number}" for number in itertools.count(2))
    return name if name not in taken else next(other for other in numbered if other not in taken)


def _stem(path: str) -> str:
    return os.path.splitext(os.path.basename(path))[0]
