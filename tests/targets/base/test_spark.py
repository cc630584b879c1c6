"""The command of spark-submit, and how Spark and Java are found."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tui_workbench.core.errors import ConfigurationError
from tui_workbench.core.model import ComputeTarget, RunConfiguration, RunSpec
from tui_workbench.targets.base import run_environment, spark
from tui_workbench.targets.base.spark import Spark

FOUND = Spark("/opt/spark/bin/spark-submit", "/opt/spark", "4.3.0", "2.13", "/usr/bin/java")


def spec_of(root: Path, dependencies: str = "", *, script: str = "train.py", **changes: object) -> RunSpec:
    folder = root / "aml_config"
    folder.mkdir(exist_ok=True)
    if dependencies:
        (folder / "spark_dependencies.yml").write_text(dependencies)
    path = folder / "a.runconfig"
    path.write_text("Target: t\nFramework: PySpark\n")
    configuration = RunConfiguration("a", str(path), "t", framework="PySpark", values={"Framework": "PySpark"})
    return RunSpec(
        run_id="p_1",
        run_directory=str(root / "run"),
        project_root=str(root),
        project_name="p",
        working_directory=str(root / "run/work"),
        script=script,
        arguments=("--rows", "5"),
        run_configuration=configuration._replace(**changes),  # type: ignore[arg-type]
        target=ComputeTarget("t", str(folder / "t.compute"), "local"),
    )


def words(spec: RunSpec, found: Spark = FOUND, run: str = "/run") -> list[str]:
    return list(run_environment.script_command(spec, "/venv/bin/python", "/sdk", run, found))


def options(command: list[str], name: str) -> list[str]:
    return [command[place + 1] for place, word in enumerate(command) if word == name]


# --- The command


def test_spark_submit_precedes_script_and_arguments(tmp_path: Path) -> None:
    command = words(spec_of(tmp_path))
    assert command[:5] == ["/opt/spark/bin/spark-submit", "--master", "local[*]", "--deploy-mode", "client"]
    assert command[-3:] == ["train.py", "--rows", "5"]
    assert options(command, "--conf") == [
        "spark.eventLog.enabled=true",
        "spark.eventLog.dir=file:/run/spark",
        "spark.eventLog.compress=false",
        "spark.eventLog.rolling.enabled=false",
        "spark.eventLog.buffer.kb=8",
        "spark.pyspark.python=/venv/bin/python",
        "spark.pyspark.driver.python=/venv/bin/python",
    ]


def test_dependencies_become_options(tmp_path: Path) -> None:
    text = (
        "configuration:\n  spark.app.name: Iris\n  spark.yarn.maxAppAttempts: 1\n  spark.master: spark://head:7077\n"
        "repositories: [https://a.example/m2, https://b.example/m2]\n"
        "packages:\n- {group: g, artifact: a, version: '1.10'}\n- {group: h, artifact: b, version: 2}\n"
    )
    command = words(spec_of(tmp_path, text))
    assert options(command, "--master") == ["spark://head:7077"]
    assert options(command, "--conf")[-2:] == ["spark.app.name=Iris", "spark.yarn.maxAppAttempts=1"]
    assert options(command, "--repositories") == ["https://a.example/m2,https://b.example/m2"]
    assert options(command, "--packages") == ["g:a:1.10,h:b:2"]


def test_packages_for_another_scala_are_left_out(tmp_path: Path) -> None:
    text = (
        "repositories: [https://a.example]\npackages:\n- {group: com.ms, artifact: mmlspark_2.11, version: '0.7'}\n"
        "- {group: g, artifact: fitting_2.13, version: 1}\n- {group: g, artifact: java, version: 6.2.1.jre8}\n"
    )
    spec = spec_of(tmp_path, text)
    assert options(words(spec), "--packages") == ["g:fitting_2.13:1,g:java:6.2.1.jre8"]
    assert "omit com.ms:mmlspark_2.11:0.7, not built for Scala 2.13" in spark.plan_step(spec, FOUND).title
    # Before Spark is known, all packages are planned.
    assert "mmlspark_2.11" in options(words(spec, spark.UNKNOWN), "--packages")[0]


@pytest.mark.parametrize("setting", ["spark.eventLog.enabled: false", "spark.eventLog.dir: 'hdfs:///logs'"])
def test_own_settings_of_the_event_log_are_kept(tmp_path: Path, setting: str) -> None:
    command = words(spec_of(tmp_path, f"configuration:\n  {setting}\n"))
    assert len([each for each in options(command, "--conf") if "eventLog" in each]) == 1


def test_event_log_folder_is_a_uri(tmp_path: Path) -> None:
    command = words(spec_of(tmp_path), run="/my project/é#1")
    assert "spark.eventLog.dir=file:/my%20project/%C3%A9%231/spark" in options(command, "--conf")


def on_cluster(spec: RunSpec, mode: str) -> RunSpec:
    return spec._replace(target=spec.target._replace(type="cluster", yarn_deploy_mode=mode))


def test_cluster_runs_drivers_on_its_head_node(tmp_path: Path) -> None:
    spec = on_cluster(spec_of(tmp_path), "client")
    assert words(spec)[1:5] == ["--master", "yarn", "--deploy-mode", "client"]
    assert not any("spark.yarn" in each for each in words(spec))


def test_driver_in_the_cluster_is_tagged_and_tried_once(tmp_path: Path) -> None:
    text = (
        "configuration: {spark.yarn.tags: team, spark.yarn.maxAppAttempts: 4, spark.submit.pyFiles: a.py,\n"
        "  spark.yarn.submit.waitAppCompletion: false}\n"
    )
    spec = on_cluster(spec_of(tmp_path, text, environment_variables={"NAME": "x y"}), "cluster")
    command = words(spec)
    assert command[1:5] == ["--master", "yarn", "--deploy-mode", "cluster"]
    assert options(command, "--py-files") == ["a.py,/run/sdk.zip"]
    assert sorted(options(command, "--conf")) == [
        "spark.pyspark.driver.python=/venv/bin/python",
        "spark.pyspark.python=/venv/bin/python",
        "spark.yarn.appMasterEnv.AZUREML_RUN_ID=p_1",
        "spark.yarn.appMasterEnv.NAME=x y",
        "spark.yarn.appMasterEnv.WORKBENCH_RUN_ID=p_1",
        "spark.yarn.maxAppAttempts=1",
        "spark.yarn.submit.waitAppCompletion=true",
        "spark.yarn.tags=team,p_1",
    ]


def test_driver_of_another_master_stays_on_the_head_node(tmp_path: Path) -> None:
    spec = on_cluster(spec_of(tmp_path, "configuration: {spark.master: 'spark://head:7077'}\n"), "cluster")
    assert not spark.driver_is_in_cluster(spec)
    assert options(words(spec), "--deploy-mode") == ["client"]


def test_tag_has_no_more_characters_than_yarn_allows() -> None:
    assert spark.tag_of("p" * 100 + "_1795443313376") == "p" * 86 + "_1795443313376"


def test_secret_arguments_stay_out_of_the_event_log(tmp_path: Path) -> None:
    spec = spec_of(tmp_path)._replace(arguments=("--api-key", "abc"))
    assert any("sun[.]java[.]command" in each for each in options(words(spec), "--conf"))


def test_own_redaction_is_kept_for_secret_arguments(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, "configuration: {spark.redaction.regex: account}\n")
    redacted = options(words(spec._replace(arguments=("--api-key", "abc"))), "--conf")
    assert [each for each in redacted if "redaction" in each] == ["spark.redaction.regex=account|sun[.]java[.]command"]


def test_run_configuration_sets_the_python_of_workers(tmp_path: Path) -> None:
    properties = options(words(spec_of(tmp_path, environment_variables={"PYSPARK_PYTHON": "/nodes/python"})), "--conf")
    assert "spark.pyspark.python=/nodes/python" in properties
    assert "spark.pyspark.driver.python=/venv/bin/python" in properties


def test_variables_name_the_interpreter() -> None:
    found = spark.variables("/venv/bin/python", FOUND)
    assert (found["PYSPARK_PYTHON"], found["PYSPARK_DRIVER_PYTHON"]) == ("/venv/bin/python", "/venv/bin/python")
    assert found["SPARK_HOME"] == "/opt/spark"


# --- Refusals


def test_secret_property_is_refused_with_its_line(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, "configuration:\n  spark.app.name: a\n  spark.ssl.keyPassword: hunter2\n")
    with pytest.raises(ConfigurationError, match=r"spark\.ssl\.keyPassword is a secret") as raised:
        words(spec)
    assert raised.value.line == 3
    assert "hunter2" not in str(raised.value)


def test_secret_in_a_value_is_refused(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, "configuration:\n  spark.driver.extraJavaOptions: -Da=b -Dstore.password=hunter2\n")
    with pytest.raises(ConfigurationError, match=r"spark\.driver\.extraJavaOptions is a secret"):
        words(spec)


def test_secret_in_a_variable_is_refused_for_a_driver_in_the_cluster(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, environment_variables={"DATABASE": "postgres://me:hunter2@db.example"})
    assert words(on_cluster(spec, "client"))
    with pytest.raises(ConfigurationError, match="the variable DATABASE is a secret"):
        words(on_cluster(spec, "cluster"))


def test_password_of_a_repository_is_refused_with_its_line(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, "repositories:\n- https://a.example\n- https://me:hunter2@b.example/maven\n")
    with pytest.raises(ConfigurationError, match=r"https://me:\*\*\*@b\.example/maven contains a secret") as raised:
        words(spec)
    assert raised.value.line == 3


def test_broken_dependencies_are_reported_with_their_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="artifact") as raised:
        words(spec_of(tmp_path, "packages:\n- group: a\n"))
    assert raised.value.line == 2


def test_named_file_of_dependencies_must_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"other\.yml"):
        words(spec_of(tmp_path, spark_dependencies_file="aml_config/other.yml"))


@pytest.mark.parametrize("script", ["train", "a:b.py", "a#b.py"])
def test_script_that_spark_cannot_run_is_refused(tmp_path: Path, script: str) -> None:
    with pytest.raises(ConfigurationError, match="spark-submit cannot run"):
        spark.require_script(spec_of(tmp_path, script=script))


def test_torchrun_and_spark_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="ProcessesPerNode") as raised:
        spark.require_script(spec_of(tmp_path, processes_per_node="2"))
    assert raised.value.line == 2


@pytest.mark.parametrize(
    ("found", "lacking"),
    [(Spark(submit="", java="/bin/java"), "Spark"), (FOUND._replace(java=""), "the Java that Spark needs")],
)
def test_missing_part_is_reported_with_its_installation(tmp_path: Path, found: Spark, lacking: str) -> None:
    spec = spec_of(tmp_path, values={})
    with pytest.raises(ConfigurationError) as raised:
        spark.require_spark(
            spec, found, "/usr/bin/python3", spark_remedy=spark.pip_remedy("/my py"), java_remedy=spark.JAVA_REMEDY
        )
    missing = "Framework is missing, which means PySpark"
    assert raised.value.message == f"{missing}, but /usr/bin/python3 does not have {lacking}"
    command = (
        "`'/my py' -m pip install pyspark`" if lacking == "Spark" else "`sudo apt-get install default-jre-headless`"
    )
    assert command in raised.value.remedy
    assert "Framework: Python" in raised.value.remedy


# --- Finding


def executable(path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\nexit 9\n")
    path.chmod(0o755)
    return str(path)


def installation(folder: Path, version: str = "4.3.0") -> str:
    (folder / "jars").mkdir(parents=True)
    (folder / "jars" / f"spark-core_2.13-{version}.jar").touch()
    executable(folder / "bin" / "spark-class")
    return executable(folder / "bin" / "spark-submit")


class Finder:
    """A machine with Java on the PATH and a virtual environment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.java = executable(folder / "tools" / "java")
        self.python = executable(folder / "venv" / "bin" / "python")
        self.package = folder / "venv/lib/python3.11/site-packages/pyspark"

    def find(self, location: str = "", **variables: str) -> Spark:
        environment = {"PATH": f"{self.folder}/tools:/usr/bin:/bin", **variables}
        words = spark.find_words(spec_of(self.folder), self.python, location, environment)
        home = {"PATH": os.environ["PATH"], "HOME": str(self.folder / "home")}
        done = subprocess.run(words, capture_output=True, text=True, env=home, check=True)
        assert done.stderr == ""
        return spark.parse_found(done.stdout)


