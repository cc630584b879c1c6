"""The trace of calls: what is written down, what is not, and how it is read again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.core.support import trace_file
from tui_workbench.core import trace
from tui_workbench.core.trace_reading import (
    FAILED,
    GOES_ON,
    LOST,
    TracedCall,
    TraceFile,
    matches,
    shell_line,
    short_line,
)

SECRET = "s3cret-value"


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one test hides does not hide it from the next."""
    monkeypatch.setattr(trace, "_hidden", set())
    trace._hide_environment.cache_clear()
    monkeypatch.setattr(trace, "_repeated", {})


def made(*words: str, **options: object) -> trace.Call:
    """A call of a program here that was made."""
    return trace.Call(trace.PROCESS, words, **options)  # type: ignore[arg-type]


def written() -> str:
    """What the user's file holds."""
    return Path(trace_file()).read_text()


def users() -> TraceFile:
    """The user's file, to be read."""
    return TraceFile(os.path.dirname(trace_file()))


def calls() -> list[TracedCall]:
    """All calls that were written down."""
    file = users()
    file.read_new()
    return file.calls


def test_a_call_is_one_line_with_its_moment_duration_and_result() -> None:
    with made("git", "status", folder="/x") as call:
        call.end(128, b"fatal: not a git repository\n")
    (line,) = written().splitlines()
    told = json.loads(line)
    assert told["words"] == ["git", "status"]
    assert (told["folder"], told["code"], told["said"]) == ("/x", 128, "fatal: not a git repository")
    assert told["took"] >= 0
    assert os.stat(trace_file()).st_mode & 0o777 == 0o600


def test_an_exception_is_its_result() -> None:
    with pytest.raises(FileNotFoundError), made("missing"):
        raise FileNotFoundError(2, "No such file", "missing")
    (found,) = calls()
    assert found.state == FAILED
    assert "No such file" in found.error


def test_a_call_that_lasts_is_seen_while_it_lasts() -> None:
    file = users()
    call = made("sleep", "60", lasts=True)
    (found,) = file.read_new()
    assert (found.state, found.took) == (GOES_ON, None)
    call.end(0)
    (found,) = file.read_new()
    assert (found.state, found.result, found.words) == ("ended", "ok", ("sleep", "60"))
    assert len(file.calls) == 1


def test_a_call_whose_process_is_gone_is_lost() -> None:
    script = "from tui_workbench.core import trace; trace.Call('process', ['sleep', '60'], lasts=True)"
    subprocess.run([sys.executable, "-c", script], check=True)
    (found,) = users().read_new()
    assert (found.state, found.result) == (LOST, LOST)
    assert matches(found, "failed")


# --- Secrets


def test_a_secret_variable_stands_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_TOKEN", SECRET)
    with made("curl", SECRET, variables={"API_TOKEN": SECRET, "PLACE": f"at {SECRET}"}, fed=SECRET) as call:
        call.end(1, f"refused: {SECRET}".encode())
    assert SECRET not in written()


def test_a_secret_that_was_given_stands_nowhere() -> None:
    trace.hide([SECRET])
    made("login", f"--with={SECRET}", login=f"-i {SECRET} host").end(None, error=f"wrong: {SECRET}")
    assert SECRET not in written()


def test_no_half_of_a_secret_stays_where_a_complaint_is_cut() -> None:
    trace.hide([SECRET])
    for more in range(len(SECRET) + 1):
        made("login").end(1, SECRET.encode() + b"x" * (trace.LONGEST_COMPLAINT - more))
    assert not any(SECRET[-size:] + "x" in written() for size in range(3, len(SECRET)))


def test_a_folder_is_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRETS_PLACE", "/home/somebody")
    made("ls", "/home/somebody/x").end(0)
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
def test_what_looks_like_a_secret_is_masked(words: tuple[str, ...], masked: str) -> None:
    found = trace.masked_words(words)
    assert masked in found
    assert not any(SECRET in word for word in found)


@pytest.mark.parametrize("word", ["ssh://git@host/x", "--key=3", "lr=0.1", "a@b", "PATH=/bin"])
def test_what_is_no_secret_stays(word: str) -> None:
    assert trace.masked_words([word]) == [word]


# --- The files


def test_calls_for_a_run_stand_with_the_run_too(tmp_path: Path) -> None:
    with trace.of_run(str(tmp_path)):
        made("git", "add").end(0)
    made("git", "status").end(0)
    run = TraceFile(str(tmp_path))
    assert [call.words for call in run.read_new()] == [("git", "add")]
    assert len(written().splitlines()) == 2


def test_a_run_is_that_of_its_thread(tmp_path: Path) -> None:
    with trace.of_run(str(tmp_path)):
        other = threading.Thread(target=lambda: made("ls").end(0))
        other.start()
        other.join()
    assert not (tmp_path / trace.FILE).exists()


def test_one_that_polls_does_not_fill_the_runs_file(tmp_path: Path) -> None:
    with trace.of_run(str(tmp_path)):
        for _ in range(100):
            made("docker", "inspect", "x").end(0)
    assert len((tmp_path / trace.FILE).read_text().splitlines()) == 7
    assert len(written().splitlines()) == 100


