"""Metrics, annotations, comparison, artifacts, export and import on the command line."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import Installed
from tests.runs.support import make_run, write_configuration, write_files
from tui_workbench.projects.project import Project

DONE: dict[str, Any] = {"state": "completed", "exit_code": 0}


@pytest.fixture
def workbench(project_root: Path, project: Project) -> Installed:
    """Return a project with three runs; the last run failed before it logged a metric."""
    logged: tuple[dict[str, object], ...] = (
        {"Accuracy": 0.67, "status": 1.0, "loss": "NaN"},
        {"Accuracy": 0.89, "Infinite": "Infinity"},
        {},
    )
    for number, metrics in enumerate(logged, 1):
        final = DONE if number < 3 else {"state": "failed", "exit_code": 1, "reason": "exit code 1"}
        directory = Path(make_run(project, f"project_170000000000{number}", number, **final).path)
        lines = (json.dumps({"name": name, "value": value, "step": 0, "time": 1.0}) for name, value in metrics.items())
        write_files(
            directory,
            {
                "metrics.jsonl": "".join(f"{line}\n" for line in lines),
                "outputs/model.pkl": b"m%d\0\n" % number,
                "output.log": "log\n",
            },
        )
    return Installed(project_root)


def answer(workbench: Installed, *arguments: str) -> Any:
    """Run a command and return its JSON."""
    result = workbench.run(*arguments)
    assert result.code == 0, result
    return json.loads(result.out)


class TestMetrics:
    def test_documented_queries_of_azure_ml_workbench_work(self, workbench: Installed) -> None:
        best = answer(workbench, "history", "list", "--query", "@[?Accuracy != null] | max_by(@, &Accuracy).Accuracy")
        assert best == 0.89
        completed = answer(workbench, "history", "list", "--query", "[?status=='Completed']")
        assert [record["run_number"] for record in completed] == [2, 1]
        whole = answer(workbench, "history", "list", "--query", "@[?Accuracy != null] | max_by(@, &Accuracy)")
        assert whole["run_id"] == "project_1700000000002"
        assert len(answer(workbench, "history", "list", "--query", "@ | sort_by(@,&duration)")) == 3

    def test_table_has_differing_arguments_and_the_best_value(self, workbench: Installed) -> None:
        record = workbench.folder / ".workbench/runs/project_1700000000001/run.json"
        arguments = ["--epochs", "5", "Accuracy=1"]
        record.write_text(json.dumps(json.loads(record.read_text()) | {"arguments": arguments}))
        shown = workbench.run("history", "list", "-o", "table", "--best", "Accuracy")
        lines = shown.out.splitlines()
        assert lines[0].split()[:3] == ["Run_number", "--epochs", "Accuracy="]
        assert [line.split()[:2] for line in lines[2:]] == [["3", "3"], ["2", "3"], ["1", "5"]]
        assert [line for line in lines if "*" in line] == [lines[3]]
        assert "0.89 *" in lines[3]
        assert "* marks the highest Accuracy" in shown.err
        assert workbench.history()[2]["arguments_by_name"] == {"--epochs": "5", "Accuracy": "1"}
        assert "0.67 *" in workbench.run("history", "list", "-o", "table", "--best", "Accuracy:min").out
        for best, words in (("Infinite", "Infinite:min"), ("loss", "no completed run has a number")):
            workbench.run("history", "list", "-o", "table", "--best", best).error(2, words)
        workbench.run("history", "list", "--best", "loss").error(2, "--best works only with table output")

    def test_best_value_is_of_a_completed_run_and_always_shown(self, workbench: Installed) -> None:
        names = ["Accuracy", *(f"A{number:02}" for number in range(12))]
        for number in (1, 2, 3):
            path = workbench.folder / f".workbench/runs/project_170000000000{number}/metrics.jsonl"
            logged = (json.dumps({"name": name, "value": 0.95 + number, "step": 1, "time": 1.0}) for name in names)
            path.write_text("".join(f"{line}\n" for line in logged) + path.read_text())
        lines = workbench.run("history", "list", "-o", "table", "--best", "Accuracy").out.splitlines()
        assert lines[0].split()[:3] == ["Run_number", "Accuracy", "A00"]
        assert [line.split()[1:3] for line in lines[2:]] == [["3.95", "3.95"], ["0.89", "*"], ["0.67", "1.95"]]
        workbench.run("history", "compare", "1", "sweep-1.1").error(2, "a family cannot be compared with a run")

    def test_metrics_never_replace_record_keys(self, workbench: Installed) -> None:
        listed = workbench.history()
        assert listed[2]["Accuracy"] == 0.67
        assert (listed[2]["status"], listed[2]["metric_status"]) == ("Completed", 1.0)
        assert listed[2]["loss"] is None
        assert listed[1]["Infinite"] == math.inf
        assert "Accuracy" not in listed[0]
        assert "NaN" not in workbench.run("history", "list").out
        assert workbench.info("1")["metric_status"] == 1.0

    def test_metrics_are_the_first_table_columns(self, workbench: Installed) -> None:
        lines = workbench.run("history", "list", "-o", "table").out.splitlines()
        assert lines[0].split() == [
            "Run_number", "Accuracy", "Infinite", "Loss", "Metric_status",
            "Duration", "Run_id", "Script_name", "Start_time_utc", "Status",
        ]  # fmt: skip
        assert lines[-1].split()[:3] == ["1", "0.67", "1.0"]

    def test_logged_values_are_in_the_record(self, workbench: Installed) -> None:
        write_files(
            workbench.folder, {"log.py": "import workbench\nworkbench.log('top1', 0.5)\nworkbench.tag('mine')\n"}
        )
        assert workbench.submit("log.py").code == 0
        record = workbench.history()[0]
        assert (record["top1"], record["tags"]) == (0.5, {"mine": ""})


class TestAnnotations:
    def test_annotations_are_in_the_record(self, workbench: Installed) -> None:
        assert answer(workbench, "history", "tag", "-r", "1", "best", "model=a=b", "--query", "tags") == {
            "best": "",
            "model": "a=b",
        }
        tags = answer(workbench, "history", "tag", "-r", "1", "--remove", "best", "other", "--query", "tags")
        assert tags == {"model": "a=b", "other": ""}
        assert answer(workbench, "history", "note", "-r", "1", "two\nlines", "--query", "description") == "two\nlines"
        assert answer(workbench, "history", "pin", "-r", "1", "--query", "pinned") is True
        record = workbench.history()[2]
        assert (record["tags"], record["description"], record["pinned"]) == (tags, "two\nlines", True)
        assert answer(workbench, "history", "pin", "-r", "1", "--undo", "--query", "pinned") is False
        assert answer(workbench, "history", "note", "-r", "1", "", "--query", "description") is None

    def test_archived_runs_are_listed_with_all(self, workbench: Installed) -> None:
        assert answer(workbench, "history", "archive", "-r", "2", "--query", "hidden") is True
        assert [record["run_number"] for record in workbench.history()] == [3, 1]
        assert answer(workbench, "history", "list", "--all", "--query", "[].run_number") == [3, 2, 1]
        answer(workbench, "history", "archive", "-r", "2", "--undo")
        assert len(workbench.history()) == 3

    def test_annotations_report_mistakes(self, workbench: Installed) -> None:
        workbench.run("history", "tag", "-r", "1").error(2, "no tag given")
        workbench.run("history", "tag", "-r", "1", "--remove", "none").error(2, "none")
        workbench.run("history", "tag", "-r", "1", "a\nb").error(2, "invalid tag name")
        workbench.run("history", "note", "-r", "9", "x").error(2, "no run '9'")


class TestComparison:
    def test_table_shows_the_differences(self, workbench: Installed) -> None:
        result = workbench.run("history", "compare", "1", "2", "3")
        lines = result.out.splitlines()
        assert lines[0].split() == ["Section", "Name", "[1]", "[2]", "[3]"]
        assert ["metrics", "Accuracy", "0.67", "0.89", "-"] in [line.split() for line in lines]
        assert not any("script" in line for line in lines)
        assert "untracked" in result.err
        assert any("script" in line for line in workbench.run("history", "compare", "--all", "1", "2").out.splitlines())

    def test_json_has_the_values(self, workbench: Installed) -> None:
        found = answer(workbench, "history", "compare", "1", "2", "-o", "json")
        assert found["runs"] == ["project_1700000000001", "project_1700000000002"]
        row = next(row for row in found["rows"] if row["name"] == "Accuracy")
        assert row == {"section": "metrics", "name": "Accuracy", "differs": True, "values": [0.67, 0.89]}
        assert found["notes"]

    @pytest.mark.processes
    def test_diff_compares_the_code(self, workbench: Installed) -> None:
        write_configuration(workbench.folder, TrackedRun=True)
        for text in ("print(1)\n", "print('zwei ä')\n"):
            write_files(workbench.folder, {"train.py": text})
            assert workbench.submit("train.py").code == 0
        out = workbench.run("history", "compare", "4", "5", "--diff").out
        assert "-print(1)\n+print('zwei ä')\n" in out
        workbench.run("history", "compare", "1", "5", "--diff").error(2, "no git snapshot")
        workbench.run("history", "compare", "4", "5", "--diff", "-o", "json").error(2, "--diff works only with")

    def test_comparison_needs_two_runs(self, workbench: Installed) -> None:
        by_option = answer(workbench, "history", "compare", "--run", "1", "-r", "2", "-o", "json")
        assert by_option == answer(workbench, "history", "compare", "1", "2", "-o", "json")
        workbench.run("history", "compare", "1").error(2, "two or more")
        workbench.run("history", "compare").error(2, "two or more")
        workbench.run("history", "compare", "1", "7").error(2, "no run '7'")


class TestArtifacts:
    def test_artifact_is_printed_unchanged(self, workbench: Installed) -> None:
        assert workbench.bytes_of("history", "info", "-r", "2", "-a", "outputs/model.pkl") == b"m2\0\n"
        assert workbench.bytes_of("history", "info", "-r", "2", "-a", "driver_log.txt") == b"log\n"
        workbench.run("history", "info", "-r", "2", "-a", "../x").error(2, "no artifact")

    def test_artifact_sends_no_sequences_to_the_terminal(self, workbench: Installed) -> None:
        write_files(
            workbench.folder / ".workbench/runs/project_1700000000001", {"outputs/evil": b"a\x1b]0;title\x07b\n"}
        )
        with workbench.in_terminal("history", "info", "-r", "1", "-a", "outputs/evil") as terminal:
            assert terminal.to_the_end() == 0
        assert b"\x1b]" not in terminal.raw
        assert b"title" in terminal.raw

    def test_download_stays_in_its_folder(self, workbench: Installed) -> None:
        written = answer(workbench, "history", "download", "-r", "1", "-d", "got")
        assert str(workbench.folder / "got/outputs/model.pkl") in written
        assert (workbench.folder / "got/outputs/model.pkl").read_bytes() == b"m1\0\n"
        workbench.run("history", "download", "-r", "2", "-d", "got").error(2, "already exists", "--overwrite")
        one = answer(workbench, "history", "download", "-r", "2", "-d", "got", "-a", "outputs/model.pkl", "--overwrite")
        assert one == [str(workbench.folder / "got/outputs/model.pkl")]
        assert (workbench.folder / "got/outputs/model.pkl").read_bytes() == b"m2\0\n"
        workbench.run("history", "download", "-r", "2", "-d", "got", "--artifact", "../../x").error(2, "no artifact")

    def test_promoted_artifact_is_downloaded_as_asset(self, workbench: Installed) -> None:
        promoted = answer(workbench, "history", "promote", "-r", "1", "-ap", "outputs/model.pkl", "-n", "digits.pkl")
        assert promoted == {"name": "digits.pkl", "version": "1", "link": "assets/digits.pkl.link"}
        answer(workbench, "history", "promote", "-r", "2", "--artifact-path", "outputs/model.pkl", "-n", "digits.pkl")
        link = workbench.folder / "assets" / "digits.pkl.link"
        assert json.loads(link.read_text()) == {"assetSource": "azureml", "name": "digits.pkl", "version": "2"}
        answer(workbench, "asset", "download", "-l", "assets/digits.pkl.link", "-d", "here")
        assert (workbench.folder / "here/model.pkl").read_bytes() == b"m2\0\n"
        assert [asset["version"] for asset in answer(workbench, "asset", "list")] == ["2"]
        workbench.run("asset", "download", "-l", "hello.py", "-d", "here").error(2, "not a link file")
        workbench.run("asset", "download", "-l", "assets/none.link", "-d", "here").error(2, "link file not found")
        workbench.run("history", "promote", "-r", "1", "-ap", "pid").error(2, "no artifact")


class TestExchange:
    def test_exported_runs_are_imported(self, workbench: Installed, tmp_path: Path) -> None:
        report = answer(workbench, "history", "export", "--format", "mlflow", "mlruns")
        assert (report["runs"], report["renamed"], report["cut"]) == (3, [], [])
        again = answer(workbench, "history", "import", "mlruns")
        assert (again["imported"], again["known"]) == ([], 3)
        other = Installed(tmp_path / "other")
        (other.folder / "aml_config").mkdir(parents=True)
        assert len(answer(other, "history", "import", str(workbench.folder / "mlruns"))["imported"]) == 3
        assert [record.get("Accuracy") for record in other.history()] == [None, 0.89, 0.67]
        assert [record["status"] for record in other.history()] == ["Failed", "Completed", "Completed"]
        other.run("history", "import", "nowhere").error(2, "no MLflow runs")

    def test_runs_are_exported_as_csv(self, workbench: Installed) -> None:
        assert answer(workbench, "history", "export", "--format", "csv", "-r", "2", "new/runs.csv")["runs"] == 1
        assert "project_1700000000002" in (workbench.folder / "new/runs.csv").read_text()
