"""Make a target GPU-ready in one step: everything that the original's users edited by hand in three files, as one plan.

Invariants: planning changes nothing; each hunk stands for itself and can be left out; applying is one change set, so
one undo; a plan made after applying has no hunks. A target is called ready only when no file that its runs need has an
error or a package that the image cannot serve.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

from tui_workbench.config.changes.change_set import ChangeSet, edited, unified_diff
from tui_workbench.config.checks import image_names, images
from tui_workbench.config.checks.dependencies import gpu_edits
from tui_workbench.config.checks.findings import ERROR, Edit, Finding, SetValue, Unset
from tui_workbench.config.checks.packages import Requirement, python_of, requirements_of, show_version
from tui_workbench.config.checks.project_context import Surroundings
from tui_workbench.config.document import Document
from tui_workbench.config.schema.field_types import written
from tui_workbench.config.yaml_edit.syntax import Path, read
from tui_workbench.core.errors import ConfigurationError, UsageError
from tui_workbench.core.model import ComputeTarget, RunConfiguration

_KEEPS_FROM_GPU = frozenset(("cannot-install", "wrong-cuda", "wrong-platform", "wrong-python", "cpu-build"))
"""Codes of warnings with which no GPU is used, or no environment can be made."""


class Hunk(NamedTuple):
    """One change of one file."""

    id: str  # "baseDockerImage", "Framework:gpu", "tensorflow": stable from plan to plan
    path: str
    title: str  # what it does: "nvidiaDocker: true"
    reason: str  # why a GPU needs it, a sentence
    edit: Edit
    diff: str  # this hunk alone as a unified diff


class ImageChoice(NamedTuple):
    """An image that the plan can use."""

    reference: str
    title: str


class GpuReadyPlan(NamedTuple):
    """What has to change so that runs of `configurations` on `target` use its GPU."""

    root: str
    target: str
    configurations: tuple[str, ...]
    hunks: tuple[Hunk, ...]
    notes: tuple[str, ...]  # what a person should know; nothing depends on it
    images: tuple[ImageChoice, ...]  # the first one is the one that the plan uses
    files: tuple[str, ...] = ()  # that runs on the target need, with run configurations that cannot be read
    problems: tuple[Finding, ...] = ()  # what the plan leaves in these files that keeps runs from the GPU
    is_certain: bool = True  # False where the files do not tell whether there is CUDA: an unknown image, or no Docker

    @property
    def is_done(self) -> bool:
        """Whether the plan changes nothing."""
        return not self.hunks

    @property
    def is_ready(self) -> bool:
        """Whether nothing is left to do, and the files say that runs use the GPU."""
        return not self.hunks and not self.problems and self.is_certain

    def problems_after(self, without: Collection[str] = ()) -> tuple[Finding, ...]:
        """What still keeps runs from the GPU once all hunks but `without` are applied. Raises ConfigurationError."""
        around = Surroundings(self.root)
        texts = {path: _edited(path, edits).text for path, edits in _edits_by_file(self.hunks, without).items()}
        for path, text in texts.items():
            around.show_unsaved(path, text)
        found: list[Finding] = []
        for path in self.files:
            file = read(path)
            document = Document(file._replace(text=texts.get(path, file.text)), around)
            found += [one for one in document.problems() if one.severity == ERROR or one.code in _KEEPS_FROM_GPU]
        return tuple(found)

    def change_set(self, without: Collection[str] = ()) -> ChangeSet:
        """The change of all hunks but those whose ids are in `without`.

        Raises ConfigurationError when a file changed since the plan was made in a way that it no longer fits.
        """
        changes = [edited(_edited(path, edits)) for path, edits in _edits_by_file(self.hunks, without).items()]
        return ChangeSet(f"make {self.target} GPU-ready", tuple(changes), self.notes)


def plan_gpu_ready(root: str, name: str, *, image: str = "") -> GpuReadyPlan:
    """The plan for a target or run configuration called `name` of the project at `root`.

    `image` is the image to use; by default the current one with CUDA and PyTorch, unless the target has a GPU image
    already.

    Raises UsageError: no such name, or an image that Docker would not accept; ConfigurationError: a file that is
    broken, or a type of target that has no GPU to switch on.
    """
    around = Surroundings(root)
    target, configurations = _resolve(around, name)
    if image and image_names.parse_image(image) is None:
        raise UsageError(f"{image!r} is no image name", remedy="Write REPOSITORY:TAG.")
    if not target.kind.has_gpus:
        message = "a Spark cluster has no GPU to switch on"
        raise ConfigurationError(message, remedy="Choose a Docker target.", file=target.path)
    planning = _Planning(around, target, configurations, image)
    hunks = tuple(planning.hunks())
    # Nobody knows whether a run configuration that cannot be read names the target.
    names = around.names(".runconfig") if around.target(name) is not None else []
    broken = [one for one in names if around.configuration(one) is None]
    plan = GpuReadyPlan(
        root,
        target.name,
        tuple(one.name for one in configurations),
        hunks,
        tuple(planning.notes),
        planning.images(),
        (*planning.files(), *(os.path.join(around.directory, f"{one}.runconfig") for one in broken)),
        is_certain=planning.is_docker and bool(image_names.is_gpu_image(planning.image)),
    )
    return plan._replace(problems=plan.problems_after())


class GpuReadyResult(NamedTuple):
    """A plan, what it changes, whether that was done, and what is left that keeps runs from the GPU."""

    plan: GpuReadyPlan
    diff: str
    applied: bool
    left: tuple[Finding, ...] = ()


def make_gpu_ready(
    root: str, name: str, *, image: str = "", without: Collection[str] = (), dry_run: bool = False
) -> GpuReadyResult:
    """Plan, and unless `dry_run` make, a target or run configuration GPU-ready, all but the hunks `without`.

    Raises UsageError: no such name, image or hunk; ConfigurationError: a file is broken or changed meanwhile.
    """
    plan = plan_gpu_ready(root, name, image=image)
    unknown = [one for one in without if one not in {hunk.id for hunk in plan.hunks}]
    if unknown:
        known = ", ".join(hunk.id for hunk in plan.hunks) or "none"
        raise UsageError(f"there is no change {unknown[0]!r}", remedy=f"Changes of this plan: {known}.")
    change_set = plan.change_set(without)
    left = plan.problems_after(without) if without else plan.problems
    if not dry_run:
        change_set.apply()
    return GpuReadyResult(plan, change_set.diff(root), not dry_run and not change_set.is_empty, left)


def _resolve(around: Surroundings, name: str) -> tuple[ComputeTarget, list[RunConfiguration]]:
    """The target and the run configurations that `name` means: a run configuration means itself and its target."""
    configuration = around.configuration(name)
    target_name = configuration.target if configuration is not None else name
    target = around.target(target_name)
    if target is not None:
        return target, [configuration] if configuration is not None else around.configurations_of(target_name)
    # Where a file exists and says nothing, it is broken, and opening it says how.
    for suffix in (".compute", ".runconfig"):
        for broken in (target_name, name):
            path = os.path.join(around.directory, broken + suffix)
            if os.path.isfile(path):
                Document.open(path).tree  # noqa: B018 - raises the error of the file
    if configuration is not None:
        message = f"there is no compute target {target_name!r}"
        raise ConfigurationError(message, remedy="Correct Target.", file=configuration.path)
    known = ", ".join(sorted({*around.names(".compute"), *around.names(".runconfig")})) or "none"
    raise UsageError(f"there is no target or run configuration {name!r}", remedy=f"Known here: {known}.")


class _Planning:
    """Collects the hunks, and the notes that come up on the way."""

    def __init__(
        self, around: Surroundings, target: ComputeTarget, configurations: list[RunConfiguration], image: str
    ) -> None:
        self.around = around
        self.target = target
        self.configurations = configurations
        self.notes: list[str] = []
        self.dependency_files = list(dict.fromkeys(around.absolute(one.conda_file) for one in configurations))
        self.is_docker = target.kind.runs_in_container
        self.needs = images.needs_of_runs(around, configurations) if self.is_docker else []
        self.wanted_image = image
        self.image = image or self._chosen_image()
        """The image that the target has after the plan."""

    def _chosen_image(self) -> str:
        # What conda or an unpinned package brings is not known well enough to throw out a GPU image.
        certain = [need for need in self.needs if need.is_pinned and need.manager == "pip"]
        current = self.target.base_docker_image
        # An image of one's own may well hold CUDA; it is not thrown out because its name does not say so.
        return current if images.is_kept(current, certain) else images.fitting_image(current, self.needs)

    def files(self) -> tuple[str, ...]:
        """The files that runs on the target need and that are there."""
        dependencies = self.dependency_files if self.is_docker else []
        paths = [self.target.path, *(one.path for one in self.configurations), *dependencies]
        return tuple(path for path in paths if os.path.isfile(path))

    def images(self) -> tuple[ImageChoice, ...]:
        """The images to choose from: the plan's own, those that fit the packages, the current ones."""
        if not self.is_docker:
            return ()
        titles = {
            image_names.DEFAULT_GPU_IMAGE: "PyTorch and CUDA 13, needs an NVIDIA driver of at least 580",
            image_names.OLDER_DRIVER_GPU_IMAGE: "PyTorch and CUDA 12.6, for older drivers",
        }
        candidates = images.image_candidates(self.target.base_docker_image, self.needs)
        found = dict.fromkeys([self.image, *candidates, *titles])
        return tuple(ImageChoice(reference, titles.get(reference) or self._title(reference)) for reference in found)

    def _title(self, reference: str) -> str:
        if reference == self.target.base_docker_image:
            return "as it is"
        cuda = images.cuda_of_image(reference)
        parts = [f"CUDA {show_version(cuda)}"] if cuda is not None else []
        parts += [f"fits {need.title}" for need in self.needs[:1] if images.fits(reference, need)]
        parts += [images.removed_reason(reference)]
        return "; ".join(part for part in parts if part) or "as asked for"

    def hunks(self) -> Iterator[Hunk]:
        """Every change that is needed."""
        if self.is_docker:
            yield from self._target_hunks()
        else:
            advice = "see there that its framework is a build with CUDA"
            self.notes.append(f"{self.target.name} runs scripts with its own Python: {advice}.")
        for configuration in self.configurations:
            yield from self._configuration_hunks(configuration)
        if not self.configurations:
            self.notes.append(f"No run configuration names {self.target.name} yet.")
        if self.is_docker:
            for path in self.dependency_files:
                yield from self._package_hunks(path)

    def _target_hunks(self) -> Iterator[Hunk]:
        path = self.target.path
        if self.image == self.target.base_docker_image and image_names.is_gpu_image(self.image) is None:
            self.notes.append(f"The name of {self.image} does not tell whether it holds CUDA: see that it does.")
        if self.image != self.target.base_docker_image:
            reason = "The packages need another CUDA than the image holds."
            if not image_names.is_gpu_image(self.target.base_docker_image):
                reason = "The image must hold CUDA."
            elif self.wanted_image:
                reason = "This image was asked for."
            yield _set_hunk(path, "baseDockerImage", self.image, reason)
        self._note_image()
        if not self.target.nvidia_docker:
            yield _set_hunk(path, "nvidiaDocker", True, "Without it the container gets no GPU.")

    def _note_image(self) -> None:
        removed = images.removed_reason(self.image)
        if removed:
            where = "only where it was kept, on the machine or in another registry"
            self.notes.append(f"{removed}: {self.image} is to be had {where}.")
        newest = images.newest_gpu_of(self.image)
        if newest:
            cuda = show_version(images.cuda_of_image(self.image) or ())
            self.notes.append(f"CUDA {cuda} uses GPUs up to {newest}: a newer GPU needs newer frameworks and image.")

    def _configuration_hunks(self, configuration: RunConfiguration) -> Iterator[Hunk]:
        path = configuration.path
        document = Document.open(path)
        suffix = f":{configuration.name}" if len(self.configurations) > 1 else ""
        if configuration.framework != "Python":
            if self.around.uses_spark(configuration.script):
                self.notes.append(f"{configuration.name} starts Spark, and its script uses it: left as it is.")
            else:
                reason = "Without it every run starts Spark, which does not know the GPU."
                yield _set_hunk(path, configuration.key("Framework"), "Python", reason, suffix)
        if self.is_docker and not configuration.prepare_environment:
            reason = "The environment with the GPU packages is built with the run."
            yield _set_hunk(path, configuration.key("PrepareEnvironment"), True, reason, suffix)
        if self.is_docker and configuration.is_sdk_form:
            wanted = {"environment.docker.gpuSupport": True, "environment.docker.baseImage": self.image}
            for key, value in wanted.items():
                if document.get(key) not in (None, value):
                    yield _set_hunk(path, key, value, "It must agree with the target.", suffix)

    def _package_hunks(self, path: str) -> Iterator[Hunk]:
        if not os.path.isfile(path):
            name = os.path.relpath(path, self.around.root)
            self.notes.append(f"There is no {name}: nothing is installed beyond the image.")
            return
        document = Document.open(path)
        requirements = requirements_of(document.tree.root)
        edits = _package_edits(requirements, self.image)
        for number, one in enumerate(requirements, 1):
            if one.path in edits:
                edit, title, reason = edits[one.path]
                twins = sum(other.name == one.name for other in requirements)
                identity = one.name or one.text.strip()
                yield _hunk(f"{identity}:{number}" if twins > 1 else identity, path, title, reason, edit)
        others = [user.name for user in self.around.users_of(path) if user not in self.configurations]
        if edits and others:
            self.notes.append(f"{os.path.basename(path)} is used by {', '.join(others)} as well.")


