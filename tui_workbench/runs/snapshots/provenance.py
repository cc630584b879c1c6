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
from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.files import load_json, open_regular
from tui_workbench.core.git import GitError
from tui_workbench.core.masking import MASK
from tui_workbench.core.repository import ProjectGit, project_git
from tui_workbench.core.secret_names import is_secret_name
from tui_workbench.projects.project import COMPUTE_SUFFIX, RUN_CONFIGURATION_SUFFIX
from tui_workbench.runs.snapshots.project_files import files_with_secrets, text_has_secret
from tui_workbench.runs.store.rundir import DIFF, FOLLOWED, PROVENANCE, Record, RunDirectory
from tui_workbench.targets.hosts.data import measure_data
from tui_workbench.targets.registry import target_for

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
    os.waitpid(pid, 0)  # this child ends immediately; its child collects the provenance
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
        os._exit(0)  # never return to the code of the controller, of which this process is a copy


def write_provenance(directory: RunDirectory, record: Record) -> None:
    """Collect and write the provenance. Raises StorageError."""
    provenance, diff = collect(record)
    if diff:
        directory.write(DIFF, diff, durable=True)
    directory.write(PROVENANCE, json.dumps(provenance, indent=1).encode() + b"\n", durable=True)


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
    provenance = {
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
        provenance["own_packages"] = load_json(os.path.join(spec.run_directory, OWN_PACKAGES))
    return provenance, diff


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

    `git apply` can apply the diff. The repository and its index are not changed.
    """
    try:
        with project_git(folder, GIT_SECONDS) as git:
            return (None, b"") if git is None else _state(git, folder)
    except GitError as error:
        return {"problem": error.message}, b""


def _state(git: ProjectGit, folder: str) -> tuple[dict[str, Any], bytes]:
    options = ("--porcelain=v2", "-z", "--untracked-files=all", "--ignore-submodules=all")
    status = git.run("status", *options, "--", ".", folder=folder)
    state: dict[str, Any] = {
        "commit": git.head.commit or None,
        "branch": git.head.branch or None,
        **_parse_status(status),
        "remote": masked_address(git.remote) if git.remote else None,
    }
    diff, left_out = b"", list[str]()
    if state["commit"] and state["changed"]:
        try:
            diff, left_out = _diff(git, folder, state["changed"])
        except GitError as error:
            state["problem"] = f"git diff: {error.message}"
    if left_out:
        state["diff_files_left_out"] = left_out
    if len(diff) > LARGEST_DIFF:
        state["diff_left_out"] = len(diff) - LARGEST_DIFF
        diff = diff[:LARGEST_DIFF]
    state["diff"] = DIFF if diff else None
    return state, diff


def _diff(git: ProjectGit, folder: str, changed: Sequence[str]) -> tuple[bytes, list[str]]:
    """Return the diff of uncommitted changes, and the changed files that it does not contain. Raises GitError.

    Left out are configuration files with secrets, binary files, which git could not apply, and files with a filter: a
    filter such as that of Git LFS would have to be executed to get the content that git stores.
    """
    plain = ("diff", "--no-ext-diff", "--no-textconv", "--no-color", "--submodule=short", "--ignore-submodules=all")
    names = "\0".join(changed).encode("utf-8", "surrogateescape")
    attributes = iter(git.run("check-attr", "-z", "--stdin", "filter", input=names).split(b"\0"))
    left_out = [
        os.fsdecode(path)
        for path, _, value in zip(attributes, attributes, attributes, strict=False)
        if value not in (b"unspecified", b"unset")
    ]
    left_out += [path for path in changed if _had_secret(git, path)]

    def run(*options: str) -> bytes:
        excluded = [f":(exclude,literal){path}" for path in files_with_secrets(folder)]
        excluded += [f":(exclude,top,literal){path}" for path in left_out]
        return git.run(*plain, *options, "HEAD", "--", ".", *excluded, folder=folder)

    diff = run()
    if b"\nBinary files " in diff:
        lines = run("--no-renames", "--numstat", "-z").split(b"\0")
        left_out += [os.fsdecode(line.removeprefix(b"-\t-\t")) for line in lines if line.startswith(b"-\t-\t")]
        diff = run()  # again, without the binary files
    return diff, sorted(left_out)[:MOST_NAMES]


def _had_secret(git: ProjectGit, path: str) -> bool:
    """Return True for a configuration file whose committed content has a secret, which the diff would show."""
    if not path.endswith((COMPUTE_SUFFIX, RUN_CONFIGURATION_SUFFIX)):
        return False
    try:
        return text_has_secret(path, git.run("cat-file", "blob", f"HEAD:{path}"))
    except GitError:
        return False  # a new file


def _parse_status(text: bytes) -> dict[str, Any]:
    changed: list[str] = []
    untracked: list[str] = []
    entries = iter(os.fsdecode(entry) for entry in text.split(b"\0"))
    for entry in entries:
        kind, _, rest = entry.partition(" ")
        if kind == "?":
            untracked.append(rest)
        elif kind in ("1", "2", "u"):
            # A path can contain spaces; the fields before it cannot.
            changed.append(rest.split(" ", {"1": 7, "2": 8, "u": 9}[kind])[-1])
            if kind == "2":
                next(entries, None)  # the old path of a renamed file
    return {"changed": sorted(changed)[:MOST_NAMES], "untracked": sorted(untracked)[:MOST_NAMES]}


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
    seeds: dict[str, str] = {}
    for position, word in enumerate(arguments):
        name, equals, value = word.partition("=")
        if not _SEED.search(name):
            continue
        if equals:
            seeds[name] = value
        elif name.startswith("-") and position + 1 < len(arguments):
            seeds[name] = arguments[position + 1]
    for name, value in variables.items():
        if _SEED.search(name) and not is_secret_name(name):
            seeds[name] = value
    return seeds
