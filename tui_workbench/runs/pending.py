"""What a run that has not begun leaves for whoever will begin it: the submitter's environment, and a copy to be made.

Only runs that may have to wait for their turn have any of this; it is gone, or says so, once the run has begun.
"""

from __future__ import annotations

import json
import os
import time

from tui_workbench.model import is_secret_name
from tui_workbench.records import TYPE_CHECKING
from tui_workbench.runs.rundir import CONTROLLER_LOCK, COPY, json_bytes, storage_error, write_all
from tui_workbench.urls import without_secrets

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui_workbench.runs.rundir import RunDirectory

ENVIRONMENT = "environment.json"
"""The environment of whoever submitted the run, without its secrets."""


def keep_environment(directory: RunDirectory, variables: Mapping[str, str]) -> None:
    """Keep the environment for the process that will start the run; only this user may read it.

    Raises StorageError.
    """
    known = {name: value for name, value in variables.items() if not is_secret(name, value)}
    _write(directory.file(ENVIRONMENT), json_bytes(known), 0o600)


def environment_of(directory: RunDirectory, own: Mapping[str, str]) -> Mapping[str, str]:
    """The environment to start the run in: the kept one, with the secrets of this process's `own`; else `own`."""
    try:
        with open(directory.file(ENVIRONMENT), encoding="utf-8") as file:
            kept = json.load(file)
    except (OSError, ValueError):
        return own
    secrets = {name: value for name, value in own.items() if is_secret(name, value)}
    return {**secrets, **kept} if isinstance(kept, dict) else own


def forget_environment(directory: RunDirectory) -> None:
    """The run has begun, or never will."""
    try:
        os.unlink(directory.file(ENVIRONMENT))
    except OSError:
        return


def leave_copy_for_later(directory: RunDirectory) -> None:
    """Note that the working copy is to be made when the run begins. Raises StorageError."""
    _write(directory.file(COPY), b"", 0o644)


def note_copy(directory: RunDirectory) -> None:
    """Note that the working copy is whole, and return when what is written next is later. Raises StorageError."""
    _write(directory.file(COPY), b"made\n", 0o644)
    clock = directory.file(CONTROLLER_LOCK)
    while True:
        os.utime(clock)
        if os.stat(clock).st_mtime_ns > directory.copied_at:
            return
        time.sleep(0.0005)


def copy_is_due(directory: RunDirectory) -> bool:
    """True while the working copy is to be made when the run begins."""
    try:
        return os.stat(directory.file(COPY)).st_size == 0
    except OSError:
        return False


def is_secret(name: str, value: str) -> bool:
    """By its name, or because it is an address with a password in it."""
    return is_secret_name(name) or without_secrets(value) != value


def _write(path: str, data: bytes, mode: int) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        try:
            write_all(descriptor, data)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise storage_error("write", path, error) from error
