"""The checks of the head node of a Spark cluster: Spark, Java and YARN."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tui_workbench.core.model import ComputeTarget
from tui_workbench.core.plaintext import counted
from tui_workbench.targets.base import spark as launcher
from tui_workbench.targets.checks.checked import CheckedTarget
from tui_workbench.targets.checks.ladder import Check, Checks
from tui_workbench.targets.checks.result import OK, SPARK, WARNING, YARN, CheckFailed, CheckResult
from tui_workbench.targets.gpu.framework_location import spec_of
from tui_workbench.targets.hosts.host import Host

YARN_SECONDS = 60.0
"""Time limit in seconds for an answer from YARN, whose client starts a JVM."""

_NODES = re.compile(r"^Total Nodes:(\d+)", re.MULTILINE)  # Hadoop's NodeCLI
_NOT_FOUND = 127


class RemoteChecks(Checks):
    """The checks of `type: remote`, and those of Spark for `type: cluster`."""

    def of_type(self) -> Sequence[Check]:
        python, *others = super().of_type()
        if not self.target.kind.spark_master:
            return (python, *others)
        installed = Check(SPARK, lambda: spark(self.implementation))
        return (python, installed, Check(YARN, lambda: yarn(self.target, self.host)), *others)


def spark(target: CheckedTarget) -> CheckResult:
    """Check that `spark-submit` and Java exist. Raises ConfigurationError or TargetUnreachable."""
    spec, host = spec_of(target.target), target.host
    interpreter, location = target.python_environment(spec).interpreter(), spec.target.spark_submit_location
    installed = launcher.parse_found(host.run(launcher.find_words(spec, interpreter, location, {})).text)
    launcher.require_spark(
        spec, installed, host.label, spark_remedy=launcher.pip_remedy(interpreter), java_remedy=launcher.JAVA_REMEDY
    )
    which = f"Spark {installed.version} (Scala {installed.scala})" if installed.version else "Spark"
    remedy = (
        "The workbench builds no environment on this target. "
        f"Install the packages of your scripts with `{interpreter} -m pip install`."
    )
    return CheckResult(SPARK, OK, f"{installed.submit} is {which}", remedy)


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
