"""Count the correct end states of runs after a process of each run was killed, beside Parsl, submitit and MLflow.

    python -m benchmarks.kills [--count RUNS] [--peers RUNS] [--system NAME]

With --count, the workbench executes this number of runs and each other system --peers runs, and the counts are stored
in kills.json; with --system, only those of one system. This takes long. Without options, the stored counts are
reported. The benchmark installs the other systems, or uses the interpreter in WORKBENCH_PEERS.

Each script sleeps for 0.5 to 5 seconds, and one script in three then fails. At a random moment in the first 80 % of
its time, one of the processes that supervise the run, or in a third of the runs the process of the script itself, is
killed with SIGKILL. `benchmarks/kill_systems.py` says which processes these are. Afterwards, each system has 30 seconds
after the end of the script to know the end state: completed if the script has reached its end without an error,
otherwise failed. A state is wrong if it is the other one, unknown if the system says that the run has ended but not
how, and never known if the system has no end state then. A script is lost if it did not reach its end although it was
not killed itself, and started twice if it has begun more than once.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import itertools
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.harness import (
    COUNT,
    PERCENT,
    check,
    compare_values,
    finish,
    note,
    process_time,
    python,
    scratch_folder,
    text,
)
from benchmarks.kill_systems import (
    COMPLETED,
    FAILED,
    PACKAGES,
    SCRIPT,
    UNKNOWN,
    System,
    Trial,
    peers,
    processes,
    victims,
    workbench,
)
from tui_workbench.core.system import process_stat

PEER_VARIABLE = "WORKBENCH_PEERS"
FILE = Path(__file__).with_name("kills.json")
SHORTEST, LONGEST = 0.5, 5.0
"""Seconds for which a script sleeps."""

PATIENCE = 30.0
"""Seconds after the end of the script in which a system must know the end state."""

START_SECONDS = 600.0
TOGETHER = 8
"""Number of runs at the same time."""

SEED = 1
OUTCOMES = ("kills", "correct", "wrong", "unknown", "never known", "script lost", "started twice", "not started")
"""What can apply to a run. A run that is not started in time has no kill."""

ATTEMPTS = 5
"""Number of times that a run is executed, until it is still active at the moment of its kill."""

OURS = "workbench"
EXPLANATION = """\
A process of each run was killed with SIGKILL, while its script was executing. The end state is the one
that the system showed within 30 seconds after the end of the script. It is *unknown* if the system said
that it does not know how the run has ended, and *never known* if it still showed the run as active or
had no answer. Only the supervising shell knows the exit code of a script of the workbench, so the state
is unknown after this shell was killed. A script is lost if it did not reach its end although it was not
killed itself. These counts are stored, because they take long; `python -m benchmarks.kills --count 1000
--peers 100` takes them again. `benchmarks/kill_systems.py` describes how each system was used."""


def main() -> int:
    parser = argparse.ArgumentParser(description="count the correct end states of runs after kills")
    parser.add_argument("--count", type=int, default=0, help="number of runs of the workbench")
    parser.add_argument("--peers", type=int, default=0, help="number of runs of each other system")
    parser.add_argument("--system", default="", help="measure only this system")
    options = parser.parse_args()
    if options.count or options.peers:
        measure(options.count, options.peers, options.system)
    report()
    return finish()


def measure(count: int, of_peers: int, only: str) -> None:
    """Execute the runs, and store the counts after each system."""
    with scratch_folder() as name:
        folder = Path(name)
        systems = [(workbench(folder), count)] if count else []
        if of_peers:
            systems += [(system, of_peers) for system in peers(_install(folder / "venv"), folder / "peers")]
        for system, number in systems:
            if only in ("", system.name):
                measured = _measured(system, folder / "trials" / system.name.replace(" ", "-"), number)
                stored = {**_stored(), system.name: measured}
                FILE.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


def _stored() -> dict[str, dict[str, Any]]:
    with contextlib.suppress(FileNotFoundError):
        stored: dict[str, dict[str, Any]] = json.loads(FILE.read_text("utf-8"))
        return dict(sorted(stored.items(), key=lambda item: (item[0] != OURS, item[0].lower())))
    return {}


def _install(folder: Path) -> str:
    """Install the other systems, and return their interpreter or the one in the variable."""
    if named := os.environ.get(PEER_VARIABLE):
        return named
    uv = str(Path(python()).parent / "uv")
    interpreter = str(folder / "bin" / "python")
    subprocess.run([uv, "venv", "--quiet", "--python", python(), str(folder)], check=True)
    subprocess.run([uv, "pip", "install", "--quiet", "--python", interpreter, *PACKAGES], check=True)
    return interpreter


def _measured(system: System, folder: Path, number: int) -> dict[str, Any]:
    """Execute runs of a system with kills. Return the counts by the killed process, and when they were taken."""
    chance = random.Random(SEED)
    supervisors = itertools.cycle(system.supervisors or (SCRIPT,))
    plans = []
    for each in range(number):
        trial = Trial(folder / f"run{each}", chance.uniform(SHORTEST, LONGEST), int(chance.random() < 1 / 3))
        plans.append((trial, SCRIPT if each % 3 == 2 else next(supervisors), chance.random()))
    counts = {victim: dict.fromkeys(OUTCOMES, 0) for victim in victims(system)}
    loads = [os.getloadavg()[1]]
    with ThreadPoolExecutor(TOGETHER) as threads:
        for victim, outcomes in threads.map(lambda plan: (plan[1], _killed(system, *plan)), plans):
            for outcome in outcomes:
                counts[victim][outcome] += 1
            loads.append(os.getloadavg()[1])
            if sum(each["kills"] for each in counts.values()) % 50 == 0:
                print(f"        {system.name}: {counts}", flush=True)
    start = statistics.median(process_time([python(), "-c", "pass"]) for _ in range(10))
    return {
        "version": system.version,
        "date": datetime.date.today().isoformat(),
        "cores": os.cpu_count(),
        "python -c pass": f"{start * 1000:.1f} ms",
        "load average": round(statistics.mean(loads), 1),
        "killed": counts,
    }


def _killed(system: System, trial: Trial, victim: str, moment: float) -> list[str]:
    """Start a run, kill a process of it at this share of its time, and return what applies of OUTCOMES.

    On a busy machine, the run may have ended before the kill; it is then executed again.
    """
    for attempt in range(ATTEMPTS):
        again = trial._replace(folder=trial.folder.with_name(f"{trial.folder.name}-{attempt}"))
        again.folder.mkdir(parents=True)
        if outcomes := _killed_once(system, again, victim, moment):
            return outcomes
    return []


def _killed_once(system: System, trial: Trial, victim: str, moment: float) -> list[str]:
    """Return what applies of OUTCOMES to this execution of a run; nothing if it ended before the kill."""
    try:
        system.start(trial)
        if not _until(lambda: trial.starts, START_SECONDS):
            return ["not started"]
        time.sleep(0.8 * trial.seconds * moment)
        pid = _until(lambda: victims(system)[victim](trial), PATIENCE)
        if trial.has_finished or not pid:
            return []
        os.kill(pid, signal.SIGKILL)
        _until(lambda: trial.has_finished or not _is_alive(trial.starts[-1]), LONGEST + PATIENCE)
        return ["kills", *_outcomes(system, trial, victim)]
    except ProcessLookupError:
        return []
    finally:
        for pid in processes(trial):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _outcomes(system: System, trial: Trial, victim: str) -> list[str]:
    """Return what applies to a run whose script has ended: its end state, and what has happened to the script."""
    deadline = time.monotonic() + PATIENCE
    while True:
        truth = COMPLETED if trial.has_finished and not trial.code else FAILED
        state = system.state(trial)
        if state in (truth, UNKNOWN) or time.monotonic() > deadline:
            break
        time.sleep(0.5)
    outcomes = ["correct" if state == truth else UNKNOWN if state == UNKNOWN else "wrong" if state else "never known"]
    if victim != SCRIPT and not trial.has_finished:
        outcomes.append("script lost")
    if len(trial.starts) > 1:
        outcomes.append("started twice")
    return outcomes


def _is_alive(pid: int) -> bool:
    return process_stat(pid)[0] not in ("", "Z", "X")


def _until(condition: Callable[[], Any], seconds: float) -> Any:
    """Wait until the condition is true, and return its value; after this time, return a false one."""
    deadline = time.monotonic() + seconds
    while not (value := condition()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return value


def report() -> None:
    """Print the stored counts: rows that compare the workbench with each system, and a table of all counts."""
    stored = _stored()
    if OURS not in stored:
        note("kills, because no counts are stored")
        return
    for victim, counts in stored[OURS]["killed"].items():
        name = f"{victim} killed, {counts['kills']:,} times"
        check(f"{name}, scripts lost or started twice", counts["script lost"] + counts["started twice"], 0, COUNT)
        for system, measured in stored.items():
            killed = {
                other: each for other, each in measured["killed"].items() if (other == SCRIPT) == (victim == SCRIPT)
            }
            kills = sum(each["kills"] for each in killed.values())
            if system != OURS and kills:
                compare_values(
                    f"{name}, end states wrong or never known",
                    _bad(counts) / counts["kills"],
                    sum(map(_bad, killed.values())) / kills,
                    1.0,
                    baseline_name=f"{system}, {' or '.join(killed)} killed, {kills:,} times",
                    unit=PERCENT,
                )
    text(EXPLANATION)
    text(_table(stored))


def _bad(counts: dict[str, int]) -> int:
    """Return the number of end states that were neither correct nor shown as unknown."""
    return counts["kills"] - counts["correct"] - counts["unknown"]


def _table(stored: dict[str, dict[str, Any]]) -> str:
    heads = ("system", "killed process", *OUTCOMES, "date", "machine")
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for system, measured in stored.items():
        machine = f"{measured['cores']} cores, load average {measured['load average']}"
        for victim, counts in measured["killed"].items():
            cells = [
                f"{system} {measured['version']}",
                victim,
                *(f"{counts.get(outcome, 0):,}" for outcome in OUTCOMES),
                measured["date"],
                machine,
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
