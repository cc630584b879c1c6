"""Run a script with a grid, a random choice or a list of argument values.

A sweep consists of a file with the requested runs (members), and of the runs, whose `group` is the name of the sweep.
With git, all runs use the snapshot and the configuration from the start of the sweep, because later members repeat the
first run. If the process that creates the runs is killed, another process creates the missing runs. The queue
(`queueing`) limits the number of active runs.
"""

from __future__ import annotations

import contextlib
import itertools
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
from tui_workbench.core.json_values import parse_json
from tui_workbench.core.model import Run, RunRequest, Seeds, SweepTask
from tui_workbench.core.processes import start_detached
from tui_workbench.core.trace import current_agent, forget_agent
from tui_workbench.projects.project import Project
from tui_workbench.runs.index.index import RunIndex
from tui_workbench.runs.lifecycle.queueing import resume
from tui_workbench.runs.lifecycle.stored_environment import without_secrets
from tui_workbench.runs.store import ownership, secret_arguments
from tui_workbench.runs.store.arguments import ASSIGNMENT, is_option
from tui_workbench.runs.store.rundir import RunDirectory
from tui_workbench.runs.submission.launch import create_run
from tui_workbench.runs.submission.planning import prepare

FOLDER = "sweeps"
MOST_MEMBERS = 1000
_PREFIX = "sweep-"
_REQUEST, _COMPLETE, _STOPPED, _ENVIRONMENT = ".json", ".made", ".stopped", ".environment"


class Member(NamedTuple):
    """A requested run of a sweep: its parameter values and its arguments."""

    values: dict[str, str]
    arguments: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()
    family: int = 0  # number of the family, from 1: members that differ only in the seed; 0 without seeds


class Sweep(NamedTuple):
    """The request of a sweep."""

    group: str
    request: RunRequest
    members: tuple[Member, ...]
    max_parallel: int
    created: float  # seconds since the epoch


def members_of(
    arguments: Sequence[str], value_sets: Sequence[dict[str, str]], seeds: Seeds | None = None
) -> tuple[Member, ...]:
    """Return a member for each different set of values.

    A value replaces `{name}` in the arguments, or else the value of the option `--name`, `-name` or `name=`. Without
    these, the value is added in the form of the other arguments: `--name=value`, `name=value`, or else `--name value`.
    Raises UsageError if the sweep has no members or too many, or if the value of an option is ambiguous.
    """
    if seeds is not None and not seeds.variable and any(seeds.name in values for values in value_sets):
        raise UsageError(
            f"{seeds.name!r} is both a parameter of the sweep and the name of the seed",
            remedy="Choose another name for the seed with `--seed-argument NAME`, or omit the parameter.",
        )
    unique = [dict(values) for values in dict.fromkeys(tuple(values.items()) for values in value_sets)]
    total = len(unique) * (seeds.number if seeds is not None else 1)
    if not 0 < total <= MOST_MEMBERS:
        remedy = f"Use fewer values or rows, or run at most {MOST_MEMBERS} combinations of `--param` with `--random N`."
        if not total:
            remedy = "Give values with `--param lr=0.1,0.01`, or in the file of `--list FILE`."
        elif len(unique) <= MOST_MEMBERS:
            remedy = "Use a smaller `--repeat N`."
        raise UsageError(f"the sweep has {total} runs, but must have 1 to {MOST_MEMBERS}", remedy=remedy)
    if seeds is None:
        return tuple(Member(values, _arguments(arguments, values)) for values in unique)
    return tuple(
        _seeded(arguments, values, seeds, str(seed), family)
        for family, values in enumerate(unique, 1)
        for seed in range(1, seeds.number + 1)
    )


def _seeded(arguments: Sequence[str], values: dict[str, str], seeds: Seeds, seed: str, family: int) -> Member:
    if seeds.variable:
        return Member(values, _arguments(arguments, values), ((seeds.variable, seed),), family)
    values = {**values, seeds.name: seed}
    return Member(values, _arguments(arguments, values), family=family)


