"""The run directory: records and events are read despite foreign content, and never lost."""

from __future__ import annotations

import errno
import json
import os
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.runs.support import make_run, record_of
from tui_workbench.core.errors import RunNotFound, StorageError
from tui_workbench.core.masking import MASK
from tui_workbench.core.model import RunState, SweepTask
from tui_workbench.projects.project import Project
from tui_workbench.runs.store import ownership
from tui_workbench.runs.store.rundir import DEFAULT_GRACE, RECORD, SCHEMA, RunDirectory, Status

# The last two stand for a byte that is not UTF-8, and for a character that only a YAML escape can create.
ODD = ("two words", "a\nb", "\u4f60\u597d", "\x00", '"', "\\", "\u2028", chr(0xDCFF), chr(0xD800))


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    path = tmp_path / "project" / ".workbench" / "runs" / "project_1700000000000"
    path.mkdir(parents=True)
    return RunDirectory(str(path))


def put(directory: RunDirectory, *lines: str | bytes) -> None:
    with open(directory.file("events.jsonl"), "ab") as file:
        file.write(b"".join(line.encode() if isinstance(line, str) else line for line in lines))


class TestRecord:
    def test_record_is_read_as_written(self, directory: RunDirectory) -> None:
        record = record_of(Path(directory.path), commit_id="abc", snapshot="git")
        directory.write_record(record)
        assert directory.read_record() == record

    @pytest.mark.parametrize("odd", ODD, ids=ascii)
    def test_record_holds_any_text(self, directory: RunDirectory, odd: str) -> None:
        record = record_of(Path(directory.path))
        spec = record.spec._replace(script=odd, arguments=(odd, odd), project_name=odd)
        directory.write_record(record._replace(spec=spec, user_id=odd))
        assert directory.read_record().spec == spec

    def test_secrets_are_masked(self, directory: RunDirectory) -> None:
        record = record_of(Path(directory.path))
        variables = {"STORAGE_KEY": "hunter2", "Db_Password": "hunter2", "NAME": "value"}
        configuration = record.spec.run_configuration._replace(
            environment_variables=variables,
            values={"EnvironmentVariables": variables, "ArgumentVector": ["$file", "--api-key", "hunter2"]},
        )
        directory.write_record(record._replace(spec=record.spec._replace(run_configuration=configuration)))
        assert "hunter2" not in Path(directory.file("run.json")).read_text()
        assert directory.read_record().spec.run_configuration.environment_variables == {
            "STORAGE_KEY": MASK,
            "Db_Password": MASK,
            "NAME": "value",
        }

    def test_keys_of_other_packages_are_kept(self, directory: RunDirectory) -> None:
        record = record_of(Path(directory.path))
        target = record.spec.target._replace(values={"type": "magic", "wand": {"length": 3}})
        directory.write_record(record._replace(spec=record.spec._replace(target=target)))
        assert directory.read_record().spec.target == target

    def test_format_is_documented(self, directory: RunDirectory) -> None:
        directory.write_record(record_of(Path(directory.path)))
        stored = json.loads(Path(directory.file("run.json")).read_text())
        assert stored["schema"] == SCHEMA == 1
        assert stored["run_id"] == directory.run_id
        assert stored["script"] == "hello.py"
        assert stored["arguments"] == ["--epochs", "3"]
        assert stored["target"]["type"] == "local"
        assert stored["run_configuration"]["environment_variables"] == {"NAME": "value"}
        assert [step["name"] for step in stored["plan"]] == ["start", "follow"]

    def test_existing_record_is_not_overwritten(self, directory: RunDirectory) -> None:
        directory.write_record(record_of(Path(directory.path)))
        with pytest.raises(StorageError):
            directory.write_record(record_of(Path(directory.path), number=2))
        assert directory.read_record().run_number == 1

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
    @given(data=st.data())
    def test_truncated_record_names_the_file(self, directory: RunDirectory, data: st.DataObject) -> None:
        path = Path(directory.file("run.json"))
        path.unlink(missing_ok=True)
        directory.write_record(record_of(Path(directory.path)))
        whole = path.read_bytes()
        path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 3))])
        with pytest.raises(RunNotFound, match=r"run\.json"):
            directory.run()

    @pytest.mark.parametrize(
        "stored", ["", "null", "[]", "{}", '"text"', "1", '{"schema": "1"}', '{"schema": 1}', "[" * 100_000, "\xff"]
    )
    def test_malformed_record_names_a_remedy(self, directory: RunDirectory, stored: str) -> None:
        Path(directory.file("run.json")).write_bytes(stored.encode("latin-1"))
        with pytest.raises(RunNotFound) as raised:
            directory.run()
        assert raised.value.file == directory.file("run.json")
        assert raised.value.remedy

    def test_place_in_a_sweep_is_kept(self, directory: RunDirectory) -> None:
        record = record_of(Path(directory.path))
        spec = record.spec._replace(sweep=SweepTask("sweep-1-1795465027510", 2, 6, 3))
        directory.write_record(record._replace(spec=spec))
        assert directory.read_record().spec == spec

    @pytest.mark.parametrize(
        "sweep",
        [["../../etc", 1, 2, 1], ["sweep-1-1", "../../.profile", 2, 1], ["sweep-1-1", 1, 2], "sweep-1-1", [1, 1, 2, 1]],
        ids=["name", "number", "length", "text", "type"],
    )
    def test_malformed_place_in_a_sweep_is_refused(self, directory: RunDirectory, sweep: object) -> None:
        """Its values become parts of paths on a cluster."""
        directory.write_record(record_of(Path(directory.path)))
        path = Path(directory.file("run.json"))
        path.write_text(json.dumps({**json.loads(path.read_text()), "sweep": sweep}))
        with pytest.raises(RunNotFound):
            directory.read_record()

    def test_newer_version_is_refused(self, directory: RunDirectory) -> None:
        directory.write_record(record_of(Path(directory.path)))
        path = Path(directory.file("run.json"))
        stored = json.loads(path.read_text())
        path.write_text(json.dumps({**stored, "schema": SCHEMA + 1}))
        with pytest.raises(RunNotFound, match="Update the workbench"):
            directory.run()
        assert json.loads(path.read_text())["schema"] == SCHEMA + 1

    def test_paths_follow_a_moved_directory(self, directory: RunDirectory, tmp_path: Path) -> None:
        directory.write_record(record_of(Path(directory.path)))
        moved = tmp_path / "backup" / directory.run_id
        moved.parent.mkdir()
        os.rename(directory.path, moved)
        run = RunDirectory(str(moved)).run()
        assert run.directory == str(moved)
        assert run.log_path == f"{moved}/output.log"


