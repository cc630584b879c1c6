"""Check whether runs on a target would compute on its GPUs, from the driver to the framework.

Each check asks one thing and names the command that fixes it. What the framework tells comes from the run's own
environment, with the variables that a run has, and is proved by a matrix product; nothing is installed, fetched or
left behind. Where no GPU is asked for, nothing is broken: what is found is told, and the checks end.

Which of them a script imports, itself or through modules of its project, is read from its text; nothing of it is run.
What a module that is installed imports in turn is not looked at, but for the libraries that stand on one framework.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tui_workbench.config.checks.image_names import DEFAULT_GPU_IMAGE, OLDER_DRIVER_GPU_IMAGE, is_gpu_image
from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.model import RunSpec
from tui_workbench.targets.base.protocol import Target
from tui_workbench.targets.checks.result import (
    BROKEN,
    COMPATIBILITY,
    COMPUTES,
    CONTAINER,
    DEVICES,
    FRAMEWORK,
    GPU,
    MEMORY,
    OK,
    RUNTIME,
    UNNEEDED,
    WARNING,
    CheckFailed,
    CheckResult,
    run_check,
)
from tui_workbench.targets.gpu import cuda_compat
from tui_workbench.targets.gpu.choice import VISIBLE
from tui_workbench.targets.gpu.framework_location import EnvironmentMissing, FrameworkLocation, framework_report
from tui_workbench.targets.gpu.frameworks import ALL, NAMES, Framework
from tui_workbench.targets.gpu.gpus import OLDEST_DRIVER_OF_DEFAULT_IMAGE, Gpus, gpus_of
from tui_workbench.targets.hosts.host import ConnectionLost

if TYPE_CHECKING:
    from tui_workbench.targets.checks.check_engine import EngineChecks

SMALL_SHM_BYTES = 1 << 30
"""Below this, data loaders with some workers end with a bus error."""

_HIDDEN = frozenset(("", "-1", "none", "void", "NoDevFiles"))
_INSTALL_DRIVER = "sudo ubuntu-drivers install --gpgpu"


_NO_FRAMEWORK = Framework("", "", "", (), (), (), 0, "")


class Preflight:
    """The GPU checks of one run configuration on its target.

    `engine` answers for the engine of a target with containers. With `which` ONE the product is computed on the first
    GPU that does it, instead of on each.
    """

    def __init__(self, target: Target, spec: RunSpec, engine: EngineChecks | None = None, which: str = ALL) -> None:
        self._implementation = target
        self._spec = spec
        self._target = spec.target
        self._host = target.host
        self._engine = engine
        self._which = which
        self._gpus = Gpus()
        self._python = ""  # the interpreter, or the image, that frameworks lie in
        self._best = _NO_FRAMEWORK

    def run(self, *, is_wanted: bool = True, is_quick: bool = False) -> Iterator[CheckResult]:
        """Yield the results one by one, up to the first broken one.

        A quick run leaves out what the framework's own answer proves. Raises TargetUnreachable.
        """
        engine = self._engine
        answers: dict[str, Callable[[], CheckResult]] = {
            GPU: self._driver, DEVICES: self._devices,
            **({} if engine is None or is_quick else {RUNTIME: engine.runtime, CONTAINER: engine.gpu_container}),
            FRAMEWORK: self._framework, COMPATIBILITY: self._fit, COMPUTES: self._computes, MEMORY: self._memory,
        }  # fmt: skip
        for name, answer in answers.items():
            if (name == MEMORY and is_quick) or (name in (COMPATIBILITY, COMPUTES) and not self._best.name):
                continue
            result = run_check(name, answer, self._host)
            if result.state == BROKEN and not is_wanted:
                yield self._unneeded(result)
                return
            yield result
            if result.state == BROKEN:
                return

    def _unneeded(self, result: CheckResult) -> CheckResult:
        if result.name != GPU:
            return result._replace(state=WARNING, error=None)
        if self._gpus.found:
            # It works, and is kept from the runs.
            return CheckResult(GPU, OK, f"{self._gpus.text}; {result.message}", result.remedy, result.command)
        return CheckResult(GPU, UNNEEDED, self._gpus.complaint or "no GPU here, and none is asked for")

    # -- the machine -------------------------------------------------------------------------------------------------

    def _driver(self) -> CheckResult:
        self._gpus = gpus_of(self._host, with_cuda=self._which == ALL)
        self._refuse_withheld()
        if self._gpus.found:
            serves = f", which serves CUDA {self._gpus.cuda}" if self._gpus.cuda else ""
            self._refuse_old_for_image()
            return CheckResult(GPU, OK, f"driver {self._gpus.driver}{serves}")
        said = self._gpus.complaint
        if said and "No devices" not in said and "lists no GPU" not in said:
            raise CheckFailed(
                f"the NVIDIA driver does not work: {said}",
                "After an update of the driver the machine must be restarted; else install the driver anew.",
                "sudo reboot",
            )
        if said:
            raise CheckFailed(
                f"the NVIDIA driver finds no GPU: {said}",
                "A GPU that fell off the bus comes back with a restart; in a virtual machine or a container it "
                "must be passed through.",
                "lspci | grep -i nvidia",
            )
        other = ""
        if self._engine is not None and self._target.nvidia_docker:
            file = shlex.quote(f"{self._target.name}.compute")
            other = f"\nWhere there is no GPU: workbench-tui config set {file} nvidiaDocker false"
        raise CheckFailed(
            f"there is no NVIDIA driver (no nvidia-smi){', and nvidiaDocker is true' if other else ''}",
            f"Install NVIDIA's driver (as here on Ubuntu) and restart the machine.{other}",
            _INSTALL_DRIVER,
        )

    def _refuse_withheld(self) -> None:
        target, configuration = self._target, self._spec.run_configuration
        name = shlex.quote(target.name)
        if target.gpus == "0":
            raise CheckFailed(
                "gpus is 0: its runs get no GPU",
                "Give them some.",
                f"workbench-tui config set {name}.compute gpus all",
                file=target.path,
            )
        if self._engine is not None and not target.gives_gpus:
            raise CheckFailed(
                "not used, because nvidiaDocker is not true",
                "Give it to the runs.",
                f"workbench-tui config gpu-ready {name}",
                file=target.path,
            )
        visible = configuration.environment_variables.get(VISIBLE)
        if visible is not None and visible.partition(",")[0].strip() in _HIDDEN:
            file = shlex.quote(f"{configuration.name}.runconfig")
            raise CheckFailed(
                f"{VISIBLE} is {visible!r} in {configuration.name}.runconfig, which hides every GPU",
                "Take it out, or name GPUs.",
                f"workbench-tui config unset {file} EnvironmentVariables.{VISIBLE}",
                file=configuration.path,
            )

    def _refuse_old_for_image(self) -> None:
        number = self._gpus.driver.partition(".")[0]
        is_old = number.isdigit() and int(number) < OLDEST_DRIVER_OF_DEFAULT_IMAGE
        if is_old and self._engine is not None and self._target.base_docker_image == DEFAULT_GPU_IMAGE:
            file = shlex.quote(f"{self._target.name}.compute")
            raise CheckFailed(
                f"{self._gpus.text}: too old for CUDA 13, which {DEFAULT_GPU_IMAGE} holds",
                f"Take the image for older drivers, or install a driver of at least {OLDEST_DRIVER_OF_DEFAULT_IMAGE}.",
                f"workbench-tui config set {file} baseDockerImage {OLDER_DRIVER_GPU_IMAGE}",
            )

    def _devices(self) -> CheckResult:
        if any(gpu.sliced for gpu in self._gpus.found):
            return CheckResult(
                DEVICES, OK, f"{self._gpus.devices}; MIG is on: a run gets one slice, whose use nobody can see"
            )
        return CheckResult(DEVICES, OK, self._gpus.devices)

    # -- the framework -----------------------------------------------------------------------------------------------

    def _framework(self) -> CheckResult:
        try:
            place = self._implementation.framework_location(self._spec)
        except EnvironmentMissing as absent:
            return CheckResult(FRAMEWORK, WARNING, f"not known yet: {absent.message}", absent.remedy, absent.command)
        self._python = place.name
        told = self._told(place)
        if not told:
            text = f"{self._python} has none that is known here (PyTorch, TensorFlow, JAX, CNTK)"
            return CheckResult(FRAMEWORK, WARNING, text, "Whether what it has computes on a GPU, its runs will show.")
        concerned = list(told)
        if self._spec.script:
            used = imported_frameworks(self._spec.project_root, self._spec.script)
            concerned = [each for each in told if each.name in used]
            if not concerned:
                there = ", ".join(each.title for each in told)
                return CheckResult(FRAMEWORK, WARNING, f"the script names none that {self._python} has ({there})")
        # A build that computes speaks for the environment.
        self._best = best = max(concerned, key=lambda each: (each.computed, bool(each.cuda)))
        if not best.version:
            raise self._broken_framework(f"{best.name} cannot be loaded: {best.problem}", "Install it anew.")
        if not best.cuda and not best.devices:
            newest = cuda_compat.newest_for(self._gpus.driver)
            raise self._broken_framework(
                f"{best.title} is a CPU build: it trains on the CPU",
                f"Install one that was built for CUDA{f' {newest} or older' if newest else ''}.",
            )
        others = [f"{each.title}{'' if each.cuda or each.devices else ' (a CPU build)'}" for each in told]
        return CheckResult(FRAMEWORK, OK, f"{', '.join(others)} in {self._python}")

    def _told(self, place: FrameworkLocation) -> tuple[Framework, ...]:
        try:
            told = framework_report(place, self._target, self._gpus, self._which)
        except ConnectionLost as error:
            # Out of reach, which this question finds as well; or nothing came from what was asked there.
            self._host.run(["true"])
            raise self._broken_framework(f"{place.name} does not answer: {error.message}", "Try it there.") from error
        except WorkbenchError as error:
            if self._engine is not None:
                raise self._engine.refusal(error) from error
            raise
        if told is None:
            look = f"{shlex.quote(place.name)} -c 'import sys'"
            raise CheckFailed(f"{place.name} does not answer as a Python does", "Is it one?", look)
        return told.frameworks

    def _broken_framework(self, message: str, remedy: str) -> CheckFailed:
        """What mends a framework, by where it lies."""
        name, file = shlex.quote(self._target.name), self._spec.run_configuration.path
        if self._engine is not None:
            # It leaves an image alone that may hold CUDA, and this one does not hold what trains with it.
            is_kept = is_gpu_image(self._target.base_docker_image) is not False
            other = f" --image {DEFAULT_GPU_IMAGE}" if is_kept else ""
            return CheckFailed(message, remedy, f"workbench-tui config gpu-ready {name}{other}", file=file)
        if self._target.builds_environment:
            return CheckFailed(message, remedy, "workbench-tui config check", file=file)
        package = "tensorflow[and-cuda]" if "TensorFlow" in message else "jax[cuda12]" if "JAX" in message else "torch"
        command = f"{shlex.quote(self._python)} -m pip install --force-reinstall {shlex.quote(package)}"
        return CheckFailed(message, remedy, command, file=file)

    def _fit(self) -> CheckResult:
        best, driver = self._best, self._gpus.driver
        oldest = cuda_compat.driver_for(best.cuda)
        if not best.computed and not cuda_compat.serves(driver, best.cuda):
            raise CheckFailed(
                f"{best.title} needs a driver of at least {oldest}, and {driver} is there ({cuda_compat.SOURCE})",
                "Install a newer driver, or a build for an older CUDA.",
                _INSTALL_DRIVER,
            )
        capabilities = best.capabilities or tuple(gpu.capability for gpu in self._gpus.found)
        unfit = [each for each in capabilities if not cuda_compat.computes_on(best.architectures, each)]
        if unfit and not best.computed:
            raise self._broken_framework(
                f"{best.title} has no code for a GPU of compute capability {unfit[0]} "
                f"(it has {' '.join(best.architectures)})",
                "Install a build that has: a newer one for a new GPU, an older one for an old GPU.",
            )
        if not oldest:
            return CheckResult(COMPATIBILITY, OK, f"{best.title}: nothing is known against driver {driver}")
        return CheckResult(
            COMPATIBILITY, OK, f"CUDA {best.cuda} needs a driver of at least {oldest}: {driver} is there"
        )

    def _computes(self) -> CheckResult:
        best = self._best
        count = len(best.devices)
        if not count:
            said = f": {best.problem}" if best.problem else ""
            raise self._unseen(f"{best.name} sees no GPU, though the driver has {len(self._gpus.found)}{said}")
        if best.computed and (self._which != ALL or best.computed == count):
            each = "" if self._which != ALL else " on each" if count > 1 else " on it"
            return CheckResult(COMPUTES, OK, f"{best.name} sees {_counted(count)}; a matrix product{each} was right")
        text = f"{best.name} sees {_counted(count)} and computes on {best.computed}: {best.problem}"
        if best.is_busy or best.computed:
            return CheckResult(COMPUTES, WARNING, text, "Somebody else may hold its memory.", "nvidia-smi")
        raise CheckFailed(
            text,
            "The framework's own words say why; a restart mends a driver that stumbled.",
            "nvidia-smi",
        )

    def _unseen(self, message: str) -> CheckFailed:
        remedy = "Is CUDA_VISIBLE_DEVICES set on the way there, or a library missing that the framework was built for?"
        if self._best.name == "PyTorch" and self._engine is None:
            look = f"{shlex.quote(self._python)} -c 'import torch; torch.zeros(1).cuda()'"
            return CheckFailed(message, remedy, look)
        return CheckFailed(message, remedy, "nvidia-smi")

    # -- shared memory -----------------------------------------------------------------------------------------------

    def _memory(self) -> CheckResult:
        if self._engine is not None:
            size = self._engine.shared_memory_bytes
            return CheckResult(MEMORY, OK, f"containers get a /dev/shm of up to {size >> 30} GiB")
        words = self._host.run(["sh", "-c", "df -Pk /dev/shm 2>/dev/null | tail -n 1"]).text.split()
        if len(words) < 4 or not words[1].isdigit():
            return CheckResult(MEMORY, WARNING, "there is no /dev/shm", "Data loaders with workers need one.")
        size = int(words[1]) << 10
        if size >= SMALL_SHM_BYTES:
            return CheckResult(MEMORY, OK, f"/dev/shm has {size / (1 << 30):.1f} GiB")
        return CheckResult(
            MEMORY, WARNING, f"/dev/shm has {size >> 20} MiB: data loaders with workers may end with a bus error",
            "Make it larger; a container is started with --shm-size=8g for that.",
            "sudo mount -o remount,size=8G /dev/shm",
        )  # fmt: skip


def _counted(count: int) -> str:
    return "1 GPU" if count == 1 else f"{count} GPUs"


_STANDING_ON = {
    "torch": ("accelerate", "fastai", "lightning", "pytorch_lightning", "timm", "torchaudio", "torchvision",
              "transformers", "ultralytics"),
    "jax": ("flax", "haiku", "optax"),
}  # fmt: skip
_FRAMEWORK_OF = {
    **NAMES, **{library: NAMES[name] for name, libraries in _STANDING_ON.items() for library in libraries}
}  # fmt: skip

_MOST_FILES, _LARGEST = 200, 1 << 20
_IMPORT = re.compile(r"^[ \t]*(?:import|from)[ \t]+([.\w]+)", re.MULTILINE)


def imported_frameworks(root: str, script: str) -> frozenset[str]:
    """The frameworks, by the names that people know, that the script at `script` in the folder `root` imports."""
    found: set[str] = set()
    pending, seen = [os.path.join(root, script)], set[str]()
    while pending and len(seen) < _MOST_FILES:
        path = pending.pop()
        if path in seen:
            continue
        seen.add(path)
        for name in _names(_text(path)):
            framework = _FRAMEWORK_OF.get(name.partition(".")[0])
            if framework is not None:
                found.add(framework)
            else:
                pending += _own_modules(name, path, (os.path.dirname(os.path.join(root, script)), root))
    return frozenset(found)


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(_LARGEST)
    except OSError:
        return ""


def _names(text: str) -> Iterator[str]:
    """What is imported, with the dots that a relative import begins with; of `from a import b` also `a.b`."""
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError):
        # Of another version of Python.
        yield from _IMPORT.findall(text)
        return
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield module
            yield from (f"{module}{'' if module.endswith('.') else '.'}{alias.name}" for alias in node.names)


def _own_modules(name: str, importer: str, folders: tuple[str, ...]) -> Iterator[str]:
    """The files of the project that an import of this name runs."""
    relative = name.lstrip(".")
    level = len(name) - len(relative)
    if level:
        folder = importer
        for _ in range(level):
            folder = os.path.dirname(folder)
        folders = (folder,)
    parts = [part for part in relative.split(".") if part]
    for folder in folders:
        for count in range(1, len(parts) + 1):
            base = os.path.join(folder, *parts[:count])
            yield from (path for path in (f"{base}.py", os.path.join(base, "__init__.py")) if os.path.isfile(path))
