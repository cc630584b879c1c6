from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import uuid
from pathlib import Path

import pytest

from tests.core.support import trace_file
from tui_workbench.core import trace
from tui_workbench.core.trace_reading import (
    FAILED,
    LOST,
    RUNNING,
    TracedCall,
    TraceFile,
    matches,
    shell_line,
    short_line,
)

SECRET = "s3cret-value"


"""A secret that no test registers in this process."""


@pytest.fixture
def known_secret() -> str:
    """Return a secret that is registered as one."""
    secret = f"s3cret-{uuid.uuid4().hex}"
    trace.hide([secret])
    return secret


def in_new_process(code: str) -> None:
    """Run code in a new process, which reads its environment at the start."""
    subprocess.run([sys.executable, "-c", f"from tui_workbench.core import trace\n{code}"], check=True)


def made(*words: str, **options: object) -> trace.Call:
    return trace.Call(trace.PROCESS, words, **options)  # type: ignore[arg-type]


def written() -> str:
    return Path(trace_file()).read_text()


def users() -> TraceFile:
    return TraceFile(os.path.dirname(trace_file()))


def calls() -> list[TracedCall]:
    file = users()
    file.read_new()
    return file.calls


def test_call_is_logged_as_one_line() -> None:
    with made("git", "status", folder="/x") as call:
        call.end(128, b"fatal: not a git repository\n")
    (line,) = written().splitlines()
    record = json.loads(line)
    assert record["words"] == ["git", "status"]
    assert (record["folder"], record["code"], record["said"]) == ("/x", 128, "fatal: not a git repository")
    assert record["took"] >= 0
    assert os.stat(trace_file()).st_mode & 0o777 == 0o600


def test_exception_is_logged_as_the_result() -> None:
    with pytest.raises(FileNotFoundError), made("missing"):
        raise FileNotFoundError(2, "No such file", "missing")
    (found,) = calls()
    assert found.state == FAILED
    assert "No such file" in found.error


def test_log_start_shows_a_running_call() -> None:
    file = users()
    call = made("sleep", "60", log_start=True)
    (found,) = file.read_new()
    assert (found.state, found.seconds) == (RUNNING, None)
    call.end(0)
    (found,) = file.read_new()
    assert (found.state, found.result, found.words) == ("ended", "ok", ("sleep", "60"))
    assert len(file.calls) == 1


def test_call_of_a_dead_process_is_lost() -> None:
    script = "from tui_workbench.core import trace; trace.Call('process', ['sleep', '60'], log_start=True)"
    subprocess.run([sys.executable, "-c", script], check=True)
    (found,) = users().read_new()
    assert (found.state, found.result) == (LOST, LOST)
    assert matches(found, "failed")


# --- Secrets


def test_secret_variable_is_masked_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_TOKEN", SECRET)
    in_new_process(
        "import os; secret = os.environ['API_TOKEN']\n"
        "variables = {'API_TOKEN': secret, 'PLACE': f'at {secret}'}\n"
        "call = trace.Call(trace.PROCESS, ['curl', secret], variables=variables)\n"
        "call.end(1, f'refused: {secret}'.encode())"
    )
    assert "refused" in written()
    assert SECRET not in written()


def test_registered_secret_is_masked_everywhere(known_secret: str) -> None:
    made("login", f"--with={known_secret}", login=f"-i {known_secret} host").end(None, error=f"wrong: {known_secret}")
    assert "wrong" in written()
    assert known_secret not in written()


def test_secret_that_contains_another_one_is_masked_as_a_whole(known_secret: str) -> None:
    # In a set, the order is random.
    for length in range(12, len(known_secret)):
        trace.hide([known_secret[:length]])
    made("login").end(1, f"wrong: {known_secret}!")
    assert "wrong: ***!" in written()


def test_cut_stderr_keeps_no_part_of_a_secret(known_secret: str) -> None:
    for more in range(len(known_secret) + 1):
        made("login").end(1, known_secret.encode() + b"x" * (trace.LONGEST_STDERR - more))
    assert not any(known_secret[-size:] + "x" in written() for size in range(3, len(known_secret)))


def test_size_of_a_line_is_limited() -> None:
    made("ls", *["😀" * 1000] * 1000, variables={"A": "b" * trace.LONGEST_LINE}).end(1, error="\0" * 100_000)
    (found,) = calls()
    assert (found.words[0], found.is_cut, len(written()) <= trace.LONGEST_LINE) == ("ls", True, True)


