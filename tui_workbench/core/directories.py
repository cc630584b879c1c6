"""Where things lie that are no part of a project: what came with the program, and the user's own directories.

Data that came with the program lies in `tui_workbench/_data/` in an installed wheel and beside the package in a source
tree; both are looked at, in this order. The user's directories follow the XDG base directory specification, are never
created here, and are read from the environment at every call. Everything is a plain absolute path.
"""

from __future__ import annotations

import os
import stat
from hashlib import blake2b

from tui_workbench.core.errors import StorageError

CONFIG_DIRECTORY = "aml_config"
"""A folder that holds this is a project."""

APPLICATION = "workbench-tui"
"""The name of our folder in each of the user's directories."""

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_DATA_PLACES = (os.path.join(_PACKAGE, "_data"), os.path.dirname(_PACKAGE))


def packaged(name: str) -> str:
    """The folder `name` (`themes`, `sample_project`) that came with the program.

    Raises StorageError when the installation lacks it.
    """
    found = next((path for place in _DATA_PLACES if os.path.isdir(path := os.path.join(place, name))), "")
    if found:
        return found
    remedy = "Install the program again: pip install --force-reinstall workbench-tui"
    raise StorageError(f"the folder {name!r} that belongs to the program is missing beside {_PACKAGE}", remedy=remedy)


def sample_project() -> str:
    """The sample project as it came with the program; it may be read-only. Raises StorageError when it is missing."""
    return packaged("sample_project")


def theme_directories() -> list[str]:
    """Where theme files are looked for: the user's own first, so that a file there hides a built-in theme of its name.

    Raises StorageError when the built-in themes are missing.
    """
    return [os.path.join(user_config_directory(), "themes"), packaged("themes")]


def user_config_directory() -> str:
    """What the user has set, as themes and keys: `$XDG_CONFIG_HOME`, by default `~/.config`."""
    return _user_directory("XDG_CONFIG_HOME", ".config")


def keymap_path() -> str:
    """Where the user's keymap for the screens lies, whether or not there is one."""
    return os.path.join(user_config_directory(), "keys.yaml")


def settings_path() -> str:
    """Where the user's settings lie, whether or not there are any."""
    return os.path.join(user_config_directory(), "settings.yaml")


def user_data_directory() -> str:
    """What must not be lost, as the runs of read-only projects: `$XDG_DATA_HOME`, by default `~/.local/share`."""
    return _user_directory("XDG_DATA_HOME", os.path.join(".local", "share"))


def user_state_directory() -> str:
    """What the program remembers by itself, such as the last theme: `$XDG_STATE_HOME`, by default `~/.local/state`."""
    return _user_directory("XDG_STATE_HOME", os.path.join(".local", "state"))


def user_cache_directory() -> str:
    """What can be made again: `$XDG_CACHE_HOME`, by default `~/.cache`."""
    return _user_directory("XDG_CACHE_HOME", ".cache")


def derived_directory(folder: str) -> str:
    """The place in the user's cache directory for what is derived from `folder`, such as an index of what lies in it.

    It is made when it is missing, for this user alone. It is "" when there is no such folder, or the place cannot be
    made or is open to others. A folder that was replaced by another one has another place.
    """
    try:
        key = f"{os.path.realpath(folder)}\0{os.stat(folder).st_ino}"
        place = os.path.join(user_cache_directory(), "derived", blake2b(os.fsencode(key), digest_size=12).hexdigest())
        os.makedirs(place, mode=0o700, exist_ok=True)
        status = os.lstat(place)
    except OSError:
        return ""
    is_private = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o022
    return place if is_private else ""


def _user_directory(variable: str, default: str) -> str:
    base = os.environ.get(variable, "")
    # The specification has relative paths ignored.
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), default)
    return os.path.join(base, APPLICATION)


def with_parents(path: str) -> list[str]:
    """The absolute path, then each folder above it up to the root."""
    found = [path]
    while (above := os.path.dirname(path)) != path:
        path = above
        found.append(path)
    return found


def project_above(path: str) -> str:
    """The project folder nearest to an absolute path: the path itself, or a folder above it; "" when there is none."""
    return next((each for each in with_parents(path) if os.path.isdir(os.path.join(each, CONFIG_DIRECTORY))), "")


def abbreviate_home(path: str) -> str:
    """The path as people write it: with `~` for the user's home folder."""
    home = os.path.expanduser("~")
    return f"~{path[len(home) :]}" if path == home or path.startswith(home + os.sep) else path
