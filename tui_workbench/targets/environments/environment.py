"""Recipes of environments: the packages of a conda environment file.

Recipes with the same inputs (packages, channels, options, content of local wheels, ID of the base image) have the same
name on every machine, so an image with that name is the environment.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from tui_workbench.config.checks.packages import (
    OPTION_REMEDY,
    Requirement,
    option_problem,
    requirements_of,
    split_option,
)
from tui_workbench.config.schema import fields
from tui_workbench.config.yaml_edit.syntax import LIST, MAP, SCALAR, Tree, parse, read
from tui_workbench.config.yaml_edit.values import valid_fields
from tui_workbench.core.errors import ConfigurationError, NotPrepared
from tui_workbench.core.files import open_file
from tui_workbench.core.model import RunSpec
from tui_workbench.core.progress import metered
from tui_workbench.projects.project import line_of_key
from tui_workbench.targets.values import Report

DEFAULT_FILE = "aml_config/conda_dependencies.yml"

FORM = 1  # version of the build procedure; images of another version are not used
_IMPLIED = frozenset(("pip", "python"))  # conda packages that `Recipe.conda` does not list
_VERSION = re.compile(r"\d+(?:\.\d+)*")


class Package(NamedTuple):
    """A package in a conda environment file; `file` is the path of a wheel or archive of the project, else ""."""

    text: str
    line: int
    file: str = ""


class Recipe(NamedTuple):
    """The packages of an environment, in the order of its conda environment file. `path` is this file, or ""."""

    path: str
    channels: tuple[str, ...] = ()
    python: Package | None = None
    conda: tuple[Package, ...] = ()
    pip: tuple[Package, ...] = ()
    options: tuple[str, ...] = ()  # options of pip, such as package indexes
    variables: Mapping[str, str] = {}

    def needs_conda(self, python_version: str) -> bool:
        """Return True if an image with this Python version needs conda to build the environment."""
        return bool(self.conda) or not self.python_fits(python_version)

    def python_fits(self, python_version: str) -> bool:
        return self.python is None or version_matches(self.python.text, python_version)

    def python_made(self, python_version: str) -> str:
        """Return the Python version of the environment that is built on an image with `python_version`.

        A version that conda installs is only as precise as the recipe's specification.
        """
        if not self.needs_conda(python_version) or self.python is None or self.python_fits(python_version):
            return python_version
        pinned = re.search(r"\d+\.\d+(\.\d+)?", self.python.text)
        return pinned[0] if pinned else python_version

    def is_met_by(self, python_version: str) -> bool:
        """Return True if an image with this Python version can be used without building an environment."""
        return not self.pip and not self.variables and not self.needs_conda(python_version)

    def lines(self, base_name: str, base_id: str) -> list[str]:
        """Return the recipe's inputs as lines, for the name of the environment and for comparison with others."""
        return [
            f"form {FORM}",
            f"base {base_name} {base_id}",
            *(f"channel {channel}" for channel in self.channels),
            *([f"conda {self.python.text}"] if self.python is not None else ()),
            *(f"conda {package.text}" for package in self.conda),
            *(f"pip option {option}" for option in self.options),
            *(f"pip {_input(package)}" for package in self.pip),
            *(f"variable {name}={value}" for name, value in self.variables.items()),
        ]

    def line_named_in(self, text: str) -> int:
        """Return the line of the package that an installer's error names first; 0 if the error names no package."""
        named = [(text.find(_bare_name(package.text)), package.line) for package in (*self.pip, *self.conda)]
        return min(((position, line) for position, line in named if position >= 0), default=(0, 0))[1]

    def tag(self, base_id: str) -> str:
        text = json.dumps(self.lines("", base_id)).encode("utf-8", "surrogateescape")
        return f"workbench-env:{hashlib.sha256(text).hexdigest()[:16]}"


