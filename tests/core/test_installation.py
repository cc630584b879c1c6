"""The commands that extend or repeat the installation fit the installer and the source.

tests/packaging/test_distributions.py runs the commands of real installations.
"""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest

from tui_workbench.core.installation import (
    FILE,
    FOLDER,
    GIT,
    INDEX,
    URL,
    Source,
    extra_command,
    find_source,
    package_command,
    repeat_command,
    repeat_remedy,
)

METADATA = """\
Metadata-Version: 2.4
Name: workbench-tui
Version: 9.0
Requires-Dist: textual==8.2.8
Requires-Dist: aiohttp>=3.9.5; extra == 'serve'
Requires-Dist: textual-serve>=1.1.3; extra == "serve"
Requires-Dist: apprise>=1.9; extra == 'notify'
"""

PIP = [sys.executable, "-m", "pip", "install"]


class Installation:
    """The files that installers write."""

    def __init__(self, prefix: Path) -> None:
        self.prefix = prefix
        self.information = prefix / "workbench_tui-9.0.dist-info"
        self.information.mkdir(parents=True)
        (self.information / "METADATA").write_text(METADATA)

    def came_from(self, url: str, **facts: object) -> None:
        (self.information / "direct_url.json").write_text(json.dumps({"url": url, **facts}))


@pytest.fixture
def installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installation:
    """Return an installation from an index, in the environment of pipx, `uv tool` or pip that the test writes."""
    made = Installation(tmp_path / "workbench-tui")
    monkeypatch.setattr(sys, "prefix", str(made.prefix))
    monkeypatch.syspath_prepend(str(made.prefix))
    return made


@pytest.mark.parametrize(
    ("url", "facts", "source", "words"),
    [
        ("file:///a%20b/x.whl", {"archive_info": {}}, Source(FILE, "/a b/x.whl"), ["/a b/x.whl[serve]"]),
        ("file:///tree", {"dir_info": {}}, Source(FOLDER, "/tree"), ["/tree[serve]"]),
        (
            "file:///tree",
            {"dir_info": {"editable": True}},
            Source(FOLDER, "/tree", is_editable=True),
            ["--editable", "/tree[serve]"],
        ),
        (
            "https://host/x.git",
            {"vcs_info": {"vcs": "git", "commit_id": "abc", "requested_revision": "v1"}},
            Source(GIT, "https://host/x.git", revision="v1", commit="abc"),
            ["workbench-tui[serve] @ git+https://host/x.git@v1"],
        ),
        (
            "https://host/x.whl",
            {"archive_info": {}},
            Source(URL, "https://host/x.whl"),
            ["workbench-tui[serve] @ https://host/x.whl"],
        ),
    ],
)
def test_source_is_read_from_the_direct_url(
    installation: Installation, url: str, facts: dict[str, object], source: Source, words: list[str]
) -> None:
    installation.came_from(url, **facts)
    assert find_source() == source
    assert source.words(["serve"]) == words


def test_pip_installs_the_packages_of_an_extra(installation: Installation) -> None:
    assert find_source() == Source(INDEX)
    assert shlex.split(extra_command("serve")) == [*PIP, "aiohttp>=3.9.5", "textual-serve>=1.1.3"]
    assert shlex.split(package_command("py-spy")) == [*PIP, "--upgrade", "py-spy"]
    assert shlex.split(repeat_command()) == [*PIP, "--force-reinstall", "workbench-tui"]
    assert shlex.split(repeat_command(upgrade=True)) == [*PIP, "--upgrade", "workbench-tui"]


def test_pipx_injects_the_packages_of_an_extra(installation: Installation) -> None:
    (installation.prefix / "pipx_metadata.json").write_text("{}")
    assert extra_command("notify") == "pipx inject workbench-tui 'apprise>=1.9'"
    assert repeat_command() == "pipx reinstall workbench-tui"
    assert repeat_command(upgrade=True) == "pipx upgrade workbench-tui"


def test_uv_tool_keeps_other_extras_and_packages(installation: Installation) -> None:
    (installation.prefix / "uv-receipt.toml").write_text(
        '[tool]\nrequirements = [{ name = "workbench-tui", extras = ["serve"] }, '
        '{ name = "tensorboard", specifier = ">=2" }]\n'
    )
    expected = "uv tool install --with 'tensorboard>=2' 'workbench-tui[notify,serve]'"
    assert extra_command("notify") == expected
    assert repeat_command() == "uv tool upgrade --reinstall workbench-tui"


def test_removed_wheel_is_named(installation: Installation) -> None:
    installation.came_from("file:///gone/x.whl", archive_info={})
    (installation.prefix / "uv-receipt.toml").write_text('[tool]\nrequirements = [{ name = "workbench-tui" }]\n')
    assert repeat_command() == ""
    assert repeat_remedy() == "Install the workbench again, from a new copy: /gone/x.whl no longer exists."
    # Without the wheel, `uv tool install` fails.
    assert shlex.split(extra_command("notify")) == [*PIP, "apprise>=1.9"]
