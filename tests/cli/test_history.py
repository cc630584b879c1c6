"""`history`, `logs`, lists and output formats."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
from datetime import datetime
from pathlib import Path

import pytest

from tests.cli.support import Installed
from tests.faults.support import until
from tests.runs.support import make_run, write_configuration, write_files
from tui_workbench.core.causes import EXCEPTION, Cause, exit_causes, of_attempt
from tui_workbench.projects.project import Project

ORIGINAL_KEYS = {
    "created_utc", "start_time_utc", "end_time_utc", "duration", "description", "name", "parent_run_id", "properties",
    "run_id", "run_number", "script_name", "status", "target", "user_id", "arguments",
}  # fmt: skip


@pytest.fixture
def workbench(project_root: Path) -> Installed:
    return Installed(project_root)


@pytest.fixture
def three_runs(project: Project) -> None:
    make_run(project, "project_1700000000001", 1, state="completed", exit_code=0)
    make_run(project, "project_1700000000002", 2, state="failed", exit_code=3, reason="exit code 3")
    make_run(project, "project_1700000000003", 3, state="canceled", reason="canceled")


class TestHistory:
    def test_record_has_the_keys_of_azure_ml_workbench(self, workbench: Installed) -> None:
        run_id = workbench.submit("hello.py").out.split()[1]
        record = workbench.info(run_id)
        assert set(record) >= ORIGINAL_KEYS
        assert (record["status"], record["exit_code"], record["reason"]) == ("Completed", 0, None)
        assert record["properties"] == {"CommitId": None}
        start, end = (datetime.fromisoformat(record[key]) for key in ("start_time_utc", "end_time_utc"))
        assert start.utcoffset() is not None
        assert start < end
        assert record["duration"] == str(end - start)
        assert record["duration"].startswith("0:00:0")

    def test_record_has_the_kind_of_the_reason(self, workbench: Installed, project: Project, three_runs: None) -> None:
        raised = Cause(EXCEPTION, {"error": "ValueError: x"})
        make_run(project, "p_4", 4, state="failed", exit_code=1, causes=of_attempt(2, (raised, *exit_causes(1))))
        last, *others = (workbench.info(str(number)) for number in (4, 3, 2, 1))
        assert (last["cause"], last["reason"]) == ("exception", "attempt 2: ValueError: x (exit code 1)")
        assert [record.get("cause") for record in others] == ["canceled", "exit-code", None]

    def test_run_of_an_agent_has_its_name_in_records_and_trace(self, workbench: Installed) -> None:
        workbench.submit("hello.py")
        workbench.environment["WORKBENCH_AGENT"] = "coder\x1b"
        workbench.submit("hello.py")
        del workbench.environment["WORKBENCH_AGENT"]
        assert [record["agent"] for record in workbench.history()] == ["coder", None]
        assert workbench.info("2")["agent"] == "coder"
        table = workbench.run("history", "list", "-o", "table").out.splitlines()
        assert (table[0].split()[1], table[2].split()[1]) == ("Agent", "coder")
        for number, agent in (("1", None), ("2", "coder")):
            calls = json.loads(workbench.run("trace", "--run", number, "-o", "json").out)
            assert {call["agent"] for call in calls} == {agent}

    def test_tracked_run_has_its_commit(self, workbench: Installed) -> None:
        write_configuration(workbench.folder, TrackedRun=True)
        run_id = workbench.submit("hello.py").out.split()[1]
        assert len(workbench.info(run_id)["properties"]["CommitId"]) == 40

    @pytest.mark.usefixtures("three_runs")
    def test_list_last_and_info_agree(self, workbench: Installed) -> None:
        listed = workbench.history()
        assert [record["run_number"] for record in listed] == [3, 2, 1]
        assert [record["status"] for record in listed] == ["Canceled", "Failed", "Completed"]
        for shown, record in (
            (json.loads(workbench.run("history", "last").out), listed[0]),
            (workbench.info("project_1700000000002"), listed[1]),
            (workbench.info("2"), listed[1]),
        ):
            assert shown.pop("attachments") == "events.jsonl, run.json"
            assert list(shown.pop("attachment_sizes")) == ["events.jsonl", "run.json"]
            assert shown == record

    def test_runs_are_deleted_restored_and_purged(self, workbench: Installed, project: Project) -> None:
        for number in range(1, 5):
            make_run(project, f"project_170000000000{number}", number, state="completed", exit_code=0)
        workbench.run("history", "pin", "-r", "2")
        workbench.run("history", "delete").error(2, "expected either IDs or --keep-last")
        workbench.run("history", "delete", "1").error(2, "not a terminal", "--yes")
        workbench.run("history", "delete", "1", "2", "--yes").error(2, "is pinned", "--undo")
        assert len(workbench.history()) == 4
        deleted = json.loads(workbench.run("history", "delete", "--keep-last", "1", "--yes").out)
        assert [(row["run_number"], row["deleted"]) for row in deleted] == [(3, True), (1, True)]
        assert [record["run_number"] for record in workbench.history()] == [4, 2]
        listed = workbench.run("history", "list", "--deleted", "--query", "[].run_number", "-o", "tsv")
        assert listed.out == "3\n1\n"
        assert json.loads(workbench.run("history", "restore", "1").out) == [{"run_id": "project_1700000000001"}]
        runs_folder, left = Path(project.runs_directory), "project_1700000000003"
        (runs_folder / f".deleted-{left}").rename(runs_folder / f".purged-{left}")
        listed = workbench.run("history", "list", "--deleted")
        assert (listed.out, f"the purge of {left} was interrupted" in listed.err) == ("[]\n", True)
        purged = json.loads(workbench.run("history", "purge", left, "--targets", "--yes").out)
        assert (purged["runs"], purged["problems"]) == (["project_1700000000003"], [])
        assert purged["bytes"] > 0
        assert json.loads(workbench.run("history", "purge").out)["runs"] == []
        workbench.run("history", "delete", "1", "4", "--yes")
        table = workbench.run("history", "purge", "--yes", "-o", "table")
        assert table.out.splitlines()[0].split() == ["Run_id", "Size"]
        assert [line.split()[0] for line in table.out.splitlines()[2:]] == [f"project_170000000000{n}" for n in (1, 4)]
        assert "of snapshots" in table.err

    @pytest.mark.usefixtures("three_runs")
    def test_last_is_the_newest_run_with_a_record(self, workbench: Installed) -> None:
        (workbench.folder / ".workbench" / "runs" / "project_1800000000000").mkdir()
        assert workbench.history()[0]["run_id"] == "project_1800000000000"
        assert json.loads(workbench.run("history", "last").out)["run_number"] == 3

    def test_list_without_runs_is_empty(self, workbench: Installed) -> None:
        for form, empty in (("json", "[]\n"), ("table", ""), ("tsv", "")):
            assert workbench.run("history", "list", "-o", form).out == empty
        workbench.run("history", "last").error(2, "no runs yet", "submit")
        assert not (workbench.folder / ".workbench").exists()

    @pytest.mark.usefixtures("three_runs")
    def test_list_prints_a_table(self, workbench: Installed) -> None:
        lines = workbench.run("history", "list", "-o", "table").out.splitlines()
        assert lines[0].split() == ["Run_number", "Duration", "Run_id", "Script_name", "Start_time_utc", "Status"]
        assert lines[1].replace(" ", "").strip("-") == ""
        assert [line.split()[0] for line in lines[2:]] == ["3", "2", "1"]
        assert [line.split()[2] for line in lines[2:]] == [f"project_170000000000{n}" for n in (3, 2, 1)]
        assert len({line.index("hello.py") for line in lines[2:]}) == 1
        assert lines[3].endswith("Failed")

    @pytest.mark.usefixtures("three_runs")
    def test_list_prints_tsv(self, workbench: Installed) -> None:
        rows = list(csv.reader(io.StringIO(workbench.run("history", "list", "-o", "tsv").out), delimiter="\t"))
        assert [row[:5] for row in rows][1] == ["2", "project_1700000000002", "hello.py", "local", "Failed"]
        assert {len(row) for row in rows} == {8}

    @pytest.mark.usefixtures("three_runs")
    @pytest.mark.parametrize(
        ("query", "form", "expected"),
        [
            ("[?status=='Completed'].run_number", "json", "[\n  1\n]\n"),
            ("length(@)", "json", "3\n"),
            ("[].run_number", "tsv", "3\n2\n1\n"),
            ("[].{n: run_number, s: status}", "tsv", "3\tCanceled\n2\tFailed\n1\tCompleted\n"),
            ("[0].{Number: run_number}", "table", "Number\n------\n3\n"),
            ("[].run_number", "table", "Result\n------\n3\n2\n1\n"),
            ("max_by(@, &run_number).run_id", "json", '"project_1700000000003"\n'),
            ("nothing", "json", "null\n"),
            ("nothing", "table", ""),
            ("[0].arguments", "tsv", "--epochs\n3\n"),
        ],
    )
    def test_query_filters_the_list(self, workbench: Installed, query: str, form: str, expected: str) -> None:
        assert workbench.run("history", "list", "--query", query, "-o", form).out == expected

    def test_special_characters_do_not_break_tables(self, workbench: Installed) -> None:
        evil = "a\tb\nc\x1b]0;x\x07.py"
        write_files(workbench.folder, {evil: "print(1)"})
        assert workbench.submit(evil).code == 0
        table = workbench.run("history", "list", "-o", "table").out
        assert table.count("\n") == 3
        assert "\x1b" not in table
        (row,) = workbench.run("history", "list", "-o", "tsv").out.splitlines()
        assert row.count("\t") == 7
        assert workbench.history()[0]["script_name"] == evil


class TestLogs:
    @pytest.fixture
    def log(self, project: Project) -> Path:
        return Path(make_run(project, "project_1700000000001", state="completed", exit_code=0).path, "output.log")

    @pytest.mark.parametrize(
        "content", [b"", b"one\n", b"no newline", b"\n\n", bytes(range(256)) * 999, b"\xff\x1b[2J"]
    )
    def test_file_gets_every_byte(self, workbench: Installed, log: Path, content: bytes) -> None:
        log.write_bytes(content)
        assert workbench.bytes_of("logs", "1") == content
        assert workbench.bytes_of("logs", "-f", "project_1700000000001") == content

    @pytest.mark.parametrize(
        ("content", "count", "tail"),
        [
            (b"1\n2\n3\n", "2", b"2\n3\n"),
            (b"1\n2\n3", "2", b"2\n3"),
            (b"1\n2\n3\n", "0", b""),
            (b"1\n2\n3\n", "3", b"1\n2\n3\n"),
            (b"1\n2\n3\n", "99999", b"1\n2\n3\n"),
            (b"", "5", b""),
            (b"\n\n\n", "2", b"\n\n"),
            (b"a\rb\x0bc\x0cd\x85\n2\n", "2", b"a\rb\x0bc\x0cd\x85\n2\n"),
        ],
    )
    def test_tail_prints_the_last_lines(
        self, workbench: Installed, log: Path, content: bytes, count: str, tail: bytes
    ) -> None:
        log.write_bytes(content)
        assert workbench.bytes_of("logs", "--tail", count, "1") == tail

    def test_run_is_given_by_position_or_by_option(self, workbench: Installed, log: Path) -> None:
        log.write_bytes(b"1\n")
        assert workbench.bytes_of("logs", "-r", "1") == workbench.bytes_of("logs", "1") == b"1\n"
        for words in ((), ("1", "-r", "1")):
            workbench.run("logs", *words).error(2, "expected one run")

    def test_missing_log_is_empty(self, workbench: Installed, log: Path) -> None:
        assert not log.exists()
        for options in ((), ("-f",), ("--tail", "3")):
            assert workbench.bytes_of("logs", *options, "1") == b""

    def test_follow_with_tail_ends_with_the_run(self, workbench: Installed) -> None:
        os.mkfifo(workbench.folder / "gate")
        text = "for n in range(9): print(n)\nimport sys\nsys.stdout.flush()\nopen('gate').read()\nprint('end')\n"
        write_files(workbench.folder, {"gated.py": text})
        run_id = workbench.detach("gated.py")
        log = workbench.folder / ".workbench" / "runs" / run_id / "output.log"
        until(lambda: log.exists() and log.read_bytes().endswith(b"8\n"))
        assert workbench.bytes_of("logs", run_id).count(b"\n") == 9
        follower = workbench.start("logs", "-f", "--tail", "2", run_id)
        assert follower.stdout is not None
        assert [follower.stdout.readline() for _ in range(2)] == [b"7\n", b"8\n"]
        (workbench.folder / "gate").write_text("go")
        out, err = follower.communicate(timeout=120)
        assert (out, err, follower.returncode) == (b"end\n", b"", 0)

    def test_ctrl_c_stops_following_and_not_the_run(self, workbench: Installed) -> None:
        os.mkfifo(workbench.folder / "gate")
        write_files(workbench.folder, {"gated.py": "print('begun', flush=True)\nopen('gate').read()\n"})
        run_id = workbench.detach("gated.py")
        with workbench.in_terminal("logs", "-f", run_id) as terminal:
            terminal.until_text("begun")
            terminal.send("\x03")
            assert terminal.to_the_end() == 130
            assert "Traceback" not in terminal.text()
        assert workbench.info(run_id)["status"] == "Running"
        (workbench.folder / "gate").write_text("go")
        assert workbench.run("logs", "-f", run_id).code == 0

    def test_follow_reports_a_removed_run_directory(self, workbench: Installed, project: Project) -> None:
        os.mkfifo(workbench.folder / "gate")
        write_files(workbench.folder, {"gated.py": "print('begun', flush=True)\nopen('gate').read()\n"})
        run_id = workbench.detach("gated.py")
        follower = workbench.start("logs", "-f", run_id)
        assert follower.stdout is not None
        assert follower.stdout.readline() == b"begun\n"
        shutil.rmtree(Path(project.runs_directory, run_id))
        (workbench.folder / "gate").write_text("go")
        _, err = follower.communicate(timeout=120)
        assert follower.returncode == 2
        assert run_id.encode() in err


class TestLists:
    def test_compute_targets_are_listed(self, workbench: Installed) -> None:
        write_files(workbench.folder / "aml_config", {"broken.compute": "type: [\n"})
        write_configuration(
            workbench.folder, "box", suffix="compute", type="remotedocker", address="10.0.0.1", username="me",
            baseDockerImage="image:1",
        )  # fmt: skip
        rows = {row["name"]: row for row in json.loads(workbench.run("computetarget", "list").out)}
        assert sorted(rows) == ["box", "broken", "local"]
        assert (rows["box"]["type"], rows["box"]["address"]) == ("remotedocker", "10.0.0.1")
        assert rows["local"]["problem"] is None
        assert rows["broken"]["problem"].startswith("line ")
        assert "broken" in workbench.run("computetarget", "list", "-o", "table").out

    def test_run_configurations_are_listed(self, workbench: Installed) -> None:
        (row,) = json.loads(workbench.run("runconfiguration", "list").out)
        assert (row["name"], row["target"], row["framework"]) == ("local", "local", "Python")
        assert row["argument_vector"] == ["$file"]
        assert row["tracked_run"] is False

    def test_template_creates_a_project(self, workbench: Installed, tmp_path: Path) -> None:
        names = json.loads(workbench.run("project", "sample", "list", "--query", "[].name").out)
        assert "blank" in names
        made = workbench.run("project", "create", "mine", "--path", str(tmp_path), "--template", "blank")
        assert made.code == 0, made
        assert json.loads(made.out)["path"] == str(tmp_path / "mine")
        assert (tmp_path / "mine" / "aml_config").is_dir()
        workbench.run("project", "create", "mine", "--path", str(tmp_path)).error(2, "mine")
        workbench.run("project", "create", "--path", str(tmp_path)).error(2)


LONG_LOG = """\
print("step 1 loss: 7.7151")
for _ in range(1_200):
    print("no number in this line " * 450)
print("step 2 loss: 0.5")
"""


@pytest.mark.processes
def test_loss_at_the_end_of_a_log_over_8_mb_is_the_last_value(workbench: Installed) -> None:
    write_files(workbench.folder, {"long.py": LONG_LOG})
    run_id = workbench.submit("long.py").out.split()[1]
    record = workbench.info(run_id)
    assert (workbench.folder / ".workbench" / "runs" / run_id / "output.log").stat().st_size > 8 << 20
    assert record["loss"] == 0.5
