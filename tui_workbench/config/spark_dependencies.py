"""Load the Spark dependencies of a run: properties, Maven repositories and packages."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from tui_workbench.config.schema import fields
from tui_workbench.config.yaml_edit.syntax import parse, read
from tui_workbench.config.yaml_edit.values import valid_fields
from tui_workbench.core.masking import mask_value
from tui_workbench.core.model import RunConfiguration

# Source: the default of spark.redaction.regex, and the keys of Azure's storage.
_SECRET = re.compile(r"secret|password|token|(?:access|account)[.]?key|oauth2[.]credential", re.IGNORECASE)
_SWITCHES = frozenset(("true", "false"))


class SparkDependencies(NamedTuple):
    """The Spark dependencies of a run. `path` is the file that contains them, or ""."""

    path: str = ""
    configuration: Mapping[str, str] = {}  # Spark properties
    repositories: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()  # Maven coordinates, `group:artifact:version`


def spark_dependencies_of(configuration: RunConfiguration, *roots: str) -> SparkDependencies:
    """Return the Spark dependencies of a run configuration. They are empty if the default file does not exist.

    The file is read from the first of the folders `roots` that contains it. In the SDK form, the run configuration
    itself contains the dependencies. Raises ConfigurationError if the file is invalid or if the named file is missing.
    """
    if configuration.is_sdk_form:
        return _of_values(configuration.path, _sdk_values(configuration.values))
    paths = [os.path.join(root, configuration.spark_file) for root in roots]
    path = next(filter(os.path.isfile, paths), "")
    if path or configuration.spark_dependencies_file:
        # Loading raises the error if the named file does not exist.
        return load_spark_dependencies(path or paths[-1])
    return SparkDependencies()


def load_spark_dependencies(path: str) -> SparkDependencies:
    """Load a file of Spark dependencies. Raises ConfigurationError with file, line, column and remedy."""
    tree = parse(read(path).text, path)
    return _of_values(path, valid_fields(tree, fields.SPARK, path).values)


def secret_property(configuration: Mapping[str, str]) -> str:
    """Return the name of the first property with a secret, or "". The command line of Spark would show the secret."""
    given = ((name, value) for name, value in configuration.items() if value.lower() not in _SWITCHES)
    return next((name for name, value in given if _SECRET.search(name) or mask_value(name, value) != value), "")


def _of_values(path: str, values: Mapping[str, Any]) -> SparkDependencies:
    rows = values.get("packages", ())
    packages = (f"{row['group']}:{row['artifact']}:{row['version']}" for row in rows)
    return SparkDependencies(
        path, dict(values.get("configuration") or {}), tuple(values.get("repositories", ())), tuple(packages)
    )


def _sdk_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the Spark dependencies that a run configuration in the SDK form contains."""
    spark = values.get("spark") or {}
    environment = (values.get("environment") or {}).get("spark") or {}
    dependencies = {"configuration": spark.get("configuration"), **environment}
    return {key: value for key, value in dependencies.items() if value is not None}
