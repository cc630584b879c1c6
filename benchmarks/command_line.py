"""Measure short commands, and the checks and edits of configuration files.

    python -m benchmarks.command_line [--wall]

Commands: the baseline of their processor time is the interpreter of the installation: `python -c pass`, or `python
script` for a command that runs a script. The controller of a run is not counted, because it runs in parallel with the
script. `--wall` compares wall times, which needs a machine without other work.

Configuration files: checks, and the refusal of harmful files, are compared with PyYAML's C loader, which only parses.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import yaml

from benchmarks.harness import (
    compare,
    compare_values,
    environment,
    finish,
    measure,
    on_processor,
    process_time,
    processor_time,
    python,
    scratch_folder,
)
from tui_workbench.config.document import Document
from tui_workbench.core.errors import ConfigurationError
from tui_workbench.projects.project import Project
from tui_workbench.runs.store.rundir import RunDirectory

COMMAND = str(Path(python()).parent / "workbench-tui")
READING_ROUNDS, ROUNDS = 7, 9
SUBMIT = (COMMAND, "experiment", "submit", "--wait", "-c", "local", "hello.py")
FILES = 200

READING_LIMIT = 10.0
"""Limit of commands that only read: 100 ms on a machine where `python -c pass` takes 10 ms."""

SUBMIT_LIMIT = 8.0
"""Limit of `submit --wait` of a script, as a multiple of the script alone."""

TRACKED_LIMIT = 2.5
"""Limit of a tracked run of a project with FILES files, as a multiple of an untracked run."""

SEEN_SECONDS = 5.0
"""Age in seconds of the modification times of folders and files. The workbench does not trust recent times."""

REPOSITORY = Path(__file__).resolve().parent.parent
CORPUS = REPOSITORY.parent / "shared" / "corpus"
SAMPLE_FILES = REPOSITORY / "sample_project" / "aml_config"

CHECK_LIMIT, PROCESS_LIMIT, EDIT_LIMIT, REFUSAL_LIMIT = 7.0, 5.0, 3.0, 0.1
FILE_ROUNDS = 5
LARGE = 500_000
"""Bytes of harmful files that are read."""

LOADER = """
import sys, yaml
for path in sys.argv[1:]:
    with open(path, "rb") as file:
        yaml.load(file, Loader=yaml.CSafeLoader)
"""


class Measured(Protocol):
    """The type of `process_time` and `processor_time`."""

    def __call__(self, command: Sequence[str], *, directory: str | None = None) -> float: ...


def make_project(root: Path, *, tracked: bool = False, files: int = 0) -> Path:
    """Create a project with a one-line script and some files of typical size."""
    (root / "aml_config").mkdir(parents=True)
    (root / "aml_config" / "local.compute").write_text(f"type: local\npythonLocation: {json.dumps(python())}\n")
    (root / "aml_config" / "local.runconfig").write_text(
        f"Target: local\nFramework: Python\nArgumentVector: [$file]\nTrackedRun: {json.dumps(tracked)}\n"
    )
    (root / "hello.py").write_text('print("hello")\n')
    for number in range(files):
        path = root / "package" / f"part{number % 10}" / f"module{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# module {number}\n" + "x = 1\n" * 300)
    return root


def multiply_runs(root: Path, count: int) -> None:
    """Create `count` ended runs: a real one, and copies of it with other IDs, numbers and times."""
    subprocess.run(SUBMIT, cwd=root, env=environment(), stdout=subprocess.DEVNULL, check=True)
    project = Project.find(str(root))
    (name,) = os.listdir(project.runs_directory)
    source = Path(project.runs_directory, name)
    record = json.loads((source / "run.json").read_text())
    prefix, _, first = name.rpartition("_")
    for number in range(2, count + 1):
        run_id = f"{prefix}_{int(first) + number}"
        target = Path(project.runs_directory, run_id)
        target.mkdir()
        changed = {**record, "run_id": run_id, "run_number": number, "created": record["created"] + number / 1000}
        (target / "run.json").write_text(json.dumps(changed, indent=1))
        shutil.copyfile(source / "events.jsonl", target / "events.jsonl")
    assert RunDirectory(str(source)).run().state == "completed"
    # The index trusts only modification times that are older than SEEN_SECONDS.
    before = os.stat(project.runs_directory).st_mtime - SEEN_SECONDS
    os.utime(project.runs_directory, (before, before))


def compare_commands(folder: Path, measured: Measured) -> None:
    """Compare read-only commands with the start of the interpreter."""
    few = make_project(folder / "few")
    multiply_runs(few, 100)
    bare = [python(), "-c", "pass"]
    for words in (
        "--version",
        "history list",
        "history info --run 1",
        "experiment status --run 1",
        "logs 1",
        "status --line",
        "computetarget list",
        "config check",
    ):
        command = [COMMAND, *words.split()]
        compare(
            f"`{words}`, 100 runs" if words == "history list" else f"`{words}`",
            lambda command=command: measured(command, directory=str(few)),  # type: ignore[misc]
            lambda: measured(bare),
            READING_LIMIT,
            READING_ROUNDS,
            baseline_name="`python -c pass`",
        )


def compare_submits(folder: Path, measured: Measured) -> None:
    """Compare a run, from the command to its exit code, with the script alone."""
    untracked = make_project(folder / "untracked")
    tracked = make_project(folder / "tracked", tracked=True, files=FILES)
    plain = make_project(folder / "plain", files=FILES)
    for root in (untracked, tracked, plain):
        old = os.stat(root).st_mtime - SEEN_SECONDS
        for path in (root / "aml_config").iterdir():
            os.utime(path, (old, old))
        measured(SUBMIT, directory=str(root))
    compare(
        "`experiment submit --wait` of a one-line script",
        lambda: measured(SUBMIT, directory=str(untracked)),
        lambda: measured([python(), "hello.py"], directory=str(untracked)),
        SUBMIT_LIMIT,
        ROUNDS,
        baseline_name="`python hello.py`",
        warmup=2,
    )
    compare(
        f"`experiment submit --wait`, tracked, a project of {FILES} files",
        lambda: measured(SUBMIT, directory=str(tracked)),
        lambda: measured(SUBMIT, directory=str(plain)),
        TRACKED_LIMIT,
        ROUNDS,
        baseline_name="untracked",
        warmup=2,
    )


def _files(folder: Path) -> list[str]:
    """Return the paths of the real files if present, otherwise of 120 copies of the files of the sample."""
    if CORPUS.is_dir():
        return sorted(str(path) for path in CORPUS.rglob("*") if path.is_file() and path.suffix != ".md")
    sources = sorted(SAMPLE_FILES.iterdir())
    paths = []
    for number in range(120):
        source = sources[number % len(sources)]
        path = folder / "files" / str(number) / source.name
        path.parent.mkdir(parents=True)
        paths.append(shutil.copy(source, str(path)))
    return paths


def load(paths: list[str]) -> None:
    """Parse all files with PyYAML's C loader."""
    for path in paths:
        with open(path, "rb") as file:
            yaml.load(file, Loader=yaml.CSafeLoader)


