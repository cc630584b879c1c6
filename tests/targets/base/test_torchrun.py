"""Runs under torchrun in a container and on another machine, with a real PyTorch."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.engines import DockerEngine
from tests.faults.support import until
from tests.targets.docker_project import DockerProject, log
from tests.targets.remote_project import Remote
from tests.torch_parts import TORCH_IMAGE, load_torch_image, require_same_python
from tests.waiting import wait_until
from tui_workbench.core.model import RunRequest
from tui_workbench.runs.logs.rank_files import rank_log, ranks_of
from tui_workbench.targets.docker.container import container_name

if TYPE_CHECKING:
    pass

TRAIN = """
import os, sys
import torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1) * (dist.get_rank() + 1)
dist.all_reduce(total)
os.write(1, b"raw \\xff of %d\\n" % dist.get_rank())
print("sum", total.item(), os.environ["OMP_NUM_THREADS"], sys.argv[1:])
dist.destroy_process_group()
"""

RANK = """
import os, signal, sys, time
rank = int(os.environ["RANK"])
print("rank", rank, "is", os.getpid(), flush=True)
"""


@pytest.fixture(scope="session")
def torch_engine(session_engine: DockerEngine) -> DockerEngine:
    """Return the session's engine with an image that holds PyTorch."""
    require_same_python()
    load_torch_image(session_engine)
    return session_engine


@pytest.fixture
def project(tmp_path: Path, torch_engine: DockerEngine, engine: DockerEngine) -> DockerProject:
    """Return a project whose scripts run as two ranks in a container."""
    found = DockerProject(
        tmp_path / "project", baseDockerImage=TORCH_IMAGE, nativeSharedDirectory=str(tmp_path / "share")
    )
    found.runconfig(ProcessesPerNode=2, EnvironmentVariables={"OMP_NUM_THREADS": "1"})
    return found


def ranks(directory: str) -> list[bytes]:
    return [Path(rank_log(directory, rank)).read_bytes() for rank in ranks_of(directory)]


def test_two_ranks_communicate_in_a_container(project: DockerProject) -> None:
    plan = project.runs.plan(RunRequest("docker", project.script(TRAIN)))
    start = plan.step("start")
    assert start is not None
    assert start.command[1:] == (
        "/workbench/sdk/workbench_ranks.py", "/workbench/run/ranks",
        "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", "train.py",
    )  # fmt: skip
    run = project.run(TRAIN, "a b")
    assert run.state == "completed", (run, log(run))
    for rank, written in enumerate(ranks(run.directory)):
        assert b"raw \xff of %d\nsum 3.0 1 ['a b']\n" % rank in written
        assert f"[rank{rank}]: sum 3.0" in log(run)


def test_rank_out_of_memory_is_reported(project: DockerProject, engine: DockerEngine) -> None:
    # The kernel must choose neither the launcher nor torchrun.
    greedy = f"""{RANK}
while rank and not os.path.exists("/azureml-share/go"):
    time.sleep(0.02)
if rank:
    open("/proc/self/oom_score_adj", "w").write("1000")
    held = [bytearray(1 << 24) for _ in range(1000)]
time.sleep(60)
"""
    run = project.submit(greedy)
    project.until(run, "[rank1]: rank 1 is")
    engine.docker("update", "--memory", "600m", "--memory-swap", "600m", container_name(run.run_id))
    share = Path(project.root.parent, "share", "project")
    (share / "go").touch()
    run = project.ended(run)
    assert run.state == "failed"
    assert run.reason.startswith("rank 1 was killed: out of memory"), run


def test_cancel_ends_all_ranks_in_a_container(project: DockerProject, engine: DockerEngine) -> None:
    run = project.submit(f"{RANK}signal.signal(15, signal.SIG_IGN)\nprint('deaf', flush=True)\ntime.sleep(60)\n")
    wait_until(lambda: log(run).count("deaf") == 2)
    run = project.runs.cancel(run.run_id, grace=0.2)
    assert run.state == "canceled"
    assert container_name(run.run_id) not in engine.containers()


# --- On another machine


@pytest.fixture
def there(box: Remote, torch_path: Path) -> Remote:
    """Return a project whose target has PyTorch."""
    variables = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(torch_path), "PYTHONDONTWRITEBYTECODE": "1"}
    box.configure(ProcessesPerNode=2, EnvironmentVariables=variables)
    return box


def test_two_ranks_communicate_on_another_machine(there: Remote) -> None:
    there.write(TRAIN)
    result = there.submit("train.py", "a b", configuration="box")
    assert result.code == 0, result
    run_id = result.out.split()[1]
    for rank, written in enumerate(ranks(str(there.run_directory(run_id)))):
        assert b"raw \xff of %d\nsum 3.0 1 ['a b']\n" % rank in written
        assert written == (there.there(run_id) / "ranks" / f"{rank}.log").read_bytes()


def test_output_of_ranks_arrives_during_the_run(there: Remote) -> None:
    there.write(f"{RANK}\nwhile True:\n    print('tick', flush=True)\n    time.sleep(0.1)\n")
    run_id = there.detach("train.py", configuration="box")
    here = there.run_directory(run_id)

    def second() -> bytes:
        path = here / "ranks" / "1.log"
        return path.read_bytes() if path.exists() else b""

    until(lambda: second().count(b"tick") > 3, "the second rank's output")
    seen = second().count(b"tick")
    until(lambda: second().count(b"tick") > seen, "more of it")
    assert there.run("logs", run_id, "--rank", "1").out.startswith("rank 1 is")
    # One rank is killed, and the other ends, too.
    pid = int(second().split()[3])
    there.machine.run(["kill", "-KILL", str(pid)])
    there.until_status(run_id, "Failed")
    assert there.info(run_id)["reason"].startswith("rank 1 was killed by signal 9 (SIGKILL)")
    assert (there.there(run_id) / "ranks" / "0.log").read_bytes() == (here / "ranks" / "0.log").read_bytes()
    assert not of_the_run(run_id)


def of_the_run(run_id: str) -> list[str]:
    """Return the local IDs of a run's processes on all test machines."""
    found = []
    for path in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if path.name.isdigit() and f"WORKBENCH_RUN_ID={run_id}".encode() in (path / "environ").read_bytes():
                found.append(path.name)
    return found


def test_cancel_ends_all_ranks_on_another_machine(there: Remote) -> None:
    there.write(f"{RANK}signal.signal(15, signal.SIG_IGN)\nprint('deaf', flush=True)\ntime.sleep(60)\n")
    run_id = there.detach("train.py", configuration="box")
    until(lambda: there.log(run_id).count("deaf") == 2, "deaf ranks")
    assert there.run("experiment", "cancel", "--run", run_id, "--grace", "0.2").code == 0
    assert there.status(run_id) == "Canceled"
    assert not of_the_run(run_id)
