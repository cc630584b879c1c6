"""Commands exit with the codes in `workbench-tui --help`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import Installed
from tests.runs.support import write_configuration, write_files

ABSENT = "unix:///nowhere/docker.sock"


@pytest.fixture
def workbench(project_root: Path) -> Installed:
    workbench = Installed(project_root)
    workbench.environment["DOCKER_HOST"] = ABSENT
    box = {"type": "remote", "address": "127.0.0.1:1", "username": "me", "pythonLocation": "python3"}
    write_configuration(project_root, "box", suffix="compute", **box)
    write_configuration(project_root, "box", Target="box", Framework="Python")
    write_configuration(
        project_root, "docker", suffix="compute", type="localdocker", baseDockerImage="python:3.12-slim"
    )
    write_configuration(project_root, "docker", Target="docker", Framework="Python")
    return workbench


@pytest.mark.parametrize(("target", "reason"), [("box", "nothing listens"), ("docker", "does not exist")])
def test_submit_to_an_unreachable_target_exits_with_4(workbench: Installed, target: str, reason: str) -> None:
    result = workbench.run("experiment", "submit", "-c", target, "hello.py")
    assert (result.code, reason in result.err) == (4, True)
    record = workbench.history()[0]
    assert (record["status"], record["exit_code"]) == ("Failed", None)


@pytest.mark.parametrize("command", [("computetarget", "check", "docker"), ("experiment", "prepare", "-c", "docker")])
def test_commands_that_need_the_engine_exit_with_4(workbench: Installed, command: tuple[str, ...]) -> None:
    result = workbench.run(*command)
    assert result.code == 4
    assert "does not exist" in result.out + result.err


@pytest.mark.parametrize("target", ["box", "docker"])
def test_dry_run_needs_no_target(workbench: Installed, target: str) -> None:
    result = workbench.run("experiment", "submit", "-c", target, "--dry-run", "hello.py")
    assert result.code == 0
    assert "hello.py" in result.out
    assert "the plan is incomplete, because the target cannot be used now" in result.err


@pytest.mark.parametrize("target", ["local", "box"])
def test_prepare_with_nothing_to_prepare_names_the_reason(workbench: Installed, target: str) -> None:
    done = workbench.run("experiment", "prepare", "-c", target)
    done.error(2, f"nothing to prepare: runs on target '{target}' use your own Python", "Install the packages")


def test_run_and_usage_errors_have_different_codes(workbench: Installed) -> None:
    write_files(workbench.folder, {"fails.py": "raise SystemExit(7)"})
    assert workbench.run("experiment", "submit", "-c", "local", "fails.py").code == 7
    assert workbench.run("experiment", "submit", "-c", "local", "none.py").code == 2
    assert workbench.run("experiment", "submit", "-c", "none", "hello.py").code == 3
    assert workbench.run("history", "info", "-r", "99").code == 2


def test_options_without_effect_are_refused(workbench: Installed) -> None:
    workbench.run("trace", "--follow", "-o", "table").error(2, "--follow works only with text or JSON output")
    workbench.run("trace", "--shell", "--query", "[0]").error(2, "--shell works only without -o")
    workbench.run("gpu", "list", "--wait", "nan").error(2, "'nan' is not a number of seconds")
    write_files(workbench.folder, {"ends.py": ""})
    assert workbench.run("experiment", "submit", "-c", "local", "ends.py").code == 0
    workbench.run("logs", "1", "--rank", "0", "--node", "a").error(2, "mutually exclusive")
    workbench.run("logs", "1", "-f", "--attempt", "1").error(2, "--follow and --attempt are mutually exclusive")
