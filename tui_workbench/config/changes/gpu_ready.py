"""Make a target GPU-ready: plan edits of its files, and apply them as one change set.

Planning changes no file. The user can omit any hunk. After all hunks are applied, a new plan has no hunks. A target is
ready only if no file of its runs has an error or a package that is incompatible with the image.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

from tui_workbench.config.changes.change_set import ChangeSet, edited, unified_diff
from tui_workbench.config.checks import image_names, images, packages
from tui_workbench.config.checks.dependencies import gpu_edits
from tui_workbench.config.checks.findings import ERROR, Edit, Finding, SetValue, Unset
from tui_workbench.config.checks.packages import Requirement, python_of, requirements_of, show_version
from tui_workbench.config.checks.project_context import ProjectContext
from tui_workbench.config.document import Document
from tui_workbench.config.schema.field_types import written
from tui_workbench.config.schema.slurm_options import OVERRIDE, SECTION, requested_gpus
from tui_workbench.config.yaml_edit.syntax import Path, read
from tui_workbench.core.errors import ConfigurationError, UsageError
from tui_workbench.core.model import ComputeTarget, RunConfiguration, slurm_options

_BLOCKING = frozenset(("cannot-install", "wrong-cuda", "wrong-platform", "wrong-python", "cpu-build"))
"""Codes of warnings that prevent the use of a GPU or the build of an environment."""

_WITH_PYTORCH = (image_names.DEFAULT_GPU_IMAGE, image_names.OLDER_DRIVER_GPU_IMAGE)
_OLDEST_PYTHON = (3, 10)
"""The oldest Python that the PyTorch of these images supports. Conda installs an older one beside it."""

_ATTACH = "Attach a target first, for example Docker: `workbench-tui computetarget attach localdocker -n docker`."


class Hunk(NamedTuple):
    """One change of one file."""

    id: str  # "baseDockerImage", "Framework:gpu", "tensorflow"; the same in every plan
    path: str
    title: str  # the result: "nvidiaDocker: true"
    reason: str  # a sentence
    edit: Edit
    diff: str  # unified diff of this hunk


class ImageChoice(NamedTuple):
    """An image that the plan can use."""

    reference: str
    title: str


class GpuReadyPlan(NamedTuple):
    """The changes that are necessary so that runs of `configurations` on `target` use its GPU."""

    root: str
    target: str
    configurations: tuple[str, ...]
    hunks: tuple[Hunk, ...]
    notes: tuple[str, ...]  # for the user
    images: tuple[ImageChoice, ...]  # the plan uses the first
    files: tuple[str, ...] = ()  # files of runs on the target, and unreadable run configurations
    problems: tuple[Finding, ...] = ()  # blocking findings that the plan does not fix
    doubt: str = ""  # why runs may not use the GPU although no change or problem is left, as a clause

    @property
    def is_done(self) -> bool:
        return not self.hunks

    @property
    def is_ready(self) -> bool:
        """True if no change is necessary, no problem is left, and runs certainly can use the GPU."""
        return not self.hunks and not self.problems and not self.doubt

    def problems_after(self, without: Collection[str] = ()) -> tuple[Finding, ...]:
        """Return the blocking findings that remain after all hunks except `without`. Raises ConfigurationError."""
        context = ProjectContext(self.root)
        texts = {path: _edited(path, edits).text for path, edits in _edits_by_file(self.hunks, without).items()}
        for path, text in texts.items():
            context.show_unsaved(path, text)
        findings: list[Finding] = []
        for path in self.files:
            file = read(path)
            document = Document(file._replace(text=texts.get(path, file.text)), context)
            problems = document.problems()
            findings += [problem for problem in problems if problem.severity == ERROR or problem.code in _BLOCKING]
        return tuple(findings)

    def change_set(self, without: Collection[str] = ()) -> ChangeSet:
        """Return the changes of all hunks except those with an ID in `without`.

        Raises ConfigurationError if a file changed after planning and a hunk no longer applies.
        """
        changes = [edited(_edited(path, edits)) for path, edits in _edits_by_file(self.hunks, without).items()]
        return ChangeSet(f"make {self.target} GPU-ready", tuple(changes), self.notes)


def plan_gpu_ready(root: str, name: str, *, image: str = "") -> GpuReadyPlan:
    """Plan the changes for the target or run configuration `name` of the project at `root`.

    `image` is the image to use. By default, the target keeps an image with CUDA, or gets one that fits the packages.
    Raises UsageError for an unknown name or an invalid image. Raises ConfigurationError for an invalid file, and for a
    target of a type whose GPUs cannot be configured, such as `cluster`.
    """
    context = ProjectContext(root)
    target, configurations = _resolve(context, name)
    if image:
        image_names.require_image(image)
    if not target.kind.has_gpus and not target.kind.has_scheduler:
        message = f"cannot configure GPUs for {target.name!r}, because its type is {target.type}"
        remedy = "Choose a target of type local, localdocker, remotedocker, remote or slurm."
        raise ConfigurationError(message, remedy=remedy, file=target.path)
    planning = _Planning(context, target, configurations, image)
    hunks = tuple(planning.hunks())
    # An invalid run configuration may also use the target.
    file_names = context.names(".runconfig") if context.target(name) is not None else []
    unreadable = [file_name for file_name in file_names if context.configuration(file_name) is None]
    plan = GpuReadyPlan(
        root,
        target.name,
        tuple(configuration.name for configuration in configurations),
        hunks,
        tuple(planning.notes),
        planning.images(),
        (*planning.files(), *(os.path.join(context.directory, f"{file_name}.runconfig") for file_name in unreadable)),
        doubt=planning.doubt(),
    )
    return plan._replace(problems=plan.problems_after())


class GpuReadyResult(NamedTuple):
    """A plan, its diff, and the remaining blocking findings."""

    plan: GpuReadyPlan
    diff: str
    applied: bool
    left: tuple[Finding, ...] = ()


def make_gpu_ready(
    root: str, name: str, *, image: str = "", without: Collection[str] = (), dry_run: bool = False
) -> GpuReadyResult:
    """Make a target or run configuration GPU-ready. Omit the hunks with an ID in `without`.

    With `dry_run`, no file is changed. Raises UsageError for an unknown name or hunk, and for an invalid image. Raises
    ConfigurationError if a file is invalid or has changed, or if the GPUs of the target cannot be configured.
    """
    plan = plan_gpu_ready(root, name, image=image)
    unknown = [hunk_id for hunk_id in without if hunk_id not in {hunk.id for hunk in plan.hunks}]
    if unknown:
        names = ", ".join(hunk.id for hunk in plan.hunks)
        remedy = f"Choose one of: {names}." if names else "The plan has no changes: omit --without."
        raise UsageError(f"the plan has no change {unknown[0]!r}", remedy=remedy)
    change_set = plan.change_set(without)
    left = plan.problems_after(without) if without else plan.problems
    if not dry_run:
        change_set.apply()
    return GpuReadyResult(plan, change_set.diff(root), not dry_run and not change_set.is_empty, left)


def _resolve(context: ProjectContext, name: str) -> tuple[ComputeTarget, list[RunConfiguration]]:
    """Return the target `name` and its run configurations, or the run configuration `name` and its target.

    Raises UsageError for an unknown name, and ConfigurationError for an invalid file or an unknown target.
    """
    configuration = context.configuration(name)
    target_name = configuration.target if configuration is not None else name
    target = context.target(target_name)
    if target is not None:
        return target, [configuration] if configuration is not None else context.configurations_of(target_name)
    # The file is missing or invalid. Opening an invalid file raises its error.
    for suffix in (".compute", ".runconfig"):
        for file_name in (target_name, name):
            path = os.path.join(context.directory, file_name + suffix)
            if os.path.isfile(path):
                Document.open(path).tree  # noqa: B018 - raises the error of the file
    if configuration is not None:
        names = ", ".join(context.names(".compute"))
        raise ConfigurationError(
            f"unknown compute target {target_name!r}",
            remedy=f"Set {configuration.key('Target')} to one of: {names}." if names else _ATTACH,
            file=configuration.path,
        )
    names = ", ".join(sorted({*context.names(".compute"), *context.names(".runconfig")}))
    remedy = f"Choose one of: {names}." if names else _ATTACH
    raise UsageError(f"unknown target or run configuration {name!r}", remedy=remedy)


class _Planning:
    """Builder of the hunks and notes of a plan."""

    def __init__(
        self, context: ProjectContext, target: ComputeTarget, configurations: list[RunConfiguration], image: str
    ) -> None:
        self.context = context
        self.target = target
        self.configurations = configurations
        self.notes: list[str] = []
        conda_files = [context.absolute(configuration.conda_file) for configuration in configurations]
        self.dependency_files = list(dict.fromkeys(conda_files))
        self.is_docker = target.kind.runs_in_container
        self.needs = images.needs_of_runs(context, configurations) if self.is_docker else []
        self.given_image = image
        with_spark = (configuration for configuration in configurations if configuration.uses_spark)
        self.with_spark = [configuration for configuration in with_spark if context.uses_spark(configuration.script)]
        self.image = image or self._chosen_image()
        """The image of the target after the plan is applied."""

    def doubt(self) -> str:
        """Return why runs may not use the GPU after the plan is applied, as a clause; "" if they certainly can."""
        if not self.is_docker or not image_names.is_gpu_image(self.image):
            return "the files do not show whether its runs have CUDA"
        return self._lack_of_gpu_packages()

    def _lack_of_gpu_packages(self) -> str:
        """Return a clause if neither the packages nor the scripts of the runs name anything that can use a GPU."""
        scripts = {configuration.script for configuration in self.configurations}
        imported = [self.context.imported_modules(script) for script in scripts]
        modules = set().union(*(names for names in imported if names is not None))
        listed = [requirement for path in self.dependency_files for requirement in self._requirements(path)]
        wheels = (requirement.wheel for requirement in listed if not requirement.name)
        names = [requirement.name for requirement in listed] + [wheel.name for wheel in wheels if wheel is not None]
        has_listed = any(map(packages.can_use_gpu, names))
        python = python_of(listed)
        if python and python[:2] < _OLDEST_PYTHON and self.image in _WITH_PYTORCH and not has_listed:
            return f"python={show_version(python)} is installed without the PyTorch of the image"
        if None in imported or not imported or any(map(packages.can_use_gpu, modules)):
            return ""
        return "" if has_listed else "no package of its runs can use a GPU"

    def _requirements(self, path: str) -> list[Requirement]:
        tree = self.context.tree(path)
        return requirements_of(tree.root) if tree is not None else []

    def _chosen_image(self) -> str:
        if self.with_spark:
            # Another image would have no Spark and no Java.
            current = self.target.base_docker_image
            return current if image_names.is_gpu_image(current) else images.gpu_variant(current) or current
        # Conda packages and unpinned packages do not replace a GPU image: the CUDA version they need is uncertain.
        certain = [need for need in self.needs if need.is_pinned and need.manager == "pip"]
        current = self.target.base_docker_image
        # A private image may have CUDA even if its name does not say so.
        return current if images.is_kept(current, certain) else images.fitting_image(current, self.needs)

    def files(self) -> tuple[str, ...]:
        """Return the existing files of runs on the target."""
        dependencies = self.dependency_files if self.is_docker else []
        paths = [self.target.path, *(configuration.path for configuration in self.configurations), *dependencies]
        return tuple(path for path in paths if os.path.isfile(path))

    def images(self) -> tuple[ImageChoice, ...]:
        """Return the images that a Docker target can use, that of the plan first; () for other targets."""
        if not self.is_docker:
            return ()
        titles = {
            image_names.DEFAULT_GPU_IMAGE: "PyTorch and CUDA 13; needs NVIDIA driver 580 or newer",
            image_names.OLDER_DRIVER_GPU_IMAGE: "PyTorch and CUDA 12.6, for older drivers",
            image_names.DEFAULT_AMD_IMAGE: "PyTorch and ROCm, for AMD GPUs",
        }
        candidates = images.image_candidates(self.target.base_docker_image, self.needs)
        references = dict.fromkeys([self.image, *candidates, *titles])
        return tuple(ImageChoice(image, titles.get(image) or self._title(image)) for image in references)

    def _title(self, reference: str) -> str:
        if reference == self.target.base_docker_image:
            return "current image"
        cuda = images.cuda_of_image(reference)
        parts = [f"CUDA {show_version(cuda)}"] if cuda is not None else []
        parts += [f"fits {need.title}" for need in self.needs[:1] if images.fits(reference, need)]
        parts += [images.removed_reason(reference)]
        return "; ".join(part for part in parts if part) or "given image"

    def hunks(self) -> Iterator[Hunk]:
        """Yield the hunks of the plan, and add its notes to `notes`."""
        if self.is_docker:
            yield from self._target_hunks()
        elif self.target.kind.has_scheduler:
            yield from self._request_hunks()
        else:
            advice = "make sure that the framework installed there is a build with CUDA or, for AMD GPUs, ROCm"
            self.notes.append(f"{self.target.name} runs scripts with its own Python: {advice}.")
        for configuration in self.configurations:
            yield from self._configuration_hunks(configuration)
        if not self.configurations:
            self.notes.append(f"No run configuration uses {self.target.name} yet.")
        if self.is_docker:
            for path in self.dependency_files:
                yield from self._package_hunks(path)

    def _target_hunks(self) -> Iterator[Hunk]:
        path = self.target.path
        if self.with_spark and not image_names.is_gpu_image(self.image):
            names = ", ".join(configuration.name for configuration in self.with_spark)
            self.notes.append(
                f"{self.image} is kept, because {names} uses Spark. Only an image with Spark, Java and CUDA can use a "
                "GPU: choose it as `baseDockerImage`."
            )
        elif self.image == self.target.base_docker_image and image_names.is_gpu_image(self.image) is None:
            self.notes.append(f"Make sure that {self.image} has CUDA: the name of the image does not show it.")
        if self.image != self.target.base_docker_image:
            reason = "The packages need a CUDA version that the image does not have."
            if not image_names.is_gpu_image(self.target.base_docker_image):
                reason = "The image must have CUDA."
            elif self.given_image:
                reason = "You chose this image."
            yield _set_hunk(path, "baseDockerImage", self.image, reason)
        self._note_image()
        if not self.target.nvidia_docker:
            yield _set_hunk(path, "nvidiaDocker", True, "Otherwise the container gets no GPU.")

    def _request_hunks(self) -> Iterator[Hunk]:
        """Yield the hunk that requests a GPU from Slurm, unless the target or every run configuration sets `gpus`."""
        requests = [configuration.slurm for configuration in self.configurations]
        deciding = ["gpus" in slurm or requested_gpus(slurm) != 0 for slurm in requests]
        if requested_gpus(self.target.slurm) == 0 and not (deciding and all(deciding)):
            reason = "Otherwise Slurm gives the jobs no GPU."
            yield _set_hunk(self.target.path, f"{SECTION}.gpus", 1, reason)
        advice = "make sure that the framework installed there is a build with CUDA or, for AMD GPUs, ROCm"
        self.notes.append(f"Runs on {self.target.name} use {self.target.python_location}: {advice}.")

    def _note_image(self) -> None:
        removed = images.removed_reason(self.image)
        if removed:
            where = "only on machines or in registries that have a copy"
            self.notes.append(f"{removed}: {self.image} is available {where}.")
        newest = images.newest_gpu_of(self.image)
        if newest:
            cuda = show_version(images.cuda_of_image(self.image) or ())
            self.notes.append(f"CUDA {cuda} supports GPUs up to {newest}; newer GPUs need newer packages and images.")

    def _configuration_hunks(self, configuration: RunConfiguration) -> Iterator[Hunk]:
        path = configuration.path
        document = Document.open(path)
        suffix = f":{configuration.name}" if len(self.configurations) > 1 else ""
        if configuration.framework != "Python":
            if configuration in self.with_spark:
                self.notes.append(f"The Framework of {configuration.name} is not changed: its script uses Spark.")
            else:
                reason = "Otherwise runs start Spark, which cannot use the GPU."
                yield _set_hunk(path, configuration.key("Framework"), "Python", reason, suffix)
        if configuration.slurm.get("gpus") == 0 and requested_gpus(slurm_options(self.target, configuration)) == 0:
            yield _set_hunk(path, f"{OVERRIDE}.gpus", 1, "Otherwise Slurm gives the jobs no GPU.", suffix)
        if self.is_docker and not configuration.prepare_environment:
            reason = "Runs then build the environment with the GPU packages."
            yield _set_hunk(path, configuration.key("PrepareEnvironment"), True, reason, suffix)
        if self.is_docker and configuration.is_sdk_form:
            expected = {"environment.docker.gpuSupport": True, "environment.docker.baseImage": self.image}
            for key, value in expected.items():
                if document.get(key) not in (None, value):
                    yield _set_hunk(path, key, value, "The value must match the target.", suffix)

    def _package_hunks(self, path: str) -> Iterator[Hunk]:
        if not os.path.isfile(path):
            name = os.path.relpath(path, self.context.root)
            self.notes.append(
                f"{name} does not exist. If a run configuration names it, its runs fail; otherwise, they have only the "
                "packages of the image."
            )
            return
        document = Document.open(path)
        requirements = requirements_of(document.tree.root)
        edits = _package_edits(requirements, self.image)
        for number, requirement in enumerate(requirements, 1):
            if requirement.path in edits:
                edit, title, reason = edits[requirement.path]
                twins = sum(other.name == requirement.name for other in requirements)
                identity = requirement.name or requirement.text.strip()
                yield _hunk(f"{identity}:{number}" if twins > 1 else identity, path, title, reason, edit)
        others = [user.name for user in self.context.users_of(path) if user not in self.configurations]
        if edits and others:
            self.notes.append(f"{os.path.basename(path)} is also used by {', '.join(others)}.")


def _package_edits(requirements: list[Requirement], image: str) -> dict[Path, tuple[SetValue | Unset, str, str]]:
    """Return the edits that select Linux builds for the CUDA of the image, with title and reason, by package path."""
    python = python_of(requirements)
    edits: dict[Path, tuple[SetValue | Unset, str, str]] = {}
    for gpu_edit in gpu_edits(requirements, python):
        sentence = gpu_edit.why[:1].upper() + gpu_edit.why[1:] + "."
        edits[gpu_edit.requirement.path] = (gpu_edit.edit, gpu_edit.title, sentence)
    for requirement in requirements:
        edit, title, reason = edits.get(requirement.path, (SetValue(requirement.path, requirement.text), "", ""))
        if isinstance(edit, Unset):
            continue
        text, wheel = str(edit.value), requirement.wheel
        if wheel is not None and requirement.name == "cntk" and wheel.platform.startswith(("win", "macosx")):
            text = text.replace(f"-{wheel.platform}.whl", "-linux_x86_64.whl")
            title, reason = "use the Linux wheel", reason or "Containers run Linux."
        # Without a pin, the release is chosen that has the CUDA of the image.
        is_unpinned = requirement.manager == "pip" and not requirement.spec
        is_free = is_unpinned and images.is_old_tensorflow(requirement, python)
        line = images.newest_line(requirement, python, images.cuda_of_image(image)) if is_free else None
        if line:
            text = f"{text.strip()}=={show_version(line)}.*"
            title = f"write {text}"
            reason = f"{reason} This version fits the image; without a pin, pip would install another version.".strip()
        if text != requirement.text:
            edits[requirement.path] = (SetValue(requirement.path, text), title, reason)
    return edits


def _edits_by_file(hunks: Iterable[Hunk], without: Collection[str]) -> dict[str, list[Edit]]:
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
    # Remove items last, and from the end, so that the indices of the plan stay valid.
    removals = [edit for edit in edits if isinstance(edit, Unset)]
    for edit in edits:
        if not isinstance(edit, Unset):
            document.edit(edit)
    removals.sort(key=lambda removal: [step for step in removal.path if isinstance(step, int)], reverse=True)
    for removal in removals:
        document.edit(removal)
    return document
