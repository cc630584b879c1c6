"""The target types that can be attached, with their descriptions."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from types import MappingProxyType

from tui_workbench.core import target_types
from tui_workbench.targets.base.attaching import Attaching
from tui_workbench.targets.docker.attaching import EngineAttaching, LocalEngineAttaching
from tui_workbench.targets.remote.attaching import PythonAttaching, SparkAttaching
from tui_workbench.targets.slurm.attaching import SlurmAttaching

_BUILT_IN: Mapping[str, Attaching] = MappingProxyType(
    {
        target_types.REMOTE_DOCKER.name: EngineAttaching(),
        target_types.REMOTE.name: PythonAttaching(),
        target_types.SLURM.name: SlurmAttaching(),
        target_types.CLUSTER.name: SparkAttaching(),
        target_types.LOCAL_DOCKER.name: LocalEngineAttaching(),
    }
)


def attachable_types() -> Mapping[str, Attaching]:
    """Return the description of each type that can be attached, by its name, in the order of the form.

    Types of other packages follow the built-in ones. A package that cannot be loaded has none: the registry reports the
    error when a target of its type is used.
    """
    described = dict(_BUILT_IN)
    for name in target_types.names():
        if name in target_types.built_in_names():
            continue
        with contextlib.suppress(Exception):  # the code of another package may raise anything
            attaching = getattr(target_types.load(name), "attaching", None)
            if isinstance(attaching, Attaching):
                described[name] = attaching
    return MappingProxyType(described)
