"""Edits that look handmade: each test shows the text before and after."""

from __future__ import annotations

from typing import Any

import pytest

from tests.config.documents import document
from tui_workbench.config.yaml_edit.splices import EditRefusedError
from tui_workbench.config.yaml_edit.syntax import Path
from tui_workbench.core.errors import ConfigurationError


def after_set(text: str, path: Path | str, value: Any, name: str = "a.runconfig") -> str:
    editing = document(text, name)
    editing.set(path, value)
    return editing.text


def after_unset(text: str, path: Path | str, name: str = "a.runconfig") -> str:
    editing = document(text, name)
    editing.unset(path)
    return editing.text


@pytest.mark.parametrize(
    ("before", "value", "after"),
    [
        # Existing quotes are kept.
        ("Target: old # why\n", "new", "Target: new # why\n"),
        ("Target: 'old'  # why\n", "it's", "Target: 'it''s'  # why\n"),
        ('Target: "old"\n', 'a "b"', 'Target: "a \\"b\\""\n'),
        ('{"Target":"old"}', "new", '{"Target":"new"}'),
        ("{Target: old}", "a, b", '{Target: "a, b"}'),
        # Text that another parser would read as another type is quoted.
        ("Target: old\n", "no", 'Target: "no"\n'),
        ("Target: old\n", "0022", 'Target: "0022"\n'),
        ("Target: old\n", "1e3", 'Target: "1e3"\n'),
        ("Target: old\n", "2018-01-01", 'Target: "2018-01-01"\n'),
        ("Target: old\n", "", 'Target: ""\n'),
        ("Target: old\n", "~", 'Target: "~"\n'),
        ("Target: old\n", "a: b", 'Target: "a: b"\n'),
        ("Target: old\n", "a #b", 'Target: "a #b"\n'),
        ("Target: old\n", "- a", 'Target: "- a"\n'),
        ("Target: old\n", "*a", 'Target: "*a"\n'),
        ("Target: old\n", " a", 'Target: " a"\n'),
        ("Target: old\n", "a\tb\x07", 'Target: "a\\tb\\x07"\n'),
        ("Target: old\n", "a\nb", 'Target: "a\\nb"\n'),
        # Other text is not quoted, unless its neighbors are.
        ("Target: old\n", "C:\\dir\\x", "Target: C:\\dir\\x\n"),
        ("Target: old\n", "$file", "Target: $file\n"),
        ("Target: old\n", "--lr=0.1", "Target: --lr=0.1\n"),
        ('Target: "no"\n', "yes sir", "Target: yes sir\n"),
        ('Target: "no"\nFramework: "Python"\n', "box", 'Target: "box"\nFramework: "Python"\n'),
        # An empty value is filled in.
        ("Target:\n", "new", "Target: new\n"),
        ("Target: \n", "new", "Target: new\n"),
        ("Target: # why\n", "new", "Target: new # why\n"),
        ("Target: null # why\n", "new", "Target: new # why\n"),
        ("{Target, a: b}", "new", "{Target: new, a: b}"),
        # Values of several lines.
        ("Target: old\n  text\nFramework: x\n", "new", "Target: new\nFramework: x\n"),
        ("Target: |\n  old\n\nFramework: x\n", "a\nb\n", "Target: |\n  a\n  b\n\nFramework: x\n"),
        ("Target: >-\n    old\n    text\nFramework: x\n", "new", "Target: >-\n    new\nFramework: x\n"),
        ("Target:\n  - a\n  - b\nFramework: x\n", "new", "Target: new\nFramework: x\n"),
        # Aliases and anchors.
        ("a: &x 1\nTarget: *x\n", "new", "a: &x 1\nTarget: new\n"),
        ("Target: &x old\n", "new", "Target: &x new\n"),
        ("Target: !!str 5\n", "6", 'Target: "6"\n'),
    ],
)
def test_text_is_changed_in_place(before: str, value: str, after: str) -> None:
    assert after_set(before, "Target", value) == after


@pytest.mark.parametrize(
    ("before", "value", "after"),
    [
        ("nvidiaDocker: true\n", False, "nvidiaDocker: false\n"),
        ("nvidiaDocker: True\n", False, "nvidiaDocker: False\n"),
        ("nvidiaDocker: TRUE\n", False, "nvidiaDocker: FALSE\n"),
        ("nvidiaDocker: yes\n", False, "nvidiaDocker: no\n"),
        ("nvidiaDocker: Off\n", True, "nvidiaDocker: On\n"),
        ('nvidiaDocker: "true"\n', False, 'nvidiaDocker: "false"\n'),
        ("nvidiaDocker:\n", True, "nvidiaDocker: true\n"),
        ("nvidiaDocker: maybe\n", True, "nvidiaDocker: true\n"),
        ("nvidiaDocker: yes\n", True, "nvidiaDocker: yes\n"),
    ],
)
def test_boolean_keeps_the_spelling_of_the_file(before: str, value: bool, after: str) -> None:
    assert after_set(before, "nvidiaDocker", value, "a.compute") == after