def recipe_of(spec: RunSpec) -> Recipe:
    """Return the recipe of a run.

    The recipe is empty if no file is configured and the default file does not exist. Raises ConfigurationError, with
    the line number.
    """
    configuration = spec.run_configuration
    name = configuration.conda_dependencies_file or DEFAULT_FILE
    path = os.path.join(spec.project_root, name)
    # Read the file in the run's working copy as soon as it exists.
    root = spec.working_directory if os.path.isdir(spec.working_directory) else spec.project_root
    if not os.path.exists(os.path.join(root, name)):
        root = spec.project_root
    if not os.path.exists(path) and root == spec.project_root and not configuration.conda_dependencies_file:
        return Recipe("")
    return read_recipe(os.path.join(root, name), root, path)


def read_recipe(source: str, root: str, path: str = "") -> Recipe:
    """Read the conda environment file `source` of the project (or its copy) at `root`.

    `path` is the file to name in errors. Raises ConfigurationError, with the line number.
    """
    path = path or source
    tree = parse(read(source).text, path)
    valid_fields(tree, fields.CONDA, path)
    conda: list[Package] = []
    pip: list[Package] = []
    options: list[str] = []
    python: Package | None = None
    for requirement in requirements_of(tree.root):
        line = tree.position(requirement.start)[0]
        text = requirement.text.strip()
        if requirement.manager == "pip" and text.startswith("-"):
            options += _option(requirement, path, line)
        elif requirement.manager == "pip":
            pip.append(Package(text, line, _local_file(requirement, source, path, line, root)))
        elif requirement.name == "python":
            python = Package(text, line)
        elif requirement.name not in _IMPLIED:
            conda.append(Package(text, line))
    return Recipe(path, _texts(tree, "channels"), python, tuple(conda), tuple(pip), tuple(options), _variables(tree))


def cause(recipe: Recipe, lines: Sequence[str], earlier: Sequence[str] | None) -> str:
    """Return the reason why an environment must be built, with the file and, for a new package, its line.

    `earlier` holds the lines of the most similar existing environment; None without an environment.
    """
    if earlier is None:
        return "no environment has been built yet"
    old, new = set(earlier), set(lines)
    for line in lines:
        if line in old:
            continue
        kind, _, rest = line.partition(" ")
        if kind == "base":
            return f"the base image or interpreter, now {rest.split()[0]}, has changed"
        if kind == "form":
            return "the existing environment was built by another version of the workbench"
        location = _location(recipe, rest)
        return f"{location}`{rest.removeprefix('option ')}` is new"
    gone = next((line.partition(" ")[2] for line in earlier if line not in new), "")
    if gone:
        return f"{os.path.basename(recipe.path)}: `{gone.removeprefix('option ')}` was removed"
    return "the order of the packages changed"


def closest(lines: Sequence[str], candidates: Sequence[Sequence[str]]) -> Sequence[str] | None:
    """Return the candidate that has the most lines in common with `lines`; None without candidates."""
    return max(candidates, key=lambda candidate: len(set(lines) & set(candidate)), default=None)


def report_steps(report: Report, steps: Sequence[tuple[str, Callable[[], None]]]) -> None:
    """Run the steps of a build, and report their titles and times."""
    for number, (title, step) in enumerate(metered("building", "steps", steps), 1):
        label = f"step {number}/{len(steps)}"
        report.line(f"{label}: {title}")
        begun = time.monotonic()
        step()
        report.line(f"{label}: done ({time.monotonic() - begun:.1f} s)")


def not_prepared(spec: RunSpec, why: str, host: str = "") -> NotPrepared:
    """Return the error for an environment that must be built although the run configuration forbids it."""
    configuration = spec.run_configuration
    key = configuration.key("PrepareEnvironment")
    return NotPrepared(
        f"the environment is not prepared{f' on {host}' if host else ''} ({why}), and {key} is false",
        remedy=f"Run `workbench-tui experiment prepare -c {shlex.quote(configuration.name)}`, or set `{key}: true`.",
        file=configuration.path,
        line=line_of_key(configuration.path, key),
    )