def _package_edits(requirements: list[Requirement], image: str) -> dict[Path, tuple[SetValue | Unset, str, str]]:
    """Return by package path: the edit that makes it a Linux build for the CUDA of the image, its title and reason."""
    python = python_of(requirements)
    found: dict[Path, tuple[SetValue | Unset, str, str]] = {}
    for each in gpu_edits(requirements, python):
        found[each.requirement.path] = (each.edit, each.title, each.why[:1].upper() + each.why[1:] + ".")
    for one in requirements:
        edit, title, reason = found.get(one.path, (SetValue(one.path, one.text), "", ""))
        if isinstance(edit, Unset):
            continue
        text = str(edit.value)
        if one.wheel is not None and one.name == "cntk" and one.wheel.platform.startswith(("win", "macosx")):
            text = text.replace(f"-{one.wheel.platform}.whl", "-linux_x86_64.whl")
            title, reason = "take the Linux wheel", reason or "Containers are Linux."
        is_free = one.manager == "pip" and not one.spec and images.is_old_tensorflow(one, python)
        line = images.newest_line(one, python, images.cuda_of_image(image)) if is_free else None
        if line:
            text = f"{text.strip()}=={show_version(line)}.*"
            title = f"write {text}"
            reason = f"{reason} It is the version for the image; without one pip takes another.".strip()
        if text != one.text:
            found[one.path] = (SetValue(one.path, text), title, reason)
    return found


