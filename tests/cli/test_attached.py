"""`computetarget check|login|disconnect|detach`."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.attaching import Terminal, files, result, workbench
from tests.machines import PASSWORD, Machine
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@pytest.mark.usefixtures("ssh_folder")
def test_check_prints_json(project_root: Path, box: Sequence[str]) -> None:
    assert workbench("attach", "remote", *box, "--no-check", cwd=project_root).returncode == 0
    checks = result(workbench("check", "box", "-o", "json", cwd=project_root))
    assert [check["check"] for check in checks[:4]] == ["name", "port", "host key", "login"]
    assert set(checks[0]) == {"check", "rung", "state", "message", "remedy", "command", "command_runs_on"}
    found = workbench("check", "box", "--query", "[?rung=='python'].state", "-o", "tsv", cwd=project_root)
    assert found.stdout == "ok\n"


@pytest.mark.usefixtures("ssh_folder")
def test_failed_check_exits_with_4(project_root: Path, box: Sequence[str], home: Path) -> None:
    assert workbench("attach", "remote", *box, "--no-check", cwd=project_root).returncode == 0
    (home / ".ssh" / "known_hosts").write_text("")
    done = workbench("check", "box", cwd=project_root)
    assert done.returncode == 4
    command = re.search(r"Run on this machine:\n +workbench-tui computetarget (check .*)\n", done.stdout)
    assert command
    assert workbench(*command[1].split(), cwd=project_root).returncode == 0  # the command runs as it is copied


def test_check_of_unknown_target_lists_targets(project_root: Path) -> None:
    done = workbench("check", "nothing", cwd=project_root)
    assert done.returncode == 3
    assert "Choose one of: local" in done.stderr


# login, disconnect, detach


@pytest.fixture
def attached(project_root: Path, box: Sequence[str], request: pytest.FixtureRequest) -> Project:
    """Return a project with the target `box`, attached with a password."""
    request.getfixturevalue("known")
    done = workbench("attach", "remote", *box, "--password-stdin", cwd=project_root, stdin=f"{PASSWORD}\n")
    assert done.returncode == 0, done.stderr
    return Project.find(str(project_root))


def test_login_asks_for_a_forgotten_password(attached: Project, project_root: Path) -> None:
    assert workbench("disconnect", "box", cwd=project_root).returncode == 0
    done = workbench("check", "box", cwd=project_root)
    assert done.returncode == 4
    assert "workbench-tui computetarget login box\n" in done.stdout
    terminal = Terminal("login", "box", cwd=project_root)
    terminal.answer("Password of research on ", PASSWORD)
    assert terminal.end()[0] == 0
    assert workbench("check", "box", cwd=project_root).returncode == 0


def test_login_reads_the_password_from_stdin(attached: Project, project_root: Path) -> None:
    workbench("disconnect", "box", "-o", "json", cwd=project_root)
    done = workbench("login", "box", "--password-stdin", "-o", "json", cwd=project_root, stdin=PASSWORD)
    assert result(done)["state"] == "up"
    assert workbench("check", "box", cwd=project_root).returncode == 0


def test_submit_asks_for_a_forgotten_password(attached: Project, project_root: Path) -> None:
    workbench("disconnect", "box", cwd=project_root)
    terminal = Terminal("experiment", "submit", "-c", "box", "hello.py", cwd=project_root)
    terminal.answer("Password of research on ", PASSWORD)
    code, shown = terminal.end()
    assert code == 0, shown
    assert "\nhello\n" in shown


def test_submit_without_terminal_names_the_login_command(attached: Project, project_root: Path) -> None:
    workbench("disconnect", "box", cwd=project_root)
    done = workbench("experiment", "submit", "-c", "box", "hello.py", cwd=project_root)
    assert done.returncode != 0
    assert "needs a password, but none is stored" in done.stderr
    assert "workbench-tui computetarget login box" in done.stderr


def test_submit_to_a_machine_that_is_off_creates_no_run(attached: Project, project_root: Path, gpubox: Machine) -> None:
    workbench("disconnect", "box", cwd=project_root)
    gpubox.stop_sshd()
    try:
        code, shown = Terminal("experiment", "submit", "-c", "box", "hello.py", cwd=project_root).end()
    finally:
        gpubox.start_sshd()
    assert code == 4
    assert "nothing listens on port 22" in shown
    assert Runs(attached).list() == []


@pytest.mark.usefixtures("keyring")
def test_move_secrets_moves_the_password_to_the_keyring(attached_path: Path, project_root: Path) -> None:
    done = workbench("check", "box", cwd=project_root)
    assert done.returncode == 4
    assert PASSWORD not in done.stdout + done.stderr
    done = workbench("login", "box", "--move-secrets", cwd=project_root)
    assert done.returncode == 0, done.stderr
    assert "Change them" in done.stderr
    assert PASSWORD not in attached_path.read_text()
    assert workbench("check", "box", cwd=project_root).returncode == 0


@pytest.fixture
def attached_path(known: Path, project_root: Path, gpubox: Machine) -> Path:
    """Return the file of a target that contains the password."""
    path = project_root / "aml_config" / "box.compute"
    path.write_text(
        f"type: remote\naddress: {gpubox.address}\nusername: research\npassword: {PASSWORD}\npythonLocation: python3\n"
    )
    return path


def test_local_target_has_no_login(project_root: Path) -> None:
    for verb in ("login", "disconnect"):
        assert workbench(verb, "local", cwd=project_root).returncode == 2


def test_detach_moves_files_and_removes_the_secret(attached: Project, project_root: Path) -> None:
    done = workbench("detach", "box", cwd=project_root)
    assert done.returncode == 0
    assert done.stdout == (
        "moved to the trash: aml_config/box.compute\nmoved to the trash: aml_config/box.runconfig\nremoved 1 secret\n"
    )
    assert files(project_root) == []
    assert len(list((project_root / ".workbench" / "trash").iterdir())) == 2


def test_target_in_use_is_not_detached(project_root: Path) -> None:
    (project_root / "wait.py").write_text("import time\ntime.sleep(600)\n")
    submit = [sys.executable, "-m", "tui_workbench", "experiment", "submit", "-c", "local", "--detach", "wait.py"]
    subprocess.run(submit, cwd=project_root, check=True, capture_output=True)
    with canceled_afterwards(project_root):
        done = workbench("detach", "local", cwd=project_root)
        assert done.returncode == 2
        assert "--force" in done.stderr
        assert (project_root / "aml_config" / "local.compute").exists()
        assert workbench("detach", "local", "--force", cwd=project_root).returncode == 0


@contextlib.contextmanager
def canceled_afterwards(root: Path) -> Iterator[None]:
    """Cancel all runs of the project at the end."""
    from tui_workbench.runs.facade import Runs

    runs = Runs(Project.find(str(root)))
    try:
        yield
    finally:
        for run in runs.list():
            runs.cancel(run.run_id)


def test_target_list_does_not_import_login_libraries(project_root: Path) -> None:
    code = (
        "import sys; from tui_workbench import cli; cli.run(['computetarget', 'list']);"
        "sys.exit(' '.join({'keyring', 'asyncssh', 'docker', 'yaml'} & sys.modules.keys()) or 0)"
    )
    (project_root / "aml_config" / "local.compute").unlink()  # the file is read by a YAML parser
    done = subprocess.run([sys.executable, "-c", code], cwd=project_root, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
