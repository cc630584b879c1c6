"""One watcher drives all runs in containers of an engine whose scripts have been running for some seconds."""

from __future__ import annotations

import functools
import json
import subprocess
import textwrap
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.conftest import require
from tests.engines import BARE_IMAGE, DockerEngine, docker_engine
from tests.faults.support import kill_controller
from tests.machines import Machine
from tests.runs.gated_project import kill, watchers
from tests.targets.docker_project import DockerProject, controller_of, log
from tests.targets.group_support import PRINTS, WRITTEN
from tests.waiting import wait_until
from tui_workbench.core.model import Run
from tui_workbench.runs.lifecycle.adoption import adopt_runs
from tui_workbench.targets.docker.container import container_name

KINDS = ("localdocker", "remotedocker")

BEGINS = """\
import os, sys, time
print("began", flush=True)
while not os.path.exists("/tmp/go"): time.sleep(0.05)
"""


class Containers:
    """A project whose runs execute in containers of an engine."""

    def __init__(self, project: DockerProject, engine: DockerEngine, machine: Machine | None = None) -> None:
        self.project = project
        self.engine = engine
        self.machine = machine

    def begin(self, then: str = "", *, before: str = "") -> Run:
        """Start a script that waits for `go_on` between two parts, and return its run when it waits."""
        run = self.project.submit(textwrap.dedent(before) + BEGINS + textwrap.dedent(then))
        self.project.until(run, "began")
        return run

    def go_on(self, *runs: Run) -> None:
        """Continue the waiting scripts."""
        for run in runs:
            # A script that ends at once ends its container, and with it the command, which then fails.
            self.engine.docker("exec", container_name(run.run_id), "touch", "/tmp/go", check=False)

    def watched(self, runs: Sequence[Run]) -> int:
        """Wait until one watcher drives all runs, and return its process ID."""

        def holder() -> int:
            found = {controller_of(run) for run in runs}
            return found.pop() if len(found) == 1 and found <= set(watchers()) else 0

        return int(wait_until(holder, "one watcher for all runs"))

    def ended(self, run: Run) -> tuple[str, int | None]:
        """Wait for the end of a run, and return its state and exit code."""
        ended = self.project.ended(run)
        return ended.state, ended.exit_code

    def is_unknown(self, run: Run) -> bool:
        return self.project.get(run).state == "unknown"


@pytest.fixture
def there(tmp_path: Path, gpubox: Machine, gpubox_engine: DockerEngine, ssh_folder: Path) -> Containers:
    project = DockerProject(tmp_path / "project", type="remotedocker", address=gpubox.address, username="research")
    return Containers(project, gpubox_engine, gpubox)


@pytest.fixture(params=[pytest.param(kind, marks=pytest.mark.docker) for kind in KINDS])
def containers(tmp_path: Path, request: pytest.FixtureRequest) -> Containers:
    if request.param == "remotedocker":
        return request.getfixturevalue("there")  # type: ignore[no-any-return]
    return local_containers(tmp_path, request.getfixturevalue("engine"))


def local_containers(folder: Path, engine: DockerEngine, **compute: str) -> Containers:
    return Containers(DockerProject(folder / "project", nativeSharedDirectory=str(folder / "share"), **compute), engine)


def docker_context(*arguments: str) -> None:
    subprocess.run([require("docker"), "context", *arguments], check=True, capture_output=True)


def has_lines(run: Run, lines: int) -> bool:
    return log(run).count("\n") >= lines


def test_one_process_drives_many_runs_to_their_ends(containers: Containers) -> None:
    runs = {code: containers.begin(f"print({code}); sys.exit({code})\n") for code in range(4)}
    containers.watched(list(runs.values()))
    containers.go_on(*runs.values())
    for code, run in runs.items():
        assert containers.ended(run) == ("failed" if code else "completed", code)
        assert log(run) == f"began\n{code}\n"
    assert containers.engine.containers("label=workbench-tui.kind=run") == []