class TestEvents:
    def test_events_determine_the_status(self, directory: RunDirectory) -> None:
        assert directory.status() == Status(state=RunState.QUEUED)
        directory.append_event("state", state="queued")
        directory.append_event("step", step="start", status="done", seconds=0.5)
        directory.append_event("state", state="running")
        running = directory.status()
        assert (running.state, running.done, running.end) == ("running", frozenset({"start"}), 0.0)
        assert running.start > 1e9
        end = running.start + 2
        directory.append_event("state", state="failed", reason="exit code 3", exit_code=3, end=end, final=True)
        ended = directory.status()
        assert (ended.state, ended.reason, ended.exit_code) == ("failed", "exit code 3", 3)
        assert (ended.start, ended.end, ended.done) == (running.start, end, running.done)

    @pytest.mark.parametrize(
        "foreign",
        [
            "",
            "\n",
            "no json\n",
            "\xff\xfe\n",
            "null\n",
            "[]\n",
            "3\n",
            "{}\n",
            '{"event": 3}\n',
            '{"event": "unheard of", "state": "failed", "final": true}\n',
            '{"event": "state"}\n',
            '{"event": "state", "state": 7, "final": true}\n',
            '{"event": "state", "state": "failed", "time": "noon", "final": true}\n',
            '{"event": "state", "state": "failed", "time": null, "final": true}\n',
            '{"event": "state", "state": "failed", "time": 1, "exit_code": "three", "final": true}\n',
            '{"event": "state", "state": "failed", "time": 1, "reason": ["x"], "final": true}\n',
            '{"event": "state", "state": "failed", "time": 1, "end": "now", "final": true}\n',
            '{"event": "step", "step": ["start"], "status": "done"}\n',
            "[" * 100_000 + "\n",
        ],
    )
    def test_foreign_lines_are_ignored(self, directory: RunDirectory, foreign: str) -> None:
        directory.append_event("state", state="running")
        before = directory.status()
        put(directory, foreign.encode("latin-1"))
        after = directory.status()
        assert after._replace(done=before.done, begun=before.begun) == before
        directory.append_event("state", state="completed", exit_code=0, final=True)
        assert directory.status().state == "completed"

    def test_incomplete_last_line_is_ignored(self, directory: RunDirectory) -> None:
        directory.append_event("state", state="running")
        before = directory.status()
        line = b'{"time": 1700000000.0, "event": "state", "state": "failed", "exit_code": 1, "final": true}'
        for size in range(1, len(line) + 1):
            put(directory, line[:size])
            assert directory.status() == before, line[:size]
            with open(directory.file("events.jsonl"), "ab") as file:
                file.truncate(os.path.getsize(directory.file("events.jsonl")) - size)

    def test_event_after_an_incomplete_line_is_readable(self, directory: RunDirectory) -> None:
        put(directory, '{"time": 1, "event": "st')
        directory.append_event("state", state="running")
        directory.append_event("step", step="start", status="done")
        assert [event["event"] for event in directory.events()] == ["state", "step"]

    def test_first_final_state_counts(self, directory: RunDirectory) -> None:
        directory.append_event("state", state="completed", exit_code=0, final=True, end=1_700_000_000.0)
        end = directory.status()
        directory.append_event("state", state="unknown", reason="a late controller", final=True)
        directory.append_event("state", state="running")
        assert directory.status() == end

    def test_unknown_state_is_final_only_if_marked(self, directory: RunDirectory) -> None:
        directory.write_record(record_of(Path(directory.path)))
        ownership.register(directory.file(RECORD))
        directory.append_event("state", state="unknown", reason="the link is down")
        assert directory.run().is_active
        directory.append_event("state", state="running")
        assert directory.status().state == "running"
        directory.append_event("state", state="unknown", reason="killed", final=True)
        assert not directory.run().is_active

    @pytest.mark.parametrize("odd", ODD, ids=ascii)
    def test_events_hold_any_text(self, directory: RunDirectory, odd: str) -> None:
        directory.append_event("state", state="failed", reason=odd, final=True)
        assert directory.status().reason == odd

    def test_concurrent_events_are_not_lost(self, directory: RunDirectory) -> None:
        def write(writer: int) -> None:
            for number in range(50):
                directory.append_event("note", writer=writer, number=number, padding="x" * 3000)

        threads = [threading.Thread(target=write, args=(writer,)) for writer in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seen: dict[int, list[int]] = {}
        for event in directory.events():
            seen.setdefault(event["writer"], []).append(event["number"])
        assert seen == {writer: list(range(50)) for writer in range(8)}

    def test_full_disk_is_reported_and_next_event_is_readable(
        self, directory: RunDirectory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        directory.append_event("state", state="queued")
        real = os.write
        written: list[int] = []

        def full(descriptor: int, data: bytes) -> int:
            if written:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            written.append(real(descriptor, bytes(data)[:10]))
            return written[0]

        with monkeypatch.context() as patch:
            patch.setattr(os, "write", full)
            with pytest.raises(StorageError, match="Free some space"):
                directory.append_event("state", state="running")
        assert directory.status().state == "queued"
        directory.append_event("state", state="running")
        assert directory.status().state == "running"

    def test_run_without_events_is_queued(self, directory: RunDirectory) -> None:
        directory.write_record(record_of(Path(directory.path)))
        ownership.register(directory.file(RECORD))
        run = directory.run()
        assert (run.state, run.is_active, run.start, run.end) == ("queued", True, 0.0, 0.0)

    def test_removed_directory_is_not_a_run(self, directory: RunDirectory) -> None:
        with pytest.raises(RunNotFound, match="history list"):
            RunDirectory(directory.path + "0").run()


class TestCancelRequest:
    def test_request_has_its_grace(self, directory: RunDirectory) -> None:
        assert not directory.cancel_requested
        assert directory.cancel_request.grace == DEFAULT_GRACE
        directory.request_cancel(2.5)
        assert directory.cancel_requested
        assert directory.cancel_request.grace == 2.5

    def test_last_request_counts(self, directory: RunDirectory) -> None:
        for grace in (5.0, 0.0, 60.0, 0.5):
            directory.request_cancel(grace)
        assert directory.cancel_request.grace == 0.5

    @pytest.mark.parametrize("content", [b"", b"5", b"x\n", b"\xff\n", b"\n"])
    def test_malformed_request_still_cancels(self, directory: RunDirectory, content: bytes) -> None:
        Path(directory.file("cancel")).write_bytes(content)
        assert directory.cancel_requested
        assert directory.cancel_request.grace == DEFAULT_GRACE


def test_run_describes_its_files(project: Project) -> None:
    run = make_run(project, "project_1700000000000", 7, state="failed", exit_code=3, reason="exit code 3").run()
    assert (run.run_id, run.run_number, run.script_name) == ("project_1700000000000", 7, "hello.py")
    assert (run.state, run.exit_code, run.reason) == ("failed", 3, "exit code 3")
    assert (run.target, run.target_type, run.run_configuration) == ("local", "local", "local")
    assert not run.is_active
    assert run.end == 1_700_000_107.0
