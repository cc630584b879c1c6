"""`doctor` reports requirements and fixes, and every check ends."""

from __future__ import annotations

import json
import os
import platform
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.support import INSTALLED, Installed, InTerminal
from tests.conftest import require
from tests.faults.support import until
from tui_workbench.cli.doctor import doctor_folders, doctor_terminal, doctor_tools
from tui_workbench.cli.doctor.answer import BROKEN, LIMITED, OK, Answer
from tui_workbench.cli.doctor.doctor_terminal import TerminalReply
from tui_workbench.targets.hosts.secrets import NO_BUS

EVERYWHERE = [
    "system",
    "terminal",
    "unicode",
    "python",
    "git",
    "ssh",
    "ssh agent",
    "ssh config",
    "docker",
    "keyring",
    "folders",
]
ON_A_TERMINAL = ["system", "terminal", "unicode", "colors", "clipboard", "focus", "python"]


@pytest.fixture
def workbench(project_root: Path, monkeypatch: pytest.MonkeyPatch) -> Installed:
    for name in ("TMUX", "STY"):
        monkeypatch.delenv(name, raising=False)
    return Installed(project_root, {"LANG": "C.UTF-8", "LC_ALL": "", "LC_CTYPE": ""})


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_tools, "TIME_LIMIT", 0.2)


@pytest.mark.parametrize(
    ("system", "release", "project", "state"),
    [
        ("Linux", "6.1.0-13-amd64", "/mnt/c/project", OK),
        ("Linux", "5.15.153.1-microsoft-standard-WSL2", "/home/me/project", OK),
        ("Linux", "5.15.153.1-microsoft-standard-WSL2", "/mnt/data/project", OK),
        ("Linux", "5.15.153.1-microsoft-standard-WSL2", "/mnt/c/project", LIMITED),
        ("Linux", "4.19.128-microsoft-standard", "/home/me/project", OK),
        ("Linux", "4.4.0-19041-Microsoft", "/home/me/project", BROKEN),
        ("Darwin", "23.6.0", "/Users/me/project", LIMITED),
    ],
)
def test_system_is_checked(system: str, release: str, project: str, state: str) -> None:
    about = platform.uname()._replace(system=system, release=release)
    assert doctor_folders.system(about, project).state == state