def test_unquoted_number_is_replaced_by_an_unquoted_number() -> None:
    text = "EnvironmentVariables:\n  EPOCHS: 5\n  NAME: x\n"
    assert after_set(text, "EnvironmentVariables.EPOCHS", "6") == text.replace("5", "6")
    assert after_set(text, "EnvironmentVariables.EPOCHS", "no") == text.replace("5", '"no"')
    # A variable is always text, so that its old value can be restored.
    assert after_set(text, "EnvironmentVariables.NAME", "6") == text.replace("x", "6")
    assert after_set(text, "EnvironmentVariables.NAME", "0o6") == text.replace("x", '"0o6"')
    assert after_set("Target: local\n", "Target", "6") == 'Target: "6"\n'


@pytest.mark.parametrize(
    ("before", "key", "value", "after"),
    [
        # In the order of the schema.
        (
            "type: local\nnativeSharedDirectory: x\n",
            "pythonLocation",
            "p",
            "type: local\npythonLocation: p\nnativeSharedDirectory: x\n",
        ),
        # In the order of the alphabet where the file has it.
        (
            "address: h\nbaseDockerImage: i\nsharedVolumes: true\ntype: remotedocker\nusername: u\n",
            "nvidiaDocker",
            True,
            "address: h\nbaseDockerImage: i\nnvidiaDocker: true\nsharedVolumes: true\n"
            "type: remotedocker\nusername: u\n",
        ),
        # After its commented-out line.
        (
            'type: "localdocker"\n#nvidiaDocker: true\n#sharedVolumes: true\n',
            "nvidiaDocker",
            True,
            'type: "localdocker"\n#nvidiaDocker: true\nnvidiaDocker: true\n#sharedVolumes: true\n',
        ),
        # With the quotes of its neighbors, and without a final line end if it was missing.
        ('type: "local"', "pythonLocation", "python3", 'type: "local"\npythonLocation: "python3"'),
        # After the comment of the line above, before the blank line of the next paragraph.
        (
            "type: local  # this machine\n\n# shared\nnativeSharedDirectory: x\n",
            "pythonLocation",
            "p",
            "type: local  # this machine\npythonLocation: p\n\n# shared\nnativeSharedDirectory: x\n",
        ),
        # As the first key, if no key precedes it in the schema.
        ("pythonLocation: p\n", "type", "local", "type: local\npythonLocation: p\n"),
        # Never between a comment and the key that it describes.
        ("# The Python.\npythonLocation: p\n", "type", "local", "# The Python.\npythonLocation: p\ntype: local\n"),
        # Into an empty document: after comments, before the end of the document.
        ("", "type", "local", "type: local\n"),
        ("# head\n", "type", "local", "# head\ntype: local\n"),
        ("# head", "type", "local", "# head\ntype: local"),
        ("---\n...\n", "type", "local", "---\ntype: local\n...\n"),
        ("type: local\n...\n", "pythonLocation", "p", "type: local\npythonLocation: p\n...\n"),
        # JSON, dense and wide, on one line and on many.
        ('{"type":"local"}', "pythonLocation", "p", '{"type":"local", "pythonLocation":"p"}'),
        ('{"type": "local"}', "nvidiaDocker", True, '{"type": "local", "nvidiaDocker": true}'),
        ('{\n  "type":"local"\n}\n', "pythonLocation", "p", '{\n  "type":"local",\n  "pythonLocation":"p"\n}\n'),
        ("{}", "type", "local", '{"type": "local"}'),
        ("{type: local}  # c\n", "pythonLocation", "p", "{type: local, pythonLocation: p}  # c\n"),
        # Both kinds of line ends.
        (
            "type: local\r\nnativeSharedDirectory: x\n",
            "pythonLocation",
            "p",
            "type: local\r\npythonLocation: p\r\nnativeSharedDirectory: x\n",
        ),
        # A block scalar keeps its blank lines.
        ("type: |+\n  local\n\n\n", "pythonLocation", "p", "type: |+\n  local\n\n\npythonLocation: p\n"),
    ],
)
def test_new_key_is_inserted_in_schema_order(before: str, key: str, value: Any, after: str) -> None:
    assert after_set(before, key, value, "a.compute") == after
    assert after_unset(after, key, "a.compute") == before


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("EnvironmentVariables:\n  A: 1\n  B: 2\n", "EnvironmentVariables:\n  A: 1\n  B: 2\n  C: x\n"),
        ('EnvironmentVariables:\n  "A": "b"\n', 'EnvironmentVariables:\n  "A": "b"\n  "C": "x"\n'),
        ("EnvironmentVariables: null\n", "EnvironmentVariables:\n  C: x\n"),
        ("EnvironmentVariables: null # none\n", "EnvironmentVariables: # none\n  C: x\n"),
        ("EnvironmentVariables: {}\nTarget: x\n", "EnvironmentVariables:\n  C: x\nTarget: x\n"),
        ("EnvironmentVariables:\nTarget: x\n", "EnvironmentVariables:\n  C: x\nTarget: x\n"),
        ("EnvironmentVariables: {A: 1}\n", "EnvironmentVariables: {A: 1, C: x}\n"),
        ("Target: x\n", "Target: x\nEnvironmentVariables:\n  C: x\n"),
        ('{"EnvironmentVariables":{}}', '{"EnvironmentVariables":{"C": "x"}}'),
        ('{"Target":"x"}', '{"Target":"x", "EnvironmentVariables":{"C":"x"}}'),
    ],
)
def test_map_entry_is_added_and_removed(before: str, after: str) -> None:
    editing = document(before)
    editing.set("EnvironmentVariables.C", "x")
    assert editing.text == after
    editing.unset("EnvironmentVariables.C")
    assert editing.text == before


