"""Links in run directories are not followed, whoever created them."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import write_project
from tests.faults.support import Workbench
from tests.runs.support import make_run
from tui_workbench.config.changes.lifecycle import delete
from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.files import (
    make_folders,
    open_below,
    read_below,
    remove_below,
    rename_below,
    unlink_below,
    write_below,
)
from tui_workbench.projects.project import Project
from tui_workbench.runs.store.annotations import change_annotations
from tui_workbench.runs.store.new_run import discard
from tui_workbench.runs.store.rundir import ControllerLock, RunDirectory
from tui_workbench.runs.transfer.assets import download_asset, promote
from tui_workbench.ui.runs.preparation import Preparation

if TYPE_CHECKING:
    from collections.abc import Callable

PRECIOUS = "precious\n"


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """Return a folder outside the project, which must not be changed."""
    folder = tmp_path / "victim"
    (folder / "deep").mkdir(parents=True)
    for name in ("file", "deep/file", "output.log"):
        (folder / name).write_text(PRECIOUS)
    return folder


def assert_untouched(victim: Path) -> None:
    found = {str(path.relative_to(victim)): path.is_dir() or path.read_text() for path in victim.rglob("*")}
    assert found == {"file": PRECIOUS, "output.log": PRECIOUS, "deep": True, "deep/file": PRECIOUS}


# ---- the functions ----


def link_at(kind: str, top: Path, victim: Path) -> tuple[str, str]:
    """Return a folder and a path in it that lead to `victim/file` through a link in one part of the path."""
    if kind == "last":
        (top / "name").symlink_to(victim / "file")
        return str(top), "name"
    if kind == "middle":
        (top / "folder").symlink_to(victim)
        return str(top), "folder/file"
    (top / "run").symlink_to(victim)
    return str(top / "run"), "file"


LINKS = ("last", "middle", "first")


@pytest.mark.parametrize("kind", LINKS)
@pytest.mark.parametrize(
    "flags",
    [os.O_RDONLY, os.O_WRONLY | os.O_APPEND, os.O_RDWR | os.O_CREAT, os.O_WRONLY | os.O_CREAT | os.O_TRUNC],
    ids=["read", "append", "create", "truncate"],
)
def test_open_follows_no_link(tmp_path: Path, victim: Path, kind: str, flags: int) -> None:
    top = tmp_path / "top"
    top.mkdir()
    with pytest.raises(OSError, match=r"symbolic links|Not a directory"):
        open_below(*link_at(kind, top, victim), flags)
    assert_untouched(victim)


@pytest.mark.parametrize("kind", LINKS)
def test_write_rename_and_removal_follow_no_link(tmp_path: Path, victim: Path, kind: str) -> None:
    top = tmp_path / "top"
    top.mkdir()
    folder, name = link_at(kind, top, victim)
    (top / "own").write_text("own")
    below_top = os.path.relpath(os.path.join(folder, name), top)
    actions: tuple[tuple[Callable[..., None], tuple[object, ...]], ...] = (
        (write_below, (folder, name, b"written")),
        (rename_below, (str(top), "own", below_top)),
        (make_folders, (folder, f"{name}/made")),
        (unlink_below, (folder, name)),
        (remove_below, (folder, name)),
    )
    for action, arguments in actions:
        with contextlib.suppress(OSError):
            action(*arguments)
        assert_untouched(victim)


def test_removing_a_folder_does_not_follow_links(tmp_path: Path, victim: Path) -> None:
    (tmp_path / "top" / "inner").mkdir(parents=True)
    (tmp_path / "top" / "inner" / "link").symlink_to(victim)
    remove_below(str(tmp_path), "top")
    assert not (tmp_path / "top").exists()
    assert_untouched(victim)


@pytest.mark.parametrize("name", ["../victim/file", "/etc/passwd", "a/../../victim/file", "", "."])
def test_name_that_leaves_the_folder_is_refused(tmp_path: Path, victim: Path, name: str) -> None:
    (tmp_path / "top" / "a").mkdir(parents=True)
    with pytest.raises(OSError, match=r"outside|Invalid"):
        write_below(str(tmp_path / "top"), name, b"written")
    assert_untouched(victim)


def test_pipe_or_device_in_place_of_a_file_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    os.symlink("/dev/zero", tmp_path / "device")
    for name in ("pipe", "device"):
        with pytest.raises(OSError, match=r"regular|symbolic|No such device"):
            read_below(str(tmp_path), name, 100)
        with pytest.raises(OSError, match=r"regular|symbolic|No such device"):
            open_below(str(tmp_path), name, os.O_WRONLY | os.O_APPEND)


def test_write_is_atomic_and_private_to_the_user(tmp_path: Path) -> None:
    write_below(str(tmp_path), "name", b"first")
    write_below(str(tmp_path), "name", b"second", durable=True)
    assert (tmp_path / "name").read_text() == "second"
    assert (tmp_path / "name").stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError):
        write_below(str(tmp_path), "name", b"third", exclusive=True)
    assert os.listdir(tmp_path) == ["name"]


# ---- a run directory whose files are links ----

RECORD_FILES = ("events.jsonl", "cancel", "controller.lock", "annotations.json", "annotations.lock")


@pytest.mark.parametrize("name", RECORD_FILES)
def test_link_in_a_run_directory_is_not_followed(project: Project, victim: Path, name: str) -> None:
    run = make_run(project, "project_1700000000001")
    Path(run.file(name)).unlink(missing_ok=True)
    Path(run.file(name)).symlink_to(victim / "file")
    for action in (
        lambda: run.append_event("state", state="completed", final=True),
        lambda: run.request_cancel(1.0),
        lambda: ControllerLock.acquire(run),
        lambda: change_annotations(run.path, project.state_directory, lambda found: found._replace(note="a note")),
    ):
        try:
            action()
        except WorkbenchError:
            pass
    assert_untouched(victim)


def test_run_directory_that_is_a_link_is_not_written(project: Project, victim: Path) -> None:
    run = RunDirectory(os.path.join(project.runs_directory, "project_1"))
    os.makedirs(project.runs_directory)
    os.symlink(victim, run.path)
    with pytest.raises(WorkbenchError):
        run.append_event("state", state="completed")
    with pytest.raises(WorkbenchError):
        ControllerLock.acquire(run)
    discard(run.path)
    assert_untouched(victim)


@pytest.mark.parametrize("linked", [".workbench", ".workbench/runs"])
def test_state_directory_that_is_a_link_is_not_used(tmp_path: Path, victim: Path, linked: str) -> None:
    root = write_project(tmp_path / "project")
    (root / linked).parent.mkdir(exist_ok=True)
    (root / linked).symlink_to(victim)
    done = Workbench(root).submit("hello.py")
    assert done.code == 0, done
    assert "has a symbolic link in place of .workbench" in done.err
    assert_untouched(victim)


FILES = (
    "run.json", "events.jsonl", "cancel", "annotations.json", "annotations.lock", "pid", "exit", "progress.json",
    "output.log", "metrics.jsonl", "metrics.jsonl.gz", "metrics.json", "metrics.cache", "metrics.cache.1", "gpu.json",
    "gpu.jsonl", "gpus", "provenance.json", "git.diff", "queue.json", "copy", "waiting", "followed",
    "environment.json", "trace.jsonl", "preparation.log", "controller.lock", "ranks/torchrun.log", "ranks/0.log",
    "ranks/n/output.log", "ranks/n/0.log", "ranks/n/torchrun.log", "outputs/metrics.csv", "work/metrics.csv",
)  # fmt: skip

LOOKS = (
    ("history", "list", "-o", "table"), ("history", "last"), ("history", "info", "--run", "N"),
    ("history", "compare", "N", "4"), ("logs", "N"), ("experiment", "status", "--run", "N"),
    ("history", "export", "--format", "csv", "--all", "table.csv"),
)  # fmt: skip


@pytest.mark.processes
@pytest.mark.parametrize("words", LOOKS, ids=" ".join)
def test_pipe_in_place_of_a_run_file_does_not_block_commands(project: Project, words: tuple[str, ...]) -> None:
    piped = (FILES[2:], ("events.jsonl",), ("run.json",), ())
    for number, names in enumerate(piped, 1):
        run = make_run(project, f"project_{1700000000000 + number}", number, state="completed")
        for name in names:
            path = Path(run.file(name))
            path.parent.mkdir(exist_ok=True)
            path.unlink(missing_ok=True)
            os.mkfifo(path)
    for text in ("1", "2", "3") if "N" in words else ("",):
        process = Workbench(Path(project.root)).start(*(text if word == "N" else word for word in words))
        process.communicate(timeout=90)


# ---- scripts that put links into their own run directory ----

SCRIPT = """\
import os, shutil
run, victim = os.environ["WORKBENCH_RUN_DIRECTORY"], VICTIM
ACTION
print("done")
"""

ACTIONS = {
    "work": "os.rename(f'{run}/work', f'{run}/gone'); os.symlink(victim, f'{run}/work')",
    "outputs of work": "shutil.rmtree(f'{run}/work/outputs'); os.symlink(victim, f'{run}/work/outputs')",
    "outputs": "os.symlink(victim, f'{run}/outputs')",
    "a folder of work": "os.symlink(victim, f'{run}/work/folder')",
    "bytecode": "os.symlink(victim, f'{run}/work/__pycache__')",
    "exit": "os.unlink(f'{run}/exit'); os.symlink(victim + '/file', f'{run}/exit')",
    "events": "os.rename(f'{run}/events.jsonl', f'{run}/e'); os.symlink(victim + '/file', f'{run}/events.jsonl')",
    "metrics": "os.symlink(victim + '/file', f'{run}/metrics.json')",
    "provenance": "os.symlink(victim + '/file', f'{run}/provenance.json')",
    "gpu": "os.symlink(victim + '/file', f'{run}/gpu.json')",
}


@pytest.mark.processes
@pytest.mark.parametrize("name", ACTIONS)
def test_links_made_by_a_script_are_not_followed(tmp_path: Path, victim: Path, name: str) -> None:
    root = write_project(tmp_path / "project", tracked=True)
    text = SCRIPT.replace("VICTIM", repr(str(victim))).replace("ACTION", ACTIONS[name])
    (root / "hostile.py").write_text(text)
    workbench = Workbench(root)
    done = workbench.submit("hostile.py")
    assert "done" in done.out
    workbench.run("history", "list")
    assert_untouched(victim)


# ---- links in a project that another user prepared ----


def test_asset_is_not_promoted_through_a_link(project: Project, victim: Path) -> None:
    run = make_run(project, "project_1700000000001")
    Path(run.file("outputs")).mkdir()
    Path(run.file("outputs/file")).write_text("weights")
    Path(project.root, "assets").symlink_to(victim)
    with pytest.raises(WorkbenchError):
        promote(project, run.path, "outputs/file", "model")
    Path(project.root, "assets").unlink()
    Path(project.root, "assets").mkdir()
    Path(project.root, "assets", "file.link").symlink_to(victim / "file")
    with pytest.raises(WorkbenchError):
        promote(project, run.path, "outputs/file", "file")
    remove_below(project.state_directory, "assets")
    Path(project.state_directory, "assets").symlink_to(victim)
    with pytest.raises(WorkbenchError):
        promote(project, run.path, "outputs/file", "deep")
    assert_untouched(victim)


def test_asset_is_not_downloaded_through_a_link(project: Project, victim: Path, tmp_path: Path) -> None:
    run = make_run(project, "project_1700000000001")
    Path(run.file("outputs/deep")).mkdir(parents=True)
    Path(run.file("outputs/deep/file")).write_text("weights")
    asset = promote(project, run.path, "outputs/deep")
    destination = tmp_path / "destination"
    destination.mkdir()
    (destination / "deep").symlink_to(victim)
    with pytest.raises(WorkbenchError):
        download_asset(asset, str(destination), overwrite=True)
    assert_untouched(victim)


@pytest.mark.parametrize("linked", [".workbench", ".workbench/trash"])
def test_deleting_a_configuration_file_does_not_follow_links(project: Project, victim: Path, linked: str) -> None:
    Path(project.root, linked).parent.mkdir(exist_ok=True)
    Path(project.root, linked).symlink_to(victim)
    path = os.path.join(project.config_directory, "local.runconfig")
    with pytest.raises(WorkbenchError, match="link"):
        delete(path)
    assert os.path.exists(path)
    assert_untouched(victim)


def test_configuration_cache_is_not_written_through_a_link(project: Project, victim: Path) -> None:
    os.makedirs(project.state_directory)
    os.symlink(victim, os.path.join(project.state_directory, "cache"))
    until_settled = os.stat(project.config_directory).st_mtime - 3600
    for name in os.listdir(project.config_directory):
        os.utime(os.path.join(project.config_directory, name), (until_settled, until_settled))
    Workbench(Path(project.root)).run("config", "check")
    Workbench(Path(project.root)).run("experiment", "submit", "-c", "local", "--dry-run", "hello.py")
    assert_untouched(victim)


def test_shell_in_a_run_does_not_write_through_snapshot_links(tmp_path: Path, victim: Path) -> None:
    root = write_project(tmp_path / "project", tracked=True)
    (root / "folder").symlink_to(victim)
    (root / "replace.py").write_text(
        "import os\nos.unlink('folder')\nos.mkdir('folder')\nopen('folder/file', 'w').write('changed')\nprint('done')\n"
    )
    workbench = Workbench(root)
    assert workbench.submit("replace.py").code == 0
    shown = workbench.run("shell", "-r", "1", "--", "cat", "folder/file")
    assert shown.out == "changed", shown
    assert_untouched(victim)


# ---- permissions ----


def test_files_of_a_run_are_private_to_the_user(tmp_path: Path) -> None:
    root = write_project(tmp_path / "project", tracked=True)
    (root / ".workbench").mkdir(mode=0o755)  # as earlier versions made it
    (root / "umask.py").write_text("import os\nprint(oct(os.umask(0)))\nopen('outputs/model', 'w')\n")
    mask = os.umask(0o027)
    try:
        done = Workbench(root).run_interpreter("experiment", "submit", "-c", "local", "umask.py")
    finally:
        os.umask(mask)
    assert "0o27\n" in done.out
    assert Workbench(root).run("history", "list").code == 0
    (run,) = (root / ".workbench" / "runs").glob("*_*")
    mine = [root / ".workbench", run.parent, run, *(path for path in run.iterdir() if path.is_file())]
    mine += [path for path in (root / ".workbench").iterdir() if path.is_file() and not path.name.startswith("index")]
    assert {path.name for path in mine} >= {"output.log", "pid", "exit", "run.json", "events.jsonl", "runs"}
    assert [str(path) for path in mine if path.stat().st_mode & 0o077] == []


def test_preparation_log_is_not_written_through_a_link(project: Project, victim: Path) -> None:
    project.prepare_state()
    preparation = Preparation(project, "local")
    os.symlink(victim / "file", preparation.path)
    with pytest.raises(OSError, match="symbolic links"):
        preparation.line("a line")
    assert_untouched(victim)


@pytest.mark.parametrize("linked", ["meta", "folder"])
def test_export_does_not_write_through_links(project: Project, victim: Path, tmp_path: Path, linked: str) -> None:
    make_run(project, "project_1700000000001", state="completed")
    destination = tmp_path / "mlruns"
    workbench = Workbench(Path(project.root))
    words = ("history", "export", "--format", "mlflow", "--all", str(destination))
    assert workbench.run(*words).code == 0
    (experiment,) = destination.iterdir()
    if linked == "meta":
        (experiment / "meta.yaml").unlink()
        (experiment / "meta.yaml").symlink_to(victim / "file")
    else:
        experiment.rename(tmp_path / "moved")
        experiment.symlink_to(victim)
    again = workbench.run(*words)
    # An experiment whose file is a link is not read, so the export makes another one.
    assert (again.code == 0) == (linked == "meta"), again
    assert_untouched(victim)