def version_matches(text: str, version: str) -> bool:
    """Return True if a version meets a conda specification such as `python=3.6` or `python >=3.8,<3.12`."""
    spec = re.sub(r"\A[\w.-]+::", "", text.strip())
    spec = re.sub(r"\A[A-Za-z][\w.-]*", "", spec).strip()
    return any(
        all(_term_matches(term.strip(), version) for term in alternative.split(",") if term.strip())
        for alternative in spec.split("|")
    )


def _term_matches(term: str, version: str) -> bool:
    match = re.match(r"(==|>=|<=|!=|~=|=|>|<)?\s*(.*)", term)
    operator, number = (match[1] or "", match[2].split()[0] if match[2].split() else "") if match else ("", "")
    # `=3.6=build` and `3.6=build` pin a build after the version.
    number = number.split("=")[0]
    numbers = _VERSION.match(number)
    if numbers is None:
        return True
    fuzzy = number.endswith("*") or operator in ("=", "~=")
    want = tuple(map(int, numbers[0].split(".")))
    have = tuple(map(int, _VERSION.match(version)[0].split(".")))  # type: ignore[index]  # an interpreter's own version
    equal = have[: len(want)] == want if fuzzy or not operator else _trimmed(have) == _trimmed(want)
    if operator == "!=":
        return not equal
    if operator in ("", "=", "=="):
        return equal
    if operator == "~=":
        return have >= want and have[: len(want) - 1] == want[:-1]
    left, right = _trimmed(have), _trimmed(want)
    return {">=": left >= right, "<=": left <= right, ">": left > right, "<": left < right}[operator]


def _trimmed(numbers: tuple[int, ...]) -> tuple[int, ...]:
    return _trimmed(numbers[:-1]) if numbers[-1:] == (0,) else numbers


def _option(requirement: Requirement, path: str, line: int) -> list[str]:
    """Return a pip option as arguments. Raises ConfigurationError for an option that is not supported."""
    problem = option_problem(requirement)
    if problem:
        raise ConfigurationError(problem, remedy=OPTION_REMEDY, file=path, line=line)
    word, value = split_option(requirement.text)
    return [word, *([value] if value else [])]


def _local_file(requirement: Requirement, source: str, path: str, line: int, root: str) -> str:
    """Return the path of a wheel or archive that a requirement names; "" for a package of an index or a URL.

    Raises ConfigurationError if there is no such file.
    """
    name = requirement.url
    if not name or "://" in name:
        return ""
    for folder in (os.path.dirname(source), root):
        file = os.path.abspath(os.path.join(folder, os.path.expanduser(name)))
        if os.path.isfile(file):
            return file
    raise ConfigurationError(
        f"file not found: {name}",
        remedy="Give the path of a wheel or archive relative to the project, or the name of a package.",
        file=path,
        line=line,
    )


def _input(package: Package) -> str:
    if not package.file:
        return package.text
    with open_file(package.file) as file:
        return f"{package.text} sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def _bare_name(text: str) -> str:
    match = re.match(r"[\w.-]+", text)
    return match[0] if match else text


def _location(recipe: Recipe, text: str) -> str:
    packages = (*recipe.conda, *recipe.pip, *([recipe.python] if recipe.python else ()))
    line = next((package.line for package in packages if text.startswith(package.text)), 0)
    name = os.path.basename(recipe.path)
    return f"{name}:{line}: " if line else f"{name}: "


def _texts(tree: Tree, key: str) -> tuple[str, ...]:
    node = tree.root.get(key) if tree.root is not None and tree.root.kind == MAP else None
    if node is None or node.kind != LIST:
        return ()
    return tuple(item.text.strip() for item in node.items if item.kind == SCALAR)


def _variables(tree: Tree) -> dict[str, str]:
    node = tree.root.get("variables") if tree.root is not None and tree.root.kind == MAP else None
    if node is None or node.kind != MAP:
        return {}
    return {key.text: value.text for key, value in node.entries if value.kind == SCALAR}
