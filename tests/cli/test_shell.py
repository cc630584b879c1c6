"""`shell` in the project and in the working copy of a run."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.cli.support import Installed
from tests.faults.support import until
from tests.runs.support import write_configuration, write_files
from tui_workbench.runs.store.rundir import RunDirectory


@pytest.fixture
def workbench(project_root: Path) -> Installed:
    write_configuration(project_root, TrackedRun=True, EnvironmentVariables={"WORD": "a b", "API_KEY": "k"})
    return Installed(project_root)


def python(folder: Path, name: str = "python") -> str:
    """Write an interpreter that prints the name of its folder."""
    write_files(folder, {name: f'#!/bin/sh\necho "{folder.name} $*"\n'})
    (folder / name).chmod(0o755)
    return str(folder / name)


SHOW = "-c", 'pwd; echo "$WORD $API_KEY"; python -c 1; command -v az; command -v workbench-tui'


def test_interpreter_of_the_target_is_first(workbench: Installed, tmp_path: Path) -> None:
    write_configuration(workbench.folder, suffix="compute", type="local", pythonLocation=python(tmp_path / "mine"))
    workbench.environment["PATH"] = f"{Path(python(tmp_path / 'other')).parent}:{os.environ['PATH']}"
    result = workbench.run("shell", "-c", "local", "--", "sh", *SHOW)
    assert (result.code, result.err) == (0, "")
    where, variables, ran, az, ours = result.out.splitlines()
    assert (where, variables, ran) == (str(workbench.folder), "a b k", "mine -c 1")
    assert (Path(az).name, Path(ours).name) == ("az", "workbench-tui")


def test_interpreter_with_another_name_is_python(workbench: Installed, tmp_path: Path) -> None:
    python(tmp_path / "mine")
    write_configuration(
        workbench.folder, suffix="compute", type="local", pythonLocation=python(tmp_path / "mine", "python3.99")
    )
    result = workbench.run("shell", "--", "python3", "-V")
    assert result.out == "mine -V\n"


def test_scripts_can_log_in_the_shell(workbench: Installed) -> None:
    result = workbench.run("shell", "--", "python", "-c", "import sys, workbench; print(sys.executable)")
    assert (result.code, result.out) == (0, f"{Path(sys.executable).parent}/python\n")


def test_stdin_is_executed(workbench: Installed, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("echo $((1 + 2)); exit 5\n")
    with (tmp_path / "lines").open() as lines:
        process = workbench.start("shell", stdin=lines)
        out, err = process.communicate(timeout=120)
    assert (process.returncode, out, err) == (5, b"3\n", b"")


@pytest.mark.processes
def test_startup_files_do_not_override_the_interpreter(workbench: Installed, tmp_path: Path, home: Path) -> None:
    other = Path(python(tmp_path / "other")).parent
    (home / ".bashrc").write_text(f'PATH="{other}:$PATH"; MINE=read; PS1="$ "\n')
    workbench.environment["SHELL"] = "/bin/bash"
    with workbench.in_terminal("shell") as terminal:
        until(lambda: terminal.pump(5) and b"(project local) $ " in terminal.raw, "the prompt")
        terminal.send(b"echo =$MINE= $(python -c 'print(6 * 7)'); exit 3\r")
        code = terminal.to_the_end()
    assert b"=read= 42" in terminal.raw
    assert code == 3


def test_run_shell_has_the_snapshot_and_changes(workbench: Installed) -> None:
    write_files(
        workbench.folder, {"makes.py": "open('made', 'w').write('x'); open('data', 'w').write('changed')", "data": "d"}
    )
    workbench.submit("makes.py")
    write_files(workbench.folder, {"hello.py": "print('new')"})
    result = workbench.run(
        "shell", "-r", "1", "--", "sh", "-c", "pwd; cat data made hello.py; ls -d outputs; echo $WORD"
    )
    directory = RunDirectory(str(workbench.folder / ".workbench" / "runs" / workbench.history()[0]["run_id"]))
    assert result.out == f'{directory.path}/shell\nchangedxprint("hello")\noutputs\na b\n'
    assert sorted(os.listdir(directory.file("work"))) == ["data", "made"], "the run is as it was"
    again = workbench.run("shell", "-r", "1", "--", "sh", "-c", "echo mine >data; exit 4")
    assert again.code == 4
    assert workbench.run("shell", "-r", "1", "--", "cat", "data").out == "mine\n"


def test_shell_of_an_active_run_is_its_working_copy(workbench: Installed) -> None:
    os.mkfifo(workbench.folder.parent / "gate")
    write_files(workbench.folder, {"gated.py": "import sys\nopen(sys.argv[1]).read()\n"})
    run_id = workbench.detach("gated.py", str(workbench.folder.parent / "gate"))
    out = workbench.run("shell", "-r", run_id, "--", "sh", "-c", "pwd; echo ${WORKBENCH_RUN_ID:-none}").out
    assert out == f"{workbench.folder}/.workbench/runs/{run_id}/work\nnone\n"
    workbench.run("experiment", "cancel", "-r", run_id, "--grace", "0")


def test_shell_of_an_untracked_run_is_the_project(workbench: Installed) -> None:
    write_configuration(workbench.folder)
    workbench.submit("hello.py")
    assert workbench.run("shell", "-r", "1", "--", "pwd").out == f"{workbench.folder}\n"


def test_shell_for_another_machine_prints_a_notice(workbench: Installed) -> None:
    write_configuration(workbench.folder, "d", suffix="compute", type="localdocker", baseDockerImage="x")
    write_configuration(workbench.folder, "d", Target="d")
    result = workbench.run("shell", "-c", "d", "--", "true")
    assert result.code == 0
    assert "This shell does not use the Python of target d." in result.err


def test_shell_reports_mistakes(workbench: Installed) -> None:
    workbench.run("shell", "-c", "none").error(3, "unknown run configuration 'none'")
    workbench.run("shell", "-r", "9").error(2, "no run '9'")
    workbench.run("shell", "-r", "9", "-c", "local").error(2, "own run configuration")
    workbench.run("shell", "--", "no-such-command").error(1, "cannot start no-such-command")
