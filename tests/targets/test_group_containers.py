"""Torchrun in containers on two machines, with a real PyTorch and real engines: two ranks on each, connected by Gloo.

The containers use the small Python image. PyTorch is mounted from the machine with `DataReferences`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.engines import PYTHON_IMAGE, DockerEngine, load_images
from tests.faults.support import kill_controller, until
from tests.targets.group_project import IN_CONTAINER, MEMBERS
from tests.targets.group_project import box2 as box2
from tests.targets.group_project import group as group
from tests.targets.test_group import TRAIN, lines_of
from tui_workbench.runs.logs.rank_files import rank_log, ranks_by_node
from tui_workbench.targets.docker.container import container_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.machines import Machine
    from tests.targets.group_project import Group

SCRIPT = """
import os, signal, sys, time
signal.signal(15, signal.SIG_IGN)
attempt, rank = os.environ["WORKBENCH_ATTEMPT"], int(os.environ["RANK"])
print("attempt", attempt, "in", os.environ["HOME"], flush=True)
if attempt == "2" and rank == 3: raise ValueError("bad shapes")
while attempt != "1" or not os.path.exists("die"): time.sleep(0.1)
os.kill(os.getpid(), 9)
"""


@pytest.fixture(scope="module")
def box2_engine(box2: Machine) -> Iterator[DockerEngine]:
    """The Docker engine of box2, with the Python image."""
    engine = DockerEngine(box2.folder / "docker", machine=box2)
    engine.start()
    load_images(engine)
    yield engine
    engine.destroy()


@pytest.fixture
def docker(
    group: Group, gpubox_engine: DockerEngine, box2_engine: DockerEngine, torch_path: Path
) -> tuple[Group, tuple[DockerEngine, DockerEngine]]:
    """Return the group with its engines. Runs find PyTorch in their containers."""
    group.configure(box1=IN_CONTAINER, box2=IN_CONTAINER, DataReferences=[str(torch_path)])
    return group, (gpubox_engine, box2_engine)


def test_ranks_in_containers_of_two_machines_communicate(
    docker: tuple[Group, tuple[DockerEngine, DockerEngine]],
) -> None:
    group, engines = docker
    prepared = group.run("experiment", "prepare", "-c", "both")
    assert (prepared.code, PYTHON_IMAGE in prepared.out) == (0, True), prepared
    checked = group.run("computetarget", "check", "both")
    assert checked.code == 0, checked
    assert re.search(r"ok +python +all members have Python 3\.\d+ and PyTorch ", checked.out), checked
    assert checked.out.count("(wire)") == 2, checked
    group.write(TRAIN)
    ended = group.submit("train.py", "a b", "--rdzv_endpoint=$HOME", configuration="both")
    (record,) = group.history()
    run_id, directory = record["run_id"], group.run_directory(record["run_id"])
    log = group.log(run_id)
    assert record["status"] == "Completed", (ended, log)
    by_node = ranks_by_node(str(directory))
    assert [len(by_node[name]) for name in MEMBERS] == [2, 2]
    for name, host in zip(MEMBERS, ("gpubox", "box2"), strict=True):
        for rank in by_node[name]:
            written = Path(rank_log(str(directory), rank)).read_text()
            assert written.endswith(f"sum 10.0 on {host} ['a b', '--rdzv_endpoint=$HOME']\n")
            assert lines_of(log, rank) == written.splitlines()
            assert (directory / "outputs" / f"rank{rank}.txt").read_text() == "own"
    assert len((directory / "metrics.jsonl").read_text().splitlines()) == 1
    assert [engine.containers() for engine in engines] == [[], []]


def test_failures_a_lost_member_and_a_cancel_with_containers(
    docker: tuple[Group, tuple[DockerEngine, DockerEngine]], torch_path: Path
) -> None:
    """A mixed group: box1 uses its own Python, and box2 a container. The ranks ignore SIGTERM."""
    group, (_, engine) = docker
    group.configure(box2=IN_CONTAINER, DataReferences=[str(torch_path)], Retry={"times": 1, "delay": 0})
    group.write(SCRIPT)
    run_id = group.detach("train.py", configuration="both")
    until(lambda: group.log(run_id).count("attempt 1 in") == 4, "all ranks of the first attempt")
    assert group.log(run_id).count("attempt 1 in /tmp") == 2  # as in containers
    kill_controller(group.run_directory(run_id))
    group.machines[1].stop_sshd()
    try:
        group.run("experiment", "resume")
        group.until_status(run_id, "Unknown")
        assert "member box2: " in group.info(run_id)["reason"]
    finally:
        group.machines[1].start_sshd()
    group.until_status(run_id, "Running")
    engine.docker("exec", container_name(run_id), "touch", "die")
    group.until_status(run_id, "Failed")
    information = group.info(run_id)
    assert [each["exit_code"] for each in information["attempts"]] == [1, 1]
    assert re.fullmatch(r"attempt 2: rank 3 on box[12]: ValueError: bad shapes \(.*\)", information["reason"])
    until(lambda: engine.containers() == [], "the removal of the container")
    assert group.run("experiment", "resume", "--run", run_id).code == 0
    until(lambda: group.log(run_id).count("attempt 3 in") == 4, "all ranks of the third attempt")
    assert engine.containers() == [container_name(run_id)]
    assert group.run("experiment", "cancel", "--run", run_id, "--grace", "0.2").code == 0
    assert group.status(run_id) == "Canceled"
    until(lambda: engine.containers() == [], "the removal of the container")
    until(lambda: not group.processes(), "the end of all ranks")
