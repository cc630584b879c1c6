"""Unusual environments: closed or full streams, no home, no locale, no folder, concurrent commands."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.faults.support import COMMAND, Workbench
from tests.waiting import PATIENCE


@pytest.fixture
def workbench(project_root: Path) -> Workbench:
    return Workbench(project_root)


@pytest.mark.processes
@pytest.mark.parametrize("tracked", ["false", "true"])
def test_concurrent_submits_all_run_with_unique_numbers(workbench: Workbench, tracked: str) -> None:
    configuration = workbench.folder / "aml_config" / "local.runconfig"
    configuration.write_text(configuration.read_text().replace("TrackedRun: false", f"TrackedRun: {tracked}"))
    submits = [workbench.start("experiment", "submit", "-c", "local", "hello.py") for _ in range(8)]
    for submit in submits:
        out, err = submit.communicate(timeout=PATIENCE)
        assert submit.returncode == 0, err
        assert out.endswith(b"\nhello\n"), out
    history = workbench.history()
    assert len({run["run_id"] for run in history}) == len(submits)
    assert sorted(run["run_number"] for run in history) == list(range(1, len(submits) + 1))
    assert {run["status"] for run in history} == {"Completed"}


@pytest.mark.processes
def test_closed_pipe_does_not_end_the_run(workbench: Workbench) -> None:
    (workbench.folder / "many.py").write_text("for number in range(100_000):\n    print('line', number)\n")
    submit = workbench.start("experiment", "submit", "-c", "local", "many.py")
    assert submit.stdout is not None
    submit.stdout.readline()
    submit.stdout.close()
    submit.stdout = None
    _, err = submit.communicate(timeout=PATIENCE)
    assert b"Traceback" not in err
    (run,) = workbench.history()
    followed = workbench.run("logs", "-f", run["run_id"])
    assert followed.out.endswith("line 99999\n")
    assert workbench.info(run["run_id"])["status"] == "Completed"


COMMANDS = {
    "list": ("history", "list"),
    "table": ("history", "list", "-o", "table"),
    "logs": ("logs", "1"),
    "submit": ("experiment", "submit", "-c", "local", "hello.py"),
    "help": ("--help",),
    "version": ("--version",),
    "templates": ("project", "sample", "list"),
}


@pytest.mark.parametrize("case", COMMANDS)
def test_full_stdout_is_a_one_line_error(workbench: Workbench, case: str) -> None:
    assert workbench.submit("hello.py").code == 0
    with open("/dev/full", "wb") as full:
        process = workbench.start(*COMMANDS[case], stdout=full)
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert err.startswith(b"workbench-tui: ")
    assert err.count(b"\n") == 1
    assert b"space" in err


@pytest.mark.processes
@pytest.mark.parametrize("closed", [0, 1, 2])
@pytest.mark.parametrize("case", ["list", "logs", "submit", "help"])
def test_closed_standard_stream_is_harmless(workbench: Workbench, case: str, closed: int) -> None:
    assert workbench.submit("hello.py").code == 0
    process = subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {closed}>&-', "sh", *COMMAND, *COMMANDS[case]],
        cwd=workbench.folder,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert b"Traceback" not in process.stderr
    assert process.returncode == 0, process.stderr
    # Files opened under the number of the closed descriptor must not be overwritten.
    assert {run["status"] for run in workbench.history()} == {"Completed"}
    for run in workbench.history():
        assert workbench.log(run["run_id"]) == "hello\n"


@pytest.mark.processes
def test_output_is_readable_without_utf8_locale(workbench: Workbench) -> None:
    (workbench.folder / "träining.py").write_text("print('grün 🧪')\n", encoding="utf-8")
    workbench.environment = {
        "LC_ALL": "POSIX",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
        "PYTHONIOENCODING": "",
    }
    submitted = workbench.submit("träining.py")
    assert submitted.code in (0, 1), submitted  # the script itself may be unable to print it
    assert "Traceback" not in submitted.err
    for arguments in (("history", "list"), ("history", "list", "-o", "table"), ("computetarget", "list")):
        result = workbench.run(*arguments)
        assert result.code == 0, result
    workbench.run("experiment", "submit", "-c", "grün", "hello.py").error(3)


def test_read_only_home_names_the_setting(workbench: Workbench, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    workbench.environment = {"HOME": str(tmp_path / "file")}
    submitted = workbench.submit("hello.py")
    assert submitted.code != 0
    assert "XDG_STATE_HOME" in submitted.err
    workbench.environment["XDG_STATE_HOME"] = str(tmp_path / "state")
    submitted = workbench.submit("hello.py")
    assert submitted.code != 0
    assert "nativeSharedDirectory" in submitted.err
    assert "Traceback" not in submitted.err


def test_removed_current_folder_is_reported(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    process = subprocess.run(
        ["/bin/sh", "-c", 'rmdir "$PWD" && exec "$@"', "sh", *COMMAND, "history", "list"],
        cwd=gone,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert process.returncode == 2, process.stderr
    assert process.stderr.startswith("workbench-tui: ")
    assert process.stderr.count("\n") == 1


def test_too_long_arguments_are_reported(workbench: Workbench) -> None:
    # The system limits one argument to 128 KiB; the limit of all arguments is higher.
    configuration = workbench.folder / "aml_config" / "local.runconfig"
    configuration.write_text(configuration.read_text() + f'EnvironmentVariables: {{LONG: "{"x" * 200_000}"}}\n')
    text = configuration.read_text().replace("EnvironmentVariables: {}\n", "")
    configuration.write_text(text)
    submitted = workbench.submit("hello.py")
    assert submitted.code == 1, submitted
    assert "Traceback" not in submitted.err
    (run,) = workbench.history()
    assert run["status"] == "Failed"
    assert run["reason"]


def test_script_that_removes_its_working_folder(workbench: Workbench) -> None:
    configuration = workbench.folder / "aml_config" / "local.runconfig"
    configuration.write_text(configuration.read_text().replace("TrackedRun: false", "TrackedRun: true"))
    (workbench.folder / "remove.py").write_text("import os, shutil\nprint('bye')\nshutil.rmtree(os.getcwd())\n")
    submitted = workbench.submit("remove.py")
    assert submitted.code == 0, submitted
    assert submitted.out.endswith("\nbye\n")
    assert (workbench.folder / "remove.py").exists()
    assert workbench.history()[0]["status"] == "Completed"


def test_removed_run_folder_disappears_from_history(workbench: Workbench) -> None:
    for _ in range(2):
        assert workbench.submit("hello.py").code == 0
    newest, oldest = workbench.history()
    subprocess.run(["rm", "-r", str(workbench.folder / ".workbench" / "runs" / newest["run_id"])], check=True)
    assert [run["run_id"] for run in workbench.history()] == [oldest["run_id"]]
    workbench.run("logs", newest["run_id"]).error(2, newest["run_id"])


def test_standard_input_of_a_run_is_empty(workbench: Workbench) -> None:
    (workbench.folder / "reads.py").write_text("import sys\nprint(repr(sys.stdin.read()))\n")
    reading, writing = os.pipe()
    os.write(writing, b"for somebody else\n")
    process = workbench.start("experiment", "submit", "-c", "local", "reads.py", stdin=reading)
    out, _ = process.communicate(timeout=PATIENCE)
    os.close(writing)
    assert out.splitlines()[1:] == [b"''"]
    assert os.read(reading, 100) == b"for somebody else\n"
    os.close(reading)
