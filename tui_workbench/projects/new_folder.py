"""Create a folder completely or not at all. Existing files are never overwritten."""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import shutil
from collections.abc import Iterator

from tui_workbench.core.errors import StorageError, UsageError


@contextlib.contextmanager
def built(folder: str) -> Iterator[str]:
    """Create a hidden folder, and rename it to `folder` at the end. After an exception, remove the hidden folder."""
    parent, name = os.path.split(folder)
    building = os.path.join(parent, f".{name}-{os.getpid()}-{os.urandom(4).hex()}.tmp")
    try:
        os.mkdir(building)
        yield building
        os.rename(building, folder)  # replaces an empty folder, and fails if others have put files into it meanwhile
    finally:
        shutil.rmtree(building, ignore_errors=True)  # does not exist after the rename


@contextlib.contextmanager
def new_folder(folder: str) -> Iterator[str]:
    """Like `built`, but raise StorageError instead of OSError.

    Raises UsageError if `folder` exists and is not an empty folder, or if its parent is not a folder.
    """
    parent = os.path.dirname(folder)
    if not os.path.isdir(parent):
        raise UsageError(f"{parent} is not a folder", remedy="Create the folder, or choose another.")
    _check_free(folder)
    try:
        with built(folder) as building:
            yield building
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            raise _taken(folder) from error
        raise StorageError(
            f"cannot create the project: {(error.strerror or str(error)).lower()}",
            remedy="Free some space, choose a writable folder, or if you use a template, check that you can read it.",
            file=folder,
        ) from error


def _check_free(folder: str) -> None:
    try:
        free = not os.listdir(folder)
    except FileNotFoundError:
        # The rename would replace a broken symbolic link.
        free = not os.path.islink(folder)
    except OSError:
        free = False
    if not free or os.path.islink(folder):
        raise _taken(folder)


def _taken(folder: str) -> UsageError:
    command = f"workbench-tui project add {shlex.quote(folder)}"
    remedy = f"Choose another folder. If the path is a folder, you can turn it into a project: `{command}`."
    return UsageError(f"{folder} exists and is not an empty folder", remedy=remedy)
