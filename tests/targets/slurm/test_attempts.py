"""The causes of the ends of a job's attempts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tui_workbench.core.causes import JOB_REQUEUED, JOB_START_FAILED, NODE_FAILED, Cause, exit_causes, text_of
from tui_workbench.targets.slurm.batch import NOT_STARTED, SETUP_FAILED
from tui_workbench.targets.slurm.ends import (
    cause_of,
    keep_outcome,
    outcome_here,
    outcome_with_code,
    outcome_without_code,
    was_interrupted,
)
from tui_workbench.targets.slurm.listing import Attempt, Listing
from tui_workbench.targets.values import Outcome

ATTEMPTS = {1: Attempt(0, "node1"), 2: Attempt(6, "node2")}
BEGAN = "workbench-tui: attempt 1 on node node1"
AGAIN = "workbench-tui: attempt 2 on node node2"


def ended(words: str) -> str:
    """Return a line of slurmstepd 22.05."""
    return f"slurmstepd-node1: error: *** JOB 46 ON node1 CANCELLED AT 2026-11-23T12:50:13 DUE TO {words} ***"


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        ("PREEMPTION", "a job with a higher priority took its nodes"),
        ("NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS", "a node of the job failed"),
        ("JOB REQUEUE", "the job was requeued"),
    ],
)
def test_slurm_log_names_the_cause_of_an_interruption(words: str, cause: str) -> None:
    assert text_of((cause_of(2, ATTEMPTS, [BEGAN, ended(words), AGAIN]),)) == cause


def test_attempt_without_exit_code_means_a_failed_node() -> None:
    assert cause_of(2, ATTEMPTS, [ended("PREEMPTION"), BEGAN, "loading", AGAIN, ended("JOB REQUEUE")]) == Cause(
        NODE_FAILED, {"node": "node1"}
    )


def test_attempt_with_exit_code_means_a_requeue() -> None:
    attempts = {**ATTEMPTS, 1: Attempt(0, "node1", 0)}
    assert cause_of(2, attempts, [BEGAN, AGAIN]) == Cause(JOB_REQUEUED)


def test_failed_node_of_another_task_is_named() -> None:
    attempts = {**ATTEMPTS, 1: Attempt(0, "node1", 1)}
    assert cause_of(2, attempts, [BEGAN, "srun: error: Node failure on node7", AGAIN]) == Cause(
        NODE_FAILED, {"node": "node7"}
    )


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("srun: error: Node failure on node7", "a node of the job failed (NODE_FAIL)"),
        (
            "srun: error: node[1-2]: tasks 0-1: Out Of Memory",
            "it used more memory than it requested: increase `slurm.mem` (OUT_OF_MEMORY)",
        ),
    ],
)
def test_exit_code_of_srun_is_not_that_of_the_script(line: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "slurm.log").write_text(f"{line}\n")
    outcome = outcome_with_code(1, "", str(tmp_path))
    assert (outcome.exit_code, outcome.reason, outcome.has_failed) == (None, reason, True)
    assert outcome_with_code(3, "", str(tmp_path)).exit_code == 3


@pytest.mark.parametrize(
    ("state", "line", "cause"),
    [
        ("TIMEOUT", "", "timeout"),
        ("OUT_OF_MEMORY", "", "oom"),
        ("NODE_FAIL", "", "lost"),
        ("PREEMPTED", "", "preempted"),
        ("", ended("PREEMPTION"), "preempted"),
        ("", ended("TIME LIMIT"), "timeout"),
        ("", ended("").replace("DUE TO  ", ""), ""),
        ("FAILED", ended("").replace("DUE TO  ", ""), ""),
        ("CANCELLED", "", ""),
        ("FAILED", "", None),
        ("", "", None),
    ],
)
def test_end_of_a_job_is_a_cause_of_retry(state: str, line: str, cause: str | None, tmp_path: Path) -> None:
    (tmp_path / "slurm.log").write_text(f"{line}\n")
    assert outcome_with_code(143, state, str(tmp_path)).retry == cause
    if not line:
        outcome = outcome_without_code(state, None, str(tmp_path), has_started=True)
        assert outcome.retry == cause
        keep_outcome(str(tmp_path), outcome)
        assert outcome_here(str(tmp_path)) == outcome


@pytest.mark.parametrize("code", [3, 137, 143])
def test_memory_limit_of_the_job_is_named(code: int, tmp_path: Path) -> None:
    (tmp_path / "slurm.log").write_text(
        "slurmstepd: error: StepId=35.0 exceeded memory limit (419651584 > 419430400), being killed\n"
        "slurmstepd: error: *** STEP 35.0 ON node1 CANCELLED AT 2026-11-23T12:50:13 ***\n"
    )
    outcome = outcome_with_code(code, "", str(tmp_path))
    assert outcome.reason == "it used more memory than the limit of the job, 400 MB: increase `slurm.mem`"
    assert outcome.retry == "oom"


def test_canceled_job_was_not_put_back_in_the_queue() -> None:
    assert not was_interrupted(ATTEMPTS, [AGAIN, ended("").replace("DUE TO  ", "")])


@pytest.mark.parametrize(
    "line",
    [
        "print: *** JOB 46 ON node1 CANCELLED AT 2026 ***",
        "slurmstepd: error: *** STEP 46.0 ON node1 CANCELLED AT 2026-11-23T12:50:13 ***",
        "slurmstepd: error: *** JOB 46 ON node1 CANCELLED AT 2026-11-23T12:50:13 DUE TO A NEW CAUSE ***",
    ],
)
def test_other_lines_do_not_change_the_reason(line: str, tmp_path: Path) -> None:
    (tmp_path / "slurm.log").write_text(f"{line}\n")
    assert outcome_with_code(3, "", str(tmp_path)) == Outcome(3, exit_causes(3))


def test_attempt_without_files_did_not_start() -> None:
    assert cause_of(2, {2: ATTEMPTS[2]}, [AGAIN]) == Cause(JOB_START_FAILED)


def test_only_last_attempt_decides_about_interruption() -> None:
    lines = [BEGAN, ended("PREEMPTION"), AGAIN]
    assert not was_interrupted(ATTEMPTS, lines)
    assert was_interrupted(ATTEMPTS, [*lines, ended("JOB REQUEUE")])
    assert not was_interrupted({}, [ended("JOB REQUEUE")])


@pytest.mark.parametrize("line", [NOT_STARTED, f"{SETUP_FAILED} with exit code 3: false"])
def test_failure_of_an_earlier_attempt_is_not_the_reason(line: str, tmp_path: Path) -> None:
    (tmp_path / "slurm.log").write_text(f"{BEGAN}\n{line}\n{AGAIN}\n")
    outcome = outcome_with_code(3, "", str(tmp_path))
    assert (outcome.exit_code, outcome.reason) == (3, "exit code 3")


def test_attempts_are_part_of_the_listing() -> None:
    files = Listing().feed(
        b"= p_1 46 - none\n+ 1 0 node1 143\n+ 2 6 node2 none\n+ x 1 2 3\n 9 runs/p_1/output.log\n.\n"
    )
    assert files is not None
    assert files["p_1"].attempts == {1: Attempt(0, "node1", 143), 2: Attempt(6, "node2")}
    assert files["p_1"].sizes == {"output.log": 9}
