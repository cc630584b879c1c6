"""`Retry` in containers and on another machine: attempts share the working copy, and the log continues."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults.support import until
from tests.runs.lifecycle.test_retrying import CHECKPOINT
from tests.runs.lifecycle.test_starting_again import GROWS, resume_until_completed
from tests.runs.lifecycle.test_starting_again import LOG as GROWN
from tests.targets.docker_project import DockerProject
from tests.targets.remote_project import Remote
from tests.targets.remote_project import box as box
from tui_workbench.core.errors import ConfigurationError
from tui_workbench.runs.store.logged import compress
from tui_workbench.runs.store.rundir import RunDirectory

if TYPE_CHECKING:
    from tests.engines import DockerEngine

LOG = "attempt 1 fresh\nattempt 2 1\nattempt 3 1\n"
RETRY = {"times": 2, "delay": 0}


def test_container_continues_from_its_checkpoint(tmp_path: Path, engine: DockerEngine) -> None:
    project = DockerProject(tmp_path / "project", nativeSharedDirectory=str(tmp_path / "share"))
    project.runconfig(Retry=RETRY)
    run = project.run(CHECKPOINT)
    directory = Path(run.directory)
    assert (run.state, run.exit_code) == ("completed", 0), run.reason
    assert (directory / "output.log").read_text() == LOG
    assert (directory / "outputs" / "checkpoint").read_text() == "123"
    assert engine.containers() == []


def test_copied_project_cannot_be_retried(tmp_path: Path) -> None:
    project = DockerProject(tmp_path / "project", sharedVolumes=False)
    project.runconfig(Retry=RETRY)
    with pytest.raises(ConfigurationError, match="`Retry` needs the files of earlier attempts"):
        project.submit(CHECKPOINT)


def test_run_on_another_machine_continues_from_its_checkpoint(box: Remote) -> None:
    box.configure(Retry=RETRY)
    box.write(CHECKPOINT)
    result = box.submit("train.py", configuration="box")
    assert result.code == 0, result
    (record,) = box.history()
    assert box.log(record["run_id"]) == LOG
    assert (box.run_directory(record["run_id"]) / "outputs" / "checkpoint").read_text() == "123"


def test_container_is_started_again_by_its_user(tmp_path: Path, engine: DockerEngine) -> None:
    project = DockerProject(tmp_path / "project", nativeSharedDirectory=str(tmp_path / "share"))
    run = project.run(GROWS)
    assert run.state == "failed"
    for _ in range(2):
        run = project.ended(project.runs.start_again(run.run_id))
    assert (run.state, run.exit_code) == ("completed", 0), run.reason
    assert (Path(run.directory) / "output.log").read_text() == GROWN
    assert (Path(run.directory) / "outputs" / "checkpoint").read_text() == "123"
    assert engine.containers() == []


def test_run_on_another_machine_is_started_again_by_its_user(box: Remote) -> None:
    """Its files were removed from the machine after they were fetched, and are sent again."""
    run_id = resume_until_completed(box, "box")
    assert (box.run_directory(run_id) / "work" / "state" / "checkpoint").read_text() == "123"


LOGS = """\
import os, workbench
attempt = int(os.environ.get("WORKBENCH_ATTEMPT", "1"))
workbench.log("attempt", attempt, attempt)
with open(os.environ["WORKBENCH_RUN_DIRECTORY"] + "/metrics.jsonl", "a") as file:
    file.write(("#" + os.urandom(50_000).hex() + "\\n") * 170)
raise SystemExit(3)
"""
"""Logs so many bytes that they are compressed after the end of the run. Uniform bytes would stay as they are."""


def test_compressed_metrics_are_continued_and_not_fetched_again(box: Remote) -> None:
    box.write(LOGS)
    box.submit("train.py", configuration="box")
    (record,) = box.history()
    directory = box.run_directory(record["run_id"])
    compressed = directory / "metrics.jsonl.gz"
    until(lambda: compressed.exists() and not (directory / "metrics.jsonl").exists())
    data = gzip.decompress(compressed.read_bytes())
    (directory / "metrics.jsonl").write_bytes(data.replace(b'"value":1,', b'"value":7,'))  # only on this machine
    compress(RunDirectory(str(directory)))
    assert box.run("experiment", "resume", "--run", record["run_id"]).code == 0
    until(lambda: box.info(record["run_id"])["end_time_utc"] and not (directory / "metrics.jsonl").exists())
    lines = gzip.decompress(compressed.read_bytes()).split()
    assert [json.loads(line)["value"] for line in lines if b'"step"' in line] == [7, 2]


WRITES = """\
import os, pathlib
attempt = os.environ.get("WORKBENCH_ATTEMPT", "1")
for folder in ("checkpoints", "outputs"):
    path = pathlib.Path(folder)
    path.mkdir(exist_ok=True)
    (path / f"epoch{attempt}.pt").write_text(attempt)
    (path / f"epoch{attempt}.key").write_text(attempt)
if attempt == "2":
    os.remove("outputs/epoch1.pt")
raise SystemExit(3)
"""
"""Adds files in each attempt. The second attempt removes an output of the first."""


def test_files_of_earlier_attempts_stay_on_this_machine(box: Remote) -> None:
    """They are older than the attempt, so its machine does not return them. Keys are not even sent to it."""
    box.write(WRITES)
    box.submit("train.py", configuration="box")
    (record,) = box.history()
    for _ in range(2):
        assert box.run("experiment", "resume", "--run", record["run_id"]).code == 0
        until(lambda: box.info(record["run_id"])["end_time_utc"])
    keys = {"epoch1.key", "epoch2.key", "epoch3.key"}
    directory = box.run_directory(record["run_id"])
    assert set(os.listdir(directory / "work" / "checkpoints")) == {"epoch1.pt", "epoch2.pt", "epoch3.pt", *keys}
    assert set(os.listdir(directory / "outputs")) == {"epoch2.pt", "epoch3.pt", *keys}


def test_run_without_files_on_its_machine_cannot_start_again(box: Remote) -> None:
    box.write(GROWS)
    box.submit("train.py", configuration="box")
    (record,) = box.history()
    assert box.run("experiment", "clean", "--yes").code == 0
    box.run("experiment", "resume", "--run", record["run_id"])
    until(lambda: "its log was removed" in (box.info(record["run_id"])["reason"] or ""))
    assert box.info(record["run_id"])["reason"].endswith(f"`workbench-tui experiment rerun -r {record['run_id']}`.")
    assert (box.run_directory(record["run_id"]) / "outputs" / "checkpoint").read_text() == "1"
