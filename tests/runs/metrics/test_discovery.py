"""Finding a run's metric files, and the cost of a search."""

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
    """Allow a search at any time."""
    monkeypatch.setattr(discovery, "SHARE_OF_TIME", math.inf)


def is_csv(name: str, _path: str) -> bool:
    return name.endswith(".csv")


def search_in(tmp_path: Path, *shared: Path) -> Discovery:
    own = str(tmp_path / "work")
    return Discovery([Root(own, own), *(Root(str(path), str(path), is_shared=True) for path in shared)], is_csv)


ALWAYS = Window(0)


def test_file_is_found_once_in_any_folder(tmp_path: Path) -> None:
    finder = search_in(tmp_path)
    assert finder.search(ALWAYS) == []
    write(tmp_path / "work" / "a.csv", "")
    write(tmp_path / "work" / "deep" / "er" / "b.csv", "")
    write(tmp_path / "work" / "c.txt", "")
    found = {path for _, path in finder.search(ALWAYS)}
    assert found == {f"{tmp_path}/work/a.csv", f"{tmp_path}/work/deep/er/b.csv"}
    assert finder.search(ALWAYS) == []
    write(tmp_path / "work" / "deep" / "new.csv", "")
    assert finder.search(ALWAYS) == [("", f"{tmp_path}/work/deep/new.csv")]


def test_older_files_of_the_working_copy_are_ignored(tmp_path: Path) -> None:
    write(tmp_path / "work" / "old.csv", "")
    since = time.time_ns() + 1
    while not (tmp_path / "work" / "new.csv").exists() or (tmp_path / "work" / "new.csv").stat().st_ctime_ns < since:
        write(tmp_path / "work" / "new.csv", "x", append=True)
    # An old mtime, as set by unpacking, makes no difference.
    age(tmp_path / "work" / "new.csv")
    assert search_in(tmp_path).search(Window(since)) == [("", f"{tmp_path}/work/new.csv")]


def test_shared_folders_count_files_written_during_the_run(tmp_path: Path) -> None:
    """Such folders are the project of an untracked run and the targets of links in a working copy."""
    now = time.time()
    for name, seconds in (("before", -1000), ("during", -500), ("after", -100)):
        write(tmp_path / "project" / f"{name}.csv", "")
        os.utime(tmp_path / "project" / f"{name}.csv", (now + seconds, now + seconds))
    window = Window(int((now - 600) * 1e9), int((now - 400) * 1e9))
    finder = search_in(tmp_path, tmp_path / "project")
    assert finder.search(window) == [("", f"{tmp_path}/project/during.csv")]
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "link").symlink_to(tmp_path / "project")
    assert search_in(tmp_path).search(window) == [("", f"{tmp_path}/work/link/during.csv")]


def test_moved_file_is_reported_with_its_old_path(tmp_path: Path) -> None:
    finder = search_in(tmp_path)
    write(tmp_path / "work" / "a.csv", "")
    finder.search(ALWAYS)
    (tmp_path / "work" / "deep").mkdir()
    (tmp_path / "work" / "a.csv").rename(tmp_path / "work" / "deep" / "a.csv")
    assert finder.search(ALWAYS) == [(f"{tmp_path}/work/a.csv", f"{tmp_path}/work/deep/a.csv")]


def test_data_is_not_searched(tmp_path: Path) -> None:
    own = str(tmp_path / "work")
    write(tmp_path / "sets" / "a.csv", "")
    write(tmp_path / "work" / "b.csv", "")
    (tmp_path / "work" / "data").symlink_to(tmp_path / "sets")
    finder = Discovery([Root(own, own)], is_csv, {f"{own}/data"})
    assert finder.search(ALWAYS) == [("", f"{own}/b.csv")]


def test_hard_links_and_link_cycles_are_not_followed(tmp_path: Path) -> None:
    write(tmp_path / "work" / "a.csv", "")
    os.link(tmp_path / "work" / "a.csv", tmp_path / "work" / "b.csv")
    (tmp_path / "work" / "circle").symlink_to(tmp_path / "work")
    (tmp_path / "work" / "broken").symlink_to(tmp_path / "nowhere")
    assert search_in(tmp_path).search(ALWAYS) == [("", f"{tmp_path}/work/a.csv")]


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "work" / "folder.csv").mkdir(parents=True)
    os.mkfifo(tmp_path / "work" / "pipe.csv")
    assert search_in(tmp_path).search(ALWAYS) == []


def test_folders_without_metrics_are_not_entered(tmp_path: Path) -> None:
    for name in (".git", "node_modules", "__pycache__"):
        write(tmp_path / "work" / name / "a.csv", "")
    assert search_in(tmp_path).search(ALWAYS) == []


def test_search_stops_at_the_limit_and_reports_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "MAX_ENTRIES", 20)
    write(tmp_path / "work" / "a.csv", "")
    for number in range(30):
        write(tmp_path / "work" / "data" / f"{number}.csv", "")
    finder = search_in(tmp_path)
    assert finder.search(ALWAYS) == [("", f"{tmp_path}/work/a.csv")]
    assert finder.is_cut


def test_searches_take_a_small_part_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "SHARE_OF_TIME", 1e-9)
    finder = search_in(tmp_path)
    finder.search(ALWAYS)
    write(tmp_path / "work" / "a.csv", "")
    assert finder.search(ALWAYS) == []


def test_link_to_a_file_is_no_file_of_the_run(tmp_path: Path) -> None:
    write(tmp_path / "elsewhere" / "a.csv", "")
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.csv").symlink_to(tmp_path / "elsewhere" / "a.csv")
    assert search_in(tmp_path).search(ALWAYS) == []