class TestCommand:
    def test_all_checks_run_without_a_terminal(self, workbench: Installed) -> None:
        done = workbench.run("doctor", "-o", "json")
        found = json.loads(done.out)
        assert (done.code, done.err) == (0, "")
        assert [answer["name"] for answer in found] == [*EVERYWHERE, "project", "disk", "clock"]
        for answer in found:
            assert set(answer) == {"name", "state", "message", "cost", "remedy", "command"}
            assert bool(answer["cost"]) == (answer["state"] != OK), answer

    def test_text_ends_with_a_summary(self, workbench: Installed) -> None:
        *lines, empty, summary = workbench.run("doctor").out.splitlines()
        assert [line.split("  ")[0] for line in lines if line[0] != " "][:2] == [OK, LIMITED]
        assert empty == ""
        assert re.match(r"The workbench works\. Limited: terminal", summary)

    @pytest.mark.processes
    def test_text_is_wrapped_except_for_commands(self, workbench: Installed) -> None:
        with workbench.in_terminal("doctor", columns=60) as terminal:
            assert terminal.to_the_end() == 0
        lines = terminal.raw.decode().replace("\x1b[?1004$p\x1b[c", "").splitlines()
        indent = " " * (8 + 2 + 10 + 2)
        assert max(len(line) for line in lines if not line.startswith(f"{indent}    ")) <= 60
        assert [line for line in lines if line.startswith(indent)]

    def test_project_is_not_checked_outside_a_project(self, tmp_path: Path) -> None:
        found = json.loads(Installed(tmp_path).run("doctor", "-o", "json").out)
        assert "project" not in {answer["name"] for answer in found}

    @pytest.mark.processes
    def test_terminal_reply_is_read_and_not_left_as_keys(self, workbench: Installed) -> None:
        workbench.environment |= {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
        with workbench.in_terminal("doctor", "-o", "tsv", columns=200) as terminal:
            while b"\x1b[c" not in terminal.raw:
                assert terminal.pump(30), terminal.raw
            terminal.send(b"\x1b[?1004;2$y\x1b[?62;22;52c")
            assert terminal.to_the_end() == 0
            text = terminal.raw.decode().replace("\x1b[?1004$p\x1b[c", "")
        assert "\x1b" not in text
        assert "62;22" not in text
        rows = dict(line.split("\t")[0::2][:2] for line in text.splitlines())
        assert list(rows)[: len(ON_A_TERMINAL)] == ON_A_TERMINAL
        assert rows["clipboard"] == "supported by the terminal (OSC 52)"
        assert rows["focus"] == "reported by the terminal"
        assert rows["colors"] == "16 million"

    @pytest.mark.processes
    def test_pipe_in_a_terminal_is_not_queried(self, workbench: Installed) -> None:
        command = f"{INSTALLED} doctor -o json --query '[].name' </dev/null | tr -d '\\n'"
        environment = workbench.environment | {"TERM": "xterm-256color"}
        with InTerminal(["sh", "-c", command], directory=str(workbench.folder), changes=environment) as terminal:
            assert terminal.to_the_end() == 0
            assert b'"terminal",  "unicode",  "python"' in terminal.raw
            assert b"\x1b" not in terminal.raw

    @pytest.mark.processes
    def test_silent_terminal_is_unknown(self, workbench: Installed) -> None:
        workbench.environment |= {"TERM": "xterm-256color"}
        with workbench.in_terminal("doctor", "--query", "[?name=='focus'].message") as terminal:
            assert terminal.to_the_end() == 0
            assert b"unknown whether" in terminal.raw

    def test_missing_programs_are_limited(self, workbench: Installed, tmp_path: Path) -> None:
        (tmp_path / "empty").mkdir()
        workbench.environment["PATH"] = str(tmp_path / "empty")
        done = workbench.run("doctor", "-o", "json")
        found = {answer["name"]: answer for answer in json.loads(done.out)}
        assert done.code == 0
        for name in ("git", "ssh"):
            assert (found[name]["state"], found[name]["message"]) == (LIMITED, "not installed")
            assert (found[name]["remedy"], found[name]["command"]) == ("Install it.", None)  # no package manager


class TestTerminal:
    @pytest.mark.parametrize(
        ("environment", "message", "state"),
        [
            ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, "16 million", OK),
            ({"TERM": "screen-256color"}, "256", OK),
            ({"TERM": "xterm"}, "16", LIMITED),
            ({"TERM": "linux"}, "16", LIMITED),
            ({"TERM": "vt220"}, "none", LIMITED),
            ({"TERM": "xterm", "NO_COLOR": "1"}, "none, because NO_COLOR is set", OK),
        ],
    )
    def test_colors_of_the_terminal(self, environment: dict[str, str], message: str, state: str) -> None:
        assert doctor_terminal.colors(environment)[1:3] == (state, message)

    @pytest.mark.parametrize(
        ("environment", "state"),
        [
            ({"LANG": "de_DE.UTF-8"}, OK),
            ({"LANG": "C.utf8"}, OK),
            ({"LANG": "de_DE.UTF-8", "LC_ALL": "C"}, LIMITED),
            ({"LANG": "C.UTF-8", "TERM": "linux"}, LIMITED),
            ({"LANG": "de_DE.ISO-8859-1"}, LIMITED),
            ({}, OK),
        ],
    )
    def test_unicode_support_of_the_terminal(self, environment: dict[str, str], state: str) -> None:
        assert doctor_terminal.characters(environment).state == state

    def test_unsupported_terminal_shows_the_reason(self, workbench: Installed) -> None:
        workbench.environment["TERM"] = "dumb"
        with workbench.in_terminal("doctor", "--query", "[1].message") as terminal:
            assert terminal.to_the_end() == 0
            assert b"cannot position the cursor" in terminal.raw
            assert b"\x1b" not in terminal.raw

    def test_missing_terminal_reply_is_not_a_no(self) -> None:
        assert doctor_terminal.parse_reply(b"") == TerminalReply(None, None)
        assert doctor_terminal.parse_reply(b"\x1b[?1004;0$y\x1b[?1;2c") == TerminalReply(clipboard=False, focus=False)
        assert doctor_terminal.parse_reply(b"\x1b[?1;2c") == TerminalReply(clipboard=False, focus=None)
        assert doctor_terminal.focus({}, TerminalReply(focus=False)).state == LIMITED
        assert doctor_terminal.focus({}, TerminalReply()).state == OK

    @pytest.mark.tmux
    def test_tmux_settings_are_read(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        tmux = [require("tmux"), "-S", str(tmp_path / "tmux"), "-f", "/dev/null"]
        subprocess.run([*tmux, "new-session", "-d", "cat"], check=True)
        try:
            monkeypatch.setenv("TMUX", f"{tmp_path / 'tmux'},1,0")
            environment = {"TMUX": os.environ["TMUX"], "TERM": "screen"}
            subprocess.run([*tmux, "set-option", "-g", "set-clipboard", "off"], check=True)
            answer = doctor_terminal.clipboard(environment, TerminalReply())
            assert (answer.state, answer.command) == (LIMITED, "tmux set-option -g set-clipboard on")
            focus = doctor_terminal.focus(environment, TerminalReply())
            assert focus.state == LIMITED
            for command in (answer.command, focus.command):
                subprocess.run([*tmux, *command.split()[1:]], check=True)
            assert doctor_terminal.clipboard(environment, TerminalReply()).state == OK
            assert doctor_terminal.focus(environment, TerminalReply()).state == OK
        finally:
            subprocess.run([*tmux, "kill-server"], check=True)


class TestPrograms:
    @pytest.mark.usefixtures("impatient")
    def test_hanging_program_times_out(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "git").write_text("#!/bin/sh\nexec sleep 100\n")
        (tmp_path / "git").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        assert doctor_tools.git()[1:3] == (LIMITED, "no answer from git")

    def test_installed_packages_are_complete(self) -> None:
        answer = doctor_tools.python()
        assert (answer.state, sys.prefix in answer.message) == (OK, True)

    def test_missing_package_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from importlib import metadata

        monkeypatch.setattr(
            metadata, "requires", lambda _: ["textual==0.0.1", "nowhere[x]>=2", 'torch; extra == "train"']
        )
        answer = doctor_tools.python()
        assert answer.state == BROKEN
        assert re.search(r"lacks textual 0\.0\.1 \(installed: [\d.]+\), nowhere$", answer.message)


class TestKeyring:
    def test_keyring_is_found_without_opening_it(self, keyring: Path) -> None:
        assert doctor_tools.keyring() == Answer("keyring", OK, "stores secrets (SecretService)")

    @pytest.mark.system
    def test_missing_bus_of_an_installed_keyring_is_limited(self, monkeypatch: pytest.MonkeyPatch) -> None:
        require("gnome-keyring-daemon")
        monkeypatch.delenv("DBUS_SESSION_BUS_ADDRESS", raising=False)
        answer = doctor_tools.keyring()
        assert (answer.state, answer.message) == (LIMITED, NO_BUS)
        assert answer.command.startswith("dbus-run-session -- ")

    def test_missing_keyring_is_limited(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere")
        monkeypatch.setenv("PATH", "/nowhere")
        answer = doctor_tools.keyring()
        assert (answer.state, answer.message) == (LIMITED, "this system has no keyring")
        assert answer.remedy == "Log in with keys, or install a keyring:"


class TestSsh:
    @pytest.mark.ssh
    def test_agent_reports_its_number_of_keys(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = str(tmp_path / "agent")
        agent = subprocess.Popen([require("ssh-agent"), "-D", "-a", path], stdout=subprocess.DEVNULL)
        try:
            monkeypatch.setenv("SSH_AUTH_SOCK", path)
            # ssh-add exits with 1 if the agent has no keys, and with 2 if it does not answer yet.
            until(lambda: subprocess.run(["ssh-add", "-l"], capture_output=True).returncode == 1, "the agent")
            assert doctor_tools.agent()[1:3] == (LIMITED, "0 keys, no keys with the usual names in ~/.ssh")
            key = str(tmp_path / "key")
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
            subprocess.run(["ssh-add", "-q", key], check=True, stderr=subprocess.DEVNULL)
            assert doctor_tools.agent() == Answer("ssh agent", OK, "1 key")
        finally:
            agent.terminate()
            agent.wait()

    def test_dead_agent_is_limited(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "gone"))
        answer = doctor_tools.agent()
        assert (answer.state, answer.message.startswith("no answer at")) == (LIMITED, True)

    def test_fix_without_agent_depends_on_the_keys(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
        assert doctor_tools.agent().command == "ssh-keygen -t ed25519"
        (home / ".ssh").mkdir()
        (home / ".ssh" / "id_rsa").write_text("")
        answer = doctor_tools.agent()
        assert answer.message == "not running; keys in ~/.ssh: id_rsa"
        assert answer.command.endswith("ssh-add")

    def test_valid_ssh_config_is_accepted(self, home: Path) -> None:
        assert doctor_tools.configuration().state == OK
        (home / ".ssh").mkdir()
        (home / ".ssh" / "config").write_text("Host box\n  Port 2222\n")
        assert doctor_tools.configuration().state == OK

    @pytest.mark.ssh
    def test_invalid_ssh_config_is_reported_with_its_line(self, home: Path) -> None:
        require("ssh")
        (home / ".ssh").mkdir()
        (home / ".ssh" / "config").write_text("Host box\n  Port many\n")
        answer = doctor_tools.configuration()
        assert answer.state == LIMITED, "as for ssh, a wrong line of another host is an error"
        assert "line 2" in answer.message
        (home / ".ssh" / "config").write_text("Port many\n")
        answer = doctor_tools.configuration()
        assert answer.state == LIMITED
        assert "line 1" in answer.message

    def test_readable_private_key_shows_the_fix(self, home: Path) -> None:
        (home / ".ssh").mkdir()
        (home / ".ssh" / "id_rsa").write_text("")
        (home / ".ssh" / "id_rsa").chmod(0o644)
        answer = doctor_tools.configuration()
        assert (answer.state, answer.command) == (LIMITED, "chmod 600 ~/.ssh/id_rsa")


@pytest.fixture
def listening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bytes], None]]:
    """Listen on the socket of the Docker engine and send a given answer."""
    path = str(tmp_path / "docker.sock")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        threads = []

        def answer(reply: bytes) -> None:
            def serve() -> None:
                connection, _ = server.accept()
                with connection:
                    connection.recv(1000)
                    connection.sendall(reply)

            threads.append(threading.Thread(target=serve))
            threads[-1].start()

        yield answer
        for thread in threads:
            thread.join()


