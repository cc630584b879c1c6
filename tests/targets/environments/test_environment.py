"""Recipes: the packages of a conda environment file, the name of the environment, and differences to an earlier one."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_workbench.core.errors import ConfigurationError
from tui_workbench.targets.environments.environment import Recipe, cause, closest, read_recipe, version_matches

BASE = "sha256:1234"


def recipe(tmp_path: Path, text: str) -> Recipe:
    path = tmp_path / "conda_dependencies.yml"
    path.write_text(text)
    return read_recipe(str(path), str(tmp_path))


FULL = """\
name: project_environment
channels:
  - conda-forge
dependencies:
  - python=3.11
  - numpy=1.26  # fast
  - pip
  - pip:
    - --extra-index-url https://example.org/simple
    - keras==2.1.2
    - six>=1,<2
variables:
  GREETING: hello
"""


def test_recipe_has_packages_with_lines(tmp_path: Path) -> None:
    found = recipe(tmp_path, FULL)
    assert found.channels == ("conda-forge",)
    assert found.python is not None
    assert (found.python.text, found.python.line) == ("python=3.11", 5)
    assert [(each.text, each.line) for each in found.conda] == [("numpy=1.26", 6)]
    assert [(each.text, each.line) for each in found.pip] == [("keras==2.1.2", 10), ("six>=1,<2", 11)]
    assert found.options == ("--extra-index-url", "https://example.org/simple")
    assert found.variables == {"GREETING": "hello"}


@pytest.mark.parametrize("text", ["", "name: x\n", "dependencies:\n", "dependencies: []\n", "dependencies:\n  - pip\n"])
def test_empty_file_is_met_by_any_python(tmp_path: Path, text: str) -> None:
    assert recipe(tmp_path, text).is_met_by("3.5.2")


def test_only_packages_change_the_tag(tmp_path: Path) -> None:
    tag = recipe(tmp_path, FULL).tag(BASE)
    assert (
        recipe(tmp_path, "# a remark\n" + FULL.replace("  # fast", "").replace("name: project", "name: p")).tag(BASE)
        == tag
    )
    assert tag.startswith("workbench-env:")
    others = [
        recipe(tmp_path, FULL).tag("sha256:5678"),
        recipe(tmp_path, FULL.replace("six", "seven")).tag(BASE),
        recipe(tmp_path, FULL.replace("1.26", "1.27")).tag(BASE),
        recipe(tmp_path, FULL.replace("conda-forge", "pytorch")).tag(BASE),
        recipe(tmp_path, FULL.replace("hello", "goodbye")).tag(BASE),
        recipe(tmp_path, FULL.replace("example.org", "example.com")).tag(BASE),
    ]
    assert len({tag, *others}) == 7


def test_content_of_local_wheel_changes_the_tag(tmp_path: Path) -> None:
    wheel = tmp_path / "ours-1.0-py3-none-any.whl"
    wheel.write_bytes(b"one")
    text = "dependencies:\n  - pip:\n    - ./ours-1.0-py3-none-any.whl\n"
    tag = recipe(tmp_path, text).tag(BASE)
    wheel.write_bytes(b"two")
    assert recipe(tmp_path, text).tag(BASE) != tag


def test_index_options_are_split_from_their_values(tmp_path: Path) -> None:
    lines = ("--index-url https://h/s?a=b", "--find-links=https://h/l?a=b", "--pre")
    made = recipe(tmp_path, "dependencies:\n  - pip:\n" + "".join(f"    - {line}\n" for line in lines))
    assert made.options == ("--index-url", "https://h/s?a=b", "--find-links", "https://h/l?a=b", "--pre")


@pytest.mark.parametrize("option", ["-r other.txt", "-e .", "--constraint c.txt", "--no-deps"])
def test_options_that_name_files_are_refused(tmp_path: Path, option: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        recipe(tmp_path, f"dependencies:\n  - pip:\n    - six\n    - {option}\n")
    assert caught.value.line == 4


@pytest.mark.parametrize(
    ("text", "version", "expected"),
    [
        ("python", "2.7.18", True),
        ("python=3.6", "3.6.9", True),
        ("python=3.6", "3.7.1", False),
        ("python=3.1", "3.11.2", False),
        ("python=3.6.*", "3.6.9", True),
        ("python==3.6.9", "3.6.9", True),
        ("python==3.6", "3.6.9", False),
        ("python==3.6", "3.6.0", True),
        ("python=3.6.9=h5b3c7f4_0", "3.6.9", True),
        ("python 3.5.2", "3.5.2", True),
        ("python >=3.8,<3.12", "3.11.2", True),
        ("python>=3.8,<3.11", "3.11.2", False),
        ("python!=3.11", "3.11.2", True),
        ("python!=3.11.*", "3.11.2", False),
        ("python~=3.8", "3.11.2", True),
        ("python~=3.8.1", "3.9.0", False),
        ("python>3.10", "3.10.1", True),
        ("python<=3.10", "3.10.0", True),
        ("python=3.6|3.11", "3.11.0", True),
        ("conda-forge::python=3.11", "3.11.2", True),
    ],
)
def test_version_matches_like_conda(text: str, version: str, *, expected: bool) -> None:
    assert version_matches(text, version) is expected


@given(st.text("python=<>!~|,.* 0123456789:", max_size=20))
def test_version_matches_accepts_any_text(text: str) -> None:
    assert version_matches(f"python{text}", "3.11.2") in (True, False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", "3.11.2"), ("  - python=3.6\n", "3.6"), ("  - python>=3.8\n", "3.11.2"), ("  - python=3.11\n", "3.11.2")],
)
def test_python_of_the_environment_is_known(tmp_path: Path, text: str, expected: str) -> None:
    found = recipe(tmp_path, f"dependencies:\n  - numpy\n{text}")
    assert found.python_made("3.11.2") == expected


def lines(*rest: str, base: str = "python:3.11 sha256:1") -> list[str]:
    return ["form 1", f"base {base}", *rest]


@pytest.mark.parametrize(
    ("now", "before", "expected"),
    [
        (lines("pip six"), None, "no environment has been built yet"),
        (lines(base="python:3.12 sha256:2"), lines(), "the base image or interpreter, now python:3.12, has changed"),
        (lines("pip six"), lines(), "c.yml:7: `six` is new"),
        (lines("conda numpy=1"), lines("conda numpy=2"), "c.yml:5: `numpy=1` is new"),
        (lines(), lines("pip six"), "c.yml: `six` was removed"),
        (lines(), ["form 0", *lines()[1:]], "the existing environment was built by another version of the workbench"),
        (lines("pip a", "pip b"), lines("pip b", "pip a"), "the order of the packages changed"),
        (lines("pip option --pre"), lines(), "c.yml: `--pre` is new"),
    ],
)
def test_cause_of_a_build_has_its_line(now: list[str], before: list[str] | None, expected: str) -> None:
    from tui_workbench.targets.environments.environment import Package

    found = Recipe("/p/c.yml", conda=(Package("numpy=1", 5),), pip=(Package("six", 7),))
    assert cause(found, now, before) == expected


def test_closest_returns_the_most_similar_recipe() -> None:
    assert closest(["a", "b", "c"], [["a"], ["a", "b"], ["x", "y", "z"]]) == ["a", "b"]
    assert closest(["a"], []) is None


def test_error_is_at_the_line_of_the_first_package(tmp_path: Path) -> None:
    found = recipe(tmp_path, FULL)
    assert found.line_named_in("error: keras was not found, because six") == 10
    assert found.line_named_in("something else") == 0
