"""The SDK runs on Python 3.5 and later, with the standard library only."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from tui_workbench.targets.base.run_environment import NOTEBOOK_LAUNCHER
from tui_workbench.targets.hosts.sdk import sdk_files, sdk_version
from tui_workbench.targets.values import SDK_FOLDER

SOURCES = sorted(Path(SDK_FOLDER).rglob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(SDK_FOLDER)))
def test_sdk_parses_as_python_3_5(path: Path) -> None:
    ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 5))
    with pytest.raises(SyntaxError):
        ast.parse("x: int = 1", feature_version=(3, 5))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(SDK_FOLDER)))
def test_sdk_has_no_newer_syntax_that_the_parser_accepts(path: Path) -> None:
    """f-strings (3.6), a comma after `*arguments` in a definition (3.6), and `from __future__` imports (3.7)."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    assert "__future__" not in text
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and (node.args.kwarg or node.args.vararg):
            head = "".join(text.splitlines()[node.lineno - 1 : node.body[0].lineno - 1]).partition(" -> ")[0]
            assert not head.replace(" ", "").endswith(",)")


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(SDK_FOLDER)))
def test_sdk_imports_only_the_standard_library(path: Path) -> None:
    imported = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").partition(".")[0])
    jupyter = {"nbclient", "nbformat", "ipykernel", "jupyter_client"} if path.name == NOTEBOOK_LAUNCHER else set()
    assert imported <= {*sys.stdlib_module_names, "workbench", "workbench_children", "azureml", *jupyter}


def test_every_sdk_file_is_sent_to_other_machines() -> None:
    assert set(sdk_files()) == {str(path.relative_to(SDK_FOLDER)) for path in SOURCES}
    assert sdk_version() == sdk_version()
