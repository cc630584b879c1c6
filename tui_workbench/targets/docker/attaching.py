"""How a Docker engine is attached, on this machine or over SSH: with an image that fits the GPUs of the machine."""

from __future__ import annotations

import os
from typing import Any

from tui_workbench.config.checks.image_names import (
    DEFAULT_AMD_IMAGE,
    DEFAULT_GPU_IMAGE,
    OLDER_DRIVER_GPU_IMAGE,
    require_image,
)
from tui_workbench.core.directories import CONFIG_DIRECTORY
from tui_workbench.targets.base.attaching import NO, YES, Address, AttachField, Attaching, Values
from tui_workbench.targets.base.run_environment import DEFAULT_SHARE
from tui_workbench.targets.gpu.gpus import OLDEST_DRIVER_OF_DEFAULT_IMAGE, Gpus, gpus_of
from tui_workbench.targets.gpu.vendors import AMD
from tui_workbench.targets.hosts.host import Host

CPU_IMAGE = "python:3.12-slim"
"""The image for a machine without a GPU."""

_DEPENDENCIES = {
    "CondaDependenciesFile": f"{CONFIG_DIRECTORY}/conda_dependencies.yml",
    "SparkDependenciesFile": f"{CONFIG_DIRECTORY}/spark_dependencies.yml",
}
_GPU = AttachField(
    "gpu",
    "Use the GPU",
    "--gpu",
    "set nvidiaDocker: true (the default, unless the machine has no GPU)",
    choices={"": "if available", YES: "yes", NO: "no"},
    help_of_no="set nvidiaDocker: false",
)
_IMAGE = AttachField(
    "image",
    "Image",
    "--image",
    "the base image of containers (default: depends on the GPU)",
    metavar="IMAGE",
    hint=f"default: {CPU_IMAGE}, or a CUDA image for a GPU",
)


class EngineAttaching(Attaching):
    """An engine on a machine over SSH."""

    label = "Docker over SSH"
    explanation = "Docker over SSH"
    fields = (_GPU, _IMAGE)
    options = (_IMAGE, _GPU)

    def check(self, values: Values) -> None:
        if values.get("image"):
            require_image(values["image"])

    def complete(self, values: Values, host: Host) -> Values:
        """Without a choice, use the GPUs that the machine has, with an image for their driver."""
        if values.get("gpu"):
            return values
        gpus = gpus_of(host)
        found = {"gpu": YES if gpus.listed else NO, "image": values.get("image") or _image_for(gpus)}
        return {**values, **found}

    def compute(self, values: Values) -> dict[str, Any]:
        """A machine that was not contacted is assumed to have a GPU."""
        gpu = values.get("gpu") != NO
        return {
            "baseDockerImage": values.get("image") or (DEFAULT_GPU_IMAGE if gpu else CPU_IMAGE),
            "nvidiaDocker": gpu,
            "sharedVolumes": True,
            "nativeSharedDirectory": DEFAULT_SHARE,
        }

    def run_configuration(self, project_root: str) -> dict[str, Any]:
        existing = {
            key: file for key, file in _DEPENDENCIES.items() if os.path.exists(os.path.join(project_root, file))
        }
        return {"PrepareEnvironment": True, **existing}


class LocalEngineAttaching(EngineAttaching):
    """The engine of this machine."""

    label = "Docker on this machine"
    explanation = ""
    address = Address.NONE
    service = "the Docker engine of this machine"


def _image_for(gpus: Gpus) -> str:
    if not gpus.listed:
        return CPU_IMAGE
    if gpus.vendor is AMD:
        return DEFAULT_AMD_IMAGE
    version = gpus.driver.partition(".")[0]
    is_old = version.isdigit() and int(version) < OLDEST_DRIVER_OF_DEFAULT_IMAGE
    return OLDER_DRIVER_GPU_IMAGE if is_old else DEFAULT_GPU_IMAGE
