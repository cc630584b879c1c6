"""Runs with real Spark on this machine, in containers, over SSH, and on a standalone cluster."""

from __future__ import annotations

import json
import re
from ipaddress import IPv4Address
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.conftest import open_folder, require
from tests.faults.support import Workbench, until
from tests.machines import Machine, machine
from tests.spark import IMAGE, JAVA_OPTIONS, VERSION, load_spark_image, spark_python, standalone_cluster
from tests.targets.docker_project import write
from tests.targets.remote_project import GO
from tui_workbench.core.processes import reap
from tui_workbench.runs.logs.spark_events import read_spark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.engines import DockerEngine
    from tests.targets.remote_project import Remote

# As in the samples of 2017: no Framework, and a package for a Scala that this Spark does not have.
RUNCONFIG = 'ArgumentVector:\n  - "$file"\nTarget: "local"\nTrackedRun: true\n'
DEPENDENCIES = """\
configuration:
  "spark.app.name": "Classifying Iris"
  "spark.yarn.maxAppAttempts": 1
  "spark.master": "local[2]"
repositories:
  - "https://mmlspark.azureedge.net/maven"
packages:
  - group: "com.microsoft.ml.spark"
    artifact: "mmlspark_2.11"
    version: "0.7.91"
"""
IRIS = """\
import sys
import pyspark
from azureml.logging import get_azureml_logger

run_logger = get_azureml_logger()
spark = pyspark.sql.SparkSession.builder.appName('Iris').getOrCreate()
data = spark.sparkContext.parallelize(range(150), 4)
print('sum', data.map(lambda x: (x % 3, x)).reduceByKey(lambda a, b: a + b).collect())
run_logger.log('Regularization Rate', float(sys.argv[1]))
run_logger.log('Rows', data.count())
"""
FAILS = """\
from pyspark import SparkContext

def check(row):
    if row == 7:
        raise ValueError("row 7 has no label")
    return row

print(SparkContext.getOrCreate().parallelize(range(10), 2).map(check).sum())
"""
LOSES = """\
import os
from pyspark import SparkContext
open("gone.txt", "w").write("one")
rows = SparkContext.getOrCreate().textFile(os.path.abspath("gone.txt"))
rows.getNumPartitions()  # the files are listed now
os.remove("gone.txt")
rows.collect()
"""
WAITS = """\
import time
from pyspark import SparkContext
SparkContext.getOrCreate().parallelize(range(2), 2).map(lambda row: time.sleep(600)).count()
"""


@pytest.fixture(scope="session")
def spark() -> str:
    """Return the Python of an environment with Spark."""
    return spark_python()


@pytest.fixture
def project(tmp_path: Path, spark: str) -> Iterator[Workbench]:
    """Return a project of 2017 with PySpark, on this machine."""
    root = tmp_path / "my project"
    (root / "aml_config").mkdir(parents=True)
    files = {
        "aml_config/local.compute": f'type: "local"\npythonLocation: {json.dumps(spark)}\n',
        "aml_config/local.runconfig": RUNCONFIG,
        "aml_config/spark_dependencies.yml": DEPENDENCIES,
        "iris_spark.py": IRIS,
        "fails.py": FAILS,
        "loses.py": LOSES,
        "waits.py": WAITS,
    }
    for name, text in files.items():
        (root / name).write_text(text)
    workbench = Workbench(root, {"SPARK_LOCAL_IP": "127.0.0.1", **JAVA_OPTIONS})
    yield workbench
    for record in workbench.history():
        if record["status"] in ("Running", "Preparing"):
            workbench.run("experiment", "cancel", "--run", record["run_id"])
    reap()


def last(workbench: Workbench) -> dict[str, Any]:
    """Return the newest run."""
    return workbench.info(workbench.history()[0]["run_id"])


def application(record: dict[str, Any]) -> dict[str, Any]:
    (found,) = record["spark"]["applications"]
    assert isinstance(found, dict)
    return found


@pytest.mark.spark
def test_sample_of_2017_runs_by_its_own_command(project: Workbench) -> None:
    planned = project.run("experiment", "submit", "-c", "local", "--dry-run", "./iris_spark.py", "0.01")
    assert f"use Spark {VERSION} (Scala 2.13) with master local[2]; omit com.microsoft.ml" in planned.out
    done = project.run("az", "ml", "experiment", "submit", "-c", "local", "./iris_spark.py", "0.01")
    assert done.code == 0, done
    assert "sum [" in done.out
    record = last(project)
    assert record["reason"] is None
    assert (record["Regularization Rate"], record["Rows"]) == (0.01, 150)
    # Lines of Spark's own log are not metrics.
    assert "ShuffleMapStage" not in record
    found = application(record)
    assert (found["name"], found["version"], found["master"]) == ("Iris", VERSION, "local[2]")
    assert [(stage["tasks"], stage["done"], stage["failure"]) for stage in found["stages"]] == [(4, 4, "")] * 3
    assert found["stages"][0]["name"] == "reduceByKey at iris_spark.py:8"
    assert (found["failed_tasks"], found["ui"]) == ([], None)


