"""Containers with GPUs, through the real controller and a real engine, here and on another machine.

The engine's hook, the driver and its tools are stand-ins: they test which devices a container requests
and which processes belong to it, but nothing about CUDA.
"""

from __future__ import annotations

import contextlib
import functools
import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.conftest import open_folder
from tests.engines import DockerEngine, NvidiaStandIn, docker_engine, load_images
from tests.gpu.standin import REST, Built, Standin, gpu, process
from tests.machines import Machine, machine
from tests.runs.gated_project import watchers
from tests.targets.docker_project import DockerProject, controller_of, log
from tests.waiting import wait_until
from tui_workbench.core.model import RunRequest
from tui_workbench.runs.gpu.run_verdict import brief_of
from tui_workbench.targets.docker.container import container_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tui_workbench.core.model import Run

FIRST, SECOND = (f"GPU-{number:08d}-0000-0000-0000-000000000000" for number in (0, 1))

# The computing process has no variables of the run, so only its container identifies its owner.
TRAIN = """
    import os, subprocess, sys, time
    print("given", os.environ.get("NVIDIA_VISIBLE_DEVICES"), flush=True)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600) # computes"], env={})
    while not os.path.exists("/azureml-share/" + sys.argv[1]):
        time.sleep(0.05)
    child.kill()
"""
SAYS = 'import os; print("given", os.environ.get("NVIDIA_VISIBLE_DEVICES"))'


@pytest.fixture(scope="module")
def hook(tmp_path_factory: pytest.TempPathFactory) -> NvidiaStandIn:
    return NvidiaStandIn(tmp_path_factory.mktemp("hook"))


@pytest.fixture(scope="module")
def gpu_engine(hook: NvidiaStandIn) -> Iterator[DockerEngine]:
    """Return an engine of this machine that can give its containers GPUs."""
    with docker_engine(environment=hook.environment) as engine:
        yield engine


@pytest.fixture
def project(
    tmp_path: Path, standin: Standin, gpu_engine: DockerEngine, monkeypatch: pytest.MonkeyPatch
) -> Iterator[DockerProject]:
    """Return a project whose runs each take a free GPU of two."""
    standin.write(gpu(0, REST), gpu(1, REST))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{gpu_engine.socket}")
    made = DockerProject(tmp_path / "project")
    choose(made, "free")
    yield made
    end_all(made)


def choose(project: DockerProject, gpus: object, **more: Any) -> None:
    share = {} if "address" in more else {"nativeSharedDirectory": str(project.root.parent / "share")}
    project.compute(gpus=gpus, maxConcurrentRuns=0, **share, **more)


def end_all(project: DockerProject) -> None:
    for run in project.runs.list():
        if run.is_active:
            project.runs.cancel(run.run_id, grace=0.0)


def begin(project: DockerProject, *arguments: str) -> Run:
    """Start a run, and wait until it has printed its GPUs."""
    run = project.runs.submit(RunRequest("docker", project.script(TRAIN), arguments, allow_cpu=True))
    project.until(run, "\n")
    return run


def computing(engine: DockerEngine, run: Run) -> int:
    """Return the ID of the run's computing process on the machine of the engine."""

    def found() -> list[str]:
        rows = engine.docker("top", container_name(run.run_id), "-eo", "pid,args").splitlines()
        return [row.split()[0] for row in rows if "# computes" in row]

    wait_until(found)
    return int(found()[0])


def verdict(run: Run) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(run.directory, "gpu.json").read_text())
    return found


def is_proven(run: Run) -> bool:
    """Return True if the samples so far prove that the run used a GPU."""
    return brief_of(run.directory).get("verdict") == "proven"


def owners(run: Run) -> set[str]:
    """Return the owners of the processes in the run's samples; ended processes have no owner."""
    path = Path(run.directory, "gpu.jsonl")
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return {each[4] for line in lines for each in json.loads(line).get("p", ()) if len(each) > 4}


def test_two_runs_with_free_gpus_are_proven(
    project: DockerProject, standin: Standin, gpu_engine: DockerEngine, hook: NvidiaStandIn
) -> None:
    first, second = begin(project, "first"), begin(project, "second")
    assert {log(run).split()[1] for run in (first, second)} == {FIRST, SECOND}
    assert (log(first).split()[1], hook.requests[-2:]) == (FIRST, [FIRST, SECOND])
    third = project.run(SAYS)
    assert third.state == "failed"
    assert f"GPU 0 is taken by {first.run_id}; GPU 1 is taken by {second.run_id}" in third.reason
    standin.write(
        gpu(0, util=80), gpu(1, util=90),
        process(computing(gpu_engine, first), 0, 700), process(computing(gpu_engine, second), 1, 800),
    )  # fmt: skip
    wait_until(lambda: is_proven(first) and is_proven(second))
    for run, memory, number in ((first, 700, 0), (second, 800, 1)):
        (project.root.parent / "share" / "project" / ("first", "second")[number]).touch()
        ended = project.ended(run)
        assert ended.state == "completed", ended
        found = verdict(run)
        assert (found["verdict"], found["final"]) == ("proven", True), found
        assert [(each["number"], each["peak_memory"]) for each in found["devices"]] == [(number, memory)]
        assert owners(run) == {"own"}
    # Their GPUs are free again.
    standin.write(gpu(0, REST), gpu(1, REST))
    assert log(project.run(SAYS)) == f"given {FIRST}\n"


