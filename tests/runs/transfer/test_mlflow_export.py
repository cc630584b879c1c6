"""Export and import of runs: MLflow's file store and CSV.

The layout is the one that MLflow 3.17 writes and reads; import and export were also tested with it.
"""

from __future__ import annotations

import csv
import json
import math
import re
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pytest
import yaml

from tests.core.support import ordinary_user
from tests.runs.support import make_run, record_of, write_files
from tui_workbench.core.errors import UsageError
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.metrics import RunMetrics
from tui_workbench.runs.store.annotations import with_tags
from tui_workbench.runs.store.rundir import RunDirectory
from tui_workbench.runs.transfer.mlflow_export import export_csv, export_mlflow
from tui_workbench.runs.transfer.mlflow_import import import_mlflow

POINTS: tuple[tuple[str, Any, float, float], ...] = (
    ("loss", 0, 0.5, 1_700_000_001.0), ("loss", 1, 0.25, 1_700_000_002.5), ("val/loss", 0, 1.0, 1_700_000_001.0),
    ("odd: näme?", 0, math.inf, 1_700_000_001.0), ("nan", 0, math.nan, 1_700_000_001.0),
)  # fmt: skip


def written(project: Project, number: int = 1, **final: Any) -> Path:
    """Return an ended run with metrics and outputs."""
    final = {"state": "completed", "exit_code": 0, **final}
    directory = Path(make_run(project, f"project_{1_700_000_000_000 + number}", number, **final).path)
    words = {math.inf: "Infinity"}
    points = (
        {"name": name, "step": step, "value": "NaN" if value != value else words.get(value, value), "time": when}
        for name, step, value, when in POINTS
    )
    outputs: dict[str, str | bytes] = {"outputs/model.pkl": b"\0m", "outputs/a/b.txt": "b", "output.log": "log\n"}
    write_files(directory, {"metrics.jsonl": "".join(json.dumps(point) + "\n" for point in points), **outputs})
    return directory


def exported(runs: Runs, destination: Path, **options: Any) -> Path:
    """Export to MLflow's format and return the experiment's folder."""
    export_mlflow("project", runs.exportable(**options), str(destination))
    (experiment,) = destination.iterdir()
    return experiment


def run_folders(experiment: Path) -> dict[str, Path]:
    """Map the workbench's run IDs to the exported folders."""
    return {
        (path.parent / "tags" / "workbench.run_id").read_text(): path.parent for path in experiment.glob("*/meta.yaml")
    }


