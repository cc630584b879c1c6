"""Whether runs on a target would compute on its GPUs: the upper rungs of the ladder, from the driver to the framework.

Each rung asks one thing and names the command that mends it. What the framework tells comes from the run's own
environment, with the variables that a run has, and is proved by a matrix product; nothing is installed, fetched or
left behind. Where no GPU is asked for, nothing is broken: what is found is told, and the ladder ends.
"""

from __future__ import annotations

import shlex

from tui_workbench.errors import ConfigurationError, WorkbenchError
from tui_workbench.records import TYPE_CHECKING
from tui_workbench.targets.check import (
    BROKEN,
    COMPUTES,
    CONTAINER,
    DEVICES,
    FIT,
    FRAMEWORK,
    GPU,
    MEMORY,
    OK,
    RUNTIME,
    UNNEEDED,
    WARNING,
    Broken,
    Rung,
    answered,
)
from tui_workbench.targets.gpu import fit
from tui_workbench.targets.gpu.choice import VISIBLE
from tui_workbench.targets.gpu.frameworks import ALL
from tui_workbench.targets.gpu.places import NotThere, place_of, told_of
from tui_workbench.targets.gpus import Gpus, gpus_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tui_workbench.model import RunSpec
    from tui_workbench.targets.check_engine import EngineRungs
    from tui_workbench.targets.gpu.frameworks import Framework
    from tui_workbench.targets.gpu.places import Place
    from tui_workbench.targets.host import Host

SMALL_SHM_BYTES = 1 << 30
"""Below this, data loaders with some workers end with a bus error."""

_HIDDEN = frozenset(("", "-1", "none", "void", "NoDevFiles"))
_INSTALL_DRIVER = "sudo ubuntu-drivers install --gpgpu"


