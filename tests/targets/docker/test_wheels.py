"""Packages resolved and fetched here for the Python of an image."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.package_index import PackageIndex, make_wheel, package_index
from tui_workbench.core.errors import ConfigurationError, WorkbenchError
from tui_workbench.targets.docker import wheels
from tui_workbench.targets.docker.image_probe import ImageFacts
from tui_workbench.targets.environments import uv
from tui_workbench.targets.environments.environment import Package, Recipe

FACTS = ImageFacts("/usr/bin/python3", "3.11.2", "x86_64", ("glibc", "2.36"), "", "", True, ())


@pytest.fixture
def index(tmp_path: Path) -> Iterator[PackageIndex]:
    with package_index(tmp_path / "index", "127.0.0.1") as made:
        made.add("tinydep", "1.0")
        made.add("tinydep", "2.0")
        made.add("tinylib", "1.0", ["tinydep"])
        yield made


@pytest.fixture
def environment(index: PackageIndex, tmp_path: Path) -> dict[str, str]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))}
    return {**plain, "PIP_INDEX_URL": index.url, "UV_CACHE_DIR": str(tmp_path / "uv")}


def asked(*texts: str) -> Recipe:
    return Recipe(
        "/p/aml_config/conda_dependencies.yml", pip=tuple(Package(text, 7 + n) for n, text in enumerate(texts))
    )


def names(found: list[wheels.Wheel]) -> list[str]:
    return sorted(wheel.file_name for wheel in found)


def test_packages_and_dependencies_are_resolved(environment: dict[str, str]) -> None:
    found = wheels.resolve(asked("tinylib"), FACTS, environment)
    assert names(found) == ["tinydep-2.0-py3-none-any.whl", "tinylib-1.0-py3-none-any.whl"]


def test_packages_of_the_image_are_kept(environment: dict[str, str]) -> None:
    held = FACTS._replace(packages=(("TinyDep", "1.0", ()), ("Odd.Name", "1!2.0+local.1", ("tinydep",))))
    assert names(wheels.resolve(asked("tinylib"), held, environment)) == ["tinylib-1.0-py3-none-any.whl"]


@pytest.mark.slow
def test_packages_of_the_image_change_if_required(environment: dict[str, str]) -> None:
    held = FACTS._replace(packages=(("tinydep", "1.0", ()),))
    found = wheels.resolve(asked("tinylib", "tinydep>=2"), held, environment)
    assert names(found) == ["tinydep-2.0-py3-none-any.whl", "tinylib-1.0-py3-none-any.whl"]


@pytest.mark.slow
def test_missing_package_is_reported_with_its_line(environment: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="none-such") as caught:
        wheels.resolve(asked("tinylib", "none-such"), FACTS, environment)
    assert caught.value.line == 8


@pytest.mark.processes
def test_best_wheel_is_chosen(index: PackageIndex, environment: dict[str, str]) -> None:
    plain = index.add("fits", "1.0")
    for tag in ("cp311-cp311-manylinux_2_17_x86_64", "cp38-abi3-manylinux_2_17_x86_64", "cp312-cp312-win_amd64",
                "cp311-cp311-manylinux_2_40_x86_64"):  # fmt: skip
        plain.with_name(f"fits-1.0-{tag}.whl").write_bytes(plain.read_bytes())
    assert names(wheels.resolve(asked("fits"), FACTS, environment)) == [
        "fits-1.0-cp311-cp311-manylinux_2_17_x86_64.whl"
    ]
    old = FACTS._replace(version="3.9.1")
    assert names(wheels.resolve(asked("fits"), old, environment)) == ["fits-1.0-cp38-abi3-manylinux_2_17_x86_64.whl"]
    musl = FACTS._replace(libc=("", ""))
    assert names(wheels.resolve(asked("fits"), musl, environment)) == ["fits-1.0-py3-none-any.whl"]


def test_wheels_are_downloaded_once_and_verified(
    index: PackageIndex, environment: dict[str, str], tmp_path: Path
) -> None:
    found = wheels.resolve(asked("tinylib"), FACTS, environment)
    said: list[str] = []
    paths = wheels.fetch(found, str(tmp_path / "store"), said.append)
    assert sorted(os.path.basename(path) for path in paths) == names(found) == sorted(said)
    assert wheels.fetch(found, str(tmp_path / "store"), said.append) == paths
    assert len(said) == 2
    Path(paths[0]).write_bytes(b"damaged")
    wheels.fetch(found, str(tmp_path / "store"), said.append)
    assert len(said) == 3
    forged = [found[0]._replace(sha256="0" * 64)]
    with pytest.raises(WorkbenchError, match="does not match its hash in the package index"):
        wheels.fetch(forged, str(tmp_path / "other"), said.append)
    assert not list((tmp_path / "other").rglob("*.whl*"))


def test_local_wheel_is_copied(environment: dict[str, str], tmp_path: Path) -> None:
    path = make_wheel(tmp_path, "ours", "1.0", ["tinydep"])
    recipe = Recipe("/p/c.yml", pip=(Package("./ours.whl", 1, str(path)),))
    found = wheels.resolve(recipe, FACTS, environment)
    assert names(found) == ["ours-1.0-py3-none-any.whl", "tinydep-2.0-py3-none-any.whl"]
    assert len(wheels.fetch(found, str(tmp_path / "store"), lambda _: None)) == 2


@pytest.mark.parametrize(
    ("machine", "libc", "expected"),
    [
        ("x86_64", ("glibc", "2.36"), "x86_64-manylinux_2_36"),
        ("x86_64", ("glibc", "2.99"), "x86_64-manylinux_2_40"),
        ("x86_64", ("glibc", "2.19"), "x86_64-manylinux_2_17"),
        ("x86_64", ("glibc", "2.2.5"), "x86_64-manylinux_2_17"),  # Python 3.6 reports a symbol version
        ("x86_64", ("glibc", ""), "x86_64-manylinux_2_17"),
        ("aarch64", ("glibc", "2.28"), "aarch64-manylinux_2_28"),
        ("arm64", ("", ""), "aarch64-unknown-linux-musl"),
    ],
)
def test_platform_has_the_resolver_s_name(machine: str, libc: tuple[str, str], expected: str) -> None:
    assert wheels.platform_of(FACTS._replace(machine=machine, libc=libc)) == expected


def test_machine_without_wheels_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="s390x"):
        wheels.platform_of(FACTS._replace(machine="s390x"))


def test_index_settings_of_pip_apply_to_uv() -> None:
    made = uv.index_environment({"PIP_INDEX_URL": "https://a/simple", "PIP_FIND_LINKS": "/wheels", "UV_INDEX": "x"})
    assert (made["UV_DEFAULT_INDEX"], made["UV_FIND_LINKS"], made["UV_INDEX"]) == ("https://a/simple", "/wheels", "x")
