"""The address of Spark's user interface."""

from __future__ import annotations

from pathlib import Path

import pytest

from tui_workbench.core.model import ComputeTarget, Plan, Run, RunConfiguration, RunSpec, RunState
from tui_workbench.runs.logs.spark_events import SparkApplication
from tui_workbench.runs.logs.spark_ui import SparkAddress, address_of, with_application_of_yarn
from tui_workbench.runs.store.rundir import Record, RunDirectory

APPLICATION = SparkApplication("local-1", ui_host="10.0.0.2", ui_port=4040)


def run_of(folder: Path, target: ComputeTarget, output: str = "") -> Run:
    folder = folder / "p_1"
    folder.mkdir()
    configuration = RunConfiguration("a", "a.runconfig", target.name, framework="PySpark")
    spec = RunSpec("p_1", str(folder), "/p", "p", "/p", "train.py", (), configuration, target)
    RunDirectory(str(folder)).write_record(
        Record("p_1", 1, 0.0, "me", spec, Plan(target.name, target.type, "python", ()), "", "none")
    )
    (folder / "output.log").write_text(output)
    return Run("p_1", 1, str(folder), "train.py", (), "a", target.name, target.type, RunState.RUNNING)


LOCAL = ComputeTarget("local", "local.compute", "local")
BOX = ComputeTarget("box", "box.compute", "remote", address="box.example:2222", username="me")


def test_address_on_this_machine_needs_no_forwarding(tmp_path: Path) -> None:
    assert address_of(run_of(tmp_path, LOCAL), APPLICATION) == SparkAddress("http://10.0.0.2:4040")


def test_address_on_another_machine_has_its_command(tmp_path: Path) -> None:
    command = "workbench-tui open -r 1 port 10.0.0.2:4040"
    assert address_of(run_of(tmp_path, BOX), APPLICATION) == SparkAddress("http://localhost:4040", command)


@pytest.mark.parametrize(
    "line",
    [
        "26/11/23 12:47:06 INFO Utils: Successfully started service 'SparkUI' on port 4042.",
        "26/11/23 12:47:06 WARN Utils: Service 'SparkUI' could not bind on port 4041. Attempting port 4042.",
    ],
)
def test_port_is_that_of_the_log(tmp_path: Path, line: str) -> None:
    found = address_of(run_of(tmp_path, LOCAL, f"x\n{line}\ny\n"), APPLICATION)
    assert found == SparkAddress("http://10.0.0.2:4042")


@pytest.mark.parametrize("host", ["", "-oProxyCommand=x", "a b", "$(id)", "a;id", "x" * 300])
def test_host_that_a_shell_could_read_is_refused(tmp_path: Path, host: str) -> None:
    assert address_of(run_of(tmp_path, BOX), APPLICATION._replace(ui_host=host)) is None


def test_random_port_is_that_of_the_log(tmp_path: Path) -> None:
    assert address_of(run_of(tmp_path, LOCAL), APPLICATION._replace(ui_port=0)) is None


def test_ended_session_has_no_address(tmp_path: Path) -> None:
    run = run_of(tmp_path, LOCAL)
    assert address_of(run, APPLICATION._replace(end=5.0)) is None
    assert address_of(run._replace(state=RunState.COMPLETED), APPLICATION) is None


# --- Applications of YARN, from the log of spark-submit

YARN = """\
26/11/23 12:47:06 INFO Client: Application report for application_17_0001 (state: ACCEPTED)
26/11/23 12:47:06 INFO Client:
\t client token: N/A
\t final status: UNDEFINED
\t tracking URL: http://rm.example:8088/proxy/application_17_0001/
\t user: me
"""
HEAD = ComputeTarget("head", "head.compute", "cluster", address="head.example", username="me")


def test_application_of_yarn_has_its_tracking_address(tmp_path: Path) -> None:
    run = run_of(tmp_path, HEAD, YARN)
    (found,) = with_application_of_yarn(run, [])
    assert (found.identifier, found.master, found.has_events) == ("application_17_0001", "yarn", False)
    command = "workbench-tui open -r 1 port rm.example:8088"
    expected = SparkAddress("http://localhost:8088/proxy/application_17_0001/", command)
    assert address_of(run, found) == expected
    # The user interface of a driver on the head node redirects to YARN.
    assert address_of(run, APPLICATION._replace(master="yarn")) == expected
    assert with_application_of_yarn(run, [APPLICATION]) == [APPLICATION]


def test_tracking_address_can_use_https(tmp_path: Path) -> None:
    run = run_of(tmp_path, HEAD, YARN.replace("http://rm.example:8088", "https://rm.example"))
    (found,) = with_application_of_yarn(run, [])
    command = "workbench-tui open -r 1 port rm.example:443"
    assert address_of(run, found) == SparkAddress("https://localhost:8443/proxy/application_17_0001/", command)


@pytest.mark.parametrize("host", ["-oProxyCommand=x", "$(id)", "a;id", "x" * 300])
def test_tracking_host_that_a_shell_could_read_is_refused(tmp_path: Path, host: str) -> None:
    run = run_of(tmp_path, HEAD, YARN.replace("rm.example", host))
    (found,) = with_application_of_yarn(run, [])
    assert address_of(run, found) is None


def test_log_without_yarn_has_no_application(tmp_path: Path) -> None:
    assert with_application_of_yarn(run_of(tmp_path, HEAD, "26/11/23 INFO Client: x\n"), []) == []
