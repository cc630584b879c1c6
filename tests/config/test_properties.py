"""Properties of documents in any style: `test_corpus` for generated documents."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from tests.config.documents import KEYS, TEXTS, VALUES, document, texts
from tui_workbench.config.yaml_edit.scalars import means
from tui_workbench.config.yaml_edit.splices import EditRefusedError, image
from tui_workbench.config.yaml_edit.syntax import LIST, MAP, SCALAR, Node, Path, Tree, find, parse, plain_value
from tui_workbench.core.errors import ConfigurationError

pytestmark = pytest.mark.slow


def paths_of(tree: Tree) -> list[tuple[Path, Node]]:
    """Every value of the tree with its path, except the root."""
    found: list[tuple[Path, Node]] = []

    def walk(node: Node, path: Path) -> None:
        steps: list[tuple[str | int, Node]] = [(key.text, value) for key, value in node.entries]
        steps += list(enumerate(node.items))
        for step, value in steps:
            found.append(((*path, step), value))
            walk(value, (*path, step))

    if tree.root is not None:
        walk(tree.root, ())
    return found


def parsed(text: str) -> Tree:
    """Return the tree of a generated text; skip texts that are not valid YAML."""
    try:
        return parse(text)
    except ConfigurationError:
        assume(False)
        raise


@settings(max_examples=150)
@given(text=texts(), value=VALUES, data=st.data())
def test_set_changes_only_the_value_and_can_be_reverted(text: str, value: Any, data: st.DataObject) -> None:
    tree = parsed(text)
    scalars = [(path, node) for path, node in paths_of(tree) if node.kind == SCALAR]
    assume(scalars)
    path, node = data.draw(st.sampled_from(scalars))
    editing = document(text)
    editing.set(path, value)
    after = editing.tree
    changed = find(after, path)
    assert changed is not None
    assert means(changed, value)
    assert image(after.root, path) == image(tree.root, path)
    # All bytes before and after the value are unchanged.
    start, end = node.start, len(text) - node.end
    assert editing.text[:start] == text[:start] or node.start == node.end
    assert editing.text.endswith(text[len(text) - end :])
    editing.set(path, node.text if not node.is_null else None)
    assert editing.text == text


@settings(max_examples=150)
@given(text=texts(), key=KEYS, value=VALUES, data=st.data())
def test_inserting_and_removing_a_key_restores_the_bytes(text: str, key: str, value: Any, data: st.DataObject) -> None:
    tree = parsed(text)
    assume(tree.root is not None and tree.root.kind == MAP)
    maps: list[Path] = [(), *[path for path, node in paths_of(tree) if node.kind == MAP]]
    here = data.draw(st.sampled_from(maps))
    path = (*here, key)
    assume(find(tree, path) is None)
    editing = document(text)
    editing.set(path, value)
    inserted = find(editing.tree, path)
    assert inserted is not None
    assert means(inserted, value)
    assert image(editing.tree.root, path) == image(tree.root, path)
    editing.unset(path)
    assert editing.text == text


@settings(max_examples=150)
@given(text=texts(), value=TEXTS, data=st.data())
def test_inserting_and_removing_an_item_restores_the_bytes(text: str, value: str, data: st.DataObject) -> None:
    tree = parsed(text)
    lists = [(path, node) for path, node in paths_of(tree) if node.kind == LIST]
    assume(lists)
    path, node = data.draw(st.sampled_from(lists))
    index = data.draw(st.integers(0, len(node.items)))
    editing = document(text)
    editing.insert_item(path, index, value)
    assert plain_value(find(editing.tree, path)) == [
        *[plain_value(item) for item in node.items[:index]],
        value,
        *[plain_value(item) for item in node.items[index:]],
    ]
    editing.unset((*path, index))
    assert editing.text == text


@settings(max_examples=150)
@given(text=texts(), data=st.data())
def test_removal_changes_nothing_else(text: str, data: st.DataObject) -> None:
    tree = parsed(text)
    everything = paths_of(tree)
    assume(everything)
    path, _ = data.draw(st.sampled_from(everything))
    editing = document(text)
    try:
        editing.unset(path)
    except EditRefusedError:
        # Allowed only if there is a comment between a dash and the next key.
        assert "#" in text
        return
    if isinstance(path[-1], str):
        assert find(editing.tree, path) is None
        assert image(editing.tree.root, path) == image(tree.root, path)


@settings(max_examples=150)
@given(text=texts(), data=st.data())
def test_moving_an_item_back_restores_the_bytes(text: str, data: st.DataObject) -> None:
    tree = parsed(text)
    # Blank lines below a text that keeps them (`|+`) belong to it, so the comments above an item may have to stay.
    assume(not re.search(r"[|>]\d?\+", text))
    lists = [(path, node) for path, node in paths_of(tree) if node.kind == LIST and len(node.items) > 1]
    assume(lists)
    path, node = data.draw(st.sampled_from(lists))
    index = data.draw(st.integers(0, len(node.items) - 1))
    to = data.draw(st.integers(0, len(node.items) - 1))
    order = [image(item) for item in node.items]
    order.insert(to, order.pop(index))
    editing = document(text)
    editing.move_item(path, index, to)
    moved = find(editing.tree, path)
    assert moved is not None
    assert [image(item) for item in moved.items] == order
    assert image(editing.tree.root, path) == image(tree.root, path)
    editing.move_item(path, to, index)
    assert editing.text == text


@settings(max_examples=150)
@given(
    text=st.one_of(
        texts(),
        st.text(max_size=80),
        st.text(st.sampled_from(" \t\n-:#'\"[]{}|>&*!%@,?abT\r\x85\u2028\ufeff~<=."), max_size=60),
    ),
    name=st.sampled_from(["a.compute", "a.runconfig", "conda_dependencies.yml", "spark_dependencies.yml"]),
)
@example("- &a [*a]", "a.compute")
@example("dependencies:\n- pip:\n  - \n  - {}\n-\n", "conda_dependencies.yml")
@example("Target: &t x\nFramework: *t\n", "a.runconfig")
def test_any_text_can_be_parsed_checked_and_shown(text: str, name: str) -> None:
    editing = document(text, name)
    findings = editing.problems()
    rows = editing.fields()
    assert (editing.error is not None) == (rows == [])
    for finding in findings:
        assert finding.message
        assert finding.remedy.endswith((".", "?"))
        assert 1 <= finding.line <= text.count("\n") + 1
        assert 0 <= finding.start <= finding.end <= len(text)