def measure_checks(paths: list[str]) -> None:
    """Compare a check of all files, in this process and as a command."""

    def ours() -> None:
        for path in paths:
            Document.open(path).problems()

    name = f"check of {len(paths)} files"
    theirs = on_processor(lambda: load(paths))
    compare(name, on_processor(ours), theirs, CHECK_LIMIT, FILE_ROUNDS, baseline_name="PyYAML's C loader")
    command = [python(), "-m", "tui_workbench", "config", "check", "-o", "json", *paths]
    compare(
        f"{name}, whole process",
        lambda: _process(command, (0, 3)),
        lambda: _process([python(), "-c", LOADER, *paths], (0,)),
        PROCESS_LIMIT,
        FILE_ROUNDS,
        baseline_name="process with the C loader",
    )


def _process(command: list[str], codes: tuple[int, ...]) -> None:
    done = subprocess.run(command, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)
    if done.returncode not in codes:
        raise subprocess.CalledProcessError(done.returncode, command[:6])


def measure_edit(folder: Path) -> None:
    """Compare the command that changes a value with the import of PyYAML."""
    path = str(shutil.copy(SAMPLE_FILES / "gpu-box.compute", folder))
    numbers = iter(range(10_000))

    def edit() -> float:
        words = ["config", "set", path, "username", f"user{next(numbers)}"]
        return processor_time([python(), "-m", "tui_workbench", *words])

    bare = [python(), "-c", "import yaml"]
    compare(
        "`config set`, processor time",
        edit,
        lambda: processor_time(bare),
        EDIT_LIMIT,
        FILE_ROUNDS,
        baseline_name='`python -c "import yaml"`',
    )


def measure_refusals(folder: Path) -> None:
    """Compare the slowest refusal of a harmful file with loading a harmless file of the same size."""
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{new}: &{new} [{','.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
    )
    path = folder / "harmful.compute"
    taken = []
    for text in ("x" * 10_000_000, bomb, "[" * LARGE, "- " * (LARGE // 2)):
        path.write_text(text)
        taken.append(min(measure(_refuser(str(path))) for _ in range(5)))
    path.write_text("".join(f"name{number:06}: value {number:06}\n" for number in range(LARGE // 25)))
    harmless = min(measure(lambda: load([str(path)])) for _ in range(3))
    name = "refusal of harmful files, the slowest of four"
    baseline = f"harmless file of {LARGE // 1000} kB in the C loader"
    compare_values(name, max(taken), harmless, REFUSAL_LIMIT, baseline_name=baseline)


def _refuser(path: str) -> Callable[[], None]:
    def refuse() -> None:
        try:
            document = Document.open(path)
        except ConfigurationError:
            return
        if document.error is None:
            raise AssertionError(f"{path} was not refused")

    return refuse


def main(measured: Measured) -> int:
    with scratch_folder() as name:
        os.environ["HOME"] = name
        compare_commands(Path(name), measured)
        compare_submits(Path(name), measured)
        measure_checks(_files(Path(name)))
        measure_edit(Path(name))
        measure_refusals(Path(name))
    return finish()


if __name__ == "__main__":
    sys.exit(main(process_time if "--wall" in sys.argv else processor_time))
