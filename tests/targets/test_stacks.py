"""Python stacks of runs on other machines and in containers, read by the real py-spy."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.targets.docker_project import DockerProject, log
from tests.waiting import wait_until
from tui_workbench.runs.stacks import last_stacks

if TYPE_CHECKING:
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
    box.write(HANGS)
    run_id = box.detach("train.py", configuration="box")
    wait_until(lambda: "began" in box.log(run_id))
    # The first command sends py-spy; the second finds it on the machine.
    for _ in range(2):
        done = box.run("experiment", "stacks", "-r", run_id, "-o", "json")
        assert done.code == 0, done
        assert places(json.loads(done.out)) == EXPECTED


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
