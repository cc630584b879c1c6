"""Search for shared libraries without executing programs.

Some packages call `ctypes.util.find_library` while they are imported. It executes `ldconfig`, `gcc` and `ld`, which
takes time, and which may be programs of another folder on the PATH.
"""

from __future__ import annotations

import os
import re
import sys

_FOLDERS = ("/usr/local/lib", "/usr/lib64", "/lib64", "/usr/lib", "/lib")


def search_without_programs() -> None:
    """Replace `ctypes.util.find_library` in this process. Call this before importing a package that uses it."""
    import ctypes.util  # not needed by most commands

    if sys.platform != "darwin":  # where it executes no programs
        ctypes.util.find_library = find_library


def find_library(name: str) -> str | None:
    """Return the file name of a shared library that can be loaded, such as `libnettle.so.8` for `nettle`, or None."""
    import ctypes
    import sysconfig

    pattern = re.compile(rf"lib{re.escape(name)}\.so(?:\.\d+)*")
    for folder in (f"/usr/lib/{sysconfig.get_config_var('MULTIARCH') or ''}", *_FOLDERS):
        for file in sorted(filter(pattern.fullmatch, _names(folder))):
            try:
                ctypes.CDLL(file)
            except OSError:
                continue  # for another kind of processor, or a script of the linker
            return file
    return None


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
