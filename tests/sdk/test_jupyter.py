"""A run that starts Jupyter ends when nobody connects to it, and serves only one client."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import wait_until
from tui_workbench.targets.base.run_environment import JUPYTER_LAUNCHER
from tui_workbench.targets.hosts.serving import IN_RUN
from tui_workbench.targets.values import SDK_FOLDER

_spec = importlib.util.spec_from_file_location("jupyter_under_test", os.path.join(SDK_FOLDER, JUPYTER_LAUNCHER))
assert _spec is not None
assert _spec.loader is not None
launcher = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(launcher)


def test_run_ends_if_no_client_connects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(launcher, "WAIT_SECONDS", 0.01)
    assert launcher.serve(str(tmp_path)) == 1
    assert "No client has connected to this run" in capsys.readouterr().err


def start(folder: Path) -> subprocess.Popen[bytes]:
    """Start the script of a run, with a folder for its socket, and wait until it listens."""
    words = [sys.executable, os.path.join(SDK_FOLDER, JUPYTER_LAUNCHER), str(folder)]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, env={**os.environ, "OF_THE_RUN": "yes"})
    wait_until(lambda: (folder / "jupyter").exists())
    return process


def test_program_gets_the_environment_of_the_run_and_the_streams_of_the_client(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 120)  # longer than the path of a socket may be
    folder.mkdir()
    program = "import os, sys; print(os.environ['OF_THE_RUN'], sys.stdin.read()); sys.exit(int(sys.argv[1]))"
    with start(folder) as script:
        words = [sys.executable, "-c", IN_RUN, str(folder), "-c", program, "7"]
        done = subprocess.run(words, input=b"token", capture_output=True, check=True)
        assert done.stdout == b"yes token\n"
        assert script.wait() == 7
    again = subprocess.run(words, capture_output=True, check=False)
    assert (again.returncode, again.stdout) == (1, b"taken\n")


def test_client_without_streams_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with start(tmp_path) as script, socket.socket(socket.AF_UNIX) as client:
        monkeypatch.chdir(tmp_path)
        client.connect("jupyter")
        client.sendall(b"[]\n")
        assert b"0 streams instead of 3" in script.communicate()[1]
