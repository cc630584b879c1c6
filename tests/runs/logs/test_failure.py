"""The reason of a failed run names the exception that ended its script."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runs.gated_project import GatedProject
from tests.runs.support import write_configuration, write_files
from tui_workbench.core.causes import exit_causes, plain
from tui_workbench.core.model import Run, RunRequest, RunState
from tui_workbench.runs.logs.log_traceback import MOST_CHARACTERS, TAIL_BYTES, with_cause
from tui_workbench.runs.store.rundir import Ending

FAILED = Ending(RunState.FAILED, exit_causes(1), 1, 5.0)
TRACEBACK = (
    b'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    f()\nValueError: bad shape\n'
)


def run(shop: GatedProject, script: str) -> Run:
    write_files(shop.root, {"fails.py": script})
    return shop.ended(shop.runs.submit(RunRequest("local", "fails.py")))


def reason(folder: Path, log: bytes, ending: Ending = FAILED) -> str:
    path = folder / "output.log"
    path.write_bytes(log)
    return with_cause(str(path), ending).reason


@pytest.mark.slow
@pytest.mark.parametrize("tracked", [False, True])
def test_uncaught_exception_is_the_reason(shop: GatedProject, tracked: bool) -> None:
    write_configuration(shop.root, TrackedRun=tracked)
    ended = run(shop, "print('begins')\ndef f():\n    raise ValueError('bad shape')\nf()\n")
    assert (ended.state, ended.exit_code, ended.reason) == ("failed", 1, "ValueError: bad shape (exit code 1)")


def test_syntax_error_is_the_reason(shop: GatedProject) -> None:
    assert run(shop, "print('a'\n").reason == "SyntaxError: '(' was never closed (exit code 1)"


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("import sys; sys.exit(3)", "exit code 3"),
        ("import sys; sys.exit('no data')", "exit code 1"),
        ("import os; os.kill(os.getpid(), 15)", "killed by signal 15 (SIGTERM)"),
        (
            "import traceback, sys\ntry:\n    1 / 0\nexcept ZeroDivisionError:\n    traceback.print_exc()\nsys.exit(4)",
            "exit code 4",
        ),
    ],
    ids=["code", "message", "signal", "handled"],
)
def test_other_failures_keep_their_exit_code(shop: GatedProject, script: str, told: str) -> None:
    assert run(shop, script).reason == told


@pytest.mark.parametrize(
    ("second", "told"),
    [
        ("raise ValueError('second')", "attempt 2: ValueError: second (exit code 1)"),
        ("raise SystemExit(1)", "attempt 2: exit code 1"),
    ],
    ids=["exception", "code"],
)
def test_reason_names_the_exception_of_the_last_attempt(shop: GatedProject, second: str, told: str) -> None:
    write_configuration(shop.root, Retry={"delay": 0})
    script = f"import os\nif os.environ['WORKBENCH_ATTEMPT'] == '1':\n    raise KeyError('first')\n{second}\n"
    assert run(shop, script).reason == told


def test_syntax_error_of_an_earlier_attempt_is_not_the_reason(tmp_path: Path) -> None:
    log = b"  File \"train.py\", line 1\n    print(\n         ^\nSyntaxError: '(' was never closed\n"
    path = tmp_path / "output.log"
    path.write_bytes(log)
    assert with_cause(str(path), FAILED).reason.startswith("SyntaxError")
    assert with_cause(str(path), FAILED, len(log)) == FAILED


def test_secret_of_the_run_is_not_in_the_reason(shop: GatedProject) -> None:
    write_configuration(shop.root, EnvironmentVariables={"HF_TOKEN": "hf_hunter2"})
    script = "import os\nraise ValueError('wrong: ' + os.environ['HF_TOKEN'] + ' of postgres://u:p4ss@h/d')\n"
    assert run(shop, script).reason == "ValueError: wrong: *** of postgres://u:***@h/d (exit code 1)"


def test_reason_is_short_and_without_control_characters(tmp_path: Path) -> None:
    hostile = TRACEBACK.replace(b"bad shape", b"\x1b]0;title\x07\xe2\x80\xae\xff" + b"x" * 5000)
    found = reason(tmp_path, hostile)
    assert found.isprintable()
    assert len(found) <= MOST_CHARACTERS + len(" (exit code 1)")


def test_output_after_the_traceback_does_not_hide_it(tmp_path: Path) -> None:
    assert reason(tmp_path, b"epoch 1\n" + TRACEBACK + b"synced 3 files\n") == "ValueError: bad shape (exit code 1)"


def test_notes_of_the_target_stay(tmp_path: Path) -> None:
    ending = FAILED._replace(causes=(*exit_causes(1), *plain("the disk of box is full")))
    assert reason(tmp_path, TRACEBACK, ending) == "ValueError: bad shape (exit code 1); the disk of box is full"


def test_traceback_far_from_the_end_is_not_the_reason(tmp_path: Path) -> None:
    assert reason(tmp_path, TRACEBACK + b"goes on\n" * TAIL_BYTES) == "exit code 1"


def test_log_that_is_missing_or_empty_changes_nothing(tmp_path: Path) -> None:
    assert reason(tmp_path, b"") == "exit code 1"
    assert with_cause(str(tmp_path / "none"), FAILED) == FAILED
