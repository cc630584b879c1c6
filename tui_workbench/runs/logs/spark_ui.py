"""Find the address of the Spark user interface of an active run, and create the Spark part of a history record."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any, NamedTuple

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.files import open_regular
from tui_workbench.core.model import Run
from tui_workbench.core.moments import utc
from tui_workbench.runs.logs.spark_events import SparkApplication, read_spark
from tui_workbench.runs.store.rundir import RunDirectory
from tui_workbench.targets.hosts.serving import local_port
from tui_workbench.targets.registry import target_for

_HEAD_BYTES = 1 << 20
"""Number of bytes at the beginning of the log in which the driver reports its port."""

# Source: Utils.startServiceOnPort of Spark. The second message is a warning, which logs without INFO also contain.
_PORT = re.compile(
    rb"started service 'SparkUI' on port (\d{1,5})\b|'SparkUI' could not bind on port \d+. Attempting port (\d{1,5})\b"
)
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,252}")

# Source: yarn.Client of Spark. It reports the state of the application every second, and its address on changes.
_REPORTED = re.compile(rb"Application report for (application_\d{1,20}_\d{1,10}) \(state: \w+\)")
_TRACKING = re.compile(rb"tracking URL: (https?)://([A-Za-z0-9][A-Za-z0-9.-]{0,252})(?::(\d{1,5}))?(/[\w./-]{0,500})\s")
_YARN = "yarn"


class SparkAddress(NamedTuple):
    """The address of a user interface. `forward` is the command that makes it reachable from this machine, or ""."""

    url: str
    forward: str = ""


def address_of(run: Run, application: SparkApplication) -> SparkAddress | None:
    """Return the current address of an application's user interface, or None if it is unknown. This blocks.

    The script can write any host into its log. The host must be a name or an IPv4 address, because the user may copy
    the command to a shell.
    """
    if application.end or not run.is_active:
        return None
    head = _head_of(run.log_path)
    tracked = _tracking_address(head) if application.master == _YARN else None
    # If port 4040 is in use, Spark tries the next ports, so the last port in the log is the right one.
    ports = [int(started or attempted) for started, attempted in _PORT.findall(head)]
    port = next((port for port in reversed(ports) if 0 < port < 1 << 16), application.ui_port)
    scheme, host, port, path = tracked or ("http", application.ui_host, port, "")
    if not port or not _HOST.fullmatch(host):
        return None
    is_here = True
    with suppress(WorkbenchError):
        is_here = target_for(RunDirectory(run.directory).read_record().spec.target).host.is_local
    if is_here:
        return SparkAddress(f"{scheme}://{host}:{port}{path}")
    command = f"workbench-tui open -r {run.run_number or run.run_id} port {host}:{port}"
    return SparkAddress(f"{scheme}://localhost:{local_port(port)}{path}", command)


def with_application_of_yarn(run: Run, applications: list[SparkApplication]) -> list[SparkApplication]:
    """Return `applications`. If it is empty, return the application in the log of `spark-submit`. This blocks."""
    if applications:
        return applications
    match = _REPORTED.search(_head_of(run.log_path))
    return [SparkApplication(match[1].decode("ascii"), master=_YARN, has_events=False)] if match else []


def _tracking_address(head: bytes) -> tuple[str, str, int, str] | None:
    """Return scheme, host, port and path of YARN's tracking URL, which redirects to the user interface, or None."""
    addresses = _TRACKING.findall(head)
    if not addresses:
        return None
    scheme, host, port, rest = (part.decode("ascii", "replace") for part in addresses[-1])
    return scheme, host, min(int(port or (443 if scheme == "https" else 80)), (1 << 16) - 1), rest


def _head_of(path: str) -> bytes:
    with suppress(OSError), open_regular(path) as file:
        return file.read(_HEAD_BYTES)
    return b""


def spark_record(run: Run) -> dict[str, Any]:
    """Return the Spark applications of a run for its history record; {} without applications. This blocks."""
    applications = with_application_of_yarn(run, read_spark(run.directory))
    records = [_application_record(run, application) for application in applications]
    return {"applications": records} if records else {}


def _application_record(run: Run, application: SparkApplication) -> dict[str, Any]:
    address = address_of(run, application)
    stages = [{**stage._asdict(), "start": utc(stage.start), "end": utc(stage.end)} for stage in application.stages]
    return {
        "id": application.identifier,
        "name": application.name,
        "version": application.version,
        "master": application.master,
        "start_time_utc": utc(application.start),
        "end_time_utc": utc(application.end),
        "executors": application.executors,
        "cores": application.cores,
        "ui": address._asdict() if address is not None else None,
        "stages": stages,
        "stages_left_out": application.more_stages,
        "failed_tasks": [task._asdict() for task in application.failed_tasks],
        "failed_tasks_left_out": application.more_failed,
    }
