"""What the other files of a project say, as far as a check of one file needs it.

Invariant: asking never fails and never changes anything; a file that is broken is a file that says nothing. What was
read is kept until the file changes on disk, and an editor's unsaved text counts more than the file.
"""

from __future__ import annotations

import os
import re

from tui_workbench import files
from tui_workbench.config import fields
from tui_workbench.config.images import is_gpu_image
from tui_workbench.config.loading import top_level_keys, type_of
from tui_workbench.config.schema import DOCKER_TYPES, kind_of
from tui_workbench.config.source import read
from tui_workbench.config.syntax import Tree, parse
from tui_workbench.config.values import read_fields
from tui_workbench.errors import WorkbenchError
from tui_workbench.records import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Any

CONFIG_DIRECTORY = "aml_config"

_SPARK = re.compile(rb"\b(?:pyspark|SparkSession|SparkContext|SQLContext|mmlspark|sparkdl)\b")
_SCRIPT_BYTES = 200_000
"""Enough of a script to see its imports."""


class Target(NamedTuple):
    """What a `.compute` file says, as far as other files care."""

    name: str
    path: str
    type: str
    image: str
    nvidia_docker: bool
    user_managed: bool
    gpus: str = ""  # as ComputeTarget has it
    python: str = "python"

    @property
    def wants_gpu(self) -> bool:
        """Whether the file asks for a GPU, by its image or by nvidiaDocker."""
        return self.nvidia_docker or bool(self.image and is_gpu_image(self.image))

    @property
    def is_docker(self) -> bool:
        """Whether runs there have an environment built from the conda file in a container."""
        return self.type in DOCKER_TYPES


class Configuration(NamedTuple):
    """What a `.runconfig` file says, as far as other files care."""

    name: str
    path: str
    target: str
    framework: str
    conda_file: str  # relative to the project
    spark_file: str
    script: str  # "" for $file


class Surroundings:
    """The project around a configuration file. `root` is the project's folder."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.directory = os.path.join(root, CONFIG_DIRECTORY)
        self._read: dict[str, tuple[object, Any]] = {}
        self._unsaved: dict[str, str] = {}
        self._spark: dict[str, tuple[object, bool]] = {}

    @classmethod
    def of(cls, path: str) -> Surroundings | None:
        """The surroundings of a file that lies in a project's configuration folder, else None."""
        directory = os.path.dirname(os.path.abspath(path))
        return cls(os.path.dirname(directory)) if os.path.basename(directory) == CONFIG_DIRECTORY else None

    def show_unsaved(self, path: str, text: str | None) -> None:
        """Let `text` count in place of the file at `path`; None ends that."""
        key = os.path.abspath(path)
        self._read.pop(key, None)
        if text is None:
            self._unsaved.pop(key, None)
        else:
            self._unsaved[key] = text

    def names(self, suffix: str) -> list[str]:
        """Names of the configuration files that end with `suffix` (`.compute`), sorted."""
        try:
            found = os.listdir(self.directory)
        except OSError:
            return []
        return sorted(name[: -len(suffix)] for name in found if name.endswith(suffix) and name != suffix)

    def targets(self) -> list[Target]:
        """Every compute target that can be read."""
        found = [self.target(name) for name in self.names(".compute")]
        return [target for target in found if target is not None]

    def target(self, name: str) -> Target | None:
        """The compute target of this name, None when there is none or its file is broken."""
        path = os.path.join(self.directory, f"{name}.compute")
        values = self._values(path)
        if values is None or not name or "/" in name:
            return None
        return Target(
            name,
            path,
            type_of(values),
            values.get("baseDockerImage") or "",
            bool(values.get("nvidiaDocker")),
            values.get("userManagedEnvironment") is not False,
            values.get("gpus") or "",
            values.get("pythonLocation") or "python",
        )

    def configurations(self) -> list[Configuration]:
        """Every run configuration that can be read."""
        found = [self.configuration(name) for name in self.names(".runconfig")]
        return [configuration for configuration in found if configuration is not None]

    def configuration(self, name: str) -> Configuration | None:
        """The run configuration of this name, None when there is none or its file is broken."""
        path = os.path.join(self.directory, f"{name}.runconfig")
        values = self._values(path)
        return configuration_of(name, path, values) if values is not None else None

    def configurations_of(self, target: str) -> list[Configuration]:
        """The run configurations that name `target`."""
        return [configuration for configuration in self.configurations() if configuration.target == target]

    def users_of(self, path: str) -> list[Configuration]:
        """The run configurations whose environment comes from the dependency file at `path`."""
        wanted = os.path.abspath(path)
        return [
            one
            for one in self.configurations()
            if wanted in (self.absolute(one.conda_file), self.absolute(one.spark_file))
        ]

    def absolute(self, relative: str) -> str:
        """The path of something named relative to the project."""
        return os.path.normpath(os.path.join(self.root, relative))

    def exists(self, relative: str) -> bool:
        """Whether a file of this name, relative to the project, is there."""
        path = self.absolute(relative)
        return path in self._unsaved or os.path.isfile(path)

    def uses_spark(self, script: str = "") -> bool | None:
        """Whether `script`, or for "" any script at the top of the project, mentions Spark; None when there is none."""
        if script:
            names = [script] if script.endswith(".py") else []
        else:
            try:
                names = [name for name in sorted(os.listdir(self.root)) if name.endswith(".py")]
            except OSError:
                names = []
        known = [found for name in names if (found := self._mentions_spark(self.absolute(name))) is not None]
        return any(known) if known else None

    def _mentions_spark(self, path: str) -> bool | None:
        try:
            signature = files.signature(path)
            if signature is None:
                return None
            known = self._spark.get(path)
            if known is None or known[0] != signature:
                with open(path, "rb") as file:
                    known = (signature, bool(_SPARK.search(file.read(_SCRIPT_BYTES))))
                self._spark[path] = known
        except (OSError, WorkbenchError):
            return None
        return known[1]

    def tree(self, path: str) -> Tree | None:
        """The parsed file at `path`, None when it is not there or broken."""
        return self._load(path)[0]

    def _values(self, path: str) -> dict[str, Any] | None:
        return self._load(path)[1]

    def _load(self, path: str) -> tuple[Tree | None, dict[str, Any] | None]:
        path = os.path.abspath(path)
        unsaved = self._unsaved.get(path)
        try:
            signature: object = unsaved if unsaved is not None else files.signature(path)
            if signature is None:
                return None, None
            known = self._read.get(path)
            if known is not None and known[0] == signature:
                found: tuple[Tree | None, dict[str, Any] | None] = known[1]
                return found
            tree = parse(unsaved if unsaved is not None else read(path).text, path)
            values = read_fields(tree, kind_of(path, top_level_keys(tree)) or fields.CONDA).values
        except WorkbenchError:
            self._read.pop(path, None)
            return None, None
        self._read[path] = (signature, (tree, values))
        return tree, values


def configuration_of(name: str, path: str, values: dict[str, Any]) -> Configuration:
    """What the typed values of a `.runconfig` file (either form) mean for other files."""
    arguments = values.get("ArgumentVector") or ()
    script = values.get("script") or (arguments[0] if arguments and arguments[0] != "$file" else "")
    return Configuration(
        name,
        path,
        values.get("Target") or values.get("target") or "",
        values.get("Framework") or values.get("framework") or "PySpark",
        values.get("CondaDependenciesFile")
        or values.get("CondaFile")
        or values.get("environment.python.condaDependenciesFile")
        or "aml_config/conda_dependencies.yml",
        values.get("SparkDependenciesFile") or "aml_config/spark_dependencies.yml",
        script,
    )
