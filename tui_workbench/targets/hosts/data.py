"""Data of runs on the machine that executes them: check that it exists, link it, and measure it.

A script opens `../NAME` relative to its working copy, so the link for it is in the run's directory. Links in the
working copy are sent with its other files.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from typing import Any

from tui_workbench.config.schema.data_references import KEY, data_beside, data_paths
from tui_workbench.core.errors import ConfigurationError, WorkbenchError
from tui_workbench.core.files import unlink_below
from tui_workbench.core.model import RunSpec
from tui_workbench.core.numbers import seconds_number, whole_number
from tui_workbench.core.plaintext import counted
from tui_workbench.core.progress import size_text
from tui_workbench.core.shell_scripts import shell_script
from tui_workbench.projects.project import line_of_key
from tui_workbench.targets.hosts.host import Host
from tui_workbench.targets.hosts.host_layout import run_directory
from tui_workbench.targets.values import Report

MOST_ENTRIES = 100_000
"""Maximum number of files and folders that are counted for one path."""

SECONDS = 20
"""Maximum time in seconds for counting the files of one path."""

_MISSING = 9  # exit code of link_data.sh

_LINK = shell_script("targets/hosts/scripts/link_data.sh")

_MEASURE = shell_script("targets/hosts/scripts/measure_data.sh")


def place_data(host: Host, spec: RunSpec, report: Report, *, links: bool = True) -> None:
    """Check that all data of a run can be read on the host and, with `links`, link data beside the working copy.

    `HostRun.remove_copy` removes the links from another machine, `unlink_data` from this machine. The call can be
    repeated. Raises ConfigurationError, TargetUnreachable or WorkbenchError.
    """
    references = spec.run_configuration.data_references
    paths = data_paths(spec.project_root, references)
    if not paths:
        return
    report.begin("data", "")
    beside = data_beside(spec.project_root, references) if links and spec.tracked else {}
    pairs = [*beside.items(), *(("", path) for path in paths.values())]
    words = [word for pair in pairs for word in pair]
    done = host.run(["sh", "-c", _LINK, "sh", run_directory(host, spec), *words])
    if done.code == _MISSING:
        missing = list(dict.fromkeys(done.stdout.decode("utf-8", "surrogateescape").split("\0")[:-1]))
        raise missing_data(spec, missing, host.label)
    if done.code:
        message = f"cannot link the data of the run on {host.label}: {done.complaint}"
        raise WorkbenchError(message, remedy="Check the free space and the permissions there, then try again.")
    report.done("data")


def missing_data(spec: RunSpec, paths: list[str], label: str) -> ConfigurationError:
    """Return an error for data that does not exist on the machine with this label."""
    path = spec.run_configuration.path
    return ConfigurationError(
        f"{KEY}: not found or not readable on {label}: {', '.join(paths)}",
        remedy=f"Copy the data to {label}, correct the path in the run configuration, or allow your user to read the "
        "data.",
        file=path,
        line=line_of_key(path, KEY),
    )


def unlink_data(spec: RunSpec) -> None:
    """Remove the links of `place_data` from the run's directory on this machine, if possible."""
    for name in data_beside(spec.project_root, spec.run_configuration.data_references):
        if os.path.islink(os.path.join(spec.run_directory, name)):
            with contextlib.suppress(OSError):
                unlink_below(spec.run_directory, name)


def measure_data(host: Host, spec: RunSpec) -> dict[str, dict[str, Any]]:
    """Return path, number of files, bytes and latest modification time of all data, by the path that scripts open.

    `complete` is False if not all files could be counted. Raises TargetUnreachable or WorkbenchError.
    """
    paths = data_paths(spec.project_root, spec.run_configuration.data_references)
    if not paths:
        return {}
    done = host.run(
        ["sh", "-c", _MEASURE, "sh", str(SECONDS), str(MOST_ENTRIES), *paths.values()],
        timeout=(SECONDS + 10.0) * len(paths),
    )
    return dict(_measured(paths, done.text.split("\n")))


def _measured(paths: Mapping[str, str], lines: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    for (opened, path), line in zip(paths.items(), lines, strict=False):
        words = line.split()
        if len(words) != 4:  # awk may be missing
            continue
        files, size, modified = whole_number(words[0]), whole_number(words[1]), seconds_number(words[2])
        if files is not None and size is not None and modified is not None:
            facts = {"files": files, "bytes": size, "modified": modified, "complete": words[3] == "1"}
            yield opened, {"path": path, **facts}


def describe_data(measured: Any) -> dict[str, str]:
    """Return the result of `measure_data` as texts. It may come from a malformed file."""
    texts = {}
    for opened, facts in measured.items() if isinstance(measured, dict) else ():
        try:
            path, files, size, modified = (facts[name] for name in ("path", "files", "bytes", "modified"))
            least = "" if facts["complete"] else "at least "
            moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(modified))
            text = f"{least}{counted(files, 'file')}, {least}{size_text(size)}, last changed {moment}"
            text = text if modified else "the files could not be counted"
        except (KeyError, TypeError, ValueError, OverflowError, OSError):
            continue
        texts[str(opened)] = text if path == opened else f"{path}: {text}"
    return texts
