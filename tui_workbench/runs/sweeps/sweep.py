"""Sweeps: a script over a grid, a random choice or a list of argument values, so many runs at a time.

A sweep is a file that says which runs are to be made, and the runs themselves, which carry its name. All run the
snapshot and the configuration of the moment in which the sweep began: the members repeat the first. Which are made is
seen from the runs alone, so whoever was killed while making them, another process makes the rest and none twice.
Waiting for each other is the business of the line (`queueing`).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tui_workbench.core import locks
from tui_workbench.core.errors import RunNotFound, UsageError, WorkbenchError, storage_errors
from tui_workbench.core.files import append_below, load_json, make_folders, open_regular, unlink_below, write_below
from tui_workbench.core.model import Run, RunRequest
from tui_workbench.core.processes import start_detached
from tui_workbench.projects.project import Project
from tui_workbench.runs.lifecycle.building import without_secrets
from tui_workbench.runs.lifecycle.queueing import resume
from tui_workbench.runs.store import ownership, secret_arguments
from tui_workbench.runs.store.index import RunIndex
from tui_workbench.runs.store.rundir import RunDirectory
from tui_workbench.runs.submission.launch import create_run
from tui_workbench.runs.submission.planning import prepare

FOLDER = "sweeps"
MOST_MEMBERS = 1000
_PREFIX = "sweep-"
_ASKED, _MADE, _STOPPED, _ENVIRONMENT = ".json", ".made", ".stopped", ".environment"


class Member(NamedTuple):
    """One run of a sweep that is to be: its values by the parameters' names, and the arguments that they make."""

    values: dict[str, str]
    arguments: tuple[str, ...]


class Sweep(NamedTuple):
    """What was asked for."""

    group: str
    request: RunRequest
    members: tuple[Member, ...]
    max_parallel: int


def members_of(arguments: Sequence[str], value_sets: Sequence[dict[str, str]]) -> tuple[Member, ...]:
    """The members with these values: put where `{name}` stands in the arguments, or else appended as `--name value`.

    Raises UsageError when there are none or too many.
    """
    members = {values: _arguments(arguments, dict(values)) for values in (tuple(each.items()) for each in value_sets)}
    if not 0 < len(members) <= MOST_MEMBERS:
        raise UsageError(
            f"this makes {len(members)} runs, and a sweep has 1 to {MOST_MEMBERS}",
            remedy="Choose fewer values, or some at random with --random N." if members else "Name values.",
        )
    return tuple(Member(dict(values), made) for values, made in members.items())


def _arguments(arguments: Sequence[str], values: dict[str, str]) -> tuple[str, ...]:
    used: set[str] = set()

    def value_of(match: re.Match[str]) -> str:
        used.add(match[1])
        return values.get(match[1], match[0])

    placed = [re.sub(r"\{([^{}]+)\}", value_of, argument) for argument in arguments]
    missing = ((name, value) for name, value in values.items() if name not in used)
    return (*placed, *(word for name, value in missing for word in (f"--{name}", value)))


def create(project: Project, request: RunRequest, members: tuple[Member, ...], max_parallel: int) -> Sweep:
    """Write down what is asked for; nothing runs yet.

    Raises UsageError or ConfigurationError for what no run can be made of, StorageError.
    """
    if max_parallel < 1:
        raise UsageError(f"{max_parallel} runs at a time cannot be", remedy="Name 1 or more.")
    for member in members:
        secret_arguments.refuse_secrets(member.arguments)
    for member in members[:1]:
        prepare(project, _request_of(request, member.arguments))
    project.prepare_state()
    folder = os.path.join(project.state_directory, FOLDER)
    with storage_errors("write", folder):
        make_folders(project.state_directory, FOLDER)
        number = 1 + max((_number(name) for name in os.listdir(folder)), default=0)
        while True:
            sweep = Sweep(f"{_PREFIX}{number}", request, members, max_parallel)
            with contextlib.suppress(FileExistsError):
                _write(project, sweep)
                return sweep
            number += 1


def make_members(project: Project, group: str, made: Callable[[Run], object] | None = None) -> bool:
    """Make the runs of a sweep that are missing, each of which then begins in its turn.

    Returns False when another process is making them. Raises what making a run does; the rest can be made later.
    """
    try:
        file = open_regular(_path(project, group, _ASKED))
    except OSError as error:
        raise RunNotFound(f"there is no sweep {group!r}", remedy="`workbench-tui history list` names them.") from error
    with file:
        if not locks.try_lock(file.fileno()):
            return False
        _make(project, read(project, group), made)
    return True


def _make(project: Project, sweep: Sweep, made: Callable[[Run], object] | None) -> None:
    present = _present(project, sweep.group)
    in_line: list[RunDirectory] = []
    for number, member in enumerate(sweep.members, 1):
        if number in present or os.path.exists(_path(project, sweep.group, _STOPPED)):
            continue
        request = _repeating(_request_of(sweep.request, member.arguments), present.get(1))
        request = request._replace(group=sweep.group, member=number, group_limit=sweep.max_parallel)
        directory, lock, _ = create_run(project, request)
        lock.release()
        present[number] = directory
        in_line.append(directory)
        if made is not None:
            made(directory.run())
        if len(in_line) == sweep.max_parallel:
            resume(in_line)  # those for which there is room need not wait until all are there
    resume(in_line)
    _mark(project, sweep.group, _MADE)
    _forget(project, sweep.group)


def _request_of(request: RunRequest, arguments: tuple[str, ...]) -> RunRequest:
    return request._replace(arguments=arguments, exact_arguments=True)


def _repeating(request: RunRequest, first: RunDirectory | None) -> RunRequest:
    """The request as one to repeat the first member; as it is for the first, and where nothing can be repeated."""
    if first is None or first.read_record().snapshot == "copy":
        return request
    return request._replace(origin=first.run_id, run_configuration="", target="", environment=())


