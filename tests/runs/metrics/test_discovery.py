"""Which files are the run's, where they may lie, and what a look costs."""

from __future__ import annotations

import math
import os
import time
from pathlib import Path

import pytest

from tests.runs.metrics.support import age, write
from tui_workbench.runs.metrics import discovery
from tui_workbench.runs.metrics.discovery import Discovery, Root, Window


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look whenever one is asked for."""
    monkeypatch.setattr(discovery, "SHARE_OF_TIME", math.inf)


def is_csv(name: str, _path: str) -> bool:
    return name.endswith(".csv")


def looking(tmp_path: Path, *shared: Path) -> Discovery:
    own = str(tmp_path / "work")
    return Discovery([Root(own, own), *(Root(str(path), str(path), is_shared=True) for path in shared)], is_csv)


ALWAYS = Window(0)


def test_a_file_is_found_once_wherever_it_lies(tmp_path: Path) -> None:
    finder = looking(tmp_path)
    assert finder.look(ALWAYS) == []
    write(tmp_path / "work" / "a.csv", "")
    write(tmp_path / "work" / "deep" / "er" / "b.csv", "")
    write(tmp_path / "work" / "c.txt", "")
    found = {path for _, path in finder.look(ALWAYS)}
    assert found == {f"{tmp_path}/work/a.csv", f"{tmp_path}/work/deep/er/b.csv"}
    assert finder.look(ALWAYS) == []
    write(tmp_path / "work" / "deep" / "new.csv", "")
    assert finder.look(ALWAYS) == [("", f"{tmp_path}/work/deep/new.csv")]


def test_what_lay_in_the_copy_before_the_run_is_not_the_runs(tmp_path: Path) -> None:
    write(tmp_path / "work" / "old.csv", "")
    since = time.time_ns() + 1
    while not (tmp_path / "work" / "new.csv").exists() or (tmp_path / "work" / "new.csv").stat().st_ctime_ns < since:
        write(tmp_path / "work" / "new.csv", "x", append=True)
    # A time that was set to an old one, as unpacking does, changes nothing.
    age(tmp_path / "work" / "new.csv")
    assert looking(tmp_path).look(Window(since)) == [("", f"{tmp_path}/work/new.csv")]


def test_in_folders_of_others_only_what_was_written_during_the_run_is(tmp_path: Path) -> None:
    """The project of an untracked run, and what links of a copy lead to."""
    now = time.time()
    for name, seconds in (("before", -1000), ("during", -500), ("after", -100)):
        write(tmp_path / "project" / f"{name}.csv", "")
        os.utime(tmp_path / "project" / f"{name}.csv", (now + seconds, now + seconds))
    window = Window(int((now - 600) * 1e9), int((now - 400) * 1e9))
    finder = looking(tmp_path, tmp_path / "project")
    assert finder.look(window) == [("", f"{tmp_path}/project/during.csv")]
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "link").symlink_to(tmp_path / "project")
    assert looking(tmp_path).look(window) == [("", f"{tmp_path}/work/link/during.csv")]


def test_a_file_that_was_moved_is_told_with_where_it_was(tmp_path: Path) -> None:
    finder = looking(tmp_path)
    write(tmp_path / "work" / "a.csv", "")
    finder.look(ALWAYS)
    (tmp_path / "work" / "deep").mkdir()
    (tmp_path / "work" / "a.csv").rename(tmp_path / "work" / "deep" / "a.csv")
    assert finder.look(ALWAYS) == [(f"{tmp_path}/work/a.csv", f"{tmp_path}/work/deep/a.csv")]


def test_a_second_name_of_a_file_and_a_circle_of_links_are_not_followed(tmp_path: Path) -> None:
    write(tmp_path / "work" / "a.csv", "")
    os.link(tmp_path / "work" / "a.csv", tmp_path / "work" / "b.csv")
    (tmp_path / "work" / "circle").symlink_to(tmp_path / "work")
    (tmp_path / "work" / "broken").symlink_to(tmp_path / "nowhere")
    assert looking(tmp_path).look(ALWAYS) == [("", f"{tmp_path}/work/a.csv")]


def test_what_is_no_plain_file_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "work" / "folder.csv").mkdir(parents=True)
    os.mkfifo(tmp_path / "work" / "pipe.csv")
    assert looking(tmp_path).look(ALWAYS) == []


def test_folders_that_hold_no_metrics_are_not_entered(tmp_path: Path) -> None:
    for name in (".git", "node_modules", "__pycache__"):
        write(tmp_path / "work" / name / "a.csv", "")
    assert looking(tmp_path).look(ALWAYS) == []


def test_a_data_set_of_many_files_bounds_a_look_and_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "MAX_ENTRIES", 20)
    write(tmp_path / "work" / "a.csv", "")
    for number in range(30):
        write(tmp_path / "work" / "data" / f"{number}.csv", "")
    finder = looking(tmp_path)
    assert finder.look(ALWAYS) == [("", f"{tmp_path}/work/a.csv")]
    assert finder.is_cut


def test_looks_take_a_small_part_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "SHARE_OF_TIME", 1e-9)
    finder = looking(tmp_path)
    finder.look(ALWAYS)
    write(tmp_path / "work" / "a.csv", "")
    assert finder.look(ALWAYS) == []
