"""Checks of Spark runs and dependencies."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.config.documents import document, in_project, project
from tui_workbench.config.checks.findings import ERROR, INFO

SPARK = {"train.py": "import pyspark\n"}


def codes(text: str) -> list[str]:
    return [one.code for one in document(text, "spark_dependencies.yml").problems()]


def test_secret_property_is_an_error_at_its_line() -> None:
    text = "configuration:\n  spark.app.name: a\n  fs.azure.account.key.x: AAAA\n"
    (finding,) = document(text, "spark_dependencies.yml").problems()
    assert (finding.code, finding.severity, finding.line) == ("spark-secret", ERROR, 3)
    assert "AAAA" not in finding.message
    assert codes("configuration:\n  spark.hadoop.fs.adl.oauth2.credential: AAAA\n") == ["spark-secret"]
    assert codes("configuration:\n  spark.hadoop.token.renewal: 'false'\n  spark.sql.mapKeyDedupPolicy: X\n") == []


def test_package_for_spark_2_is_an_information() -> None:
    text = (
        "packages:\n- {group: a, artifact: mmlspark_2.11, version: '0.7'}\n- {group: a, artifact: b_2.13, version: 1}\n"
    )
    (finding,) = document(text, "spark_dependencies.yml").problems()
    assert (finding.code, finding.severity, finding.line) == ("old-scala", INFO, 2)


@pytest.mark.parametrize(("framework", "expected"), [("PySpark", ["processes-with-spark"]), ("Python", [])])
def test_torchrun_with_spark_is_an_error(tmp_path: Path, framework: str, expected: list[str]) -> None:
    text = f"Target: t\nFramework: {framework}\nProcessesPerNode: 2\n"
    project(tmp_path, t__compute="type: local\n", a__runconfig=text, **SPARK)
    assert [one.code for one in in_project(tmp_path, "a.runconfig").problems()] == expected


@pytest.mark.parametrize(("master", "expected"), [("local[*]", ["local-master"]), ("spark://h:7077", []), ("", [])])
def test_local_master_on_a_cluster_is_reported(tmp_path: Path, master: str, expected: list[str]) -> None:
    project(
        tmp_path,
        t__compute="type: cluster\naddress: h\n",
        a__runconfig="Target: t\nFramework: PySpark\n",
        spark_dependencies__yml=f"configuration: {{spark.master: '{master}'}}\n" if master else "configuration: {}\n",
        **SPARK,
    )
    assert [one.code for one in in_project(tmp_path, "a.runconfig").problems()] == expected


@pytest.mark.parametrize(
    ("image", "packages", "expected"),
    [
        ("python:3.12-slim", "[pip]", ["no-spark"]),
        ("python:3.12-slim", "[pip, {pip: [pyspark]}]", ["no-spark"]),
        ("python:3.12-slim", "[openjdk, {pip: [pyspark]}]", []),
        ("apache/spark:3.5.7-java17-python3", "[pip]", []),
    ],
)
def test_image_without_spark_is_reported(tmp_path: Path, image: str, packages: str, expected: list[str]) -> None:
    project(
        tmp_path,
        t__compute=f"type: localdocker\nbaseDockerImage: {image}\n",
        a__runconfig="Target: t\nFramework: PySpark\nPrepareEnvironment: true\n",
        conda_dependencies__yml=f"dependencies: {packages}\n",
        **SPARK,
    )
    assert [one.code for one in in_project(tmp_path, "a.runconfig").problems()] == expected
