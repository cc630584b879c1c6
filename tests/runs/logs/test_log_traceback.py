"""The last traceback of a log gives exception and location."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.runs.logs.test_log_file import on_log
from tui_workbench.runs.logs.log_search import Search
from tui_workbench.runs.logs.log_traceback import HEADER, Frame, Traceback, read_syntax_error, read_traceback


def run(script: Path, text: str) -> bytes:
    """Return the output of a real interpreter."""
    script.write_text(text)
    ended = subprocess.run([sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return ended.stdout


def last_traceback(path: Path, data: bytes) -> Traceback | None:
    with on_log(path, data) as log:
        offset = next((it for it in Search(log, HEADER).backward(log.size) if it is not None), None)
        return read_traceback(log, offset) if offset is not None else read_syntax_error(log)


def test_names_the_exception_and_the_line(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    data = run(script, "def forward():\n    raise ValueError('bad\\nshapes')\nforward()\n")
    found = last_traceback(tmp_path / "log", b"epoch 1\n" + data)
    assert found == Traceback(8, "ValueError: bad", Frame(str(script), 2, "forward"))


def test_prefers_the_project_frame_to_library_frames(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    found = last_traceback(tmp_path / "log", run(script, "import json\n\njson.loads('{')\n"))
    assert found is not None
    assert found.exception.startswith("json.decoder.JSONDecodeError: ")
    assert found.frame == Frame(str(script), 3, "<module>")


def test_last_exception_of_a_chain_counts(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    text = "try:\n    1 / 0\nexcept ZeroDivisionError:\n    raise KeyError('lr')\n"
    found = last_traceback(tmp_path / "log", run(script, text))
    assert found is not None
    assert (found.exception, found.frame) == ("KeyError: 'lr'", Frame(str(script), 4, "<module>"))


def test_exception_groups_are_parsed(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    found = last_traceback(tmp_path / "log", run(script, "raise ExceptionGroup('both', [ValueError('a')])\n"))
    assert found is not None
    assert found.exception.startswith(("ExceptionGroup: both", "ValueError: a"))


def test_syntax_errors_are_parsed(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    data = run(script, "x = 1\ny = = 2\n")
    found = last_traceback(tmp_path / "log", b"start\n" + data)
    assert found == Traceback(6, "SyntaxError: invalid syntax", Frame(str(script), 2))


def test_prefixed_and_interleaved_lines_are_parsed(tmp_path: Path) -> None:
    data = (
        b"[rank1]: Traceback (most recent call last):\n"
        b'[rank1]:   File "/p/train.py", line 7, in <module>\n'
        b"[rank0]: epoch 3\n"
        b"[rank1]:     step()\n"
        b"[rank1]: \x1b[1mRuntimeError\x1b[0m: CUDA out of memory\n"
    )
    found = last_traceback(tmp_path / "log", data)
    assert found == Traceback(0, "RuntimeError: CUDA out of memory", Frame("/p/train.py", 7, "<module>"))


@pytest.mark.parametrize("data", [b"", b"all went well\n", b'  File "x.py", line 3\n', b"Error: no\nSyntaxError: no\n"])
def test_other_text_is_not_a_traceback(tmp_path: Path, data: bytes) -> None:
    assert last_traceback(tmp_path / "log", data) is None


def test_incomplete_traceback_has_no_exception(tmp_path: Path) -> None:
    data = b'Traceback (most recent call last):\n  File "/p/train.py", line 7, in <module>\n    step()'
    assert last_traceback(tmp_path / "log", data) == Traceback(0, "", Frame("/p/train.py", 7, "<module>"))


def test_backward_search_can_be_stopped(tmp_path: Path) -> None:
    data = b"Traceback (most recent call last):\n" + b"x\n" * 10
    with on_log(tmp_path / "log", data) as log:
        assert list(Search(log, HEADER).backward(log.size, limit=35)) == [None]
        assert list(Search(log, HEADER).backward(log.size, limit=0)) == [0]
