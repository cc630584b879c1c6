"""Data sources of Azure ML Workbench, which the workbench cannot read."""

from __future__ import annotations

import contextlib
import os
import re
from collections import deque
from collections.abc import Iterator
from itertools import islice

from tui_workbench.core.files import open_regular

MOST_NAMES = 20_000
"""Maximum number of files and folders of a project whose names are read."""

MOST_SCRIPTS = 500
"""Maximum number of Python files that are searched, those in the upper folders first."""

SCRIPT_BYTES = 200_000
"""Number of bytes of a script that are searched."""

INSTEAD = (
    'Read the file with pandas, for example `pandas.read_csv("data/iris.csv")`, and prepare the data in the script. '
    "For data that is not copied for each run, use `DataReferences`."
)

_WORDS = (b"azureml.dataprep", b".dsource", b".dprep")
_USE = re.compile(rb"""^[ \t]*(?:from|import)[ \t]+azureml\.dataprep\b|\.(?:dsource|dprep)["']""", re.MULTILINE)


def is_data_source(path: str) -> bool:
    """Return True if the name of a file ends with `.dsource` or `.dprep`, in uppercase or lowercase."""
    return path.lower().endswith((".dsource", ".dprep"))


def old_data_files(root: str) -> list[str]:
    """Return the relative paths of data sources in a project, and of Python files that use data sources."""
    found, scripts = [], 0
    for path in project_files(root):
        is_script = path.endswith(".py") and scripts < MOST_SCRIPTS
        scripts += is_script
        if is_data_source(path) or (is_script and _uses_data_sources(path)):
            found.append(os.path.relpath(path, root))
    return found


def project_files(root: str) -> Iterator[str]:
    """Yield the paths of up to MOST_NAMES files of a project, those in the upper folders first. No link is followed.

    Folders whose names begin with a dot, and folders of packages, are omitted.
    """
    folders, left = deque([root]), MOST_NAMES
    while folders and left:
        with contextlib.suppress(OSError), os.scandir(folders.popleft()) as scan:
            entries = sorted(islice(scan, left), key=lambda entry: entry.name)
            left -= len(entries)
            for entry in entries:
                if entry.is_file(follow_symlinks=False):
                    yield entry.path
                elif entry.is_dir(follow_symlinks=False) and not _is_of_packages(entry.name):
                    folders.append(entry.path)


def _is_of_packages(folder: str) -> bool:
    return folder.startswith(".") or folder in ("__pycache__", "node_modules", "site-packages")


def _uses_data_sources(path: str) -> bool:
    with contextlib.suppress(OSError), open_regular(path) as file:
        text = file.read(SCRIPT_BYTES)
        # The search for plain words is several times as fast as the pattern.
        return any(word in text for word in _WORDS) and _USE.search(text) is not None
    return False
