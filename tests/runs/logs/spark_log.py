"""Event logs as Spark 4.3 writes them, shortened to the fields that are read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def event(name: str, **fields: Any) -> str:
    """Return an event as a line."""
    return json.dumps({"Event": f"SparkListener{name}", **fields}, separators=(",", ":"))


PROPERTIES = event(
    "EnvironmentUpdate", **{"Spark Properties": {"spark.master": "local[2]", "spark.driver.host": "10.0.0.2"}}
)
APPLICATION = "\n".join(
    (
        event("LogStart", **{"Spark Version": "4.3.0"}),
        event("ExecutorAdded", **{"Executor ID": "driver", "Executor Info": {"Host": "h", "Total Cores": 2}}),
        PROPERTIES,
        event("ApplicationStart", **{"App Name": "Iris", "App ID": "local-1", "Timestamp": 1000}),
    )
)
_STAGE = {
    "Stage ID": 0,
    "Stage Attempt ID": 0,
    "Stage Name": "count at /work/train.py:7",
    "Number of Tasks": 2,
    "Submission Time": 2000,
}
STAGE_0 = event("StageSubmitted", **{"Stage Info": _STAGE})


def completed(number: int, seconds: int, failure: str = "") -> str:
    """Return the end of a stage."""
    info = {**_STAGE, "Stage ID": number, "Completion Time": 1000 * seconds}
    return event("StageCompleted", **{"Stage Info": {**info, **({"Failure Reason": failure} if failure else {})}})


def task(stage: int) -> str:
    """Return the end of a successful task."""
    reason = {"Task Type": "ResultTask", "Task End Reason": {"Reason": "Success"}, "Task Info": {"Index": 0}}
    return event("TaskEnd", **{"Stage ID": stage, "Stage Attempt ID": 0, **reason})


def failed_task(stage: int, description: str) -> str:
    """Return the end of a task whose function raised an exception."""
    reason = {"Reason": "ExceptionFailure", "Class Name": "PythonException", "Description": description}
    info = {"Index": 1, "Attempt": 3, "Host": "node-2", "Executor ID": "4"}
    return event("TaskEnd", **{"Stage ID": stage, "Stage Attempt ID": 0, "Task End Reason": reason, "Task Info": info})


def write_log(run: Path, *lines: str, name: str = "local-1") -> Path:
    """Write the event log of an application into a run directory."""
    (run / "spark").mkdir(parents=True, exist_ok=True)
    path = run / "spark" / name
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    return path
