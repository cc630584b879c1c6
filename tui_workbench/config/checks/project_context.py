"""The input of checks: a parsed configuration file, and the project with its other files.

A file that is not valid YAML is treated as missing, and an invalid value as unset. Parsed files are cached until they
change on disk. Unsaved text of an editor takes precedence over the file.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from tui_workbench.config.checks.findings import CODES, Finding, Fix
from tui_workbench.config.checks.scripts import MOST_SCRIPTS, SCRIPT_BYTES, old_data_files, project_files
from tui_workbench.config.loading import compute_target_of, run_configuration_of, top_level_keys, type_of
from tui_workbench.config.schema import fields
from tui_workbench.config.schema.field_types import FileKind
from tui_workbench.config.schema.fields import kind_of
from tui_workbench.config.yaml_edit.syntax import Node, Tree, parse, read
from tui_workbench.config.yaml_edit.values import read_fields
from tui_workbench.core import files
from tui_workbench.core.directories import CONFIG_DIRECTORY, project_above
from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.files import open_file, open_regular
from tui_workbench.core.model import ComputeTarget, RunConfiguration

_SPARK = re.compile(rb"\b(?:pyspark|SparkSession|SparkContext|SQLContext|mmlspark|sparkdl)\b")
_IMPORT = re.compile(rb"""(?:^|["';])[ \t]*(?:from|import)[ \t]+(\w+)""", re.MULTILINE)
"""The first name of an import; in a notebook, a line of code is a JSON text."""

_OLD_DATA_SECONDS = 2.0
"""Seconds after which the folders of the project are searched for data sources again."""


class _Parsed(NamedTuple):
    tree: Tree
    kind: FileKind
    values: dict[str, Any]


class ProjectContext:
    """The configuration files of the project in the folder `root`, for checks of one of the files."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.directory = os.path.join(root, CONFIG_DIRECTORY)
        self._read: dict[str, tuple[object, _Parsed]] = {}
        self._unsaved: dict[str, str] = {}
        self._old_data: tuple[float, list[str]] | None = None  # the time of the search, and the result

    @classmethod
    def of(cls, path: str) -> ProjectContext | None:
        """Return the project of a file, or None if it is not in a project."""
        root = project_above(os.path.dirname(os.path.abspath(path)))
        return cls(root) if root else None

    def show_unsaved(self, path: str, text: str | None) -> None:
        """Use `text` instead of the content of the file at `path`. If `text` is None, use the file again."""
        key = os.path.abspath(path)
        self._read.pop(key, None)
        if text is None:
            self._unsaved.pop(key, None)
        else:
            self._unsaved[key] = text

    def names(self, suffix: str) -> list[str]:
        """Return the sorted names of the configuration files with a suffix such as `.compute`, without the suffix."""
        try:
            file_names = os.listdir(self.directory)
        except OSError:
            return []
        return sorted(name[: -len(suffix)] for name in file_names if name.endswith(suffix) and name != suffix)

    def targets(self) -> list[ComputeTarget]:
        """Return all readable compute targets."""
        targets = [self.target(name) for name in self.names(".compute")]
        return [target for target in targets if target is not None]

    def target(self, name: str) -> ComputeTarget | None:
        """Return a compute target, or None if it does not exist or is not valid YAML."""
        path = os.path.join(self.directory, f"{name}.compute")
        parsed = self._load(path) if name and "/" not in name else None
        return compute_target_of(path, parsed.values, parsed.values) if parsed is not None else None

    def machines_of(self, target: ComputeTarget) -> list[ComputeTarget]:
        """Return the readable members of a group; for another target, a list of only the target."""
        if not target.kind.reads("members"):
            return [target]
        return [member for member in map(self.target, target.members) if member is not None]

    def always_builds(self, target: ComputeTarget) -> bool:
        """Return True if the environments of runs on a target, or on a member of a group, are always built."""
        return any(machine.kind.builds_environments for machine in self.machines_of(target))

    def configurations(self) -> list[RunConfiguration]:
        """Return all readable run configurations."""
        configurations = [self.configuration(name) for name in self.names(".runconfig")]
        return [configuration for configuration in configurations if configuration is not None]

    def configuration(self, name: str) -> RunConfiguration | None:
        """Return a run configuration, or None if it does not exist or is not valid YAML."""
        path = os.path.join(self.directory, f"{name}.runconfig")
        parsed = self._load(path)
        return run_configuration_of(path, parsed.kind, parsed.values, {}) if parsed is not None else None

    def configurations_of(self, target: str) -> list[RunConfiguration]:
        return [configuration for configuration in self.configurations() if configuration.target == target]

    def users_of(self, path: str) -> list[RunConfiguration]:
        """Return the run configurations that use the dependency file at `path`."""
        absolute_path = os.path.abspath(path)
        return [
            configuration
            for configuration in self.configurations()
            if absolute_path in map(self.absolute, (configuration.conda_file, configuration.spark_file))
        ]

    def role_of(self, path: str) -> FileKind | None:
        """Return the kind of the dependency file at `path`, or None if it is not YAML or not used."""
        if not path.lower().endswith((".yml", ".yaml")):
            return None
        absolute_path = os.path.abspath(path)
        users = self.users_of(path)
        if not users:
            return None
        return fields.CONDA if absolute_path == self.absolute(users[0].conda_file) else fields.SPARK

    def absolute(self, relative: str) -> str:
        return os.path.normpath(os.path.join(self.root, relative))

    def exists(self, relative: str) -> bool:
        path = self.absolute(relative)
        return path in self._unsaved or os.path.isfile(path)

    def uses_spark(self, script: str = "") -> bool | None:
        """Return whether `script` uses Spark; if `script` is "", whether any script or notebook of the project does.

        Return None if none can be read.
        """
        uses = [_SPARK.search(text) is not None for text in self._code(script)]
        return any(uses) if uses else None

    def imported_modules(self, script: str = "") -> set[str] | None:
        """Return the names after `import` or `from` in `script`, or in all scripts and notebooks of the project.

        Return None if none can be read.
        """
        modules = [{os.fsdecode(name) for name in _IMPORT.findall(text)} for text in self._code(script)]
        return set().union(*modules) if modules else None

    def _code(self, script: str) -> Iterator[bytes]:
        """Yield the beginning of `script`, or of up to MOST_SCRIPTS Python files and notebooks of the project."""
        paths = [self.absolute(script)] if script else project_files(self.root)
        for path in islice((path for path in paths if path.endswith((".py", ".ipynb"))), MOST_SCRIPTS):
            with contextlib.suppress(OSError), open_regular(os.path.realpath(path)) as file:
                yield file.read(SCRIPT_BYTES)

    def scripts(self, script: str = "") -> Iterator[tuple[str, bytes]]:
        """Yield the name and the beginning of `script`; if this is "", of each Python file in the project folder."""
        names = [script] if script else []
        with contextlib.suppress(OSError):
            names = names or sorted(os.listdir(self.root))
        for name in names:
            with contextlib.suppress(OSError):
                if name.endswith(".py") and os.path.isfile(path := self.absolute(name)):
                    with open_file(path) as file:
                        yield name, file.read(SCRIPT_BYTES)

    def old_data_files(self) -> list[str]:
        """Return the files of the project that are or use data sources of Azure ML Workbench."""
        now = time.monotonic()
        if self._old_data is None or now - self._old_data[0] > _OLD_DATA_SECONDS:
            self._old_data = (now, old_data_files(self.root))
        return self._old_data[1]

    def tree(self, path: str) -> Tree | None:
        """Return the parsed file at `path`, or None if it does not exist or is not valid YAML."""
        parsed = self._load(path)
        return parsed.tree if parsed is not None else None

    def _load(self, path: str) -> _Parsed | None:
        path = os.path.abspath(path)
        unsaved = self._unsaved.get(path)
        try:
            # The signature is taken before the file is read: a file that changes in between is read again next time.
            signature: object = unsaved if unsaved is not None else files.signature(path)
            if signature is None:
                return None
            cached = self._read.get(path)
            if cached is None or cached[0] != signature:
                tree = parse(unsaved if unsaved is not None else read(path).text, path)
                kind = kind_of(path, top_level_keys(tree)) or fields.CONDA
                cached = self._read[path] = (signature, _Parsed(tree, kind, read_fields(tree, kind).values))
        except WorkbenchError:
            self._read.pop(path, None)
            return None
        return cached[1]


class Subject:
    """A file to check, with its typed values and faults. `target_type` is set for `.compute` files.

    `instead` holds values that apply to a single run instead of those of the file, by key; None for an unset field.
    """

    def __init__(
        self,
        path: str,
        kind: FileKind,
        tree: Tree,
        context: ProjectContext | None,
        instead: Mapping[str, Any] | None = None,
    ) -> None:
        self.path = path
        self.kind = kind
        self.tree = tree
        self.context = context
        self.reading = read_fields(tree, kind)
        for key, value in (instead or {}).items():
            if value is None:
                self.reading.values.pop(key, None)
                self.reading.nodes.pop(key, None)
            else:
                self.reading.values[key] = value
        self.target_type = type_of(self.values) if kind is fields.COMPUTE else ""

    @property
    def name(self) -> str:
        """The name of the target or run configuration."""
        return os.path.splitext(os.path.basename(self.path))[0]

    @property
    def configuration(self) -> RunConfiguration:
        """The run configuration, for a file of either form."""
        return run_configuration_of(self.path, self.kind, self.values, {})

    @property
    def used_type(self) -> str:
        """The type of the target of a run configuration, or "" if it is unknown."""
        target = self.context.target(self.configuration.target) if self.context is not None else None
        return target.type if target is not None else ""

    @property
    def values(self) -> dict[str, Any]:
        """Typed values of the fields that are set, by key."""
        return self.reading.values

    @property
    def nodes(self) -> dict[str, Node]:
        """YAML nodes of the fields that are set, by key."""
        return self.reading.nodes

    def finding(
        self,
        code: str,
        message: str,
        remedy: str,
        key: str = "",
        fix: Fix | None = None,
        *,
        at: Node | tuple[int, int] | None = None,
        severity: str = "",
    ) -> Finding:
        """Return a finding at the node or span `at`.

        By default, the position is that of the value of the field `key`, or the start of the file if it is not set.
        """
        node = at or self.nodes.get(key)
        start, end = node if isinstance(node, tuple) else (node.start, node.end) if node is not None else (0, 0)
        line, column = self.tree.position(start)
        severity = severity or CODES[code].severity
        return Finding(severity, code, message, remedy, self.path, line, column, start, end, key, fix)
