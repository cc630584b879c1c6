"""Logins to registries, found where `docker login` leaves them."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from tui_workbench.targets.registry_login import HUB, login_header, registry_of


@pytest.fixture
def docker_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    return tmp_path


def login(image: str) -> dict[str, Any]:
    header = login_header(image)
    found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(header["X-Registry-Auth"])) if header else {}
    return found


def configure(folder: Path, **values: object) -> None:
    (folder / "config.json").write_text(json.dumps(values))


def helper(folder: Path, name: str, answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / f"docker-credential-{name}"
    path.write_text(f"#!/bin/sh\n[ \"$(cat)\" = registry.example.org ] && echo '{answer}'\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


@pytest.mark.parametrize(
    ("image", "registry"),
    [
        ("python", HUB),
        ("pytorch/pytorch:2.1", HUB),
        ("docker.io/library/python", HUB),
        ("registry.example.org/a/b:1", "registry.example.org"),
        ("localhost/a", "localhost"),
        ("box:5000/a@sha256:1", "box:5000"),
    ],
)
def test_the_registry_of_an_image(image: str, registry: str) -> None:
    assert registry_of(image) == registry


def test_without_a_login_nothing_is_sent(docker_home: Path) -> None:
    assert login_header("python") == {}
    (docker_home / "config.json").write_text("{")
    assert login_header("python") == {}
    configure(docker_home, auths={"registry.example.org": {}})
    assert login_header("registry.example.org/a") == {}


def test_a_login_in_the_file(docker_home: Path) -> None:
    secret = base64.b64encode(b"me:pass:word").decode()
    configure(docker_home, auths={HUB: {"auth": secret}, "https://registry.example.org": {"identitytoken": "t"}})
    assert login("python:3.11") == {"username": "me", "password": "pass:word", "serveraddress": HUB}
    assert login("registry.example.org/a") == {"identitytoken": "t", "serveraddress": "registry.example.org"}


def test_a_login_that_a_helper_keeps(docker_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helper(docker_home, "test", '{"Username": "me", "Secret": "s"}', monkeypatch)
    configure(docker_home, credsStore="test")
    assert login("registry.example.org/a") == {
        "username": "me", "password": "s", "serveraddress": "registry.example.org",
    }  # fmt: skip
    assert login_header("python") == {}
    configure(docker_home, credHelpers={"registry.example.org": "test"})
    assert login("registry.example.org/a")["username"] == "me"
    helper(docker_home, "test", '{"Username": "<token>", "Secret": "t"}', monkeypatch)
    assert login("registry.example.org/a") == {"identitytoken": "t", "serveraddress": "registry.example.org"}


def test_a_helper_that_is_missing_or_fails_means_no_login(docker_home: Path) -> None:
    configure(docker_home, credsStore="nowhere")
    assert login_header("registry.example.org/a") == {}
