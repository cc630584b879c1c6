"""Run directories without real runs, and projects with scripts for tests."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.proc import PROC
from tui_workbench.core.model import ComputeTarget, Plan, RunConfiguration, RunRequest, RunSpec, Step
from tui_workbench.core.processes import reap
from tui_workbench.projects.project import Project
from tui_workbench.runs.store import ownership
from tui_workbench.runs.store.rundir import RECORD, Record, RunDirectory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

REQUEST = RunRequest("local", "hello.py")


def record_of(directory: Path, number: int = 1, **changes: Any) -> Record:
    """Return the record of a small untracked run."""
    root = directory.parent.parent.parent
    configuration = RunConfiguration(
        name="local",
        path=str(root / "aml_config" / "local.runconfig"),
        target="local",
        framework="Python",
        tracked_run=False,
        environment_variables={"NAME": "value"},
    )
    target = ComputeTarget(
        name="local", path=str(root / "aml_config" / "local.compute"), type="local", python_location=sys.executable
    )
    spec = RunSpec(
        run_id=directory.name,
        run_directory=str(directory),
        project_root=str(root),
        project_name=root.name,
        working_directory=str(root),
        script="hello.py",
        arguments=("--epochs", "3"),
        run_configuration=configuration,
        target=target,
    )
    steps = (Step("start", "start it", (sys.executable, "hello.py"), str(root), {"NAME": "value"}), Step("follow", ""))
    plan = Plan("local", "local", sys.executable, steps)
    record = Record(directory.name, number, 1_700_000_000.0 + number, "somebody", spec, plan, "", "none")
    return record._replace(**changes)


def make_run(project: Project, run_id: str, number: int = 1, **final: Any) -> RunDirectory:
    """Create the directory of an ended run; `final` are fields of its last event, none for an active run."""
    directory = Path(project.runs_directory, run_id)
    directory.mkdir(parents=True)
    run = RunDirectory(str(directory))
    run.write_record(record_of(directory, number))
    ownership.register(run.file(RECORD))
    run.append_event("state", state="queued")
    run.append_event("step", step="start", status="done", seconds=0.001)
    run.append_event("state", state="running")
    if final:
        run.append_event("state", **{"reason": "", "final": True, "end": 1_700_000_100.0 + number, **final})
    return run


def write_configuration(root: Path, name: str = "local", *, suffix: str = "runconfig", **values: object) -> None:
    """Change keys of a configuration file; None removes one."""
    path = root / "aml_config" / f"{name}.{suffix}"
    defaults: dict[str, object] = {"Target": "local", "Framework": "Python", "TrackedRun": False}
    known = {**defaults, **values} if suffix == "runconfig" else values
    path.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in known.items() if value is not None))


def write_files(root: Path, files: Mapping[str, str | bytes]) -> None:
    """Write files and their folders below a folder."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


NOBODY = 65534


def let_everybody_in(*folders: Path) -> None:
    """Make the folders, and their private parents, readable by every user."""
    temporary = Path(tempfile.gettempdir())
    for folder in folders:
        for each in (folder, *folder.parents):
            if each != temporary and each.is_relative_to(temporary):
                each.chmod(0o755)


def as_anybody(check: Callable[[], None]) -> None:
    """Run a check as a user without root's rights: root runs it in a child as the user `nobody`."""
    if os.geteuid() != 0:
        check()
        return
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            with tempfile.TemporaryDirectory() as home:
                if not os.access(os.environ["HOME"], os.W_OK):
                    os.environ["HOME"] = home
                check()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0, "it failed, as told above"


def children() -> set[int]:
    """Return the processes that this one has started, including those of the whole session and ended ones."""
    reap()
    listed: set[int] = set()
    for task in (PROC / "self/task").iterdir():
        try:
            listed.update(int(pid) for pid in (task / "children").read_text().split())
        except OSError:
            continue  # the thread has ended meanwhile
    return listed


def descriptors() -> int:
    """Return the number of open files of this process."""
    return len(os.listdir(PROC / "self/fd"))


def nest_folders(folder: Path, depth: int = 1500) -> None:
    """Create nested folders whose path is longer than the system allows."""
    descriptor = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=descriptor)
        inner = os.open("d", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(descriptor)
