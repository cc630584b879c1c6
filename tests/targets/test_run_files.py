"""Files that a run reads and writes, on every kind of target."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.runs.sources import listing
from tests.runs.support import write_files
from tests.targets.docker_project import DockerProject, events, log
from tests.targets.remote_fixtures import PYTHON_THERE
from tests.waiting import wait_until
from tui_workbench.core.errors import ConfigurationError
from tui_workbench.core.model import RunRequest
from tui_workbench.runs.transfer.downloads import attachments

if TYPE_CHECKING:
    from tests.engines import DockerEngine
    from tests.machines import Machine
    from tui_workbench.core.model import Run

NANOGPT = ".DS_Store\n*.bin\n*.pt\n*.pkl\nout-*/\n__pycache__/\n.env\n"
"""The ignore rules of nanoGPT, shortened."""

TRAIN = """
    import os, sys
    data = open("data/chars/train.bin").read()
    os.makedirs("out-chars", exist_ok=True)
    began = open("out-chars/ckpt.pt").read() if os.path.exists("out-chars/ckpt.pt") else "scratch"
    print(f"{began} {data} {os.path.exists('.env')}", flush=True)
    open("out-chars/ckpt.pt", "w").write(f"trained with {sys.argv[1]}")
    open("outputs/curve.txt", "w").write("1")
"""


@pytest.fixture(
    params=[
        "local",
        pytest.param("localdocker", marks=pytest.mark.docker),
        pytest.param("copied", marks=pytest.mark.docker),
        pytest.param("remote", marks=pytest.mark.ssh),
        pytest.param("remotedocker", marks=pytest.mark.docker),
    ]
)
def project(request: pytest.FixtureRequest, tmp_path: Path) -> DockerProject:
    """Return a project like nanoGPT with an older checkpoint."""
    made = _project(request, tmp_path, request.param)
    write_files(
        made.root,
        {".gitignore": NANOGPT, "data/chars/train.bin": "tokens", "data/chars/prepare.py": "", ".env": "SECRET=1"},
    )
    write_files(made.root, {"out-chars/ckpt.pt": "of the project"})
    return made


def _project(request: pytest.FixtureRequest, tmp_path: Path, kind: str) -> DockerProject:
    root, share = tmp_path / "project", str(tmp_path / "share")
    if kind == "local":
        return DockerProject(root, type="local", pythonLocation=sys.executable, nativeSharedDirectory=share)
    if kind in ("localdocker", "copied"):
        engine: DockerEngine = request.getfixturevalue("engine")
        assert engine
        return DockerProject(
            root, nativeSharedDirectory=share, **({"sharedVolumes": False} if kind == "copied" else {})
        )
    gpubox: Machine = request.getfixturevalue("gpubox")
    request.getfixturevalue("ssh_folder")
    there = {"address": gpubox.address, "username": "research"}
    request.addfinalizer(lambda: shutil.rmtree(gpubox.home() / ".workbench-tui", ignore_errors=True))
    if kind == "remote":
        return DockerProject(root, type="remote", pythonLocation=PYTHON_THERE, **there)
    request.getfixturevalue("gpubox_engine")
    return DockerProject(root, type="remotedocker", **there)


def before(project: DockerProject) -> dict[str, str | bytes]:
    """Return every file of the project except the workbench's own."""
    return {name: what for name, what in listing(project.root).items() if not name.startswith(".workbench")}


def made(run: Run, name: str) -> str:
    return Path(run.directory, name).read_text()


def test_run_resumes_from_a_checkpoint_without_changing_it(project: DockerProject) -> None:
    project.script(TRAIN)
    was = before(project)
    run = project.ended(project.runs.submit(RunRequest("docker", "train.py", ("a",))))
    assert run.state == "completed", (run, log(run))
    assert log(run).startswith("of the project tokens ")
    assert made(run, "work/out-chars/ckpt.pt") == "trained with a"
    assert made(run, "outputs/curve.txt") == "1"
    assert before(project) == was
    kept = [name for name in attachments(run.directory) if name.startswith("work/")]
    assert kept == ["work/out-chars/ckpt.pt"]


def test_concurrent_runs_have_separate_checkpoints(project: DockerProject) -> None:
    project.script(TRAIN)
    was = before(project)
    runs = [project.runs.submit(RunRequest("docker", "train.py", (str(number),))) for number in range(3)]
    for number, run in enumerate(map(project.ended, runs)):
        assert run.state == "completed", (run, log(run))
        assert made(run, "work/out-chars/ckpt.pt") == f"trained with {number}"
    assert before(project) == was


