"""An edit of any known real file changes only its value, and can be undone.

Each test goes through all files in one function, because pytest's own cost for the thousands of combinations would be
most of the time.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.conftest import corpus
from tui_workbench.config.checks.findings import ERROR
from tui_workbench.config.document import Document, FieldState
from tui_workbench.config.schema import field_types
from tui_workbench.config.yaml_edit.syntax import LIST, MAP, SCALAR, Node, find, plain_value, read

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tui_workbench.config.schema.field_types import Field

pytestmark = pytest.mark.corpus

NEW_TEXTS = ("a new value", "no", "0022", "C:\\dir: #1", 'say "hi"', "it's", "ünï", "two\nlines", "", "~")


@pytest.fixture(scope="module")
def paths() -> list[str]:
    """Every configuration file of the collection."""
    root = corpus()
    found = [os.path.join(folder, name) for folder, _, names in os.walk(root) for name in sorted(names)]
    return [path for path in sorted(found) if not path.endswith(".md")]


def new_values(field: Field) -> tuple[Any, ...]:
    """Return values of the field's type, including unusual ones."""
    if field.type == field_types.BOOLEAN:
        return True, False
    if field.type == field_types.INTEGER:
        return 7, 0
    if field.type == field_types.CHOICE:
        return field.choices
    if field.type == field_types.STRINGS:
        return ["$file", "--lr=0.1", "no"], ["one"]
    if field.type == field_types.MAPPING:
        return {"A": "1", "B C": "x: y"}, {"spark.app.name": "no"}
    if field.type == field_types.ROWS:
        return ([{"group": "g", "artifact": "a", "version": "1.0"}],)
    if field.type == field_types.DEPENDENCIES:
        return (["python=3.6", "numpy", {"pip": ["keras==2.1", "no"]}],)
    if field.type == field_types.ANY:
        return ({"my.dsource": {"Sampling": {"Sample": "Full"}}},)
    return NEW_TEXTS


def rows(path: str) -> Iterator[tuple[Document, FieldState]]:
    """Yield every field of the file's kind, each with a separate document."""
    for field in Document.open(path).kind.fields:
        document = Document.open(path)
        yield document, document.field(field.key)


def assert_only_value_changed(before: str, after: str, node: Node) -> None:
    """Check that all characters before and after the value are unchanged."""
    start = node.start
    # A value on the lines below its key is counted from the colon on.
    while start and before[start - 1] in " \n" and (node.is_null or node.kind != SCALAR):
        start -= 1
    # `CondaFile: ` already ends with a space.
    tail = before[node.end :].lstrip(" ") if node.start == node.end else before[node.end :]
    assert after.startswith(before[:start])
    assert after.endswith(tail)


def test_real_files_open_unchanged_without_unknown_keys(paths: list[str]) -> None:
    assert len(paths) >= 100
    for path in paths:
        document = Document.open(path)
        assert document.error is None, path
        assert document.reading.unknown == [], path
        assert document.reading.faults == [], path
        with open(path, "rb") as file:
            data = file.read()
        assert document.file.encode(document.text) == data, path
        loaded = yaml.safe_load(data)
        assert [*loaded] == [key.text for key, _ in document.tree.root.entries], path  # type: ignore[union-attr]


def test_setting_a_field_changes_only_its_value(paths: list[str]) -> None:
    done = 0
    for path in paths:
        for document, row in rows(path):
            if not row.is_set:
                continue
            before = document.text
            node = find(document.tree, row.path)
            assert node is not None
            old = plain_value(node) if node.kind != SCALAR or node.is_null else node.text
            for value in new_values(row.field):
                document.set(row.path, value)
                assert document.text != before or row.value == value or node.text == value
                assert_only_value_changed(before, document.text, node)
                read_back = document.field(row.key).value
                assert read_back == (tuple(value) if isinstance(value, list) else value) or row.field.type in (
                    field_types.DEPENDENCIES,
                    field_types.ROWS,
                )
                document.set(row.path, old)
                assert document.text == before, (path, row.key, value)
                done += 1
    assert done > 1000


def test_set_and_unset_of_a_new_field_restores_the_bytes(paths: list[str]) -> None:
    done = 0
    for path in paths:
        for document, row in rows(path):
            if row.is_set:
                continue
            before = document.text
            for value in new_values(row.field):
                document.set(row.path, value)
                after = document.text
                start = len(os.path.commonprefix((before, after)))  # noqa: RUF071 these are texts
                assert after.endswith(before[start:]), (path, row.key, "one piece was put in, and all else stays")
                document.unset(row.path)
                assert document.text == before, (path, row.key, value)
                done += 1
    assert done > 1000


