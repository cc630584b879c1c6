"""Read and write the file store of MLflow: a folder for each experiment and each run, both with a `meta.yaml`.

The folder of a run contains folders of metrics (a line for each point), parameters and tags (a file for each value),
and artifacts.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from typing import Any

from tui_workbench.core.files import open_regular, read_regular, replacing
from tui_workbench.core.model import RunState
from tui_workbench.runs.transfer.downloads import files_below

META = "meta.yaml"
LARGEST_META = 1 << 20
LARGEST_TEXT = 1 << 20
_LONGEST_POINT = 1 << 12  # limit in bytes; a longer line has no valid point

METRICS, PARAMETERS, TAGS, ARTIFACTS = "metrics", "params", "tags", "artifacts"

RUN_ID_TAG = "workbench.run_id"  # only runs of the workbench have this tag

RUN_NAME_TAG, USER_TAG, SCRIPT_TAG, NOTE_TAG = (
    "mlflow.runName", "mlflow.user", "mlflow.source.name", "mlflow.note.content",
)  # fmt: skip

# States of ended runs by number in the file store. Source: RunStatus of MLflow.
STATES = {3: RunState.COMPLETED, 4: RunState.FAILED, 5: RunState.CANCELED}

_WORDS = {"FINISHED": 3, "FAILED": 4, "KILLED": 5}


def number_of_state(state: str) -> int:
    """Return the number of a state in the file store.

    A run that has not ended has the number 1 (running), and a run in state `unknown` the number of a failed run.
    """
    if state == RunState.UNKNOWN:
        state = RunState.FAILED
    return next((number for number, ended_state in STATES.items() if ended_state == state), 1)


def state_of(meta: Mapping[str, Any]) -> str:
    """Return the state of an ended run in `meta.yaml`, or ""."""
    status = meta.get("status")
    return STATES.get(status if isinstance(status, int) else _WORDS.get(str(status), 0), "")


def read_meta(folder: str) -> dict[str, Any]:
    """Parse `meta.yaml` in a folder. Raises OSError or ValueError."""
    import yaml

    try:
        values = yaml.safe_load(read_regular(os.path.join(folder, META), LARGEST_META))
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(" ".join(str(error).split())) from error
    if not isinstance(values, dict):
        raise ValueError("expected a mapping")
    return values


def write_meta(folder: str, values: Mapping[str, Any]) -> None:
    """Write `meta.yaml` in a folder. Raises OSError."""
    # JSON values are valid YAML. As MLflow does, write a line for each key.
    lines = (f"{key}: {json.dumps(value)}\n" for key, value in sorted(values.items()))
    write_value(os.path.join(folder, META), "".join(lines))


def read_value(path: str) -> str:
    """Return the value in the file of a parameter or tag, or ""."""
    try:
        with open_regular(path) as file:
            return file.read(LARGEST_TEXT).decode("utf-8", "replace").replace("\r\n", "\n").strip("\n")
    except OSError:
        return ""


def write_value(path: str, text: str) -> None:
    """Write a file of the store, and create its folders. Raises OSError."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    # A link in a folder that another user may have created is replaced, not followed.
    with replacing(path) as file:
        file.write(text.encode("utf-8", "backslashreplace"))


def files_by_name(folder: str) -> list[tuple[str, str]]:
    """Return the relative name and the path of each file below a folder."""
    names = sorted(os.path.normpath(path) for path in files_below(folder, "."))
    return [(name, os.path.join(folder, name)) for name in names]


def read_values(folder: str) -> dict[str, str]:
    """Return the values of the parameters or tags in a folder by name."""
    return {name: read_value(path) for name, path in files_by_name(folder)}


def point_line(time: float, value: float, step: float) -> str:
    """Format a point of a metric. `time` is in seconds since the epoch. A step that is not finite becomes 0."""
    return f"{milliseconds(time)} {value!r} {int(step) if math.isfinite(step) else 0}\n"


def points(path: str) -> Iterator[tuple[float, float, int]]:
    """Yield time, value and step of the points in the file of a metric. Invalid lines are skipped. Raises OSError."""
    with open_regular(path) as file:
        while line := file.readline(_LONGEST_POINT):
            words = line.split()
            try:
                point = int(words[0]) / 1000, float(words[1]), int(words[2]) if len(words) > 2 else 0
            except (ValueError, IndexError, OverflowError):
                continue
            yield point


def milliseconds(moment: float) -> int:
    """Convert seconds since the epoch to milliseconds, and NaN and infinities to 0."""
    return round(moment * 1000) if math.isfinite(moment) else 0


def seconds(moment: object) -> float:
    """Convert milliseconds to seconds since the epoch, or an invalid time to 0.0."""
    return moment / 1000 if isinstance(moment, int) and 0 < moment < 1 << 53 else 0.0
