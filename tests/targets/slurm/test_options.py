from __future__ import annotations

import pytest

from tui_workbench.targets.slurm.options import job_words, resource_words, seconds_of


def test_keys_become_options_in_order() -> None:
    values = {
        "mem": "32G", "partition": "gpu", "account": "lab", "qos": "high", "time": "4:00:00", "nodes": 1, "gpus": 2,
        "cpus": 8, "constraint": "a100", "extra": ("--reservation=x", "--exclusive"),
    }  # fmt: skip
    assert resource_words(values) == (
        "--partition=gpu", "--account=lab", "--qos=high", "--time=4:00:00", "--nodes=1", "--gpus=2",
        "--cpus-per-task=8", "--mem=32G", "--constraint=a100", "--ntasks=1", "--reservation=x", "--exclusive",
    )  # fmt: skip


def test_job_on_several_nodes_has_a_task_on_each() -> None:
    assert resource_words({"nodes": 4}) == ("--nodes=4", "--ntasks-per-node=1")


def test_no_values_and_zero_give_no_options() -> None:
    assert resource_words({"gpus": 0, "partition": ""}) == ("--ntasks=1",)


def test_job_is_named_after_its_run_and_not_requeued() -> None:
    words = job_words({}, "exp_1", "/scratch/runs/exp_1")
    assert words == (
        "--parsable", "--job-name=wb-exp_1", "--no-requeue", "--open-mode=append",
        "--output=/scratch/runs/exp_1/slurm.log", "--export=NONE", "--chdir=/scratch/runs/exp_1",
        "--signal=TERM@120", "--ntasks=1",
    )  # fmt: skip


def test_requeue_option_lets_slurm_requeue() -> None:
    assert "--requeue" in job_words({"requeue": True}, "exp_1", "/runs/exp_1")


def test_percent_signs_in_a_path_are_escaped() -> None:
    words = job_words({}, "1", "/a%j/runs/1")
    assert "--output=/a%%j/runs/1/slurm.log" in words
    assert "--chdir=/a%j/runs/1" in words


@pytest.mark.parametrize(("limit", "expected"), [("4:59", False), ("2", False), ("5", True), ("1-0", True), ("", True)])
def test_short_time_limit_has_no_early_signal(limit: str, expected: bool) -> None:
    assert any(word.startswith("--signal") for word in job_words({"time": limit}, "1", "/r")) is expected


@pytest.mark.parametrize(
    ("limit", "minutes", "seconds"),
    [("0:06:00", 5, 300), ("", 5, 300), ("3", 1, 60), ("5", 5, 240), ("1", 1, 0), ("30-0", 10000, 65535)],
)
def test_signal_comes_before_the_time_limit_of_the_job(limit: str, minutes: int, seconds: int) -> None:
    """At the earliest in the second minute, and at most 65535 seconds before the limit, as sbatch demands."""
    words = job_words({"time": limit}, "1", "/r", minutes=minutes)
    signals = [word for word in words if word.startswith("--signal")]
    assert signals == ([f"--signal=TERM@{seconds}"] if seconds else [])


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("", 0), ("90", 5400), ("5:30", 330), ("1:02:03", 3723), ("2-0", 172800), ("1-2:30", 95400),
        ("1-2:30:15", 95415), ("UNLIMITED", 0),
    ],
)  # fmt: skip
def test_time_limits_are_parsed(text: str, seconds: int) -> None:
    assert seconds_of(text) == seconds
