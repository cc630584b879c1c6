"""Find the scripts and the data sources in a project, and files that cannot be the script of a run.

The workbench cannot read data sources of Azure ML Workbench.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections import deque
from collections.abc import Iterator
from itertools import islice

from tui_workbench.core.errors import UsageError
from tui_workbench.core.files import open_regular, read_regular
from tui_workbench.core.notebooks import LARGEST, is_notebook, read_notebook

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
    paths, scripts = [], 0
    for path in project_files(root):
        is_script = path.endswith(".py") and scripts < MOST_SCRIPTS
        scripts += is_script
        if is_data_source(path) or (is_script and _uses_data_sources(path)):
            paths.append(os.path.relpath(path, root))
    return paths


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


def script_problem(path: str, name: str) -> UsageError | None:
    """Return an error if the file at `path` cannot be the script of a run: a data source, or a damaged notebook.

    `name` is the name of the file in the message. A file that cannot be read here is left to the run.
    """
    if is_data_source(path):
        message = f"{name} is a data source of Azure ML Workbench, and not a script; the workbench cannot read it"
        return UsageError(message, remedy=f"Choose a Python file or a notebook as the script. {INSTEAD}")
    if not is_notebook(path):
        return None
    try:
        read_notebook(read_regular(os.path.realpath(path), LARGEST).decode("utf-8-sig"))
    except OSError:
        return None
    except UnicodeDecodeError:
        return UsageError(f"{name} is not a valid notebook: it is not UTF-8", remedy="Save it again in Jupyter.")
    except UsageError as error:
        return UsageError(f"{name} is {error.message}", remedy=error.remedy)
    return None
