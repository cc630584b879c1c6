"""Python stacks of runs on other machines and in containers, read by the real py-spy."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from tests.targets.docker_project import DockerProject, log
from tests.waiting import wait_until
from tui_workbench.runs.stacks import last_stacks
from tui_workbench.targets.hosts.py_spy import installed_py_spy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.engines import DockerEngine
    from tests.machines import Machine
    from tests.targets.remote_project import Remote

HANGS = """\
import multiprocessing, threading, time

def load_batches(started):
    started.set()
    while True:
        time.sleep(60)

def wait_for_lock(lock):
    with lock:
        pass

def train():
    started = multiprocessing.Event()
    multiprocessing.get_context("fork").Process(target=load_batches, args=(started,), daemon=True).start()
    started.wait()
    lock = threading.Lock()
    lock.acquire()
    threading.Thread(target=wait_for_lock, args=(lock,), name="prefetch", daemon=True).start()
    print("began", flush=True)
    wait_for_lock(lock)

train()
"""
"""A script that hangs: the main thread and another thread wait for a lock, and a child waits for its next batch."""


def places(record: dict[str, Any]) -> list[tuple[str, str, list[str]]]:
    """Return the role of each process with its threads: a name and the functions in the script, innermost first."""
    return [
        (
            " ".join(process["role"].split()[:2]),
            thread["name"],
            [frame["function"] for frame in thread["frames"] if frame["shown"] == "train.py"],
        )
        for process in record["processes"]
        for thread in process["threads"]
    ]


EXPECTED = [
    ("script", "MainThread", ["wait_for_lock", "train", "<module>"]),
    ("script", "prefetch", ["wait_for_lock"]),
    ("child of", "MainThread", ["load_batches", "train", "<module>"]),
]


def test_stacks_are_read_over_ssh(box: Remote) -> None:
    run_id = begin(box)
    # The first command sends py-spy; the second finds it on the machine.
    for _ in range(2):
        done = box.run("experiment", "stacks", "-r", run_id, "-o", "json")
        assert done.code == 0, done
        assert places(json.loads(done.out)) == EXPECTED


@pytest.fixture
def tools(box: Remote) -> Iterator[Path]:
    """Return a folder for stand-ins on the machine, which is first on the user's PATH."""
    folder = box.machine.home() / "tools"
    folder.mkdir()
    (box.machine.home() / ".bashrc").write_text("PATH=$HOME/tools:$PATH\n")
    write_program(folder / "uname", '[ "$1" = -m ] && echo aarch64 || exec /usr/bin/uname "$@"')
    yield folder
    shutil.rmtree(folder)
    (box.machine.home() / ".bashrc").unlink()


def write_program(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_other_architecture_needs_its_own_py_spy(box: Remote, tools: Path) -> None:
    run_id = begin(box)
    done = box.run("experiment", "stacks", "-r", run_id)
    done.error(3, "py-spy for aarch64 is missing on ", "`pip install py-spy`")
    shutil.copy(installed_py_spy().path, tools / "py-spy")
    assert "    wait_for_lock (train.py:" in box.run("experiment", "stacks", "-r", run_id).out


def test_refused_reading_names_the_remedy(box: Remote, tools: Path) -> None:
    # A stand-in: the kernel of the tests has no Yama, and permits a user to read own processes.
    write_program(
        tools / "py-spy", "echo 'Error: Permission Denied: Try running again with elevated permissions' >&2; exit 1"
    )
    box.run("experiment", "stacks", "-r", begin(box)).error(
        1, "does not permit py-spy to read the processes", "seccomp"
    )


def begin(box: Remote) -> str:
    box.write(HANGS)
    run_id = box.detach("train.py", configuration="box")
    wait_until(lambda: "began" in box.log(run_id))
    return run_id


def test_stacks_are_read_in_a_container(tmp_path: Path, engine: DockerEngine) -> None:
    project = DockerProject(tmp_path / "project", nativeSharedDirectory=str(tmp_path / "share"))
    check_container(project)


def test_stacks_are_read_in_a_container_elsewhere(
    tmp_path: Path, gpubox: Machine, gpubox_engine: DockerEngine, ssh_folder: Path
) -> None:
    login = {"type": "remotedocker", "address": gpubox.address, "username": "research"}
    check_container(DockerProject(tmp_path / "project", **login))


def check_container(project: DockerProject) -> None:
    run = project.submit(HANGS)
    wait_until(lambda: "began" in log(run))
    try:
        for _ in range(2):
            project.runs.stacks(run.run_id)
        assert len(last_stacks(run.directory).processes) == 2
    finally:
        project.runs.cancel(run.run_id, grace=0)
