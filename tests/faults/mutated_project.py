"""A project and a home folder with every kind of file that the workbench reads, for tests that damage them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from pathlib import Path

from tests.conftest import REPOSITORY, write_project
from tests.faults.mutating import Mutation, remove
from tests.faults.support import WAITS, Workbench, kill_controller, until
from tui_workbench.core.model import ClusterJob, RunRequest
from tui_workbench.projects.project import Project
from tui_workbench.runs.agents import ledger
from tui_workbench.runs.agents.submitting import submit_for_agent
from tui_workbench.runs.gpu.verdict import DeviceFigures, Evidence, Verdict, to_json
from tui_workbench.runs.store import agent_runs
from tui_workbench.runs.store.cluster_job import write_job
from tui_workbench.runs.store.rundir import ControllerLock, RunDirectory
from tui_workbench.targets.gpu.sample import Device, Machine, Process, Reading, Sample, encode
from tui_workbench.ui.session_state import session_path

SCRIPT = """\
import os, sys
import workbench
attempt = int(os.environ.get("WORKBENCH_ATTEMPT", "1"))
for step in range(3):
    workbench.log("loss", 1.0 / (step + attempt))
workbench.log_list("ones", [1, 2, 3])
workbench.log_table("table", {"a": [1, 2], "b": ["x", "y"]})
workbench.log_row("row", x=1, y="z")
workbench.log_confusion_matrix("confusion", [[1, 2], [3, 4]], ["a", "b"])
workbench.tag("kind", "mutated")
os.makedirs("outputs", exist_ok=True)
open("outputs/model.txt", "w").write("weights")
open("outputs/log.csv", "w").write("step,accuracy\\n1,0.5\\n2,0.6\\n")
open("outputs/book.ipynb", "w").write('{"cells": [{"cell_type": "code", "source": ["a"], "outputs": [], "metadata": {},'
                                      '"execution_count": 1}], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}')
print("epoch 1 val_loss 0.5")
sys.exit(1 if attempt == 1 else 0)
"""

PROJECT, HOME = "project", "home"
RUNS = "project/.workbench/runs"
STATE, CONFIG, CACHE = "home/.local/state/workbench-tui", "home/.config/workbench-tui", "home/.cache"

UNREAD = ("controller.lock", "annotations.lock", "workbench.lock", "lock")
"""Names of files that have no content, and of folders with objects of git and files of scripts."""
FOREIGN = ("objects", "work", ".git", "derived")


class MutatedProject:
    """The project and the home folder in `place`. `$HOME` is that folder while an instance is used.

    `own` is a run of this user with every kind of file, `imported` one of another user; `healthy` stays as it is.
    `queued` waits for the end of `first`, whose processes were killed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "files"
        (self.folder / HOME).mkdir(parents=True, mode=0o700)
        self.root = write_project(self.folder / PROJECT, tracked=True)
        self._workbench = Workbench(self.root)
        self.healthy = self._run("print('healthy')\n", "healthy.py")
        self._use_more_settings()
        self.own, self.imported = (self._run(SCRIPT, "train.py", "--lr", "0.1", "--name=x") for _ in range(2))
        for run_id in (self.own, self.imported):
            assert self._workbench.run("history", "tag", "-r", run_id, "good", "a=b").code == 0
            _add_files(self.folder / RUNS / run_id)
        self._workbench.write("print('member')\n", "member.py")
        sweep = self._workbench.run("experiment", "sweep", "-c", "local", "--param", "lr=1,2", "member.py")
        assert sweep.code == 0, sweep
        self.first, self.queued = self._queue_run()
        self._add_state()
        for entry in (self.folder / STATE / "registry").glob(f"{self.imported}.*"):
            entry.unlink()
        assert self._workbench.run("history", "list").code == 0  # makes the index
        until(self._is_quiet, "the end of all controllers")
        self.pristine = folder / "pristine"
        shutil.copytree(self.folder, self.pristine, symlinks=True)
        self.index = next(str(path.relative_to(self.folder)) for path in self.folder.rglob("index.db"))
        found = [
            path.relative_to(self.folder) for path in self.folder.rglob("*") if path.is_symlink() or path.is_file()
        ]
        self.files = sorted(
            str(path)
            for path in found
            if path.name not in UNREAD and path.suffix != ".py" and not {*path.parts} & {*FOREIGN}
        )
        self.files.append(self.index)

    def _run(self, script: str, name: str, *arguments: str) -> str:
        """Execute a script, and return the ID of its run."""
        self._workbench.write(script, name)
        result = self._workbench.submit(name, *arguments)
        assert result.code == 0, result
        run_id: str = self._workbench.history()[0]["run_id"]
        return run_id

    def _is_quiet(self) -> bool:
        """Return True if no controller or child of a controller writes files of a run."""
        runs = [path for path in (self.folder / RUNS).iterdir() if path.name != self.queued]
        return all(
            not ControllerLock.holder(RunDirectory(str(path)))
            and (path / "provenance.json").exists()
            and not any(path.glob(".workbench-*"))
            for path in runs
        )

    def _use_more_settings(self) -> None:
        configuration = self.root / "aml_config" / "local.runconfig"
        configuration.write_text(
            configuration.read_text().replace("EnvironmentVariables: {}", "EnvironmentVariables: {A: '1'}")
            + "Retry:\n  times: 1\n  delay: 0\n"
        )
        for name, text in {
            "remote.compute": 'type: "remotedocker"\naddress: "192.0.2.1"\nusername: "me"\n'
            'baseDockerImage: "python:3.11"\n',
            "docker.runconfig": 'Target: "remote"\nPrepareEnvironment: true\nArgumentVector: ["$file"]\n'
            'Framework: "Python"\nCondaDependenciesFile: "aml_config/conda_dependencies.yml"\n',
            "conda_dependencies.yml": "dependencies:\n  - python=3.11\n  - pip:\n    - six\n",
        }.items():
            (self.root / "aml_config" / name).write_text(text)

    def _queue_run(self) -> tuple[str, str]:
        """Submit a run that waits for another run, and kill the processes of the other run."""
        self._workbench.write(WAITS, "waits.py")
        first = self._workbench.detach("waits.py", str(self.root / "never"))
        path = self.folder / RUNS / first
        until(lambda: b"began" in (path / "output.log").read_bytes() if (path / "output.log").exists() else False)
        queued = self._workbench.detach("--after", first, "healthy.py", "--password=hunter2hunter2")
        kill_controller(path)
        os.killpg(int((path / "pid").read_text().split()[0]), signal.SIGKILL)
        return first, queued

    def _add_state(self) -> None:
        """Add the files that the screens, agents and notifications keep in the home folder."""
        submission = submit_for_agent(
            Project.find(str(self.root)), RunRequest("local", script="healthy.py", agent="bot")
        )
        assert submission.approval is not None
        directory = RunDirectory(str(self.folder / RUNS / self.own))
        ledger.write_uses([ledger.Use("bot", time.time(), 60, 0, directory.path)])
        agent_runs.add(directory.own_record().spec, "bot")
        agent_runs.note_start(directory.path)
        session = {"project": str(self.root.resolve()), "run_configuration": "local", "panels": [{"name": "a"}]}
        files = {
            session_path(str(self.root)): json.dumps(session),
            f"{CONFIG}/settings.yaml": "notifications: terminal\n",
            f"{CONFIG}/keys.yaml": "quit: q\n",
            f"{CONFIG}/agents.yaml": "targets: [local]\nconcurrent_runs: 2\nminutes_per_run: 120\n",
            f"{CONFIG}/notify.json": json.dumps(
                {"me": {"url": "AzureMlSecret=a#b#c", "events": ["end"], "metrics": ["loss < 0.1"]}}
            ),
            f"{CONFIG}/themes/mine.yaml": (REPOSITORY / "themes" / "beacon.yaml").read_text(),
            f"{STATE}/theme": "mine\n",
        }
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def damage(self, mutation: Mutation) -> None:
        """Change a file. Any other index is removed, because it does not read an ended run again."""
        shutil.rmtree(self.folder / CACHE, ignore_errors=True)
        if mutation.name.startswith(CACHE):
            shutil.copytree(self.pristine / CACHE, self.folder / CACHE, symlinks=True)
        mutation.apply(self.folder)

    def restore(self, mutation: Mutation) -> None:
        """Undo the change of a file."""
        path, old = self.folder / mutation.name, self.pristine / mutation.name
        remove(path)
        if os.path.lexists(old):
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(old, path, follow_symlinks=False)
        for parent in Path(mutation.name).parents:
            if not os.path.lexists(self.pristine / parent):
                (self.folder / parent).rmdir()


