"""Find and load projects. A project is a folder that contains `aml_config/`.

The workbench stores its own files, such as runs, in `.workbench/`. If the project is read-only, or `.workbench/` is a
symbolic link, these files are in the user's data directory.
"""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from tui_workbench.config import sdk_conflicts
from tui_workbench.core.directories import CONFIG_DIRECTORY, derived_directory, project_above, user_data_directory
from tui_workbench.core.errors import ConfigurationError, ProjectNotFound, StorageError
from tui_workbench.core.files import FOLDER_MODE, make_folders, read_file, write_below
from tui_workbench.core.model import ComputeTarget, Problem, RunConfiguration

_Entry = TypeVar("_Entry", ComputeTarget, RunConfiguration)

STATE_DIRECTORY = ".workbench"

COMPUTE_SUFFIX = ".compute"
RUN_CONFIGURATION_SUFFIX = ".runconfig"

_HOW_TO_ADD = {
    COMPUTE_SUFFIX: "Attach a target, for example Docker: `workbench-tui computetarget attach localdocker -n docker`.",
    RUN_CONFIGURATION_SUFFIX: "Create a run configuration: `workbench-tui runconfiguration create -n NAME -t TARGET`.",
}


class Project:
    """An open project folder.

    `config_directory` contains the configuration files, `state_directory` the files of the workbench. `notice` is a
    message for the user if the state directory is outside the project, and "" otherwise.
    """

    def __init__(self, root: str) -> None:
        self.root = os.path.abspath(root)
        self.name = os.path.basename(self.root) or "project"
        self.config_directory = os.path.join(self.root, CONFIG_DIRECTORY)
        self.notice = ""
        self.state_directory = os.path.join(self.root, STATE_DIRECTORY)
        if not _can_hold_state(self.root, self.state_directory):
            why = "is read-only"
            if os.path.islink(self.state_directory) or os.path.islink(os.path.join(self.state_directory, "runs")):
                why = f"has a symbolic link in place of {STATE_DIRECTORY} or {STATE_DIRECTORY}/runs"
            self.state_directory = state_elsewhere(self.root)
            self.notice = f"{self.root} {why}: its runs are stored in {self.state_directory}"
        self.runs_directory = os.path.join(self.state_directory, "runs")
        self._cache_directory = ""

    @classmethod
    def find(cls, start: str) -> Project:
        """Return the project at or above the folder `start`. Raises ProjectNotFound."""
        try:
            start = os.path.abspath(start)
        except FileNotFoundError as error:
            raise ProjectNotFound(
                "the current folder has been removed", remedy="Change to another folder and try again."
            ) from error
        if not os.path.isdir(start):
            raise ProjectNotFound(
                f"{start} {'is not a folder' if os.path.exists(start) else 'does not exist'}",
                remedy="Choose a project folder, or create one with `workbench-tui project create NAME`.",
            )
        root = project_above(start)
        if root:
            return cls(root)
        raise ProjectNotFound(
            f"no project found in {start} or its parents (no {CONFIG_DIRECTORY}/)",
            remedy="Open a project with `workbench-tui DIR`, or add `--project DIR` to the command. You can also turn "
            f"this folder into a project with `workbench-tui project add {shlex.quote(start)}`, or create a project "
            "with `workbench-tui project create NAME`.",
        )

    @property
    def cache_directory(self) -> str:
        """The folder for data derived from the runs, or "" if it cannot be used, as before the first run.

        It is in the user's cache directory, because the files of the project are not trusted.
        """
        if not self._cache_directory:
            self._cache_directory = derived_directory(self.state_directory)
        return self._cache_directory

    def prepare_state(self) -> None:
        """Create the state directory, with a `.gitignore` for itself. Raises StorageError."""
        ignore = os.path.join(self.state_directory, ".gitignore")
        try:
            # `.gitignore` is written first, so that git never sees other files. A power failure can leave it empty.
            if not os.path.exists(ignore) or not os.path.getsize(ignore):
                os.makedirs(self.state_directory, FOLDER_MODE, exist_ok=True)
                write_below(self.state_directory, ".gitignore", b"*\n")
            make_folders(self.state_directory, "runs")
            # Logs and provenance may contain private data.
            status = os.stat(self.state_directory)
            if status.st_mode & 0o077 and status.st_uid == os.geteuid():
                os.chmod(self.state_directory, FOLDER_MODE)
        except OSError as error:
            raise StorageError(
                f"cannot store runs in {self.state_directory}: {error.strerror}",
                remedy="Free some space, or make the folder writable.",
            ) from error

    def targets(self) -> list[ComputeTarget]:
        """Return all compute targets, sorted by name; invalid ones have `problem` set."""
        return self._entries(COMPUTE_SUFFIX, _load_compute, partial(ComputeTarget, type=""))

    def run_configurations(self) -> list[RunConfiguration]:
        """Return all run configurations, sorted by name; invalid ones have `problem` set."""
        return self._entries(RUN_CONFIGURATION_SUFFIX, _load_run_configuration, partial(RunConfiguration, target=""))

    def target(self, name: str) -> ComputeTarget:
        """Return a compute target. Raises ConfigurationError if it does not exist or its file is invalid."""
        return _load_compute(self._path_of(name, COMPUTE_SUFFIX, "compute target"))

    def run_configuration(self, name: str) -> RunConfiguration:
        """Return a run configuration. Raises ConfigurationError if it does not exist or its file is invalid."""
        return _load_run_configuration(self._path_of(name, RUN_CONFIGURATION_SUFFIX, "run configuration"))

    def target_of(self, configuration: RunConfiguration, override: str = "") -> ComputeTarget:
        """Return the target of a run configuration, or the target named `override` if it is not empty.

        Raises ConfigurationError if the target does not exist, is invalid, or conflicts with a run configuration in the
        SDK form.
        """
        name = override or configuration.target
        key = configuration.key("Target")
        if not os.path.isfile(os.path.join(self.config_directory, name + COMPUTE_SUFFIX)) and not override:
            names, missing = self._names(COMPUTE_SUFFIX), f"{CONFIG_DIRECTORY}/{name}{COMPUTE_SUFFIX}"
            raise ConfigurationError(
                f"{key} is {name!r}, but {missing} does not exist",
                remedy=f"Set {key} to one of: {', '.join(names)}."
                if names
                else f"{_HOW_TO_ADD[COMPUTE_SUFFIX]} Then set {key} to its name.",
                file=configuration.path,
                line=line_of_key(configuration.path, key),
            )
        target = self.target(name)
        if configuration.is_sdk_form:
            values = sdk_conflicts.flattened(configuration.values)
            conflicts = sdk_conflicts.conflicts(
                values, target, lambda path: os.path.isfile(os.path.join(self.root, path))
            )
            for conflict in conflicts:
                line = line_of_key(configuration.path, conflict.key)
                raise ConfigurationError(conflict.message, remedy=conflict.remedy, file=configuration.path, line=line)
        return target

    def _names(self, suffix: str) -> list[str]:
        try:
            entries = os.listdir(self.config_directory)
        except OSError:
            return []
        return sorted(name[: -len(suffix)] for name in entries if name.endswith(suffix) and name != suffix)

    def _path_of(self, name: str, suffix: str, kind: str) -> str:
        path = os.path.join(self.config_directory, name + suffix)
        if not name or "/" in name or not os.path.isfile(path):
            names = ", ".join(self._names(suffix))
            remedy = f"Choose one of: {names}." if names else _HOW_TO_ADD[suffix]
            message = f"unknown {kind} {name!r}: {CONFIG_DIRECTORY}/{name}{suffix} does not exist"
            raise ConfigurationError(message, remedy=remedy)
        return path

    def _entries(self, suffix: str, load: Callable[[str], _Entry], unusable: Callable[..., _Entry]) -> list[_Entry]:
        entries = []
        for name in self._names(suffix):
            path = os.path.join(self.config_directory, name + suffix)
            try:
                entries.append(load(path))
            except ConfigurationError as error:
                problem = Problem(path, error.line, error.column, "error", "unusable", error.message, error.remedy)
                entries.append(unusable(name=name, path=path, problem=problem))
        return entries


