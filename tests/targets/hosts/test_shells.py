"""The scripts for other machines work in every shell that is installed as `sh`. The machine is this one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import require_root
from tests.targets.docker_fixtures import files_of
from tests.targets.harness import PYTHON, Harness, Script
from tui_workbench.core.model import ComputeTarget
from tui_workbench.core.shell_scripts import shell_script
from tui_workbench.targets.hosts import host_run
from tui_workbench.targets.hosts.host import LocalHost
from tui_workbench.targets.hosts.host_layout import run_folders, try_to_write
from tui_workbench.targets.hosts.host_run import HostRun
from tui_workbench.targets.hosts.mirror import LiveFiles
from tui_workbench.targets.remote.remote_target import RemoteTarget
from tui_workbench.targets.reservations.folder import Folder
from tui_workbench.targets.values import ProjectNames

if TYPE_CHECKING:
    from tui_workbench.core.model import RunSpec

pytestmark = [pytest.mark.linux("the scripts search in /proc"), pytest.mark.processes]


class Elsewhere(LocalHost):
    """This machine as another one, with a folder of its own for the workbench."""

    label = "elsewhere"
    is_local = False

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def home(self) -> str:
        return str(self.folder)


class Elsewheres(Harness):
    """Runs on this machine as if it were another one."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.host = Elsewhere(folder / 'a home\'s "folder"')

    def target(self) -> RemoteTarget:
        return RemoteTarget(self.compute_target(), self.host)

    def compute_target(self) -> ComputeTarget:
        path = str(self.folder / "project" / "aml_config" / "remote.compute")
        return ComputeTarget("remote", path, "remote", address="elsewhere", python_location=sys.executable)

    def write(self, path: Path, script: Script) -> None:
        path.write_text(PYTHON.format(script=tuple(script)))

    def lose(self, spec: RunSpec) -> None:
        raise NotImplementedError

    def prepare(self, spec: RunSpec) -> RemoteTarget:
        target = self.target()
        target.prepare(spec, target.plan(spec), lambda: files_of(Path(spec.working_directory)))
        return target

    def directory(self, spec: RunSpec) -> Path:
        return self.host.folder / "runs" / spec.run_id


@pytest.fixture
def machine(tmp_path: Path, shell: str, monkeypatch: pytest.MonkeyPatch) -> Elsewheres:
    monkeypatch.setenv("PATH", f"{os.path.dirname(shell)}:{os.environ['PATH']}")
    monkeypatch.setattr(host_run, "SPARE_FILES", 1)
    return Elsewheres(tmp_path)


def test_script_runs_to_its_end_and_its_files_are_fetched(machine: Elsewheres) -> None:
    spec = machine.spec(Script(output="done\n", exit_code=3))
    Path(spec.run_directory, "run.json").write_text("{}")
    target = machine.prepare(spec)
    target.start(spec, target.plan(spec), {})
    assert target.wait(spec, -1).exit_code == 3
    (machine.directory(spec) / "work" / "outputs" / "model").write_text("a model")
    target.collect(spec)
    assert machine.log(spec) == b"done\n"
    assert Path(spec.run_directory, "outputs", "model").read_text() == "a model"
    assert [folder.run_id for folder in run_folders(machine.host)] == [spec.run_id]
    items = target.cleanup_items(ProjectNames(name=spec.project_name, root=spec.project_root), ())
    assert {item.kind for item in items} == {"run", "project"}
    for item in items:
        item.remove()
    assert run_folders(machine.host) == []


def test_script_is_stopped_with_its_processes(machine: Elsewheres) -> None:
    spec = machine.spec(Script(output="begun\n", leaves_child=True, stubborn=True, waits=True))
    target = machine.prepare(spec)
    target.start(spec, target.plan(spec), {})
    with HostRun(machine.host, spec).mirror() as mirror:
        mirror.open()
        while machine.log(spec) != b"begun\n":
            assert mirror.pump()
    target.warn(spec)
    assert target.stop(spec, grace=0.1) is True
    assert target.wait(spec, -1).exit_code == 128 + 9


