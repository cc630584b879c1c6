from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.core.support import trace_file
from tui_workbench.core.git import GitError, run_git, without_fetching
from tui_workbench.core.trace_reading import TraceFile


def test_git_call_returns_its_output_and_is_traced() -> None:
    output = run_git("hash-object", "--stdin", environment=without_fetching(), input=b"hello\n")
    assert output == b"ce013625030ba8dba906f756967f9e9ca394464a\n"
    with pytest.raises(GitError, match="no-such-command"):
        run_git("no-such-command", environment=without_fetching())
    file = TraceFile(os.path.dirname(trace_file()))
    file.read_new()
    assert [call.code for call in file.calls] == [0, 1]


def test_error_is_the_fatal_line_of_git(tmp_path: Path) -> None:
    with pytest.raises(GitError, match="fatal: not a git repository"):
        run_git("status", environment=without_fetching(), folder=str(tmp_path))


def test_missing_git_is_reported_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(GitError, match="Install git"):
        run_git("status", environment=without_fetching())