def _load_compute(path: str) -> ComputeTarget:
    from tui_workbench.config.loading import load_compute

    return load_compute(path)


def _load_run_configuration(path: str) -> RunConfiguration:
    from tui_workbench.config.loading import load_run_configuration

    return load_run_configuration(path)


def _can_hold_state(root: str, state: str) -> bool:
    if os.path.islink(state) or os.path.islink(os.path.join(state, "runs")):
        return False
    if os.path.isdir(state):
        return os.access(state, os.W_OK | os.X_OK)
    return os.access(root, os.W_OK | os.X_OK)


def state_elsewhere(root: str) -> str:
    """Return the state directory, in the user's data directory, of a project that cannot contain one."""
    return os.path.join(user_data_directory(), "projects", root.strip("/").replace("%", "%25").replace("/", "%2F"))


def state_of_run(run_directory: str) -> str:
    """Return the state directory of the project of a run."""
    return os.path.dirname(os.path.dirname(run_directory))


def root_of_state(state_directory: str) -> str:
    """Return the project folder of a state directory."""
    folder, name = os.path.split(state_directory)
    return folder if name == STATE_DIRECTORY else "/" + name.replace("%2F", "/").replace("%25", "%")


def line_of_key(path: str, key: str) -> int:
    """Return the number of the first line that begins with the last part of a dotted key, or 0 without such a line."""
    key = key.rpartition(".")[2]
    with contextlib.suppress(OSError):
        for number, line in enumerate(read_file(path).splitlines(), 1):
            if line.decode("utf-8", "replace").strip(" {,").lstrip("\"'").startswith(key):
                return number
    return 0
