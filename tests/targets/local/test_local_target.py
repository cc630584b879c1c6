"""Runs on this machine: interpreter, variables, signals, and killed processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.support import is_running, until
from tests.proc import PROC
from tests.runs.support import children
from tests.targets.harness import LocalHarness, Script
from tui_workbench.core.errors import ConfigurationError, StorageError, WorkbenchError
from tui_workbench.core.model import RunSpec
from tui_workbench.core.processes import reap
from tui_workbench.core.system import boot_id, process_stat
from tui_workbench.core.waiting import Interrupted
from tui_workbench.targets.hosts.supervisor import read_supervisor
from tui_workbench.targets.local.local_target import LocalTarget, find_interpreter

NEVER = -1


@pytest.fixture
def local(tmp_path: Path) -> Iterator[LocalHarness]:
    harness = LocalHarness(tmp_path)
    yield harness
    harness.close()
    reap()


def python(local: LocalHarness, text: str, *arguments: str, **variables: str) -> RunSpec:
    """Return a run of a Python script with this text."""
    spec = local.spec(Script(), arguments, variables)
    Path(spec.working_directory, spec.script).write_text(text)
    return spec


def finish(local: LocalHarness, spec: RunSpec) -> Any:
    """Run it to its end, and return its output, parsed as JSON."""
    local.start(spec)
    outcome = local.target().wait(spec, NEVER)
    assert outcome.exit_code == 0, local.log(spec)
    return json.loads(local.log(spec))


# The environment of the script


SURROUNDINGS = """\
import json, os, signal
status = dict(line.split(":\\t") for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
print(json.dumps({
    "descriptors": [int(name) for name in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{name}")],
    "ignored": int(status["SigIgn"], 16), "blocked": int(status["SigBlk"], 16),
    "leader": os.getsid(0) == os.getpid(), "input": os.readlink("/proc/self/fd/0"),
    "terminal": [os.isatty(number) for number in (0, 1, 2)], "directory": os.getcwd(), "variables": dict(os.environ),
}))
"""


@pytest.mark.linux("the script reads /proc")
def test_script_has_no_extra_files_signals_or_terminal(local: LocalHarness) -> None:
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        found = finish(local, python(local, SURROUNDINGS))
    finally:
        signal.signal(signal.SIGHUP, before)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
        os.close(reading)
        os.close(writing)
    # Python itself ignores these two in the script; from 32 on they are the C library's.
    python_ignores = 1 << (signal.SIGPIPE - 1) | 1 << (signal.SIGXFSZ - 1)
    assert found["ignored"] & ((1 << 31) - 1) & ~python_ignores == 0
    assert found["blocked"] == 0
    assert found["input"] == "/dev/null"
    assert found["terminal"] == [False, False, False]
    # It outlives this process, so it must not hold a lock or pipe of the caller.
    assert set(found["descriptors"]) == {0, 1, 2}


@pytest.mark.linux("the script reads /proc")
def test_script_sees_the_variables_of_the_run(local: LocalHarness) -> None:
    spec = python(local, SURROUNDINGS)
    found = finish(local, spec)
    variables = found["variables"]
    assert found["directory"] == spec.working_directory
    assert variables["PYTHONUNBUFFERED"] == "1"
    assert variables["AZUREML_RUN_ID"] == variables["WORKBENCH_RUN_ID"] == spec.run_id
    assert variables["WORKBENCH_RUN_DIRECTORY"] == spec.run_directory
    assert variables.get("CUDA_VISIBLE_DEVICES") == os.environ.get("CUDA_VISIBLE_DEVICES")


@pytest.mark.linux("the script reads /proc")
def test_shared_folder_exists_and_ends_with_a_slash(local: LocalHarness, home: Path) -> None:
    found = finish(local, python(local, SURROUNDINGS))
    share = found["variables"]["AZUREML_NATIVE_SHARE_DIRECTORY"]
    assert share == f"{home}/.azureml/share/project/"
    assert Path(share).is_dir()


@pytest.mark.parametrize("configured", ["~/mine", "{elsewhere}", "{elsewhere}/", "in/the/project"])
def test_shared_folder_can_be_configured(local: LocalHarness, home: Path, tmp_path: Path, configured: str) -> None:
    spec = local.spec(Script())
    target = spec.target._replace(native_shared_directory=configured.format(elsewhere=tmp_path / "share"))
    step = LocalTarget(target).plan(spec._replace(target=target)).step("start")
    assert step is not None
    base = {"~": home / "mine", "{": tmp_path / "share", "i": Path(spec.project_root, "in/the/project")}[configured[0]]
    assert step.environment["AZUREML_NATIVE_SHARE_DIRECTORY"] == f"{base}/project/"


def test_invalid_shared_folder_names_the_setting(local: LocalHarness, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    spec = python(local, "open('touched', 'w')")
    target = spec.target._replace(native_shared_directory=str(tmp_path / "file"))
    spec = spec._replace(target=target)
    with pytest.raises(StorageError, match=r"local\.compute.*nativeSharedDirectory"):
        LocalTarget(target).start(spec, LocalTarget(target).plan(spec), {})
    assert not LocalTarget(target).started(spec)


def test_output_is_unbuffered_and_in_order(local: LocalHarness) -> None:
    text = "import sys\nfor n in range(500):\n    print(n)\n    print(-n, file=sys.stderr)\n"
    spec = python(local, text)
    local.start(spec)
    local.target().wait(spec, NEVER)
    assert local.log(spec).decode() == "".join(f"{n}\n{-n}\n" for n in range(500))


# The interpreter


def test_bare_interpreter_name_is_looked_up_on_path(
    local: LocalHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, mode in (("first", 0o644), ("second", 0o755), ("third", 0o755)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mypython").write_text("")
        (tmp_path / name / "mypython").chmod(mode)
    monkeypatch.setenv("PATH", os.pathsep.join(str(tmp_path / name) for name in ("first", "second", "third")))
    target = local.compute_target()._replace(python_location="mypython")
    assert find_interpreter(target) == str(tmp_path / "second" / "mypython")


@pytest.mark.parametrize("place", ["venv/bin/python", "./venv/bin/python", "venv/../venv/bin/python"])
def test_relative_interpreter_is_below_the_project(
    local: LocalHarness, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = local.spec(Script())
    interpreter = Path(spec.project_root, "venv", "bin", "python")
    interpreter.parent.mkdir(parents=True)
    interpreter.symlink_to(sys.executable)
    monkeypatch.chdir(tmp_path)
    assert find_interpreter(spec.target._replace(python_location=place)) == str(interpreter)


def test_tilde_in_interpreter_path_is_expanded(local: LocalHarness, home: Path) -> None:
    (home / "python").symlink_to(sys.executable)
    assert find_interpreter(local.compute_target()._replace(python_location="~/python")) == str(home / "python")


@pytest.mark.parametrize("place", ["/nowhere/python", "nopython", "/usr", "/etc/passwd", "venv/bin/python"])
def test_invalid_interpreter_is_named_with_its_file(local: LocalHarness, place: str) -> None:
    target = local.compute_target()._replace(python_location=place)
    with pytest.raises(ConfigurationError) as raised:
        find_interpreter(target)
    assert raised.value.file == target.path
    assert place in raised.value.message
    assert raised.value.remedy
    assert [problem.code for problem in LocalTarget(target).check()] == ["interpreter"]


@pytest.mark.parametrize("name", ["", "A=B", "A\0B"])
def test_invalid_variable_name_is_refused(local: LocalHarness, name: str) -> None:
    with pytest.raises(ConfigurationError, match="variable"):
        local.target().plan(local.spec(Script(), (), {name: "x"}))


def test_nul_character_is_refused(local: LocalHarness) -> None:
    with pytest.raises(ConfigurationError, match="NUL"):
        local.target().plan(local.spec(Script(), ("a\0b",)))
    with pytest.raises(ConfigurationError, match="NUL"):
        local.target().plan(local.spec(Script(), (), {"A": "\0"}))


@pytest.mark.processes
def test_too_long_arguments_start_nothing(local: LocalHarness) -> None:
    spec = local.spec(Script(), tuple("x" * 100_000 for _ in range(100)))
    with pytest.raises(StorageError, match="arguments"):
        local.start(spec)
    assert not local.target().started(spec)


# Killed processes


WAITING = "import os, sys, time\nprint(os.getpid(), flush=True)\nwhile True:\n    time.sleep(60)\n"


def pid_of(local: LocalHarness, spec: RunSpec) -> int:
    return int(until(lambda: local.log(spec).strip(), "the script's process ID"))


def shell_of(spec: RunSpec) -> int:
    shell = until(lambda: read_supervisor(spec.run_directory))
    return int(shell.pid)


def test_signal_that_killed_the_script_is_named(local: LocalHarness) -> None:
    spec = python(local, WAITING)
    local.start(spec)
    os.kill(pid_of(local, spec), signal.SIGKILL)
    outcome = local.target().wait(spec, NEVER)
    assert outcome.exit_code == 137
    assert "SIGKILL" in outcome.reason


def test_run_continues_with_its_script_after_the_shell_is_killed(local: LocalHarness) -> None:
    spec = python(local, WAITING)
    local.start(spec)
    pid = pid_of(local, spec)
    os.kill(shell_of(spec), signal.SIGKILL)
    assert not local.target().has_ended(spec)
    reading, writing = os.pipe()
    os.write(writing, b"x")
    with pytest.raises(Interrupted):
        local.target().wait(spec, reading)
    os.close(reading)
    os.close(writing)
    assert is_running(pid)
    assert local.target().stop(spec, grace=30) is False
    assert not is_running(pid)
    outcome = local.target().wait(spec, NEVER)
    assert outcome.exit_code is None
    assert "killed" in outcome.reason


@pytest.mark.linux("elsewhere, there is no boot ID")
def test_restart_of_the_machine_is_detected(local: LocalHarness) -> None:
    spec = python(local, WAITING)
    boot = boot_id()
    Path(spec.run_directory, "pid").write_text(f"{os.getpid()}\n{boot[::-1]}\n{os.getpid()} (sh) S\n")
    assert local.target().has_ended(spec)
    outcome = local.target().wait(spec, NEVER)
    assert outcome.exit_code is None
    assert "restarted" in outcome.reason
    Path(spec.run_directory, "exit").write_text("4   \n")
    assert local.target().wait(spec, NEVER).exit_code == 4


@pytest.mark.linux("elsewhere, start times are in seconds")
@pytest.mark.parametrize("same_boot", [True, False])
def test_process_with_reused_id_is_not_ended(local: LocalHarness, same_boot: bool) -> None:
    spec = python(local, WAITING)
    innocent = subprocess.Popen(
        ["sh", "-c", "sleep 600 & echo $!; wait"], start_new_session=True, stdout=subprocess.PIPE
    )
    assert innocent.stdout is not None
    child = int(innocent.stdout.readline())
    try:
        start = int(process_stat(innocent.pid)[1])
        stat = f"{innocent.pid} (sh) S " + " ".join(str(number) for number in range(4, 22))
        boot = boot_id() if same_boot else "another"
        earlier = start - 1 if same_boot else start
        Path(spec.run_directory, "pid").write_text(f"{innocent.pid}\n{boot}\n{stat} {earlier}\n")
        assert local.target().has_ended(spec)
        assert local.target().wait(spec, NEVER).exit_code is None
        assert local.target().stop(spec, grace=0) is False
        assert is_running(innocent.pid)
        assert is_running(child)
    finally:
        os.killpg(innocent.pid, signal.SIGKILL)
        innocent.stdout.close()
        innocent.wait()


def test_stop_ends_a_run_that_is_starting(local: LocalHarness) -> None:
    spec = python(local, WAITING)
    local.start(spec)
    local.target().stop(spec, grace=30)
    assert local.target().has_ended(spec) or not local.target().started(spec)


LEAVING = """\
import os, subprocess, sys, time
environment = {name: value for name, value in os.environ.items() if name != "WORKBENCH_RUN_ID"}
service = subprocess.Popen(["sleep", "600"], env=environment, start_new_session=True, stdout=-3, stderr=-3)
helper = subprocess.Popen([sys.executable, "-c", "import time\\ntry: time.sleep(600)\\nfinally: print('late')"])
print(service.pid, helper.pid, flush=True)
"""


def test_only_processes_without_the_run_id_outlive_the_script(local: LocalHarness) -> None:
    spec = python(local, LEAVING)
    local.start(spec)
    assert local.target().wait(spec, NEVER).exit_code == 0
    service, helper = map(int, local.log(spec).split()[:2])
    try:
        assert not is_running(helper)
        assert is_running(service)
    finally:
        os.kill(service, signal.SIGKILL)


def test_log_contains_late_output_of_children(local: LocalHarness) -> None:
    child = (
        "import signal, sys, time\n"
        "def late(*_):\n    print('late', flush=True)\n    sys.exit()\n"
        "signal.signal(signal.SIGTERM, late)\nprint('ready', flush=True)\ntime.sleep(600)\n"
    )
    text = f"import subprocess, sys\np = subprocess.Popen([sys.executable, '-c', {child!r}])\n"
    spec = python(local, text + "while b'ready' not in open(sys.argv[1], 'rb').read(): pass\n")
    spec = spec._replace(arguments=(f"{spec.run_directory}/output.log",))
    local.start(spec)
    assert local.target().wait(spec, NEVER).exit_code == 0
    assert local.log(spec) == b"ready\nlate\n"


def test_wait_reports_a_shell_that_could_not_start(local: LocalHarness) -> None:
    spec = python(local, WAITING)
    Path(spec.run_directory, "pid").write_text("")  # as a disk that was full at that moment leaves it
    local.start(spec)
    with pytest.raises(WorkbenchError, match="could not be started"):
        local.target().wait(spec, NEVER)


@pytest.mark.processes
def test_concurrent_runs_leave_no_zombies_or_descriptors(local: LocalHarness) -> None:
    before, processes = len(os.listdir(PROC / "self/fd")), children()
    specs = [local.spec(Script(exit_code=number)) for number in range(12)]
    for spec in specs:
        local.start(spec)
    assert [local.target().wait(spec, NEVER).exit_code for spec in specs] == list(range(12))
    assert children() <= processes
    assert len(os.listdir(PROC / "self/fd")) == before