def _add_files(path: Path) -> None:
    """Add the files of GPUs, clusters, notifications and stacks, which this machine does not make."""
    figures = DeviceFigures(
        0, "H100", "GPU-1", 5.0, 900.0, 50.0, 90.0, 50.0, 2.5, 0.1, 0.0, ("eve",), 0.0, 0, 9.0, (0,)
    )
    evidence = Evidence("gpu", "torch", ("cuda:0",), 3)
    verdict = Verdict("proven", "used", "", (figures,), (evidence,), ("gap",), 3, final=True, advice=("do",))
    for folder in (path, path / "attempts" / "1"):
        (folder / "gpu.json").write_text(json.dumps(to_json(verdict), indent=1))
    device = Device(0, "GPU-1", "H100", 80_000.0)
    samples = [
        Sample(time.time() + n, (Reading(0, 50.0, 900.0),), (Process(7, 0, 900.0, user="own"),)) for n in range(3)
    ]
    (path / "gpu.jsonl").write_bytes(b"".join([encode(Machine((device,))), *map(encode, samples)]))
    write_job(str(path), ClusterJob("17", 2, time.time(), "node1", time.time() + 60, 0.0))
    frame = {"function": "f", "file": "/a.py", "shown": "a.py", "line": 3}
    thread = {"name": "Main", "is_main": True, "is_active": True, "has_gil": False, "frames": [frame]}
    process = {
        "role": "script",
        "rank": -1,
        "node": "",
        "pid": 7,
        "parent": 1,
        "command": ["python"],
        "problem": "",
        "threads": [thread],
    }
    stacks = {
        "run_id": path.name,
        "time_utc": "2026-01-01T00:00:00+00:00",
        "seconds": 0.5,
        "process_count": 1,
        "processes": [process],
    }
    gpu = {"name": "H100", "driver": "550", "memory": "80 GB"}
    provenance = {
        "git": {"commit": "1" * 40, "branch": "main", "remote": "x", "changed": ["a"]},
        "packages": {"six": "1"},
        "python": {"version": "3.12"},
        "host": {"memory": 1 << 30, "cpu": "x"},
        "gpus": [gpu],
        "image": {"id": "1"},
        "data": {"data": {"path": "/data", "files": 3, "size": 5}},
        "seeds": {"PYTHONHASHSEED": "1"},
        "problems": ["a"],
    }
    (path / "provenance.json").write_text(json.dumps(provenance))
    (path / "git.diff").write_text("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n")
    (path / "stacks").mkdir()
    (path / "stacks" / "20260101T000000-000.json").write_text(json.dumps(stacks))
    (path / "notifications").mkdir()
    (path / "notifications" / "me-end.json").write_text('{"channel": "me"}')
