"""`experiment stacks` for runs on this machine, with the real py-spy."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.support import Installed
from tests.faults.support import until
from tests.runs.support import write_configuration, write_files
from tests.targets.test_stacks import EXPECTED, HANGS, places
from tui_workbench.core.errors import ImportedRun
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.stacks import MOST_KEPT

if TYPE_CHECKING:
    from collections.abc import Iterator

BECOMES_SLEEP = "import os\nprint('began', flush=True)\nos.execvp('sleep', ['sleep', '600'])\n"
RANKS = """\
import os, time

def train():
    if os.environ["RANK"] == "1":
        read_file()
    wait_for_others()

def read_file():
    print("began", flush=True)
    time.sleep(600)

def wait_for_others():
    print("began", flush=True)
    time.sleep(600)

train()
"""


@pytest.fixture
def workbench(project_root: Path) -> Iterator[Installed]:
    write_files(project_root, {"train.py": HANGS, "ranks.py": RANKS, "sleep.py": BECOMES_SLEEP})
    found = Installed(project_root)
    yield found
    found.cancel_active()


def begin(workbench: Installed, script: str, *arguments: str, count: int = 1) -> str:
    """Start a script, and return the run's ID when it has printed `began` this many times."""
    run_id = workbench.detach(script, *arguments)
    until(lambda: workbench.log(run_id).count("began") == count, "the script")
    return run_id


def read(workbench: Installed, run_id: str, *options: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(workbench.bytes_of("experiment", "stacks", "-r", run_id, "-o", "json", *options))
    return found


def folder(workbench: Installed, run_id: str) -> Path:
    return workbench.run_directory(run_id) / "stacks"


def test_threads_and_children_are_listed(workbench: Installed) -> None:
    run_id = begin(workbench, "train.py")
    text = workbench.bytes_of("experiment", "stacks", "-r", run_id).decode()
    assert "  MainThread: waiting\n    wait_for_lock (train.py:9)\n    train (train.py:20)\n" in text
    assert "  prefetch: waiting\n    wait_for_lock (train.py:9)\n" in text
    assert "    load_batches (train.py:6)\n" in text
    assert places(read(workbench, run_id)) == EXPECTED


def test_stacks_contain_no_secrets_and_no_values(workbench: Installed) -> None:
    run_id = begin(workbench, "train.py", "--api-key", "geheim")
    text = json.dumps(read(workbench, run_id))
    assert '"--api-key", "***"' in text
    (kept,) = folder(workbench, run_id).iterdir()
    assert "geheim" not in text + kept.read_text()
    assert kept.stat().st_mode & 0o777 == 0o600


@pytest.mark.processes
def test_ranks_of_torchrun_are_first(workbench: Installed) -> None:
    write_configuration(workbench.folder, ProcessesPerNode=2)
    run_id = begin(workbench, "ranks.py", count=2)
    lines = workbench.bytes_of("experiment", "stacks", "-r", run_id).decode().split("\n")
    assert lines[1:4] == ["rank 0: wait_for_others (ranks.py:14)", "rank 1: read_file (ranks.py:10)", ""]
    roles = [each["role"] for each in read(workbench, run_id)["processes"]]
    assert roles == ["rank 0", "rank 1", "launcher", "launcher"]


def test_last_stacks_stay_after_the_end(workbench: Installed, tmp_path: Path) -> None:
    run_id = begin(workbench, "train.py")
    before = read(workbench, run_id)
    assert workbench.run("experiment", "cancel", "-r", run_id).code == 0
    workbench.run("experiment", "stacks", "-r", run_id).error(2, "the run has ended", f"-r {run_id} --last`")
    assert read(workbench, run_id, "--last") == before
    assert workbench.run("history", "download", "-r", run_id, "-a", "stacks", "-d", str(tmp_path / "here")).code == 0
    (copy,) = (tmp_path / "here" / "stacks").iterdir()
    assert json.loads(copy.read_text()) == before


def test_run_without_stacks_says_how_to_read_them(workbench: Installed) -> None:
    run_id = begin(workbench, "train.py")
    done = workbench.run("experiment", "stacks", "-r", run_id, "--last")
    done.error(2, f"run {run_id} has no stacks", f"`workbench-tui experiment stacks -r {run_id}`")


def test_run_without_a_python_process_is_an_error(workbench: Installed) -> None:
    run_id = begin(workbench, "sleep.py")
    done = workbench.run("experiment", "stacks", "-r", run_id)
    done.error(1, f"run {run_id} has no Python process on this machine")


def test_only_the_newest_stacks_are_kept(workbench: Installed) -> None:
    run_id = begin(workbench, "train.py")
    old = [f"20200101T000000-{number:03}.json" for number in range(MOST_KEPT + 5)]
    write_files(folder(workbench, run_id), dict.fromkeys(old, "{}"))
    read(workbench, run_id)
    kept = sorted(os.listdir(folder(workbench, run_id)))
    assert kept[:-1] == old[-MOST_KEPT + 1 :]


@pytest.mark.parametrize("content", ["", "[]", '{"processes": 1}', "[" * 100_000])
def test_invalid_file_of_stacks_is_named(workbench: Installed, content: str) -> None:
    run_id = begin(workbench, "train.py")
    write_files(folder(workbench, run_id), {"20200101T000000-000.json": content})
    done = workbench.run("experiment", "stacks", "-r", run_id, "--last")
    done.error(1, "stacks/20200101T000000-000.json: this file does not contain valid stacks. Remove the file.")


def test_linked_folder_of_stacks_is_not_followed(workbench: Installed, tmp_path: Path) -> None:
    run_id = begin(workbench, "train.py")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    folder(workbench, run_id).symlink_to(elsewhere)
    assert workbench.run("experiment", "stacks", "-r", run_id).code == 1
    assert not list(elsewhere.iterdir())


def test_stacks_of_an_imported_run_are_refused(workbench: Installed, tmp_path: Path) -> None:
    run_id = begin(workbench, "train.py")
    copy = tmp_path / "copy"
    workbench.folder.rename(copy)
    try:
        with pytest.raises(ImportedRun):
            Runs(Project(str(copy))).stacks(run_id)
    finally:
        copy.rename(workbench.folder)
