"""The check of Spark on a head node."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tui_workbench.core.model import ComputeTarget
from tui_workbench.targets.hosts.host import LocalHost
from tui_workbench.targets.remote.checks import spark
from tui_workbench.targets.remote.remote_target import RemoteTarget


def executable(path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


def test_spark_of_a_python_below_the_home_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    monkeypatch.delenv("SPARK_HOME", raising=False)
    executable(tmp_path / "jdk/bin/java")
    (tmp_path / "env/bin").mkdir(parents=True)
    (tmp_path / "env/bin/python").symlink_to(sys.executable)
    submit = executable(tmp_path / "env/lib/python3.11/site-packages/pyspark/bin/spark-submit")
    target = ComputeTarget("t", "t.compute", "cluster", address="head", python_location="~/env/bin/python")
    assert spark(RemoteTarget(target, LocalHost())).message == f"{submit} is Spark"