class TestExport:
    def test_export_has_the_mlflow_format(self, project: Project, tmp_path: Path) -> None:
        directory = written(project)
        runs = Runs(project)
        runs.annotate("1", lambda found: with_tags(found._replace(note="a note"), {"model": "resnet"}))
        experiment = exported(runs, tmp_path / "mlruns")
        about = yaml.safe_load((experiment / "meta.yaml").read_text())
        assert (about["experiment_id"], about["name"], about["lifecycle_stage"]) == (
            experiment.name,
            "project",
            "active",
        )
        (folder,) = run_folders(experiment).values()
        meta = yaml.safe_load((folder / "meta.yaml").read_text())
        assert meta["run_id"] == meta["run_uuid"] == folder.name
        assert (len(folder.name), int(folder.name, 16) > 0) == (32, True)
        assert (meta["status"], meta["run_name"], meta["experiment_id"]) == (3, directory.name, experiment.name)
        assert meta["end_time"] == 1_700_000_101_000
        assert meta["start_time"] > 1_600_000_000_000
        assert Path(unquote(urlparse(meta["artifact_uri"]).path)) == folder / "artifacts"
        assert {path.name: path.read_text() for path in (folder / "params").iterdir()} == {"epochs": "3"}
        tags = {path.name: path.read_text() for path in (folder / "tags").iterdir()}
        assert tags["model"] == "resnet"
        assert tags["mlflow.note.content"] == "a note"
        assert tags["mlflow.source.name"] == "hello.py"
        assert (folder / "metrics/loss").read_text() == "1700000001000 0.5 0\n1700000002500 0.25 1\n"
        assert (folder / "metrics/val/loss").read_text() == "1700000001000 1.0 0\n"
        assert (folder / "metrics/nan").read_text().split()[1] == "nan"
        assert (folder / "artifacts/model.pkl").read_bytes() == b"\0m"
        assert (folder / "artifacts/a/b.txt").read_text() == "b"
        assert (folder / "artifacts/output.log").read_text() == "log\n"

    @pytest.mark.parametrize(("state", "number"), [("completed", 3), ("failed", 4), ("canceled", 5), ("unknown", 4)])
    def test_states_are_mapped_to_mlflow(self, project: Project, tmp_path: Path, state: str, number: int) -> None:
        written(project, state=state)
        (folder,) = run_folders(exported(Runs(project), tmp_path / "out")).values()
        assert yaml.safe_load((folder / "meta.yaml").read_text())["status"] == number
        assert (folder / "tags/workbench.state").read_text() == state

    def test_invalid_mlflow_names_are_reported(self, project: Project, tmp_path: Path) -> None:
        directory = written(project)
        lines = [
            {"name": name, "step": 0, "value": 1, "time": 1.0}
            for name in ("a", "a/b", "A", "../x", "/y", "a*", "a?", ".", "x" * 300)
        ]
        (directory / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        report = export_mlflow("project", Runs(project).exportable(), str(tmp_path / "out"))
        (folder,) = run_folders(next((tmp_path / "out").iterdir())).values()
        names = {
            str(path.relative_to(folder / "metrics")) for path in (folder / "metrics").rglob("*") if path.is_file()
        }
        assert len(names) == len(lines)
        renamed = {old: new for _, old, new in report.renamed}
        assert {"a", *renamed.values()} == names
        assert not (tmp_path / "x").exists()
        assert not (folder / "x").exists()

    @pytest.mark.parametrize(
        ("all_attempts", "points"), [(False, ["0 3", "1 1", "2 1"]), (True, ["1 3", "2 3", "0 3", "1 1", "2 1"])]
    )
    def test_steps_are_repeated_only_with_all_attempts(
        self, project: Project, tmp_path: Path, all_attempts: bool, points: list[str]
    ) -> None:
        directory = written(project)
        attempts = [(3, (0, 1, 2)), (1, (1, 2))]
        lines = [
            [{"name": "x", "step": step, "value": value, "time": 1} for step in steps] for value, steps in attempts
        ]
        lines[1].insert(0, {"kind": "attempt", "name": "attempt", "value": 2, "time": 1})
        (directory / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for part in lines for line in part))
        runs, out = Runs(project).exportable(), tmp_path / "out"
        report = export_mlflow("project", runs, str(out), all_attempts=all_attempts)
        assert report.replaced == [[directory.name, "x", 2]]
        (folder,) = run_folders(next(out.iterdir())).values()
        rows = [line.split() for line in (folder / "metrics/x").read_text().splitlines()]
        assert [f"{step} {float(value):g}" for _, value, step in rows] == points

    def test_long_value_is_cut_and_reported(self, project: Project, tmp_path: Path) -> None:
        directory = written(project)
        record = json.loads((directory / "run.json").read_text())
        (directory / "run.json").write_text(json.dumps({**record, "arguments": ["--text", "x" * 7_000]}))
        report = export_mlflow("project", Runs(project).exportable(), str(tmp_path / "out"))
        assert report.cut == [f"{directory.name}: --text"]

    def test_second_export_replaces_its_own_runs(self, project: Project, tmp_path: Path) -> None:
        written(project)
        experiment = exported(Runs(project), tmp_path / "out")
        write_files(experiment, {"others/meta.yaml": "theirs", "others/tags/x": "y"})
        Runs(project).annotate("1", lambda found: with_tags(found, {"new": ""}))
        exported(Runs(project), tmp_path / "out")
        assert (experiment / "others/meta.yaml").read_text() == "theirs"
        (folder,) = (path.parents[1] for path in experiment.glob("*/tags/new"))
        (folder / "tags" / "workbench.run_id").unlink()
        with pytest.raises(UsageError, match="not written by"):
            exported(Runs(project), tmp_path / "out")

    def test_selection_of_exported_runs(self, project: Project, tmp_path: Path) -> None:
        written(project, 1)
        archived = written(project, 2).name
        going = make_run(project, "project_1700000000003", 3).run_id
        runs = Runs(project)
        runs.annotate(archived, lambda found: found._replace(archived=True))
        chosen = [each.run.run_number for each in runs.exportable(["1", "2"])]
        assert chosen == [1, 2]
        assert RunDirectory(str(Path(project.runs_directory, going))).run().is_active
        (directory,) = (path for path in Path(project.runs_directory).iterdir() if path.name == going)
        RunDirectory(str(directory)).append_event("state", state="failed", final=True, end=1.0, reason="", exit_code=1)
        assert [each.run.run_number for each in runs.exportable()] == [3, 1]
        assert [each.run.run_number for each in runs.exportable(hidden=True)] == [3, 2, 1]

    def test_csv_export(self, project: Project, tmp_path: Path) -> None:
        record = written(project, 1) / "run.json"
        record.write_text(json.dumps(json.loads(record.read_text()) | {"arguments": ["--epochs", "3", "loss=1"]}))
        written(project, 2, state="failed", exit_code=2, reason='it said "no",\nand ended')
        export_csv(Runs(project).exportable(), str(tmp_path / "new" / "runs.csv"))
        with (tmp_path / "new" / "runs.csv").open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        assert [row["run_number"] for row in rows] == ["2", "1"]
        assert rows[0]["reason"] == 'it said "no",\nand ended'
        assert (rows[1]["loss"], rows[1]["val/loss"], rows[1]["odd: näme?"]) == ("0.25", "1.0", "inf")
        assert json.loads(rows[1]["arguments"]) == ["--epochs", "3", "loss=1"]
        assert next(iter(rows[0])) == "run_number"
        assert list(rows[0])[-5:] == ["loss=", "loss", "nan", "odd: näme?", "val/loss"]
        assert [row["loss="] for row in rows] == ["", "1"]
        assert "--epochs" not in rows[0]

    def test_csv_has_no_control_characters(self, project: Project, tmp_path: Path) -> None:
        written(project, 1, state="failed", reason="\x1b]0;title\x07\x9b2J\u202fé\udcff\n\tend")
        export_csv(Runs(project).exportable(), str(tmp_path / "runs.csv"))
        text = (tmp_path / "runs.csv").read_text(encoding="utf-8")
        assert r"\x1b]0;title\x07\x9b2J" in text
        assert "é" in text
        assert not re.search(r"[^\S\r\n\t\u202f ]|[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]", text)


