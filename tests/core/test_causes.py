"""The words of causes, and causes that are read from files."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from tui_workbench.core import causes
from tui_workbench.core.causes import Cause, Causes, Fact, exit_causes, plain, read_causes, stored, text_of

BOX = {"host": "box"}
APPLICATION = {"application": "application_1_0001"}
STARVED = "killed: out of memory on box; use smaller batches or fewer workers"

SENTENCES: list[tuple[str, Mapping[str, Fact], str]] = [
    (causes.TEXT, {"text": "a text"}, "a text"),
    (causes.EXIT_CODE, {"code": 3}, "exit code 3"),
    (causes.SIGNAL, {"signal": 15}, "killed by signal 15 (SIGTERM)"),
    (causes.SIGNAL, {"signal": 9}, "killed by signal 9 (SIGKILL): the machine may have run out of memory"),
    (causes.EXIT_UNKNOWN, {}, "the exit code is unknown: the supervising shell was killed"),
    (causes.EXCEPTION, {"error": "ValueError: bad shape"}, "ValueError: bad shape"),
    (causes.OUT_OF_MEMORY, BOX, STARVED),
    (causes.CHILD_OUT_OF_MEMORY, BOX, f"one of its processes was {STARVED}"),
    (
        causes.DISK_FULL,
        {**BOX, "command": "`workbench-tui experiment clean -t box`"},
        "the disk of box is full, or your quota is used up: `workbench-tui experiment clean -t box` removes files of "
        "old runs",
    ),
    (
        causes.MISSING_FILE,
        {"advice": "outputs/ of the project is never copied for runs; keep input files in another folder"},
        "outputs/ of the project is never copied for runs; keep input files in another folder",
    ),
    (causes.LEFT_RUNNING, {"count": 1}, "the workbench ended 1 background process that the script left running"),
    (
        causes.LEFT_RUNNING,
        {"count": 2, "names": "sh, sleep"},
        "the workbench ended 2 background processes that the script left running: sh, sleep",
    ),
    (causes.NOT_STARTED, {"error": "script not found"}, "script not found"),
    (causes.MACHINE_RESTARTED, {}, "the machine was restarted during the run"),
    (causes.MACHINE_RESTARTED, BOX, "box was restarted during the run; submit the run again"),
    (
        causes.ORPHANED,
        {},
        "the supervising shell was killed: the script continues, but its exit code will be unknown",
    ),
    (causes.RANK, {"rank": 3, "code": 5}, "rank 3: exit code 5"),
    (
        causes.RANK,
        {"rank": 3, "node": "b", "code": 1, "error": "ValueError: bad", "file": "train.py", "line": 4},
        "rank 3 on b: ValueError: bad (train.py:4)",
    ),
    (causes.RANK_SIGNAL, {"rank": 3, "code": -11, "signal": 11}, "rank 3 was killed by signal 11 (SIGSEGV)"),
    (causes.RANK_OUT_OF_MEMORY, {"rank": 3, "code": -9, **BOX}, f"rank 3 was {STARVED}"),
    (causes.TORCHRUN, {"error": "DistNetworkError: EADDRINUSE"}, "torchrun: DistNetworkError: EADDRINUSE"),
    (causes.TORCHRUN_SIGNAL, {"signal": 15}, "torchrun was killed by signal 15 (SIGTERM)"),
    (causes.TORCHRUN_NO_GPU, {}, "ProcessesPerNode is gpus, but PyTorch sees no GPU"),
    (causes.TORCHRUN_NO_TORCH, {}, "the Python of the run has no PyTorch; install torch in it"),
    (causes.TORCHRUN_OLD, {}, "the PyTorch of the run is older than 1.9, the first version with torchrun"),
    (
        causes.TORCHRUN_NO_CONNECTION,
        {},
        "torchrun on a node cannot connect to the first node; the nodes must accept TCP connections from each other",
    ),
    (causes.TORCHRUN_NOT_ON_ALL, {}, "torchrun has not started on all nodes"),
    (causes.SPARK_STAGE, {"error": "ValueError: bad row"}, "ValueError: bad row"),
    (
        causes.SPARK_PACKAGES,
        {"packages": "a:b:1"},
        "Spark cannot download a:b:1: check names, repositories and network",
    ),
    (
        causes.SPARK_JAVA,
        {},
        "the Java of the run does not work with this Spark: set JAVA_HOME to Java 17 for Spark 3.3 or newer, or to "
        "Java 8 for older versions",
    ),
    (
        causes.SPARK_NO_HADOOP,
        {},
        "HADOOP_CONF_DIR is not set: set it in EnvironmentVariables to the folder of YARN's configuration",
    ),
    (
        causes.SPARK_MASTER_INVALID,
        {"master": "sparky://x"},
        "invalid Spark master 'sparky://x': correct `spark.master`",
    ),
    (
        causes.SPARK_MASTER_SILENT,
        {},
        "the Spark master does not answer: check `spark.master`, and that the cluster is running",
    ),
    (causes.APPLICATION_FAILED, APPLICATION, "application_1_0001 failed"),
    (causes.APPLICATION_FAILED, {**APPLICATION, "error": "status 0"}, "application_1_0001 failed: status 0"),
    (causes.APPLICATION_KILLED, APPLICATION, "application_1_0001 was killed"),
    (causes.APPLICATION_UNKNOWN, APPLICATION, "YARN does not know how application_1_0001 ended"),
    (causes.NO_APPLICATION, {"killed": True}, "spark-submit was killed, but YARN knows no application of the run"),
    (
        causes.NO_APPLICATION,
        {"killed": False},
        "spark-submit ended without an error, but YARN knows no application of the run",
    ),
    (
        causes.ENGINE_RESTARTED,
        BOX,
        "the Docker engine on box was restarted, which ended the run; submit the run again",
    ),
    (causes.CONTAINER_REMOVED, BOX, "its container on box was removed by another program"),
    (causes.CONTAINER_KILLED, BOX, "its container on box was killed, by another program or for lack of memory"),
    (causes.CONTAINER_ENDED, {}, "its container ended without a recorded exit code"),
    (causes.CONTAINER_ENDED, {"error": "OCI"}, "its container ended without a recorded exit code: OCI"),
    (causes.JOB_TIME_LIMIT, {"state": "TIMEOUT"}, "it reached its time limit (TIMEOUT)"),
    (
        causes.JOB_NEAR_LIMIT,
        {},
        "Slurm sent SIGTERM because the job was close to its time limit: increase `time`, or save checkpoints",
    ),
    (causes.JOB_DEADLINE, {"state": "DEADLINE"}, "it could not end before its deadline (DEADLINE)"),
    (
        causes.JOB_OUT_OF_MEMORY,
        {"state": "OUT_OF_MEMORY"},
        "it used more memory than it requested: increase `slurm.mem` (OUT_OF_MEMORY)",
    ),
    (
        causes.JOB_MEMORY_LIMIT,
        {"limit": "400 MB"},
        "it used more memory than the limit of the job, 400 MB: increase `slurm.mem`",
    ),
    (causes.JOB_NODE_FAILED, {"state": "NODE_FAIL"}, "a node of the job failed (NODE_FAIL)"),
    (causes.JOB_NODE_FAILED, {}, "a node of the job failed"),
    (causes.JOB_NODE_NOT_BOOTED, {"state": "BOOT_FAIL"}, "its node did not boot (BOOT_FAIL)"),
    (causes.JOB_PREEMPTED, {"state": "PREEMPTED"}, "a job with a higher priority took its nodes (PREEMPTED)"),
    (causes.JOB_CANCELED, {"state": "CANCELLED"}, "it was canceled in Slurm (CANCELLED)"),
    (causes.JOB_CANCELED_EARLY, {}, "it was canceled before its script started"),
    (causes.JOB_REVOKED, {"state": "REVOKED"}, "another cluster of the federation ran it (REVOKED)"),
    (causes.JOB_REQUEUED, {}, "the job was requeued"),
    (causes.JOB_NOT_REQUEUED, {}, "with `requeue: true` below `slurm`, Slurm would start it again"),
    (causes.JOB_START_FAILED, {}, "the previous start failed"),
    (causes.JOB_ENDED, {"state": "FAILED"}, "the job ended in the state FAILED"),
    (causes.JOB_FORGOTTEN, {}, "Slurm no longer knows the job"),
    (
        causes.JOB_NOT_SAVED,
        {},
        "Slurm no longer knows the job: slurmctld may have failed before it saved the job",
    ),
    (causes.JOB_NOT_STARTED, {}, "Slurm did not start the script"),
    (causes.JOB_NOT_STARTED, {"error": "srun: error: x"}, "Slurm did not start the script; srun: error: x"),
    (causes.JOB_SETUP, {"error": "no GPU"}, "no GPU"),
    (causes.JOB_LOG, {"error": "no such file"}, "slurm.log: no such file"),
    (
        causes.JOB_NO_LOG,
        {},
        "the compute node wrote no slurm.log, so it may not share `runRoot`: `workbench-tui computetarget check NAME "
        "--job` checks this",
    ),
    (causes.EXIT_NOT_WRITTEN, {}, "its exit code was not written"),
    (causes.SCRIPT_NOT_STARTED, {}, "its script did not start"),
    (causes.NODE_FAILED, {"node": "node1"}, "node node1 failed"),
    (causes.MEMBER, {"name": "a"}, "member a"),
    (
        causes.MEMBER_LOST,
        {"minutes": "5", "error": "a: no route"},
        "unreachable for 5 min; its processes may still be running there; the last error was: a: no route",
    ),
    (causes.TIME_LIMIT, {"minutes": 30}, "MaxDurationMinutes: ended after 30 min"),
    (
        causes.TIME_LIMIT_WARNED,
        {"before": 10, "minutes": 30},
        "MaxDurationMinutes: sent SIGTERM 10 min before its limit of 30 min",
    ),
    (causes.IDLE, {"minutes": 2}, "StopIfIdleMinutes: none of its processes has computed on a GPU for 2 min"),
    (causes.STALLED, {"minutes": 2}, "StopIfStalledMinutes: no step, log line or file for 2 min"),
    (causes.GPU_MISSING, {}, "RequireGpu: no NVIDIA or AMD GPU is available"),
    (causes.GPU_UNUSED, {"minutes": 10}, "RequireGpu: none of its processes has used a GPU in 10 min"),
    (causes.GPU_REFUSED, {"error": "PyTorch found no GPU"}, "RequireGpu: PyTorch found no GPU"),
    (causes.GPU_NOT_USED, {"error": ""}, "RequireGpu: it used no GPU"),
    (causes.GPU_NOT_USED, {"error": "a cause"}, "RequireGpu: it used no GPU; a cause"),
    (causes.ATTEMPT, {"number": 2}, "attempt 2"),
    (causes.NEXT_ATTEMPT, {"number": 2, "at": "14:03:12"}, "attempt 2 at 14:03:12"),
    (causes.CANCELED, {}, "canceled"),
    (causes.CANCELED_EARLY, {}, "canceled before it started"),
    (causes.KILLED, {"seconds": 5.0}, "its processes were killed after 5 s"),
    (causes.DEPENDENCY_REMOVED, {"run": "run 3"}, "run 3 was removed"),
    (causes.DEPENDENCY_ENDED, {"run": "run 3", "state": "failed"}, "run 3 has ended (failed)"),
    (causes.UNREACHABLE, {"since": "14:03:12", "error": "box: lost"}, "unreachable since 14:03:12: box: lost"),
    (causes.FILES_MISSING, {}, "some files have not been fetched: run `workbench-tui experiment collect`"),
    (causes.IMPORTED, {}, "imported: not submitted by you on this machine"),
    (causes.MLFLOW, {}, "failed; MLflow does not record the reason"),
]


@pytest.mark.parametrize(("kind", "facts", "sentence"), SENTENCES)
def test_each_kind_has_a_sentence(kind: str, facts: Mapping[str, Fact], sentence: str) -> None:
    assert text_of((Cause(kind, facts),)) == sentence


def test_sentences_of_all_kinds_are_tested() -> None:
    kinds = {value for name, value in vars(causes).items() if name[0].isupper() and isinstance(value, str)}
    assert kinds == {kind for kind, _, _ in SENTENCES}


RAISED = Cause(causes.EXCEPTION, {"error": "ValueError: x"})
FULL = Cause(causes.DISK_FULL, {**BOX, "command": "c"})
ATTEMPT = Cause(causes.ATTEMPT, {"number": 2})
MEMBER = Cause(causes.MEMBER, {"name": "a"})


@pytest.mark.parametrize(
    ("several", "sentence"),
    [
        ((), ""),
        ((RAISED, *exit_causes(1)), "ValueError: x (exit code 1)"),
        ((RAISED, *exit_causes(1), *plain("more")), "ValueError: x (exit code 1); more"),
        ((RAISED, *plain("more")), "ValueError: x; more"),
        ((*exit_causes(1), Cause(causes.CHILD_OUT_OF_MEMORY, BOX)), f"exit code 1; one of its processes was {STARVED}"),
        ((ATTEMPT, *exit_causes(1)), "attempt 2: exit code 1"),
        ((ATTEMPT, RAISED, *exit_causes(1)), "attempt 2: ValueError: x (exit code 1)"),
        ((MEMBER, Cause(causes.EXIT_UNKNOWN)), f"member a: {text_of((Cause(causes.EXIT_UNKNOWN),))}"),
        ((*exit_causes(1), MEMBER, *plain("a note")), "exit code 1; member a: a note"),
        (
            (Cause(causes.CANCELED), Cause(causes.KILLED, {"seconds": 0.5})),
            "canceled; its processes were killed after 0.5 s",
        ),
    ],
)  # fmt: skip
def test_several_causes_are_one_sentence(several: Causes, sentence: str) -> None:
    assert text_of(several) == sentence


@pytest.mark.parametrize("several", [(), (ATTEMPT, RAISED, *exit_causes(137), FULL), plain("a text")])
def test_stored_causes_are_read_again(several: Causes) -> None:
    fields = json.loads(json.dumps(stored(several)))
    assert read_causes(fields) == several
    assert fields["reason"] == text_of(several)


@pytest.mark.parametrize(
    ("reason", "code", "expected"),
    [
        (None, None, ()),
        ("", 0, ()),
        ("exit code 1", 1, exit_causes(1)),
        ("exit code 1", 2, plain("exit code 1")),
        (text_of(exit_causes(137)), 137, exit_causes(137)),
        ("canceled", None, (Cause(causes.CANCELED),)),
        ("attempt 3: exit code 1", 1, (Cause(causes.ATTEMPT, {"number": 3}), *exit_causes(1))),
        ("ValueError: x (exit code 1)", 1, plain("ValueError: x (exit code 1)")),
        ("unreachable since 14:03:12: box: lost", None, (
            Cause(causes.UNREACHABLE, {"since": "14:03:12", "error": "box: lost"}),)),
    ],
)  # fmt: skip
def test_text_of_an_earlier_version_is_read(reason: str | None, code: int | None, expected: Causes) -> None:
    found = read_causes({"reason": reason}, code)
    assert found == expected
    assert text_of(found) == (reason or "")


@pytest.mark.parametrize(
    "damaged",
    [
        None, 3, "text", {}, [3], [{}], [{"kind": "of a later version", "facts": {}}], [{"kind": 3}],
        [{"kind": "exit-code", "facts": 3}], [{"kind": "exit-code", "facts": {}}],
        [{"kind": "exit-code", "facts": {"code": {}}}], [{"kind": "signal", "facts": {"signal": 1e300}}],
        [{"kind": "signal", "facts": {"signal": float("inf")}}], [{"kind": "killed", "facts": {"seconds": "x"}}],
        [{"kind": "unreachable", "facts": {"since": "\x1b[2J", "error": ""}}], [{"kind": "canceled"}] * 1000,
    ],
)  # fmt: skip
def test_text_is_shown_if_causes_are_damaged(damaged: object) -> None:
    assert read_causes({"reason": "a text", "causes": damaged}) == plain("a text")
    assert read_causes({"reason": 3, "causes": damaged}) == ()
