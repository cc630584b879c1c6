"""Secret arguments, variables and `setup` commands of a run, which are masked in run.json.

Another process may start the run later. Until then, the arguments are stored in the user's state directory, in a file
that only this user can read.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Mapping, Sequence

from tui_workbench.config.loading import load_compute, load_run_configuration
from tui_workbench.config.secret_values import resolved
from tui_workbench.core.directories import user_state_directory
from tui_workbench.core.errors import ConfigurationError, UsageError, storage_errors
from tui_workbench.core.files import load_json, write_below
from tui_workbench.core.masking import MASK, find_mask, mask_command, mask_words
from tui_workbench.core.model import RunSpec
from tui_workbench.core.trace import hide_variables
from tui_workbench.runs.store.record import masked_arguments
from tui_workbench.runs.store.rundir import json_bytes

FOLDER = "arguments"  # in the user's state directory


def refuse_masks(arguments: Sequence[str]) -> None:
    """Raise UsageError for arguments with masks instead of secrets. Such arguments were copied from a record."""
    masked = find_mask(arguments)
    if masked:
        raise UsageError(
            f"the secret of the argument {masked} was not recorded",
            remedy="Enter the secret again, or set it in EnvironmentVariables of the run configuration.",
        )


def save(spec: RunSpec) -> None:
    """Store the arguments if run.json masks any of them. Raises StorageError."""
    if masked_arguments(spec.arguments, spec) == spec.arguments:
        return
    _prune()
    path = _path(spec.run_directory)
    data = json_bytes({"run_directory": spec.run_directory, "arguments": spec.arguments})
    with storage_errors("write", path):
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        write_below(*os.path.split(path), data)


def with_secrets(spec: RunSpec) -> RunSpec:
    """Return the specification with the submitted arguments and the current secrets of variables and `setup`.

    Raises ConfigurationError if a configuration file is invalid, or a secret no longer exists.
    """
    arguments, masked = spec.arguments, find_mask(spec.arguments)
    if masked:
        run_directory, arguments = _read(_path(spec.run_directory))
        # Two runs with the same ID in different projects can have the same checksum, and so the same file.
        if run_directory != spec.run_directory:
            raise ConfigurationError(
                f"the secret of the argument {masked} is no longer stored",
                remedy="Submit a new run with the secret.",
            )
    configuration = spec.run_configuration._replace(environment_variables=variables_of(spec))
    target = spec.target._replace(setup=_setup_of(spec))
    return spec._replace(arguments=arguments, run_configuration=configuration, target=target)


def variables_of(spec: RunSpec) -> Mapping[str, str]:
    """Return the variables of a run. Secrets are read from the current run configuration, or are its stored values.

    Raises ConfigurationError if the run configuration is invalid, or a secret no longer exists.
    """
    path, variables = spec.run_configuration.path, spec.run_configuration.environment_variables
    masked = [name for name, value in variables.items() if MASK in value]
    if masked:
        current = load_run_configuration(path).environment_variables
        missing = [name for name in masked if name not in current]
        if missing:
            raise ConfigurationError(
                f"{missing[0]}, which this run needs, is no longer in EnvironmentVariables",
                remedy=f"Add {missing[0]} to EnvironmentVariables, or submit a new run.",
                file=path,
            )
        variables = {name: current[name] if name in masked else value for name, value in variables.items()}
    return resolved(spec.project_root, variables, path)


def _setup_of(spec: RunSpec) -> tuple[str, ...]:
    """Return the commands of `setup`. Commands with secrets are read from the current compute target.

    Raises ConfigurationError if such a command no longer exists.
    """
    if not any(MASK in command for command in spec.target.setup):
        return spec.target.setup
    current = {mask_command(command): command for command in load_compute(spec.target.path).setup}
    missing = [command for command in spec.target.setup if MASK in command and command not in current]
    if missing:
        raise ConfigurationError(
            f"the command `{missing[0]}`, which this run needs, is no longer in `setup`",
            remedy="Add the command to `setup`, or submit a new run.",
            file=spec.target.path,
        )
    return tuple(current.get(command, command) for command in spec.target.setup)


def hide(spec: RunSpec) -> None:
    """Mask the secret variables of a run in the trace of this process."""
    # If a secret no longer exists, it cannot be logged.
    with contextlib.suppress(ConfigurationError):
        hide_variables(variables_of(spec))


def remove(spec: RunSpec) -> None:
    """Remove the stored arguments of a run that has started or will never start."""
    with contextlib.suppress(OSError):
        os.unlink(_path(spec.run_directory))


def refuse_secrets(arguments: Sequence[str]) -> None:
    """Raise UsageError for secret arguments that would be written to a file of the project."""
    for argument, masked in zip(arguments, mask_words(arguments), strict=True):
        if argument != masked:
            shown = masked if masked != MASK else "the value of an option"
            raise UsageError(
                f"{shown} is a secret, but the arguments of a sweep are written to a file",
                remedy="Remove it from the arguments, and set it in EnvironmentVariables of the run configuration.",
            )


def _path(run_directory: str) -> str:
    checksum = zlib.crc32(os.fsencode(run_directory))
    return os.path.join(user_state_directory(), FOLDER, f"{os.path.basename(run_directory)}.{checksum:08x}")


def _prune() -> None:
    """Remove the stored arguments of runs that no longer exist."""
    with contextlib.suppress(OSError), os.scandir(os.path.join(user_state_directory(), FOLDER)) as entries:
        for entry in entries:
            run_directory, _ = _read(entry.path)
            if run_directory and not os.path.isdir(run_directory):
                os.unlink(entry.path)


def _read(path: str) -> tuple[str, tuple[str, ...]]:
    """Return the run directory and the arguments in a file; "" and () if it is unreadable."""
    try:
        stored = load_json(path)
        return str(stored["run_directory"]), tuple(map(str, stored["arguments"]))
    except (OSError, ValueError, KeyError, TypeError):
        return "", ()
