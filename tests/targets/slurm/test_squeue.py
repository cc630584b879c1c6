from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tui_workbench.targets.slurm.squeue import Account, Job, parse, parse_accounting

ANSWER = """\
2026-11-23T12:48:43
5|PENDING|Resources|0:00|1:00:00|2026-11-23T13:48:43|N/A||wb-exp_1
2|RUNNING|None|0:01|59:59|2026-11-23T12:48:43|2026-11-23T13:48:43|node1|wb-exp_2
9|COMPLETED|None|0:01|59:59|2026-11-23T12:48:43|2026-11-23T12:48:44|node[1-2]|my|own|job
"""


def test_jobs_are_found_by_id() -> None:
    queue = parse(ANSWER)
    assert queue.now == "2026-11-23T12:48:43"
    assert queue.jobs["5"] == Job("5", "PENDING", "Resources", "1:00:00", "2026-11-23T13:48:43", "", "wb-exp_1", "N/A")
    assert (queue.jobs["2"].run_id, queue.jobs["2"].nodes) == ("exp_2", "node1")


def test_names_of_other_jobs_are_parsed() -> None:
    job = parse(ANSWER).jobs["9"]
    assert (job.name, job.run_id) == ("my|own|job", "")


def test_lines_that_are_not_jobs_are_ignored() -> None:
    assert parse("now\nwelcome to the cluster\nslurm: warning | x\n3_[2-4]|a|b|c|d|e|f|g\n").jobs == {}


@given(st.text())
def test_any_answer_can_be_parsed(text: str) -> None:
    parse(text)
    parse_accounting(text)


def test_accounting_gives_state_and_exit_code() -> None:
    assert parse_accounting("FAILED|3:0") == Account("FAILED", 3)
    assert parse_accounting("CANCELLED by 0|0:15") == Account("CANCELLED")
    assert parse_accounting("PREEMPTED|0:0\nCOMPLETED|0:0\n") == Account("COMPLETED", 0)


def test_unknown_job_has_no_accounting() -> None:
    assert parse_accounting("") == Account()
    assert parse_accounting("sacct: error") == Account()
