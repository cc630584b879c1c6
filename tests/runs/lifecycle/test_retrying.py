"""Runs that are started again after their script has failed: `Retry` of a run configuration."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from tests.faults.support import Workbench, controller_of, is_running, until
from tests.proc import PROC
from tests.runs.support import record_of
from tui_workbench.core.model import RunState
from tui_workbench.runs.lifecycle.retrying import plan_attempt
from tui_workbench.runs.lifecycle.starting import CANCEL_SIGNAL
from tui_workbench.runs.metrics import RunMetrics
from tui_workbench.runs.store.rundir import FOLLOWED, LIMIT, Ending, RunDirectory
from tui_workbench.ui.details.run_details_read import plan_of

CHECKPOINT = """\
import os, pathlib, sys
attempt = os.environ["WORKBENCH_ATTEMPT"]
print("attempt", attempt, os.environ.get("WORKBENCH_RESUME", "fresh"), flush=True)
checkpoint = pathlib.Path("outputs/checkpoint")
seen = checkpoint.read_text() if checkpoint.exists() else ""
checkpoint.parent.mkdir(exist_ok=True)
checkpoint.write_text(seen + attempt)
sys.exit(0 if seen == "12" else 3)
"""
"""Succeeds in the third attempt, if the checkpoint of the others is still there."""

RESUMES = """\
import os, workbench
is_first = "WORKBENCH_RESUME" not in os.environ
for step in range(0, 160, 10) if is_first else range(100, 210, 10):
    value = 3 if is_first else 1
    workbench.log("logged", value, step)
    print("step", step, "loss", value, flush=True)
exit(1 if is_first else 0)
"""
"""Fails at step 150, and continues from the checkpoint of step 100 to step 200."""

WAITS_ONCE = """\
import os, time
print("attempt", os.environ["WORKBENCH_ATTEMPT"], flush=True)
while os.environ["WORKBENCH_ATTEMPT"] == "1":
    time.sleep(0.05)
