"""Find out how the workbench was installed, and return the commands that extend, update or repeat this installation.

Commands that install the workbench again use the same source: an index, a git repository, a folder, a file or a URL.
These files of the installers are read, and nothing is read from the network:

- `direct_url.json` of the package, which pip and uv write (PEP 610)
- `uv-receipt.toml`, which `uv tool install` writes into the environment
- `pipx_metadata.json`, which pipx writes into the environment
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from tui_workbench.core.files import read_file
from tui_workbench.core.json_values import parse_json

NAME = "workbench-tui"

PIP, UV, UV_TOOL, PIPX = "pip", "uv", "uv tool", "pipx"
"""Installers. `UV` means `uv pip`."""

INDEX, GIT, FOLDER, FILE, URL = "index", "git", "folder", "file", "URL"
"""Kinds of sources. A file or URL is a wheel or another archive."""

_TREE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Source(NamedTuple):
    """The source of the installed package.

    `location` is a path or URL, or "" for an index. For git, `revision` is the requested branch, tag or commit ("" for
    the default branch), and `commit` is the installed commit.
    """

    kind: str
    location: str = ""
    is_editable: bool = False
    revision: str = ""
    commit: str = ""

    def words(self, extras: Sequence[str] = ()) -> list[str]:
        """Return the arguments of pip, uv or pipx that select this source with these extras."""
        chosen = f"[{','.join(extras)}]" if extras else ""
        if self.kind == INDEX:
            return [NAME + chosen]
        if self.kind in (FOLDER, FILE):
            return [*(["--editable"] if self.is_editable else []), self.location + chosen]
        revision = f"@{self.revision}" if self.revision else ""
        return [f"{NAME}{chosen} @ {'git+' if self.kind == GIT else ''}{self.location}{revision}"]

    @property
    def is_gone(self) -> bool:
        return self.kind in (FOLDER, FILE) and not os.path.exists(self.location)


def find_source() -> Source:
    """Return the source of the installed package, or the folder of the source tree if no package is installed."""
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import unquote, urlsplit

    try:
        text = distribution(NAME).read_text("direct_url.json")
    except PackageNotFoundError:
        return Source(FOLDER, _TREE, is_editable=True)
    if not text:
        return Source(INDEX)
    facts = parse_json(text)
    url, git = str(facts["url"]), facts.get("vcs_info", {})
    if git.get("vcs") == "git":
        return Source(GIT, url, revision=git.get("requested_revision", ""), commit=git["commit_id"])
    if not url.startswith("file:"):
        return Source(URL, url)
    path = unquote(urlsplit(url).path)
    if "dir_info" in facts:
        return Source(FOLDER, path, is_editable=facts["dir_info"].get("editable", False))
    return Source(FILE, path)


def find_installer() -> str:
    """Return the program that manages this environment: PIP, UV, UV_TOOL or PIPX."""
    if os.path.exists(os.path.join(sys.prefix, "uv-receipt.toml")):
        return UV_TOOL
    if os.path.exists(os.path.join(sys.prefix, "pipx_metadata.json")):
        return PIPX
    return PIP if has_pip() else UV


def has_pip() -> bool:
    """Return True if this environment has pip. Environments that uv creates have none by default."""
    from importlib.util import find_spec

    return find_spec("pip") is not None


def extra_command(extra: str) -> str:
    """Return the command that installs the packages of an extra. Packages of other extras are kept."""
    installer, source = find_installer(), find_source()
    if installer == UV_TOOL and not source.is_gone:
        # Packages that `uv pip` adds to the environment of a tool are removed by the next `uv tool upgrade`.
        return shlex.join(["uv", "tool", "install", *_tool_words(source, extra)])
    # If the workbench is not installed, the packages of the extra are unknown: install the source tree with the extra.
    packages = _packages_of(extra) or source.words([extra])
    if installer == PIPX:
        return shlex.join(["pipx", "inject", os.path.basename(sys.prefix), *packages])
    return _install(*packages)


def package_command(package: str) -> str:
    """Return the command that installs or updates a dependency of the workbench."""
    return _install("--upgrade", package)


def repeat_command(*, upgrade: bool = False) -> str:
    """Return the command that reinstalls or updates the workbench; "" if the source file or folder is gone."""
    source, installer = find_source(), find_installer()
    if source.is_gone:
        return ""
    if installer == UV_TOOL:
        return shlex.join(["uv", "tool", "upgrade", *([] if upgrade else ["--reinstall"]), NAME])
    if installer == PIPX:
        return shlex.join(["pipx", "upgrade" if upgrade else "reinstall", os.path.basename(sys.prefix)])
    return _install("--upgrade" if upgrade else "--force-reinstall", *source.words())


def repeat_remedy() -> str:
    """Return the sentence that tells the user to install the workbench again."""
    command = repeat_command()
    if command:
        return f"Install the workbench again: `{command}`."
    return f"Install the workbench again, from a new copy: {find_source().location} no longer exists."


def _install(*words: str) -> str:
    """Return the command that installs packages into this environment."""
    if has_pip():
        return shlex.join([sys.executable, "-m", "pip", "install", *words])
    return shlex.join(["uv", "pip", "install", "--python", sys.executable, *words])


def _packages_of(extra: str) -> list[str]:
    from importlib.metadata import PackageNotFoundError, requires

    try:
        requirements = requires(NAME) or []
    except PackageNotFoundError:
        return []
    parts = (requirement.partition(";") for requirement in requirements)
    return [package.strip() for package, _, marker in parts if re.search(f"extra == ['\"]{extra}['\"]", marker)]


def _tool_words(source: Source, extra: str) -> list[str]:
    """Return the arguments of `uv tool install` for an extra.

    The command replaces the receipt, so the extras and packages of the receipt are repeated.
    """
    import tomllib

    receipt = read_file(os.path.join(sys.prefix, "uv-receipt.toml")).decode()
    requirements: list[dict[str, Any]] = tomllib.loads(receipt)["tool"]["requirements"]
    extras, words = [extra], []
    for requirement in requirements:
        if requirement["name"] == NAME:
            extras += [name for name in requirement.get("extras", []) if name != extra]
        else:
            words += ["--with", requirement["name"] + requirement.get("specifier", "")]
    return [*words, *source.words(extras)]