@pytest.mark.spark
def test_exception_in_a_task_is_the_reason(project: Workbench) -> None:
    assert project.submit("fails.py").code == 1
    record = last(project)
    assert "ValueError: row 7 has no label" in record["reason"]
    (failed,) = application(record)["failed_tasks"]
    assert (failed["task"], failed["reason"]) == (1, "ValueError: row 7 has no label")


@pytest.mark.spark
def test_error_of_an_executor_is_the_reason(project: Workbench) -> None:
    assert project.submit("loses.py").code == 1
    assert re.match(r"java.io.FileNotFoundException: File file:/\S.*/gone.txt does not exist", last(project)["reason"])


@pytest.mark.spark
def test_master_yarn_without_its_configuration_is_the_reason(project: Workbench) -> None:
    (project.folder / "aml_config/spark_dependencies.yml").write_text("configuration: {spark.master: yarn}\n")
    assert project.submit("iris_spark.py", "0.01").code == 1
    assert "HADOOP_CONF_DIR is not set: set it in EnvironmentVariables" in last(project)["reason"]


@pytest.mark.spark
def test_files_of_the_machine_do_not_change_python_and_mode(project: Workbench, spark: str, tmp_path: Path) -> None:
    (tmp_path / "spark-env.sh").write_text("export PYSPARK_PYTHON=/bin/false PYSPARK_DRIVER_PYTHON=/bin/false\n")
    (tmp_path / "spark-defaults.conf").write_text("spark.submit.deployMode cluster\n")
    project.environment["SPARK_CONF_DIR"] = str(tmp_path)
    (project.folder / "python.py").write_text(
        "import sys\nfrom pyspark import SparkContext\n"
        "print(sys.executable, SparkContext.getOrCreate().range(2).map(lambda row: sys.executable).collect())\n"
    )
    assert f"{spark} ['{spark}', '{spark}']\n" in project.submit("python.py").out


@pytest.mark.spark
def test_cancel_ends_the_driver_and_its_workers(project: Workbench) -> None:
    run_id = project.detach("waits.py")
    until(lambda: "spark" in project.info(run_id) and application(project.info(run_id))["stages"], "the first stage")
    found = application(project.info(run_id))
    assert (found["end_time_utc"], found["stages"][0]["done"]) == (None, 0)
    assert found["ui"]["url"].startswith("http://localhost:40")
    assert found["ui"]["forward"] == ""
    assert project.run("experiment", "cancel", "--run", run_id).code == 0
    assert project.info(run_id)["status"] == "Canceled"
    assert application(project.info(run_id))["ui"] is None


@pytest.mark.spark
def test_python_without_spark_is_refused_before_the_run(project: Workbench) -> None:
    project.environment["SPARK_HOME"] = "/nowhere"
    done = project.submit("iris_spark.py", "0.01")
    assert done.code == 3
    assert "local.runconfig: Framework is missing, which means PySpark, but " in done.err
    assert "-m pip install pyspark" in done.err
    assert project.history() == []


def test_machine_over_ssh_runs_with_its_own_spark(box: Remote, spark: str) -> None:
    variables = {"SPARK_LOCAL_IP": "127.0.0.1", **JAVA_OPTIONS}
    box.configure({"pythonLocation": spark}, Framework="PySpark", EnvironmentVariables=variables)
    (box.folder / "aml_config/spark_dependencies.yml").write_text("configuration: {spark.master: 'local[2]'}\n")
    box.write(f"{IRIS}print(__import__('os').uname().nodename)\n")
    done = box.run("experiment", "submit", "-c", "box", "train.py", "0.5")
    record = last(box)
    assert (done.code, record["status"], record["Rows"]) == (0, "Completed", 150), done
    assert "\ngpubox\n" in done.out
    found = application(record)
    assert (found["version"], found["master"], found["name"]) == (VERSION, "local[2]", "Iris")
    assert [stage["done"] for stage in found["stages"]] == [4, 4, 4]


@pytest.fixture
def workers(key: Path) -> Iterator[tuple[Machine, Machine]]:
    """Two machines for workers."""
    require("java")
    with (
        open_folder() as folder,
        machine("worker-1", folder / "1", key) as one,
        machine("worker-2", folder / "2", key) as other,
    ):
        yield one, other