"""


@pytest.fixture
def workbench(project_root: Path) -> Workbench:
    return Workbench(project_root)


def configure(workbench: Workbench, retry: str) -> None:
    path = workbench.folder / "aml_config" / "local.runconfig"
    path.write_text(f"{path.read_text()}Retry: {retry}\n")


def attempts(workbench: Workbench, run_id: str) -> list[tuple[int, int, str]]:
    found = RunDirectory(str(workbench.run_directory(run_id))).attempts()
    return [(each.number, each.start, each.reason) for each in found]


def begin(workbench: Workbench) -> tuple[str, int, int]:
    """Start WAITS_ONCE. Return the ID of the run, and the process IDs of its supervising shell and its script."""
    workbench.write(WAITS_ONCE)
    run_id = workbench.detach("train.py")
    until(lambda: "attempt 1" in workbench.log(run_id))
    shell = int((workbench.run_directory(run_id) / "pid").read_text().split()[0])
    (script,) = (PROC / f"{shell}/task/{shell}/children").read_text().split()
    return run_id, shell, int(script)


def test_failed_run_starts_again_until_it_succeeds(workbench: Workbench) -> None:
    configure(workbench, "{times: 3, delay: 0}")
    workbench.write(CHECKPOINT)
    result = workbench.submit("train.py")
    assert result.code == 0, result
    assert result.out.partition("\n")[2] == "attempt 1 fresh\nattempt 2 1\nattempt 3 1\n"
    (record,) = workbench.history()
    assert record["status"] == "Completed"
    log = workbench.log(record["run_id"])
    starts = [log.index(f"attempt {number}") for number in (2, 3)]
    assert attempts(workbench, record["run_id"]) == [(2, starts[0], "exit code 3"), (3, starts[1], "exit code 3")]
    assert (workbench.folder / "outputs" / "checkpoint").read_text() == "123"


def test_each_attempt_has_its_own_record(workbench: Workbench) -> None:
    configure(workbench, "{times: 3, delay: 0}")
    workbench.write(CHECKPOINT)
    assert workbench.submit("train.py").code == 0
    (record,) = workbench.history()
    run_id, log = record["run_id"], workbench.log(record["run_id"])
    listed = workbench.info(run_id)["attempts"]
    assert [(each["number"], each["status"], each["exit_code"]) for each in listed] == [
        (1, "Failed", 3),
        (2, "Failed", 3),
        (3, "Completed", 0),
    ]
    assert [log[each["log_start"] : each["log_end"]] for each in listed] == [
        "attempt 1 fresh\n",
        "attempt 2 1\n",
        "attempt 3 1\n",
    ]
    times = [moment for each in listed for moment in (each["start_time_utc"], each["end_time_utc"])]
    assert times == sorted(times)
    assert json.loads(workbench.run("experiment", "status", "-r", run_id).out)["attempts"] == listed
    folder = workbench.run_directory(run_id) / "attempts"
    stored = [json.loads((folder / str(number) / "attempt.json").read_text()) for number in (1, 2, 3)]
    assert [(each["exit_code"], each["log_end"]) for each in stored] == [
        (each["exit_code"], each["log_end"]) for each in listed
    ]


def test_next_attempt_does_not_wait_for_the_record_of_the_last(workbench: Workbench) -> None:
    """The script makes a file in place of the folder of the records, so an event shows when they were written."""
    configure(workbench, "{delay: 0}")
    workbench.write("import os; open(os.environ['WORKBENCH_RUN_DIRECTORY'] + '/attempts', 'a').close(); exit(3)")
    assert workbench.submit("train.py").code == 3
    (record,) = workbench.history()
    events = RunDirectory(str(workbench.run_directory(record["run_id"]))).events()
    steps = [event["step"] for event in events if event.get("step") in ("start", "attempts")]
    assert steps[:3] == ["start", "start", "attempts"]


def test_log_of_one_attempt_is_printed(workbench: Workbench) -> None:
    configure(workbench, "{times: 3, delay: 0}")
    workbench.write(CHECKPOINT)
    workbench.submit("train.py")
    (record,) = workbench.history()
    assert workbench.run("logs", record["run_id"], "--attempt", "2").out == "attempt 2 1\n"
    assert workbench.run("logs", record["run_id"], "--attempt", "3").out == "attempt 3 1\n"
    assert workbench.run("logs", record["run_id"], "--attempt", "1", "--tail", "5").out == "attempt 1 fresh\n"
    wrong = workbench.run("logs", record["run_id"], "--attempt", "4")
    wrong.error(2, "the run has no attempt 4", "Choose one of: 1, 2, 3.")


def test_resumed_training_is_one_curve(workbench: Workbench) -> None:
    configure(workbench, "{times: 2, delay: 0}")
    workbench.write(RESUMES)
    assert workbench.submit("train.py").code == 0
    (record,) = workbench.history()
    assert (record["logged"], record["loss"]) == (1, 1)
    metrics = RunMetrics(str(workbench.run_directory(record["run_id"])))
    metrics.refresh()
    for name in ("logged", "loss"):
        assert list(metrics.series(name).steps) == list(range(0, 210, 10))
        assert list(metrics.series(name).values) == [3] * 10 + [1] * 11
        assert [list(each.steps) for each in metrics.replaced(name)] == [[100, 110, 120, 130, 140, 150]]
        assert metrics.attempt_steps(name) == {2: 100}


def test_run_with_one_attempt_has_no_records_of_attempts(workbench: Workbench) -> None:
    configure(workbench, "{times: 3, delay: 0}")
    workbench.write("print('done')")
    assert workbench.submit("train.py").code == 0
    (record,) = workbench.history()
    assert "attempts" not in workbench.info(record["run_id"])
    assert not (workbench.run_directory(record["run_id"]) / "attempts").exists()


def test_run_details_show_the_attempts(workbench: Workbench) -> None:
    configure(workbench, "{delay: 0}")
    workbench.write("raise SystemExit(4)")
    workbench.submit("train.py")
    (record,) = workbench.history()
    run = RunDirectory(str(workbench.run_directory(record["run_id"]))).run()
    lines = ["".join(piece.text for piece in line) for line in plan_of(run, time.time())]
    first, second = lines[lines.index("Attempts") + 1 :][:2]
    assert first.lstrip().startswith("1 ")
    assert first.rstrip().endswith("failed with exit code 4")
    assert second.lstrip().startswith("2 ")
    assert second.rstrip().endswith("failed with exit code 4")


def test_last_failure_is_the_end_of_the_run(workbench: Workbench) -> None:
    configure(workbench, "{delay: 0}")
    workbench.write("raise SystemExit(4)")
    assert workbench.submit("train.py").code == 4
    (record,) = workbench.history()
    assert record["status"] == "Failed"
    assert record["reason"] == "attempt 2: exit code 4"


def test_other_ends_are_final(workbench: Workbench) -> None:
    configure(workbench, "{times: 2, on: [oom, lost], delay: 0}")
    workbench.write("raise SystemExit(4)")
    workbench.submit("train.py")
    (record,) = workbench.history()
    assert record["reason"] == "exit code 4"


def test_killed_script_counts_as_out_of_memory(workbench: Workbench) -> None:
    configure(workbench, "{on: [oom], delay: 0}")
    run_id, _, script = begin(workbench)
    os.kill(script, signal.SIGKILL)
    workbench.until_status(run_id, "Completed")
    assert workbench.log(run_id) == "attempt 1\nattempt 2\n"


def test_run_whose_shell_was_killed_is_lost_and_starts_again(workbench: Workbench) -> None:
    configure(workbench, "{on: [lost], delay: 0}")
    run_id, *processes = begin(workbench)
    for pid in processes:
        os.kill(pid, signal.SIGKILL)
    workbench.until_status(run_id, "Completed")
    assert workbench.log(run_id) == "attempt 1\nattempt 2\n"


def test_run_waits_for_its_next_attempt(workbench: Workbench) -> None:
    configure(workbench, "{delay: 600}")
    workbench.write("raise SystemExit(4)")
    run_id = workbench.detach("train.py")
    workbench.until_status(run_id, "Queued")
    assert workbench.info(run_id)["reason"].startswith("attempt 2 at ")
    assert workbench.run("experiment", "cancel", "--run", run_id).code == 0
    assert workbench.status(run_id) == "Canceled"


@pytest.mark.processes
def test_new_controller_continues_with_the_attempt(workbench: Workbench) -> None:
    configure(workbench, "{delay: 3}")
    workbench.write('import os; print(os.environ["WORKBENCH_ATTEMPT"]); raise SystemExit(4)')
    run_id = workbench.detach("train.py")
    workbench.until_status(run_id, "Queued")
    controller = controller_of(workbench.run_directory(run_id))
    os.kill(controller, signal.SIGKILL)
    until(lambda: not is_running(controller))
    assert workbench.run("experiment", "resume").code == 0
    workbench.until_status(run_id, "Failed")
    assert workbench.log(run_id) == "1\n2\n"


def test_canceled_run_is_not_started_again(workbench: Workbench) -> None:
    configure(workbench, "{times: 5, delay: 0}")
    run_id, *_ = begin(workbench)
    workbench.run("experiment", "cancel", "--run", run_id)
    assert workbench.status(run_id) == "Canceled"
    assert attempts(workbench, run_id) == []


@pytest.mark.processes
def test_attempts_have_the_environment_of_the_submission(workbench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    configure(workbench, "{delay: 3}")
    workbench.write('import os; print(os.environ["MARK"]); raise SystemExit(4)')
    monkeypatch.setenv("MARK", "of the submission")
    run_id = workbench.detach("train.py")
    workbench.until_status(run_id, "Queued")
    controller = controller_of(workbench.run_directory(run_id))
    os.kill(controller, signal.SIGKILL)
    until(lambda: not is_running(controller))
    monkeypatch.setenv("MARK", "of another shell")
    workbench.run("experiment", "resume")
    workbench.until_status(run_id, "Failed")
    assert workbench.log(run_id) == "of the submission\n" * 2
    assert not (workbench.run_directory(run_id) / "environment.json").exists()


def test_other_types_of_targets_are_refused(workbench: Workbench) -> None:
    configure(workbench, "{times: 2}")
    compute = workbench.folder / "aml_config" / "local.compute"
    compute.write_text("type: cluster\naddress: box.example\n")
    workbench.write("")
    error = workbench.submit("train.py").error(
        3, "cannot start a run again on targets of type cluster. Remove `Retry`."
    )
    assert "local.runconfig:7: " in error
    findings = workbench.run("config", "check").out
    assert "`Retry` cannot start a run again on a cluster target, so runs are refused" in findings


def test_run_of_another_machine_is_not_started_again(tmp_path: Path) -> None:
    directory = RunDirectory(str(tmp_path))
    record = record_of(tmp_path)
    configuration = record.spec.run_configuration._replace(retry={"times": 1})
    record = record._replace(spec=record.spec._replace(run_configuration=configuration))
    (tmp_path / FOLLOWED).touch()
    assert not plan_attempt(directory, record, Ending(RunState.FAILED, exit_code=3))
    (tmp_path / FOLLOWED).unlink()
    assert plan_attempt(directory, record, Ending(RunState.FAILED, exit_code=3))


@pytest.mark.parametrize(
    ("retry", "message"),
    [
        ("{times: 0}", "`Retry.times` is '0', expected 1 or more"),
        ("{on: [always]}", "`Retry.on`"),
        ("{delay: soon}", "`Retry.delay`"),
        ("3", "`Retry`"),
    ],
)
def test_invalid_values_are_refused(workbench: Workbench, retry: str, message: str) -> None:
    configure(workbench, retry)
    workbench.write("")
    assert message in workbench.submit("train.py").error(3)


WARNED = """\
import os, signal, sys, time
attempt = os.environ.get("WORKBENCH_ATTEMPT", "1")
signal.signal(signal.SIGTERM, lambda *_: sys.exit("saved"))
print("attempt", attempt, flush=True)
while attempt == "1":
    time.sleep(0.05)
