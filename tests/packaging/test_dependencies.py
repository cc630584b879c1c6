"""What is imported is declared: a new environment has everything that the program and its tests need."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

from tests.conftest import REPOSITORY

OURS = {"tui_workbench", "tests", "benchmarks", "docs", "workbench", "azureml"}
"""The last two are what scripts may import: modules of ours in `tui_workbench/sdk`."""

TEMPLATES = REPOSITORY / "tui_workbench" / "templates_data"
"""Projects that users begin with, which bring what they need."""

BROUGHT_BY_DOCKER = {"requests", "urllib3"}


def imported_by(*folders: str) -> dict[str, str]:
    """The modules of others that are imported below these folders, and a file that does so."""
    found: dict[str, str] = {}
    paths = [path for folder in folders for path in (REPOSITORY / folder).rglob("*.py")]
    for path in sorted(path for path in paths if not path.is_relative_to(TEMPLATES)):
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
    """The distributions that an installation with these extras asks for, in lower case."""
    project = tomllib.loads(Path(REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    requirements = list(project["dependencies"])
    for extra in extras:
        requirements += project["optional-dependencies"][extra]
    return {re.split(r"[\[<>=~! ;]", requirement)[0].lower() for requirement in requirements}


def undeclared(modules: dict[str, str], distributions: set[str]) -> dict[str, str]:
    known = packages_distributions()
    return {
        module: file
        for module, file in modules.items()
        if module not in BROUGHT_BY_DOCKER
        and not distributions & {name.lower() for name in known.get(module, [module])}
    }


def test_what_the_program_imports_is_a_dependency() -> None:
    # `lint-imports` sees to it that only the server of browsers imports what its extra brings.
    assert undeclared(imported_by("tui_workbench"), declared("serve")) == {}


def test_what_the_tests_and_benchmarks_import_is_in_the_test_extra() -> None:
    assert undeclared(imported_by("tests", "benchmarks"), declared("test")) == {}