class TestDocker:
    def test_engine_reports_its_version(self, listening: Callable[[bytes], None]) -> None:
        listening(b'HTTP/1.0 200 OK\r\n\r\n{"Version": "28.1.1", "Os": "linux", "Arch": "amd64"}')
        answer = doctor_tools.docker()
        assert (answer.state, answer.message.startswith("Docker 28.1.1 for amd64, at ")) == (OK, True)

    def test_old_engine_is_limited(self, listening: Callable[[bytes], None]) -> None:
        listening(b'HTTP/1.0 200 OK\r\n\r\n{"Version": "18.09", "Os": "linux"}')
        answer = doctor_tools.docker()
        assert answer.state == LIMITED
        assert "19.03" in answer.message

    @pytest.mark.parametrize("reply", [b"", b"HTTP/1.0 200 OK\r\n\r\n[]", b"SSH-2.0-OpenSSH\r\n"])
    def test_other_server_is_not_an_engine(self, listening: Callable[[bytes], None], reply: bytes) -> None:
        listening(reply)
        answer = doctor_tools.docker()
        assert (answer.state, "does not answer" in answer.message) == (LIMITED, True)

    @pytest.mark.usefixtures("impatient", "listening")
    def test_silent_engine_times_out(self) -> None:
        answer = doctor_tools.docker()
        assert (answer.state, "timed out" in answer.message) == (LIMITED, True)

    def test_missing_engine_is_limited(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path / 'nothing'}")
        answer = doctor_tools.docker()
        assert (answer.state, "does not exist" in answer.message) == (LIMITED, True)
        monkeypatch.setenv("DOCKER_HOST", "tcp://elsewhere:2375")
        assert "on this machine" in doctor_tools.docker().message


