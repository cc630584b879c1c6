"""The supervising shell records process and exit code, in every shell that is installed as `sh`."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import require_root
from tests.faults.support import is_running, until
from tui_workbench.core.causes import exit_causes, text_of
from tui_workbench.core.system import boot_id, process_stat
from tui_workbench.targets.hosts import supervisor
from tui_workbench.targets.hosts.supervisor import (
    Supervisor,
    read_exit_code,
    read_supervisor,
)

ENDED_BY_A_SIGNAL = """\
import os, resource, signal, sys
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
number = int(sys.argv[1])
if number != signal.SIGKILL:
    signal.signal(number, signal.SIG_DFL)
os.kill(os.getpid(), number)
"""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    path = tmp_path / 'a run\'s "directory" $HOME'
    path.mkdir()
    return path


def supervise(shell: str, run: Path, *command: str, directory: str = "/") -> subprocess.Popen[bytes]:
    """Start the shell as a target does: in a separate session, with its streams on /dev/null."""
    return subprocess.Popen(
        [shell, "-c", supervisor.TEXT, "sh", str(run), directory, *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


@pytest.mark.processes
def test_exit_code_is_recorded(shell: str, tmp_path: Path) -> None:
    for first in range(0, 256, 32):
        codes = range(first, first + 32)
        for code in codes:
            (tmp_path / str(code)).mkdir()
        for process in [supervise(shell, tmp_path / str(code), "sh", "-c", f"exit {code}") for code in codes]:
            process.wait(120)
        assert [read_exit_code(str(tmp_path / str(code))) for code in codes] == list(codes)


@pytest.mark.parametrize("name", ["HUP", "INT", "QUIT", "ILL", "ABRT", "FPE", "KILL", "USR1", "SEGV", "PIPE", "TERM"])
def test_signal_that_ends_the_script_is_recorded(shell: str, run: Path, name: str) -> None:
    number = signal.Signals[f"SIG{name}"]
    # Not a shell: that of busybox ignores SIGQUIT.
    supervise(shell, run, sys.executable, "-c", ENDED_BY_A_SIGNAL, str(number.value)).wait(120)
    assert read_exit_code(str(run)) == 128 + number
    # Messages of the shell about such an end are not output of the script.
    assert (run / "output.log").read_bytes() == b""
    assert f"SIG{name}" in text_of(exit_causes(128 + number))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signal_to_the_session_still_records_the_exit_code(shell: str, run: Path, number: signal.Signals) -> None:
    script = "trap 'exit 9' TERM INT HUP; echo ready; while :; do sleep 0.01; done"
    process = supervise(shell, run, "sh", "-c", script)
    until(lambda: (run / "output.log").exists() and b"ready" in (run / "output.log").read_bytes())
    os.killpg(process.pid, number)
    process.wait(120)
    assert read_exit_code(str(run)) == 9


def test_script_gets_only_its_arguments_and_environment(shell: str, run: Path, tmp_path: Path) -> None:
    script = 'printf "%s|" "$@"; pwd; cat; echo error >&2'
    odd = ("", "a b", "$(x)", "'", '"', "\n", "*", "-n", "\\")
    folder = tmp_path / "work here"
    folder.mkdir()
    supervise(shell, run, "sh", "-c", script, "sh", *odd, directory=str(folder)).wait(120)
    assert (run / "output.log").read_text() == "".join(f"{word}|" for word in odd) + f"{folder}\nerror\n"


def test_pid_file_exists_before_the_script_starts(shell: str, run: Path) -> None:
    process = supervise(shell, run, "sh", "-c", f'cat "$1/pid"; cat "$1/exit"; kill -9 {"$PPID"}', "sh", str(run))
    process.wait(120)
    said = (run / "output.log").read_text().split("\n")
    assert said[:2] == [str(process.pid), boot_id()]
    assert said[3].strip() == ""
    assert read_exit_code(str(run)) is None


def test_only_one_of_several_shells_runs_the_script(shell: str, run: Path) -> None:
    processes = [supervise(shell, run, "sh", "-c", "echo once") for _ in range(12)]
    for process in processes:
        process.wait(120)
    supervise(shell, run, "sh", "-c", "echo again; exit 1").wait(120)
    assert (run / "output.log").read_text() == "once\n"
    assert read_exit_code(str(run)) == 0
    noted = read_supervisor(str(run))
    assert noted is not None
    assert noted.pid in [process.pid for process in processes]


def test_missing_run_directory_starts_nothing(shell: str, run: Path, tmp_path: Path) -> None:
    shutil.rmtree(run)
    supervise(shell, run, "touch", str(tmp_path / "touched")).wait(120)
    assert not (tmp_path / "touched").exists()
    assert not run.exists()


def test_missing_working_directory_is_named(shell: str, run: Path, tmp_path: Path) -> None:
    supervise(shell, run, "touch", str(tmp_path / "touched"), directory=str(tmp_path / "nowhere")).wait(120)
    assert not (tmp_path / "touched").exists()
    assert read_exit_code(str(run)) not in (None, 0)
    assert "nowhere" in (run / "output.log").read_text()


@pytest.mark.parametrize(("command", "code"), [("/nowhere/python", 127), ("/etc/passwd", 126)])
def test_unusable_interpreter_is_named(shell: str, run: Path, command: str, code: int) -> None:
    supervise(shell, run, command).wait(120)
    assert read_exit_code(str(run)) == code
    assert command in (run / "output.log").read_text()


def test_shell_that_cannot_write_starts_nothing(shell: str, run: Path, tmp_path: Path) -> None:
    def no_space() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    command = [shell, "-c", supervisor.TEXT, "sh", str(run), "/", "touch", str(tmp_path / "touched")]
    subprocess.run(command, preexec_fn=no_space, restore_signals=False, check=False, capture_output=True, timeout=120)
    assert not (tmp_path / "touched").exists()
    assert read_supervisor(str(run)) is None
    subprocess.run(command, check=True, timeout=120)
    assert (tmp_path / "touched").exists()
    assert read_exit_code(str(run)) == 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    require_root("to mount a small disk")
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)], check=True)
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.mark.linux("mounts a file system")
def test_exit_code_survives_a_full_disk(shell: str, small_disk: Path) -> None:
    run = small_disk / "run"
    run.mkdir()
    supervise(shell, run, "sh", "-c", 'cat /dev/zero >"$1"; exit 33', "sh", str(small_disk / "ballast")).wait(120)
    assert os.statvfs(small_disk).f_bfree == 0
    assert read_exit_code(str(run)) == 33


def test_script_continues_when_the_shell_is_killed(shell: str, run: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate")
    script = 'echo $$; read line <"$1"; echo "$line"'
    process = supervise(shell, run, "sh", "-c", script, "sh", str(tmp_path / "gate"))
    log = run / "output.log"
    pid = int(until(lambda: log.exists() and log.read_text().strip()))
    process.kill()
    process.wait(120)
    (tmp_path / "gate").write_text("to the end\n")
    until(lambda: not is_running(pid))
    assert log.read_text() == f"{pid}\nto the end\n"
    assert read_exit_code(str(run)) is None
    noted = read_supervisor(str(run))
    assert noted is not None
    assert not noted.is_alive


def test_incomplete_pid_file_is_ignored(run: Path) -> None:
    whole = b"4711\nboot-id\n4711 (sh) S " + b" ".join(b"%d" % number for number in range(4, 53)) + b"\n"
    for size in range(len(whole)):
        (run / "pid").write_bytes(whole[:size])
        assert read_supervisor(str(run)) is None
    (run / "pid").write_bytes(whole)
    assert read_supervisor(str(run)) == Supervisor(4711, "boot-id", "22")


@pytest.mark.parametrize(
    "damage", [b"", b"\n\n\n\n", b"no number\nb\ns\n", b"\xff\xfe\n\n\n", b"-3\nb\ns\n", b"0\n-\n-\n"]
)
def test_damaged_pid_file_is_ignored(run: Path, damage: bytes) -> None:
    (run / "pid").write_bytes(damage)
    assert read_supervisor(str(run)) is None


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", None),
        (b"    \n", None),
        (b"0   \n", 0),
        (b"137 \n", 137),
        (b"13", None),
        (b"x\n", None),
        (b"\xff\n", None),
    ],
)
def test_incomplete_exit_file_is_ignored(run: Path, content: bytes, code: int | None) -> None:
    (run / "exit").write_bytes(content)
    assert read_exit_code(str(run)) == code


def supervisor_of(process: subprocess.Popen[bytes]) -> Supervisor:
    return Supervisor(process.pid, boot_id(), process_stat(process.pid)[1])


@pytest.mark.linux("elsewhere, start times are in seconds")
def test_reused_process_id_is_detected() -> None:
    with subprocess.Popen(["sleep", "600"]) as process:
        noted = supervisor_of(process)
        assert noted.is_alive
        assert not noted._replace(start_time=str(int(noted.start_time) - 1)).is_alive
        assert not noted._replace(boot_id="another").is_alive
        assert noted._replace(boot_id="-", start_time="-").is_alive  # a system that knows neither
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert not noted.is_alive  # although its process ID stays in use until it is reaped
    assert not noted.is_alive


@pytest.mark.linux("reads /proc")
def test_unusual_program_name_is_parsed(tmp_path: Path) -> None:
    odd = tmp_path / "a) Z 1 (b"
    shutil.copy(shutil.which("sleep") or "/bin/sleep", odd)
    with subprocess.Popen([odd, "600"]) as process:
        state, start = process_stat(process.pid)
        assert state in "SRD"
        assert int(start) > 0
        assert supervisor_of(process).is_alive
        process.kill()


def test_missing_process_has_no_state() -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    assert process_stat(process.pid) == ("", "")


def test_exit_codes_are_described() -> None:
    assert text_of(exit_causes(0)) == ""
    assert text_of(exit_causes(3)) == "exit code 3"
    assert text_of(exit_causes(143)) == "killed by signal 15 (SIGTERM)"
    assert "memory" in text_of(exit_causes(137))
    assert text_of(exit_causes(255)) == "exit code 255"
    assert text_of(exit_causes(128)) == "exit code 128"


def test_shell_does_not_need_python() -> None:
    assert sys.executable not in supervisor.TEXT
    assert subprocess.run(["sh", "-n", "-c", supervisor.TEXT], check=True).returncode == 0
