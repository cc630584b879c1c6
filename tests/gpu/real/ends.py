"""Checks of canceled runs and killed processes. Each returns what it found, and fails with an AssertionError."""

from __future__ import annotations

import os
import signal

from tests.faults.support import controller_of, is_running, until
from tests.gpu.real.place import Place


def cancel_frees_the_memory(place: Place) -> str:
    run_id = place.compute(120)
    pids = place.pids(run_id)
    assert place.workbench.run("experiment", "cancel", "--run", run_id).code == 0
    assert place.ended(run_id)["status"] == "Canceled"
    return f"free {place.until_free(pids):.1f} s after the cancel"


def killed_script_frees_the_memory(place: Place) -> str:
    run_id = place.compute(120)
    pids = place.pids(run_id)
    script = max(pids - {place.shell(run_id)})
    os.kill(script, signal.SIGKILL)
    record = place.ended(run_id)
    assert record["status"] == "Failed", record
    assert "SIGKILL" in record["reason"], record["reason"]
    return f"free {place.until_free(pids):.1f} s later; {record['reason']}"


def killed_shell_leaves_no_process(place: Place) -> str:
    run_id = place.compute(120)
    pids = place.pids(run_id)
    os.kill(place.shell(run_id), signal.SIGKILL)
    assert place.workbench.run("experiment", "cancel", "--run", run_id).code == 0
    return f"free {place.until_free(pids):.1f} s after the cancel; {place.ended(run_id)['reason']}"


def killed_controller_is_replaced(place: Place) -> str:
    run_id = place.compute(place.pace.short)
    directory = place.workbench.run_directory(run_id)
    controller = controller_of(directory)
    os.kill(controller, signal.SIGKILL)
    until(lambda: not is_running(controller))
    place.workbench.run("experiment", "resume")
    record = place.ended(run_id)
    assert record["status"] == "Completed", record
    assert record["gpu"]["verdict"] == "proven", record["gpu"]["text"]
    return str(record["gpu"]["text"])


def killed_sampler_is_replaced(place: Place) -> str:
    run_id = place.compute(place.pace.short + 8)
    place.until_sampled(run_id)
    os.kill(place.sampler(), signal.SIGKILL)
    record = place.ended(run_id)
    assert record["gpu"]["verdict"] == "proven", record["gpu"]["text"]
    return f"{record['gpu']['samples']} samples; {record['gpu']['text']}"
