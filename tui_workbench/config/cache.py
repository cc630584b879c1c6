"""Values of configuration files as last read, so that a command need not load a YAML parser to read them again.

An entry is used only while the file's device, inode, size and time of modification are what they were, and only when
the file was already at rest when it was read (the rule that git's index uses): a file written twice within one clock
tick is read again. The cache file can be deleted at any time; whatever is wrong with it, it is then ignored and
written anew.
"""

from __future__ import annotations

import json
import os
import time

from tui_workbench import __version__
from tui_workbench.model import ComputeTarget, RunConfiguration
from tui_workbench.records import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

SETTLED_NS = 100_000_000
"""A file modified less than this (100 ms) before it was read might change again without its signature changing."""


class ConfigurationCache:
    """Loads `.compute` and `.runconfig` files, from `cache_file` where it knows them."""

    def __init__(self, cache_file: str) -> None:
        self._cache_file = cache_file
        self._entries: dict[str, Any] | None = None

    def compute_target(self, path: str) -> ComputeTarget:
        """The target of a `.compute` file. Raises ConfigurationError."""
        known = self._known(path)
        if known is not None:
            return ComputeTarget(**known)
        from tui_workbench.config.loading import load_compute

        signature = _signature(path)
        target = load_compute(path)
        self._remember(path, signature, target._asdict())
        return target

    def run_configuration(self, path: str) -> RunConfiguration:
        """The run configuration of a `.runconfig` file. Raises ConfigurationError."""
        known = self._known(path)
        if known is not None:
            known["argument_vector"] = tuple(known["argument_vector"])
            return RunConfiguration(**known)
        from tui_workbench.config.loading import load_run_configuration

        signature = _signature(path)
        configuration = load_run_configuration(path)
        self._remember(path, signature, configuration._asdict())
        return configuration

    def _known(self, path: str) -> dict[str, Any] | None:
        if self._entries is None:
            self._entries = self._read()
        entry = self._entries.get(path)
        if entry is None or entry["signature"] != _signature(path):
            return None
        return dict(entry["values"])

    def _read(self) -> dict[str, Any]:
        try:
            with open(self._cache_file, encoding="utf-8") as file:
                stored = json.load(file)
            if stored["version"] == __version__:
                entries: dict[str, Any] = stored["entries"]
                return entries
        except (OSError, ValueError, KeyError, TypeError):
            pass
        return {}

    def _remember(self, path: str, signature: list[int], values: dict[str, Any]) -> None:
        if self._entries is None:
            self._entries = self._read()
        if time.time_ns() - signature[-1] < SETTLED_NS:
            return
        self._entries[path] = {"signature": signature, "values": values}
        temporary = f"{self._cache_file}.{os.getpid()}"
        try:
            text = json.dumps({"version": __version__, "entries": self._entries})
            # No cache before the first run: opening a project to look at it leaves no trace in it.
            if not os.path.isdir(os.path.dirname(os.path.dirname(self._cache_file))):
                return
            os.makedirs(os.path.dirname(self._cache_file), exist_ok=True)
            with open(temporary, "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(temporary, self._cache_file)
        except (OSError, TypeError):
            # A cache that cannot be written costs time, not correctness; a value JSON has no form for is simply not
            # cached.
            return


def _signature(path: str) -> list[int]:
    """Device, inode, size, time of modification in nanoseconds; zeros when the file is not there."""
    try:
        status = os.stat(path)
    except OSError:
        return [0, 0, 0, 0]
    return [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns]