class Preflight:
    """The rungs of one run configuration on its target, to be asked in the order of `climb`.

    `engine` answers for the engine of a target with containers. With `which` ONE the product is computed on the first
    GPU that does it, instead of on each.
    """

    def __init__(self, spec: RunSpec, host: Host, engine: EngineRungs | None = None, which: str = ALL) -> None:
        self._spec = spec
        self._target = spec.target
        self._host = host
        self._engine = engine
        self._which = which
        self._there = not host.is_local
        self._gpus = Gpus()
        self._place: Place | None = None
        self._best: Framework | None = None

    def climb(self, *, is_wanted: bool = True, is_quick: bool = False) -> Iterator[Rung]:
        """The rungs one by one, up to the first broken one.

        A quick one leaves out what the framework's own answer proves. Raises TargetUnreachable.
        """
        answers: dict[str, Callable[[], Rung]] = {
            GPU: self._driver, DEVICES: self._devices, RUNTIME: self._runtime, CONTAINER: self._container,
            FRAMEWORK: self._framework, FIT: self._fit, COMPUTES: self._computes, MEMORY: self._memory,
        }  # fmt: skip
        left_out = {RUNTIME, CONTAINER} if self._engine is None or is_quick else set()
        left_out |= {MEMORY} if is_quick else set()
        for name, answer in answers.items():
            if name in left_out or (name in (FIT, COMPUTES) and self._best is None):
                continue
            rung = answered(name, answer, self._host.label)
            if rung.state == BROKEN and not is_wanted:
                yield self._unneeded(rung)
                return
            yield rung
            if rung.state == BROKEN:
                return

    def _unneeded(self, rung: Rung) -> Rung:
        if rung.name != GPU:
            return rung._replace(state=WARNING, error=None)
        if self._gpus.found:
            # It works, and is kept from the runs.
            return Rung(GPU, OK, f"{self._gpus.text}; {rung.message}", rung.remedy, rung.command)
        return Rung(GPU, UNNEEDED, self._gpus.complaint or "no GPU here, and none is asked for")

    # -- the machine -------------------------------------------------------------------------------------------------

    def _driver(self) -> Rung:
        self._gpus = gpus_of(self._host, with_cuda=self._which == ALL)
        self._refuse_withheld()
        if self._gpus.found:
            serves = f", which serves CUDA {self._gpus.cuda}" if self._gpus.cuda else ""
            self._refuse_old_for_image()
            return Rung(GPU, OK, f"driver {self._gpus.driver}{serves}")
        said = self._gpus.complaint
        if said and "No devices" not in said and "lists no GPU" not in said:
            error = WorkbenchError(
                f"the NVIDIA driver does not work: {said}",
                remedy="After an update of the driver the machine must be restarted; else install the driver anew.",
            )
            raise Broken(error, "sudo reboot", there=self._there)
        if said:
            error = WorkbenchError(
                f"the NVIDIA driver finds no GPU: {said}",
                remedy="A GPU that fell off the bus comes back with a restart; in a virtual machine or a container it "
                "must be passed through.",
            )
            raise Broken(error, "lspci | grep -i nvidia", there=self._there)
        file = shlex.quote(f"{self._target.name}.compute")
        error = WorkbenchError(
            "there is no NVIDIA driver (no nvidia-smi)" + (", and nvidiaDocker is true" if self._nvidia_docker else ""),
            remedy="Install NVIDIA's driver (as here on Ubuntu) and restart the machine"
            + (
                f"; or, where there is no GPU: workbench-tui config set {file} nvidiaDocker false"
                if self._nvidia_docker
                else "."
            ),
        )
        raise Broken(error, _INSTALL_DRIVER, there=self._there)

    @property
    def _nvidia_docker(self) -> bool:
        return self._engine is not None and self._target.nvidia_docker

    def _refuse_withheld(self) -> None:
        """Raise Broken where files alone keep a run from every GPU."""
        target, configuration = self._target, self._spec.run_configuration
        name = shlex.quote(target.name)
        if target.gpus == "0":
            error = ConfigurationError("gpus is 0: its runs get no GPU", remedy="Give them some.", file=target.path)
            raise Broken(error, f"workbench-tui config set {name}.compute gpus all")
        if self._engine is not None and not target.gives_gpus:
            error = ConfigurationError(
                "not used, because nvidiaDocker is not true", remedy="Give it to the runs.", file=target.path
            )
            raise Broken(error, f"workbench-tui config gpu-ready {name}")
        visible = configuration.environment_variables.get(VISIBLE)
        if visible is not None and visible.partition(",")[0].strip() in _HIDDEN:
            error = ConfigurationError(
                f"{VISIBLE} is {visible!r} in {configuration.name}.runconfig, which hides every GPU",
                remedy="Take it out, or name GPUs.",
                file=configuration.path,
            )
            file = shlex.quote(f"{configuration.name}.runconfig")
            raise Broken(error, f"workbench-tui config unset {file} EnvironmentVariables.{VISIBLE}")

    def _refuse_old_for_image(self) -> None:
        from tui_workbench.config.images import DEFAULT_GPU_IMAGE, OLDER_DRIVER_GPU_IMAGE
        from tui_workbench.targets.gpus import OLDEST_DRIVER_OF_DEFAULT_IMAGE

        number = self._gpus.driver.partition(".")[0]
        is_old = number.isdigit() and int(number) < OLDEST_DRIVER_OF_DEFAULT_IMAGE
        if is_old and self._engine is not None and self._target.base_docker_image == DEFAULT_GPU_IMAGE:
            error = WorkbenchError(
                f"{self._gpus.text}: too old for CUDA 13, which {DEFAULT_GPU_IMAGE} holds",
                remedy="Take the image for older drivers, or install a driver of at least "
                f"{OLDEST_DRIVER_OF_DEFAULT_IMAGE}.",
            )
            file = shlex.quote(f"{self._target.name}.compute")
            raise Broken(error, f"workbench-tui config set {file} baseDockerImage {OLDER_DRIVER_GPU_IMAGE}")

    def _devices(self) -> Rung:
        if any(gpu.sliced for gpu in self._gpus.found):
            return Rung(DEVICES, OK, f"{self._gpus.devices}; MIG is on: a run gets one slice, whose use nobody can see")
        return Rung(DEVICES, OK, self._gpus.devices)

    # -- containers --------------------------------------------------------------------------------------------------

    def _runtime(self) -> Rung:
        assert self._engine is not None
        return self._engine.runtime()

    def _container(self) -> Rung:
        assert self._engine is not None
        return self._engine.gpu_container()

    # -- the framework -----------------------------------------------------------------------------------------------

    def _framework(self) -> Rung:
        try:
            self._place = place_of(self._spec, self._host, self._engine.connected if self._engine else None)
        except NotThere as absent:
            return Rung(FRAMEWORK, WARNING, f"not known yet: {absent.message}", absent.remedy, absent.command)
        told = self._told(self._place)
        if not told:
            text = f"{self._place.name} has none that is known here (PyTorch, TensorFlow, JAX, CNTK)"
            return Rung(FRAMEWORK, WARNING, text, "Whether what it has computes on a GPU, its runs will show.")
        concerned = list(told)
        if self._spec.script:
            from tui_workbench.targets.gpu.imports import imported_by

            used = imported_by(self._spec.project_root, self._spec.script)
            concerned = [each for each in told if each.name in used]
            if not concerned:
                there = ", ".join(each.title for each in told)
                return Rung(FRAMEWORK, WARNING, f"the script names none that {self._place.name} has ({there})")
        # A build that computes speaks for the environment.
        self._best = best = max(concerned, key=lambda each: (each.computed, bool(each.cuda)))
        if not best.version:
            raise self._broken_framework(f"{best.name} cannot be loaded: {best.problem}", "Install it anew.")
        if not best.cuda and not best.devices:
            newest = fit.newest_for(self._gpus.driver)
            raise self._broken_framework(
                f"{best.title} is a CPU build: it trains on the CPU",
                f"Install one that was built for CUDA{f' {newest} or older' if newest else ''}.",
            )
        others = [f"{each.title}{'' if each.cuda or each.devices else ' (a CPU build)'}" for each in told]
        return Rung(FRAMEWORK, OK, f"{', '.join(others)} in {self._place.name}")

    def _told(self, place: Place) -> tuple[Framework, ...]:
        from tui_workbench.targets.host import ConnectionLost

        try:
            told = told_of(place, self._target, self._gpus, self._which)
        except ConnectionLost as error:
            # Out of reach, which this question finds as well; or nothing came from what was asked there.
            self._host.run(["true"])
            raise self._broken_framework(f"{place.name} does not answer: {error.message}", "Try it there.") from error
        except WorkbenchError as error:
            if self._engine is not None:
                raise self._engine.refusal(error) from error
            raise
        if told is None:
            silent = WorkbenchError(f"{place.name} does not answer as a Python does", remedy="Is it one?")
            raise Broken(silent, f"{shlex.quote(place.name)} -c 'import sys'", there=self._there)
        return told.frameworks

    def _broken_framework(self, message: str, remedy: str) -> Broken:
        """What mends a framework, by where it lies."""
        assert self._place is not None
        error = ConfigurationError(message, remedy=remedy, file=self._spec.run_configuration.path)
        name = shlex.quote(self._target.name)
        if self._engine is not None:
            from tui_workbench.config.images import DEFAULT_GPU_IMAGE, is_gpu_image

            # It leaves an image alone that may hold CUDA, and this one does not hold what trains with it.
            is_kept = is_gpu_image(self._target.base_docker_image) is not False
            other = f" --image {DEFAULT_GPU_IMAGE}" if is_kept else ""
            return Broken(error, f"workbench-tui config gpu-ready {name}{other}")
        if self._target.type == "local" and not self._target.user_managed_environment:
            return Broken(error, "workbench-tui config check")
        package = "tensorflow[and-cuda]" if "TensorFlow" in message else "jax[cuda12]" if "JAX" in message else "torch"
        command = f"{shlex.quote(self._place.name)} -m pip install --force-reinstall {shlex.quote(package)}"
        return Broken(error, command, there=self._there)

    def _fit(self) -> Rung:
        best, driver = self._best, self._gpus.driver
        assert best is not None
        oldest = fit.driver_for(best.cuda)
        if not best.computed and not fit.serves(driver, best.cuda):
            error = WorkbenchError(
                f"{best.title} needs a driver of at least {oldest}, and {driver} is there ({fit.SOURCE})",
                remedy="Install a newer driver, or a build for an older CUDA.",
            )
            raise Broken(error, _INSTALL_DRIVER, there=self._there)
        capabilities = best.capabilities or tuple(gpu.capability for gpu in self._gpus.found)
        unfit = [each for each in capabilities if not fit.computes_on(best.architectures, each)]
        if unfit and not best.computed:
            raise self._broken_framework(
                f"{best.title} has no code for a GPU of compute capability {unfit[0]} "
                f"(it has {' '.join(best.architectures)})",
                "Install a build that has: a newer one for a new GPU, an older one for an old GPU.",
            )
        if not oldest:
            return Rung(FIT, OK, f"{best.title}: nothing is known against driver {driver}")
        return Rung(FIT, OK, f"CUDA {best.cuda} needs a driver of at least {oldest}: {driver} is there")

    def _computes(self) -> Rung:
        best = self._best
        assert best is not None
        count = len(best.devices)
        if not count:
            said = f": {best.problem}" if best.problem else ""
            raise self._unseen(f"{best.name} sees no GPU, though the driver has {len(self._gpus.found)}{said}")
        if best.computed and (self._which != ALL or best.computed == count):
            each = "" if self._which != ALL else " on each" if count > 1 else " on it"
            return Rung(COMPUTES, OK, f"{best.name} sees {_counted(count)}; a matrix product{each} was right")
        text = f"{best.name} sees {_counted(count)} and computes on {best.computed}: {best.problem}"
        if best.is_busy or best.computed:
            return Rung(COMPUTES, WARNING, text, "Somebody else may hold its memory.", "nvidia-smi", self._there)
        raise Broken(
            WorkbenchError(text, remedy="The framework's own words say why; a restart mends a driver that stumbled."),
            "nvidia-smi",
            there=self._there,
        )

    def _unseen(self, message: str) -> Broken:
        remedy = "Is CUDA_VISIBLE_DEVICES set on the way there, or a library missing that the framework was built for?"
        assert self._place is not None
        if self._best is not None and self._best.name == "PyTorch" and self._engine is None:
            look = f"{shlex.quote(self._place.name)} -c 'import torch; torch.zeros(1).cuda()'"
            return Broken(WorkbenchError(message, remedy=remedy), look, there=self._there)
        return Broken(WorkbenchError(message, remedy=remedy), "nvidia-smi", there=self._there)

    # -- shared memory -----------------------------------------------------------------------------------------------

    def _memory(self) -> Rung:
        if self._engine is not None:
            from tui_workbench.targets.container import SHM_BYTES

            return Rung(MEMORY, OK, f"containers get a /dev/shm of up to {SHM_BYTES >> 30} GiB")
        words = self._host.run(["sh", "-c", "df -Pk /dev/shm 2>/dev/null | tail -n 1"]).text.split()
        if len(words) < 4 or not words[1].isdigit():
            return Rung(MEMORY, WARNING, "there is no /dev/shm", "Data loaders with workers need one.")
        size = int(words[1]) << 10
        if size >= SMALL_SHM_BYTES:
            return Rung(MEMORY, OK, f"/dev/shm has {size / (1 << 30):.1f} GiB")
        return Rung(
            MEMORY, WARNING, f"/dev/shm has {size >> 20} MiB: data loaders with workers may end with a bus error",
            "Make it larger; a container is started with --shm-size=8g for that.",
            "sudo mount -o remount,size=8G /dev/shm", self._there,
        )  # fmt: skip


def _counted(count: int) -> str:
    return "1 GPU" if count == 1 else f"{count} GPUs"
