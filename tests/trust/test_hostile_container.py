"""A container cannot reach the record of its run, and links that it writes are not followed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.engines import BARE_IMAGE, PYTHON_IMAGE, DockerEngine
from tests.machines import Machine
from tests.targets.conftest import connections as connections
from tests.targets.conftest import gpubox as gpubox
from tests.targets.conftest import key as key
from tests.targets.conftest import ssh_folder as ssh_folder
from tests.targets.docker_fixtures import engine as engine
from tests.targets.docker_fixtures import gpubox_engine as gpubox_engine
from tests.targets.docker_fixtures import session_engine as session_engine
from tests.targets.docker_fixtures import session_gpubox_engine as session_gpubox_engine
from tests.targets.docker_project import DockerProject, log
from tui_workbench.runs.store.rundir import RunDirectory

PRECIOUS = "precious\n"

RECORD = ("run.json", "events.jsonl", "controller.lock", "trace.jsonl", "preparation.log")

REPLACE = """
import os
victim = VICTIM
for folder, names in (("/workbench/run", NAMES), ("/workbench/run/work", ("outputs", "__pycache__"))):
    for name in names:
        path = os.path.join(folder, name)
        try:
            if os.path.isdir(path) and not os.path.islink(path):
                os.rename(path, path + ".gone")
            elif os.path.lexists(path):
                os.unlink(path)
            os.symlink(victim if name in ("work", "outputs", "ranks", "__pycache__") else victim + "/file", path)
        except OSError as error:
            print(path, error.errno)
print("done")
"""
NAMES = (
    "run.json", "events.jsonl", "controller.lock", "annotations.json", "annotations.lock", "cancel", "trace.jsonl",
    "metrics.json", "metrics.cache", "metrics.jsonl", "metrics.jsonl.gz", "provenance.json", "git.diff", "gpu.json",
    "gpu.jsonl", "gpus", "pid", "exit", "output.log", "boot", "work", "outputs", "ranks", "live", "progress.json",
    "preparation.log",
)  # fmt: skip


@pytest.fixture
def project(tmp_path: Path, engine: DockerEngine) -> DockerProject:
    """Return a project whose runs execute in containers of this machine's engine."""
    return DockerProject(tmp_path / "project")


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """Return a folder of the user, outside the project."""
    folder = tmp_path / "victim"
    (folder / "deep").mkdir(parents=True)
    (folder / "file").write_text(PRECIOUS)
    (folder / "deep" / "file").write_text(PRECIOUS)
    return folder


def assert_untouched(victim: Path) -> None:
    found = {str(path.relative_to(victim)): path.is_dir() or path.read_text() for path in victim.rglob("*")}
    assert found == {"file": PRECIOUS, "deep": True, "deep/file": PRECIOUS}


@pytest.mark.parametrize("tracked", [True, False], ids=["tracked", "untracked"])
def test_record_of_a_run_is_not_visible_in_its_container(project: DockerProject, tracked: bool) -> None:
    project.runconfig(TrackedRun=tracked)
    run = project.run(
        """
        import os
        seen = [name for name in os.listdir("/workbench/run")]
        for folder, _, names in os.walk("/workbench"):
            seen += [name for name in names]
        print(sorted(set(seen) & set(RECORD)), os.path.exists("/workbench/project/.workbench/runs"))
    """.replace("RECORD", repr(RECORD))
    )
    assert run.state == "completed"
    assert log(run) == "[] False\n"


@pytest.mark.parametrize("tracked", [True, False], ids=["tracked", "untracked"])
def test_links_made_by_a_container_are_not_followed(project: DockerProject, victim: Path, tracked: bool) -> None:
    project.runconfig(TrackedRun=tracked)
    run = project.run(REPLACE.replace("VICTIM", repr(str(victim))).replace("NAMES", repr(NAMES)))
    assert "done" in log(run)
    assert run.state == "completed"
    assert_untouched(victim)
    assert RunDirectory(run.directory).status().exit_code == 0
    links = [name for name in os.listdir(run.directory) if os.path.islink(os.path.join(run.directory, name))]
    assert links == []
    assert (Path(run.directory) / "outputs").is_dir()


