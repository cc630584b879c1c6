"""The Spark launcher: find `spark-submit`, and build its command line up to the script.

A run with Spark differs from other runs in its command: `spark-submit` precedes the script, as torchrun does. The
script runs in the Spark driver, with the interpreter of the target. Spark writes its event log into the folder `spark/`
of the run's directory. The workbench reads stages and failed tasks from this log.

One `sh` script finds Spark and Java on this machine, on another machine or in an image. It starts no program of the
project.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import NamedTuple

from tui_workbench.config.spark_dependencies import SparkDependencies, secret_property, spark_dependencies_of
from tui_workbench.core.errors import ConfigurationError
from tui_workbench.core.files import read_file
from tui_workbench.core.masking import mask_text, mask_value, mask_words
from tui_workbench.core.model import RunConfiguration, RunSpec, Step
from tui_workbench.core.shell_scripts import shell_script
from tui_workbench.projects.project import line_of_key
from tui_workbench.targets.hosts import supervisor
from tui_workbench.targets.hosts.processes import RUN_ID_VARIABLE

SUBMIT = "spark-submit"
LOCATION_KEY = "sparkSubmitLocation"
DEFAULT_MASTER = "local[*]"
MASTER_PROPERTY = "spark.master"
YARN = "yarn"
SDK_ARCHIVE = "sdk.zip"
"""The SDK in a run's directory on the head node, for a driver on another node."""

DEPLOY_MODE_KEY, _CLUSTER_MODE = "yarnDeployMode", "cluster"
_TAGS, _PYTHON_FILES = "spark.yarn.tags", "spark.submit.pyFiles"
_PYTHONS = {"PYSPARK_PYTHON": "spark.pyspark.python", "PYSPARK_DRIVER_PYTHON": "spark.pyspark.driver.python"}

LONGEST_TAG = 100
"""Maximum number of characters in a tag (YARN's APPLICATION_MAX_TAG_LENGTH)."""

_OWN_PROPERTIES = (("spark.yarn.submit.waitAppCompletion", "true"), ("spark.yarn.maxAppAttempts", "1"))
_MASTER_ENVIRONMENT = "spark.yarn.appMasterEnv."

SEARCHED = ("SPARK_HOME", "JAVA_HOME", "PATH")
"""Variables that decide which Spark and Java are found."""

_EVENT_LOG = ("spark.eventLog.enabled", "spark.eventLog.dir")

_REDACTION, _REDACTED = "spark.redaction.regex", "(?i)secret|password|token|access[.]?key"

_CORE = re.compile(r"spark-core_(\d+(?:\.\d+)*)-(.+)\.jar")
_SCALA = re.compile(r"[^:]+:[^:]*_(\d+\.\d+):")

_FIND = shell_script("targets/base/scripts/find_spark.sh")


class Spark(NamedTuple):
    """An installation of Spark. The defaults describe an unknown installation, such as one that is not built yet."""

    submit: str = SUBMIT
    home: str = ""
    version: str = ""
    scala: str = ""  # the version of Scala, such as 2.13
    java: str = ""


UNKNOWN = Spark()


def require_script(spec: RunSpec) -> None:
    """Raise ConfigurationError if Spark cannot run the script."""
    configuration = spec.run_configuration
    key = configuration.key("Framework")
    # spark-submit reads the name as a URI, and runs a file with another suffix as a Java program.
    if not spec.script.endswith(".py") or not {":", "#"}.isdisjoint(spec.script):
        raise ConfigurationError(
            f"{framework_reason(configuration)}, but spark-submit cannot run {spec.script!r}",
            remedy="Give the script a name that ends in .py and has no `:` or `#`.\n"
            f"If the script does not use Spark, set `{key}: Python`.",
            file=configuration.path,
            line=line_of_key(configuration.path, key),
        )
    if configuration.processes_per_node:
        raise ConfigurationError(
            f"{framework_reason(configuration)}, but `ProcessesPerNode` starts the script with torchrun",
            remedy=f"Remove `ProcessesPerNode`.\nIf the script does not use Spark, set `{key}: Python`.",
            file=configuration.path,
            line=line_of_key(configuration.path, key),
        )