def _arguments(arguments: Sequence[str], values: dict[str, str]) -> tuple[str, ...]:
    used: set[str] = set()

    def value_of(match: re.Match[str]) -> str:
        used.add(match[1])
        return values.get(match[1], match[0])

    placed = [re.sub(r"\{([^{}]+)\}", value_of, argument) for argument in arguments]
    for name, value in values.items():
        if name not in used:
            placed = _with_option(placed, name, value)
    return tuple(placed)


def _with_option(arguments: list[str], name: str, value: str) -> list[str]:
    """Replace the value of an option, or add the option in the form of the other arguments. Raises UsageError."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    arguments, positional = arguments[:end], arguments[end:]
    indexes = [index for index, word in enumerate(arguments) if _is_named(word, name)]
    if len(indexes) > 1:
        raise _ambiguous(name, f"the script gets {name!r} more than once")
    if not indexes:
        return [*arguments, *_new_option(arguments, name, value), *positional]
    before, (word, *rest) = arguments[: indexes[0]], arguments[indexes[0] :]
    option, equals, _ = word.partition("=")
    if equals:
        return [*before, f"{option}={value}", *rest, *positional]
    values = list(itertools.takewhile(lambda argument: not is_option(argument), rest))
    if len(values) > 1:
        raise _ambiguous(name, f"cannot tell which words after {option} are values of this option")
    return [*before, option, value, *rest[len(values) :], *positional]


def _is_named(word: str, name: str) -> bool:
    option, equals, _ = word.partition("=")
    return option in (f"--{name}", f"-{name}") or (bool(equals) and option == name)


def _new_option(arguments: list[str], name: str, value: str) -> list[str]:
    options = [word for word in arguments if word.startswith("--")]
    if not options and any(ASSIGNMENT.match(word) for word in arguments):
        return [f"{name}={value}"]
    # argparse takes a separate value that begins with `-` for an option.
    if any("=" in word for word in options) or value.startswith("-"):
        return [f"--{name}={value}"]
    return [f"--{name}", value]


def _ambiguous(name: str, message: str) -> UsageError:
    return UsageError(message, remedy=f"Write `{{{name}}}` in the arguments where the value belongs.")


def check_parallel(number: int) -> None:
    """Raise UsageError for an invalid maximum number of parallel runs."""
    if number < 1:
        raise UsageError(f"invalid maximum number of parallel runs: {number}", remedy="Use `--max-parallel 1` or more.")


def create(project: Project, request: RunRequest, members: tuple[Member, ...], max_parallel: int) -> Sweep:
    """Write the files of a new sweep and return it, without starting a run.

    Raises StorageError, and UsageError or ConfigurationError for a request that cannot run.
    """
    check_parallel(max_parallel)
    for member in members:
        secret_arguments.refuse_secrets(member.arguments)
    for member in members[:1]:
        prepare(project, request_of(request, member))
    request = request._replace(agent=request.agent or current_agent())
    project.prepare_state()
    folder = os.path.join(project.state_directory, FOLDER)
    with storage_errors("write", folder):
        make_folders(project.state_directory, FOLDER)
        number = 1 + max((_number(name) for name in os.listdir(folder)), default=0)
        while True:
            sweep = Sweep(f"{_PREFIX}{number}", request, members, max_parallel, time.time())
            with contextlib.suppress(FileExistsError):
                _write(project, sweep)
                return sweep
            number += 1


def make_members(project: Project, group: str, made: Callable[[Run], object] | None = None) -> bool:
    """Create and queue the missing runs of a sweep.

    Return False if another process is creating these runs. Raises the errors of `read` and `create_run`. After an
    error, a later call creates the runs that are still missing.
    """
    sweep = read(project, group)
    with open_regular(_path(project, group, _REQUEST)) as file:
        if not locks.try_lock(file.fileno()):
            return False
        _make(project, sweep, made)
    return True


def _make(project: Project, sweep: Sweep, made: Callable[[Run], object] | None) -> None:
    present = _present(project, sweep.group)
    new: list[RunDirectory] = []
    for number, member in enumerate(sweep.members, 1):
        if number in present or os.path.exists(_path(project, sweep.group, _STOPPED)):
            continue
        request = _repeating(request_of(sweep.request, member), member, present.get(1))
        task = SweepTask(f"{sweep.group}-{sweep.created * 1000:.0f}", number, len(sweep.members), sweep.max_parallel)
        request = request._replace(group=sweep.group, member=number, group_limit=sweep.max_parallel, sweep=task)
        if member.family:
            request = request._replace(family=f"{sweep.group}.{member.family}")
        directory, lock, _ = create_run(project, request)
        lock.release()  # the queue starts only runs whose lock is free
        present[number] = directory
        new.append(directory)
        if made is not None:
            made(directory.run())
        if len(new) == sweep.max_parallel:
            resume(new)  # start these runs before the others are created
    resume(new)
    # Mark the sweep last: if this process is killed before, another process creates the missing runs.
    _mark(project, sweep.group, _COMPLETE)
    _forget(project, sweep.group)


def request_of(request: RunRequest, member: Member) -> RunRequest:
    """Return the request for a member of the sweep."""
    environment = (*request.environment, *member.environment)
    return request._replace(arguments=member.arguments, environment=environment, exact_arguments=True)


def _repeating(request: RunRequest, member: Member, first: RunDirectory | None) -> RunRequest:
    """Return the request, changed to repeat the first run if this run exists and can be repeated."""
    if first is None or first.read_record().snapshot == "copy":
        return request
    return request._replace(
        origin=first.run_id, run_configuration="", target="", environment=member.environment, slurm=""
    )


def _present(project: Project, group: str) -> dict[int, RunDirectory]:
    """Return the existing runs of the sweep by member number."""
    with RunIndex(project) as index:
        directories = [RunDirectory(run.directory) for run in index.runs() if run.group == group]
    return {directory.read_record().member: directory for directory in directories}


def resume_unfinished(project: Project) -> None:
    """For each interrupted sweep of this user, start a process that creates the missing runs."""
    try:
        names = os.listdir(os.path.join(project.state_directory, FOLDER))
    except OSError:
        return
    for group in (name.removesuffix(_REQUEST) for name in names if name.endswith(_REQUEST)):
        if f"{group}{_COMPLETE}" in names or f"{group}{_STOPPED}" in names or not _is_own(project, group):
            continue
        if not _is_locked(project, group):
            module = ("-P", "-m", "tui_workbench.runs.sweeps.sweep")
            with contextlib.suppress(OSError):  # no process could be started; the next caller retries
                start_detached([sys.executable, *module, project.root, group], os.environ)


def is_being_made(project: Project, group: str) -> bool:
    """Return True if a sweep has not created all its runs, and was not stopped."""
    if not _number(group):
        return False
    has = {suffix: os.path.exists(_path(project, group, suffix)) for suffix in (_REQUEST, _COMPLETE, _STOPPED)}
    return has[_REQUEST] and not (has[_COMPLETE] or has[_STOPPED])


def _is_own(project: Project, group: str) -> bool:
    if not _number(group):
        return False
    files = (_path(project, group, suffix) for suffix in (_REQUEST, _ENVIRONMENT))
    return all(ownership.own_record(path) is not None for path in files)


def _is_locked(project: Project, group: str) -> bool:
    with contextlib.suppress(OSError), open_regular(_path(project, group, _REQUEST)) as file:
        return locks.is_locked(file.fileno())
    return True  # the sweep was removed


def stop(project: Project, group: str) -> list[str]:
    """Stop the creation of runs of a sweep. Return the IDs of its active runs, in reverse order of the members.

    Raises RunNotFound or StorageError.
    """
    read(project, group)
    _mark(project, group, _STOPPED)
    # A process that is creating runs checks this mark before each run. Wait until it has stopped.
    with open_regular(_path(project, group, _REQUEST)) as file:
        locks.lock(file.fileno())
    present = sorted(_present(project, group).items(), reverse=True)
    return [directory.run_id for _, directory in present if not directory.status().end]


def read(project: Project, group: str) -> Sweep:
    """Read the request of a sweep. Raises RunNotFound."""
    path = _path(project, group, _REQUEST)
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
        # Earlier versions wrote lists.
        stored_members = (
            (*member, (), 0)
            if isinstance(member, list)
            else (member["values"], member["arguments"], member.get("environment", ()), member.get("family", 0))
            for member in stored["members"]
        )
        members = tuple(
            Member(values, tuple(arguments), tuple((name, value) for name, value in environment), family)
            for values, arguments, environment, family in stored_members
        )
        return Sweep(group, request, members, stored["max_parallel"], stored["created"])
    except FileNotFoundError as error:
        raise RunNotFound(
            f"no sweep {group!r} in {project.root}",
            remedy="`workbench-tui history list` lists the runs and their sweeps.",
        ) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunNotFound(
            f"cannot read this sweep: {error or type(error).__name__}",
            remedy="Check the permissions of the file. If it is damaged, the sweep cannot continue; cancel its "
            "runs with `workbench-tui experiment cancel -r ID`.",
            file=path,
        ) from error


def _write(project: Project, sweep: Sweep) -> None:
    """Write the files of a sweep atomically. Raises OSError, and FileExistsError if the name exists."""
    stored = {
        "created": sweep.created,
        "max_parallel": sweep.max_parallel,
        "request": sweep.request._asdict(),
        "members": [member._asdict() for member in sweep.members],
    }
    environment = json.dumps(without_secrets(os.environ)).encode()
    # The request is written first, because its exclusive creation takes the name of the sweep.
    write_below(project.state_directory, _name(sweep.group, _REQUEST), json.dumps(stored).encode(), exclusive=True)
    write_below(project.state_directory, _name(sweep.group, _ENVIRONMENT), environment)
    for suffix in (_ENVIRONMENT, _REQUEST):
        ownership.register(_path(project, sweep.group, suffix))


def _number(name: str) -> int:
    text = name.partition(".")[0].removeprefix(_PREFIX)
    return int(text) if text.isascii() and text.isdigit() else 0


def _path(project: Project, group: str, suffix: str) -> str:
    return os.path.join(project.state_directory, _name(group, suffix))


def _name(group: str, suffix: str) -> str:
    """Return the path of a file of a sweep, relative to the state directory. Raises RunNotFound."""
    if not _number(group):
        raise RunNotFound(
            f"no sweep {group!r}",
            remedy="Use a name such as `sweep-1`. `workbench-tui history list` lists the runs and their sweeps.",
        )
    return f"{FOLDER}/{_PREFIX}{_number(group)}{suffix}"


def _mark(project: Project, group: str, suffix: str, note: str = "") -> None:
    with storage_errors("write", _path(project, group, suffix)):
        append_below(project.state_directory, _name(group, suffix), note.encode("utf-8", "replace"))


def _forget(project: Project, group: str) -> None:
    """Remove the stored environment of a sweep and its entries in the registry."""
    for suffix in (_ENVIRONMENT, _REQUEST):
        ownership.forget(_path(project, group, suffix))
    with contextlib.suppress(OSError):
        unlink_below(project.state_directory, _name(group, _ENVIRONMENT))


def main(arguments: list[str]) -> int:
    """Execute `python -m tui_workbench.runs.sweeps.sweep PROJECT GROUP`, and return its exit code.

    The program creates the missing runs of a sweep.
    """
    project, group = Project(arguments[0]), arguments[1]
    environment = ownership.own_record(_path(project, group, _ENVIRONMENT))
    if environment is None:
        return 0  # the sweep is complete, or not this user's own
    forget_agent()  # the agent that started this process, which may not be the submitter of the sweep
    os.environ.update(parse_json(environment))
    try:
        make_members(project, group)
    except WorkbenchError as error:
        # Each further attempt would raise the same error.
        _mark(project, group, _STOPPED, f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