def test_watcher_records_the_gpus_of_all_runs(
    project: DockerProject, standin: Standin, gpu_engine: DockerEngine
) -> None:
    runs = [begin(project, name) for name in ("first", "second")]
    wait_until(lambda: {controller_of(run) for run in runs} == set(watchers()), "one watcher for all runs")
    standin.write(
        *(gpu(number, util=80) for number in range(2)),
        *(process(computing(gpu_engine, run), number, 700) for number, run in enumerate(runs)),
    )
    for number, run in enumerate(runs):
        wait_until(functools.partial(is_proven, run))
        (project.root.parent / "share" / "project" / ("first", "second")[number]).touch()
        assert project.ended(run).state == "completed"
        assert [each["number"] for each in verdict(run)["devices"] if each["peak_memory"]] == [number]
        assert owners(run) == {"own"}


def test_local_run_avoids_the_gpu_of_a_container(project: DockerProject) -> None:
    first = begin(project, "first")
    files = {
        "compute": f"type: local\npythonLocation: {sys.executable}\ngpus: free\nmaxConcurrentRuns: 0\n",
        "runconfig": "Target: local\nFramework: Python\nArgumentVector: [$file]\n",
    }
    for suffix, text in files.items():
        (project.configuration / f"local.{suffix}").write_text(text)
    script = project.script('import os; print("given", os.environ["CUDA_VISIBLE_DEVICES"])', "other.py")
    beside = project.ended(project.runs.submit(RunRequest("local", script, allow_cpu=True)))
    assert (beside.state, log(first), log(beside)) == ("completed", f"given {FIRST}\n", "given 1\n")


@pytest.mark.parametrize(
    ("gpus", "given"),
    [("all", "all"), (2, f"{FIRST},{SECOND}"), ([1], SECOND), ([SECOND, 0], f"{SECOND},{FIRST}"), (0, "None")],
    ids=["all", "two", "one of them", "by id and number", "none"],
)
def test_container_gets_the_gpus_of_the_target(project: DockerProject, gpus: object, given: str) -> None:
    choose(project, gpus)
    run = project.runs.submit(RunRequest("docker", project.script(SAYS), allow_cpu=True))
    assert project.ended(run).state == "completed", project.get(run)
    assert log(run) == f"given {given}\n"


def test_failed_hook_releases_the_gpu(project: DockerProject, hook: NvidiaStandIn, home: Path) -> None:
    hook.break_driver()
    try:
        run = project.runs.submit(RunRequest("docker", project.script(SAYS), allow_cpu=True))
        ended = project.ended(run)
    finally:
        hook.repair_driver()
    assert ended.state == "failed"
    assert "the NVIDIA runtime on this machine cannot start the container" in ended.reason
    assert list((home / ".workbench-tui/gpus").iterdir()) == []


# --- On another machine


@pytest.fixture(scope="module")
def remote_machine(key: Path) -> Iterator[Machine]:
    """Return a separate machine, because its engine is started with the hook."""
    with open_folder() as folder, machine("gpuhost", folder, key) as made:
        yield made


@pytest.fixture(scope="module")
def remote_engine(remote_machine: Machine, hook: NvidiaStandIn) -> Iterator[DockerEngine]:
    engine = DockerEngine(remote_machine.folder / "docker", machine=remote_machine, environment=hook.environment)
    engine.start()
    load_images(engine)
    yield engine
    engine.destroy()


@pytest.fixture
def there(
    tmp_path: Path, standin: Standin, standin_parts: Built, remote_machine: Machine, remote_engine: DockerEngine,
    home: Path, connections: Path, key: Path,
) -> Iterator[DockerProject]:  # fmt: skip
    """Return a project whose runs take a free GPU of two on the other machine."""
    ssh = home / ".ssh"
    ssh.mkdir(mode=0o700)
    shutil.copy(key, ssh / "id_ed25519")
    (ssh / "known_hosts").write_text(remote_machine.known_hosts_line)
    programs, state = remote_machine.folder / "bin", remote_machine.folder / "gpus"
    shutil.copytree(standin_parts.programs, programs, dirs_exist_ok=True)
    standin.state = state
    standin.write(gpu(0, REST), gpu(1, REST))
    made = DockerProject(tmp_path / "project")
    choose(made, "free", type="remotedocker", address=remote_machine.address, username="research")
    with remote_machine.configured(f"SetEnv PATH={programs}:/usr/bin:/bin STANDIN_NVML_STATE={state}"):
        yield made
        with contextlib.suppress(OSError):
            end_all(made)


def test_gpus_are_chosen_on_a_remote_engine(
    there: DockerProject, standin: Standin, remote_machine: Machine, remote_engine: DockerEngine
) -> None:
    first, second = begin(there, "first"), begin(there, "second")
    assert (log(first).split()[1], log(second).split()[1]) == (FIRST, SECOND)
    standin.write(
        gpu(0, util=80), gpu(1, util=90), process(computing(remote_engine, first), 0, 700),
        process(computing(remote_engine, second), 1, 800),
    )  # fmt: skip
    wait_until(lambda: is_proven(first) and is_proven(second))
    share = remote_machine.home() / ".azureml" / "share" / "project"
    for number, run in enumerate((first, second)):
        (share / ("first", "second")[number]).touch()
        assert there.ended(run).state == "completed", there.get(run)
        assert verdict(run)["verdict"] == "proven", verdict(run)
        assert [each["number"] for each in verdict(run)["devices"]] == [number]
    assert list((remote_machine.home() / ".workbench-tui" / "gpus").iterdir()) == []
