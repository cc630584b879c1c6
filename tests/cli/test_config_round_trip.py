"""`config set` accepts the output of `config get` for every value in real files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conftest import corpus
from tui_workbench.config.changes import file_edits
from tui_workbench.config.document import Document
from tui_workbench.config.schema.field_types import written
from tui_workbench.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tui_workbench.config.yaml_edit.syntax import Node

pytestmark = pytest.mark.corpus


def test_set_accepts_the_output_of_get_unchanged(tmp_path: Path) -> None:
    done = 0
    for path in sorted(corpus().glob("*/*.*")):
        if path.suffix == ".md":
            continue
        data, copy = path.read_bytes(), tmp_path / path.name
        for key in keys_of(Document.open(str(path)).tree.root):
            copy.write_bytes(data)
            file_edits.set_text(str(copy), key, written(file_edits.get(str(copy), key)), any_key=True)
            assert copy.read_bytes() == data, (path, key)
            done += 1
    assert done > 1200


def test_set_restores_a_changed_value(tmp_path: Path) -> None:
    """An empty value `key:` becomes `key: null`."""
    done = 0
    for path in sorted(corpus().glob("*/*.*")):
        if path.suffix == ".md":
            continue
        data, copy = path.read_bytes(), tmp_path / path.name
        tree = Document.open(str(path)).tree
        for key in keys_of(tree.root, leaves=True):
            if key.startswith("dependencies"):
                continue  # most values are of this kind; tests/config/test_corpus.py changes each of them
            copy.write_bytes(data)
            printed = written(file_edits.get(str(copy), key))
            change(str(copy), key, printed)
            assert copy.read_bytes() != data or not printed, (path, key)
            file_edits.set_text(str(copy), key, printed, any_key=True)
            if printed == "null":
                assert Document.open(str(copy)).values == Document.open(str(path)).values
            else:
                assert copy.read_bytes() == data, (path, key)
            done += 1
    assert done > 400


def keys_of(node: Node | None, prefix: str = "", *, leaves: bool = False) -> Iterator[str]:
    """Yield every key of a file in the syntax of `config`."""
    steps = [(f"[{index}]", item) for index, item in enumerate(node.items)] if node is not None else []
    for name, value in node.entries if node is not None else []:
        quoted = f'"{name.text}"' if "." in name.text else name.text
        steps.append((f".{quoted}" if prefix else quoted, value))
    for step, value in steps:
        if value.kind == "scalar" or not leaves:
            yield prefix + step
        yield from keys_of(value, prefix + step, leaves=leaves)


def change(path: str, key: str, old: str) -> None:
    """Set the key to a different valid value."""
    for value in ("changed", "false", "true", "remote", "Python", "PySpark", "client", "cluster", "7", "{A: b}"):
        if value == old:
            continue
        try:
            file_edits.set_text(path, key, value, any_key=True)
        except UsageError:
            continue
        return
    raise AssertionError(key)