@pytest.mark.parametrize(
    ("before", "index", "after"),
    [
        ("ArgumentVector:\n- a\n- b\n", 0, "ArgumentVector:\n- x\n- a\n- b\n"),
        ("ArgumentVector:\n- a # A\n\n# of b\n- b\n", 1, "ArgumentVector:\n- a # A\n- x\n\n# of b\n- b\n"),
        ("ArgumentVector:\n  -   a\n", 1, "ArgumentVector:\n  -   a\n  -   x\n"),
        ('ArgumentVector:\n- "a"\n- "b"', 2, 'ArgumentVector:\n- "a"\n- "b"\n- "x"'),
        ("ArgumentVector: [a, b]\n", 1, "ArgumentVector: [a, x, b]\n"),
        ("ArgumentVector: []\n", 0, "ArgumentVector:\n  - x\n"),
        ("Target: t\n", 0, "ArgumentVector:\n  - x\nTarget: t\n"),
        ('{"ArgumentVector":[\n    "a"\n  ]}', 1, '{"ArgumentVector":[\n    "a",\n    "x"\n  ]}'),
        ('{"ArgumentVector":[\n    "a" # A\n  ]}', 1, '{"ArgumentVector":[\n    "a", # A\n    "x"\n  ]}'),
        ("ArgumentVector: [a,]\n", 1, "ArgumentVector: [a, x,]\n"),
    ],
)
def test_list_item_is_added_and_removed(before: str, index: int, after: str) -> None:
    editing = document(before)
    editing.insert_item("ArgumentVector", index, "x")
    assert editing.text == after
    editing.unset(("ArgumentVector", index))
    assert editing.text == before


def test_conda_and_pip_packages_are_added() -> None:
    text = (
        "name: e\ndependencies:\n  - python=3.5.2\n  # plots\n  - matplotlib\n  - pip:\n    # API\n    - keras==2.1.2\n"
    )
    editing = document(text, "conda_dependencies.yml")
    editing.insert_item("dependencies", 2, "numpy=1.13")
    assert editing.text == text.replace("  - pip:", "  - numpy=1.13\n  - pip:")
    editing.insert_item("dependencies.pip", 1, "h5py")
    assert editing.text.endswith("    - keras==2.1.2\n    - h5py\n")
    fresh = document("dependencies:\n  - python=3.5.2\n", "conda_dependencies.yml")
    fresh.insert_item("dependencies", 1, {"pip": ["keras"]})
    assert fresh.text == "dependencies:\n  - python=3.5.2\n  - pip:\n    - keras\n"


def test_new_row_follows_the_style_of_other_rows() -> None:
    text = 'packages:\n  - group: "a"\n    artifact: "b"\n    version: "1"\n'
    editing = document(text, "spark_dependencies.yml")
    editing.insert_item("packages", 1, {"group": "x", "artifact": "y", "version": "2"})
    assert editing.text == text + '  - group: "x"\n    artifact: "y"\n    version: "2"\n'
    editing.unset("packages[1].group")
    assert editing.text == text + '  - artifact: "y"\n    version: "2"\n'


