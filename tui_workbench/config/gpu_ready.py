"""Make a target GPU-ready in one step: everything that the original's users edited by hand in three files, as one plan.

Invariants: planning changes nothing; each hunk stands for itself and can be left out; applying is one change set, so
one undo; a plan made after applying has no hunks.
"""

from __future__ import annotations

import os

from tui_workbench.config import schema
from tui_workbench.config.changes import ChangeSet, FileChange, unified_diff
from tui_workbench.config.checks.dependencies import gpu_edit
from tui_workbench.config.document import Document
from tui_workbench.config.findings import Edit, SetValue, Unset
from tui_workbench.config.images import (
    DEFAULT_GPU_IMAGE,
    OLDER_DRIVER_GPU_IMAGE,
    ORIGINAL_GPU_IMAGES,
    cuda_of_image,
    gpu_twin,
    is_gpu_image,
    parse_image,
)
from tui_workbench.config.packages import TITLES, build_of, newest_for, show_version
from tui_workbench.config.requirements import Requirement, requirements_of
from tui_workbench.config.surroundings import Configuration, Surroundings, Target
from tui_workbench.errors import ConfigurationError, UsageError
from tui_workbench.records import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator


class Hunk(NamedTuple):
    """One change of one file."""

    id: str  # "baseDockerImage", "Framework:gpu", "tensorflow": stable from plan to plan
    path: str
    title: str  # what it does: "nvidiaDocker: true"
    reason: str  # why a GPU needs it, a sentence
    edits: tuple[Edit, ...]
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

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to do."""
        return not self.hunks

    def change_set(self, without: Collection[str] = ()) -> ChangeSet:
        """The change of all hunks but those whose ids are in `without`.

        Raises ConfigurationError when a file changed since the plan was made in a way that it no longer fits.
        """
        changes = []
        for path in dict.fromkeys(hunk.path for hunk in self.hunks):
            edits = [edit for hunk in self.hunks if hunk.path == path and hunk.id not in without for edit in hunk.edits]
            if edits:
                changes.append(_changed(path, edits))
        return ChangeSet(f"make {self.target} GPU-ready", tuple(changes), self.notes)


def plan_gpu_ready(root: str, name: str, *, image: str = "", surroundings: Surroundings | None = None) -> GpuReadyPlan:
    """The plan for a target or run configuration called `name` of the project at `root`.

    `image` is the image to use; by default the current one with CUDA and PyTorch, unless the target has a GPU image
    already.

    Raises UsageError: no such name, or an image that Docker would not accept; ConfigurationError: a file that is
    broken, or a type of target that has no GPU to switch on.
    """
    around = surroundings or Surroundings(root)
    target, configurations = _resolve(around, name)
    if image and parse_image(image) is None:
        raise UsageError(f"{image!r} is no image name", remedy="Write REPOSITORY:TAG.")
    if target.type == schema.CLUSTER:
        raise ConfigurationError(
            "a Spark cluster has no GPU to switch on", remedy="Choose a Docker target.", file=target.path
        )
    planning = _Planning(around, target, configurations, image)
    hunks = tuple(planning.hunks())
    return GpuReadyPlan(
        root, target.name, tuple(one.name for one in configurations), hunks, tuple(planning.notes), planning.images()
    )


def _resolve(around: Surroundings, name: str) -> tuple[Target, list[Configuration]]:
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
        raise ConfigurationError(
            f"there is no compute target {target_name!r}", remedy="Correct Target.", file=configuration.path
        )
    known = sorted({*around.names(".compute"), *around.names(".runconfig")})
    raise UsageError(
        f"there is no target or run configuration {name!r}", remedy=f"Known here: {', '.join(known) or 'none'}."
    )


class _Planning:
    """Collects the hunks, and the notes that come up on the way."""

    def __init__(self, around: Surroundings, target: Target, configurations: list[Configuration], image: str) -> None:
        self.around = around
        self.target = target
        self.configurations = configurations
        self.wanted_image = image
        self.notes: list[str] = []

    @property
    def image(self) -> str:
        """The image that the target has after the plan."""
        if self.wanted_image:
            return self.wanted_image
        # An image of one's own may well hold CUDA; it is not thrown out because its name does not say so.
        is_known_cpu = not self.target.image or is_gpu_image(self.target.image) is False
        return DEFAULT_GPU_IMAGE if is_known_cpu else self.target.image

    def images(self) -> tuple[ImageChoice, ...]:
        """The images to choose from: the plan's own, the current ones, those of the original product."""
        twin = gpu_twin(self.target.image)
        found = {
            self.image: "",
            DEFAULT_GPU_IMAGE: "PyTorch and CUDA 13, needs an NVIDIA driver of at least 580",
            OLDER_DRIVER_GPU_IMAGE: "PyTorch and CUDA 12.6, for older drivers",
        }
        if twin is not None:
            found.setdefault(twin, "the image of the same family with CUDA")
        if self.target.image.startswith("microsoft/mmlspark"):
            for reference in ORIGINAL_GPU_IMAGES:
                found.setdefault(reference, "the original product's image, for projects that still use it")
        titles = {**found, self.target.image: "as it is"} if self.target.image in found else found
        return tuple(ImageChoice(reference, titles[reference] or "as asked for") for reference in found)

    def hunks(self) -> Iterator[Hunk]:
        """Every change that is needed."""
        if self.target.is_docker:
            yield from self._target_hunks()
        else:
            self.notes.append(
                f"{self.target.name} runs scripts with its own Python: see there that its framework is a build "
                f"with CUDA."
            )
        for configuration in self.configurations:
            yield from self._configuration_hunks(configuration)
        if not self.configurations:
            self.notes.append(f"No run configuration names {self.target.name} yet.")
        if self.target.is_docker:
            for path in dict.fromkeys(self.around.absolute(one.conda_file) for one in self.configurations):
                yield from self._package_hunks(path)

    def _target_hunks(self) -> Iterator[Hunk]:
        path = self.target.path
        if self.image == self.target.image and is_gpu_image(self.image) is None:
            self.notes.append(f"The name of {self.image} does not tell whether it holds CUDA: see that it does.")
        if self.image != self.target.image:
            reason = "The image must hold CUDA." if not is_gpu_image(self.target.image) else "This image was asked for."
            title = f"baseDockerImage: {self.image}"
            yield _hunk("baseDockerImage", path, title, reason, SetValue(("baseDockerImage",), self.image))
        if not self.target.nvidia_docker:
            reason = "Without it the container gets no GPU."
            yield _hunk("nvidiaDocker", path, "nvidiaDocker: true", reason, SetValue(("nvidiaDocker",), True))

    def _configuration_hunks(self, configuration: Configuration) -> Iterator[Hunk]:
        document = Document.open(configuration.path)
        is_sdk = document.kind.name == "sdk-runconfig"
        framework = "framework" if is_sdk else "Framework"
        prepare = "prepareEnvironment" if is_sdk else "PrepareEnvironment"
        suffix = f":{configuration.name}" if len(self.configurations) > 1 else ""
        if configuration.framework != "Python":
            if self.around.uses_spark(configuration.script):
                self.notes.append(f"{configuration.name} starts Spark, and its script uses it: left as it is.")
            else:
                reason = "Without it every run starts Spark, which does not know the GPU."
                edit = SetValue((framework,), "Python")
                yield _hunk(framework + suffix, configuration.path, f"{framework}: Python", reason, edit)
        if self.target.is_docker and not document.get((prepare,)):
            reason = "The environment with the GPU packages is built with the run."
            yield _hunk(prepare + suffix, configuration.path, f"{prepare}: true", reason, SetValue((prepare,), True))
        self._note_sdk(document, is_sdk)

    def _note_sdk(self, document: Document, is_sdk: bool) -> None:
        if is_sdk and document.get("environment.docker.gpuSupport") is False:
            name = os.path.basename(document.path)
            self.notes.append(
                f"{name} has gpuSupport: false, which only the SDK of 2018 reads; the target decides here."
            )

    def _package_hunks(self, path: str) -> Iterator[Hunk]:
        if not os.path.isfile(path):
            self.notes.append(
                f"There is no {os.path.relpath(path, self.around.root)}: nothing is installed beyond the image."
            )
            return
        document = Document.open(path)
        requirements = requirements_of(document.tree.root)
        python = next((one.pin for one in requirements if one.manager == "conda" and one.name == "python"), ())
        found = False
        for number, one in enumerate(requirements, 1):
            edit = _for_gpu(one, python)
            if edit is not None:
                found = True
                twins = sum(other.name == one.name for other in requirements)
                identity = one.name or one.text.strip()
                yield _hunk(f"{identity}:{number}" if twins > 1 else identity, path, edit[1], edit[2], edit[0])
            self._note_cuda(one, python, edit is not None)
        others = [user.name for user in self.around.users_of(path) if user not in self.configurations]
        if found and others:
            self.notes.append(f"{os.path.basename(path)} is used by {', '.join(others)} as well.")

    def _note_cuda(self, one: Requirement, python: tuple[int, ...], is_edited: bool) -> None:
        """Say when the framework cannot use the CUDA of the image; the images to choose from hold an older one."""
        line = one.pin[:2] or (
            newest_for("tensorflow", python, None, below=(1, 15)) if is_edited and "tensorflow" in one.name else None
        )
        build = build_of(one.name, line) if line else None
        cuda = cuda_of_image(self.image)
        if build is not None and build.cuda is not None and cuda is not None and cuda != build.cuda:
            title = f"{TITLES[one.name]} {show_version(line or ())}"
            choice = gpu_twin(self.target.image) or ORIGINAL_GPU_IMAGES[0]
            self.notes.append(
                f"{title} needs CUDA {show_version(build.cuda)}, and the image has {show_version(cuda)}: "
                f"choose {choice}, or move to a newer framework."
            )


