"""Secret arguments reach the script and are written to no file of the project."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.runs.gated_project import GatedProject
from tests.runs.support import write_configuration, write_files
from tui_workbench.config import secret_values
from tui_workbench.core.errors import UsageError
from tui_workbench.core.model import RunRequest
from tui_workbench.runs.store import secret_arguments
from tui_workbench.runs.submission.launch import create_run
from tui_workbench.runs.sweeps import sweep

SAY = "import os, sys; print(sys.argv[1:], os.environ['DATABASE_URL'])\n"
URL = "postgres://me:hunter2@db/runs"
ARGUMENTS = ("--token", "hunter2", "--api-key=hunter2", "--lr", "0.1", URL)
MASKED = ["--token", "***", "--api-key=***", "--lr", "0.1", "postgres://me:***@db/runs"]
REQUEST = RunRequest("local", "say.py", ARGUMENTS)


@pytest.fixture(params=[False, True], ids=["untracked", "tracked"])
def secretive(shop: GatedProject, request: pytest.FixtureRequest) -> GatedProject:
    """Return a project whose script prints its arguments and a variable with a password in its value."""
    write_files(shop.root, {"say.py": SAY})
    variables = {"DATABASE_URL": URL, "GITHUB_PAT": "hunter2"}
    vector = ["$file", "--token", "hunter2"]
    write_configuration(shop.root, TrackedRun=request.param, EnvironmentVariables=variables, ArgumentVector=vector)
    return shop


def files_with_secret(folder: str) -> list[str]:
    """Files below a folder that hold the secret, except the log, the configuration files and the stored values."""
    paths = [path for path in Path(folder).rglob("*") if path.is_file() and "aml_config" not in path.parts]
    paths = [path for path in paths if path.parent.name != secret_values.FOLDER]
    return [path.name for path in paths if b"hunter2" in path.read_bytes() and path.name != "output.log"]


def kept(home: Path) -> list[Path]:
    return list((home / ".local" / "state" / "workbench-tui" / secret_arguments.FOLDER).glob("*"))


@pytest.mark.slow
def test_script_gets_the_secrets_and_no_file_holds_them(secretive: GatedProject, home: Path) -> None:
    run = secretive.ended(secretive.runs.submit(REQUEST))
    assert Path(run.log_path).read_text() == f"{list(ARGUMENTS)} {URL}\n"
    assert list(run.arguments) == MASKED
    assert files_with_secret(run.directory) == files_with_secret(str(home)) == []


def test_value_of_a_secret_variable_is_masked_in_arguments(shop: GatedProject, home: Path) -> None:
    write_files(shop.root, {"say.py": "import sys; print(sys.argv[1:])\n"})
    write_configuration(shop.root, EnvironmentVariables={"DB_PASS": "hunter2", "DB": "me/hunter2/db"})
    arguments = ("--db", "me,hunter2,runs", "x-hunter2", "--lr=0.1")
    run = shop.ended(shop.runs.submit(RunRequest("local", "say.py", arguments)))
    assert Path(run.log_path).read_text() == f"{list(arguments)}\n"
    assert list(run.arguments) == ["--db", "me,***,runs", "x-***", "--lr=0.1"]
    assert files_with_secret(run.directory) == files_with_secret(str(home)) == []


def test_another_process_starts_the_run_with_its_secrets(secretive: GatedProject, home: Path) -> None:
    directory, lock, _ = create_run(secretive.project, REQUEST)
    lock.release()
    (path,) = kept(home)
    assert path.stat().st_mode & 0o077 == path.parent.stat().st_mode & 0o077 == 0
    assert files_with_secret(directory.path) == []
    secretive.runs.resume()
    run = secretive.ended(directory.run())
    assert Path(run.log_path).read_text() == f"{list(ARGUMENTS)} {URL}\n"
    assert kept(home) == []


def test_missing_secret_fails_the_run_with_the_reason(secretive: GatedProject, home: Path) -> None:
    directory, lock, _ = create_run(secretive.project, REQUEST)
    lock.release()
    kept(home)[0].unlink()
    secretive.runs.resume()
    run = secretive.ended(directory.run())
    assert (run.state, "the argument ***" in run.reason) == ("failed", True)


def test_next_submit_removes_secrets_of_removed_runs(secretive: GatedProject, home: Path) -> None:
    directory, lock, record = create_run(secretive.project, REQUEST)
    lock.release()
    shutil.rmtree(directory.path)
    other = record.spec._replace(run_directory=secretive.project.root)
    secret_arguments.save(other)
    assert len(kept(home)) == 1
    secret_arguments.remove(other)
    assert kept(home) == []


def test_plan_shows_masks(secretive: GatedProject) -> None:
    plan, _ = secretive.runs.plan_details(REQUEST)
    start = plan.step("start")
    assert start is not None
    assert list(start.command[-6:]) == MASKED
    assert (start.environment["DATABASE_URL"], start.environment["GITHUB_PAT"]) == (MASKED[-1], "***")
    assert "hunter2" not in json.dumps(plan)


def test_masked_argument_is_refused(secretive: GatedProject) -> None:
    run = secretive.ended(secretive.runs.submit(REQUEST))
    with pytest.raises(UsageError, match=r"the secret of the argument \*\*\* was not recorded"):
        secretive.runs.submit(RunRequest("", origin=run.run_id))
    request = RunRequest("", "say.py", ("--token", "other"), exact_arguments=True, origin=run.run_id)
    again = secretive.runs.submit(request)
    assert "other" in Path(secretive.ended(again).log_path).read_text()


def test_sweep_refuses_secret_arguments(secretive: GatedProject) -> None:
    members = sweep.members_of(("--token", "hunter2"), [{"lr": "1"}, {"lr": "2"}])
    with pytest.raises(UsageError, match=r"is a secret.*written to a file"):
        sweep.create(secretive.project, REQUEST, members, 1)
    assert files_with_secret(secretive.project.root) == []
