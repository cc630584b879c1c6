"""Git for a snapshot: as any other call, and in view when it takes long."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tui_workbench import trace
from tui_workbench.progress import listening
from tui_workbench.runs import gitcall
from tui_workbench.runs.gitcall import run_git
from tui_workbench.trace_reading import TraceFile

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tui_workbench.progress import Progress


def test_what_it_says_and_how_it_ends_is_given_back_and_written_down(tmp_path: Path) -> None:
    done = run_git(["git", "hash-object", "--stdin"], str(tmp_path), os.environ, "hello\n", ())
    assert (done.returncode, done.stdout) == (0, b"ce013625030ba8dba906f756967f9e9ca394464a\n")
    failed = run_git(["git", "no-such-command"], str(tmp_path), os.environ, "", ())
    assert failed.returncode == 1
    assert b"no-such-command" in failed.stderr
    file = TraceFile(os.path.dirname(trace.user_file()))
    file.read_new()
    assert [call.code for call in file.calls] == [0, 1]


def test_one_that_takes_long_tells_how_much_it_has_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gitcall, "PATIENCE", 0.01)
    monkeypatch.setattr(gitcall, "LOOK_SECONDS", 0.05)
    told: list[Progress | None] = []
    with listening(told.append):
        done = run_git(["sh", "-c", "head -c 3000000 /dev/zero; sleep 0.5"], str(tmp_path), os.environ, "", ())
    assert done.returncode == 0
    assert told[-1] is None
    assert {each.what for each in told if each is not None} == {"snapshot"}


def test_without_anybody_who_listens_it_ends_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gitcall, "PATIENCE", 0.01)
    done = run_git(["sh", "-c", "sleep 0.1; head -c 1000000 /dev/zero"], str(tmp_path), os.environ, "", ())
    assert len(done.stdout) == 1_000_000
