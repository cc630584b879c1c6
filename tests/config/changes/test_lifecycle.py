"""Create, rename and delete targets and run configurations."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.config.documents import in_project, project
from tui_workbench.config.changes import lifecycle
from tui_workbench.config.changes.change_set import ChangeHistory
from tui_workbench.config.document import new_text
from tui_workbench.config.loading import load_compute, load_run_configuration
from tui_workbench.core import target_types
from tui_workbench.core.errors import ConfigurationError, UsageError

RUNCONFIG = "# runs there\nTarget: gpu   # the box\nFramework: Python\r\n"


def at(root: Path, name: str) -> str:
    return str(root / "aml_config" / name)


@pytest.mark.parametrize("target_type", [each.name for each in target_types.BUILT_IN])
def test_new_target_of_each_type_is_valid(tmp_path: Path, target_type: str) -> None:
    boxes = {f"box{number}__compute": f"type: remote\naddress: box{number}\n" for number in (1, 2)}
    root = project(tmp_path, x__runconfig="", **boxes)
    lifecycle.create_target(str(root), "new", target_type).apply()
    loaded = load_compute(at(root, "new.compute"))
    assert (loaded.name, loaded.type) == ("new", target_type)
    assert loaded.members == (("box1", "box2") if target_type == "group" else ())
    assert [one for one in in_project(root, "new.compute").problems() if one.severity == "error"] == []


def test_new_run_configuration_fits_its_target(tmp_path: Path) -> None:
    root = project(tmp_path, box__compute="type: localdocker\nbaseDockerImage: i:1\n", local__compute="type: local\n")
    lifecycle.create_run_configuration(str(root), "box", "box").apply()
    docker = load_run_configuration(at(root, "box.runconfig"))
    assert (docker.target, docker.framework, docker.prepare_environment) == ("box", "Python", True)
    lifecycle.create_run_configuration(str(root), "quick", "local").apply()
    local = load_run_configuration(at(root, "quick.runconfig"))
    assert (local.prepare_environment, local.tracked_run, local.conda_dependencies_file) == (False, True, "")
    assert lifecycle.create_run_configuration(str(root), "z", "none").notes == ("Target 'none' does not exist yet.",)


@pytest.mark.parametrize("name", ["", " ", "a/b", "../x", ".hidden", "-x", "a\nb", "x" * 101])
def test_invalid_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=r"not a valid name|name is empty"):
        lifecycle.create_target(str(tmp_path), name, "local")


def test_unusual_names_are_valid(tmp_path: Path) -> None:
    root = project(tmp_path, x__runconfig="")
    for name in ("gpu box", "日本", "it's", 'say "hi"', "a.b", "$x"):
        lifecycle.create_target(str(root), name, "local").apply()
        assert load_compute(at(root, f"{name}.compute")).name == name


def test_taken_name_and_unknown_type_are_refused(tmp_path: Path) -> None:
    root = project(tmp_path, a__compute="type: local\n")
    with pytest.raises(ConfigurationError, match="already"):
        lifecycle.create_target(str(root), "a", "local")
    with pytest.raises(UsageError, match="unknown target type"):
        lifecycle.create_target(str(root), "b", "cloud")


def test_duplicate_is_identical(tmp_path: Path) -> None:
    root = project(tmp_path, gpu__runconfig=RUNCONFIG)
    lifecycle.duplicate(at(root, "gpu.runconfig"), "gpu2").apply()
    assert (root / "aml_config" / "gpu2.runconfig").read_bytes() == RUNCONFIG.encode()
    with pytest.raises(UsageError, match="not a target or run configuration"):
        lifecycle.duplicate(at(root, "conda_dependencies.yml"), "x")


def test_rename_target_updates_run_configurations(tmp_path: Path) -> None:
    root = project(
        tmp_path,
        gpu__compute="type: local\n",
        a__runconfig=RUNCONFIG,
        b__runconfig="Target: other\n",
        c__runconfig="script: t.py\ntarget: gpu\n",
        d__runconfig="Target: 'gpu\n",
    )
    history = ChangeHistory()
    change_set = lifecycle.rename(at(root, "gpu.compute"), "gpu-box")
    assert change_set.notes == ("d.runconfig was not changed: the quote that begins here is not closed.",)
    assert "+Target: gpu-box   # the box" in change_set.diff(str(root))
    history.apply(change_set)
    directory = root / "aml_config"
    assert not (directory / "gpu.compute").exists()
    assert (directory / "gpu-box.compute").read_text() == "type: local\n"
    assert (directory / "a.runconfig").read_bytes() == RUNCONFIG.replace("Target: gpu ", "Target: gpu-box ").encode()
    assert (directory / "b.runconfig").read_text() == "Target: other\n"
    assert (directory / "c.runconfig").read_text() == "script: t.py\ntarget: gpu-box\n"
    history.undo()
    assert (directory / "gpu.compute").exists()
    assert (directory / "a.runconfig").read_bytes() == RUNCONFIG.encode()


def test_rename_run_configuration_changes_no_other_file(tmp_path: Path) -> None:
    root = project(tmp_path, a__runconfig=RUNCONFIG, gpu__compute="type: local\n")
    lifecycle.rename(at(root, "a.runconfig"), "b").apply()
    assert (root / "aml_config" / "b.runconfig").read_bytes() == RUNCONFIG.encode()
    assert sorted(path.name for path in (root / "aml_config").iterdir()) == ["b.runconfig", "gpu.compute"]


def test_deleted_file_is_in_the_trash(tmp_path: Path) -> None:
    root = project(tmp_path, gpu__compute="type: local\n", a__runconfig=RUNCONFIG)
    change_set = lifecycle.delete(at(root, "gpu.compute"))
    assert change_set.notes == ("Run configurations left without a target: a.",)
    change_set.apply()
    assert not (root / "aml_config" / "gpu.compute").exists()
    assert (root / ".workbench" / ".gitignore").read_text() == "*\n"
    (kept,) = Path(lifecycle.trash_directory(str(root))).iterdir()
    assert (kept.name.partition("-")[2], kept.read_text()) == ("gpu.compute", "type: local\n")


def test_delete_is_one_undo_step(tmp_path: Path) -> None:
    root = project(tmp_path, a__runconfig=RUNCONFIG)
    history = ChangeHistory()
    history.apply(lifecycle.delete(at(root, "a.runconfig"), str(tmp_path / "trash")))
    assert [path.name.partition("-")[2] for path in (tmp_path / "trash").iterdir()] == ["a.runconfig"]
    history.undo()
    assert (root / "aml_config" / "a.runconfig").read_bytes() == RUNCONFIG.encode()
    assert list((tmp_path / "trash").iterdir()) == []


def test_new_file_follows_the_order_of_the_schema() -> None:
    text = new_text("x.compute", {"username": "u", "type": "remote", "own": "x", "address": "h"})
    assert text == "type: remote\naddress: h\nusername: u\nown: x\n"
