"""A run's directory on another machine."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.targets.docker_fixtures import files_of
from tests.targets.harness import Script
from tests.targets.remote_fixtures import RemoteHarness
from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.waiting import Interrupted
from tui_workbench.targets.hosts import host_run
from tui_workbench.targets.hosts.fetching import fetch
from tui_workbench.targets.hosts.host import DEFAULT_TIMEOUT
from tui_workbench.targets.hosts.host_run import HostRun
from tui_workbench.targets.remote.remote_target import RemoteTarget
from tui_workbench.targets.ssh.ssh_host import SshHost
from tui_workbench.targets.values import Report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.machines import Machine
    from tui_workbench.core.model import RunSpec
    from tui_workbench.targets.hosts.host import Host, HostProcess


class Ended(HostRun):
    """An ended run that has created `outputs/model` and `notes`; `there` is the local path of its remote directory."""

    spec: RunSpec
    there: Path
    here: Path


@pytest.fixture
def run(tmp_path: Path, gpubox: Machine, host: SshHost) -> Iterator[Ended]:
    harness = RemoteHarness(tmp_path, gpubox, host)
    spec = harness.spec(Script())
    ended = Ended(host, spec)
    ended.spec = spec
    ended.there, ended.here = harness.directory(spec), tmp_path / "runs" / spec.run_id
    ended.make_folders(f"{ended.directory}/work/outputs")
    host.check(["sh", "-c", 'cd "$1" && echo 1 >work/train.py && : >placed', "sh", ended.directory])
    host.check(["sh", "-c", 'cd "$1/work" && sleep 0.01; echo w >outputs/model; echo n >notes', "sh", ended.directory])
    yield ended
    shutil.rmtree(gpubox.home() / ".workbench-tui", ignore_errors=True)


class CountingHost(SshHost):
    """A machine over SSH; `opened` has the programs that were started there."""

    def __init__(self, host: SshHost) -> None:
        super().__init__(host.login)
        self.opened: list[Sequence[str]] = []

    def open(self, argv: Sequence[str], *, timeout: float = DEFAULT_TIMEOUT) -> HostProcess:
        self.opened.append(argv)
        return super().open(argv, timeout=timeout)


def test_one_request_places_an_unchanged_project(tmp_path: Path, gpubox: Machine, host: SshHost) -> None:
    harness = RemoteHarness(tmp_path, gpubox, host)
    first, second, third = (harness.spec(Script()) for _ in range(3))
    (Path(second.run_directory) / "run.json").write_text("the record")

    def send(spec: RunSpec) -> int:
        counting = CountingHost(host)
        run = HostRun(counting, spec)
        counting.opened.clear()
        run.send(lambda: files_of(Path(spec.working_directory)), Report())
        assert names(harness.directory(spec) / "work") == names(tmp_path / "project")
        assert (harness.directory(spec) / "work" / "outputs").stat().st_mode & 0o777 == 0o755
        return len(counting.opened)

    send(first)
    assert send(second) == 1
    assert (harness.directory(second) / "run.json").read_text() == "the record"
    (tmp_path / "project" / "new").touch()
    assert send(third) == 3
    shutil.rmtree(gpubox.home() / ".workbench-tui")


def test_targets_with_the_same_login_do_not_send_at_the_same_time(
    tmp_path: Path, gpubox: Machine, host: SshHost
) -> None:
    """They share the folder of the last sent files."""
    spec = RemoteHarness(tmp_path, gpubox, host).spec(Script())
    same = spec.target._replace(name="docker", type="remotedocker")
    other = same._replace(username="another")
    report = Report()
    report.interrupted, write_end = os.pipe()
    os.close(write_end)  # so that waiting is interrupted
    with open(report.interrupted), HostRun(host, spec).locked(Report()):
        with pytest.raises(Interrupted), HostRun(host, spec._replace(target=same)).locked(report):
            pass
        with HostRun(host, spec._replace(target=other)).locked(report):
            pass


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_fetch_copies_only_files_of_the_run(run: Ended) -> None:
    run.fetch(Report())
    assert names(run.here) == ["outputs/model", "work/notes"]
    run.fetch(Report())
    assert names(run.here) == ["outputs/model", "work/notes"]


def test_missing_folder_is_not_an_error_but_a_missing_run_is(run: Ended) -> None:
    shutil.rmtree(run.there / "work")
    run.fetch(Report())
    assert names(run.here) == []
    shutil.rmtree(run.there)
    with pytest.raises(WorkbenchError, match=r"cannot list the run.s folder"):
        run.fetch(Report())


def test_copy_removed_during_fetch_is_not_an_error(run: Ended, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine that submitted the run has fetched its files; this machine only follows the run."""

    def later(host: Host, source: str, destination: str, is_kept: Callable[[str], bool], *, since: str) -> object:
        if source.endswith("/work"):
            run.remove_copy()
            (run.here / "work.part").mkdir()  # of an attempt that came too late
        return fetch(host, source, destination, is_kept, since=since)

    monkeypatch.setattr(host_run, "fetch", later)
    run.fetch(Report())
    assert names(run.here) == ["outputs/model"]
    assert not (run.here / "work.part").exists()


def test_started_run_reserves_no_more_gpus(run: Ended, host: SshHost) -> None:
    """The machine has no GPU tool, so that every question about its GPUs fails."""
    compute = run.spec.target._replace(gpus="free")
    spec, target = run.spec._replace(target=compute), RemoteTarget(compute, host)
    with pytest.raises(WorkbenchError, match="cannot query the GPUs of"):
        target.reserve(spec)
    (run.there / "pid").write_text("1 1\n")
    target.reserve(spec)


def test_process_that_has_started_the_script_does_not_ask_for_its_state(
    tmp_path: Path, gpubox: Machine, host: SshHost
) -> None:
    harness, counting = RemoteHarness(tmp_path, gpubox, host), CountingHost(host)
    spec = harness.spec(Script(output="written\n"))
    starter, other = (RemoteTarget(spec.target, counting) for _ in range(2))

    def requests_of_wait(target: RemoteTarget) -> int:
        counting.opened.clear()
        assert target.wait(spec, -1).exit_code == 0
        assert harness.log(spec) == b"written\n"
        return len(counting.opened)

    plan = starter.plan(spec)
    starter.prepare(spec, plan, lambda: files_of(Path(spec.working_directory)))
    starter.start(spec, plan, {})
    assert requests_of_wait(starter) == requests_of_wait(other) - 1 == requests_of_wait(starter) - 1
    harness.close()
    shutil.rmtree(gpubox.home() / ".workbench-tui")


def test_copy_is_created_atomically(run: Ended, gpubox: Machine) -> None:
    with (
        gpubox.replaced("/usr/bin/rm", '[ -e removed ] && exit 1; exec "$ORIGINAL" "$@"'),
        pytest.raises(WorkbenchError, match=r"cannot remove the run.s working copy"),
    ):
        run.remove_copy()
    assert not (run.there / "work").exists()
    assert (run.there / "removed" / "notes").exists()
    run.remove_copy()
    assert not (run.there / "removed").exists()
    run.remove_copy()
