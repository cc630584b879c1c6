"""The files of runs in a project like nanoGPT, with checkpoints and prepared data."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import Installed
from tests.conftest import write_project
from tests.faults.support import until
from tests.runs.sources import listing
from tests.runs.support import write_configuration, write_files

PREPARE = 'import os\nos.makedirs("data", exist_ok=True)\nopen("data/train.bin", "w").write("tokens")\n'
TRAIN = """\
import sys, time
print(open("out/ckpt.pt").read(), flush=True)
time.sleep(0.2)
open("out/ckpt.pt", "w").write(f"trained {sys.argv[-1]}")
"""


@pytest.fixture
def nanogpt(tmp_path: Path) -> Installed:
    workbench = Installed(write_project(tmp_path / "project"))
    write_configuration(workbench.folder, TrackedRun=True)
    write_files(workbench.folder, {".gitignore": "*.pt\n*.bin\n", "train.py": TRAIN, "prepare.py": PREPARE})
    write_files(workbench.folder, {"out/ckpt.pt": "of the project"})
    return workbench


def project_of(workbench: Installed) -> dict[str, str | bytes]:
    return {name: what for name, what in listing(workbench.folder).items() if not name.startswith(".workbench")}


@pytest.mark.processes
def test_each_run_of_a_sweep_has_its_own_checkpoint(nanogpt: Installed) -> None:
    was = project_of(nanogpt)
    values = ("--param", "lr=1,2,3", "--max-parallel", "3")
    assert nanogpt.run("experiment", "sweep", "-c", "local", *values, "train.py", "{lr}").code == 0
    until(lambda: {run["status"] for run in nanogpt.history()} == {"Completed"}, "the end of the sweep")
    made = []
    for run in nanogpt.history():
        directory = nanogpt.folder / ".workbench" / "runs" / run["run_id"]
        assert (directory / "output.log").read_text() == "of the project\n"
        made.append((directory / "work" / "out" / "ckpt.pt").read_text())
        assert "work/out/ckpt.pt" in nanogpt.info(run["run_id"])["attachments"]
    assert sorted(made) == ["trained 1", "trained 2", "trained 3"]
    assert project_of(nanogpt) == was


@pytest.mark.processes
def test_submit_reports_files_outside_outputs(nanogpt: Installed, tmp_path: Path) -> None:
    result = nanogpt.submit("prepare.py")
    assert "created 1 file (6 B) outside outputs/. " in result.err
    assert "workbench-tui history download -r 1 --into-project" in result.err
    assert not (nanogpt.folder / "data").exists()
    assert "copied 1 file into the project" in nanogpt.run("history", "download", "-r", "1", "--into-project").err
    assert (nanogpt.folder / "data/train.bin").read_text() == "tokens"
    assert nanogpt.run("history", "download", "-r", "1", "-d", str(tmp_path / "there")).code == 0
    assert (tmp_path / "there/work/data/train.bin").read_text() == "tokens"
    assert nanogpt.run("history", "promote", "-r", "1", "-ap", "work/data/train.bin").code == 0
    assert nanogpt.run("history", "export", "--format", "mlflow", str(tmp_path / "mlruns")).code == 0
    assert [path.read_text() for path in (tmp_path / "mlruns").rglob("train.bin")] == ["tokens"]


def test_keep_outputs_copies_files_into_the_project(nanogpt: Installed) -> None:
    result = nanogpt.run("experiment", "submit", "-c", "local", "--keep-outputs", "data/*.bin", "prepare.py")
    assert "copied 1 file into the project" in result.err
    assert (nanogpt.folder / "data/train.bin").read_text() == "tokens"


def test_download_needs_one_destination(nanogpt: Installed) -> None:
    nanogpt.run("history", "download", "-r", "1").error(2, "--into-project")
    nanogpt.run("history", "download", "-r", "1", "-d", "x", "--into-project").error(2, "--directory")


def test_dry_run_lists_the_files_of_the_run(nanogpt: Installed) -> None:
    write_files(nanogpt.folder, {".amlignore": "raw/\n", "raw/x": "", "data/set": "", ".venv/pyvenv.cfg": ""})
    write_configuration(nanogpt.folder, TrackedRun=True, DataReferences=["data"])
    out = nanogpt.run("experiment", "submit", "-c", "local", "--dry-run", "train.py").out
    (line,) = [line for line in out.splitlines() if line.startswith("2. copy:")]
    assert "ignored files copied: out/ckpt.pt (" in line
    assert line.endswith("; data linked: data; left out: raw, .venv")
    assert not (nanogpt.folder / ".workbench").exists()


def test_large_data_is_refused_with_both_remedies(nanogpt: Installed) -> None:
    (nanogpt.folder / "images").mkdir()
    with (nanogpt.folder / "images" / "all.raw").open("wb") as file:
        file.truncate(2 << 30)
    submitted = nanogpt.submit("train.py")
    submitted.error(
        2, "images/all.raw (2.1 GB)", 'DataReferences: ["images/all.raw"]', "`/images/all.raw` to .amlignore"
    )
    assert not (nanogpt.folder / ".workbench").exists()


def test_files_written_outside_the_copy_are_reported(nanogpt: Installed) -> None:
    script = "import os\nfor name in 'empty', 'data', 'cache': os.mkdir(f'../{name}')\n"
    script += "for name in '../data/set', '../cache/set': open(name, 'w').write('x')\n"
    write_files(nanogpt.folder, {"train.py": script})
    said = nanogpt.submit("train.py").err
    assert "the script wrote 2 B to ../cache and ../data, outside its working copy" in said
