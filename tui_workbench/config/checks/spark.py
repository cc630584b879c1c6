"""Check the Spark requirements of a run, properties with secrets, and packages for old versions of Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress

from tui_workbench.config.checks.findings import Finding, set_field
from tui_workbench.config.checks.packages import requirements_of
from tui_workbench.config.checks.project_context import ProjectContext, Subject
from tui_workbench.config.schema import fields
from tui_workbench.config.spark_dependencies import secret_property, spark_dependencies_of
from tui_workbench.config.yaml_edit.syntax import MAP
from tui_workbench.core.errors import ConfigurationError

_SCALA = re.compile(r".*_(2\.(?:9|1[01]))")
"""Names of artifacts for versions of Scala that Spark 3 and later do not support."""


def check(subject: Subject) -> Iterator[Finding]:
    """Yield the findings about Spark in a run configuration or a file of Spark dependencies."""
    if subject.kind is fields.SPARK:
        yield from _properties(subject)
        yield from _packages(subject)
    elif subject.configuration.uses_spark:
        yield from _run(subject)


def _properties(subject: Subject) -> Iterator[Finding]:
    key = "configuration"
    node = subject.nodes.get(key)
    secret = secret_property(subject.values.get(key) or {})
    if secret and node is not None and node.kind == MAP:
        name, value = next(entry for entry in node.entries if entry[0].text == secret)
        message = f"{secret} is a secret, which other users could read in the command line of Spark"
        remedy = "Pass the secret in an environment variable, and set the property in the script."
        yield subject.finding("spark-secret", message, remedy, key, at=(name.start, value.end))


def _packages(subject: Subject) -> Iterator[Finding]:
    key = "packages"
    node = subject.nodes.get(key)
    rows = subject.values.get(key, ())
    for row, item in zip(rows, node.items if node is not None else (), strict=False):
        match = _SCALA.fullmatch(str(row.get("artifact", "")))
        if match:
            message = f"{row['artifact']} is for Scala {match[1]} (Spark 2 or older); runs with a newer Spark omit it"
            remedy = "Use the package for the Scala version of your Spark, or remove it."
            yield subject.finding("old-scala", message, remedy, key, at=item)


def _run(subject: Subject) -> Iterator[Finding]:
    configuration = subject.configuration
    key = configuration.key("Framework")
    if configuration.processes_per_node:
        message = f"`ProcessesPerNode` starts torchrun, but `{key}` starts Spark"
        remedy = f"Remove ProcessesPerNode, or set `{key}: Python`."
        yield subject.finding("processes-with-spark", message, remedy, "ProcessesPerNode", set_field(key, "Python"))
    context = subject.context
    target = context.target(configuration.target) if context is not None else None
    if context is None or target is None or context.uses_spark(configuration.script) is False:
        return
    if target.kind.spark_master:
        yield from _master(subject, context)
    if not target.base_docker_image.startswith("python:"):
        return  # the content of other images, and of interpreters, is unknown
    tree = context.tree(context.absolute(configuration.conda_file))
    names = {requirement.name for requirement in requirements_of(tree.root)} if tree is not None else set()
    missing = [name for name in ("pyspark", "openjdk") if name not in names]
    if missing:
        message = (
            f"runs start Spark, but {target.base_docker_image} and {configuration.conda_file} have no {missing[0]}"
        )
        remedy = (
            "Use an image with Spark and Java, such as spark:python3, or add pyspark and openjdk to "
            f"{configuration.conda_file}."
        )
        yield subject.finding("no-spark", message, remedy, key)


def _master(subject: Subject, context: ProjectContext) -> Iterator[Finding]:
    """Check that `spark.master` does not restrict the run to the head node."""
    configuration = subject.configuration
    with suppress(ConfigurationError):  # the check of that file reports the error
        master = spark_dependencies_of(configuration, context.root).configuration.get("spark.master", "")
        if master.startswith("local"):
            message = f"`spark.master: {master}` uses only the head node of {configuration.target}"
            file = "this file" if configuration.is_sdk_form else configuration.spark_file
            remedy = f"Remove spark.master from {file} to use YARN, or set it to the URL of the master."
            yield subject.finding("local-master", message, remedy, "Target")