def find_words(spec: RunSpec, interpreter: str, location: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the command that finds Spark for a run; `environment` has precedence over the variables of the machine."""
    merged = {**environment, **spec.run_configuration.environment_variables}
    assignments = [f"{name}={merged[name]}" for name in SEARCHED if name in merged]
    return ("/bin/sh", "-c", _FIND, "sh", interpreter, location if location != SUBMIT else "", *assignments)


def parse_found(text: str) -> Spark:
    """Parse the output of find_spark.sh; missing parts are empty."""
    submit, home, core, java = (text.split("\n") + [""] * 4)[:4]
    match = _CORE.fullmatch(core)
    scala, version = match.groups() if match else ("", "")
    return Spark(submit, home, version, scala, java)


def require_spark(spec: RunSpec, spark: Spark, where: str, *, spark_remedy: str, java_remedy: str) -> Spark:
    """Return the installation. Raises ConfigurationError if Spark or Java is missing at `where`."""
    if spark.submit and spark.java:
        return spark
    configuration = spec.run_configuration
    key = configuration.key("Framework")
    python = f"If the script does not use Spark, set `{key}: Python`."
    location = spec.target.spark_submit_location
    if not spark.submit and location != SUBMIT:
        raise ConfigurationError(
            f"{LOCATION_KEY}: {location} does not exist or is not executable",
            remedy=f"Set {LOCATION_KEY} to the path of spark-submit on the machine that executes the run.",
            file=spec.target.path,
            line=line_of_key(spec.target.path, LOCATION_KEY),
        )
    lacks = "Spark" if not spark.submit else "the Java that Spark needs"
    raise ConfigurationError(
        f"{framework_reason(configuration)}, but {where} does not have {lacks}",
        remedy=f"{spark_remedy if not spark.submit else java_remedy}\n{python}",
        file=configuration.path,
        line=line_of_key(configuration.path, key),
    )


def pip_remedy(interpreter: str) -> str:
    """Return the advice to install Spark for an interpreter, with the command."""
    command = shlex.join((interpreter, "-m", "pip", "install", "pyspark"))
    return f"Install Spark with `{command}`. If SPARK_HOME is set, correct or remove it."


def conda_remedy(spec: RunSpec, package: str) -> str:
    """Return the advice to add a package to the environment that is built for the run."""
    return f"Add `{package}` to {spec.run_configuration.conda_file}."


JAVA_REMEDY = (
    "Install Java, on Debian and Ubuntu with `sudo apt-get install default-jre-headless`. If JAVA_HOME is set, correct "
    "or remove it."
)


def framework_reason(configuration: RunConfiguration) -> str:
    """Return the reason why a run uses Spark."""
    key = configuration.key("Framework")
    return f"{key} is PySpark" if key in configuration.values else f"{key} is missing, which means PySpark"


def dependencies_of(spec: RunSpec) -> SparkDependencies:
    """Return the Spark dependencies of a run, from its working copy if it exists. Raises ConfigurationError.

    A secret in a property or a repository is refused: other users could read it in the command of the driver.
    """
    dependencies = spark_dependencies_of(spec.run_configuration, spec.working_directory, spec.project_root)
    if secret := secret_property(dependencies.configuration):
        raise ConfigurationError(
            f"{secret} is a secret, which other users could read in the command line of Spark",
            remedy="Pass the secret in an environment variable, and set the property in the script.",
            file=dependencies.path,
            line=_line_of(dependencies.path, secret),
        )
    if repository := next((text for text in dependencies.repositories if mask_text(text) != text), ""):
        raise ConfigurationError(
            f"{mask_text(repository)} contains a secret, which other users could read in the command line of Spark",
            remedy="Move the repository to an Ivy settings file, and set the property `spark.jars.ivySettings` to "
            "the path of that file.",
            file=dependencies.path,
            line=_line_of(dependencies.path, repository),
        )
    return dependencies


def _line_of(path: str, name: str) -> int:
    # `line_of_key` splits a key at its dots, but the name of a property contains dots.
    try:
        lines = read_file(path).decode("utf-8", "replace").split("\n")
        return next((number for number, line in enumerate(lines, 1) if name in line), 0)
    except OSError:
        return 0


def master_of(spec: RunSpec) -> str:
    """Return the Spark master of a run. Raises ConfigurationError."""
    master = dependencies_of(spec).configuration.get(MASTER_PROPERTY)
    return master or spec.target.kind.spark_master or DEFAULT_MASTER


def driver_is_in_cluster(spec: RunSpec) -> bool:
    """Return True if YARN chooses the node of the driver. Raises ConfigurationError."""
    return wants_cluster_mode(spec) and master_of(spec) == YARN


def wants_cluster_mode(spec: RunSpec) -> bool:
    """Return True if the target requests the driver in the cluster, which only YARN supports."""
    target = spec.target
    is_wanted = target.kind.reads(DEPLOY_MODE_KEY) and target.yarn_deploy_mode == _CLUSTER_MODE
    return is_wanted and spec.run_configuration.uses_spark


def tag_of(run_id: str) -> str:
    """Return the tag of a run's Spark application: the unique end of the run ID."""
    return run_id[-LONGEST_TAG:]


def submit_words(spec: RunSpec, spark: Spark, interpreter: str, run_directory: str) -> tuple[str, ...]:
    """Return `spark-submit` and its options, up to the script. Raises ConfigurationError.

    `run_directory` is the path as `spark-submit` sees it.
    """
    dependencies = dependencies_of(spec)
    pythons = {**variables(interpreter, spark), **spec.run_configuration.environment_variables}
    # Options have precedence over the machine's files spark-env.sh and spark-defaults.conf; variables do not.
    properties = {**{key: pythons[name] for name, key in _PYTHONS.items()}, **dependencies.configuration}
    properties.pop(MASTER_PROPERTY, "")
    mode: tuple[str, ...] = ("--deploy-mode", "client")
    if driver_is_in_cluster(spec):
        files = filter(None, (properties.pop(_PYTHON_FILES, ""), f"{run_directory}/{SDK_ARCHIVE}"))
        mode = ("--deploy-mode", _CLUSTER_MODE, "--py-files", ",".join(files))
        properties |= _cluster_properties(spec, properties)
    elif not any(name in properties for name in _EVENT_LOG):
        from urllib.parse import quote  # imported here, because it loads `ipaddress`

        # One plain file is simple to read and to copy while it grows.
        properties = {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": f"file:{quote(f'{run_directory}/{supervisor.SPARK}', safe='/~')}",
            "spark.eventLog.compress": "false",
            "spark.eventLog.rolling.enabled": "false",
            "spark.eventLog.buffer.kb": "8",
            **properties,
        }
    if mask_words(spec.arguments) != list(spec.arguments):
        # Spark writes the system property sun.java.command, with the arguments of the driver, into its event log.
        properties[_REDACTION] = f"{properties.get(_REDACTION, _REDACTED)}|sun[.]java[.]command"
    words = [spark.submit or SUBMIT, "--master", master_of(spec), *mode]
    for name, value in properties.items():
        words += ["--conf", f"{name}={value}"]
    packages, _ = packages_for(dependencies, spark)
    if packages:
        words += ["--repositories", ",".join(dependencies.repositories)] if dependencies.repositories else []
        words += ["--packages", ",".join(packages)]
    return tuple(words)


def _cluster_properties(spec: RunSpec, given: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of an application whose driver runs in the cluster. Raises ConfigurationError.

    The driver inherits no variables of `spark-submit`, except those that name the interpreters.
    """
    configuration = spec.run_configuration
    own = configuration.environment_variables
    if secret := next((name for name, value in own.items() if mask_value(name, value) != value), ""):
        raise ConfigurationError(
            f"the variable {secret} is a secret, which other users could read in the command line of Spark",
            remedy=f"Set `{DEPLOY_MODE_KEY}: client` in {spec.target.name}.compute, or remove the variable.",
            file=configuration.path,
            line=line_of_key(configuration.path, configuration.key("EnvironmentVariables")),
        )
    named = {"AZUREML_RUN_ID": spec.run_id, **own, RUN_ID_VARIABLE: spec.run_id}
    # YARN writes each value between double quotes into a shell script.
    quoted = {_MASTER_ENVIRONMENT + name: re.sub(r'(["$`\\])', r"\\\1", value) for name, value in named.items()}
    tags = ",".join(filter(None, (given.get(_TAGS, ""), tag_of(spec.run_id))))
    return {_TAGS: tags, **dict(_OWN_PROPERTIES), **quoted}


def packages_for(dependencies: SparkDependencies, spark: Spark) -> tuple[list[str], list[str]]:
    """Return the packages that this Spark can load, and those compiled for another version of Scala."""
    fitting: list[str] = []
    others: list[str] = []
    for package in dependencies.packages:
        scala = _SCALA.match(package)
        (others if scala and spark.scala and scala[1] != spark.scala else fitting).append(package)
    return fitting, others


def variables(interpreter: str, spark: Spark) -> dict[str, str]:
    """Return the variables that make Spark use this interpreter and the files of this installation."""
    home = {"SPARK_HOME": spark.home} if spark.home else {}
    return {**dict.fromkeys(_PYTHONS, interpreter), **home}


def plan_step(spec: RunSpec, spark: Spark) -> Step:
    """Return the step of a plan that names the installation, the master and the packages. Raises ConfigurationError."""
    dependencies = dependencies_of(spec)
    which = f"Spark {spark.version} (Scala {spark.scala})" if spark.version else "Spark"
    title = f"use {which} with master {master_of(spec)}"
    title += ", the driver in the cluster" if driver_is_in_cluster(spec) else ""
    fitting, others = packages_for(dependencies, spark)
    if fitting:
        title += f"; get {', '.join(fitting)}"
    if others:
        title += f"; omit {', '.join(others)}, not built for Scala {spark.scala}"
    return Step("spark", title)
