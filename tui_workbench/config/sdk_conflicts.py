"""Find conflicts between a run configuration in the SDK form and its target.

The `.compute` file determines where and how a run executes. The SDK form repeats some settings of that file: Docker,
image, GPUs and the environment. If the two files disagree, the run is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from tui_workbench.config.schema.field_types import written
from tui_workbench.core.model import ComputeTarget
from tui_workbench.core.target_types import BUILT_IN

DEFAULT_CONDA_FILE = "aml_config/conda_dependencies.yml"


class Conflict(NamedTuple):
    """A key of a run configuration that disagrees with the target."""

    key: str  # dotted
    message: str
    remedy: str
    fitting: Any = None  # the value that matches the target; None if there is no such value


def flattened(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested values by dotted key: `{"history": {"enabled": True}}` becomes `{"history.enabled": True}`."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat[prefix + key] = value
        if isinstance(value, dict):
            flat |= flattened(value, f"{prefix}{key}.")
    return flat


def conflicts(values: Mapping[str, Any], target: ComputeTarget, has_file: Callable[[str], bool]) -> Iterator[Conflict]:
    """Yield the conflicts between `values` (typed, by dotted key) and a target of a built-in type.

    `has_file` returns True if a file exists in the project.
    """
    if target.kind not in BUILT_IN:
        return
    for key, fitting, does, other in _claims(values, target, has_file):
        value = values.get(key)
        if value not in (None, "", fitting):
            ways = [f"remove `{key}`" if fitting is None else f"set `{key}: {written(fitting)}`"]
            ways.append(f"set `target` to {other}" if other else f"change aml_config/{target.name}.compute")
            remedy = " or ".join(ways)
            message = f"`{key}` is {written(value)}, but the target {target.name} {does}"
            yield Conflict(key, message, f"{remedy[0].upper()}{remedy[1:]}.", fitting)


def _claims(
    values: Mapping[str, Any], target: ComputeTarget, has_file: Callable[[str], bool]
) -> Iterator[tuple[str, Any, str, str]]:
    """Yield the claims of the target about keys of the run configuration.

    A claim is a tuple: the key, the value that matches the target (or None), a clause about the target, and the words
    for a target that would match (or "").
    """
    docker, python = "environment.docker.", "environment.python."
    is_docker, has_own_python = target.kind.runs_in_container, target.kind.uses_interpreter
    does = "runs scripts in Docker" if is_docker else "runs scripts without Docker"
    other = "a target without Docker" if is_docker else "a `localdocker` or `remotedocker` target"
    yield docker + "enabled", is_docker, does, other
    if is_docker and values.get(docker + "enabled") is not False:
        image, mounts = target.base_docker_image, target.shared_volumes is not False
        registry = values.get(docker + "baseImageRegistry.address") or ""
        yield docker + "baseImage", image, f"uses {image}", ""
        if not image.startswith(registry.rstrip("/") + "/"):
            does = f"uses {image}, which is not in that registry"
            yield docker + "baseImageRegistry.address", None, does, ""
        yield docker + "sharedVolumes", mounts, f"{'mounts' if mounts else 'copies'} the project", ""
        does = f"gives its containers {'GPUs' if target.gives_gpus else 'no GPU'}"
        yield docker + "gpuSupport", target.gives_gpus, does, ""
    conda_file = values.get(python + "condaDependenciesFile") or DEFAULT_CONDA_FILE
    if has_own_python and target.user_managed_environment:
        yield python + "userManagedDependencies", True, "uses an existing Python", ""
    elif has_own_python or has_file(conda_file):
        # Without a conda file, a container uses the Python of its image.
        yield python + "userManagedDependencies", False, f"builds the environment from {conda_file}", ""
    interpreter = target.python_location if has_own_python else "the Python of its image"
    # The SDK wrote `python` into every file, so this value does not count as a conflict.
    if values.get(python + "userManagedDependencies") and values.get(python + "interpreterPath") != interpreter:
        yield python + "interpreterPath", "python", f"uses {interpreter}", ""
    if target.kind.reads("yarnDeployMode"):
        mode = target.yarn_deploy_mode
        yield "hdi.yarnDeployMode", mode, f"uses the deploy mode {mode}", ""