def _for_gpu(one: Requirement, python: tuple[int, ...]) -> tuple[Edit, str, str] | None:
    """The edit that makes a package a Linux build with CUDA, its title and reason; None when it is one."""
    found = gpu_edit(one, python)
    why, edit, title = found if found is not None else ("", None, "")
    text = edit.value if isinstance(edit, SetValue) else one.text
    is_cntk = one.wheel is not None and one.wheel.name.lower() == "cntk"
    if (
        is_cntk
        and one.wheel is not None
        and one.wheel.platform.startswith(("win", "macosx"))
        and not isinstance(edit, Unset)
    ):
        text = text.replace(f"-{one.wheel.platform}.whl", "-linux_x86_64.whl")
        edit, title, why = SetValue(one.path, text), "take the Linux wheel", why or "containers are Linux"
    if edit is None:
        return None
    return edit, title, why[:1].upper() + why[1:] + "."


def _hunk(identity: str, path: str, title: str, reason: str, *edits: Edit) -> Hunk:
    change = _changed(path, list(edits))
    return Hunk(identity, path, title, reason, edits, unified_diff(change, os.path.basename(path)))


def _changed(path: str, edits: list[Edit]) -> FileChange:
    document = Document.open(path)
    before = document.file.encode(document.text)
    # Removals last, from behind: an index then still means the item that it meant in the plan.
    removals = [edit for edit in edits if isinstance(edit, Unset)]
    for edit in edits:
        if not isinstance(edit, Unset):
            edit.apply_to(document)
    for removal in sorted(removals, key=lambda one: [step for step in one.path if isinstance(step, int)], reverse=True):
        removal.apply_to(document)
    return FileChange(path, before, document.file.encode(document.text))