def test_file_with_old_modification_time_is_fetched(project: DockerProject) -> None:
    run = project.run("""
        import os
        open("model.pt", "w").write("weights")
        os.utime("model.pt", (1e9, 1e9))
    """)
    assert made(run, "work/model.pt") == "weights"


@pytest.mark.docker
def test_declared_data_is_read_in_place(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Data in the project is on this machine only."""
    for kind in ("local", "localdocker", "copied"):
        project = _project(request, tmp_path / kind, kind)
        write_files(tmp_path / kind, {"elsewhere/set.bin": "far"})
        write_files(project.root, {"data/set.bin": "near"})
        elsewhere = str(tmp_path / kind / "elsewhere")
        project.runconfig(DataReferences=["data", elsewhere])
        run = project.run(f'print(open("data/set.bin").read(), open("{elsewhere}/set.bin").read())')
        assert log(run) == "near far\n", run
        assert not Path(run.directory, "work").exists()
        assert (project.root / "data" / "set.bin").read_text() == "near"


@pytest.mark.processes
def test_data_elsewhere_is_linked_and_never_removed(project: DockerProject, request: pytest.FixtureRequest) -> None:
    """Also by the end of the run, and by removing the run and all files of runs from the target."""
    kind = request.node.callspec.params["project"]
    is_remote = kind.startswith("remote")
    folder = request.getfixturevalue("gpubox").home() / "sets" if is_remote else project.root.parent / "sets"
    shown = "/home/research/sets" if is_remote else str(folder)
    write_files(folder, {"far/set.bin": "far", "near/set.bin": "near", "near/deep/more.bin": "more"})
    request.addfinalizer(lambda: shutil.rmtree(folder))
    was = listing(folder)
    written = ("../far/new.bin", "data/new.bin") if "docker" in kind or kind == "copied" else ()
    project.runconfig(DataReferences={"../far": f"{shown}/far", "data": f"{shown}/near"})
    run = project.run(
        """
        import sys
        print(open("../far/set.bin").read(), open("data/set.bin").read(), open("data/deep/more.bin").read())
        for name in sys.argv[1:]:
            try:
                open(name, "w")
            except OSError as error:
                print(error.strerror)
        open("outputs/made", "w").write("x")
    """,
        *written,
    )
    assert run.state == "completed", (run, log(run))
    assert log(run) == "far near more\n" + "Read-only file system\n" * len(written)
    directory = Path(run.directory)
    wait_until((directory / "provenance.json").exists)
    provenance = json.loads((directory / "provenance.json").read_text())
    facts = provenance["data"]["data"]
    assert (facts["path"], facts["files"], facts["bytes"], facts["complete"]) == (f"{shown}/near", 2, 8, True)
    newest = max(path.stat().st_mtime for path in (folder / "near", *(folder / "near").rglob("*")))
    assert facts["modified"] == pytest.approx(newest, abs=0.01)
    runs = [directory]
    if is_remote:
        runs.append(request.getfixturevalue("gpubox").home() / ".workbench-tui/runs" / run.run_id)
    assert [path for each in runs for path in each.rglob("*") if path.is_symlink()] == []
    assert not (directory / "work").exists()
    assert (directory / "outputs/made").exists()
    project.runs.delete(run.run_id)
    project.runs.purge([run.run_id])
    assert not directory.exists()
    assert listing(folder) == was


@pytest.mark.ssh
def test_missing_data_is_reported_before_the_start(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    project = _project(request, tmp_path, "remote")
    project.runconfig(DataReferences={"../far": "/nowhere/far", "data": "/home", "/nowhere/else": "/nowhere/else"})
    run = project.run("print('started')")
    assert run.state == "failed"
    assert "DataReferences: not found or not readable on " in run.reason
    assert ": /nowhere/far, /nowhere/else." in run.reason
    assert log(run) == ""
    assert not any(event.get("step") == "sync" for event in events(run))
    for references in ({"data": "data"}, ["../nowhere"]):
        project.runconfig(DataReferences=references)
        with pytest.raises(ConfigurationError, match="is a path on this machine, but docker is another machine"):
            project.submit("")


@pytest.mark.processes
def test_kept_outputs_are_copied_into_the_project(project: DockerProject) -> None:
    project.script("""
        import os
        os.makedirs("data/made", exist_ok=True)
        open("data/made/train.bin", "w").write("prepared")
    """)
    run = project.ended(project.runs.submit(RunRequest("docker", "train.py", keep_outputs=("data/made/",))))
    assert run.state == "completed", (run, log(run))
    assert (project.root / "data/made/train.bin").read_text() == "prepared"
