"""Runs on another machine whose connection or link is lost at a chosen moment."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.support import until
from tests.proc import PROC
from tests.targets.conftest import link_processes
from tests.targets.remote_project import Remote
from tests.waiting import PATIENCE
from tui_workbench.targets.hosts import supervisor
from tui_workbench.targets.hosts.host_run import SPARE_FILES
from tui_workbench.targets.hosts.supervisor import START

HOLD = 'echo >>/home/research/held; until [ -e /home/research/release ]; do sleep 0.02; done; exec "$ORIGINAL" "$@"'
"""Stands in for a program of the machine: waits for the test before it becomes that program."""


def kill_links(box: Remote, connections: Path) -> None:
    for pid in link_processes(connections):
        os.kill(pid, signal.SIGKILL)


def kill_sessions(box: Remote, connections: Path) -> None:
    box.machine.kill_connections()


def kill_helpers(box: Remote, connections: Path) -> None:
    for pid in waiting_shells(box, b""):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


LOSSES = {"link": kill_links, "session": kill_sessions, "helper": kill_helpers}


def waiting_shells(box: Remote, text: bytes) -> list[int]:
    """Return the shells on the machine that have the text among their arguments, none of them a supervising one."""
    found = []
    for pid in box.machine.processes("sh"):
        with contextlib.suppress(OSError):
            words = (PROC / f"{pid}/cmdline").read_bytes()
            if text in words and b"trap : TERM" not in words:
                found.append(pid)
    return found


@contextlib.contextmanager
def held(box: Remote, program: str) -> Iterator[Callable[[], None]]:
    """Within the context, hold the program on the machine until the yielded function is called."""
    home = box.machine.home()
    (home / "held").touch(mode=0o666)
    os.chmod(home / "held", 0o666)
    try:
        with box.machine.replaced(program, HOLD):
            yield (home / "release").touch
    finally:
        for name in ("held", "release"):
            (home / name).unlink(missing_ok=True)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("program", ["/usr/bin/mkdir", "/usr/bin/tar", "/usr/bin/cp", "/usr/bin/setsid"])
def test_connection_lost_before_start_is_reopened(box: Remote, connections: Path, program: str, loss: str) -> None:
    box.write("open('/home/research/count', 'a').write('x'); print('ran', sorted(__import__('os').listdir('.')))\n")
    with held(box, program) as release:
        run = box.start("experiment", "submit", "-c", "box", "train.py")
        until((box.machine.home() / "held").read_text, f"{program} to be reached")
        LOSSES[loss](box, connections)
        release()
        out, err = run.communicate(timeout=PATIENCE)
    assert run.returncode == 0, err
    assert out.decode().partition("\n")[2] == "ran ['aml_config', 'outputs', 'train.py']\n"
    (run_directory,) = box.there().iterdir()
    if loss != "helper":  # a copy whose shell was killed continues, and is removed with the run
        until(lambda: not list(run_directory.glob("copy.*")), "the copy that was given up to be removed")
    assert (box.machine.home() / "count").read_text() == "x"
    (box.machine.home() / "count").unlink()


def test_run_survives_a_server_that_freezes_during_sending(box: Remote, ssh_folder: Path) -> None:
    (ssh_folder / "config").write_text("Host *\n  ServerAliveInterval 1\n  ServerAliveCountMax 1\n")
    box.write("print('ran')")
    with held(box, "/usr/bin/cp") as release:
        run = box.start("experiment", "submit", "-c", "box", "train.py")
        until((box.machine.home() / "held").read_text, "the copy to begin")
        with box.machine.frozen_sshd():
            until(lambda: "Unknown" in {each["status"] for each in box.history()}, "the loss to be noticed")
            release()
        out, err = run.communicate(timeout=PATIENCE)
    assert run.returncode == 0, err
    assert out.endswith(b"ran\n")


@pytest.mark.parametrize("missing", [1, 4000])
def test_incomplete_start_request_starts_nothing(tmp_path: Path, missing: int) -> None:
    (tmp_path / "work").mkdir()
    exports = "".join(f"export NAME_{number}='{number}'\n" for number in range(400)).rstrip().encode()
    arguments = [str(tmp_path), str(tmp_path / "share"), str(len(exports)), supervisor.TEXT, "sh", "-c", "env"]

    def start(sent: bytes) -> int:
        command = ["sh", "-c", START, "sh", *arguments]
        return subprocess.run(command, input=sent, capture_output=True, check=False).returncode

    assert start(exports[:-missing]) != 0
    assert not (tmp_path / "pid").exists()
    assert start(exports) == 0
    until(lambda: supervisor.read_exit_code(str(tmp_path)) is not None, "the end of the script")
    assert "NAME_399=399" in (tmp_path / "output.log").read_text()


def test_run_without_shell_survives_lost_connections(box: Remote, connections: Path) -> None:
    run_id = box.begin("print('went on'); open('outputs/x', 'w').close()\n")
    os_id = (box.there(run_id) / "pid").read_text().split()[0]
    box.machine.run(["kill", "-KILL", os_id])
    for loss in LOSSES.values():
        until(lambda: waiting_shells(box, b"left()"), "a program that waits for the script's end")
        loss(box, connections)
    until(lambda: waiting_shells(box, b"left()"), "the run to be found again")

    def is_running_without_shell() -> bool:
        info = box.info(run_id)
        return info["status"] == "Running" and "its exit code will be unknown" in (info["reason"] or "")

    until(is_running_without_shell, "the end of the loss to be recorded")
    assert (box.there(run_id) / "work" / "train.py").exists()
    box.go_on()
    assert box.follow(run_id).out == "began\nwent on\n"
    assert box.status(run_id) == "Unknown"
    assert (box.run_directory(run_id) / "outputs" / "x").exists()


def test_clean_skips_an_active_run_without_shell(box: Remote, tmp_path: Path) -> None:
    run_id = box.begin()
    box.machine.run(["kill", "-KILL", (box.there(run_id) / "pid").read_text().split()[0]])
    other = Remote(tmp_path / "elsewhere" / "project", box.machine)  # which knows nothing of the run
    assert other.run("experiment", "clean", "-t", "box", "--yes").code == 0
    assert (box.there(run_id) / "work" / "train.py").exists()
    box.go_on()
    box.until_status(run_id, "Unknown")


@pytest.fixture
def small_disk(box: Remote) -> Iterator[Path]:
    """Return a file system of 4 MB in place of the project's `.workbench`."""
    place = box.folder / ".workbench"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)], check=True)
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_files_are_fetched_later_if_the_local_disk_is_full(box: Remote, small_disk: Path) -> None:
    box.write("import os; print('ran'); open('outputs/model.bin', 'wb').write(os.urandom(5_000_000))")
    ended = box.submit("train.py", configuration="box")
    assert ended.code == 0
    assert "some files have not been fetched: run `workbench-tui experiment collect`" in ended.err
    run_id = ended.out.split()[1]
    assert "some files have not been fetched" in box.info(run_id)["reason"]
    assert box.run("experiment", "clean", "--yes").code == 0
    refused = box.run("experiment", "collect", "-r", run_id)
    assert refused.code == 1
    assert "space" in refused.err
    subprocess.run(["mount", "-o", "remount,size=40m", str(small_disk)], check=True)
    for _ in range(2):
        assert box.run("experiment", "collect", "-r", run_id).code == 0
    assert (box.run_directory(run_id) / "outputs" / "model.bin").stat().st_size == 5_000_000
    (listed,) = box.history()
    assert (listed["status"], listed["reason"]) == ("Completed", None)
    assert not (box.there(run_id) / "work").exists()


def test_fetched_files_survive_a_kill_of_the_controller(box: Remote) -> None:
    """The files of a run are in its working copy here. They must not be taken for unused files of the project."""
    for number in range(SPARE_FILES):
        (box.folder / f"{number}.txt").touch()
    box.write(f"for number in range({SPARE_FILES}): open(f'made {{number}}', 'w').close()")
    run_id = box.submit("train.py", configuration="box").out.split()[1]
    directory = box.run_directory(run_id)
    made = {f"made {number}" for number in range(SPARE_FILES)}
    assert set(os.listdir(directory / "work")) == made
    # The events until the kill.
    events = (directory / "events.jsonl").read_text().splitlines(keepends=True)
    fetched = next(number for number, event in enumerate(events) if '"step": "fetch", "status": "done"' in event)
    (directory / "events.jsonl").write_text("".join(events[: fetched + 1]))
    assert box.run("experiment", "resume").code == 0
    box.until_status(run_id, "Completed")
    assert set(os.listdir(directory / "work")) == made