def test_path_in_a_secret_variable_is_not_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRETS_PLACE", "/home/somebody")
    in_new_process("trace.Call(trace.PROCESS, ['ls', '/home/somebody/x']).end(0)")
    assert "/home/somebody/x" in written()


@pytest.mark.parametrize(
    ("words", "masked"),
    [
        (("docker", "--env", f"API_KEY={SECRET}"), "API_KEY=***"),
        (("tool", "--password", SECRET), "--password"),
        (("tool", f"--auth-token={SECRET}"), "--auth-token=***"),
        (("uv", f"https://user:{SECRET}@index/simple"), "https://user:***@index/simple"),
        (("uv", f"https://{SECRET}@index/simple"), "https://***@index/simple"),
        (("git", f"see ssh://git:{SECRET}@host/x"), "see ssh://git:***@host/x"),
    ],
    ids=["variable", "option", "assigned", "address", "user", "within"],
)
def test_secret_in_a_command_is_masked(words: tuple[str, ...], masked: str) -> None:
    found = trace.masked_words(words)
    assert masked in found
    assert not any(SECRET in word for word in found)


@pytest.mark.parametrize("word", ["ssh://git@host/x", "--key=3", "lr=0.1", "a@b", "PATH=/bin"])
def test_harmless_word_is_not_masked(word: str) -> None:
    assert trace.masked_words([word]) == [word]


# --- The files


def test_for_run_also_logs_in_the_run_directory(tmp_path: Path) -> None:
    with trace.for_run(str(tmp_path)):
        made("git", "add", str(tmp_path)).end(0)
    made("git", "status").end(0)
    run = TraceFile(str(tmp_path))
    assert [call.words for call in run.read_new()] == [("git", "add", str(tmp_path))]
    assert len(written().splitlines()) == 2


def test_call_has_the_name_of_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    made("a").end(0)
    with trace.for_agent("from\x1b[2J a\nserver "):
        made("b").end(0)
        with trace.for_agent(""):
            made("c").end(0)
    monkeypatch.setenv(trace.AGENT_VARIABLE, "coder" + "x" * 1000)
    with trace.for_agent("submitter of the run"):
        made("d").end(0)
    agents = [call.agent for call in calls()]
    assert agents[:3] == ["", "from [2J a server", ""]
    assert (agents[3][:6], len(agents[3])) == ("coderx", trace.LONGEST_AGENT)
    assert [call.words for call in calls() if matches(call, "agent:SERVER")] == [("b",)]


def test_for_run_applies_to_its_thread_only(tmp_path: Path) -> None:
    with trace.for_run(str(tmp_path)):
        other = threading.Thread(target=lambda: made("ls").end(0))
        other.start()
        other.join()
    assert not (tmp_path / trace.FILE).exists()


def test_polling_does_not_fill_the_file_of_a_run(tmp_path: Path) -> None:
    with trace.for_run(str(tmp_path)):
        for _ in range(100):
            made("docker", "inspect", str(tmp_path)).end(0)
    assert len((tmp_path / trace.FILE).read_text().splitlines()) == 7
    assert len(written().splitlines()) == 100


def test_rotated_file_is_read_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "LARGEST_FILE", 2000)
    file = users()
    seen = []
    for number in range(40):
        made("x", str(number)).end(0)
        seen += [call.words[1] for call in file.read_new()]
    assert seen == [str(number) for number in range(40)]
    sizes = [os.path.getsize(trace_file() + suffix) for suffix in ("", trace.OLD_SUFFIX)]
    assert all(0 < size < 2300 for size in sizes)


def test_processes_share_the_file() -> None:
    script = "from tui_workbench.core import trace\nfor n in range(200): trace.Call('process', ['x', str(n)]).end(0)"
    running = [subprocess.Popen([sys.executable, "-c", script]) for _ in range(4)]
    assert [process.wait() for process in running] == [0] * 4
    assert len(calls()) == 800


def test_failed_write_is_ignored(home: Path) -> None:
    (home / ".local").mkdir()
    (home / ".local" / "state").write_text("a file where a folder should be")
    made("ls").end(0)


def test_invalid_lines_are_skipped() -> None:
    made("ls").end(0)
    with open(trace_file(), "ab") as file:
        file.write(b'garbage\n{"id": 1}\n[]\n{"id":"1.1","at":"x","words":[],"kind":"ssh"}\n\xff\xfe\n')
        file.write(b'{"id":"1.2","at":1,"words":3,"kind":"ssh"}\n{"id":"1.3","at":2,"kind":"other","words":[]}\nhalf')
    assert len(calls()) == 1