def test_container_cannot_replace_the_state_of_its_project(project: DockerProject, victim: Path) -> None:
    project.runconfig(TrackedRun=False)
    run = project.run("""
        import os
        for action in (
            lambda: os.rename("/workbench/project/.workbench", "/workbench/project/moved"),
            lambda: os.mkdir("/workbench/project/.workbench/runs"),
            lambda: os.rmdir("/workbench/project/.workbench"),
        ):
            try:
                action()
                print("it could")
            except OSError:
                print("refused")
    """)
    assert log(run) == "refused\n" * 3
    assert_untouched(victim)


def test_run_in_an_image_without_a_shell_keeps_its_record(tmp_path: Path, engine: DockerEngine, victim: Path) -> None:
    project = DockerProject(tmp_path / "bare", baseDockerImage=BARE_IMAGE)
    run = project.run(REPLACE.replace("VICTIM", repr(str(victim))).replace("NAMES", repr(NAMES)))
    assert run.state == "completed"
    assert "done" in log(run)
    assert_untouched(victim)


@pytest.mark.parametrize(
    "text", ["x" * 100_000, "-1\n", "7" * 5_000 + "\n", "\0" * 50 + "\n"], ids=["long", "negative", "large", "nul"]
)
def test_exit_file_of_a_container_is_read_as_data(project: DockerProject, text: str) -> None:
    script = f"for name in ('exit', 'pid'): open('/workbench/run/' + name, 'w').write({text!r})"
    run = project.run(script)
    assert run.state in ("completed", "failed", "unknown")
    assert RunDirectory(run.directory).status().end


def test_links_made_by_a_remote_container_are_not_followed(
    tmp_path: Path, gpubox: Machine, ssh_folder: Path, gpubox_engine: DockerEngine
) -> None:
    there = gpubox.home() / "victim"
    (there / "deep").mkdir(parents=True)
    for name in ("file", "deep/file"):
        (there / name).write_text(PRECIOUS)
    gpubox.run(["chown", "-R", "research:", "/home/research/victim"])
    project = DockerProject(tmp_path / "project", type="remotedocker", address=gpubox.address, username="research")
    text = REPLACE.replace("VICTIM", repr("/home/research/victim")).replace("NAMES", repr(NAMES))
    run = project.run(text)
    assert run.state == "completed", run.reason
    assert "done" in log(run)
    assert_untouched(there)
    found = [path for path in Path(run.directory).rglob("*") if path.is_symlink()]
    assert found == []
    texts = [path.read_text() for path in Path(run.directory).rglob("file") if path.is_file()]
    assert PRECIOUS not in texts


def test_probe_imports_nothing_from_the_images_working_folder(tmp_path: Path, engine: DockerEngine) -> None:
    folder = tmp_path / "image"
    folder.mkdir()
    for name in ("json", "platform", "signal", "typing"):
        (folder / f"{name}.py").write_text("raise SystemExit(7)\n")
    (folder / "Dockerfile").write_text(f"FROM {PYTHON_IMAGE}\nWORKDIR /hostile\nCOPY *.py /hostile/\n")
    engine.docker("build", "--network", "none", "--tag", "local/hostile:1", str(folder))
    project = DockerProject(tmp_path / "project", baseDockerImage="local/hostile:1")
    run = project.run("print('done')")
    engine.docker("image", "rm", "--force", "local/hostile:1")
    assert run.state == "completed", run.reason
    assert log(run) == "done\n"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ('{"python": "/bin/true", "packages": 3}', "`packages` is 3, expected a list"),
        ("[1]", "it is [1], expected an object"),
        ('{"version": {}}', "`version` is {}, expected text"),
        ("[" * 5_000, "it is nested too deeply"),
    ],
    ids=["packages", "list", "version", "deep"],
)
def test_invalid_answer_of_the_python_of_an_image_is_reported(
    project: DockerProject, engine: DockerEngine, tmp_path: Path, answer: str, reason: str
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("python", "python3"):
        (programs / name).write_text(f"#!/bin/sh\necho 'workbench-probe:{answer}'\n")
        (programs / name).chmod(0o755)
    image = f"tests/answer:{len(answer)}"
    container = engine.docker("create", PYTHON_IMAGE, "true")
    engine.docker("cp", str(programs), f"{container}:/programs")
    engine.docker("commit", "--change", "ENV PATH=/programs:/usr/bin:/bin", container, image)
    engine.docker("rm", container)
    project.compute(baseDockerImage=image)
    run = project.run("print(1)")
    assert run.state == "failed"
    assert f"Python of the image {image} cannot be started: its answer is invalid: {reason}" in run.reason
