from __future__ import annotations

import pytest

from tui_workbench.core.causes import text_of
from tui_workbench.targets.slurm.states import ACTIVE, ENDED, WAITING, base_state, cause_of_end, describe_waiting
from tui_workbench.targets.slurm.submission import remedy_of


@pytest.mark.parametrize(
    ("text", "state"),
    [("CANCELLED by 1000", "CANCELLED"), ("CANCELLED+", "CANCELLED"), ("RUNNING", "RUNNING"), (" TIMEOUT ", "TIMEOUT")],
)
def test_suffixes_are_not_part_of_a_state(text: str, state: str) -> None:
    assert base_state(text) == state


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("TIMEOUT", "time limit"), ("OUT_OF_MEMORY", "more memory"), ("NODE_FAIL", "node"), ("PREEMPTED", "priority"),
        ("DEADLINE", "deadline"), ("CANCELLED", "canceled in Slurm"), ("BOOT_FAIL", "did not boot"),
    ],
)  # fmt: skip
def test_cause_is_followed_by_the_state(state: str, words: str) -> None:
    text = text_of(cause_of_end(state))
    assert words in text
    assert text.endswith(f"({state})")


@pytest.mark.parametrize("state", ["COMPLETED", "FAILED", "RUNNING", "NEW_STATE", ""])
def test_script_that_ended_by_itself_has_no_cause(state: str) -> None:
    assert cause_of_end(state) == ()


def test_completing_and_unknown_states_are_not_ends() -> None:
    assert not {"COMPLETING", "RUNNING", "PENDING", "REQUEUE_HOLD", "SPECIAL_EXIT", "REVOKED", "NEW_STATE"} & ENDED
    assert not ENDED & ACTIVE
    assert not ENDED & WAITING


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        ("Priority", "jobs with a higher priority come first (Priority)"),
        ("Resources", "no node is free yet (Resources)"),
        ("(Dependency)", "it waits for another job (Dependency)"),
        ("ReqNodeNotAvail, UnavailableNodes:n[1-9]", "a node that it requests is not available (ReqNodeNotAvail)"),
        ("QOSMaxJobsPerUserLimit", "its QOS has reached its limit of jobs per user (QOSMaxJobsPerUserLimit)"),
        ("AssocGrpGRES", "its account has reached its limit of gres (AssocGrpGRES)"),
        ("AssocMaxCpuPerJobLimit", "its account has reached its limit of cpu per job (AssocMaxCpuPerJobLimit)"),
        ("SomethingNew", "SomethingNew"),
        (
            "job requeued in held state",
            "it was requeued and is held; `scontrol release` lets it start (job requeued in held state)",
        ),
        ("None", ""),
        ("", ""),
    ],
)
def test_waiting_is_described_with_the_code(reason: str, text: str) -> None:
    assert describe_waiting("PENDING", reason) == text


def test_requeued_job_without_a_reason_shows_its_state() -> None:
    assert describe_waiting("REQUEUE_HOLD", "None") == "REQUEUE_HOLD"


@pytest.mark.parametrize(
    ("code", "key"),
    [("PartitionTimeLimit", "time"), ("PartitionNodeLimit", "nodes"), ("AccountNotAllowed", "account")],
)
def test_job_that_never_starts_names_the_key(code: str, key: str) -> None:
    text = describe_waiting("PENDING", code)
    assert "it never starts: cancel the run, and set" in text
    assert f"`slurm.{key}`" in text


def test_wall_time_of_a_qos_is_corrected_by_the_time() -> None:
    said = "QOSMaxWallDurationPerJobLimit; Job violates accounting/QOS policy (job submit limit)"
    assert remedy_of(said).startswith("Set `slurm.time` to ")
