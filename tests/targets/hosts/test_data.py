"""Links to the data of a run, and its size, on this machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.runs.support import write_files
from tui_workbench.core.errors import ConfigurationError, WorkbenchError
from tui_workbench.core.model import ComputeTarget, RunConfiguration, RunSpec
from tui_workbench.targets.hosts.data import describe_data, measure_data, place_data, unlink_data
from tui_workbench.targets.hosts.host import LocalHost
from tui_workbench.targets.values import Report

HOST = LocalHost()


def spec(root: Path, references: dict[str, str]) -> RunSpec:
    configuration = RunConfiguration("a", "", "local", data_references=references)
    target = ComputeTarget("local", "", "local")
    run = str(root / "run")
    return RunSpec("run", run, str(root / "project"), "project", f"{run}/work", "train.py", (), configuration, target)


def test_links_are_made_again_and_removed_without_the_data(tmp_path: Path) -> None:
    write_files(tmp_path, {"sets/x": "data", "other/x": "other"})
    made = spec(tmp_path, {"../sets": "../sets", "data": str(tmp_path / "other")})
    for _ in range(2):
        place_data(HOST, made, Report())
        assert os.readlink(tmp_path / "run/sets") == str(tmp_path / "sets")
    # A script may have replaced the link.
    (tmp_path / "run/sets").unlink()
    (tmp_path / "run/sets").symlink_to(tmp_path / "other")
    place_data(HOST, made, Report())
    assert os.listdir(tmp_path / "run") == ["sets"]
    unlink_data(made)
    assert os.listdir(tmp_path / "run") == []
    assert sorted(os.listdir(tmp_path / "other")) == sorted(os.listdir(tmp_path / "sets")) == ["x"]


def test_file_of_the_run_is_not_replaced_and_not_removed(tmp_path: Path) -> None:
    write_files(tmp_path, {"sets/x": "data", "run/sets/mine": "1"})
    made = spec(tmp_path, {"../sets": "../sets"})
    with pytest.raises(WorkbenchError, match="sets exists already"):
        place_data(HOST, made, Report())
    unlink_data(made)
    assert (tmp_path / "run/sets/mine").exists()


def test_missing_data_prevents_all_links(tmp_path: Path) -> None:
    write_files(tmp_path, {"sets/x": "data"})
    made = spec(tmp_path, {"../sets": "../sets", "../other": "/no where/a", "data": "/nowhere/b"})
    with pytest.raises(ConfigurationError, match=r"not readable on .*: /no where/a, /nowhere/b"):
        place_data(HOST, made, Report())
    assert os.listdir(tmp_path / "run") == []


def test_size_is_that_of_files_and_marked_if_incomplete(tmp_path: Path) -> None:
    write_files(tmp_path, {"sets/a/x": "12345", "sets/b": "1", "elsewhere": "123"})
    (tmp_path / "sets/link").symlink_to(tmp_path / "elsewhere")
    for path in (tmp_path / "sets/a", tmp_path / "sets", tmp_path / "sets/b", tmp_path / "sets/a/x"):
        os.utime(path, (1, 1_600_000_000))
    os.utime(tmp_path / "sets/link", (1, 1), follow_symlinks=False)
    found = measure_data(HOST, spec(tmp_path, {"../sets": "../sets", "data": "/nowhere"}))
    assert found["../sets"] == {
        "path": str(tmp_path / "sets"), "files": 2, "bytes": 6, "modified": 1_600_000_000.0, "complete": True,
    }  # fmt: skip
    assert found["data"]["complete"] is False
    assert describe_data(found)["../sets"].startswith(f"{tmp_path}/sets: 2 files, 6 B, last changed 2020-09-1")
    assert describe_data(found)["data"] == "/nowhere: the files could not be counted"
    more = {"a": {**found["../sets"], "complete": False, "path": "a"}}
    assert describe_data(more)["a"].startswith("at least 2 files, at least 6 B, last changed ")


@pytest.mark.parametrize("stored", [None, [], {"a": 1}, {"a": {"path": "x"}}, {"a": {"files": "many"}}])
def test_malformed_facts_are_not_shown(stored: object) -> None:
    assert describe_data(stored) == {}
