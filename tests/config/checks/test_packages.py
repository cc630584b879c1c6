"""Tables of frameworks, and parsed requirements."""

from __future__ import annotations

import pytest

from tests.config.documents import document
from tui_workbench.config.checks.packages import (
    Requirement,
    build_of,
    newest_for,
    parse_version,
    requirements_of,
    show_version,
)


def requirements(*lines: str, pip: tuple[str, ...] = ()) -> list[Requirement]:
    text = "dependencies:\n" + "".join(f"- {line}\n" for line in lines)
    text += "- pip:\n" + "".join(f"  - {line}\n" for line in pip) if pip else ""
    return requirements_of(document(text, "conda_dependencies.yml").tree.root)


@pytest.mark.parametrize(
    ("line", "name", "version", "spec"),
    [
        ("numpy", "numpy", "", ""),
        ("python=3.5.2", "python", "3.5.2", "=3.5.2"),
        ("Python==3.6", "python", "3.6", "==3.6"),
        ("python 3.5.2", "python", "3.5.2", "3.5.2"),
        ("conda-forge::pytorch=1.10=cpu_py39", "pytorch", "1.10", "=1.10=cpu_py39"),
        ("tensorflow>=1.4,<2", "tensorflow", "", ">=1.4,<2"),
        ("scikit_learn=0.18.*", "scikit-learn", "0.18", "=0.18.*"),
    ],
)
def test_conda_package_is_split_into_parts(line: str, name: str, version: str, spec: str) -> None:
    (one,) = requirements(line)
    assert (one.manager, one.name, one.version, one.spec) == ("conda", name, version, spec)
    assert (one.text, one.path) == (line, ("dependencies", 0))


@pytest.mark.parametrize(
    ("line", "name", "version", "extras"),
    [
        ("keras==2.1.2", "keras", "2.1.2", ""),
        ("azure-ml-api-sdk==0.1.0a6", "azure-ml-api-sdk", "0.1.0a6", ""),
        ("torch == 2.1.0+cpu", "torch", "2.1.0+cpu", ""),
        ("Azureml.DataCollector", "azureml-datacollector", "", ""),
        ("tensorflow[and-cuda]==2.15.0 ; python_version > '3'", "tensorflow", "2.15.0", "[and-cuda]"),
        ("torch>=1.0", "torch", "", ""),
        ("--extra-index-url https://x.org/whl/cpu", "", "", ""),
        ("-r requirements.txt", "", "", ""),
        ("git+https://example.org/x.git", "", "", ""),
        ("mine @ https://example.org/x.zip", "mine", "", ""),
        ("./dist/x.tar.gz", "", "", ""),
    ],
)
def test_pip_requirement_is_split_into_parts(line: str, name: str, version: str, extras: str) -> None:
    (one,) = requirements(pip=(line,))
    assert (one.manager, one.name, one.version, one.extras) == ("pip", name, version, extras)
    assert one.path == ("dependencies", 0, "pip", 0)


@pytest.mark.parametrize(
    ("line", "tags"),
    [
        (
            "https://cntk.example.org/PythonWheel/CPU-Only/cntk-2.1-cp35-cp35m-linux_x86_64.whl",
            ("cntk", "2.1", "cp35", "cp35m", "linux_x86_64"),
        ),
        ("./my_pkg-1.0-1-py3-none-any.whl", ("my_pkg", "1.0", "py3", "none", "any")),
        (
            "https://x/azureml.assets-1.0.0-py3-none-any.whl?sv=2016&sig=x%2Fy",
            ("azureml.assets", "1.0.0", "py3", "none", "any"),
        ),
        (
            "https://x/torch-2.1.0%2Bcpu-cp311-cp311-win_amd64.whl",
            ("torch", "2.1.0+cpu", "cp311", "cp311", "win_amd64"),
        ),
    ],
)
def test_tags_of_a_wheel(line: str, tags: tuple[str, ...]) -> None:
    (one,) = requirements(pip=(line,))
    assert one.wheel == tags
    assert one.url == line


def test_file_of_another_structure_has_no_requirements() -> None:
    for text in ("", "dependencies:\n", "dependencies: x\n", "- a\n", "dependencies:\n- [a]\n- pip: x\n- {b: [c]}\n"):
        assert requirements_of(document(text, "conda_dependencies.yml").tree.root) == []


def test_versions() -> None:
    assert parse_version("1.4.0rc1") == (1, 4, 0)
    assert parse_version("latest") == ()
    assert show_version((1, 4)) == "1.4"


def test_build_of() -> None:
    build = build_of("tensorflow-gpu", (1, 4, 0))
    assert build is not None
    assert (build.oldest_python, build.newest_python, build.cuda) == ((2, 7), (3, 6), (8, 0))
    assert build_of("tensorflow", (99, 0)) is None
    assert build_of("numpy", (1, 0)) is None
    assert build_of("torch", (2,)) is None


def test_newest_compatible_release_is_found() -> None:
    assert newest_for("tensorflow", (3, 5), None, below=(2,)) == (1, 15)
    assert newest_for("tensorflow-gpu", (3, 6), (8, 0)) == (1, 4)
    assert newest_for("torch", (3, 8), None) == (2, 4)
    assert newest_for("torch", (2, 6), None) is None
    assert newest_for("numpy", (3, 8), None) is None
