"""Comparing any number of runs: differences come first, and nothing is left out."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.runs.support import make_run, write_files
from tui_workbench.core.errors import RunNotFound, StorageError, UsageError
from tui_workbench.projects.project import Project
from tui_workbench.runs.comparing import SECTIONS, Comparison, compare
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.metrics.recording import MetricsRecorder
from tui_workbench.runs.snapshots.snapshot import SnapshotStore
from tui_workbench.runs.snapshots.snapshot_view import snapshot_content, snapshot_diff, snapshot_files
from tui_workbench.runs.store.annotations import with_tags
from tui_workbench.runs.store.arguments import arguments_by_name
from tui_workbench.runs.store.rundir import PROVENANCE as FILE

FIRST, SECOND, THIRD = (f"project_{1_700_000_000_000 + number}" for number in (1, 2, 3))
PROVENANCE = {
    "packages": {"torch": "2.0", "numpy": "1.0"},
    "python": {"version": "3.11.2"},
    "gpus": [{"name": "Tesla T4", "driver": "550", "memory": "15360 MiB"}],
    "image": {"name": "pytorch", "digest": "sha256:1"},
    "host": {"name": "here", "processors": 2},
    "git": {"commit": "abc", "branch": "main", "changed": ["a.py"]},
}


def change(directory: Path, metrics: dict[str, float], provenance: dict[str, Any] | None, **record: Any) -> None:
    """Write metrics, provenance and run.json values of a run."""
    stored = json.loads((directory / "run.json").read_text())
    (directory / "run.json").write_text(json.dumps({**stored, **record}))
    lines = (json.dumps({"name": name, "value": value, "step": 0, "time": 1.0}) for name, value in metrics.items())
    (directory / "metrics.jsonl").write_text("".join(f"{line}\n" for line in lines))
    if provenance is not None:
        (directory / FILE).write_text(json.dumps(provenance))


@pytest.fixture
def runs(project: Project) -> Runs:
    """Three runs: the second has different code, arguments, packages and GPU; the third is untracked."""
    root = Path(project.root)
    store = SnapshotStore(project.root, project.state_directory)
    project.prepare_state()
    done = {"state": "completed", "exit_code": 0}
    directories = [
        Path(make_run(project, run_id, number, **done).path) for number, run_id in enumerate((FIRST, SECOND, THIRD), 1)
    ]
    write_files(root, {"train.py": "x = 1\n", "same.py": "", "old.py": "gone\n"})
    commit = store.take(FIRST, str(directories[0] / "work")).commit_id
    configuration = json.loads((directories[0] / "run.json").read_text())["run_configuration"]
    tracked = {**configuration, "tracked_run": True}
    change(directories[0], {"loss": 0.5, "nan": math.nan}, PROVENANCE, commit_id=commit, snapshot="git",
           run_configuration=tracked, arguments=["--lr", "0.1", "data"])  # fmt: skip
    write_files(root, {"train.py": "x = 2\n", "new.py": "new\n"})
    (root / "old.py").unlink()
    commit = store.take(SECOND, str(directories[1] / "work")).commit_id
    other = {**PROVENANCE, "packages": {"torch": "2.1", "numpy": "1.0", "extra": "1"}, "gpus": []}
    variables = {"environment_variables": {"NAME": "other", "TOKEN": "***"}}
    change(directories[1], {"loss": 0.25, "nan": math.nan}, other, commit_id=commit, snapshot="git",
           run_configuration={**tracked, **variables}, arguments=["--lr=0.2", "data"])  # fmt: skip
    return Runs(project)


def values(comparison: Comparison, section: str) -> dict[str, tuple[Any, ...]]:
    """Return the differing rows of a section."""
    return {row.name: row.values for row in comparison.differences if row.section == section}


def test_differences_are_found_in_every_section(runs: Runs) -> None:
    found = compare(runs, [FIRST, SECOND])
    assert [run.run_id for run in found.runs] == [FIRST, SECOND]
    assert values(found, "metrics") == {"loss": (0.5, 0.25)}
    assert values(found, "arguments") == {"--lr": ("0.1", "0.2")}
    assert values(found, "configuration") == {
        "EnvironmentVariables NAME": ("value", "other"), "EnvironmentVariables TOKEN": (None, "***"),
    }  # fmt: skip
    code = values(found, "code")
    assert set(code) == {"commit", "train.py", "new.py", "old.py"}
    assert code["new.py"][0] is None
    assert code["old.py"][1] is None
    assert values(found, "packages") == {"torch": ("2.0", "2.1"), "extra": (None, "1")}
    assert values(found, "gpu") == {"GPU 0 name": ("Tesla T4", None), "GPU 0 driver": ("550", None),
                                    "GPU 0 memory": ("15360 MiB", None)}  # fmt: skip
    assert found.notes == ()


def test_differences_come_first(runs: Runs) -> None:
    rows = compare(runs, [FIRST, SECOND]).rows
    assert [row.differs for row in rows] == sorted((row.differs for row in rows), reverse=True)
    for differs in (True, False):
        sections = [row.section for row in rows if row.differs is differs]
        assert sections == sorted(sections, key=SECTIONS.index)
    same = {row.name: row.values for row in rows if not row.differs}
    assert same["numpy"] == ("1.0", "1.0")
    assert same["argument 1"] == ("data", "data")
    assert same["branch"] == ("main", "main")
    # The configuration of the fixture project, and the files that both snapshots hold.
    first, second = same["unchanged files"]
    assert isinstance(first, int)
    assert first == second
    assert first >= 3


def test_many_runs_are_compared_once_each(runs: Runs) -> None:
    found = compare(runs, ["1", "2", "3", FIRST])
    assert [run.run_number for run in found.runs] == [1, 2, 3]
    assert {len(row.values) for row in found.rows} == {3}
    assert values(found, "metrics")["loss"] == (0.5, 0.25, None)
    assert any(THIRD in note and "code" in note for note in found.notes)
    assert any(THIRD in note and "untracked" in note for note in found.notes)


def test_annotations_are_compared(runs: Runs) -> None:
    runs.annotate(FIRST, lambda found: with_tags(found._replace(note="n"), {"b": "", "a": "1"}))
    found = values(compare(runs, [FIRST, SECOND]), "run")
    assert found == {"note": ("n", None), "tags": ("a=1, b", None)}


def test_one_or_unknown_runs_cannot_be_compared(runs: Runs) -> None:
    for ids in ([], [FIRST], [FIRST, "1", FIRST]):
        with pytest.raises(UsageError):
            compare(runs, ids)
    with pytest.raises(RunNotFound, match="project_9"):
        compare(runs, [FIRST, "project_9"])


def test_damaged_provenance_is_tolerated(runs: Runs, project: Project) -> None:
    for content in ("", "[]", "{", '{"packages": 3, "gpus": {}, "git": [], "host": null}', "[" * 100_000):
        Path(project.runs_directory, SECOND, FILE).write_text(content)
        found = compare(runs, [FIRST, SECOND])
        assert values(found, "packages")["torch"] == ("2.0", None), content[:60]
        assert values(found, "metrics") == {"loss": (0.5, 0.25)}, content[:60]


def test_missing_snapshots_are_reported(runs: Runs, project: Project) -> None:
    shutil.rmtree(Path(project.state_directory, "snapshots.git"))
    found = compare(runs, [FIRST, SECOND])
    assert [note.split(":")[0] for note in found.notes if "snapshot" in note] == ["all 2 runs"]
    assert set(values(found, "code")) == {"commit"}


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], {}),
        (["--lr", "0.1"], {"--lr": "0.1"}),
        (["--lr=0.1"], {"--lr": "0.1"}),
        (["--fast", "--lr", "0.1"], {"--fast": "yes", "--lr": "0.1"}),
        (["--offset", "-1", "-v"], {"--offset": "-1", "-v": "yes"}),
        (["a", "b"], {"argument 1": "a", "argument 2": "b"}),
        (["a", "--x", "1", "b"], {"argument 1": "a", "--x": "1", "argument 2": "b"}),
        (["--x", "1", "--x", "2"], {"--x": "1 2"}),
        (["lr=0.1", "model.depth=3"], {"lr": "0.1", "model.depth": "3"}),
        (["--a=b=c"], {"--a": "b=c"}),
        (["-"], {"argument 1": "-"}),
    ],
)
def test_arguments_have_names(arguments: list[str], named: dict[str, str]) -> None:
    assert arguments_by_name(arguments) == named


@given(st.lists(st.text(max_size=8), max_size=8))
def test_all_arguments_are_compared(arguments: list[str]) -> None:
    found = arguments_by_name(arguments)
    text = " ".join((*found, *found.values()))
    assert all(part in text for word in arguments for part in word.split("=", 1))


class TestSnapshots:
    def commits(self, runs: Runs) -> tuple[str, str]:
        return runs.get(FIRST).commit_id, runs.get(SECOND).commit_id

    def test_files_and_their_content(self, runs: Runs, project: Project) -> None:
        first, _ = self.commits(runs)
        files = {file.path: file for file in snapshot_files(project.state_directory, first)}
        assert {"train.py", "same.py", "old.py", "hello.py"} <= set(files)
        assert files["train.py"].size == 6
        assert snapshot_content(project.state_directory, first, "train.py") == b"x = 1\n"

    def test_diff_of_a_file(self, runs: Runs, project: Project) -> None:
        first, second = self.commits(runs)
        text = snapshot_diff(project.state_directory, first, second)
        assert "-x = 1\n+x = 2\n" in text
        assert "new.py" in text
        only = snapshot_diff(project.state_directory, first, second, ["train.py"])
        assert "-x = 1\n+x = 2\n" in only
        assert "new.py" not in only
        assert snapshot_diff(project.state_directory, first, first) == ""
        assert "+x = 1" in snapshot_diff(project.state_directory, "", first)

    def test_long_diff_is_cut_with_a_note(self, runs: Runs, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tui_workbench.runs.snapshots.snapshot_view.LARGEST_DIFF", 100)
        text = snapshot_diff(project.state_directory, *self.commits(runs))
        assert len(text) < 200
        assert "more bytes not shown" in text

    def test_missing_diff_is_reported(self, runs: Runs, project: Project) -> None:
        for commit in ("0" * 40, "nonsense", "--help", ""):
            with pytest.raises(StorageError):
                snapshot_files(project.state_directory, commit)
            with pytest.raises(StorageError):
                snapshot_content(project.state_directory, commit, "train.py")
        with pytest.raises(StorageError):
            snapshot_content(project.state_directory, self.commits(runs)[0], "none.py")


def test_note_about_many_runs_is_shown_once(project: Project) -> None:
    made = [make_run(project, f"project_{number}", number, state="completed") for number in range(1, 22)]
    Path(made[4].path, FILE).write_text(json.dumps(PROVENANCE))
    found = compare(Runs(project), [directory.run_id for directory in made])
    assert found.notes == (
        "all 21 runs: no git snapshot, so the code is not compared",
        "runs 1-4, 6-21: untracked, so packages, interpreter and machine were not recorded",
    )


@pytest.mark.slow
def test_incomplete_metrics_are_reported(project: Project) -> None:
    made = [make_run(project, f"project_{number}", number, state="completed") for number in (1, 2)]
    log = b"loss: 2\n" + (b"x" * 899 + b"\n") * 10_000 + b"loss: 1\n"
    Path(made[1].path, "output.log").write_bytes(log)
    recorder = MetricsRecorder(made[1])
    recorder.read()
    recorder.store()
    found = compare(Runs(project), [directory.run_id for directory in made])
    assert [note for note in found.notes if "project_2: output.log: too long to read at once" in note]
    assert [row.values for row in found.rows if row.section == "metrics"] == [(None, 1.0)]
