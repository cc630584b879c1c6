"""Files that cannot be the script of a run."""

from __future__ import annotations

import os

from tui_workbench.config.checks.old_data import INSTEAD, is_data_source
from tui_workbench.core.errors import UsageError
from tui_workbench.core.files import read_regular
from tui_workbench.core.notebooks import LARGEST, is_notebook, read_notebook


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