def test_standalone_cluster_runs_the_tasks_of_a_driver_over_ssh(
    box: Remote,
    spark: str,
    workers: tuple[Machine, Machine],
    tmp_path: Path,
) -> None:
    head = box.machine
    variables = {"SPARK_LOCAL_IP": head.address, **JAVA_OPTIONS}
    box.configure({"type": "cluster", "pythonLocation": spark}, Framework="PySpark", EnvironmentVariables=variables)
    box.write(
        "import workbench, time, os, sys\nfrom pyspark import SparkContext\nsc = SparkContext.getOrCreate()\n"
        "rows = sc.parallelize(range(100), 8).map(lambda x: (time.sleep(0.02), os.uname().nodename)[1])\n"
        "hosts = rows.map(lambda host: (host, 1)).reduceByKey(lambda a, b: a + b).collect()\n"
        "workbench.log('hosts', len(hosts))\nprint(sorted(host for host, _ in hosts), os.uname().nodename)\n"
        "while not os.path.exists(sys.argv[1]): time.sleep(0.02)\n"
    )
    with standalone_cluster(spark, head, workers, tmp_path) as url:
        # Without the last three, the first worker to start could execute all tasks.
        (box.folder / "aml_config" / "spark_dependencies.yml").write_text(
            f"configuration: {{spark.master: '{url}', spark.executor.memory: 512m, spark.cores.max: 2, "
            "spark.scheduler.minRegisteredResourcesRatio: 1, spark.scheduler.maxRegisteredResourcesWaitingTime: 1h}\n"
        )
        run_id = box.detach("train.py", GO, configuration="box")
        until(lambda: "spark" in box.info(run_id) and application(box.info(run_id))["stages"], "the first stage")
        address = application(box.info(run_id))["ui"]
        assert address["forward"] == f"workbench-tui open -r 1 port {head.address}:4040"
        box.go_on()
        assert box.follow(run_id).code == 0
    record = box.info(run_id)
    assert (record["status"], record["hosts"]) == ("Completed", 2), box.log(run_id)
    assert "['worker-1', 'worker-2'] gpubox" in box.log(run_id)
    found = application(record)
    assert (found["master"], found["executors"]) == (url, 2)
    assert [(stage["tasks"], stage["done"]) for stage in found["stages"]] == [(8, 8), (8, 8)]
    assert not (box.run_directory(run_id) / "spark" / f"{found['id']}.inprogress").exists()


# As Azure ML Workbench wrote it: JSON, with its own comments and flags.
DOCKER_SPARK = {
    "Description": "Run the project on your local computer inside a custom-built docker container.",
    "ArgumentVector": ["$file"],
    "CondaFile": None,
    "ManagedEnvironment": True,
    "TrackedRun": True,
    "Target": "docker-spark",
    "PrepareEnvironment": True,
    "Framework": "PySpark",
}


def docker_sample(root: Path, **compute: str) -> Workbench:
    """Return a project of 2017 whose target `docker-spark` is a container."""
    folder = root / "aml_config"
    folder.mkdir()
    write(folder / "docker-spark.compute", {"baseDockerImage": IMAGE, **compute})
    (folder / "docker-spark.runconfig").write_text(json.dumps(DOCKER_SPARK, indent=2))
    (folder / "spark_dependencies.yml").write_text("configuration: {spark.master: 'local[1]'}\n")
    (root / "iris_spark.py").write_text(IRIS)
    return Workbench(root)


@pytest.fixture
def spark_engine(gpubox_engine: DockerEngine, spark: str) -> DockerEngine:
    """Return the engine of the other machine with Spark's image. Loading it takes half a minute: once is enough."""
    if not gpubox_engine.docker("images", "--quiet", IMAGE):
        load_spark_image(gpubox_engine, spark)
    return gpubox_engine


def test_docker_sample_of_2017_runs_on_another_machine(
    tmp_path: Path, spark_engine: DockerEngine, gpubox: Machine, ssh_folder: Path
) -> None:
    project = docker_sample(tmp_path, type="remotedocker", address=gpubox.address, username="research")
    done = project.run("az", "ml", "experiment", "submit", "-c", "docker-spark", "./iris_spark.py", "0.5")
    record = last(project)
    assert (done.code, record["status"], record["Rows"]) == (0, "Completed", 150), done
    # The host of the container cannot resolve the name of the container.
    assert IPv4Address(read_spark(str(project.run_directory(record["run_id"])))[0].ui_host)
    found = application(record)
    assert (found["version"], found["master"], found["name"]) == (VERSION, "local[1]", "Iris")
    assert [stage["done"] for stage in found["stages"]] == [4, 4, 4]