@pytest.mark.parametrize(
    ("before", "path", "after"),
    [
        ("a: 1\nb: 2 # gone with it\nc: 3\n", ("b",), "a: 1\nc: 3\n"),
        ("# of a\na: 1\n# of b\nb: 2\n", ("b",), "# of a\na: 1\n# of b\n"),
        ("a: 1\nb: 2", ("b",), "a: 1"),
        ("a: 1\nb:\n  - x\n  - y\n# end\n", ("b",), "a: 1\n# end\n"),
        ("a: 1\n", ("a",), ""),
        ("# c\na: 1\n", ("a",), "# c\n"),
        ("a:\n  b: 1\n", ("a", "b"), "a: {}\n"),
        ("a:\n  # why\n  b: 1\n", ("a", "b"), "a: {}\n  # why\n"),
        ("a:\n- b\n", ("a", 0), "a: []\n"),
        ("a:\n- b\n- c # C\n- d\n", ("a", 1), "a:\n- b\n- d\n"),
        ("a: [b, c, d]\n", ("a", 0), "a: [c, d]\n"),
        ("a: [b, c, d]\n", ("a", 2), "a: [b, c]\n"),
        ("a: [ b ]\n", ("a", 0), "a: [  ]\n"),
        ("- b: 1\n  c: 2\n", (0, "b"), "- c: 2\n"),
        ("- b: 1\n  # c\n  c: 2\n", (0, "b"), "- \n  # c\n  c: 2\n"),
        ('{\n  "a": 1,\n  "b": 2\n}\n', ("b",), '{\n  "a": 1\n}\n'),
        ('{\n  "a": 1\n}\n', ("a",), "{}\n"),
        ("? a\n: 1\n? b\n: 2\n", ("a",), "? b\n: 2\n"),
        ("a: 1\nb: 2\na: 3\n", ("a",), "b: 2\n"),
        ("a: 1\n", ("z",), "a: 1\n"),
    ],
)
def test_unset_removes_only_its_line(before: str, path: Path, after: str) -> None:
    assert after_unset(before, path) == after


def test_replaced_list_or_map_keeps_bytes_of_equal_items() -> None:
    text = "ArgumentVector:\n  - train.py  # the script\n  - --lr\n  - '0.1'  # tuned\nTarget: t\n"
    assert after_set(text, "ArgumentVector", ["train.py", "--lr", "0.2"]) == text.replace("0.1", "0.2")
    assert after_set(text, "ArgumentVector", ["train.py", "-v", "--lr", "0.1"]) == text.replace(
        "  - --lr", "  - -v\n  - --lr"
    )
    assert after_set(text, "ArgumentVector", ["train.py"]) == "ArgumentVector:\n  - train.py  # the script\nTarget: t\n"
    variables = "EnvironmentVariables:\n  A: x # a\n  B: y # b\n"
    assert after_set(variables, "EnvironmentVariables", {"B": "y", "C": "z"}) == (
        "EnvironmentVariables:\n  B: y # b\n  C: z\n"
    )


def test_missing_parent_maps_are_created() -> None:
    assert after_set("script: t.py\n", "environment.docker.gpuSupport", True) == (
        "script: t.py\nenvironment:\n  docker:\n    gpuSupport: true\n"
    )
    assert after_set("environment:\n  docker:\nscript: t.py\n", "environment.docker.gpuSupport", True) == (
        "environment:\n  docker:\n    gpuSupport: true\nscript: t.py\n"
    )


def test_key_is_renamed_in_place() -> None:
    editing = document('Target: x\n"CondaFile": a.yml  # env\n')
    editing.rename_key("CondaFile", "CondaDependenciesFile")
    assert editing.text == 'Target: x\n"CondaDependenciesFile": a.yml  # env\n'
    with pytest.raises(EditRefusedError, match="already exists"):
        editing.rename_key("CondaDependenciesFile", "Target")
    with pytest.raises(EditRefusedError, match="the key `none` does not exist"):
        editing.rename_key("none", "other")


@pytest.mark.parametrize(
    ("text", "path", "said"),
    [
        ("a: &x {k: 1}\nb: *x\n", ("a", "k"), "is used again as the alias"),
        ("a: &x {k: 1}\nb: *x\n", ("b", "k"), "is part of the alias"),
        ("a: &x 1\nb: *x\n", ("a",), "is used again as the alias"),
        ("a: text\n", ("a", "k"), "is not a map"),
        ("a: [b]\n", ("a", 5), "has no item 5"),
        ("a: text\n", ("b", 1), "the list for"),
    ],
)
def test_edit_that_changes_other_values_is_refused(text: str, path: Path, said: str) -> None:
    editing = document(text)
    with pytest.raises(EditRefusedError, match=said) as caught:
        editing.set(path, "new")
    assert caught.value.remedy
    assert editing.text == text


def test_key_that_occurs_very_often_is_not_removed() -> None:
    editing = document("a: 1\n" * 30)
    with pytest.raises(EditRefusedError, match="`a` occurs 30 times") as caught:
        editing.unset("a")
    assert "text editor" in caught.value.remedy
    assert editing.text == "a: 1\n" * 30


def test_lone_surrogate_cannot_be_written() -> None:
    editing = document("Target: x\n")
    with pytest.raises(ConfigurationError, match="surrogate"):
        editing.set("Target", "\ud800")
    assert editing.text == "Target: x\n"