def test_the_file_is_bounded_and_its_older_part_is_read_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "LARGEST_FILE", 2000)
    file = users()
    seen = []
    for number in range(40):
        made("x", str(number)).end(0)
        seen += [call.words[1] for call in file.read_new()]
    assert seen == [str(number) for number in range(40)]
    sizes = [os.path.getsize(trace_file() + suffix) for suffix in ("", trace.OLDER)]
    assert all(0 < size < 2300 for size in sizes)


def test_many_processes_share_the_file() -> None:
    script = "from tui_workbench.core import trace\nfor n in range(200): trace.Call('process', ['x', str(n)]).end(0)"
    running = [subprocess.Popen([sys.executable, "-c", script]) for _ in range(4)]
    assert [process.wait() for process in running] == [0] * 4
    assert len(calls()) == 800


def test_a_trace_that_cannot_be_written_harms_nobody(home: Path) -> None:
    (home / ".local").mkdir()
    (home / ".local" / "state").write_text("a file where a folder should be")
    made("ls").end(0)


def test_what_is_no_line_of_ours_is_passed_over() -> None:
    made("ls").end(0)
    with open(trace_file(), "ab") as file:
        file.write(b'garbage\n{"id": 1}\n[]\n{"id":"1.1","at":"x","words":[],"kind":"ssh"}\n\xff\xfe\n')
        file.write(b'{"id":"1.2","at":1,"words":3,"kind":"ssh"}\n{"id":"1.3","at":2,"kind":"other","words":[]}\nhalf')
    assert len(calls()) == 1


def test_half_a_line_is_read_when_it_is_whole() -> None:
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
    """What a shell prints when the line is pasted into it."""
    done = subprocess.run(
        ["sh", "-c", line], env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_the_line_does_the_same(tmp_path: Path) -> None:
    folder = tmp_path / "a folder's"
    folder.mkdir()
    show = 'import os, sys; print(os.getcwd(), sys.argv[1:], os.environ["WHAT"], sys.stdin.read().split("\\0"))'
    words = [sys.executable, "-c", show, "it's", "$HOME", "a\nb", ""]
    with trace.Call(trace.GIT, words, folder=str(folder), variables={"WHAT": "1 2"}, fed="100%\0\\x\n\0") as call:
        call.end(0)
    (found,) = users().read_new()
    expected = f"{folder} {words[3:]} 1 2 {['100%', chr(92) + 'x' + chr(10), '']}\n"
    assert run(shell_line(found)) == expected


def test_a_secret_is_taken_from_the_shell_that_the_line_is_pasted_into() -> None:
    made("sh", "-c", 'echo "$API_TOKEN"', variables={"API_TOKEN": SECRET}).end(0)
    (found,) = users().read_new()
    assert run(shell_line(found), API_TOKEN="mine") == "mine\n"


def test_what_ran_elsewhere_is_a_line_for_ssh() -> None:
    trace.Call(trace.SSH, ["sh", "-c", "echo 'a b'"], login="-p 2222 me@there").end(0)
    (found,) = users().read_new()
    assert (
        shell_line(found)
        == "ssh -p 2222 me@there 'sh -c '\"'\"'echo '\"'\"'\"'\"'\"'\"'\"'\"'a b'\"'\"'\"'\"'\"'\"'\"'\"''\"'\"''"
    )
    ssh = 'ssh() { shift 3; sh -c "$*"; }; '
    assert run(ssh + shell_line(found)) == "a b\n"
    assert short_line(found).startswith("me@there: sh -c ")


def test_a_masked_variable_of_a_container_is_taken_from_the_shell() -> None:
    trace.Call(trace.DOCKER, ["docker", "create", "--env", f"API_KEY={SECRET}", "--env", "LR=1", "image"]).end(0)
    (found,) = users().read_new()
    assert shell_line(found) == "docker create --env API_KEY --env LR=1 image"


def test_what_was_not_kept_is_said_behind_the_line() -> None:
    call = trace.Call(trace.SSH, ["cat"], login="there")
    call.told(b"", 1234)
    call.end(0)
    (found,) = users().read_new()
    assert shell_line(found) == "ssh there cat  # it was given 1,234 bytes to read, which are not kept"
    made("x", "y" * (trace.LONGEST_WORD + 1)).end(0)
    assert "too long to be kept" in shell_line(calls()[1])


def test_a_short_line_leaves_out_what_all_have() -> None:
    words = ["/usr/bin/git", "-c", "gc.auto=0", "--git-dir=/x", "add", "--all"]
    trace.Call(trace.GIT, words).end(0)
    made("/bin/sh", "-c", "first line\nsecond line", "sh").end(0)
    lines = [short_line(call) for call in calls()]
    assert lines == ["git add --all", "sh -c 'first line…' sh"]


@pytest.mark.parametrize(
    ("text", "found"), [("", 3), ("kind:git", 1), ("failed", 1), ("inspect docker", 1), ("nowhere", 0), ("boom", 1)]
)
def test_a_filter_chooses_by_words(text: str, found: int) -> None:
    trace.Call(trace.GIT, ["git", "add"]).end(0)
    trace.Call(trace.DOCKER, ["docker", "inspect", "x"]).end(0)
    made("false").end(1, b"boom")
    assert sum(matches(call, text) for call in calls()) == found
