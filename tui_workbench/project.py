"""A project is a folder that holds `aml_config/`; everything of ours lies in its `.workbench/` and nowhere else in it.

A project that cannot be written keeps its runs in the user's data directory instead, and `notice` says so.
Configuration files are read through a cache keyed by their stat signature, because importing a YAML parser costs more
than all else that a `submit` does.
"""

from __future__ import annotations

import os

from tui_workbench.config.cache import ConfigurationCache
from tui_workbench.errors import ConfigurationError, ProjectNotFound, StorageError
from tui_workbench.model import ComputeTarget, Problem, RunConfiguration
from tui_workbench.records import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    _Entry = TypeVar("_Entry", ComputeTarget, RunConfiguration)

CONFIG_DIRECTORY = "aml_config"
STATE_DIRECTORY = ".workbench"
COMPUTE_SUFFIX = ".compute"
RUN_CONFIGURATION_SUFFIX = ".runconfig"


class Project:
    """An open project folder.

    `root` is absolute; `name` is the folder's name; `config_directory` holds the configuration files;
    `state_directory` and `runs_directory` hold what is ours; `notice` is a sentence for the user when that is outside
    of the project, else empty.
    """

    def __init__(self, root: str) -> None:
        self.root = os.path.abspath(root)
        self.name = os.path.basename(self.root) or "project"
        self.config_directory = os.path.join(self.root, CONFIG_DIRECTORY)
        self.notice = ""
        self.state_directory = os.path.join(self.root, STATE_DIRECTORY)
        if not _can_hold_state(self.root, self.state_directory):
            self.state_directory = _state_elsewhere(self.root)
            self.notice = f"{self.root} cannot be written: its runs are kept in {self.state_directory}"
        self.runs_directory = os.path.join(self.state_directory, "runs")
        self._cache = ConfigurationCache(os.path.join(self.state_directory, "cache", "configuration.json"))

    @classmethod
    def find(cls, start: str) -> Project:
        """The project at `start` or in its nearest parent that holds `aml_config/`.

        Raises ProjectNotFound when there is none up to the root of the file system, or `start` does not exist.
        """
        try:
            start = os.path.abspath(start)
        except FileNotFoundError as error:
            raise ProjectNotFound(
                "the current folder has been removed", remedy="Change to another one and try again."
            ) from error
        if not os.path.isdir(start):
            raise ProjectNotFound(
                f"{start} is not a folder" if os.path.exists(start) else f"{start} does not exist",
                remedy="Name a project folder, or make one with `workbench-tui project create NAME`.",
            )
        folder = start
        while True:
            if os.path.isdir(os.path.join(folder, CONFIG_DIRECTORY)):
                return cls(folder)
            parent = os.path.dirname(folder)
            if parent == folder:
                raise ProjectNotFound(
                    f"{start} is no project: neither it nor a folder above it holds {CONFIG_DIRECTORY}/",
                    remedy="Name one with --project, or make one with `workbench-tui project create NAME`.",
                )
            folder = parent

    def prepare_state(self) -> None:
        """Make the state directory, which ignores itself for git. Raises StorageError."""
        ignore = os.path.join(self.state_directory, ".gitignore")
        try:
            # Made before anything that it is to hide; an empty one was left by a full disk.
            if not os.path.exists(ignore) or not os.path.getsize(ignore):
                os.makedirs(self.state_directory, exist_ok=True)
                with open(ignore, "w", encoding="ascii") as file:
                    file.write("*\n")
            os.makedirs(self.runs_directory, exist_ok=True)
        except OSError as error:
            raise StorageError(
                f"cannot keep runs in {self.state_directory}: {error.strerror}",
                remedy="Free space there or make the folder writable.",
            ) from error

    def targets(self) -> list[ComputeTarget]:
        """Every `.compute` file by name; one that cannot be used has `problem` set."""
        return self._entries(
            COMPUTE_SUFFIX,
            self._cache.compute_target,
            lambda name, path, problem: ComputeTarget(name=name, path=path, type="", problem=problem),
        )

    def run_configurations(self) -> list[RunConfiguration]:
        """Every `.runconfig` file by name; one that cannot be used has `problem` set."""
        return self._entries(
            RUN_CONFIGURATION_SUFFIX,
            self._cache.run_configuration,
            lambda name, path, problem: RunConfiguration(name=name, path=path, target="", problem=problem),
        )

    def target(self, name: str) -> ComputeTarget:
        """The compute target of this name. Raises ConfigurationError when its file is missing or wrong."""
        path = self._path_of(name, COMPUTE_SUFFIX, "compute target")
        return self._cache.compute_target(path)

    def run_configuration(self, name: str) -> RunConfiguration:
        """The run configuration of this name. Raises ConfigurationError when its file is missing or wrong."""
        path = self._path_of(name, RUN_CONFIGURATION_SUFFIX, "run configuration")
        return self._cache.run_configuration(path)

    def target_of(self, configuration: RunConfiguration, override: str = "") -> ComputeTarget:
        """The target that the configuration names, or `override`. The error names the runconfig that points nowhere."""
        name = override or configuration.target
        if not os.path.isfile(os.path.join(self.config_directory, name + COMPUTE_SUFFIX)) and not override:
            known = self._names(COMPUTE_SUFFIX)
            raise ConfigurationError(
                f"Target is {name!r}, and there is no {CONFIG_DIRECTORY}/{name}{COMPUTE_SUFFIX}",
                remedy=f"Set Target to one of: {', '.join(known)}." if known else "Attach a compute target first.",
                file=configuration.path,
                line=line_of_key(configuration.path, "Target"),
            )
        return self.target(name)

    def _names(self, suffix: str) -> list[str]:
        try:
            entries = os.listdir(self.config_directory)
        except OSError:
            return []
        return sorted(name[: -len(suffix)] for name in entries if name.endswith(suffix) and name != suffix)

    def _path_of(self, name: str, suffix: str, kind: str) -> str:
        path = os.path.join(self.config_directory, name + suffix)
        if not name or "/" in name or not os.path.isfile(path):
            known = self._names(suffix)
            raise ConfigurationError(
                f"there is no {kind} {name!r} ({CONFIG_DIRECTORY}/{name}{suffix})",
                remedy=f"Known here: {', '.join(known)}."
                if known
                else f"No {suffix} file is in {self.config_directory}.",
            )
        return path

    def _entries(
        self, suffix: str, load: Callable[[str], _Entry], from_problem: Callable[[str, str, Problem], _Entry]
    ) -> list[_Entry]:
        entries = []
        for name in self._names(suffix):
            path = os.path.join(self.config_directory, name + suffix)
            try:
                entries.append(load(path))
            except ConfigurationError as error:
                problem = Problem(path, error.line, error.column, "error", "unusable", error.message, error.remedy)
                entries.append(from_problem(name, path, problem))
        return entries


def _can_hold_state(root: str, state: str) -> bool:
    if os.path.isdir(state):
        return os.access(state, os.W_OK | os.X_OK)
    return os.access(root, os.W_OK | os.X_OK)


def _state_elsewhere(root: str) -> str:
    """The place in the user's data directory for a read-only project.

    Its path, made one name, so that two never share it.
    """
    from tui_workbench.resources import user_data_directory

    return os.path.join(user_data_directory(), "projects", root.strip("/").replace("%", "%25").replace("/", "%2F"))


def line_of_key(path: str, key: str) -> int:
    """The line of a top-level key, for an error message only; 0 when it is not found the simple way."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file, 1):
                if line.strip(" {,").lstrip("\"'").startswith(key):
                    return number
    except OSError:
        pass
    return 0
