"""Complete runs with Python on another machine, with all kinds of failures."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import signal
import subprocess
import unicodedata
from pathlib import Path

import pytest

from tests.case_folding import case_folding_disk
from tests.faults.support import WAITS, controller_of, until
from tests.machines import Machine, fingerprint, wait_for
from tests.proc import PROC
from tests.targets.conftest import link_processes
from tests.targets.remote_fixtures import PYTHON_THERE
from tests.targets.remote_project import Remote

# A complete run.


def test_run_has_output_and_exit_code_of_its_script(box: Remote) -> None:
    box.write("import socket, sys; print(socket.gethostname(), *sys.argv[1:]); sys.exit(3)")
    result = box.submit("train.py", "a", "b", configuration="box")
    assert result.code == 3
    assert result.out.endswith("gpubox a b\n")


def test_files_of_the_run_are_fetched(box: Remote) -> None:
    box.write("import os; open('outputs/model.bin', 'wb').write(bytes(1000)); open('notes.txt', 'w').write('x')")
    box.write("untouched", "data.txt")
    run_id = box.submit("train.py", configuration="box").out.split()[1]
    here = box.run_directory(run_id)
    assert (here / "outputs" / "model.bin").read_bytes() == bytes(1000)
    assert (here / "work" / "notes.txt").read_text() == "x"
    assert not (here / "work" / "data.txt").exists()
    assert not (box.there(run_id) / "work").exists()
    assert not list(box.folder.glob("notes.txt"))


def test_excluded_files_are_not_sent(box: Remote) -> None:
    box.write("data/\n", ".amlignore")
    (box.folder / "data").mkdir()
    (box.folder / "data" / "big").write_bytes(bytes(1_000_000))
    box.write("import os; print(sorted(os.listdir('.')))")
    assert box.submit("train.py", configuration="box").out.endswith(
        "['.amlignore', 'aml_config', 'outputs', 'train.py']\n"
    )


def test_two_runs_do_not_share_files(box: Remote) -> None:
    box.write("import os; print(os.path.exists('mark')); open('mark', 'w').close(); open('data', 'a').write('more')")
    box.write("data", "data")
    for _ in range(2):
        assert box.submit("train.py", configuration="box").out.endswith("False\n")
    assert (box.folder / "data").read_text() == "data"


def test_script_sees_login_and_configuration_variables(box: Remote) -> None:
    box.configure(EnvironmentVariables={"NAME": "a 'b'\n$(c)", "run": "mine"})
    box.write(
        "import os; print([os.environ[n] for n in ('USER', 'HOME', 'NAME', 'run', 'AZUREML_NATIVE_SHARE_DIRECTORY')])"
    )
    expected = ["research", "/home/research", "a 'b'\n$(c)", "mine", "/home/research/.azureml/share/project/"]
    assert box.submit("train.py", configuration="box").out.endswith(f"{expected}\n")
    assert (box.machine.home() / ".azureml" / "share" / "project").is_dir()


def test_unusual_names_are_passed_unchanged(tmp_path: Path, gpubox: Machine, ssh_folder: Path) -> None:
    odd = "it's a \"pro$(ject)\n`x`"
    workbench = Remote(tmp_path / odd, gpubox)
    workbench.write(
        "import os, sys; print(os.path.basename(sys.argv[0]), sys.argv[1:], sorted(os.listdir('.')))", "-tr ai'n\n.py"
    )
    (workbench.folder / "ä 'f'").write_text("x")
    result = workbench.submit("./-tr ai'n\n.py", "a b", "$(x)", "\n", "", configuration="box")
    assert "['a b', '$(x)', '\\n', '']" in result.out
    assert repr("ä 'f'") in result.out
    shutil.rmtree(gpubox.home() / ".workbench-tui")


def test_decomposed_accents_are_kept(box: Remote) -> None:
    """macOS may write the accent of a name as a character of its own (NFD)."""
    name = unicodedata.normalize("NFD", "donn\u00e9es.csv")
    box.write("first", name)
    box.write(
        "import glob, shutil; (one,) = glob.glob('donn*'); shutil.copy(one, 'outputs'); open(one, 'a').write('+')"
    )
    for text in ("first", "second"):
        box.write(text, name)
        run_id = box.submit("train.py", configuration="box").out.split()[1]
        here = box.run_directory(run_id)
        assert [(path.name, path.read_text()) for path in (here / "outputs").iterdir()] == [(name, text)]
        assert [(path.name, path.read_text()) for path in (here / "work").glob("donn*")] == [(name, f"{text}+")]
    assert [path.name for path in box.folder.glob("donn*")] == [name]


@pytest.mark.linux("mounts a file system")
def test_project_on_a_case_insensitive_disk(tmp_path: Path, gpubox: Machine, ssh_folder: Path) -> None:
    with case_folding_disk(tmp_path) as disk:
        box = Remote(disk / "project", gpubox)
        box.write("for name in ('Loss', 'loss'): open(f'outputs/{name}.csv', 'w').write(name)")
        run_id = box.submit("train.py", configuration="box").out.split()[1]
        outputs = box.there(run_id) / "outputs"
        assert sorted(path.name for path in outputs.iterdir()) == ["Loss.csv", "loss.csv"]
        assert "does not distinguish this name" in box.run("experiment", "collect", "--run", run_id).err
        (outputs / "Loss.csv").rename(outputs / "first.csv")
        collected = box.run("experiment", "collect", "--run", run_id)
        assert collected.code == 0, collected.err
        here = box.run_directory(run_id) / "outputs"
        assert (here / "first.csv").read_text() == "Loss"
        assert (here / "loss.csv").read_text() == "loss"
    shutil.rmtree(gpubox.home() / ".workbench-tui")


def test_secret_variable_is_masked(box: Remote) -> None:
    box.configure(EnvironmentVariables={"API_TOKEN": "hunter2-hunter2"})
    run_id = box.begin(after="import os\nprint(len(os.environ['API_TOKEN']))\n")
    for path in PROC.glob("[0-9]*/cmdline"):
        try:
            assert b"hunter2" not in path.read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
    for path in [*box.run_directory(run_id).rglob("*"), *box.there(run_id).rglob("*")]:
        own = path.suffix == ".runconfig"  # the user's own file, which contains it in plain text
        assert own or not path.is_file() or b"hunter2" not in path.read_bytes(), path
    box.go_on()
    assert box.follow(run_id).out.startswith("15\nbegan\n")


def test_another_machine_can_follow_the_run(box: Remote, tmp_path: Path) -> None:
    run_id = box.begin("print('went on'); open('outputs/x', 'w').write('made')\n")
    other = Remote(tmp_path / "elsewhere" / "project", box.machine)
    assert run_id in other.run("history", "sync", "-t", "box").out
    until(lambda: "began" in other.log(run_id))
    box.go_on()
    for workbench in (box, other):
        assert workbench.follow(run_id).out == "began\nwent on\n"
        assert workbench.status(run_id) == "Completed"
        assert (workbench.run_directory(run_id) / "outputs" / "x").read_text() == "made"


def test_clean_removes_only_ended_runs(box: Remote, tmp_path: Path) -> None:
    over = box.begin()
    box.go_on()
    box.until_status(over, "Completed")
    (box.machine.home() / "go").unlink()
    goes_on = box.begin()
    mine = box.machine.home() / "mine"
    mine.write_text("not ours")
    other = Remote(tmp_path / "elsewhere" / "project", box.machine)  # which knows of neither run
    for workbench in (other, box):
        assert workbench.run("experiment", "clean", "-t", "box", "--yes").code == 0
        assert (box.there(goes_on) / "run.json").exists()
    assert not box.there(over).exists()
    assert mine.exists()
    mine.unlink()
    box.go_on()
    assert box.follow(goes_on).out == "began\n"


def test_cancel_ends_all_remote_processes(box: Remote) -> None:
    box.write(
        "import subprocess, sys, time\n"
        "waits = [sys.executable, '-c', 'import time; time.sleep(4711)']\n"
        "children = [subprocess.Popen(waits, start_new_session=new) for new in (True, False)]\n"
        "print('began', flush=True)\ntime.sleep(4711)\n"
    )
    run_id = box.detach("train.py", configuration="box")
    until(lambda: "began" in box.log(run_id))
    assert len(box.machine.processes("python3")) >= 3
    result = box.run("experiment", "cancel", "--run", run_id)
    assert json.loads(result.out)["status"] == "Canceled"
    assert box.machine.processes("python3") == []


def test_cancel_works_without_gnu_grep(box: Remote) -> None:
    grep = 'for word; do case $word in --) break ;; -*z*) exit 2 ;; esac; done; exec "$ORIGINAL" "$@"'
    box.write("import time; print('began', flush=True); time.sleep(4711)")
    run_id = box.detach("train.py", configuration="box")
    until(lambda: "began" in box.log(run_id))
    with box.machine.replaced("/usr/bin/grep", grep):
        result = box.run("experiment", "cancel", "--run", run_id)
    assert json.loads(result.out)["status"] == "Canceled"
    assert box.machine.processes("python3") == []


def test_plan_shows_files_to_send_and_python_version(box: Remote) -> None:
    box.write("print(1)")
    box.write("x" * 123_456, "big.txt")
    box.configure({"pythonLocation": "python3"})
    box.contact("box")
    result = box.run("experiment", "submit", "-c", "box", "--dry-run", "-o", "json", "train.py")
    plan = json.loads(result.out)
    steps = {step["name"]: step for step in plan["steps"]}
    assert [step["name"] for step in plan["steps"]][-6:] == ["sync", "copy", "start", "follow", "collect", "remove"]
    assert re.search(r"^send to .*: 4 files, 124 kB \(largest: big.txt 123 kB,", steps["sync"]["title"])
    assert plan["interpreter"] == PYTHON_THERE
    assert re.search(r"with /usr/bin/python3 \(Python 3\.\d+\.\d+\)$", steps["start"]["title"])
    assert not box.there().exists()
    assert box.submit("train.py", configuration="box").code == 0
    result = box.run("experiment", "submit", "-c", "box", "--dry-run", "-o", "json", "train.py")
    (sync,) = (step for step in json.loads(result.out)["steps"] if step["name"] == "sync")
    assert sync["title"].endswith(": no files (all are up to date)")


def _has_lines(log: Path, lines: int) -> bool:
    return log.exists() and log.read_bytes().count(b"\n") >= lines


# Errors before the start.


def test_missing_interpreter_is_reported(box: Remote) -> None:
    box.configure({"pythonLocation": "/opt/no/python"})
    box.write("print(1)")
    result = box.submit("train.py", configuration="box")
    assert "pythonLocation: /opt/no/python does not exist or is not Python on box (research@" in result.err
    assert result.code != 0


@pytest.mark.parametrize("location", ["python", "python3", "~/env/bin/python", "env/bin/python"])
def test_interpreter_is_looked_up_on_the_machine(box: Remote, location: str) -> None:
    folder = box.machine.home() / "env" / "bin"
    folder.mkdir(parents=True)
    (folder / "python").symlink_to(PYTHON_THERE)
    box.configure({"pythonLocation": location})
    box.write("import sys; print(sys.executable)")
    expected = PYTHON_THERE if "/" not in location else "/home/research/env/bin/python"
    try:
        assert box.submit("train.py", configuration="box").out.endswith(f"{expected}\n")
    finally:
        shutil.rmtree(folder.parent)


def test_unreachable_machine_is_reported(box: Remote) -> None:
    box.write("print(1)")
    box.machine.stop_sshd()
    try:
        result = box.submit("train.py", configuration="box")
        assert "nothing listens on port 22" in result.err
        assert result.code == 4
    finally:
        box.machine.start_sshd()


def test_unknown_host_key_is_reported(box: Remote, ssh_folder: Path) -> None:
    (ssh_folder / "known_hosts").unlink()
    box.write("print(1)")
    result = box.submit("train.py", configuration="box")
    assert "the host key" in result.err
    assert "SHA256:" in result.err
    assert not (ssh_folder / "known_hosts").exists()


def test_changed_host_key_between_two_runs_is_reported(box: Remote, ssh_folder: Path, connections: Path) -> None:
    box.write("print(1)")
    assert box.submit("train.py", configuration="box").code == 0
    kept = {name: (box.machine.folder / name).read_bytes() for name in ("host_key", "host_key.pub")}
    old = fingerprint(box.machine.folder / "host_key.pub")
    box.machine.stop_sshd()
    try:
        box.machine.new_host_key()
        box.machine.start_sshd()
        result = box.submit("train.py", configuration="box")
        assert result.code != 0
        for part in ("THE HOST KEY CHANGED", old, fingerprint(box.machine.folder / "host_key.pub"), "ssh-keygen -R"):
            assert part in result.err
    finally:
        box.machine.stop_sshd()
        for name, data in kept.items():
            (box.machine.folder / name).write_bytes(data)
        box.machine.start_sshd()


def test_full_remote_disk_is_reported(box: Remote) -> None:
    box.write("x" * 3_000_000, "big.txt")
    box.write("print(1)")
    there = box.machine.home() / ".workbench-tui"
    there.mkdir()
    box.machine.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m,mode=0777", "tmpfs", str(there).replace(str(box.machine.folder), "")]
    )
    try:
        result = box.submit("train.py", configuration="box")
        assert "the disk of box" in result.err
        assert "is full" in result.err
    finally:
        box.machine.run(["umount", "/home/research/.workbench-tui"])


def test_script_that_fills_the_remote_disk_is_reported(box: Remote) -> None:
    box.write("with open('outputs/model', 'wb', buffering=0) as file:\n    while True: file.write(bytes(10_000))\n")
    there = box.machine.home() / ".workbench-tui"
    there.mkdir()
    box.machine.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m,uid=2001,gid=2001", "tmpfs", f"/home/research/{there.name}"]
    )
    try:
        result = box.submit("train.py", configuration="box")
        assert result.code == 1
        assert "exit code 1; the disk of box" in result.err
        assert "`workbench-tui experiment clean -t box`" in result.err
    finally:
        box.machine.run(["umount", "--lazy", f"/home/research/{there.name}"])


# Errors during the run.


def test_log_is_complete_after_three_killed_connections(box: Remote) -> None:
    box.write(
        "import sys, time\n"
        "for number in range(100_000):\n"
        "    sys.stdout.write(f'line {number}\\n')\n"
        "    if number % 20_000 == 19_999: sys.stdout.flush(); time.sleep(0.3)\n"
    )
    run_id = box.detach("train.py", configuration="box")
    log = box.run_directory(run_id) / "output.log"
    for lines in (1, 30_000, 60_000):
        wait_for(functools.partial(_has_lines, log, lines), "the log to grow")
        box.machine.kill_connections()
    assert box.follow(run_id).code == 0
    assert log.read_bytes() == b"".join(b"line %d\n" % number for number in range(100_000))
    assert box.status(run_id) == "Completed"


def test_run_on_a_lost_machine_is_unknown(box: Remote) -> None:
    run_id = box.begin("print('went on')\n")
    box.machine.stop_sshd()
    try:
        box.until_status(run_id, "Unknown")
        assert "box" in box.info(run_id)["reason"]
        box.go_on()
    finally:
        box.machine.start_sshd()
    assert box.follow(run_id).out == "began\nwent on\n"
    assert box.info(run_id)["status"] == "Completed"


def test_silent_machine_is_noticed(box: Remote, ssh_folder: Path) -> None:
    (ssh_folder / "config").write_text("Host *\n  ServerAliveInterval 1\n  ServerAliveCountMax 1\n")
    run_id = box.begin()
    with box.machine.frozen_sshd():
        box.until_status(run_id, "Unknown")
        box.go_on()
    box.until_status(run_id, "Completed")


def test_killed_controller_is_replaced(box: Remote) -> None:
    run_id = box.begin("print('went on'); open('outputs/x', 'w').close()\n")
    os.kill(controller_of(box.run_directory(run_id)), signal.SIGKILL)
    box.go_on()
    assert box.follow(run_id).out == "began\nwent on\n"
    assert box.status(run_id) == "Completed"
    assert (box.run_directory(run_id) / "outputs" / "x").exists()


def test_killed_link_is_replaced(box: Remote, connections: Path) -> None:
    run_id = box.begin("print('went on')\n")
    for pid in link_processes(connections):
        os.kill(pid, signal.SIGKILL)
    box.go_on()
    assert box.follow(run_id).out == "began\nwent on\n"
    assert box.status(run_id) == "Completed"


def test_restart_of_the_machine_is_reported(box: Remote) -> None:
    box.write(WAITS)
    run_id = box.detach("train.py", "/nowhere", configuration="box")
    until(lambda: "began" in box.log(run_id))
    box.machine.reboot()
    until(lambda: box.info(run_id)["end_time_utc"], "the run to end")
    information = box.info(run_id)
    assert "was restarted during the run" in information["reason"]
    assert box.log(run_id) == "began\n"


def test_removed_remote_run_folder_is_reported(box: Remote) -> None:
    run_id = box.begin()
    shutil.rmtree(box.there(run_id))
    box.go_on()
    until(lambda: box.info(run_id)["end_time_utc"], "the run to end")
    assert box.info(run_id)["reason"]
    assert box.log(run_id) == "began\n"


def test_killed_remote_supervising_shell_is_reported(box: Remote) -> None:
    run_id = box.begin()
    box.machine.run(["kill", "-KILL", (box.there(run_id) / "pid").read_text().split()[0]])
    box.go_on()
    until(lambda: box.info(run_id)["end_time_utc"], "the run to end")
    assert "the supervising shell was killed" in box.info(run_id)["reason"]
    assert box.machine.processes("python3") == []


@pytest.mark.parametrize("step", ["prepare", "sync", "copy", "start"])
def test_script_runs_once_if_the_controller_is_killed(box: Remote, step: str) -> None:
    box.write("import uuid; open('/home/research/count', 'a').write('x'); print('ran')\n")
    for number in range(200):
        box.write("x" * 5000, f"file_{number}")
    run_id = box.detach("train.py", configuration="box")
    events = box.run_directory(run_id) / "events.jsonl"
    until(lambda: f'"{step}"' in events.read_text(), f"the step {step}")
    os.kill(controller_of(box.run_directory(run_id)), signal.SIGKILL)
    assert box.follow(run_id).out == "ran\n"
    assert box.status(run_id) == "Completed"
    assert (box.machine.home() / "count").read_text() == "x"
    (box.machine.home() / "count").unlink()


def test_run_whose_folder_was_never_made_lacks_no_files(box: Remote) -> None:
    box.write("print('ran')")
    folder = "/home/research/.workbench-tui"
    box.machine.run(["mkdir", "-p", folder])
    box.machine.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", folder])
    try:
        assert box.submit("train.py", configuration="box").code != 0
    finally:
        box.machine.run(["umount", folder])
    run = box.history()[0]
    assert run["status"] == "Failed"
    assert "Read-only file system" in run["reason"]
    assert "experiment collect" not in run["reason"]
    collected = box.run("experiment", "collect")
    assert (collected.code, json.loads(collected.out)) == (0, [])


def test_git_is_not_needed(box: Remote, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "env"):
        (tools / name).symlink_to(Path("/usr/bin") / name)
    box.environment["PATH"] = str(tools)
    box.write("print('ran')")
    assert box.submit("train.py", configuration="box").out.endswith("ran\n")
    assert subprocess.run([str(tools / "sh"), "-c", "exit 0"], check=False).returncode == 0


def test_secret_arguments_reach_only_the_script(box: Remote, home: Path) -> None:
    box.write("import sys; print(sys.argv[1:])\n")
    result = box.submit("train.py", "--token", "hunter2", "--lr", "0.1", configuration="box")
    assert result.out.endswith("['--token', 'hunter2', '--lr', '0.1']\n")
    run = box.run_directory(result.out.split()[1])
    files = [path for folder in (home, run) for path in folder.rglob("*") if path.is_file()]
    assert [path.name for path in files if b"hunter2" in path.read_bytes()] == ["output.log"]


def test_uncaught_exception_is_the_reason(box: Remote) -> None:
    box.write("raise ValueError('bad shape')\n")
    result = box.submit("train.py", configuration="box")
    assert result.code == 1
    assert box.info(result.out.split()[1])["reason"] == "ValueError: bad shape (exit code 1)"
