"""Documents: text, form, and saving without overwriting other changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.config.documents import document, in_project, project
from tui_workbench.config.checks.findings import Fix, SetValue
from tui_workbench.config.document import Document
from tui_workbench.config.yaml_edit.splices import EditRefusedError
from tui_workbench.core.errors import ConfigurationError, UsageError
from tui_workbench.core.text_files import FileChangedError

COMPUTE = 'type: "localdocker"\nbaseDockerImage: "python:3.12"\n# unknown to all\nodd: 1\n'


def test_form_lists_set_fields_before_unset_ones() -> None:
    rows = document(COMPUTE, "box.compute").fields()
    assert [row.key for row in rows] == [
        "type",
        "baseDockerImage",
        "odd",
        "nvidiaDocker",
        "gpus",
        "gpuReservations",
        "sharedVolumes",
        "nativeSharedDirectory",
        "maxConcurrentRuns",
    ]
    image = rows[1]
    assert (image.value, image.is_set, image.is_known, image.line) == ("python:3.12", True, True, 2)
    assert image.span is not None
    assert COMPUTE[slice(*image.span)] == '"python:3.12"'
    odd = rows[2]
    assert (odd.value, odd.is_set, odd.is_known) == (1, True, False)
    assert [problem.code for problem in odd.problems] == ["unknown-key"]
    nvidia = rows[3]
    assert (nvidia.value, nvidia.field.default, nvidia.is_set, nvidia.span, nvidia.line) == (
        None,
        False,
        False,
        None,
        0,
    )


def test_old_and_foreign_fields_are_listed_only_if_set() -> None:
    keys = [
        row.key
        for row in document("type: cluster\naddress: h\ncluster: True\nnvidiaDocker: true\n", "x.compute").fields()
    ]
    assert keys[:4] == ["type", "address", "cluster", "nvidiaDocker"]
    assert "yarnDeployMode" in keys
    assert {"native", "sharedVolumes", "runRoot"}.isdisjoint(keys)


def test_fields_of_nested_maps_are_rows() -> None:
    editing = document("script: t.py\ntarget: x\nenvironment:\n  docker:\n    gpuSupport: false\n")
    assert editing.kind.name == "sdk-runconfig"
    row = editing.field("environment.docker.gpuSupport")
    assert (row.value, row.line, row.path) == (False, 5, ("environment", "docker", "gpuSupport"))
    editing.set(row.path, True)
    assert editing.text.endswith("gpuSupport: true\n")


def test_unknown_field_raises_usage_error() -> None:
    with pytest.raises(UsageError, match="unknown field 'nope'"):
        document(COMPUTE, "x.compute").field("nope")


def test_get_returns_typed_or_plain_values() -> None:
    editing = document("Target: 0022\nEnvironmentVariables: {a.b: no}\nArgumentVector: [x, 1.0]\nother: {y: 3}\n")
    assert editing.get("Target") == "0022"
    assert editing.get("EnvironmentVariables.a.b") == "no"
    assert editing.get("ArgumentVector") == ("x", "1.0")
    assert editing.get("ArgumentVector[1]") == "1.0"
    assert editing.get("EnvironmentVariables") == {"a.b": "no"}
    assert editing.get("other.y") == 3
    assert editing.get("Framework") is None


def test_failed_step_is_undone() -> None:
    editing = document("Target: a\nFramework: Python\n")
    with pytest.raises(EditRefusedError), editing.step():
        _set_and_fail(editing)
    assert editing.text == "Target: a\nFramework: Python\n"


def _set_and_fail(editing: Document) -> None:
    editing.set("Target", "c")
    editing.rename_key("Target", "Framework")


@pytest.mark.parametrize(
    ("before", "index", "to", "after"),
    [
        ("ArgumentVector:\n- a\n- no\n- 1.0\n", 2, 0, "ArgumentVector:\n- 1.0\n- a\n- no\n"),
        (
            "ArgumentVector:\n- a # A\n\n# of b\n- b\nTarget: t",
            0,
            1,
            "ArgumentVector:\n\n# of b\n- b\n- a # A\nTarget: t",
        ),
        ("ArgumentVector:\n- a\n- b", 1, 0, "ArgumentVector:\n- b\n- a"),
        ("ArgumentVector: [a, 'b',  c]\n", 0, 2, "ArgumentVector: ['b', c,  a]\n"),
        ("ArgumentVector:\r\n- a\n- b\r\n", 0, 1, "ArgumentVector:\r\n- b\n- a\r\n"),
    ],
)
def test_item_is_moved_with_its_line(before: str, index: int, to: int, after: str) -> None:
    editing = document(before)
    editing.move_item("ArgumentVector", index, to)
    assert editing.text == after
    with pytest.raises(EditRefusedError, match="has no item 9"):
        editing.move_item("ArgumentVector", 0, 9)


def test_move_refuses_a_value_that_is_not_a_list() -> None:
    with pytest.raises(EditRefusedError, match="`ArgumentVector` is not a list"):
        document("ArgumentVector: a\n").move_item("ArgumentVector", 0, 1)


def test_item_of_several_keys_is_moved_completely() -> None:
    rows = "packages:\n# one\n- group: a\n  artifact: b\n  version: 1\n# two\n- {group: c, artifact: d, version: 2}\n"
    editing = document(rows, "spark_dependencies.yml")
    editing.move_item("packages", 1, 0)
    assert editing.text == (
        "packages:\n# two\n- {group: c, artifact: d, version: 2}\n# one\n- group: a\n  artifact: b\n  version: 1\n"
    )


def test_form_of_broken_text_is_empty() -> None:
    editing = document("Target: a\nFramework:Python\nx: y\n")
    assert editing.fields() == []
    assert editing.values == {}
    assert editing.error is not None
    with pytest.raises(ConfigurationError, match="no space after the colon"):
        editing.set("Target", "b")
    with pytest.raises(ConfigurationError):
        editing.get("Target")
    finding = editing.problems()[0]
    assert (finding.code, finding.line, finding.column) == ("missing-space", 2, 11)
    assert finding.fix is not None
    editing.apply(finding.fix)
    assert editing.get("Framework") == "Python"


def test_fix_is_applied_completely_or_not_at_all() -> None:
    editing = document("Target: a\n")
    with pytest.raises(EditRefusedError):
        editing.apply(Fix("two edits", (SetValue(("Target",), "b"), SetValue(("Framework", 3), "Python"))))
    assert editing.text == "Target: a\n"


def test_save_writes_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.runconfig"
    path.write_bytes(b"\xef\xbb\xbfTarget: a\r\n# c\r\nFramework: Python")
    editing = Document.open(str(path))
    assert not editing.is_dirty
    editing.set("Target", "b")
    editing.set("TrackedRun", True)
    assert editing.is_dirty
    editing.save()
    assert not editing.is_dirty
    assert path.read_bytes() == b"\xef\xbb\xbfTarget: b\r\n# c\r\nFramework: Python\r\nTrackedRun: true"
    editing.set("Target", "a")
    editing.unset("TrackedRun")
    assert editing.is_dirty
    editing.save()
    assert path.read_bytes() == b"\xef\xbb\xbfTarget: a\r\n# c\r\nFramework: Python"


def test_file_that_changed_on_disk_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "a.runconfig"
    path.write_text("Target: a\n")
    mine, other = Document.open(str(path)), Document.open(str(path))
    other.set("Target", "theirs")
    other.save()
    mine.set("Target", "mine")
    with pytest.raises(FileChangedError):
        mine.save()
    assert mine.text == "Target: mine\n"
    assert path.read_text() == "Target: theirs\n"


def test_value_set_back_restores_its_bytes() -> None:
    text = "Target: a\nEnvironmentVariables:\n  # first\n  'A': \"1\"\n  B: 2   # second\nFramework: Python\n"
    editing = document(text)
    editing.set("EnvironmentVariables", {})
    editing.set("Target", "b")
    editing.set("EnvironmentVariables", {"A": "1", "B": "2"})
    editing.set("Target", "a")
    assert editing.text == text


def test_problems_depend_on_the_text_and_the_project(tmp_path: Path) -> None:
    project(
        tmp_path,
        a__runconfig="Target: box\nFramework: Python\n",
        box__compute="type: local\n",
    )
    editing = in_project(tmp_path, "a.runconfig")
    assert editing.problems() == []
    editing.set("Target", "bx")
    assert [problem.code for problem in editing.field("Target").problems] == ["unknown-target"]
    editing.set("Target", "box")
    assert editing.problems() == []
