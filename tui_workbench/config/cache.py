"""Values of configuration files as last read, so that a command need not load a YAML parser to read them again.

An entry is used only while the file's device, inode, size and times of change are what they were, and only when the
file was already at rest when it was read (the rule that git's index uses): a file written twice within one clock tick
is read again. The cache file can be deleted at any time; whatever is wrong with it, it is then ignored and written
anew. Only the user may read it: configuration files may hold what is nobody else's business.
"""

from __future__ import annotations

import json
import os
import time
from _thread import get_ident  # of threading, which takes longer to load than a cache to read

from tui_workbench import __version__
from tui_workbench.model import ComputeTarget, RunConfiguration
from tui_workbench.records import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

SETTLED_NS = 100_000_000
"""A file modified less than this (100 ms) before it was read might change again without its signature changing."""

_REFERENCE = "AzureMlSecret="
"""Begins what stands for a secret. A secret itself stands in one file too many already."""

FORM = " ".join((__version__, *ComputeTarget._fields, *RunConfiguration._fields))
"""What the entries are made by; those of any other form are not used."""


class ConfigurationCache:
    """Loads `.compute` and `.runconfig` files, from `cache_file` where it knows them."""

    def __init__(self, cache_file: str) -> None:
        self._cache_file = cache_file
        self._entries: dict[str, Any] | None = None

    def compute_target(self, path: str) -> ComputeTarget:
        """The target of a `.compute` file. Raises ConfigurationError."""
        signature = _signature(path)
        known = self._known(path, signature)
        if known is not None:
            try:
                return ComputeTarget(**known)
            except TypeError:
                self._forget(path)
        from tui_workbench.config.loading import load_compute

        target = load_compute(path)
        if all(
            not secret or secret.startswith(_REFERENCE) for secret in (target.password, target.private_key_passphrase)
        ):
            self._remember(path, signature, target._asdict())
        return target

    def run_configuration(self, path: str) -> RunConfiguration:
        """The run configuration of a `.runconfig` file. Raises ConfigurationError."""
        signature = _signature(path)
        known = self._known(path, signature)
        if known is not None:
            try:
                return RunConfiguration(**{**known, "argument_vector": tuple(known["argument_vector"])})
            except (TypeError, KeyError):
                self._forget(path)
        from tui_workbench.config.loading import load_run_configuration

        configuration = load_run_configuration(path)
        self._remember(path, signature, configuration._asdict())
        return configuration

    def _known(self, path: str, signature: list[int]) -> dict[str, Any] | None:
        if self._entries is None:
            self._entries = self._read()
        entry = self._entries.get(path)
        if not isinstance(entry, dict) or entry.get("signature") != signature:
            return None
        values = entry.get("values")
        return values if isinstance(values, dict) else None

    def _read(self) -> dict[str, Any]:
        try:
            with open(self._cache_file, encoding="utf-8") as file:
                stored = json.load(file)
        except (OSError, ValueError, RecursionError):
            return {}
        if not isinstance(stored, dict) or stored.get("form") != FORM or not isinstance(stored.get("entries"), dict):
            return {}
        entries: dict[str, Any] = stored["entries"]
        return entries

    def _forget(self, path: str) -> None:
        self._entries = {known: entry for known, entry in (self._entries or {}).items() if known != path}

    def _remember(self, path: str, signature: list[int], values: dict[str, Any]) -> None:
        if self._entries is None or time.time_ns() - signature[-2] < SETTLED_NS:
            return
        # No cache before the first run: opening a project to look at it leaves no trace in it.
        if not os.path.isdir(os.path.dirname(os.path.dirname(self._cache_file))):
            return
        entries = {**self._entries, path: {"signature": signature, "values": values}}
        temporary = f"{self._cache_file}.{os.getpid()}-{get_ident()}"
        try:
            text = json.dumps({"form": FORM, "entries": entries})
            # What JSON would give back as something else (a number as a key) is not for this cache.
            if json.loads(text)["entries"][path]["values"] != _as_json(values):
                return
            os.makedirs(os.path.dirname(self._cache_file), exist_ok=True)
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with open(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(temporary, self._cache_file)
        except (OSError, TypeError, ValueError, RecursionError):
            # A cache that cannot be written costs time, not correctness.
            return
        self._entries = entries


def _as_json(values: Any) -> Any:
    """The values with lists in place of tuples, as JSON gives them back."""
    if isinstance(values, dict):
        return {key: _as_json(value) for key, value in values.items()}
    return [_as_json(value) for value in values] if isinstance(values, list | tuple) else values


def _signature(path: str) -> list[int]:
    """Device, inode, size, times of modification and of change in nanoseconds; zeros when the file is not there."""
    try:
        status = os.stat(path)
    except OSError:
        return [0, 0, 0, 0, 0]
    return [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]
