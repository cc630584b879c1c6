"""`DataReferences`: which paths scripts can open, and where the data is."""

from __future__ import annotations

import re

import pytest

from tests.conftest import REPOSITORY
from tui_workbench.config.schema.data_references import (
    RESERVED_BESIDE,
    data_beside,
    data_elsewhere,
    data_in_project,
    data_paths,
    data_problems,
    with_data,
)

ROOT = "/home/me/project"


@pytest.mark.parametrize(
    ("opened", "path", "message"),
    [
        ("data", "data", ""),
        ("data/train", "/mnt/train", ""),
        ("../data", "../data", ""),
        ("../data/", "/mnt/data", ""),
        ("/srv/data", "/srv/data/", ""),
        (f"{ROOT}/data", "/mnt/data", ""),
        (".", ".", "is the project folder"),
        ("/", "/", "'/' is the whole file system"),
        ("data", "//", "'//' is the whole file system"),
        ("", "", "an item is empty"),
        ("data", "", "'data' has no path"),
        ("da\0ta", "da\0ta", "NUL character"),
        ("~/data", "~/data", "begins with `~`"),
        ("outputs/x", "outputs/x", "reserved folder outputs/"),
        (f"{ROOT}/aml_config", f"{ROOT}/aml_config", "reserved folder aml_config/"),
        ("..", "..", "only `../NAME` is possible"),
        ("../../data", "../../data", "only `../NAME` is possible"),
        ("../data/train", "/mnt/train", "only `../NAME` is possible"),
        ("../run.json", "/mnt/x", "has a name that the workbench uses"),
        ("../.new", "/mnt/x", "has a name that the workbench uses"),
        ("../job.4711", "/mnt/x", "has a name that the workbench uses"),
        ("/srv/data", "/mnt/data", "is absolute, so it cannot lead to another path"),
    ],
)
def test_impossible_paths_are_reported(opened: str, path: str, message: str) -> None:
    found = [problem.message for problem in data_problems(ROOT, {opened: path}).values()]
    assert len(found) == bool(message)
    assert all(message in each for each in found)
    assert (opened in data_paths(ROOT, {opened: path})) is not bool(message)


def test_overlapping_references_are_reported() -> None:
    assert list(data_problems(ROOT, {"data": "data", "data2": "data", "data/x": "/mnt/x", "./data": "b"})) == [
        "data/x", "./data",
    ]  # fmt: skip


def test_untracked_runs_use_only_the_same_paths() -> None:
    references = {"../data": "../data", "a": "a", "/srv": "/srv", "b": "/mnt/b", "../c": "/mnt/c"}
    assert list(data_problems(ROOT, references, tracked=False)) == ["b", "../c"]


def test_other_machines_need_absolute_paths() -> None:
    references = {"data": "data", "../a": "/mnt/a", "/srv": "/srv"}
    (problem,) = data_problems(ROOT, references, other_machine="box").values()
    assert "'data' is a path on this machine, but box is another machine" in problem.message
    assert "`data: PATH`" in problem.remedy


def test_paths_are_sorted_by_how_scripts_open_them() -> None:
    references = {"data": "../shared", "../sets/": "/mnt/sets", f"{ROOT}/c": "c", "/srv/a/": "/srv/a", "../../no": "x"}
    assert data_in_project(ROOT, references) == {"data": "/home/me/shared", "c": f"{ROOT}/c"}
    assert data_beside(ROOT, references) == {"sets": "/mnt/sets"}
    assert data_elsewhere(ROOT, references) == ("/srv/a",)


def test_names_of_the_run_directory_are_reserved() -> None:
    page = (REPOSITORY / "docs/run-directory.md").read_text()
    table = re.findall(r"^\| (`.+?`) \|", page, re.MULTILINE)
    names = {name.rstrip("/") for cell in table for name in re.findall(r"`([^`]+)`", cell)}
    assert len(names) > 30
    assert names <= RESERVED_BESIDE


def test_no_script_of_a_cluster_writes_to_data() -> None:
    targets = REPOSITORY / "tui_workbench/targets"
    paths = [
        *targets.glob("slurm/scripts/*.sh"),
        *targets.glob("remote/yarn.py"),
        *targets.glob("remote/scripts/*log.sh"),
    ]
    text = "".join(path.read_text() for path in paths)
    # Names after `>`, `>>`, `mv` and `$run/`.
    names = set(re.findall(r"""(?:>>?"?|\bmv (?:-f )?|\$run/)([a-z]+(?:\.[a-z]+)*)""", text)) - {
        "lock"
    }  # in the folder of an array
    assert {"job", "attempted", "accepted", "step", "begun", "unfinished", "sampler"} <= names
    assert [name for name in sorted(names) if not data_problems(ROOT, {f"../{name}": "/mnt/x"})] == []


def test_added_references_keep_the_form_of_the_file() -> None:
    assert with_data(None, {"a": "a"}) == ["a"]
    assert with_data(["a"], {"../b": "../b", "a": "a"}) == ["a", "../b"]
    assert with_data("/tmp", {"../b": "../b"}) == ["/tmp", "../b"]
    assert with_data(["a"], {"../b": "/mnt/b"}) == {"a": "a", "../b": "/mnt/b"}
    assert with_data({"a": "/mnt/a"}, {"b": "b"}) == {"a": "/mnt/a", "b": "b"}
