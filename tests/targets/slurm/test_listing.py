from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.targets.hosts.copying import Part, append, fetch, missing_parts
from tui_workbench.targets.hosts.host import LocalHost
from tui_workbench.targets.slurm.cluster import LoginHost
from tui_workbench.targets.slurm.ends import keep_outcome, outcome_here, outcome_with_code, outcome_without_code
from tui_workbench.targets.slurm.listing import MOST_LINE, Files, Listing, list_once
from tui_workbench.targets.slurm.trying import in_words
from tui_workbench.targets.values import Times

LISTING = b"""\
= exp_1 12 - none
= exp_2 13 143 2
  5 runs/exp_1/output.log
 70 runs/exp_2/output.log
  9 runs/exp_2/slurm.log
 84 total
.
"""


def test_listing_in_parts_is_read_when_complete() -> None:
    listing = Listing()
    assert listing.feed(LISTING[:40]) is None
    assert listing.feed(LISTING[40:]) == {
        "exp_1": Files("12", None, True, {"output.log": 5}),
        "exp_2": Files("13", 143, True, {"output.log": 70, "slurm.log": 9}, attempt=2),
    }


def test_newest_of_several_listings_counts() -> None:
    assert Listing().feed(LISTING + b".\n") == {}


def test_files_that_are_not_copied_are_ignored() -> None:
    found = Listing().feed(b"= exp_1 12 - none\n 5 runs/exp_1/../../etc/passwd\n 6 runs/other/output.log\n.\n")
    assert found == {"exp_1": Files("12", None, True, {})}


def test_endless_line_is_refused() -> None:
    with pytest.raises(ValueError, match="a line is too long"):
        Listing().feed(b"x" * (MOST_LINE + 1))


@given(st.binary())
def test_any_output_can_be_read(data: bytes) -> None:
    Listing().feed(data)


def host_of(folder: Path) -> tuple[LoginHost, Path]:
    run = folder / "root" / "runs" / "exp_1"
    run.mkdir(parents=True)
    return LoginHost(LocalHost(), str(folder / "root")), run


def listed(host: LoginHost) -> Files:
    """Return the files of a run without their times."""
    return list_once(host, ["exp_1"])["exp_1"]._replace(started=Times())


def test_files_of_a_run_are_listed_on_request(tmp_path: Path) -> None:
    host, run = host_of(tmp_path)
    assert listed(host) == Files("", None, False, {})
    (run / "pid").write_text("12\n")
    (run / "exit").write_text("    \n")
    assert listed(host) == Files("12", None, True, {})
    (run / "exit").write_text("0   \n")
    (run / "output.log").write_text("hello")
    assert listed(host) == Files("12", 0, True, {"output.log": 5})


def test_copying_continues_at_the_end_of_the_copy(tmp_path: Path) -> None:
    host, run = host_of(tmp_path)
    (run / "output.log").write_text("hello world")
    here = tmp_path / "here"
    here.mkdir()
    (here / "output.log").write_text("hello")
    (part,) = missing_parts("exp_1", str(here), {"output.log": 11})
    found = fetch(host, [part])
    for _ in range(2):
        append(part, found[part])
    assert (here / "output.log").read_text() == "hello world"


def test_shrunk_file_does_not_delay_others(tmp_path: Path) -> None:
    host, run = host_of(tmp_path)
    (run / "output.log").write_text("abc")
    parts = [Part("exp_1", "", "output.log", 0, 3), Part("exp_1", "", "slurm.log", 0, 9)]
    assert fetch(host, parts) == {parts[0]: b"abc"}


def test_link_is_not_read(tmp_path: Path) -> None:
    host, run = host_of(tmp_path)
    (tmp_path / "secret").write_text("secret")
    (run / "output.log").symlink_to(tmp_path / "secret")
    assert fetch(host, [Part("exp_1", "", "output.log", 0, 6)]) == {}


def test_signal_is_explained_by_slurm(tmp_path: Path) -> None:
    outcome = outcome_with_code(143, "TIMEOUT", str(tmp_path))
    assert outcome.exit_code == 143
    assert outcome.reason == "it reached its time limit (TIMEOUT); killed by signal 15 (SIGTERM)"
    assert outcome_with_code(0, "TIMEOUT", str(tmp_path)).reason == ""


def test_failed_setup_is_the_reason(tmp_path: Path) -> None:
    (tmp_path / "slurm.log").write_text("x\nworkbench-tui: setup failed with exit code 1: module load cuda\nsrun: y\n")
    reason = outcome_with_code(1, "", str(tmp_path)).reason
    assert reason == "setup failed with exit code 1: module load cuda"


@pytest.mark.parametrize(
    ("state", "code", "started", "words", "has_failed"),
    [
        ("NODE_FAIL", None, True, "a node of the job failed (NODE_FAIL)", True),
        ("CANCELLED", None, False, "its script did not start", True),
        ("COMPLETED", None, True, "its exit code was not written", False),
        ("", None, True, "Slurm no longer knows the job", False),
    ],
)
def test_missing_exit_code_has_a_reason(
    tmp_path: Path, state: str, code: int | None, started: bool, words: str, has_failed: bool
) -> None:
    outcome = outcome_without_code(state, code, str(tmp_path), has_started=started)
    assert outcome.exit_code is None
    assert words in outcome.reason
    assert outcome.has_failed is has_failed


def test_exit_code_comes_from_accounting(tmp_path: Path) -> None:
    assert outcome_without_code("FAILED", 3, str(tmp_path), has_started=True).exit_code == 3


def test_first_outcome_is_kept(tmp_path: Path) -> None:
    first = outcome_with_code(143, "TIMEOUT", str(tmp_path))
    keep_outcome(str(tmp_path), first)
    keep_outcome(str(tmp_path), outcome_with_code(0, "", str(tmp_path)))
    assert outcome_here(str(tmp_path)) == first


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "at once"), (59, "at once"), (300, "in 5 min"), (10800, "in 3 h"), (200000, "in 2 days")],
)
def test_times_from_now_are_formatted(seconds: float, text: str) -> None:
    assert in_words(seconds) == text


def test_unreadable_run_root_raises_an_error(tmp_path: Path) -> None:
    host = LoginHost(LocalHost(), str(tmp_path / "unmounted"))
    with pytest.raises(WorkbenchError, match="cannot read runRoot"):
        list_once(host, ["exp_1"])


def test_log_that_is_not_a_file_is_not_opened(tmp_path: Path) -> None:
    host, run = host_of(tmp_path)
    os.mkfifo(run / "output.log")
    (tmp_path / "other").write_text("other")
    (run / "slurm.log").symlink_to(tmp_path / "other")
    assert list_once(host, ["exp_1"])["exp_1"].sizes == {}
