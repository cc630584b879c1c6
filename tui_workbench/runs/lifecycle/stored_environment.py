"""The environment of the submitter, stored without secrets for the process that starts the run."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from tui_workbench.core.files import load_json, unlink_below
from tui_workbench.core.masking import mask_value
from tui_workbench.runs.store.rundir import ENVIRONMENT, RunDirectory, json_bytes


def save_environment(directory: RunDirectory, variables: Mapping[str, str]) -> None:
    """Store the environment, without secrets, for the process that will start the run. Raises StorageError."""
    directory.write(ENVIRONMENT, json_bytes(without_secrets(variables)))


def without_secrets(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables whose values are not secrets."""
    return {name: value for name, value in variables.items() if mask_value(name, value) == value}


def environment_of(directory: RunDirectory, own: Mapping[str, str]) -> Mapping[str, str]:
    """Return the stored environment with the secrets of `own`, or `own` if no environment is stored."""
    try:
        kept = load_json(directory.file(ENVIRONMENT))
    except (OSError, ValueError):
        return own
    secrets = {name: value for name, value in own.items() if mask_value(name, value) != value}
    return {**secrets, **kept} if isinstance(kept, dict) else own


def remove_environment(directory: RunDirectory) -> None:
    """Remove the stored environment of a run that has started or will never start."""
    with contextlib.suppress(OSError):
        unlink_below(directory.path, ENVIRONMENT)
