"""Checks of the head node of a Spark cluster: `spark-submit` with its Java, and YARN."""

from __future__ import annotations

import re

from tui_workbench.core.model import ComputeTarget
from tui_workbench.core.plaintext import counted
from tui_workbench.targets.base import spark as launcher
from tui_workbench.targets.base.protocol import Target
from tui_workbench.targets.checks.result import OK, SPARK, WARNING, YARN, CheckFailed, CheckResult
from tui_workbench.targets.gpu.framework_location import spec_of
from tui_workbench.targets.hosts.host import Host

YARN_SECONDS = 60.0
"""Time limit in seconds for an answer from YARN, whose client starts a JVM."""

_NODES = re.compile(r"^Total Nodes:(\d+)", re.MULTILINE)  # Hadoop's NodeCLI
_NOT_FOUND = 127


def spark(target: Target) -> CheckResult:
    """Check that `spark-submit` and Java exist. Raises ConfigurationError or TargetUnreachable."""
    spec, host = spec_of(target.target), target.host
    python, location = target.python_environment(spec).interpreter(), spec.target.spark_submit_location
    found = launcher.parse_found(host.run(launcher.find_words(spec, python, location, {})).text)
    launcher.require_spark(
        spec, found, host.label, spark_remedy=launcher.pip_remedy(python), java_remedy=launcher.JAVA_REMEDY
    )
    which = f"Spark {found.version} (Scala {found.scala})" if found.version else "Spark"
    remedy = (
        "The workbench builds no environment on this target. "
        f"Install the packages of your scripts with `{python} -m pip install`."
    )
    return CheckResult(SPARK, OK, f"{found.submit} is {which}", remedy)


def yarn(target: ComputeTarget, host: Host) -> CheckResult:
    """Check that YARN answers; warn if `yarn` is not installed. Raises CheckFailed or TargetUnreachable."""
    done = host.run(["yarn", "node", "-list"], timeout=YARN_SECONDS)
    if done.code == _NOT_FOUND:
        remedy = f"Set `{launcher.MASTER_PROPERTY}` in spark_dependencies.yml to the master, such as spark://HOST:7077."
        return CheckResult(YARN, WARNING, "`yarn` was not found, so runs need a Spark master other than YARN", remedy)
    if done.code:
        raise CheckFailed(
            f"YARN does not answer: {done.complaint}",
            "Check that YARN's resource manager is running. If it is, set HADOOP_CONF_DIR for SSH logins to the folder "
            "with YARN's configuration.",
            "yarn node -list",
            file=target.path,
        )
    nodes = _NODES.search(done.text)
    count = int(nodes[1]) if nodes else 0
    return CheckResult(YARN, OK, f"YARN answers and has {counted(count, 'node')}")