def test_output_and_metrics_arrive_while_the_script_runs(there: Containers) -> None:
    run = there.begin(
        "import workbench; workbench.log('loss', 0.5); print('between', flush=True)\n"
        "while not os.path.exists('/tmp/go2'): time.sleep(0.05)\n"
    )
    there.watched([run])
    there.go_on(run)
    wait_until(lambda: log(run) == "began\nbetween\n", "the output")
    metrics = Path(run.directory, "metrics.jsonl")
    wait_until(lambda: metrics.exists() and metrics.read_text(), "the metrics")
    assert json.loads(metrics.read_text().partition("\n")[0])
    assert there.project.get(run).state == "running"
    there.engine.docker("exec", container_name(run.run_id), "touch", "/tmp/go2")
    assert there.ended(run) == ("completed", 0)


def test_log_is_complete_after_a_killed_watcher(containers: Containers) -> None:
    runs = [containers.begin(PRINTS) for _ in range(2)]
    watcher = containers.watched(runs)
    containers.go_on(*runs)
    wait_until(functools.partial(has_lines, runs[0], 10_000), "the log to grow")
    if containers.machine is not None:
        containers.machine.kill_connections()
        wait_until(functools.partial(has_lines, runs[0], 25_000), "the log to grow")
    kill(watcher)
    containers.project.runs.resume()
    for run in runs:
        assert containers.ended(run) == ("completed", 0)
        assert log(run) == WRITTEN


def test_killed_watcher_is_replaced_while_scripts_run(containers: Containers) -> None:
    runs = [containers.begin("print('went on')\n") for _ in range(2)]
    before = containers.watched(runs)
    kill(before)
    containers.project.runs.resume()
    assert containers.watched(runs) != before
    assert [containers.project.get(run).state for run in runs] == ["running", "running"]
    containers.go_on(*runs)
    for run in runs:
        assert containers.ended(run) == ("completed", 0)
        assert log(run) == "began\nwent on\n"


def test_run_that_ended_without_a_watcher_is_completed_by_the_next(containers: Containers) -> None:
    run = containers.begin("print('went on'); sys.exit(3)\n")
    kill(containers.watched([run]))
    containers.go_on(run)
    containers.engine.docker("wait", container_name(run.run_id))
    containers.project.runs.resume()
    assert containers.ended(run) == ("failed", 3)
    assert log(run) == "began\nwent on\n"


def test_container_removed_by_another_program_ends_only_its_run(containers: Containers) -> None:
    removed, killed, other = (containers.begin("print('went on')\n") for _ in range(3))
    containers.watched([removed, killed, other])
    containers.engine.docker("rm", "--force", container_name(removed.run_id))
    containers.engine.docker("kill", container_name(killed.run_id))
    assert containers.ended(removed) == ("failed", None)
    assert "was removed by another program" in containers.project.get(removed).reason
    assert containers.ended(killed) == ("failed", 137)
    assert containers.project.get(other).state == "running"
    containers.go_on(other)
    assert containers.ended(other) == ("completed", 0)
    assert log(other) == "began\nwent on\n"


def test_cancel_ends_the_container_of_a_watched_run(containers: Containers) -> None:
    canceled = containers.begin(
        before="""\
            import signal, sys
            signal.signal(signal.SIGTERM, lambda *_: (print("asked", flush=True), sys.exit(3)))
        """
    )
    other = containers.begin("print('went on')\n")
    containers.watched([canceled, other])
    assert containers.project.runs.cancel(canceled.run_id, grace=30).state == "canceled"
    assert log(canceled) == "began\nasked\n"
    assert containers.engine.containers("label=workbench-tui.kind=run") == [container_name(other.run_id)]
    assert containers.project.get(other).state == "running"
    containers.go_on(other)
    assert containers.ended(other) == ("completed", 0)