def test_set_and_unset_in_separate_processes_restores_bytes(paths: list[str]) -> None:
    """Each edit is made in a separate document: removing an inserted value, or restoring a text, restores the file."""
    for path in paths:
        for document, row in rows(path):
            before = document.text
            for value in new_values(row.field):
                fresh = Document.open(path)
                fresh.set(row.path, value)
                other = Document(fresh.file._replace(text=fresh.text))
                if not row.is_set:
                    other.unset(row.path)
                    assert other.text == before, (path, row.key, value)
                elif row.field.type == field_types.STRING and row.value is not None:
                    other.set(row.path, row.value)
                    assert other.text == before, (path, row.key, value)


def test_setting_an_item_changes_only_its_value(paths: list[str]) -> None:
    done = 0
    for path in paths:
        first = Document.open(path)
        for row in first.fields():
            node = find(first.tree, row.path) if row.is_set else None
            if node is None or node.kind == SCALAR:
                continue
            steps: list[str | int] = [*range(len(node.items)), *[key.text for key, _ in node.entries]]
            for step in steps:
                item = find(first.tree, (*row.path, step))
                assert item is not None
                if item.kind != SCALAR:
                    continue
                for value in NEW_TEXTS[:5]:
                    document = Document.open(path)
                    document.set((*row.path, step), value)
                    assert_only_value_changed(first.text, document.text, item)
                    document.set((*row.path, step), item.text)
                    assert document.text == first.text, (path, row.path, step, value)
                    done += 1
    assert done > 500


def test_items_can_be_inserted_and_removed_everywhere(paths: list[str]) -> None:
    for path in paths:
        first = Document.open(path)
        for row in first.fields():
            node = find(first.tree, row.path) if row.is_set else None
            if node is None:
                continue
            if node.kind == LIST:
                for index in range(len(node.items) + 1):
                    document = Document.open(path)
                    document.insert_item(row.path, index, "new-item==1.0")
                    assert plain_value(find(document.tree, (*row.path, index))) == "new-item==1.0"
                    document.unset((*row.path, index))
                    assert document.text == first.text, (path, row.path, index)
            if node.kind == MAP or row.field.type == field_types.MAPPING:
                document = Document.open(path)
                document.set((*row.path, "NEW.KEY"), "1")
                assert document.field(row.key).value["NEW.KEY"] == "1"
                document.unset((*row.path, "NEW.KEY"))
                assert document.text == first.text, (path, row.path)


def test_removal_changes_nothing_else(paths: list[str]) -> None:
    for path in paths:
        first = Document.open(path)
        for row in first.fields():
            document = Document.open(path)
            document.unset(row.path)
            assert not row.is_set or document.text != first.text
            assert row.key not in document.reading.nodes
            others = {key: value for key, value in first.values.items() if key != row.key}
            assert document.values == others, (path, row.key)


def test_saved_bytes_differ_only_in_the_value(paths: list[str], tmp_path: Any) -> None:
    for path in paths:
        with open(path, "rb") as file:
            data = file.read()
        copy = str(tmp_path / os.path.basename(path))
        with open(copy, "wb") as file:
            file.write(data)
        document = Document.open(copy)
        row = next(
            row
            for row in document.fields()
            if row.is_set and row.field.type in (field_types.STRING, field_types.CHOICE, field_types.MAPPING)
        )
        old = document.get(row.path)
        value = (
            "localdocker" if row.field.choices else {"A": "B"} if row.field.type == field_types.MAPPING else "changed"
        )
        document.set(row.path, value)
        document.save()
        document.set(row.path, plain_value(find(first_tree(path), row.path)))
        document.save()
        with open(copy, "rb") as file:
            assert file.read() == data, (path, row.key, old)


def first_tree(path: str) -> Any:
    """Return the tree of the unchanged file."""
    from tui_workbench.config.yaml_edit.syntax import parse

    return parse(read(path).text)


def test_findings_have_a_position_and_their_fixes_apply(paths: list[str]) -> None:
    for path in paths:
        for finding in Document.open(path).problems():
            if finding.fix is None:
                continue
            document = Document.open(path)
            before = len(document.problems())
            document.apply(finding.fix)
            assert document.error is None, (path, finding)
            left = [(other.code, other.message) for other in document.problems()]
            assert (finding.code, finding.message) not in left or len(left) < before, (path, finding)
            assert not [code for code, _ in left if code == ERROR], (path, finding)
