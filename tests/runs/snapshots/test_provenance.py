"""The provenance of a run, collected in the background while it runs."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.core.support import trace_file
from tests.faults.support import until
from tests.runs.support import REQUEST, children, make_run, record_of, write_configuration, write_files
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.snapshots.provenance import (
    collect,
    find_seeds,
    git_state,
    masked_address,
    start_collecting,
)
from tui_workbench.runs.store.rundir import DIFF, RunDirectory
from tui_workbench.runs.store.rundir import PROVENANCE as FILE

ADDRESS = "https://someone:gh_token@example.org/team/project.git"


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=n", "-c", "user.email=n@example.org", "-c", "init.defaultBranch=main")
    done = subprocess.run(["git", "-C", folder, *identity, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def repository(project_root: Path) -> Path:
    """Return the project as a git repository with one commit."""
    git(project_root, "init", "-q")
    write_files(project_root, {".gitignore": "data/\n", "data/big": "1", "ä b.py": "x = 1\n"})
    git(project_root, "add", "-A")
    git(project_root, "commit", "-q", "-m", "first")
    git(project_root, "remote", "add", "origin", ADDRESS)
    return project_root


class TestGit:
    def test_without_a_repository_there_is_no_git_state(self, tmp_path: Path) -> None:
        calls = trace_file()
        before = os.path.getsize(calls) if os.path.exists(calls) else 0
        assert git_state(str(tmp_path)) == (None, b"")
        assert (os.path.getsize(calls) if os.path.exists(calls) else 0) == before

    def test_clean_repository_has_no_diff(self, repository: Path) -> None:
        found, diff = git_state(str(repository))
        assert found == {
            "commit": git(repository, "rev-parse", "HEAD"), "branch": "main", "changed": [], "untracked": [],
            "remote": "https://***@example.org/team/project.git", "diff": None,
        }  # fmt: skip
        assert diff == b""

    def test_diff_restores_uncommitted_changes(self, repository: Path, tmp_path: Path) -> None:
        write_files(
            repository, {"hello.py": "print('changed')\n", "ä b.py": "x = 2\n", "new one.py": "", "data/more": ""}
        )
        git(repository, "mv", "aml_config/local.runconfig", "aml_config/moved.runconfig")
        found, diff = git_state(str(repository))
        assert found is not None
        assert found["changed"] == ["aml_config/moved.runconfig", "hello.py", "ä b.py"]
        assert found["untracked"] == ["new one.py"]
        assert found["diff"] == DIFF
        git(tmp_path, "clone", "-q", str(repository), "copy")
        (tmp_path / "diff").write_bytes(diff)
        git(tmp_path / "copy", "apply", str(tmp_path / "diff"))
        assert (tmp_path / "copy" / "ä b.py").read_text() == "x = 2\n"
        assert (tmp_path / "copy" / "aml_config" / "moved.runconfig").exists()

    @pytest.mark.parametrize(
        ("committed", "changed"),
        [
            ("{DB_PASS: hunter2-x}", "{DB_PASS: 1}"),
            ("{A: 1}", "{DB_PASS: hunter2-x}"),
            ("{DB_PASS: hunter2-x}", "{A: 2}"),
        ],
    )
    def test_diff_has_no_secrets_of_configurations(self, repository: Path, committed: str, changed: str) -> None:
        path, head = "aml_config/local.runconfig", "Target: local\nEnvironmentVariables: "
        write_files(repository, {path: f"{head}{committed}\n"})
        git(repository, "commit", "-q", "-a", "-m", "second")
        write_files(repository, {path: f"{head}{changed}\n", "hello.py": "print('changed')\n"})
        found, diff = git_state(str(repository))
        assert b"hunter2" not in diff
        assert b"changed" in diff
        assert found is not None
        assert path in found["changed"]

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("diff.noprefix", "true"), ("diff.mnemonicPrefix", "true"), ("diff.srcPrefix", "x/"), ("core.abbrev", "4"),
            ("color.ui", "always"), ("diff.context", "0"), ("diff.renames", "copies"), ("diff.orderFile", "order"),
            ("diff.relative", "true"), ("diff.submodule", "log"), ("diff.wordRegex", "."), ("core.autocrlf", "false"),
        ],
    )  # fmt: skip
    @pytest.mark.parametrize("scope", ["--global", "--local"])
    def test_diff_can_be_applied_with_any_setting(
        self, repository: Path, tmp_path: Path, key: str, value: str, scope: str
    ) -> None:
        git(repository, "config", scope, key, value)
        write_files(repository, {"hello.py": "print('changed')\n", "order": ""})
        _, diff = git_state(str(repository))
        git(tmp_path, "clone", "-q", str(repository), "copy")
        (tmp_path / "diff").write_bytes(diff)
        git(tmp_path / "copy", "-c", "core.attributesFile=/dev/null", "apply", str(tmp_path / "diff"))
        assert (tmp_path / "copy" / "hello.py").read_text() == "print('changed')\n"

    def test_binary_files_and_files_with_a_filter_are_left_out_of_the_diff(
        self, repository: Path, tmp_path: Path
    ) -> None:
        write_files(repository, {"a.large": "1", "b.secret": "1", "c": "1", ".gitattributes": "*.large filter=lfs\n"})
        write_files(repository, {".git/info/attributes": "*.secret filter=\n"})
        (repository / "c").write_bytes(b"\0\1")
        git(repository, "add", "-A")
        git(repository, "commit", "-q", "-m", "files")
        write_files(repository, {"a.large": "changed", "b.secret": "changed", "hello.py": "x = 1\n"})
        (repository / "c").write_bytes(b"\0\2")
        found, diff = git_state(str(repository))
        assert found is not None
        assert found["changed"] == ["a.large", "b.secret", "c", "hello.py"]
        assert found["diff_files_left_out"] == ["a.large", "b.secret", "c"]
        git(tmp_path, "clone", "-q", str(repository), "copy")
        (tmp_path / "diff").write_bytes(diff)
        git(tmp_path / "copy", "apply", str(tmp_path / "diff"))
        assert (tmp_path / "copy" / "hello.py").read_text() == "x = 1\n"
        assert (tmp_path / "copy" / "a.large").read_text() == "1"

    def test_diff_holds_no_password(self, repository: Path) -> None:
        write_files(repository, {"aml_config/box.compute": "type: remote\n"})
        git(repository, "add", "-A")
        write_files(repository, {"aml_config/box.compute": "type: remote\npassword: hunter2\n", "hello.py": "x = 1\n"})
        _, diff = git_state(str(repository))
        assert b"x = 1" in diff
        assert b"hunter2" not in diff

    def test_repository_is_not_written(self, repository: Path) -> None:
        write_files(repository, {"hello.py": "print('hello')\n"})
        os.utime(repository / "hello.py", (1, 1))
        before = {path: path.stat().st_mtime_ns for path in (repository / ".git").rglob("*")}
        git_state(str(repository))
        assert {path: path.stat().st_mtime_ns for path in (repository / ".git").rglob("*")} == before

    def test_only_the_project_of_a_larger_repository_counts(self, tmp_path: Path) -> None:
        git(tmp_path, "init", "-q")
        write_files(tmp_path, {"project/a.py": "1", "other/b.py": "1"})
        git(tmp_path, "add", "-A")
        git(tmp_path, "commit", "-q", "-m", "first")
        write_files(tmp_path, {"project/a.py": "2", "other/b.py": "2", "other/c.py": ""})
        found, diff = git_state(str(tmp_path / "project"))
        assert found is not None
        assert (found["changed"], found["untracked"]) == (["project/a.py"], [])
        assert b"other" not in diff

    def test_missing_commit_and_detached_head_are_recorded(self, tmp_path: Path, repository: Path) -> None:
        (tmp_path / "new").mkdir()
        git(tmp_path / "new", "init", "-q")
        (tmp_path / "new" / "a").write_text("")
        found, _ = git_state(str(tmp_path / "new"))
        assert found is not None
        assert (found["commit"], found["untracked"], found["remote"]) == (None, ["a"], None)
        git(repository, "checkout", "-q", "--detach")
        found, _ = git_state(str(repository))
        assert found is not None
        assert found["branch"] is None
        assert found["commit"]

    @pytest.mark.parametrize(
        ("tool", "said"), [(None, "git: No such file"), ("exec sleep 60", "timed out"), ("exit 3", "")]
    )
    def test_failing_git_is_recorded(
        self, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str | None, said: str
    ) -> None:
        monkeypatch.setattr("tui_workbench.runs.snapshots.provenance.GIT_SECONDS", 0.2)
        if tool is not None:
            write_files(tmp_path, {"bin/git": f"#!/bin/sh\n{tool}\n"})
            (tmp_path / "bin/git").chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path / "bin") + (":/usr/bin:/bin" if tool else ""))
        found, diff = git_state(str(repository))
        assert found is not None
        assert said in found["problem"]
        assert diff == b""

    def test_repository_that_git_refuses_is_recorded(self, repository: Path) -> None:
        (repository / ".git" / "config").write_text("[broken")
        found, _ = git_state(str(repository))
        assert found is not None
        assert "config" in found["problem"]


@pytest.mark.parametrize(
    ("address", "masked"),
    [
        (ADDRESS, "https://***@example.org/team/project.git"),
        ("https://token@example.org/r", "https://***@example.org/r"),
        ("https://example.org/r?access_token=1", "https://example.org/r?***"),
        ("ssh://git@example.org/r", "ssh://git@example.org/r"),
        ("ssh://git:secret@example.org/r", "ssh://***@example.org/r"),
        ("git@example.org:team/r.git", "git@example.org:team/r.git"),
        ("git+https://x:y@example.org/r@abc", "git+https://***@example.org/r@abc"),
        ("https://example.org/a@b", "https://example.org/a@b"),
        ("/srv/r.git", "/srv/r.git"),
        ("", ""),
    ],
)
def test_secrets_in_addresses_are_masked(address: str, masked: str) -> None:
    assert masked_address(address) == masked


@pytest.mark.parametrize(
    ("arguments", "seeds"),
    [
        (("--seed", "1"), {"--seed": "1"}),
        (("--seed=1", "--data-seed", "2"), {"--seed": "1", "--data-seed": "2"}),
        (("random_seed=3", "trainer.seed=4"), {"random_seed": "3", "trainer.seed": "4"}),
        (("--RandomSeed", "-7"), {"--RandomSeed": "-7"}),
        (("--seeds-file", "x", "--proceed", "seed"), {}),
        (("--seed",), {}),
    ],
)
def test_seeds_are_found(arguments: tuple[str, ...], seeds: dict[str, str]) -> None:
    found = find_seeds(arguments, {"PYTHONHASHSEED": "0", "SEED_TOKEN": "secret", "OTHER": "1"})
    assert found == {**seeds, "PYTHONHASHSEED": "0"}


class TestRun:
    @pytest.fixture
    def found(self, repository: Path, project: Project) -> tuple[RunDirectory, dict[str, Any]]:
        write_configuration(repository, TrackedRun=True)
        write_files(repository, {"hello.py": "print('changed')\n"})
        run = Runs(project).submit(REQUEST._replace(arguments=("--seed", "5")))
        path = Path(run.directory, FILE)
        until(path.exists, "the provenance")
        return RunDirectory(run.directory), json.loads(path.read_text())

    @pytest.mark.processes
    def test_provenance_is_complete(self, found: tuple[RunDirectory, dict[str, Any]], repository: Path) -> None:
        directory, provenance = found
        record = directory.read_record()
        assert provenance["schema"] == 1
        assert provenance["snapshot"] == {"kind": "git", "commit": record.commit_id}
        assert provenance["git"]["commit"] == git(repository, "rev-parse", "HEAD")
        assert provenance["git"]["changed"] == ["aml_config/local.runconfig", "hello.py"]
        assert provenance["packages"]["pytest"] == pytest.__version__
        assert list(provenance["packages"]) == sorted(provenance["packages"])
        assert provenance["python"]["executable"] == sys.executable
        assert provenance["host"]["name"] == provenance["submitted_from"] == platform.node()
        assert provenance["seeds"] == {"--seed": "5"}
        assert provenance["user"] == record.user_id
        assert provenance["collected"] >= record.created
        assert provenance["problems"] == {}
        diff = Path(directory.file(DIFF))
        assert "+print('changed')" in diff.read_text()
        assert diff.stat().st_mode & 0o077 == 0
        assert "gh_token" not in json.dumps(provenance)

    @pytest.mark.processes
    def test_repeated_run_has_the_provenance_of_its_origin(
        self, found: tuple[RunDirectory, dict[str, Any]], repository: Path
    ) -> None:
        directory, provenance = found
        git(repository, "commit", "-q", "-a", "-m", "later")
        record = directory.read_record()._replace(origin=directory.run_id)
        again, diff = collect(record)
        assert again["git"] == provenance["git"]
        assert diff == Path(directory.file(DIFF)).read_bytes()
        lost, _ = collect(record._replace(origin="project_1"))
        assert "not recorded" in lost["git"]["problem"]


def test_recorded_provenance_is_kept(project: Project) -> None:
    directory = make_run(project, "project_1700000000001")
    record = record_of(Path(directory.path))
    tracked = record._replace(
        spec=record.spec._replace(run_configuration=record.spec.run_configuration._replace(tracked_run=True))
    )
    Path(directory.file(FILE)).write_text("{}")
    assert start_collecting(directory, tracked, -1) == -1
    assert Path(directory.file(FILE)).read_text() == "{}"


def test_collector_holds_no_lock_and_leaves_no_child(project: Project) -> None:
    directory = make_run(project, "project_1700000000001")
    record = record_of(Path(directory.path))
    configuration = record.spec.run_configuration._replace(tracked_run=True)
    tracked = record._replace(spec=record.spec._replace(run_configuration=configuration))
    before = children()
    lock = os.open(os.devnull, os.O_RDONLY)
    reading = start_collecting(directory, tracked, lock)
    assert os.read(reading, 1) == b""
    os.close(reading)
    os.close(lock)
    assert Path(directory.file(FILE)).exists()
    assert children() <= before


def test_removed_run_does_not_fail_the_collector(project: Project) -> None:
    directory = make_run(project, "project_1700000000001")
    record = record_of(Path(directory.path))
    configuration = record.spec.run_configuration._replace(tracked_run=True)
    tracked = record._replace(spec=record.spec._replace(run_configuration=configuration))
    gone = RunDirectory(directory.path + "-gone")
    reading = start_collecting(gone, tracked, os.open(os.devnull, os.O_RDONLY))
    assert os.read(reading, 1) == b""
    os.close(reading)
    assert not Path(gone.path).exists()