"""
"""Ends on SIGTERM in its first attempt."""

DEAF = """\
import signal, time
signal.signal(signal.SIGTERM, lambda *_: print("warned", flush=True))
print("began", flush=True)
while True:
    time.sleep(0.05)
"""
"""Continues after SIGTERM."""


def limit(workbench: Workbench, minutes: int, before: int) -> None:
    path = workbench.folder / "aml_config" / "local.runconfig"
    path.write_text(f"{path.read_text()}MaxDurationMinutes: {minutes}\nSignalBeforeEndMinutes: {before}\n")


@pytest.mark.processes
def test_script_saves_a_checkpoint_before_its_time_limit(workbench: Workbench) -> None:
    """The warning is as long as the limit, so it comes at once."""
    limit(workbench, 1, 1)
    workbench.write(WARNED)
    run_id = workbench.detach("train.py")
    workbench.until_status(run_id, "Canceled")
    assert "saved" in workbench.log(run_id)
    assert workbench.info(run_id)["reason"] == "MaxDurationMinutes: sent SIGTERM 1 min before its limit of 1 min"


@pytest.mark.processes
def test_run_that_was_out_of_time_starts_again(workbench: Workbench) -> None:
    limit(workbench, 1, 1)
    configure(workbench, "{on: [timeout], delay: 0}")
    workbench.write(WARNED)
    run_id = workbench.detach("train.py")
    workbench.until_status(run_id, "Completed")
    assert workbench.log(run_id) == "attempt 1\nsaved\nattempt 2\n"
    ((_, _, reason),) = attempts(workbench, run_id)
    assert reason == "MaxDurationMinutes: sent SIGTERM 1 min before its limit of 1 min"


def test_script_that_reaches_its_limit_is_ended_and_starts_again(workbench: Workbench) -> None:
    """The event of the limit is written here, because the shortest limit is a minute."""
    configure(workbench, "{on: [timeout], delay: 0}")
    run_id, *_ = begin(workbench)
    directory = RunDirectory(str(workbench.run_directory(run_id)))
    directory.append_event(LIMIT, reason="MaxDurationMinutes: ended after 1 min", reached=True)
    os.kill(controller_of(workbench.run_directory(run_id)), CANCEL_SIGNAL)
    workbench.until_status(run_id, "Completed")
    assert workbench.log(run_id) == "attempt 1\nattempt 2\n"
    assert attempts(workbench, run_id) == [(2, len("attempt 1\n"), "MaxDurationMinutes: ended after 1 min")]
    assert workbench.info(run_id)["attempts"][0]["status"] == "Canceled"


@pytest.mark.processes
def test_time_limit_is_final_unless_retry_names_it(workbench: Workbench) -> None:
    limit(workbench, 1, 1)
    configure(workbench, "{delay: 0}")
    workbench.write(WARNED)
    run_id = workbench.detach("train.py")
    workbench.until_status(run_id, "Canceled")
    assert attempts(workbench, run_id) == []


@pytest.mark.processes
def test_cancel_after_the_warning_takes_effect_at_once(workbench: Workbench) -> None:
    """The limit is an hour after the warning, so the test would fail if cancel waited for it."""
    limit(workbench, 60, 60)
    workbench.write(DEAF)
    run_id = workbench.detach("train.py")
    until(lambda: "warned" in workbench.log(run_id))
    result = workbench.run("experiment", "cancel", "--run", run_id, "--grace", "0")
    assert result.code == 0, result
    assert workbench.status(run_id) == "Canceled"


def test_useless_causes_are_reported(workbench: Workbench) -> None:
    configure(workbench, "{on: [timeout, preempted]}")
    findings = workbench.run("config", "check").out
    assert "`timeout` in `Retry.on` has no effect without `MaxDurationMinutes`" in findings
    assert "`preempted` in `Retry.on` has no effect: only Slurm preempts runs" in findings
