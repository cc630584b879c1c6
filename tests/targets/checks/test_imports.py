"""The frameworks that a script imports, directly or through modules of its project."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.notebooks import markdown, notebook
from tui_workbench.targets.checks.imported_frameworks import imported_frameworks


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("import torch\n", {"PyTorch"}),
        ("import os, torch as t\n", {"PyTorch"}),
        ("def f():\n    from torch.utils import data\nimport jax.numpy as jnp\n", {"PyTorch", "JAX"}),
        ("import tensorflow as tf\n", {"TensorFlow"}),
        ("import torchvision\n", {"PyTorch"}),
        ("import flax.linen\n", {"JAX"}),
        ("print 'Python 2'\nimport cntk\n", {"CNTK"}),
        ("print('import torch')\n# import cntk\nimport torches\n", set()),
    ],
)
def test_imported_frameworks_are_found(tmp_path: Path, text: str, named: set[str]) -> None:
    (tmp_path / "train.py").write_text(text)
    assert imported_frameworks(str(tmp_path), "train.py") == named


@pytest.mark.parametrize(
    ("text", "module"),
    [
        ("import model\n", "model.py"),
        ("from nets import deep\n", "nets/deep.py"),
        ("import nets.deep.core\n", "nets/deep/core.py"),
        ("from nets import thing\n", "nets/__init__.py"),
    ],
)
def test_modules_of_the_project_are_followed(tmp_path: Path, text: str, module: str) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text(text)
    path = tmp_path / "src" / module
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("import torch\n")
    assert imported_frameworks(str(tmp_path), "src/train.py") == {"PyTorch"}


def test_relative_and_circular_imports_are_followed(tmp_path: Path) -> None:
    package = tmp_path / "nets"
    package.mkdir()
    (tmp_path / "train.py").write_text("from nets.a import x\n")
    (package / "a.py").write_text("from . import b\nfrom ..train import y\n")
    (package / "b.py").write_text("from .a import x\nfrom .c import z\n")
    (package / "c.py").write_text("import jax\n")
    assert imported_frameworks(str(tmp_path), "train.py") == {"JAX"}


def test_cells_of_a_notebook_are_read(tmp_path: Path) -> None:
    (tmp_path / "train.ipynb").write_text(notebook(markdown("import jax"), "%load_ext x\nimport torch"))
    assert imported_frameworks(str(tmp_path), "train.ipynb") == {"PyTorch"}


def test_missing_script_imports_nothing() -> None:
    assert imported_frameworks("/no/such", "script.py") == frozenset()
