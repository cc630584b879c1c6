"""Dotted keys as people type them."""

from __future__ import annotations

import pytest

from tests.config.documents import document
from tui_workbench.config.yaml_edit.syntax import Path
from tui_workbench.core.errors import UsageError

RUNCONFIG = "Target: x\nArgumentVector: [a]\nEnvironmentVariables:\n  a.b: 1\nother:\n  c.d:\n    e: 1\n"
CONDA = "dependencies:\n- python=3.5\n- pip:\n  - keras\n"


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("Target", ("Target",)),
        ("ArgumentVector[0]", ("ArgumentVector", 0)),
        ("ArgumentVector[-1]", ("ArgumentVector", -1)),
        ("EnvironmentVariables.LR", ("EnvironmentVariables", "LR")),
        ("EnvironmentVariables.a.b", ("EnvironmentVariables", "a.b")),
        ("EnvironmentVariables.new.name", ("EnvironmentVariables", "new.name")),
        ('EnvironmentVariables."x[0].y"', ("EnvironmentVariables", "x[0].y")),
        ("DataSourceSubstitutions.a.dsource", ("DataSourceSubstitutions", "a.dsource")),
        ("other.c.d.e", ("other", "c.d", "e")),
        ("other.x.y", ("other", "x", "y")),
        ("'odd key'.z", ("odd key", "z")),
        ("ArgumentVector.--1", ("ArgumentVector", "--1")),
        ("ArgumentVector.²", ("ArgumentVector", "²")),
    ],
)
def test_key_is_split_into_a_path(key: str, path: Path) -> None:
    assert document(RUNCONFIG).path_of(key) == path


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("dependencies.0", ("dependencies", 0)),
        ("dependencies.pip[0]", ("dependencies", 1, "pip", 0)),
        ("dependencies[1].pip[0]", ("dependencies", 1, "pip", 0)),
    ],
)
def test_pip_packages_of_a_conda_file_have_a_short_key(key: str, path: Path) -> None:
    assert document(CONDA, "conda_dependencies.yml").path_of(key) == path


def test_spark_properties_need_no_quotes() -> None:
    editing = document("configuration: {}\n", "spark_dependencies.yml")
    editing.set("configuration.spark.app.name", "Iris")
    assert editing.text == "configuration:\n  spark.app.name: Iris\n"


@pytest.mark.parametrize("key", ["", ".", "a.", ".a", "a..b", "a[", "a[x]", "a]", 'a."b'])
def test_malformed_key_raises_usage_error(key: str) -> None:
    with pytest.raises(UsageError, match="is not a valid key"):
        document(RUNCONFIG).path_of(key)