def _present(project: Project, group: str) -> dict[int, RunDirectory]:
    """The runs of the sweep that there are, by their place in it."""
    with RunIndex(project) as index:
        directories = [RunDirectory(run.directory) for run in index.runs() if run.group == group]
    return {directory.read_record().member: directory for directory in directories}


def resume_unfinished(project: Project) -> None:
    """Let what is missing of this user's own sweeps be made by a process of its own, where their maker was killed."""
    try:
        names = os.listdir(os.path.join(project.state_directory, FOLDER))
    except OSError:
        return
    for group in (name.removesuffix(_ASKED) for name in names if name.endswith(_ASKED)):
        if f"{group}{_MADE}" in names or f"{group}{_STOPPED}" in names or not _is_own(project, group):
            continue
        if not _is_being_made(project, group):
            module = ("-P", "-m", "tui_workbench.runs.sweeps.sweep")
            with contextlib.suppress(OSError):  # no further process can be: whoever looks next tries again
                start_detached([sys.executable, *module, project.root, group], os.environ)


def _is_own(project: Project, group: str) -> bool:
    """True for a sweep of this user's own; a name that is no sweep's is nobody's."""
    if not _number(group):
        return False
    files = (_path(project, group, suffix) for suffix in (_ASKED, _ENVIRONMENT))
    return all(ownership.own_record(path) is not None for path in files)


def _is_being_made(project: Project, group: str) -> bool:
    with contextlib.suppress(OSError), open_regular(_path(project, group, _ASKED)) as file:
        return locks.is_locked(file.fileno())
    return True  # gone meanwhile


def stop(project: Project, group: str) -> list[str]:
    """Make no more runs of a sweep. Returns the ids of those that have not ended, the last one first.

    Raises RunNotFound, StorageError.
    """
    read(project, group)
    _mark(project, group, _STOPPED)
    # Whoever is making them sees the mark before the next one: wait until that one is there.
    with open_regular(_path(project, group, _ASKED)) as file:
        locks.lock(file.fileno())
    present = sorted(_present(project, group).items(), reverse=True)
    return [directory.run_id for _, directory in present if not directory.status().end]


def read(project: Project, group: str) -> Sweep:
    """What was asked for. Raises RunNotFound."""
    path = _path(project, group, _ASKED)
    try:
        stored = load_json(path)
        request = stored["request"]
        request = RunRequest(
            **{
                **request,
                "arguments": tuple(request["arguments"]),
                "environment": tuple((name, value) for name, value in request["environment"]),
            }
        )
        # Lists are of earlier versions.
        pairs = (each if isinstance(each, list) else (each["values"], each["arguments"]) for each in stored["members"])
        members = tuple(Member(values, tuple(arguments)) for values, arguments in pairs)
        return Sweep(group, request, members, stored["max_parallel"])
    except FileNotFoundError as error:
        raise RunNotFound(
            f"there is no sweep {group!r} in {project.root}",
            remedy="`workbench-tui history list` shows the runs, with the sweep that they belong to.",
        ) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunNotFound(
            f"this sweep cannot be read ({type(error).__name__}: {error})", remedy="Begin it anew.", file=path
        ) from error


def _write(project: Project, sweep: Sweep) -> None:
    """Write the sweep's file, whole or not at all. Raises FileExistsError when the name is taken, and OSError."""
    stored = {
        "created": time.time(),
        "max_parallel": sweep.max_parallel,
        "request": sweep.request._asdict(),
        "members": [member._asdict() for member in sweep.members],
    }
    environment = json.dumps(without_secrets(os.environ)).encode()
    write_below(project.state_directory, _name(sweep.group, _ASKED), json.dumps(stored).encode(), exclusive=True)
    write_below(project.state_directory, _name(sweep.group, _ENVIRONMENT), environment)
    for suffix in (_ENVIRONMENT, _ASKED):
        ownership.register(_path(project, sweep.group, suffix))


def _number(name: str) -> int:
    text = name.partition(".")[0].removeprefix(_PREFIX)
    return int(text) if text.isascii() and text.isdigit() else 0


def _path(project: Project, group: str, suffix: str) -> str:
    return os.path.join(project.state_directory, _name(group, suffix))


def _name(group: str, suffix: str) -> str:
    """The name of one of a sweep's files below the project's state directory."""
    if not _number(group):
        raise RunNotFound(f"there is no sweep {group!r}", remedy="Sweeps are named as in `sweep-1`.")
    return f"{FOLDER}/{_PREFIX}{_number(group)}{suffix}"


def _mark(project: Project, group: str, suffix: str, note: str = "") -> None:
    with storage_errors("write", _path(project, group, suffix)):
        append_below(project.state_directory, _name(group, suffix), note.encode("utf-8", "replace"))


def _forget(project: Project, group: str) -> None:
    """The environment that the sweep was begun in is needed no more."""
    for suffix in (_ENVIRONMENT, _ASKED):
        ownership.forget(_path(project, group, suffix))
    with contextlib.suppress(OSError):
        unlink_below(project.state_directory, _name(group, _ENVIRONMENT))


def main(arguments: list[str]) -> int:
    """`python -m tui_workbench.runs.sweeps.sweep PROJECT GROUP`: make the missing runs."""
    project, group = Project(arguments[0]), arguments[1]
    environment = ownership.own_record(_path(project, group, _ENVIRONMENT))
    if environment is None:
        return 0  # it was made whole meanwhile, or is not this user's own
    os.environ.update(json.loads(environment))
    try:
        make_members(project, group)
    except WorkbenchError as error:
        # What fails now would fail at every look at the runs.
        _mark(project, group, _STOPPED, f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