@pytest.fixture
def machine(tmp_path: Path) -> Finder:
    return Finder(tmp_path)


def test_package_of_the_environment_is_found(machine: Finder) -> None:
    submit = installation(machine.package)
    assert machine.find() == Spark(submit, str(machine.package), "4.3.0", "2.13", machine.java)


def test_spark_home_precedes_the_package(machine: Finder) -> None:
    installation(machine.package)
    submit = installation(machine.folder / "spark home", "3.5.1")
    found = machine.find(SPARK_HOME=f"{machine.folder}/spark home")
    assert (found.submit, found.version) == (submit, "3.5.1")
    assert machine.find(SPARK_HOME="/nowhere").submit == ""


def test_configured_location_has_precedence(machine: Finder) -> None:
    installation(machine.package)
    submit = installation(machine.folder / "other")
    assert machine.find(submit, SPARK_HOME="/nowhere").submit == submit
    assert machine.find("~/none").submit == ""
    assert machine.find(str(machine.folder / "other")).submit == ""
    assert machine.find(str(next(machine.folder.glob("other/jars/*")))).submit == ""
    assert machine.find(spark.SUBMIT).home == str(machine.package)


def test_path_comes_last_and_links_are_followed(machine: Finder) -> None:
    submit = installation(machine.folder / "opt/spark")
    Path(machine.folder, "tools/spark-submit").symlink_to(submit)
    assert machine.find() == Spark(submit, str(machine.folder / "opt/spark"), "4.3.0", "2.13", machine.java)


def test_wrapper_beside_other_jars_has_no_folder_of_spark(machine: Finder) -> None:
    submit = installation(machine.folder / "distribution")
    Path(machine.folder, "distribution/bin/spark-class").unlink()
    assert machine.find(submit) == Spark(submit, "", "", "", machine.java)


def test_java_home_precedes_the_path(machine: Finder) -> None:
    installation(machine.package)
    java = executable(machine.folder / "jdk/bin/java")
    assert machine.find(JAVA_HOME=f"{machine.folder}/jdk").java == java
    assert machine.find(JAVA_HOME="/nowhere").java == ""


def test_machine_without_spark_is_recognized(machine: Finder) -> None:
    found = machine.find()
    assert (found.submit, found.home, found.java) == ("", "", machine.java)


@pytest.mark.parametrize("text", ["", "\n", "a\nb\nc\nd\ne\n", "x\n\nspark-core_.jar\n"])
def test_unexpected_answer_has_no_version(text: str) -> None:
    assert spark.parse_found(text).version == ""