def test_copy_is_made_from_that_of_an_ended_run(machine: Elsewheres) -> None:
    first, second, third = (machine.spec(Script()) for _ in range(3))
    project, inodes = Path(first.project_root), []
    for spec in (first, second, third):
        target = machine.prepare(spec)
        work = machine.directory(spec) / "work"
        assert {path.name for path in work.iterdir()} == {path.name for path in project.iterdir()} | {"outputs"}
        inodes.append((work / third.script).stat().st_ino)
        (work / "outputs" / "model").touch()
        target.collect(spec)
        target.release(spec)
        assert not work.exists()
        (project / "line\nfeed").write_text(spec.run_id)
        (project / first.script).unlink(missing_ok=True)
    assert len(set(inodes)) == 1


def test_run_is_started_again_with_its_log(machine: Elsewheres) -> None:
    spec = machine.spec(Script(output="once\n"))
    for number, is_anew in enumerate((False, True), 1):
        target = machine.prepare(spec)
        target.start(spec, target.plan(spec), {})
        assert target.wait(spec, -1).exit_code == 0
        target.collect(spec)
        assert machine.log(spec) == b"once\n" * number
        target.reset(spec, anew=is_anew)


def test_reservation_is_added_and_removed(machine: Elsewheres) -> None:
    folder = Folder(machine.host, machine.compute_target())
    assert folder.change(folder.read(), ["hold 0 99"], [])
    (entry,) = folder.read().expired
    assert folder.change(folder.read(), [], [entry])
    assert folder.read().expired == ()


def test_public_key_is_added_once(machine: Elsewheres, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(machine.folder))
    (machine.folder / ".ssh").mkdir()
    keys = machine.folder / ".ssh" / "authorized_keys"
    keys.write_text("ssh-rsa first")
    for _ in range(2):
        machine.host.check(["sh", "-c", shell_script("targets/ssh/scripts/install_key.sh"), "sh", "ssh-rsa second"])
    assert keys.read_text() == "ssh-rsa first\nssh-rsa second\n"


def test_folder_that_cannot_be_written_to_is_named(machine: Elsewheres) -> None:
    assert try_to_write(machine.host, str(machine.folder / "new" / "folder")) == (str(machine.folder), "")
    tried = try_to_write(machine.host, "/proc/new")
    assert tried.folder == "/proc"
    assert tried.complaint
    assert not tried.is_full


def test_data_is_counted(machine: Elsewheres) -> None:
    data = machine.folder / "data"
    data.mkdir()
    (data / "a").write_text("12")
    (data / "b").symlink_to("a")
    os.utime(data / "a", (4e9, 4e9))
    script = shell_script("targets/hosts/scripts/measure_data.sh")
    for most, is_complete in (("4", 1), ("2", 0)):
        done = machine.host.check(["sh", "-c", script, "sh", "20", most, str(data), str(data / "none")])
        counted, missing = done.text.split("\n")
        assert counted.endswith(f" {is_complete}")
        assert counted == "1 2 4000000000.000 1" or not is_complete
        assert missing == "0 0 0.000 0"


def test_new_bytes_of_live_files_are_fetched(machine: Elsewheres, tmp_path: Path) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    (there / "ranks").mkdir(parents=True)
    here.mkdir()
    live = LiveFiles(machine.host, str(there), str(here))
    (there / "metrics.jsonl").write_text("1\n")
    assert live.fetch_all()
    with (there / "metrics.jsonl").open("a") as file:
        file.write("2\n")
    (there / "ranks" / "rank 0.log").write_text("a log")
    assert live.fetch_all()
    assert not live.fetch_all()
    assert (here / "metrics.jsonl").read_text() == "1\n2\n"
    assert (here / "ranks" / "rank 0.log").read_text() == "a log"


@pytest.mark.system
@pytest.mark.parametrize(
    ("options", "is_full"),
    [("size=4k", True), ("size=40k", True), ("size=100k", False), ("nr_inodes=1", True), ("nr_inodes=2", True)],
)
def test_disk_without_space_for_a_small_file_is_full(machine: Elsewheres, options: str, is_full: bool) -> None:
    require_root("to mount a small disk")
    disk = machine.folder / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", disk], check=True)
    try:
        assert try_to_write(machine.host, str(disk / "runs")).is_full is is_full
        assert list(disk.iterdir()) == []
    finally:
        subprocess.run(["umount", disk], check=True)