def _edits_by_file(hunks: Iterable[Hunk], without: Collection[str]) -> dict[str, list[Edit]]:
    """The edits of all hunks but `without`."""
    edits: dict[str, list[Edit]] = {}
    for hunk in hunks:
        if hunk.id not in without:
            edits.setdefault(hunk.path, []).append(hunk.edit)
    return edits


def _set_hunk(path: str, key: str, value: Any, reason: str, suffix: str = "") -> Hunk:
    edit = SetValue(tuple(key.split(".")), value)
    return _hunk(key + suffix, path, f"{key}: {written(value)}", reason, edit)


def _hunk(identity: str, path: str, title: str, reason: str, edit: Edit) -> Hunk:
    diff = unified_diff(edited(_edited(path, [edit])), os.path.basename(path))
    return Hunk(identity, path, title, reason, edit, diff)


def _edited(path: str, edits: list[Edit]) -> Document:
    document = Document.open(path)
    # Removals last, from behind: an index then still means the item that it meant in the plan.
    removals = [edit for edit in edits if isinstance(edit, Unset)]
    for edit in edits:
        if not isinstance(edit, Unset):
            document.edit(edit)
    for removal in sorted(removals, key=lambda one: [step for step in one.path if isinstance(step, int)], reverse=True):
        document.edit(removal)
    return document
