"""Logins to image registries, as `docker login` on this machine keeps them: in its configuration, or with a helper."""

from __future__ import annotations

import base64
import binascii
import json
import os
import subprocess

from tui_workbench.records import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

HUB = "https://index.docker.io/v1/"
"""What Docker Hub is called in these files."""

HELPER_SECONDS = 30.0
_TOKEN_USER = "<token>"


def login_header(image: str) -> dict[str, str]:
    """The header that logs in to the registry of an image; empty where no login is kept."""
    configuration = _configuration()
    server = registry_of(image)
    login = _from_helper(configuration, server) or _from_file(configuration, server)
    if login is None:
        return {}
    text = json.dumps({**login, "serveraddress": server}).encode()
    return {"X-Registry-Auth": base64.urlsafe_b64encode(text).decode("ascii")}


def registry_of(image: str) -> str:
    """The registry that an image name means, as it is called in Docker's configuration."""
    first, slash, _ = image.partition("/")
    if not slash or not ("." in first or ":" in first or first == "localhost") or first == "docker.io":
        return HUB
    return first


def _configuration() -> Mapping[str, Any]:
    folder = os.environ.get("DOCKER_CONFIG") or os.path.join(os.path.expanduser("~"), ".docker")
    try:
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _from_file(configuration: Mapping[str, Any], server: str) -> dict[str, str] | None:
    known = configuration.get("auths")
    entry = known.get(server) or known.get(f"https://{server}") if isinstance(known, dict) else None
    if not isinstance(entry, dict):
        return None
    if entry.get("identitytoken"):
        return {"identitytoken": str(entry["identitytoken"])}
    try:
        user, colon, password = base64.b64decode(str(entry.get("auth", ""))).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return {"username": user, "password": password.rstrip("\0")} if colon else None


def _from_helper(configuration: Mapping[str, Any], server: str) -> dict[str, str] | None:
    helpers = configuration.get("credHelpers")
    name = helpers.get(server) if isinstance(helpers, dict) else None
    name = name or configuration.get("credsStore")
    if not isinstance(name, str) or not name:
        return None
    try:
        done = subprocess.run(
            [f"docker-credential-{name}", "get"],
            input=server.encode(),
            capture_output=True,
            timeout=HELPER_SECONDS,
            check=True,
        )
        found = json.loads(done.stdout)
        user, secret = str(found["Username"]), str(found["Secret"])
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError):
        return None  # it keeps nothing for this registry, which then may let everybody in
    return {"identitytoken": secret} if user == _TOKEN_USER else {"username": user, "password": secret}
