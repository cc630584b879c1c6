"""The facts of a run, from the output of squeue about its job."""

from __future__ import annotations

from tui_workbench.core.model import ClusterJob
from tui_workbench.targets.slurm.options import warning_of
from tui_workbench.targets.slurm.squeue import Job, Queue, facts_of, is_news, parse, parse_positions

QUEUE = Queue("2026-11-23T10:00:00", {}, {"17": 3})
NOW = 1_000_000.0


def test_estimates_use_the_local_clock() -> None:
    job = Job("17", "PENDING", "Priority", start="2026-11-23T10:05:00")
    assert facts_of(job, QUEUE, 120, NOW) == ClusterJob("17", position=3, start=NOW + 300)


def test_held_job_has_no_position() -> None:
    assert facts_of(Job("17", "PENDING", "JobHeldUser", start="N/A"), QUEUE, 120, NOW) == ClusterJob("17")


def test_running_job_has_nodes_and_end() -> None:
    job = Job("17", "RUNNING", "None", "1:00:00", "2026-11-23T09:00:00", "node[1-2]")
    expected = ClusterJob("17", nodes="node[1-2]", end=NOW + 3600, warning=NOW + 3480)
    assert facts_of(job, QUEUE, 120, NOW) == expected
    assert facts_of(job, QUEUE, 0, NOW).warning == 0.0
    assert facts_of(job._replace(time_left="UNLIMITED"), QUEUE, 120, NOW).end == 0.0


def test_small_change_of_an_estimate_is_not_reported() -> None:
    facts = ClusterJob("17", position=3, start=NOW)
    assert not is_news(facts._replace(start=NOW + 59), facts)
    assert is_news(facts._replace(start=NOW + 60), facts)
    assert is_news(facts._replace(start=0.0), facts)
    assert is_news(facts._replace(position=2), facts)


def test_best_position_counts() -> None:
    assert parse_positions("17 9\n17 3\n18 1\nslurm: warning\n") == {"17": 3, "18": 1}


def test_fields_of_squeue_are_bounded_and_safe() -> None:
    job = parse(f"now\n17|PENDING|{'x' * 999}|0:00|0:00|N/A|N/A|a\x1bb|wb-run\n").jobs["17"]
    assert (len(job.reason), job.nodes) == (200, "a?b")


def test_script_is_warned_unless_its_limit_is_short() -> None:
    assert warning_of({"time": "1:00:00"}) == 120
    assert warning_of({"time": "2"}) == 0
    assert warning_of({"time": "1:00:00"}, 5) == 300
    assert warning_of({"time": "1:00:00", "extra": ["--time=2"]}) == 0
