"""Repeating a run gives the same run, with or without requested changes, after any change of the project."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.faults.support import until
from tests.runs.support import write_configuration, write_files
from tui_workbench.core.errors import ConfigurationError, RunNotFound, UsageError
from tui_workbench.core.model import Run, RunRequest
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.resuming import lock_of_ended
from tui_workbench.runs.store.rundir import RunDirectory

SAY = """\
import os, sys
print("first", *sys.argv[1:], os.environ.get("WORD", "-"), os.environ.get("API_KEY", "-"))
print(*sorted(os.listdir(".")))
"""
"""Prints its version, its arguments, two variables and the files next to it."""

ARGUMENTS = ("a b", "--lr=0.1")
REQUEST = RunRequest("local", "say.py", ARGUMENTS)


class Bench:
    """A tracked project whose script prints its inputs."""

    def __init__(self, project: Project) -> None:
        self.root = Path(project.root)
        self.runs = Runs(project)
        write_files(self.root, {"say.py": SAY})
        self.configure()

    def configure(self, *, tracked: bool = True, **variables: str) -> None:
        variables = {"WORD": "then", "API_KEY": "s3cret", **variables}
        write_configuration(self.root, TrackedRun=tracked, EnvironmentVariables=variables)

    def run(self) -> Run:
        return self.ended(self.runs.submit(REQUEST))

    def again(self, run: Run, request: RunRequest | None = None) -> list[str]:
        """Return the output of the repeated run."""
        return self.lines(self.ended(self.runs.submit(request or self.runs.request_of(run.run_id))))

    def ended(self, run: Run) -> Run:
        directory = RunDirectory(run.directory)
        until(lambda: not directory.run().is_active, "the end")
        return directory.run()

    def lines(self, run: Run) -> list[str]:
        return Path(run.log_path).read_text().splitlines()


@pytest.fixture
def bench(project: Project) -> Bench:
    return Bench(project)


@pytest.mark.processes
def test_rerun_uses_old_code_arguments_and_configuration(bench: Bench) -> None:
    run = bench.run()
    said = bench.lines(run)
    write_files(bench.root, {"say.py": SAY.replace("first", "second"), "new.txt": "new"})
    bench.configure(WORD="now")
    repeated = bench.ended(bench.runs.submit(bench.runs.request_of(run.run_id)))
    assert bench.lines(repeated) == said
    assert said[0] == "first a b --lr=0.1 then s3cret"
    assert (repeated.commit_id, repeated.arguments) == (run.commit_id, run.arguments)
    assert json.loads(Path(repeated.directory, "run.json").read_text())["origin"] == run.run_id


def test_rerun_by_number(bench: Bench) -> None:
    run = bench.run()
    assert bench.runs.request_of("1") == bench.runs.request_of(run.run_id)


def test_removed_script_can_be_rerun(bench: Bench) -> None:
    run = bench.run()
    (bench.root / "say.py").unlink()
    assert bench.again(run) == bench.lines(run)


@pytest.mark.processes
def test_ignored_files_are_available_to_a_rerun(bench: Bench) -> None:
    write_files(bench.root, {".gitignore": "data/\n", "data/big.bin": "big"})
    run = bench.run()
    write_files(bench.root, {".gitignore": "other/\n", "other/x": "x"})
    listed = bench.again(run)[1].split()
    assert "data" in listed
    assert Path(bench.runs.list()[0].directory, "work", "say.py").exists() is False


@pytest.mark.processes
def test_secret_comes_from_the_current_configuration(bench: Bench) -> None:
    run = bench.run()
    bench.configure(API_KEY="n3w")
    assert bench.again(run)[0] == "first a b --lr=0.1 then n3w"
    assert "n3w" not in Path(bench.runs.list()[0].directory, "run.json").read_text()


@pytest.mark.processes
def test_missing_secret_is_refused_before_the_run(bench: Bench) -> None:
    run = bench.run()
    write_configuration(bench.root, TrackedRun=True, EnvironmentVariables={"WORD": "now"})
    with pytest.raises(ConfigurationError, match=r"API_KEY.*is no longer in"):
        bench.runs.submit(bench.runs.request_of(run.run_id))
    assert len(bench.runs.list()) == 1


@pytest.mark.processes
def test_rerun_with_changes(bench: Bench) -> None:
    run = bench.run()
    request = bench.runs.request_of(run.run_id)
    assert (request.script, request.arguments) == ("say.py", ARGUMENTS)
    assert bench.again(run, request._replace(arguments=("x",)))[0] == "first x then s3cret"
    assert bench.again(run, request._replace(environment=(("WORD", "mine"),)))[0].endswith("mine s3cret")
    bench.configure(WORD="now")
    assert bench.again(run, request._replace(run_configuration="local", arguments=()))[0] == "first now s3cret"


@pytest.mark.processes
def test_untracked_configuration_still_uses_the_snapshot(bench: Bench) -> None:
    run = bench.run()
    write_files(bench.root, {"say.py": SAY.replace("first", "second")})
    bench.configure(tracked=False)
    request = bench.runs.request_of(run.run_id)._replace(run_configuration="local")
    assert bench.again(run, request)[0].startswith("first")


@pytest.mark.processes
def test_another_script_must_be_in_the_snapshot(bench: Bench) -> None:
    run = bench.run()
    write_files(bench.root, {"later.py": "print(1)"})
    request = bench.runs.request_of(run.run_id)
    assert bench.again(run, request._replace(script="hello.py", arguments=())) == ["hello"]
    for script in ("later.py", "../say.py", "/etc/passwd", "aml_config"):
        with pytest.raises(UsageError, match="has no script"):
            bench.runs.submit(request._replace(script=script))


@pytest.mark.processes
def test_ignored_script_can_be_rerun(bench: Bench) -> None:
    write_files(bench.root, {".gitignore": "say.py\n"})
    run = bench.run()
    write_files(bench.root, {"say.py": SAY.replace("first", "second")})
    assert bench.again(run)[0].startswith("second")
    (bench.root / "say.py").unlink()
    with pytest.raises(UsageError, match="has no script"):
        bench.runs.submit(bench.runs.request_of(run.run_id))


def test_secret_variables_in_a_request_are_refused(bench: Bench) -> None:
    with pytest.raises(UsageError, match=r"API_KEY is a secret.*local\.runconfig"):
        bench.runs.submit(REQUEST._replace(environment=(("API_KEY", "x"),)))


@pytest.mark.processes
def test_untracked_rerun_uses_the_project(bench: Bench) -> None:
    bench.configure(tracked=False)
    run = bench.run()
    write_files(bench.root, {"say.py": SAY.replace("first", "second")})
    assert bench.again(run)[0] == "second a b --lr=0.1 then s3cret"


@pytest.mark.processes
def test_rerun_can_be_rerun(bench: Bench) -> None:
    first = bench.run()
    second = bench.ended(bench.runs.submit(bench.runs.request_of(first.run_id)))
    with lock_of_ended(RunDirectory(first.directory)):  # its controller does not write to it any more
        shutil.rmtree(first.directory)
    assert bench.again(second) == bench.lines(second)


@pytest.mark.processes
def test_missing_snapshot_is_refused(bench: Bench) -> None:
    run = bench.run()
    shutil.rmtree(bench.root / ".workbench" / "snapshots.git")
    with pytest.raises(UsageError, match="no longer in the project's snapshots"):
        bench.runs.submit(bench.runs.request_of(run.run_id))
    with pytest.raises(RunNotFound):
        bench.runs.submit(bench.runs.request_of("none"))
    assert len(bench.runs.list()) == 1


@pytest.mark.processes
def test_links_of_an_old_snapshot_stay_in_the_copy(bench: Bench, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (bench.root / "data").symlink_to(outside)
    run = bench.run()
    (bench.root / "data").unlink()
    write_files(bench.root, {".gitignore": "*.bin\n", "data/big.bin": "big"})
    bench.again(run)
    assert list(outside.iterdir()) == []


@pytest.mark.processes
def test_file_that_became_a_folder(bench: Bench) -> None:
    write_files(bench.root, {"data": "a file"})
    run = bench.run()
    (bench.root / "data").unlink()
    write_files(bench.root, {".gitignore": "data/\n", "data/deep/x": "x"})
    assert "data" in bench.again(run)[1].split()