RUN = """\
artifact_uri: file:///somewhere/else/artifacts
end_time: 1700000060000
entry_point_name: ''
experiment_id: '7'
lifecycle_stage: active
run_id: {identifier}
run_name: bold-bee-7
run_uuid: {identifier}
source_name: ''
source_type: 4
source_version: ''
start_time: {start}
status: {status}
tags: []
user_id: somebody
"""


def store(folder: Path, runs: int = 1, **files: str) -> Path:
    """Return a file store as MLflow writes it."""
    write_files(
        folder,
        {"0/meta.yaml": "experiment_id: '0'\nname: Default\n", "7/meta.yaml": "experiment_id: '7'\nname: digits\n"},
    )
    for number in range(runs):
        meta = RUN.format(
            identifier=f"{number:032x}", start=1_700_000_000_000 + number // 2, status=(3, 4, 5)[number % 3]
        )
        write_files(
            folder / "7" / f"{number:032x}",
            {
                "meta.yaml": meta,
                "metrics/val/loss": "1700000001000 0.5 0\n1700000002000 nan 1\n1700000003000 0.25 2\n",
                "metrics/acc": "1700000001000 0.9\nnonsense\n",
                "params/lr": "0.1",
                "tags/mlflow.source.name": "/home/x/train.py",
                "tags/mlflow.note.content": "a note",
                "tags/team": "a",
                "tags/mlflow.user": "somebody",
                "artifacts/dir/model.pkl": b"\0m",
            },
        )
    return folder


