"""Sweeps: a script over a grid, a random choice or a list of argument values, so many runs at a time.

A sweep is a file that says which runs are to be made, and the runs themselves, which carry its name. All run the
snapshot and the configuration of the moment in which the sweep began: the members repeat the first. Which are made is
seen from the runs alone, so whoever was killed while making them, another process makes the rest and none twice.
Waiting for each other is the business of the line (`queueing`).
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time

from tui_workbench.errors import RunNotFound, UsageError, WorkbenchError
from tui_workbench.model import RunRequest
from tui_workbench.records import TYPE_CHECKING, NamedTuple
from tui_workbench.runs.pending import is_secret
from tui_workbench.runs.rundir import RunDirectory, storage_error

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tui_workbench.model import Run
    from tui_workbench.project import Project

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
    import re

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
    from tui_workbench.runs.launch import prepare

    if max_parallel < 1:
        raise UsageError(f"{max_parallel} runs at a time cannot be", remedy="Name 1 or more.")
    for member in members[:1]:
        prepare(project, _request_of(request, member.arguments))
    project.prepare_state()
    folder = os.path.join(project.state_directory, FOLDER)
    try:
        os.makedirs(folder, exist_ok=True)
        number = 1 + max((_number(name) for name in os.listdir(folder)), default=0)
        while True:
            sweep = Sweep(f"{_PREFIX}{number}", request, members, max_parallel)
            if _write(project, sweep):
                return sweep
            number += 1
    except OSError as error:
        raise storage_error("write", folder, error) from error


def make_members(project: Project, group: str, made: Callable[[Run], object] | None = None) -> bool:
    """Make the runs of a sweep that are missing, each of which then begins in its turn.

    Returns False when another process is making them. Raises what making a run does; the rest can be made later.
    """
    path = _path(project, group, _ASKED)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise RunNotFound(f"there is no sweep {group!r}", remedy="`workbench-tui history list` names them.") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _make(project, read(project, group), made)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def _make(project: Project, sweep: Sweep, made: Callable[[Run], object] | None) -> None:
    from tui_workbench.runs.launch import create_run
    from tui_workbench.runs.queueing import resume

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
    from tui_workbench.runs.index import RunIndex

    with RunIndex(project) as index:
        directories = [RunDirectory(run.directory) for run in index.runs() if run.group == group]
    return {directory.read_record().member: directory for directory in directories}


def resume_unfinished(project: Project) -> None:
    """Let what is missing of sweeps be made by a process of its own, where their maker was killed."""
    try:
        names = os.listdir(os.path.join(project.state_directory, FOLDER))
    except OSError:
        return
    for group in (name.removesuffix(_ASKED) for name in names if name.endswith(_ASKED)):
        if f"{group}{_MADE}" not in names and f"{group}{_STOPPED}" not in names and not _is_being_made(project, group):
            _spawn(project, group)


def _is_being_made(project: Project, group: str) -> bool:
    try:
        descriptor = os.open(_path(project, group, _ASKED), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return True  # gone meanwhile
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    else:
        return False
    finally:
        os.close(descriptor)


def _spawn(project: Project, group: str) -> None:
    from tui_workbench.targets.children import start_detached

    try:
        start_detached([sys.executable, "-P", "-m", "tui_workbench.runs.sweep", project.root, group], os.environ)
    except OSError:
        return  # no further process can be: whoever looks next tries again


def stop(project: Project, group: str) -> list[str]:
    """Make no more runs of a sweep. Returns the ids of those that have not ended, the last one first.

    Raises RunNotFound, StorageError.
    """
    read(project, group)
    _mark(project, group, _STOPPED)
    # Whoever is making them sees the mark before the next one: wait until that one is there.
    with open(_path(project, group, _ASKED), "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
    present = sorted(_present(project, group).items(), reverse=True)
    return [directory.run_id for _, directory in present if not directory.status().end]


def read(project: Project, group: str) -> Sweep:
    """What was asked for. Raises RunNotFound."""
    path = _path(project, group, _ASKED)
    try:
        with open(path, encoding="utf-8") as file:
            stored = json.load(file)
        request = stored["request"]
        request = RunRequest(
            **{
                **request,
                "arguments": tuple(request["arguments"]),
                "environment": tuple((name, value) for name, value in request["environment"]),
            }
        )
        members = tuple(Member(values, tuple(arguments)) for values, arguments in stored["members"])
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


def _write(project: Project, sweep: Sweep) -> bool:
    """Write the sweep's file, whole or not at all; False when the name is taken."""
    path = _path(project, sweep.group, _ASKED)
    kept = {name: value for name, value in os.environ.items() if not is_secret(name, value)}
    stored = {
        "created": time.time(),
        "max_parallel": sweep.max_parallel,
        "request": sweep.request._asdict(),
        "members": sweep.members,
    }
    temporary = f"{path}.{os.getpid()}.new"
    try:
        _write_json(temporary, stored)
        os.link(temporary, path)
        _write_json(_path(project, sweep.group, _ENVIRONMENT), kept)
    except FileExistsError:
        return False
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)
    return True


def _write_json(path: str, content: object) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        json.dump(content, file)


def _number(name: str) -> int:
    text = name.partition(".")[0].removeprefix(_PREFIX)
    return int(text) if text.isascii() and text.isdigit() else 0


def _path(project: Project, group: str, suffix: str) -> str:
    if not _number(group):
        raise RunNotFound(f"there is no sweep {group!r}", remedy="Sweeps are named as in `sweep-1`.")
    return os.path.join(project.state_directory, FOLDER, f"{_PREFIX}{_number(group)}{suffix}")


def _mark(project: Project, group: str, suffix: str, note: str = "") -> None:
    path = _path(project, group, suffix)
    try:
        with open(path, "a", encoding="utf-8", errors="replace") as file:
            file.write(note)
    except OSError as error:
        raise storage_error("write", path, error) from error


def _forget(project: Project, group: str) -> None:
    """The environment that the sweep was begun in is needed no more."""
    try:
        os.unlink(_path(project, group, _ENVIRONMENT))
    except OSError:
        return


def main(arguments: list[str]) -> int:
    """`python -m tui_workbench.runs.sweep PROJECT GROUP`: make what is missing, as whoever began it would have."""
    from tui_workbench.project import Project

    project, group = Project(arguments[0]), arguments[1]
    try:
        with open(_path(project, group, _ENVIRONMENT), encoding="utf-8") as file:
            os.environ.update(json.load(file))
    except (OSError, ValueError):
        pass  # it was made whole meanwhile, or only the environment of this process is left to take
    try:
        make_members(project, group)
    except WorkbenchError as error:
        # What fails now would fail at every look at the runs.
        _mark(project, group, _STOPPED, f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
