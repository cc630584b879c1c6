"""Build the srun command line that starts the step of a run in a container.

The step, its output and its exit code are files below `runRoot`, which must have the same path in the container. An
option of apptainer or pyxis mounts this folder; an OCI bundle must mount it in its configuration. The entrypoint of the
image is not executed.

Sources: README of pyxis, "Usage"; enroot's import(1); `apptainer exec --help`; containers.html of Slurm.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from tui_workbench.core.errors import ConfigurationError, WorkbenchError
from tui_workbench.core.model import ComputeTarget
from tui_workbench.projects.project import line_of_key
from tui_workbench.targets.slurm.cluster import LoginHost

# $1: an option of srun.
_HAS_OPTION = 'srun --help 2>/dev/null | grep -q -e "$1[= ]"'

_OPTIONS = {"pyxis": "--container-image", "oci": "--container"}
"""The option of srun that each kind of container needs."""

_REMEDIES = {
    "pyxis": "Ask the cluster's administrators to install the plugin pyxis, or set `container: apptainer`.",
    "oci": "`container: oci` needs Slurm 21.08 or later. On an older cluster, set `container: apptainer`.",
}


class ContainerWords(NamedTuple):
    """Arguments of the command that starts a step."""

    options: tuple[str, ...] = ()  # of srun
    program: tuple[str, ...] = ()  # before the step


def container_words(target: ComputeTarget, root: str, directory: str, data: Collection[str] = ()) -> ContainerWords:
    """Return the arguments for a run in `directory`, below `root`, which reads the paths in `data`.

    Raises ConfigurationError if this is impossible.
    """
    image = target.base_docker_image
    _require_mountable(target, data)
    if target.container in ("pyxis", "apptainer") and (":" in root or "," in root):
        message = f"{target.container} cannot mount runRoot {root}, because it contains `:` or `,`"
        raise _refusal(target, "runRoot", message, "Set `runRoot` to a path without these characters.")
    if target.container == "pyxis":
        mounts = f"--container-mounts={','.join(_mounts(root, f'{root}:{root}', data))}"
        workdir = f"--container-workdir={directory}"
        return ContainerWords(
            (f"--container-image={_enroot_image(target)}", mounts, workdir, "--no-container-entrypoint")
        )
    if target.container == "apptainer":
        name = image if "://" in image or image.startswith(("/", "./")) else f"docker://{image}"
        gpus = "--rocm" if "rocm" in image.lower() else "--nv"
        binds = ",".join(_mounts(root, root, data))
        return ContainerWords((), ("apptainer", "exec", gpus, "--bind", binds, "--pwd", directory, name))
    return ContainerWords((f"--container={_oci_bundle(target)}",)) if target.container == "oci" else ContainerWords()


def _mounts(root: str, root_mount: str, data: Collection[str]) -> list[str]:
    """Return the mounts in an order in which none hides another: a folder precedes the folders in it."""
    mounts = {**{path: f"{path}:{path}:ro" for path in data}, root: root_mount}
    return [mounts[path] for path in sorted(mounts)]


def _require_mountable(target: ComputeTarget, data: Collection[str]) -> None:
    """Raise ConfigurationError if the container cannot mount the data."""
    if target.container == "oci" and data:
        raise ConfigurationError(
            "a run with `container: oci` cannot have `DataReferences`, because srun cannot mount folders",
            remedy="Mount the data in the configuration of the bundle, and remove `DataReferences`.",
        )
    path = next((path for path in data if ":" in path or "," in path), "")
    if target.container in ("pyxis", "apptainer") and path:
        raise ConfigurationError(
            f"{target.container} cannot mount the data {path}, because its path contains `:` or `,`",
            remedy="On the cluster, create a link to the data at a path without these characters, and use this path.",
        )


def container_support(host: LoginHost, target: ComputeTarget) -> str:
    """Describe the support for the target's containers. Raises WorkbenchError if they are not supported.

    The login node cannot check whether the compute nodes have apptainer.
    """
    option = _OPTIONS.get(target.container)
    if option is None:
        return "not checked, because only compute nodes need it" if target.container == "apptainer" else "none"
    if host.ask(_HAS_OPTION, option).code != 0:
        message = f"container is {target.container}, but srun on {host.label} has no option {option}"
        raise WorkbenchError(message, remedy=_REMEDIES[target.container], file=target.path)
    return f"srun has {option}"


def _enroot_image(target: ComputeTarget) -> str:
    """Return the image in enroot's form, `REGISTRY#NAME:TAG`, or the path of a file."""
    image = target.base_docker_image
    if image.startswith(("/", "./")):
        return image
    if "@" in image:
        message = f"pyxis cannot use the image {image} by its digest"
        raise _refusal(target, "baseDockerImage", message, "Use a tag, or the path of an image from `enroot import`.")
    registry, slash, name = image.partition("/")
    is_registry = slash and (registry == "localhost" or "." in registry or ":" in registry)
    return f"{registry}#{name}" if is_registry and "#" not in image else image


def _oci_bundle(target: ComputeTarget) -> str:
    image = target.base_docker_image
    if not image.startswith("/"):
        message = f"container is oci, but baseDockerImage {image!r} is not the absolute path of a bundle"
        raise _refusal(
            target, "baseDockerImage", message, "Set `baseDockerImage` to the absolute path of an OCI bundle's folder."
        )
    return image


def _refusal(target: ComputeTarget, key: str, message: str, remedy: str) -> ConfigurationError:
    return ConfigurationError(message, remedy=remedy, file=target.path, line=line_of_key(target.path, key))
