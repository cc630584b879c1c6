"""Secrets of run configurations reach the script, but no snapshot, and no file of a run."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.runs.gated_project import GatedProject
from tests.runs.support import write_files
from tui_workbench.config.changes import file_edits
from tui_workbench.config.secret_values import FOLDER, copy_for_snapshot, store_value, value_of
from tui_workbench.core.errors import ConfigurationError
from tui_workbench.core.model import Run, RunRequest

SAY = "import os, sys; print(os.environ['DB_PASS'], os.environ['LR'], sys.argv[1:])\n"
CONFIGURATION = """\
# The configuration of the training.
Target:   local
Framework: Python
TrackedRun: true
EnvironmentVariables:
    "DB_PASS" : 'hunter2-value'   # keep
    LR: 0.1
    API_URL: https://me:hunter2-url@host/x
ArgumentVector: [$file, --token, hunter2-token]
"""
REQUEST = RunRequest("local", "say.py")
IMPORTED = "snapshots-imported-1.git"


@pytest.fixture
def project(shop: GatedProject) -> GatedProject:
    write_files(shop.root, {"say.py": SAY, "aml_config/local.runconfig": CONFIGURATION})
    return shop


def files_with(secret: str, *folders: Path) -> list[str]:
    """Return the files with the secret below the folders, and the objects with it in the snapshots."""
    paths = [path for folder in folders for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    found = [str(path) for path in paths if secret.encode() in path.read_bytes()]
    for repository in (path for folder in folders for path in folder.rglob("snapshots.git")):
        read = ["git", f"--git-dir={repository}", "cat-file", "--batch-all-objects", "--batch"]
        if secret.encode() in subprocess.run(read, capture_output=True, check=True).stdout:
            found.append(str(repository))
    return found


@pytest.mark.processes
def test_only_the_log_of_the_run_has_its_secrets(project: GatedProject, home: Path) -> None:
    run = project.ended(project.runs.submit(REQUEST))
    assert Path(run.log_path).read_text() == "hunter2-value 0.1 ['--token', 'hunter2-token']\n"
    own = project.root / "aml_config" / "local.runconfig"
    stored = home / ".local" / "state" / "workbench-tui" / FOLDER
    for name in files_with("hunter2", project.root, home):
        assert Path(name) in (own, Path(run.log_path)) or Path(name).parent == stored
    for path in [stored, *stored.iterdir()]:
        assert path.stat().st_mode & 0o077 == 0
    assert own.read_text() == CONFIGURATION


def test_copy_differs_only_in_the_values(project: GatedProject) -> None:
    copy = copy_for_snapshot(str(project.root), "aml_config/local.runconfig", store=True)
    assert copy is not None
    lines = copy.decode().split("\n")
    wanted = (project.root / "aml_config" / "local.runconfig").read_text().split("\n")
    assert [number for number, line in enumerate(lines) if line != wanted[number]] == [5, 7, 8]
    assert lines[5].startswith('    "DB_PASS" : ')
    assert lines[5].endswith("   # keep")
    assert copy == copy_for_snapshot(str(project.root), "aml_config/local.runconfig", store=True)


def test_value_that_remains_elsewhere_is_masked(project: GatedProject) -> None:
    text = "# old: hunter2-value\nTarget: local\nEnvironmentVariables: {DB_PASS: hunter2-value, X: a/hunter2-value/b}\n"
    write_files(project.root, {"aml_config/other.runconfig": text})
    copy = copy_for_snapshot(str(project.root), "aml_config/other.runconfig", store=True)
    assert copy is not None
    assert b"hunter2" not in copy


@pytest.mark.parametrize(
    ("line", "copied"),
    [
        ("# DB_PASS: hunter2-value", "# DB_PASS: ***"),
        ("Target: local  # was DB_PASS='hunter2 value', LR: 0.1", "Target: local  # was DB_PASS=***, LR: 0.1"),
        ('#"API_TOKEN" : "hunter2-value"', '#"API_TOKEN" : ***'),
        ("# epochs: 3, max_tokens: 100", "# epochs: 3, max_tokens: 100"),
    ],
)
def test_secret_in_a_comment_is_masked(project: GatedProject, line: str, copied: str) -> None:
    rest = "Framework: Python\nEnvironmentVariables:\n    LR: 0.1\n"
    write_files(project.root, {"aml_config/other.runconfig": f"{line}\n{rest}"})
    copy = copy_for_snapshot(str(project.root), "aml_config/other.runconfig", store=True)
    assert copy == (f"{copied}\n{rest}".encode() if copied != line else None)


@pytest.mark.processes
@pytest.mark.parametrize(
    "text",
    [
        "EnvironmentVariables:\n  NOTE: |\n    # DB_PASS = hunter2-value\n",
        "EnvironmentVariables: {DB_PASS: hunter2-value\n",
        "EnvironmentVariables:\n  DB_PASS: hunter2-value\n bad\n",
        "a: &x {DB_PASS: hunter2-value}\nEnvironmentVariables:\n  <<: *x\n",
        "a: [1\nEnvironmentVariables:\n  'HF_AUTH': hunter2-value\n",
    ],
)
def test_configuration_whose_secret_cannot_be_replaced_is_left_out(project: GatedProject, text: str) -> None:
    write_files(project.root, {"aml_config/odd.runconfig": text})
    run = project.ended(project.runs.submit(REQUEST))
    assert run.state == "completed"
    odd = [path for path in files_with("hunter2-value", project.root) if "odd" in path or path.endswith(".git")]
    assert odd == [str(project.root / "aml_config" / "odd.runconfig")]


@pytest.mark.processes
@pytest.mark.parametrize("ignored", [False, True], ids=["in the snapshot", "ignored by git"])
def test_working_copy_has_references(project: GatedProject, *, ignored: bool) -> None:
    script = "print(open('aml_config/local.runconfig').read())\n"
    write_files(project.root, {"show.py": script, **({".gitignore": "aml_config/\n"} if ignored else {})})
    for _ in range(2):
        run = project.ended(project.runs.submit(RunRequest("local", "show.py")))
        text = Path(run.log_path).read_text()
        assert "AzureMlSecret=" in text
        assert "hunter2" not in text


@pytest.mark.processes
def test_fix_moves_the_values_and_the_run_gets_them(project: GatedProject, home: Path) -> None:
    path = project.root / "aml_config" / "local.runconfig"
    path.write_text(CONFIGURATION.replace(", --token, hunter2-token", ""))
    result = file_edits.fix(str(path), code="secret-in-file")
    assert result.fixed == ("move the value of DB_PASS out of the project",)
    assert "hunter2-value" not in path.read_text()
    run = project.ended(project.runs.submit(REQUEST))
    assert Path(run.log_path).read_text().startswith("hunter2-value 0.1 ")
    assert "secret-in-file" not in [finding.code for finding in file_edits.check([str(path)])]
    again = project.ended(project.runs.submit(RunRequest("", origin=run.run_id)))
    assert Path(again.log_path).read_text().startswith("hunter2-value 0.1 ")


@pytest.mark.processes
def test_moved_value_is_masked_in_arguments(project: GatedProject) -> None:
    file_edits.fix(str(project.root / "aml_config" / "local.runconfig"), code="secret-in-file")
    run = project.ended(project.runs.submit(RunRequest("local", "say.py", ("x=hunter2-value",))))
    assert "x=***" in run.arguments
    assert files_with("hunter2-value", Path(run.directory)) == [run.log_path]


@pytest.mark.processes
def test_rerun_uses_the_value_of_a_restored_reference(project: GatedProject) -> None:
    run = project.ended(project.runs.submit(REQUEST))
    path = project.root / "aml_config" / "local.runconfig"
    path.write_text(path.read_text().replace("LR: 0.1", "LR: 0.2"))
    project.runs.restore(run.run_id)
    assert "hunter2-value" not in path.read_text()
    again = project.ended(project.runs.submit(RunRequest("local", "say.py", ("--token", "x"))))
    assert Path(again.log_path).read_text().startswith("hunter2-value 0.1 ")


def test_reference_is_not_resolved_for_another_project_or_variable(project: GatedProject, tmp_path: Path) -> None:
    path = project.root / "aml_config" / "local.runconfig"
    file_edits.fix(str(path), code="secret-in-file")
    text = path.read_text()
    path.write_text(text.replace("DB_PASS", "OTHER"))
    with pytest.raises(ConfigurationError, match="the value of OTHER is not stored on this machine"):
        project.runs.submit(REQUEST)
    (reference,) = re.findall(r"AzureMlSecret=\S+[0-9a-f]{32}", text)
    assert value_of(str(project.root), "DB_PASS", reference) == "hunter2-value"
    assert value_of(str(tmp_path), "DB_PASS", reference) is None


def stored(home: Path) -> list[str]:
    """Return the values that are stored in the state directory."""
    folder = home / ".local" / "state" / "workbench-tui" / FOLDER
    return sorted(json.loads(path.read_text())["value"] for path in folder.iterdir() if path.name != "key")


def purge(project: GatedProject, *runs: Run) -> None:
    for run in runs:
        project.runs.delete(run.run_id)
    assert project.runs.purge([run.run_id for run in runs]).problems == ()


def set_password(project: GatedProject, value: str) -> None:
    text = CONFIGURATION.replace("hunter2-value", value)
    write_files(project.root, {"aml_config/local.runconfig": text})


@pytest.mark.processes
def test_purge_removes_the_values_that_only_the_purged_runs_need(project: GatedProject, home: Path) -> None:
    first = project.ended(project.runs.submit(REQUEST))
    set_password(project, "second-value")
    second = project.ended(project.runs.submit(REQUEST))
    others = ["https://me:hunter2-url@host/x", "hunter2-token"]
    assert stored(home) == [*others, "hunter2-value", "second-value"]
    project.runs.delete(first.run_id)
    assert "hunter2-value" in stored(home), "a run in the trash can be restored"
    assert project.runs.purge([first.run_id]).problems == ()
    assert stored(home) == [*others, "second-value"]
    purge(project, second)
    assert stored(home) == []
    again = project.ended(project.runs.submit(REQUEST))
    assert Path(again.log_path).read_text().startswith("second-value ")


def test_purge_keeps_the_values_of_other_projects(project: GatedProject, home: Path, tmp_path: Path) -> None:
    run = project.ended(project.runs.submit(REQUEST))
    store_value(str(tmp_path / "other"), "DB_PASS", "of-another-project", only_for_runs=True)
    purge(project, run)
    assert stored(home) == ["of-another-project"]


def test_purge_keeps_moved_values(project: GatedProject, home: Path) -> None:
    """Another branch of the user's repository may still have the reference."""
    run = project.ended(project.runs.submit(REQUEST))
    path = project.root / "aml_config" / "local.runconfig"
    file_edits.fix(str(path), code="secret-in-file")
    path.unlink()
    purge(project, run)
    assert stored(home) == ["hunter2-value"]


@pytest.mark.processes
def test_purge_keeps_the_values_of_restored_references(project: GatedProject, home: Path) -> None:
    run = project.ended(project.runs.submit(REQUEST))
    path = project.root / "aml_config" / "local.runconfig"
    path.write_text(path.read_text().replace("LR: 0.1", "LR: 0.2"))
    project.runs.restore(run.run_id)
    assert "hunter2" not in path.read_text()
    moved = path.rename(project.root / "elsewhere")
    purge(project, run)
    moved.rename(path)
    again = project.ended(project.runs.submit(RunRequest("local", "say.py", ("x",))))
    assert Path(again.log_path).read_text().startswith("hunter2-value 0.1 ")


@pytest.mark.processes
def test_purge_keeps_values_while_some_snapshots_are_unknown(project: GatedProject, home: Path) -> None:
    run = project.ended(project.runs.submit(REQUEST))
    shutil.copytree(Path(run.directory).parents[1] / "snapshots.git", Path(run.directory).parents[1] / IMPORTED)
    purge(project, run)
    assert "hunter2-value" in stored(home)