class TestFolders:
    def test_file_in_place_of_a_folder_is_not_writable(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        answer = doctor_folders.folders(
            {"config": str(tmp_path / "file" / "us"), "state": str(tmp_path / "new" / "us")}
        )
        assert answer.state == LIMITED
        assert answer.message == f"not writable: config {tmp_path}/file/us"
        assert answer.command == f"ls -ld {tmp_path}/file"
        assert doctor_folders.folders({"state": str(tmp_path / "new" / "us")}).state == OK
        assert not (tmp_path / "new").exists()

    def test_disk_state_depends_on_free_space(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        assert doctor_folders.disk([str(tmp_path / "not" / "yet")]).state in (OK, LIMITED)
        monkeypatch.setattr(doctor_folders, "LOW_SPACE", 1 << 62)
        monkeypatch.setattr(doctor_folders, "NO_SPACE", 0)
        assert doctor_folders.disk([str(tmp_path)]).state == LIMITED
        monkeypatch.setattr(doctor_folders, "NO_SPACE", 1 << 61)
        assert doctor_folders.disk([str(tmp_path)]).state == BROKEN

    def test_clock_before_the_installation_is_broken(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert doctor_folders.clock().state in (OK, LIMITED)
        monkeypatch.setattr(time, "time", lambda: 0.0)
        assert doctor_folders.clock().state == BROKEN
