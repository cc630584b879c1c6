"""Runs on a Spark cluster by its head node: cluster mode with stand-ins of YARN (no real YARN is used)."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from tests.conftest import open_folder
from tests.faults.support import controller_of, until
from tests.targets.yarn_stand_ins import StandInYarn, stand_in_yarn
from tui_workbench.projects.project import Project
from tui_workbench.targets.checks.result import BROKEN, OK, SPARK, YARN
from tui_workbench.targets.hosts import supervisor
from tui_workbench.targets.registry import checks_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.targets.remote_project import Remote

# A sample of 2017, with the modules of Azure ML Workbench.
SCRIPT = """\
import os, sys
from azureml.logging import get_azureml_logger
get_azureml_logger().log('rate', 0.5)
print('driver of', os.environ['AZUREML_RUN_ID'], os.environ.get('NAME'), sys.argv[1:])
"""
VALUE = "a 'b' \"c\" $HOME \\ `id`"
FAILS = "print('begins'); raise ValueError('row 7 has no label')"
WAITS = "import os, time\nwhile not os.path.exists('/home/research/go'): time.sleep(0.02)\nprint('went on')\n"
MARK = "======== The log of the driver, fetched at the end of application_"


@pytest.fixture
def yarn(box: Remote) -> Iterator[StandInYarn]:
    with open_folder() as folder, stand_in_yarn(box.machine, folder) as found:
        yield found


@pytest.fixture
def head(box: Remote, yarn: StandInYarn) -> Remote:
    """Return a project with a cluster whose drivers run on its nodes."""
    configure(box, "cluster")
    return box


def configure(box: Remote, mode: str, **runconfig: object) -> None:
    changes = {"type": "cluster", **({"yarnDeployMode": mode} if mode else {})}
    box.configure(changes, Framework="PySpark", **runconfig)


def begin(head: Remote, yarn: StandInYarn) -> tuple[str, str]:
    """Start a run whose driver waits; return the run and its application."""
    head.write(WAITS)
    run_id = head.detach("train.py", configuration="box")
    until(lambda: yarn.applications() and "state: RUNNING" in head.log(run_id), "the application")
    return run_id, yarn.applications()[-1]


def kill_supervisor(head: Remote, run_id: str, *, with_spark: bool) -> None:
    shell = until(lambda: supervisor.read_supervisor(str(head.there(run_id))), "the supervisor")
    if with_spark:
        head.machine.run(["pkill", "-KILL", "-g", str(shell.pid)])
    else:
        head.machine.run(["kill", "-KILL", str(shell.pid)])


def test_client_mode_is_the_default(box: Remote, yarn: StandInYarn) -> None:
    configure(box, "")
    box.write("import workbench; workbench.log('rate', 0.5); print('here')")
    done = box.submit("train.py", configuration="box")
    assert (done.code, done.out.endswith("here\n")) == (0, True), done
    submitted = yarn.submitted()
    assert submitted["options"] == {"--master": "yarn", "--deploy-mode": "client"}
    assert submitted["properties"]["spark.eventLog.dir"].startswith("file:/home/research/.workbench-tui/runs/")
    assert box.info(box.history()[0]["run_id"])["rate"] == 0.5


def test_driver_in_the_cluster_ends_with_its_final_status(head: Remote, yarn: StandInYarn) -> None:
    configure(head, "cluster", EnvironmentVariables={"NAME": VALUE})
    head.write(SCRIPT)
    head.contact("box")
    planned = head.run("experiment", "submit", "-c", "box", "--dry-run", "train.py")
    assert "use Spark with master yarn, the driver in the cluster" in planned.out
    assert "build no environment: /usr/bin/python3 on all nodes needs the packages" in planned.out
    assert "fetch the log of the driver, but not outputs/, which stays on its node" in planned.out
    done = head.run("az", "ml", "experiment", "submit", "-c", "box", "train.py", "0.01")
    assert done.code == 0, done
    run_id = head.history()[0]["run_id"]
    assert f"driver of {run_id} {VALUE} ['0.01']" in done.out.partition(MARK)[2]
    (application,) = yarn.applications()
    assert yarn.state(application)["tags"] == [run_id.lower()]
    properties = yarn.submitted()["properties"]
    assert properties["spark.yarn.maxAppAttempts"] == "1"
    assert properties["spark.yarn.submit.waitAppCompletion"] == "true"
    assert not any("eventLog" in name for name in properties)
    assert head.info(run_id)["reason"] is None


def test_failed_driver_has_its_exit_code_and_exception(head: Remote) -> None:
    head.write(FAILS)
    assert head.submit("train.py", configuration="box").code == 1
    record = head.info(head.history()[0]["run_id"])
    assert (record["status"], record["exit_code"]) == ("Failed", 1)
    assert "ValueError: row 7 has no label" in record["reason"]


def test_exit_code_of_spark_submit_does_not_end_the_run(head: Remote, yarn: StandInYarn) -> None:
    head.write("import sys; sys.exit(3)")
    with yarn.mode("lies"):
        assert head.submit("train.py", configuration="box").code == 3
    record = head.info(head.history()[0]["run_id"])
    assert record["status"] == "Failed"
    assert "exit code 3; application_" in record["reason"]


def test_application_killed_by_others_fails(head: Remote, yarn: StandInYarn) -> None:
    run_id, application = begin(head, yarn)
    head.machine.run(["/usr/local/bin/yarn", "application", "-kill", application])
    head.follow(run_id)
    record = head.info(run_id)
    assert record["status"] == "Failed"
    assert f"{application} was killed: Application was killed by user research" in record["reason"]


def test_cancel_kills_the_application(head: Remote, yarn: StandInYarn) -> None:
    run_id, application = begin(head, yarn)
    assert head.run("experiment", "cancel", "--run", run_id).code == 0
    assert yarn.state(application)["final"] == "KILLED"
    assert head.info(run_id)["status"] == "Canceled"
    assert MARK in head.log(run_id)


@pytest.mark.parametrize("with_spark", [True, False])
def test_application_is_found_by_its_tag_without_its_shell(head: Remote, yarn: StandInYarn, with_spark: bool) -> None:
    run_id, _ = begin(head, yarn)
    kill_supervisor(head, run_id, with_spark=with_spark)
    head.go_on()
    head.until_status(run_id, "Completed")
    assert head.log(run_id).count("went on") == 1


def test_end_of_the_application_is_found_after_a_lost_client(head: Remote, yarn: StandInYarn) -> None:
    run_id, application = begin(head, yarn)
    os.kill(controller_of(head.run_directory(run_id)), signal.SIGKILL)
    head.go_on()
    until(lambda: yarn.state(application)["final"] == "SUCCEEDED", "the end of the application")
    assert head.follow(run_id).code == 0
    assert head.status(run_id) == "Completed"
    assert head.log(run_id).count("went on") == 1


def test_unreachable_yarn_leaves_the_run_unknown(head: Remote, yarn: StandInYarn) -> None:
    run_id, application = begin(head, yarn)
    with yarn.mode("down"):
        head.go_on()
        until(lambda: yarn.state(application)["final"] == "SUCCEEDED", "the end of the application")
        head.until_status(run_id, "Unknown")
        reason = head.info(run_id)["reason"]
        assert "YARN on" in reason
        assert "Connection refused" in reason
    head.until_status(run_id, "Completed")


def test_failed_submission_keeps_its_exit_code(head: Remote, yarn: StandInYarn) -> None:
    head.write(SCRIPT)
    with yarn.mode("refuse"):
        assert head.submit("train.py", configuration="box").code == 1
    assert "YarnException: no queue" in head.log(head.history()[0]["run_id"])


def test_missing_log_of_the_driver_is_reported(head: Remote, yarn: StandInYarn) -> None:
    head.write(SCRIPT)
    with yarn.mode("nologs"):
        assert head.submit("train.py", configuration="box").code == 0
    assert "YARN has no log of the driver of application_" in head.log(head.history()[0]["run_id"])


def test_running_application_has_its_address(head: Remote, yarn: StandInYarn) -> None:
    run_id, application = begin(head, yarn)
    (found,) = head.info(run_id)["spark"]["applications"]
    assert found["id"] == application
    assert found["ui"] == {
        "url": f"http://localhost:8088/proxy/{application}/",
        "forward": "workbench-tui open -r 1 port rm.example:8088",
    }
    # While the stand-ins exist: afterwards, cancel would wait for YARN.
    head.go_on()
    head.until_status(run_id, "Completed")


def test_head_node_without_yarn_is_refused_before_the_start(head: Remote, yarn: StandInYarn) -> None:
    head.write(SCRIPT)
    head.machine.run(["rm", "/usr/local/bin/yarn"])
    done = head.submit("train.py", configuration="box")
    assert (done.code != 0, yarn.applications()) == (True, [])
    assert "`yarn` is not on the PATH of an SSH login on" in done.err


def test_secret_variable_is_refused(head: Remote) -> None:
    configure(head, "cluster", EnvironmentVariables={"API_TOKEN": "hunter2"})
    head.write(SCRIPT)
    done = head.submit("train.py", configuration="box")
    assert done.code == 3
    assert "the variable API_TOKEN is a secret" in done.err
    assert "hunter2" not in done.err


def test_checks_find_spark_and_yarn(head: Remote, yarn: StandInYarn) -> None:
    target = Project.find(str(head.folder)).target("box")
    results = {each.name: each for each in checks_for(target).run()}
    assert tuple(results) == checks_for(target).names
    assert (results[SPARK].state, results[YARN].state) == (OK, OK)
    assert "has 2 nodes" in results[YARN].message
    with yarn.mode("down"):
        *_, last = checks_for(target).run()
    assert (last.name, last.state) == (YARN, BROKEN)
    assert "Connection refused" in last.message
