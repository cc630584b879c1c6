"""What environments are built with, brought to the engine's host: the installer, wheels, archives of the project.

Each thing lies in a folder that is named by its content, so what is there is right and nothing is sent twice.
"""

from __future__ import annotations

import hashlib
import os
import platform
import posixpath
import shutil

from tui_workbench.records import TYPE_CHECKING
from tui_workbench.resources import user_cache_directory
from tui_workbench.targets import wheels
from tui_workbench.targets.host import Entry
from tui_workbench.targets.layout import HostLayout
from tui_workbench.targets.sending import telling_and_metered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui_workbench.targets.environment import Recipe
    from tui_workbench.targets.host import Host
    from tui_workbench.targets.probe import ImageFacts
    from tui_workbench.targets.report import Report


class Stores:
    """The folders of supplies of a host; those of this machine stand in the user's cache."""

    def __init__(self, host: Host, report: Report) -> None:
        self._host = host
        self._report = report
        self._here = user_cache_directory()
        self._there = self._here if host.is_local else HostLayout(host.home()).supplies

    def uv(self, facts: ImageFacts) -> str:
        """The folder on the host that holds an uv which runs in the image."""
        program = wheels.find_uv() if _runs_ours(facts) else ""
        if not program:
            program = wheels.foreign_uv(facts, os.path.join(self._here, "tools"), os.environ)
        name = f"uv-{wheels.uv_version()}-{wheels.platform_of(facts)}"
        return self._have([program], os.path.join("tools", name))

    def wheels(self, recipe: Recipe, facts: ImageFacts) -> tuple[str, ...]:
        """Folders on the host that together hold all that an installation of the recipe in the image takes."""
        self._report.line("resolving the packages")
        found = wheels.resolve(recipe, facts, os.environ)
        self._report.line(f"fetching {len(found)} wheels")
        store = os.path.join(self._here, "wheels")
        paths = wheels.fetch(found, store, lambda name: self._report.line(f"  {name}"))
        return tuple(
            self._have([path], os.path.join("wheels", os.path.basename(os.path.dirname(path)))) for path in paths
        )

    def project_files(self, recipe: Recipe) -> dict[str, str]:
        """For each local archive that the recipe names the folder on the host that holds it."""
        return {package.file: self._file(package.file) for package in recipe.pip if package.file}

    def _file(self, path: str) -> str:
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return self._have([path], os.path.join("files", digest[: wheels.KEY_LENGTH]))

    def _have(self, paths: Sequence[str], name: str) -> str:
        """Have the files in the folder `name` of the host, whatever it holds, and return its path."""
        folder = os.path.join(self._here, name)
        for path in paths:
            _place(path, os.path.join(folder, os.path.basename(path)))
        if self._host.is_local:
            return folder
        destination = posixpath.join(self._there, name)
        listing = [
            Entry(
                os.path.basename(path),
                f"{os.stat(path).st_size}-{os.path.basename(folder)}",
                os.stat(path).st_size,
                executable=os.access(path, os.X_OK),
            )
            for path in paths
        ]
        with telling_and_metered(self._report.line) as progress:
            self._host.sync(listing, folder, destination, progress)
        return destination


def _place(source: str, destination: str) -> None:
    """Have a copy of a file in a folder of the cache."""
    if os.path.exists(destination):
        return
    os.makedirs(os.path.dirname(destination), exist_ok=True)
    temporary = f"{destination}.{os.getpid()}.new"
    shutil.copy2(source, temporary)
    os.replace(temporary, destination)


def _runs_ours(facts: ImageFacts) -> bool:
    """Whether programs of this machine run in the image."""
    import sys

    same_machine = sys.platform == "linux" and platform.machine() == facts.machine
    return same_machine and platform.libc_ver()[0] == "glibc" == facts.libc[0]