def test_two_projects_follow_the_same_run(there: Containers, tmp_path: Path) -> None:
    assert there.machine is not None
    run = there.begin("print('went on')\n")
    copy = DockerProject(
        tmp_path / "copy" / "project", type="remotedocker", address=there.machine.address, username="research"
    )
    assert list(adopt_runs(copy.runs.project, "docker")) == [run.run_id]
    copy.runs.resume()
    other = copy.runs.directory(run.run_id).run()
    there.watched([run, other])
    there.go_on(run)
    for project, each in ((there.project, run), (copy, other)):
        assert project.ended(each).state == "completed"
        assert log(each) == "began\nwent on\n"


def test_watched_runs_on_a_lost_machine_are_unknown(there: Containers) -> None:
    assert there.machine is not None
    runs = [there.begin("print('went on')\n") for _ in range(2)]
    there.watched(runs)
    there.machine.stop_sshd()
    try:
        for run in runs:
            wait_until(functools.partial(there.is_unknown, run))
        there.go_on(*runs)
    finally:
        there.machine.start_sshd()
    for run in runs:
        assert there.ended(run) == ("completed", 0)
        assert log(run) == "began\nwent on\n"


@pytest.mark.docker
def test_restart_of_the_engine_ends_watched_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with docker_engine(options=["--shutdown-timeout", "1"]) as engine:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{engine.socket}")
        containers = local_containers(tmp_path, engine)
        runs = [containers.begin() for _ in range(2)]
        containers.watched(runs)
        engine.stop()
        for run in runs:
            wait_until(functools.partial(containers.is_unknown, run))
        engine.start()
        for run in runs:
            assert "the Docker engine on this machine was restarted" in containers.project.ended(run).reason
            assert log(run) == "began\n"
        assert engine.containers() == []


@pytest.mark.docker
def test_watched_run_survives_an_engine_restart_with_live_restore(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with docker_engine(options=["--live-restore"]) as engine:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{engine.socket}")
        containers = local_containers(tmp_path, engine)
        runs = [containers.begin("print('went on'); sys.exit(4)\n") for _ in range(2)]
        containers.watched(runs)
        engine.stop()
        for run in runs:
            wait_until(functools.partial(containers.is_unknown, run))
        engine.start()
        for run in runs:
            wait_until(lambda run=run: containers.project.get(run).state == "running")  # type: ignore[misc]
        containers.go_on(*runs)
        for run in runs:
            assert containers.ended(run) == ("failed", 4)
            assert log(run) == "began\nwent on\n"


def test_run_in_an_image_without_a_shell_keeps_its_controller(tmp_path: Path, engine: DockerEngine) -> None:
    containers = local_containers(tmp_path, engine, baseDockerImage=BARE_IMAGE)
    go_on = "/workbench/run/metrics.jsonl"
    run = containers.project.submit(
        f"""
        import os, time
        print("began", flush=True)
        while not os.path.getsize("{go_on}"): time.sleep(0.05)
        print("went on", flush=True)
        while os.path.getsize("{go_on}") < 6: time.sleep(0.05)
        """
    )
    containers.project.until(run, "began")
    kill_controller(Path(run.directory))
    containers.project.runs.resume()
    wait_until(lambda: controller_of(run) > 0, "a controller")
    assert watchers() == []
    Path(run.directory, "metrics.jsonl").write_text("{}\n")
    wait_until(lambda: log(run) == "began\nwent on\n", "the output")
    Path(run.directory, "metrics.jsonl").write_text("{}\n{}\n")
    assert containers.ended(run) == ("completed", 0)


def test_watcher_keeps_its_engine_if_another_context_is_chosen(
    tmp_path: Path, engine: DockerEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DOCKER_HOST")
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    for name, socket in (("first", engine.socket), ("second", "/nonexistent.sock")):
        docker_context("create", name, "--docker", f"host=unix://{socket}")
    docker_context("use", "first")
    containers = local_containers(tmp_path, engine)
    run = containers.begin()
    containers.watched([run])
    docker_context("use", "second")
    assert containers.project.runs.cancel(run.run_id).state == "canceled"
    assert engine.containers() == []
