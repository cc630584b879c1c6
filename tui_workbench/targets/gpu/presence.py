"""Whether this machine may have a GPU, and whether a run asks for one, in microseconds: asked at every run's start."""

from __future__ import annotations

import os

from tui_workbench.records import TYPE_CHECKING

if TYPE_CHECKING:
    from tui_workbench.model import ComputeTarget, RunConfiguration

_DRIVER = ("/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/dxg")


def may_have_gpu_here() -> bool:
    """True where there is a driver, or its tool on the PATH. Whether it works is another question."""
    if any(map(os.path.exists, _DRIVER)):
        return True
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return any(os.access(os.path.join(folder, "nvidia-smi"), os.X_OK) for folder in folders)


def asked_for(target: ComputeTarget, configuration: RunConfiguration) -> str:
    """What in its files asks for a GPU for a run, as in `gpus is all`; "" when nothing does.

    An image with CUDA alone asks for none: it runs on a CPU as well, and `config check` mentions it.
    """
    if configuration.require_gpu:
        return "RequireGpu is true"
    if target.gpus:
        return f"gpus is {target.gpus}" if target.gpus != "0" else ""
    if target.type.endswith("docker") and target.gives_gpus:
        return "nvidiaDocker is true"
    return "ProcessesPerNode is gpus" if configuration.processes_per_node == "gpus" else ""