def test_incomplete_line_is_read_once_complete() -> None:
    made("ls").end(0)
    file = users()
    assert len(file.read_new()) == 1
    with open(trace_file(), "ab") as appended:
        appended.write(b'{"id":"7.1","at":5,"kind":"ssh",')
        appended.flush()
        assert file.read_new() == []
        appended.write(b'"words":["x"],"took":1,"code":0}\n')
    assert [call.words for call in file.read_new()] == [("x",)]


# --- A line for a shell


def run(line: str, **environment: str) -> str:
    done = subprocess.run(
        ["sh", "-c", line], env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_shell_line_repeats_the_call(tmp_path: Path) -> None:
    folder = tmp_path / "a folder's"
    folder.mkdir()
    show = 'import os, sys; print(os.getcwd(), sys.argv[1:], os.environ["WHAT"])'
    words = [sys.executable, "-c", show, "it's", "$HOME", "a\nb", ""]
    with trace.Call(trace.GIT, words, folder=str(folder), variables={"WHAT": "1 2"}) as call:
        call.end(0)
    (found,) = users().read_new()
    expected = f"{folder} {words[3:]} 1 2\n"
    assert run(shell_line(found)) == expected


def test_call_of_a_tool_is_one_comment() -> None:
    trace.Call(trace.AGENT, ["get_run", "run=1\nreboot"]).end(None)
    (call,) = calls()
    assert shell_line(call) == "# get_run run=1␊reboot"


def test_shell_line_takes_a_secret_from_the_shell() -> None:
    made("sh", "-c", 'echo "$API_TOKEN"', variables={"API_TOKEN": SECRET}).end(0)
    (found,) = users().read_new()
    assert run(shell_line(found), API_TOKEN="mine") == "mine\n"


def test_shell_line_of_a_remote_call_uses_ssh() -> None:
    trace.Call(trace.SSH, ["sh", "-c", "echo 'a b'"], login="-p 2222 me@there").end(0)
    (found,) = users().read_new()
    assert (
        shell_line(found)
        == "ssh -p 2222 me@there 'sh -c '\"'\"'echo '\"'\"'\"'\"'\"'\"'\"'\"'a b'\"'\"'\"'\"'\"'\"'\"'\"''\"'\"''"
    )
    ssh = 'ssh() { shift 3; sh -c "$*"; }; '
    assert run(ssh + shell_line(found)) == "a b\n"
    assert short_line(found).startswith("me@there: sh -c ")


def test_shell_line_passes_a_masked_variable_to_a_container() -> None:
    trace.Call(trace.DOCKER, ["docker", "create", "--env", f"API_KEY={SECRET}", "--env", "LR=1", "image"]).end(0)
    (found,) = users().read_new()
    assert shell_line(found) == "docker create --env API_KEY --env LR=1 image"


def test_shell_line_mentions_data_that_was_not_stored() -> None:
    call = trace.Call(trace.SSH, ["cat"], login="there")
    call.note_io(b"", 1234)
    call.end(0)
    (found,) = users().read_new()
    assert shell_line(found) == "ssh there cat  # 1,234 bytes of input were not stored"
    made("x", "y" * (trace.LONGEST_WORD + 1)).end(0)
    assert "long arguments were cut" in shell_line(calls()[1])


def test_short_line_omits_common_options() -> None:
    words = ["/usr/bin/git", "-c", "gc.auto=0", "--git-dir=/x", "add", "--all"]
    trace.Call(trace.GIT, words).end(0)
    made("/bin/sh", "-c", "first line\nsecond line", "sh").end(0)
    lines = [short_line(call) for call in calls()]
    assert lines == ["git add --all", "sh -c 'first line…' sh"]


@pytest.mark.parametrize(
    ("text", "found"), [("", 3), ("kind:git", 1), ("failed", 1), ("inspect docker", 1), ("nowhere", 0), ("boom", 1)]
)
def test_filter_matches_words(text: str, found: int) -> None:
    trace.Call(trace.GIT, ["git", "add"]).end(0)
    trace.Call(trace.DOCKER, ["docker", "inspect", "x"]).end(0)
    made("false").end(1, b"boom")
    assert sum(matches(call, text) for call in calls()) == found
