"""Collect the provenance of a tracked run: `provenance.json` and `git.diff` in its directory.

The provenance consists of the snapshot, the state and uncommitted changes of the user's own repository, packages,
interpreter or image, machine, GPUs, size of the data, and the seeds in arguments and variables. A child of the
controller with low priority, or a thread of the watcher, collects it while the script runs, and writes it once. For a
value that could not be collected, the reason is recorded. Secrets in addresses are masked.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tui_workbench import __version__
from tui_workbench.core.directories import with_parents
from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.files import load_json, open_regular
from tui_workbench.core.git import GitError, run_git, without_fetching
from tui_workbench.core.masking import MASK
from tui_workbench.core.secret_names import is_secret_name
from tui_workbench.runs.snapshots.project_files import files_with_secrets
from tui_workbench.runs.store.rundir import DIFF, FOLLOWED, PROVENANCE, Record, RunDirectory
from tui_workbench.targets.base.registry import target_for
from tui_workbench.targets.hosts.data import measure_data

SCHEMA = 1

LARGEST_DIFF = 10 << 20
"""Maximum size of a stored diff of uncommitted changes, in bytes. The snapshot contains all changes."""

OWN_PACKAGES = "packages.json"
"""The file in which sdk/workbench_packages.py names the packages of the project that the run replaced."""

MOST_NAMES = 10_000
GIT_SECONDS = 60.0
NICENESS = 10

_USER_PART = re.compile(r"^([a-z][a-z0-9+.-]*://)([^/@]*)@", re.IGNORECASE)
_SEED = re.compile(r"(?:^|[-_.])(?:\w*seed)$", re.IGNORECASE)


def is_due(directory: RunDirectory, record: Record) -> bool:
    """Return True if the provenance of a tracked run that this machine submitted has not been collected."""
    return record.spec.tracked and not any(os.path.exists(directory.file(name)) for name in (PROVENANCE, FOLLOWED))


def start_collecting(directory: RunDirectory, record: Record, lock: int) -> int:
    """Collect the provenance in a child process, which closes the inherited `lock`.

    This process must be single-threaded. Return the descriptor of a pipe that reaches end of file when the provenance
    is collected, or -1 if no child was started.
    """
    if not is_due(directory, record):
        return -1
    reading, writing = os.pipe()
    try:
        pid = os.fork()
    except OSError:
        os.close(reading)
        os.close(writing)
        return -1
    if pid == 0:
        _run_child(directory, record, (reading, lock))
    os.close(writing)
    os.waitpid(pid, 0)
    return reading


def _run_child(directory: RunDirectory, record: Record, inherited: Sequence[int]) -> None:
    """Collect the provenance in a grandchild, which init adopts, so that no zombie remains.

    The grandchild keeps the pipe open until it ends.
    """
    try:
        for descriptor in inherited:
            os.close(descriptor)
        if os.fork() == 0:
            os.nice(NICENESS)
            write_provenance(directory, record)
    finally:
        os._exit(0)


def write_provenance(directory: RunDirectory, record: Record) -> None:
    """Collect and write the provenance. Raises StorageError."""
    found, diff = collect(record)
    if diff:
        directory.write(DIFF, diff, durable=True)
    directory.write(PROVENANCE, json.dumps(found, indent=1).encode() + b"\n", durable=True)


def collect(record: Record) -> tuple[dict[str, Any], bytes]:
    """Return the contents of `provenance.json` and `git.diff`. This can take several seconds."""
    spec = record.spec
    git, diff = _git_of_origin(record) or git_state(spec.project_root)
    machine: dict[str, Any] = {}
    data: dict[str, Any] = {}
    try:
        environment = target_for(spec.target).python_environment(spec)
        machine = environment.machine_info(record.plan.interpreter)
        data = measure_data(environment.host, spec)
    except WorkbenchError as error:
        machine.setdefault("problems", {})["data" if machine else "machine"] = str(error)
    packages = machine.get("packages")
    if isinstance(packages, dict):
        machine["packages"] = {str(name): _without_secrets(packages[name]) for name in sorted(packages)}
    found = {
        "schema": SCHEMA,
        "collected": round(time.time(), 3),
        "workbench": __version__,
        "user": record.user_id,
        "submitted_from": os.uname().nodename,
        "snapshot": {"kind": record.snapshot, "commit": record.commit_id or None},
        "git": git,
        "seeds": find_seeds(spec.arguments, spec.run_configuration.environment_variables),
        "data": data,
        **machine,
    }
    with contextlib.suppress(OSError, ValueError):
        found["own_packages"] = load_json(os.path.join(spec.run_directory, OWN_PACKAGES))
    return found, diff


def _git_of_origin(record: Record) -> tuple[dict[str, Any] | None, bytes] | None:
    """Return the git state and the diff of the run that `record` repeats, or None if it does not repeat a run."""
    if not record.origin:
        return None
    origin = os.path.join(os.path.dirname(record.spec.run_directory), record.origin)
    try:
        git = load_json(os.path.join(origin, PROVENANCE))["git"]
        if not git or not git.get("diff"):
            return git, b""
        with open_regular(os.path.join(origin, DIFF)) as diff:
            return git, diff.read(LARGEST_DIFF)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        # The current state of the project may differ from that of the earlier run.
        return {"problem": f"the provenance of {record.origin} was not recorded"}, b""


def git_state(folder: str) -> tuple[dict[str, Any] | None, bytes]:
    """Return the state of the user's own repository, or None without a repository, and the diff of uncommitted changes.

    The repository and its index are not changed.
    """
    if not _may_be_in_repository(folder):
        return None, b""
    try:
        status = _git(folder, "status", "--porcelain=v2", "--branch", "-z", "--untracked-files=all", "--", ".")
    except GitError as error:
        return (None if "not a git repository" in error.message else {"problem": error.message}), b""
    found: dict[str, Any] = {**_parse_status(status), "remote": None}
    with contextlib.suppress(GitError):  # raised if no remote is configured
        first = _git(folder, "config", "--null", "--get-regexp", r"^remote\..*\.url$").split(b"\0")[0]
        found["remote"] = masked_address(os.fsdecode(first.partition(b"\n")[2]))
    diff = b""
    if found["commit"] and found["changed"]:
        plain = ("--no-ext-diff", "--no-textconv", "--no-color", "--submodule=short")
        secret = (f":(exclude,literal){path}" for path in files_with_secrets(folder))
        try:
            diff = _git(folder, "diff", *plain, "HEAD", "--", ".", *secret)
        except GitError as error:
            found["problem"] = f"git diff: {error.message}"
    if len(diff) > LARGEST_DIFF:
        found["diff_left_out"] = len(diff) - LARGEST_DIFF
        diff = diff[:LARGEST_DIFF]
    found["diff"] = DIFF if diff else None
    return found, diff


def _parse_status(text: bytes) -> dict[str, Any]:
    commit = branch = None
    changed: list[str] = []
    untracked: list[str] = []
    entries = iter(os.fsdecode(entry) for entry in text.split(b"\0"))
    for entry in entries:
        kind, _, rest = entry.partition(" ")
        if kind == "#":
            name, _, value = rest.partition(" ")
            commit = value if name == "branch.oid" and value != "(initial)" else commit
            branch = value if name == "branch.head" and value != "(detached)" else branch
        elif kind == "?":
            untracked.append(rest)
        elif kind in ("1", "2", "u"):
            # A path can contain spaces; the fields before it cannot.
            changed.append(rest.split(" ", {"1": 7, "2": 8, "u": 9}[kind])[-1])
            if kind == "2":
                next(entries, None)  # the old path of a renamed file
    return {
        "commit": commit,
        "branch": branch,
        "changed": sorted(changed)[:MOST_NAMES],
        "untracked": sorted(untracked)[:MOST_NAMES],
    }


def _may_be_in_repository(folder: str) -> bool:
    """Return False if `folder` is certainly not in a repository. Git is not started."""
    return any(os.path.lexists(os.path.join(each, ".git")) for each in with_parents(os.path.realpath(folder)))


def _git(folder: str, *arguments: str) -> bytes:
    settings = ("-c", "core.fsmonitor=false", "-c", "core.quotePath=false")
    environment = {**without_fetching(), "GIT_OPTIONAL_LOCKS": "0"}
    return run_git(*settings, *arguments, environment=environment, folder=folder, timeout=GIT_SECONDS)


def masked_address(address: str) -> str:
    """Mask the parts of a repository or package address that may be secrets."""
    scheme = _USER_PART.match(address)
    if scheme is not None and not (scheme[1].lower().endswith("ssh://") and ":" not in scheme[2]):
        address = f"{scheme[1]}{MASK}@{address[scheme.end() :]}"
    before, question, _ = address.partition("?")
    return f"{before}?{MASK}" if question else address


def _without_secrets(version: Any) -> str:
    number, at, address = str(version).partition(" @ ")
    return f"{number} @ {masked_address(address)}" if at else number


def find_seeds(arguments: Sequence[str], variables: Mapping[str, str]) -> dict[str, str]:
    """Return the seeds in arguments (`--seed 1`, `--data-seed=1`, `random_seed=1`) and variables, by name."""
    found: dict[str, str] = {}
    for position, word in enumerate(arguments):
        name, equals, value = word.partition("=")
        if not _SEED.search(name):
            continue
        if equals:
            found[name] = value
        elif name.startswith("-") and position + 1 < len(arguments):
            found[name] = arguments[position + 1]
    for name, value in variables.items():
        if _SEED.search(name) and not is_secret_name(name):
            found[name] = value
    return found