class TestImport:
    def test_imported_run_is_complete(self, project: Project, tmp_path: Path) -> None:
        report = import_mlflow(project, str(store(tmp_path / "mlruns")))
        assert report.imported == ["project_1700000000000"]
        assert (report.known, report.skipped, report.notes) == (0, 0, [])
        runs = Runs(project)
        run = runs.last()
        assert run is not None
        assert (run.run_number, run.state, run.script_name, run.user_id) == (1, "completed", "train.py", "somebody")
        assert (run.start, run.end, run.arguments) == (1_700_000_000.0, 1_700_000_060.0, ("lr=0.1",))
        facts = runs.facts(run.run_id)
        assert facts.metrics == {"acc": 0.9, "val/loss": 0.25}
        assert (facts.annotations.note, facts.annotations.tags) == (
            "a note",
            {"team": "a", "mlflow.experiment": "digits"},
        )
        metrics = RunMetrics(run.directory)
        metrics.refresh()
        series = metrics.series("val/loss")
        assert (list(series.steps), series.values[0], list(series.times)) == (
            [0, 1, 2],
            0.5,
            [1.7e9 + 1, 1.7e9 + 2, 1.7e9 + 3],
        )
        assert math.isnan(series.values[1])
        assert Path(run.directory, "outputs/dir/model.pkl").read_bytes() == b"\0m"

    def test_states_are_mapped_from_mlflow(self, project: Project, tmp_path: Path) -> None:
        import_mlflow(project, str(store(tmp_path / "mlruns", 3)))
        assert [run.state for run in Runs(project).list()] == ["canceled", "failed", "completed"]
        assert len({run.run_id for run in Runs(project).list()}) == 3

    def test_second_import_adds_only_new_runs(self, project: Project, tmp_path: Path) -> None:
        import_mlflow(project, str(store(tmp_path / "mlruns", 2)))
        report = import_mlflow(project, str(store(tmp_path / "mlruns", 3)))
        assert (len(report.imported), report.known) == (1, 2)

    def test_exported_runs_are_recognized(self, project: Project, tmp_path: Path) -> None:
        written(project)
        runs = Runs(project)
        runs.annotate("1", lambda found: with_tags(found._replace(note="n"), {"best": "", "model": "x"}))
        export_mlflow("project", runs.exportable(), str(tmp_path / "out"))
        assert import_mlflow(project, str(tmp_path / "out")).known == 1
        (tmp_path / "other" / "aml_config").mkdir(parents=True)
        other = Project(str(tmp_path / "other"))
        (run_id,) = import_mlflow(other, str(tmp_path / "out")).imported
        mine, theirs = runs.facts("1"), Runs(other).facts(run_id)
        assert {name: theirs.metrics[name] for name in ("loss", "val/loss")} == {"loss": 0.25, "val/loss": 1.0}
        assert theirs.annotations.note == mine.annotations.note
        assert theirs.annotations.tags.items() >= mine.annotations.tags.items()
        directory = Path(other.runs_directory, run_id)
        assert (directory / "outputs/model.pkl").read_bytes() == b"\0m"
        assert (directory / "output.log").read_text() == "log\n"

    def test_import_of_one_experiment(self, project: Project, tmp_path: Path) -> None:
        assert len(import_mlflow(project, str(store(tmp_path / "mlruns") / "7")).imported) == 1

    @pytest.mark.parametrize("content", ["", "a file", None])
    def test_missing_folder_is_reported(self, project: Project, tmp_path: Path, content: str | None) -> None:
        folder = tmp_path / "mlruns"
        if content is not None:
            folder.mkdir()
            (folder / "x").write_text(content)
        with pytest.raises(UsageError, match="no MLflow runs"):
            import_mlflow(project, str(folder))
        assert Runs(project).list() == []

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("meta", "said"),
        [
            ("", "expected a mapping"),
            ("{", "cannot read"),
            ("[1, 2]", "expected a mapping"),
            ("a: " + "[" * 3_000, "cannot read"),
            (RUN.format(identifier="f" * 32, start=1, status=3).replace("active", "deleted"), "deleted"),
            (RUN.format(identifier="f" * 32, start=1, status=1), "has not ended"),
        ],
    )
    def test_unreadable_run_is_skipped_and_reported(
        self, project: Project, tmp_path: Path, meta: str, said: str
    ) -> None:
        folder = store(tmp_path / "mlruns")
        write_files(folder, {"7/bad/meta.yaml": meta})
        report = import_mlflow(project, str(folder))
        assert (len(report.imported), report.skipped) == (1, 1)
        assert said in report.notes[0]
        assert str(folder / "7" / "bad") in report.notes[0]

    @pytest.mark.parametrize("name", ["metrics/acc", "artifacts/dir/model.pkl"])
    def test_run_with_unreadable_file_is_skipped_and_reported(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        with ordinary_user() as folder:
            monkeypatch.setenv("HOME", str(folder))
            (folder / "project" / "aml_config").mkdir(parents=True)
            mlruns = store(folder / "mlruns", 2)
            unreadable = mlruns / "7" / ("0" * 32) / name
            unreadable.chmod(0)
            report = import_mlflow(Project(str(folder / "project")), str(mlruns))
        assert (len(report.imported), report.skipped) == (1, 1)
        assert str(unreadable) in report.notes[0]
        assert "ermission denied" in report.notes[0]

    @pytest.mark.parametrize("start", ["x", "-5", "null", "1e400", "99999999999999999999999", "true"])
    def test_invalid_time_does_not_lose_the_run(self, project: Project, tmp_path: Path, start: str) -> None:
        folder = store(tmp_path / "mlruns")
        meta = folder / "7" / ("0" * 32) / "meta.yaml"
        meta.write_text(meta.read_text().replace("start_time: 1700000000000", f"start_time: {start}"))
        assert len(import_mlflow(project, str(folder)).imported) == 1
        assert len(Runs(project).list()) == 1

    def test_remote_artifacts_are_reported(self, project: Project, tmp_path: Path) -> None:
        folder = store(tmp_path / "mlruns")
        run = folder / "7" / ("0" * 32)
        shutil.rmtree(run / "artifacts")
        assert import_mlflow(Project(str(tmp_path)), str(folder)).elsewhere == []
        meta = (run / "meta.yaml").read_text()
        (run / "meta.yaml").write_text(meta.replace("file:///somewhere", "s3://key:secret@bucket"))
        report = import_mlflow(project, str(folder))
        assert len(report.imported) == len(report.elsewhere) == 1
        assert "s3://***@bucket" in report.elsewhere[0]

    def test_import_writes_nothing_outside_the_project(self, project: Project, tmp_path: Path) -> None:
        folder = store(tmp_path / "mlruns")
        run = folder / "7" / ("0" * 32)
        (tmp_path / "secret").write_text("secret")
        (run / "artifacts" / "link").symlink_to(tmp_path / "secret")
        (run / "artifacts" / "folder").symlink_to(tmp_path)
        (run / "tags" / "link").symlink_to(tmp_path / "secret")
        (run_id,) = import_mlflow(project, str(folder)).imported
        outputs = Path(project.runs_directory, run_id, "outputs")
        assert [str(path.relative_to(outputs)) for path in outputs.rglob("*")] == ["dir", "dir/model.pkl"]
        assert "link" not in Runs(project).facts(run_id).annotations.tags

    def test_killed_import_leaves_no_run(
        self, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder = store(tmp_path / "mlruns")

        def fail(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("tui_workbench.runs.transfer.mlflow_import.copy_file", fail)
        with pytest.raises(KeyboardInterrupt):
            import_mlflow(project, str(folder))
        assert list(Path(project.runs_directory).iterdir()) == []


def test_imported_run_has_a_valid_record(project: Project, tmp_path: Path) -> None:
    (run_id,) = import_mlflow(project, str(store(tmp_path / "mlruns"))).imported
    record = RunDirectory(str(Path(project.runs_directory, run_id))).read_record()
    assert record._fields == record_of(Path(project.runs_directory, run_id))._fields
    assert (record.snapshot, record.spec.tracked) == ("none", False)
