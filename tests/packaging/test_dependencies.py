"""All imports are declared as dependencies."""

from __future__ import annotations

import ast
import functools
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

pytestmark = pytest.mark.packaging

OURS = {"tui_workbench", "tests", "benchmarks", "docs", "workbench", "azureml", "workbench_children"}
"""The last three are modules of `tui_workbench/sdk`, which scripts and the launcher of ranks import."""

TEMPLATES = REPOSITORY / "tui_workbench" / "templates_data"
"""Templates and samples, which declare their dependencies themselves."""

IN_RUNS = REPOSITORY / "tui_workbench" / "sdk" / "workbench_notebook.py"
"""A file that only the Python of a run executes, with the packages of the run."""

distributions_of_packages = functools.cache(packages_distributions)  # it reads the files of all distributions

BROUGHT_BY_DOCKER = {"requests", "urllib3"}


def imported_by(*folders: str) -> dict[str, str]:
    """Return the third-party modules that these folders import, each with a file that imports it."""
    found: dict[str, str] = {}
    paths = [path for folder in folders for path in (REPOSITORY / folder).rglob("*.py")]
    for path in sorted(path for path in paths if path != IN_RUNS and not path.is_relative_to(TEMPLATES)):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            for name in names:
                found[name.partition(".")[0]] = str(path.relative_to(REPOSITORY))
    return {name: file for name, file in found.items() if name not in OURS | set(sys.stdlib_module_names)}


def declared(*extras: str) -> set[str]:
    """Return the distributions that an installation with these extras requires, in lower case."""
    project = tomllib.loads(Path(REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    requirements = list(project["dependencies"])
    for extra in extras:
        requirements += project["optional-dependencies"][extra]
    return {re.split(r"[\[<>=~! ;]", requirement)[0].lower() for requirement in requirements}


def undeclared(modules: dict[str, str], distributions: set[str]) -> dict[str, str]:
    known = distributions_of_packages()
    return {
        module: file
        for module, file in modules.items()
        if module not in BROUGHT_BY_DOCKER
        and not distributions & {name.lower() for name in known.get(module, [module])}
    }


def test_imports_of_the_program_are_dependencies() -> None:
    # `lint-imports` checks that only one module imports the packages of each extra.
    assert undeclared(imported_by("tui_workbench"), declared("serve", "notify", "agents")) == {}


def test_imports_of_tests_are_in_the_test_extra() -> None:
    assert undeclared(imported_by("tests", "benchmarks"), declared("test")) == {}
