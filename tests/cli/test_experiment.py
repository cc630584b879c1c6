"""`experiment submit|status|cancel`."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.cli.support import Installed
from tests.faults.support import is_running, until
from tests.runs.support import write_configuration, write_files
from tui_workbench.cli import find_command, parse

REPORT = "import json, sys\nprint(json.dumps(sys.argv[1:]))\n"
GATED = "import os, sys\nprint(os.getpid(), flush=True)\nopen(sys.argv[1]).read()\nprint('the end')\nsys.exit(4)\n"
STUBBORN = (
    "import os, signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint(os.getpid(), flush=True)\n"
    "while True:\n    time.sleep(60)\n"
)


@pytest.fixture
def workbench(project_root: Path) -> Installed:
    write_files(project_root, {"report.py": REPORT, "gated.py": GATED, "stubborn.py": STUBBORN})
    os.mkfifo(project_root / "gate")
    return Installed(project_root)


SUBMIT = ("experiment", "submit", "-c", "local")


def gate(workbench: Installed) -> Path:
    return workbench.folder / "gate"


def begun(workbench: Installed, run_id: str) -> int:
    """Wait for the script of a run and return its process ID."""
    log = workbench.folder / ".workbench" / "runs" / run_id / "output.log"
    return int(until(lambda: log.exists() and log.read_text().partition("\n")[0], "the script"))


class TestSubmit:
    def test_submit_prints_the_id_and_the_output(self, workbench: Installed) -> None:
        result = workbench.submit("hello.py")
        assert (result.code, result.err) == (0, "")
        first, rest = result.out.split("\n", 1)
        assert first == f"RunId: {workbench.history()[0]['run_id']}"
        assert rest == "hello\n"

    @pytest.mark.parametrize("code", [1, 3, 77, 255])
    def test_submit_exits_with_the_code_of_the_script(self, workbench: Installed, code: int) -> None:
        write_files(workbench.folder, {"exits.py": f"raise SystemExit({code})"})
        result = workbench.submit("exits.py")
        run_id = result.out.split()[1]
        assert (result.code, result.err) == (code, f"workbench-tui: {run_id} failed: exit code {code}\n")

    def test_submit_names_the_signal_of_a_killed_script(self, workbench: Installed) -> None:
        write_files(workbench.folder, {"killed.py": "import os\nos.kill(os.getpid(), 9)"})
        result = workbench.submit("killed.py")
        assert result.code == 137
        assert "SIGKILL" in result.err

    def test_pipe_gets_every_byte(self, workbench: Installed) -> None:
        rubbish = bytes(range(256)) * 300 + b"\x1b]0;title\x07\r\rno newline"
        write_files(
            workbench.folder, {"rubbish": rubbish, "bytes.py": "import os\nos.write(1, open('rubbish', 'rb').read())"}
        )
        out = workbench.bytes_of(*SUBMIT, "bytes.py")
        assert out.partition(b"\n")[2] == rubbish

    def test_wait_is_the_default(self, workbench: Installed) -> None:
        assert workbench.run(*SUBMIT, "--wait", "hello.py").out.endswith("\nhello\n")

    def test_detach_returns_while_the_script_runs(self, workbench: Installed) -> None:
        result = workbench.run(*SUBMIT, "--detach", "gated.py", str(gate(workbench)))
        assert (result.code, result.err) == (0, "")
        assert result.out.startswith("RunId: ")
        assert result.out.count("\n") == 1
        run_id = result.out.split()[1]
        assert is_running(begun(workbench, run_id))
        gate(workbench).write_text("go")
        assert workbench.run("logs", "-f", run_id).out.endswith("the end\n")
        assert workbench.info(run_id)["exit_code"] == 4

    def test_detach_prints_the_record(self, workbench: Installed) -> None:
        record = json.loads(workbench.run(*SUBMIT, "--detach", "-o", "json", "hello.py").out)
        assert record["script_name"] == "hello.py"
        result = workbench.run(*SUBMIT, "--detach", "--query", "run_number", "hello.py")
        assert result.out == "2\n"
        table = workbench.run(*SUBMIT, "--detach", "-o", "table", "hello.py").out.splitlines()
        assert table[0].split()[:2] == ["Run_number", "Run_id"]

    @pytest.mark.parametrize("option", [("-o", "json"), ("--query", "run_id")])
    def test_output_option_needs_detach_or_dry_run(self, workbench: Installed, option: tuple[str, str]) -> None:
        workbench.run(*SUBMIT, *option, "hello.py").error(2, "--detach", "--dry-run")
        assert workbench.history() == []

    def test_target_option_replaces_the_target(self, workbench: Installed) -> None:
        write_configuration(workbench.folder, "other", suffix="compute", type="local", pythonLocation=sys.executable)
        assert workbench.run(*SUBMIT, "-t", "other", "hello.py").code == 0
        assert workbench.history()[0]["target"] == "other"

    def test_script_defaults_to_the_run_configuration(self, workbench: Installed) -> None:
        write_configuration(workbench.folder, ArgumentVector=["report.py", "--epochs", "3"])
        assert workbench.submit().out.endswith('\n["--epochs", "3"]\n')

    def test_project_is_named_or_a_parent_folder(self, workbench: Installed, tmp_path: Path) -> None:
        elsewhere = Installed(tmp_path)
        assert elsewhere.run(*SUBMIT, "--project", str(workbench.folder), "hello.py").code == 0
        (workbench.folder / "deep").mkdir()
        inside = Installed(workbench.folder / "deep")
        assert inside.run(*SUBMIT, "hello.py").code == 0
        assert len(workbench.history()) == 2

    @pytest.mark.parametrize(
        "arguments",
        [
            ("--help",), ("-h", "-c", "x"), ("--wait", "--detach", "--dry-run"), ("--",), ("a", "--", "b"), ("",),
            ("--", "--"), ("-o", "json", "--query", "["), ("--project=.",), (" ", "a b", "'", '"', "$(x)", "\n", "*"),
            ("-",), ("-1", "-0.5"), ("@file",), ("--epochs=3", "-vvv"),
        ],
    )  # fmt: skip
    def test_arguments_after_the_script_are_passed_unchanged(
        self, workbench: Installed, arguments: tuple[str, ...]
    ) -> None:
        result = workbench.submit("report.py", *arguments)
        assert result.code == 0, result
        assert json.loads(result.out.partition("\n")[2]) == list(arguments)

    @pytest.mark.parametrize("script", ["-x.py", "--help.py", "a b.py", "\u4f60.py", "'\".py", "$(x).py"])
    def test_script_can_have_any_name(self, workbench: Installed, script: str) -> None:
        write_files(workbench.folder, {script: "print('ran')"})
        assert workbench.run(*SUBMIT, "--", script).out.endswith("\nran\n")
        assert workbench.history()[0]["script_name"] == script

    def test_options_before_the_script_have_any_order(self) -> None:
        for words in (["-c", "x", "--detach", "s", "-t"], ["--detach", "-c", "x", "s", "-t"]):
            command, _ = find_command(["experiment", "submit"])
            assert command is not None
            parsed = parse(command, words)
            assert (parsed.run_configuration, parsed.detach, parsed.script, parsed.arguments) == (
                "x",
                True,
                "s",
                ["-t"],
            )


class TestDryRun:
    def test_dry_run_prints_the_plan_and_writes_nothing(self, workbench: Installed) -> None:
        write_configuration(
            workbench.folder, TrackedRun=True, EnvironmentVariables={"API_KEY": "hunter2", "NAME": "two words"}
        )
        before = sorted(os.walk(workbench.folder))
        result = workbench.run(*SUBMIT, "--dry-run", "hello.py", "a b")
        assert (result.code, result.err) == (0, "")
        lines = result.out.splitlines()
        assert lines[0] == "target       local (local)"
        assert lines[1] == f"interpreter  {sys.executable}"
        assert [line.split(":")[0] for line in lines if line[:1].isdigit()] == [
            "1. snapshot", "2. copy", "3. start", "4. follow", "5. collect",
        ]  # fmt: skip
        assert "     set  API_KEY='***'" in lines
        assert "     set  NAME='two words'" in lines
        assert f"     run  {sys.executable} hello.py 'a b'" in lines
        assert "hunter2" not in result.out
        assert sorted(os.walk(workbench.folder)) == before

    def test_dry_run_prints_json(self, workbench: Installed) -> None:
        plan = json.loads(workbench.run(*SUBMIT, "--dry-run", "-o", "json", "hello.py").out)
        assert plan["target"] == "local"
        assert [step["name"] for step in plan["steps"]] == ["start", "follow"]
        assert plan["steps"][0]["command"] == [sys.executable, "hello.py"]
        queried = workbench.run(*SUBMIT, "--dry-run", "--query", "steps[0].directory", "hello.py")
        assert queried.out == f'"{workbench.folder}"\n'

    def test_dry_run_shows_control_characters(self, workbench: Installed) -> None:
        out = workbench.run(*SUBMIT, "--dry-run", "hello.py", "\x1b]0;title\x07\n").out
        assert "\x1b" not in out
        assert "\u241b]0;title\u2407\u240a" in out


class TestInterrupting:
    def test_closed_pipe_stops_following(self, workbench: Installed) -> None:
        write_files(workbench.folder, {"talks.py": "import itertools\nfor n in itertools.count(): print('line', n)"})
        process = workbench.start(*SUBMIT, "talks.py")
        assert process.stdout is not None
        run_id = process.stdout.readline().split()[1].decode()
        process.stdout.close()
        process.stdout = None
        _, err = process.communicate(timeout=120)
        assert process.returncode == 130
        assert f"experiment cancel --run {run_id}".encode() in err
        assert workbench.info(run_id)["status"] == "Running"
        assert workbench.run("experiment", "cancel", "--run", run_id).code == 0

    def test_early_interrupt_creates_no_run(self, workbench: Installed, tmp_path: Path) -> None:
        write_configuration(workbench.folder, TrackedRun=True)
        began, hold = tmp_path / "began", tmp_path / "hold"
        os.mkfifo(hold)
        write_files(tmp_path, {"bin/git": f"#!/bin/sh\n: >{began}\nread line <{hold}\n"})
        (tmp_path / "bin" / "git").chmod(0o755)
        workbench.environment = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
        process = workbench.start(*SUBMIT, "hello.py", start_new_session=True)
        until(began.exists)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=120)
        assert (process.returncode, out) == (130, b"")
        assert b"Traceback" not in err
        assert os.listdir(workbench.folder / ".workbench" / "runs") == []

    def test_colors_are_reset_when_following_ends(self, workbench: Installed) -> None:
        write_files(workbench.folder, {"red.py": "print('\\x1b[31mred', flush=True)\nopen('gate').read()"})
        with workbench.in_terminal(*SUBMIT, "red.py") as terminal:
            terminal.until_text("red")
            terminal.send("\x03")
            terminal.to_the_end()
            assert terminal.raw.index(b"\x1b[31mred") < terminal.raw.index(b"\x1b[0m")
        (run,) = workbench.history()
        workbench.run("experiment", "cancel", "--run", run["run_id"])


class TestTerminal:
    def test_only_colors_reach_the_terminal(self, workbench: Installed) -> None:
        evil = "\x1b]0;owned\x07\x1b]52;c;aGk=\x07\x1b[2J\x1b[6n\x1bc\x1b[?1049h\x9b5n\x1b[32mgreen\x1b[0m\u202eevil"
        write_files(workbench.folder, {"evil.py": f"print({evil!r})"})
        with workbench.in_terminal(*SUBMIT, "evil.py") as terminal:
            assert terminal.to_the_end() == 0
        text = terminal.raw.decode()
        assert "\x1b[32mgreen\x1b[0m" in text
        assert text.replace("\x1b[32m", "").replace("\x1b[0m", "").count("\x1b") == 0
        assert not {"\x07", "\x9b", "\u202e"} & set(text)
        assert "\u241b]0;owned\u2407" in text
        (run,) = workbench.history()
        assert workbench.bytes_of("logs", run["run_id"]).decode() == evil + "\n"

    def test_errors_hold_no_terminal_sequences(self, workbench: Installed) -> None:
        evil = "\x1b]0;owned\x07"
        with workbench.in_terminal(*SUBMIT, f"{evil}.py") as terminal:
            assert terminal.to_the_end() == 2
        assert b"\x1b" not in terminal.raw
        assert b"\x07" not in terminal.raw


class TestStatusAndCancel:
    def test_status_prints_the_history_record(self, workbench: Installed) -> None:
        run_id = workbench.submit("hello.py").out.split()[1]
        status = json.loads(workbench.run("experiment", "status", "--run", run_id).out)
        info = workbench.info(run_id)
        assert info.pop("attachments")
        assert info.pop("attachment_sizes")
        assert status == info
        assert json.loads(workbench.run("experiment", "status", "-r", "1").out) == status
        assert workbench.run("experiment", "status", "-r", "1", "--query", "status").out == '"Completed"\n'

    @pytest.mark.parametrize("by", ["id", "number"])
    def test_cancel_returns_when_all_processes_ended(self, workbench: Installed, by: str) -> None:
        run_id = workbench.detach("gated.py", str(gate(workbench)))
        script = begun(workbench, run_id)
        result = workbench.run("experiment", "cancel", "--run", run_id if by == "id" else "1", "-t", "local")
        assert (result.code, result.err) == (0, "")
        record = json.loads(result.out)
        assert (record["status"], record["reason"], record["exit_code"]) == ("Canceled", "canceled", None)
        assert not is_running(script)
        workbench.run("experiment", "cancel", "--run", run_id).error(2, "has already ended")

    @pytest.mark.processes
    def test_cancel_asks_about_runs_that_wait(self, workbench: Installed) -> None:
        first = workbench.detach("gated.py", "gate")
        second = workbench.detach("--after", "1", "hello.py")
        third = workbench.detach("--after", "1:any", "hello.py")
        terminal = workbench.in_terminal("experiment", "cancel", "--run", "1", columns=200)
        terminal.until_text("[y/N]")
        question = f"Cancel {first}? Runs that wait for it are also canceled: {second}. [y/N]"
        assert question in terminal.raw.decode()
        terminal.send("n\n")
        assert terminal.to_the_end() == 1
        assert workbench.run("experiment", "cancel", "--run", "1").code == 0  # not in a terminal
        until(lambda: workbench.info(third)["status"] == "Completed", "its end")
        assert [workbench.info(run_id)["status"] for run_id in (first, second)] == ["Canceled", "Canceled"]

    def test_cancel_uses_the_given_grace_period(self, workbench: Installed) -> None:
        run_id = workbench.detach("stubborn.py")
        script = begun(workbench, run_id)
        result = workbench.run("experiment", "cancel", "--run", run_id, "--grace", "0.1", "--query", "reason")
        assert "0.1 s" in result.out
        assert not is_running(script)

    @pytest.mark.parametrize("grace", ["-1", "x", "nan", "inf", ""])
    def test_invalid_grace_period_is_refused(self, workbench: Installed, grace: str) -> None:
        workbench.run("experiment", "cancel", "--run", "1", "--grace", grace).error(2, "--grace")

    def test_following_a_canceled_run_exits_with_130(self, workbench: Installed) -> None:
        follower = workbench.start(*SUBMIT, "gated.py", str(gate(workbench)))
        assert follower.stdout is not None
        run_id = follower.stdout.readline().split()[1].decode()
        begun(workbench, run_id)
        assert workbench.run("experiment", "cancel", "--run", run_id).code == 0
        _, err = follower.communicate(timeout=120)
        assert follower.returncode == 130
        assert err.decode() == f"workbench-tui: {run_id} canceled: canceled\n"
