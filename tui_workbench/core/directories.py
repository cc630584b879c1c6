"""Directories outside projects: the data files of the program, and the user's directories. All paths are absolute.

An installed wheel has its data files in `tui_workbench/_data/`; a source tree has them beside the package. The user's
directories follow the XDG Base Directory Specification. Each call reads the environment again.
"""

from __future__ import annotations

import os
import stat

from tui_workbench.core.errors import StorageError
from tui_workbench.core.installation import repeat_remedy

CONFIG_DIRECTORY = "aml_config"
"""A folder with this subfolder is a project."""

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DATA_PLACES = (os.path.join(_PACKAGE, "_data"), os.path.dirname(_PACKAGE))
"""The folders that may contain the data folders: the first one in an installation, the second one in a source tree."""


def packaged(name: str) -> str:
    """Return the path of the data folder `name`: `themes` or `sample_project`. Raises StorageError if it is missing."""
    folder = next((path for parent in DATA_PLACES if os.path.isdir(path := os.path.join(parent, name))), "")
    if folder:
        return folder
    raise StorageError(f"the installation in {_PACKAGE} lacks the folder {name!r}", remedy=repeat_remedy())


def theme_directories() -> list[str]:
    """Return the folders of theme files, the user's folder first. Raises the error of `packaged`."""
    return [os.path.join(user_config_directory(), "themes"), packaged("themes")]


def user_config_directory() -> str:
    """Return the folder for themes, keys and settings, in `$XDG_CONFIG_HOME` (default `~/.config`)."""
    return _user_directory("XDG_CONFIG_HOME", ".config")


def keymap_path() -> str:
    """Return the path of the user's keymap."""
    return os.path.join(user_config_directory(), "keys.yaml")


def settings_path() -> str:
    """Return the path of the user's settings."""
    return os.path.join(user_config_directory(), "settings.yaml")


def agents_path() -> str:
    """Return the path of the user's limits for coding agents."""
    return os.path.join(user_config_directory(), "agents.yaml")


def channels_path() -> str:
    """Return the path of the user's channels for notifications."""
    return os.path.join(user_config_directory(), "notify.json")


def user_data_directory() -> str:
    """Return the folder for data such as runs of read-only projects, in `$XDG_DATA_HOME` (default `~/.local/share`)."""
    return _user_directory("XDG_DATA_HOME", os.path.join(".local", "share"))


def user_state_directory() -> str:
    """Return the folder for state, such as the last theme, in `$XDG_STATE_HOME` (default `~/.local/state`)."""
    return _user_directory("XDG_STATE_HOME", os.path.join(".local", "state"))


def user_cache_directory() -> str:
    """Return the folder for data that can be recreated, in `$XDG_CACHE_HOME` (default `~/.cache`)."""
    return _user_directory("XDG_CACHE_HOME", ".cache")


def derived_directory(folder: str) -> str:
    """Return the cache directory for data derived from `folder`, such as an index; create it if necessary.

    Return "" if `folder` does not exist, or if the directory cannot be created, belongs to another user or is writable
    by others. A new folder at the path of a deleted folder gets a new cache directory.
    """
    from hashlib import blake2b  # loads OpenSSL

    try:
        key = f"{os.path.realpath(folder)}\0{os.stat(folder).st_ino}"
        cache = os.path.join(user_cache_directory(), "derived", blake2b(os.fsencode(key), digest_size=12).hexdigest())
        os.makedirs(cache, mode=0o700, exist_ok=True)
        status = os.lstat(cache)  # a link or a folder of another user could lead readers to other data
    except OSError:
        return ""
    is_private = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o022
    return cache if is_private else ""


def _user_directory(variable: str, default: str) -> str:
    base = os.environ.get(variable, "")
    # The XDG specification requires that relative paths are ignored.
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), default)
    return os.path.join(base, "workbench-tui")


def with_parents(path: str) -> list[str]:
    """Return an absolute path and all its parents, the nearest first."""
    paths = [path]
    while (above := os.path.dirname(path)) != path:
        path = above
        paths.append(path)
    return paths


def project_above(path: str) -> str:
    """Return the nearest project folder at or above an absolute path, or ""."""
    return next((folder for folder in with_parents(path) if os.path.isdir(os.path.join(folder, CONFIG_DIRECTORY))), "")


def abbreviate_home(path: str) -> str:
    """Return the path with `~` for the home directory."""
    home = os.path.expanduser("~")
    return f"~{path[len(home) :]}" if path == home or path.startswith(home + os.sep) else path
