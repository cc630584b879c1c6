"""Measure runs over SSH on connections with delays, and after cuts of the connection.

    python -m benchmarks.connections

Launch: the time from the start of `experiment submit` until the first line of the script is in the local `output.log`,
compared with the time from the start of `ssh HOST python3 hello.py` until its first line is on its standard output. The
workbench also records the run and sends the project, which has not changed since the last run; for `ssh`, the script is
already on the machine. Both use a relay that delays each byte, because the kernels of build machines have no netem.
With a new connection, both log in. With an open connection, `ssh` uses a ControlMaster, and the workbench its own
connection.

Cuts: a script on the machine prints numbered lines every 10 ms. Three programs follow its log at the same time, on
separate connections, so that each cut affects all of them: the workbench; `tail -F` over ssh in a loop; and the same
loop with `tail -c +N -F`, which continues at the size of the local file. The loops start ssh again one second after it
has ended, and ssh sends keep-alive messages as the workbench does. A gap is the time from the moment when the
connection is possible again until a line that was printed after that moment is in the local file. A line that was torn
counts as lost, and its parts as repeated.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.harness import (
    SECONDS,
    Unit,
    compare,
    compare_values,
    environment,
    finish,
    note,
    python,
    slowness,
)
from benchmarks.ssh_machine import USER, Remote, is_possible, relay, remote
from benchmarks.submit import PRINT_TOKEN, TOKEN, first_output
from tests.targets.conftest import end_links
from tui_workbench.core.model import RunRequest
from tui_workbench.core.plaintext import counted
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs

ROUND_TRIPS = (0.0, 0.050, 0.200)
"""Round-trip times of the connection in seconds."""

LAUNCH_ROUNDS = 1
OPEN_LIMIT, NEW_LIMIT = 4.0, 3.0
"""Limits of a launch as multiples of `ssh`: the workbench also compares and copies files, with a request for each."""

LAUNCH_MARGIN = 0.250
"""Seconds for recording the run, checking the files of the project and starting the script's supervising shell."""

CUT = 5.0
"""Seconds for which the link is down."""

CUT_ROUNDS = 1
"""Number of runs with cuts."""

KILLS = 5
"""Number of times that the connections of a run are killed, each time as soon as the log is up to date again."""

GAP_MARGIN, DOWN_MARGIN = 0.250, 1.0
"""Seconds after a killed connection, and after a link was down: then TCP retransmits once a second."""

KEEPALIVE = ("-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3", "-o", "ConnectTimeout=5")
RETRY_SECONDS = 1
PATIENCE = 60.0
PAUSE = 0.002
BYTES = Unit("bytes", 1.0, 0)

COUNTER = """\
import itertools, time
for number in itertools.count():
    print(number, time.clock_gettime_ns(time.CLOCK_MONOTONIC), flush=True)
    time.sleep(0.01)
"""


def main() -> int:
    if is_possible():
        with remote() as box:
            for round_trip in ROUND_TRIPS:
                measure_launch(box, round_trip)
            measure_cuts(box)
    else:
        note("another machine, because only root can create it")
    return finish()


def measure_launch(box: Remote, round_trip: float) -> None:
    """Compare launches over connections with a delay, with a new connection and with an open one."""
    (box.home / "hello.py").write_text(PRINT_TOKEN)
    with relay(box.machine.address, round_trip / 2) as port:
        known = box.folder / "home" / ".ssh" / "known_hosts"
        with known.open("a") as file:
            file.write(f"[127.0.0.1]:{port} {box.machine.known_hosts_line.partition(' ')[2]}")
        project = _project(box.folder / f"project{port}", f"127.0.0.1:{port}", "hello.py", PRINT_TOKEN)
        ssh = [*box.ssh[:-1], "-p", str(port), "-o", f"ControlPath={box.folder / 'control'}", f"{USER}@127.0.0.1"]
        plain = [*ssh, "python3 hello.py"]

        def from_nothing() -> float:
            end_links(box.folder / "run")
            return launched(project)

        name = f"from the submission to the first line, {round_trip * 1000:.0f} ms round trip"
        subprocess.run([*ssh[:-1], "-M", "-N", "-f", ssh[-1]], check=True, stderr=subprocess.DEVNULL)
        compare(
            f"{name}, open connection",
            lambda: launched(project),
            lambda: first_output(plain),
            limit=OPEN_LIMIT,
            rounds=LAUNCH_ROUNDS,
            baseline_name="`ssh HOST python3`, ControlMaster",
            margin=LAUNCH_MARGIN,
        )
        subprocess.run([*ssh[:-1], "-O", "exit", ssh[-1]], check=True, stderr=subprocess.DEVNULL)
        compare(
            f"{name}, new connection",
            from_nothing,
            lambda: first_output(plain),
            limit=NEW_LIMIT,
            rounds=LAUNCH_ROUNDS,
            baseline_name="`ssh HOST python3`",
            margin=LAUNCH_MARGIN,
            warmup=0,
        )
        end_links(box.folder / "run")


def launched(project: Project) -> float:
    """Submit a run. Return the seconds until its first line is in the local log. The run has ended then."""
    folder = Path(project.runs_directory)
    before = set(os.listdir(folder)) if folder.is_dir() else set()
    words = [python(), "-P", "-m", "tui_workbench", "experiment", "submit", "-c", "box", "--detach"]
    begun = time.perf_counter()
    with subprocess.Popen(
        [*words, "--project", project.root, "hello.py"], stdout=subprocess.DEVNULL, env=environment()
    ) as command:
        while not any(_content(path).startswith(TOKEN) for path in _new_logs(folder, before)):
            if command.poll():
                raise SystemExit("the submission failed")
            time.sleep(PAUSE)
        taken = time.perf_counter() - begun
    _wait(lambda: not any(run.is_active for run in Runs(project).list()))
    return taken


def _new_logs(folder: Path, before: set[str]) -> list[Path]:
    names = set(os.listdir(folder)) - before if folder.is_dir() else set()
    return [folder / name / "output.log" for name in names]


def _content(path: Path) -> bytes:
    with contextlib.suppress(FileNotFoundError):
        return path.read_bytes()
    return b""


class Follower(NamedTuple):
    """A program that follows the log of the script, and the local file to which it writes."""

    name: str
    file: Path


def measure_cuts(box: Remote) -> None:
    """Compare what three followers of a log have after cuts of the connection."""
    project = _project(box.folder / "cuts", box.machine.address, "counter.py", COUNTER)
    for name, cut, cuts, seconds in (
        ("link down for 5 s", _cut_link, 1, DOWN_MARGIN),
        ("SSH connection killed", _kill_connection, KILLS, GAP_MARGIN),
    ):
        measured = [_measured_run(box, project, cut, cuts) for _ in range(CUT_ROUNDS)]
        margin = seconds * slowness()
        for which in sorted({0, cuts - 1}):
            gaps = [statistics.median(run.gaps[which][each] for run in measured) for each in range(3)]
            place = "first cut of a run" if which == 0 else f"{which + 1}th cut of a run"
            for loop in (1, 2):
                compare_values(
                    f"{name}, {place}, gap until new lines are in the local file",
                    gaps[0],
                    gaps[loop],
                    1.0,
                    baseline_name=measured[0].names[loop],
                    margin=margin,
                    unit=SECONDS,
                )
        lost = [sum(run.differences[each] for run in measured) for each in range(3)]
        what = f"{name}, {counted(CUT_ROUNDS * cuts, 'cut')}, bytes lost or repeated"
        for loop in (1, 2):
            compare_values(what, lost[0], lost[loop], 0.0, baseline_name=measured[0].names[loop], unit=BYTES)


class CutRun(NamedTuple):
    """A run whose connection was cut: for the three followers, the gaps of each cut, and the bytes that differ."""

    names: list[str]
    gaps: list[list[float]]
    differences: list[int]


def _measured_run(box: Remote, project: Project, cut: Callable[[Remote], int], cuts: int) -> CutRun:
    run = Runs(project).submit(RunRequest("box", "counter.py"))
    there = box.home / ".workbench-tui" / "runs" / run.run_id / "output.log"
    _wait_for_content(there)
    _wait_for_content(Path(run.log_path))
    ours = Follower("workbench", Path(run.log_path))
    with _loop(box, "-F", run.run_id) as plain, _loop(box, "-c +$((N + 1)) -F", run.run_id) as resuming:
        followers = (ours, plain, resuming)
        gaps = [_gaps(cut(box), followers) for _ in range(cuts)]
        Runs(project).cancel(run.run_id)
        written = _content(there)
        _wait_for_all(written.splitlines()[-1], followers)
    differences = [_differences(written, _content(follower.file)) for follower in followers]
    return CutRun([follower.name for follower in followers], gaps, differences)


def _differences(written: bytes, received: bytes) -> int:
    """Return the bytes of lost lines, and of everything that is not in the output, since the first received line."""
    lines = received.splitlines(keepends=True)
    written = written[written.index(lines[0]) :]
    present = set(lines)
    lost = sum(len(line) for line in written.splitlines(keepends=True) if line not in present)
    return lost + len(received) - (len(written) - lost)


@contextlib.contextmanager
def _loop(box: Remote, options: str, run_id: str) -> Iterator[Follower]:
    """Follow the log of the run with `tail` over ssh, again and again. `N` in the options is the size of the file."""
    file = box.folder / f"{run_id}{options.split()[0]}"
    file.touch()
    command = f"tail {options} .workbench-tui/runs/{run_id}/output.log"
    ssh = shlex.join([*box.ssh[:-1], *KEEPALIVE, box.ssh[-1]])
    text = f'while :; do N=$(stat -c %s {file}); {ssh} "{command}" >>{file}; sleep {RETRY_SECONDS}; done'
    with subprocess.Popen(
        ["sh", "-c", text], env=environment(), stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:
        try:
            _wait_for_content(file)
            yield Follower(f"`ssh HOST tail {options.replace('$((N + 1))', 'N')}` in a loop", file)
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def _cut_link(box: Remote) -> int:
    with box.machine.cut_off():
        time.sleep(CUT)
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def _kill_connection(box: Remote) -> int:
    box.machine.kill_connections()
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def _gaps(since: int, followers: tuple[Follower, ...]) -> list[float]:
    """Return the seconds until each follower has a line that was printed after this time in nanoseconds."""
    gaps: dict[str, float] = {}
    deadline = time.monotonic() + PATIENCE
    while len(gaps) < len(followers):
        for follower in followers:
            if follower.name not in gaps and _newest(follower.file) > since:
                gaps[follower.name] = (time.clock_gettime_ns(time.CLOCK_MONOTONIC) - since) / 1e9
        if time.monotonic() > deadline:
            raise TimeoutError(f"only these have new lines: {gaps}")
        time.sleep(PAUSE)
    return [gaps[follower.name] for follower in followers]


def _newest(file: Path) -> int:
    """Return the time in the last complete line of the file."""
    words = _tail(file).rpartition(b"\n")[0].rpartition(b"\n")[2].split()
    return int(words[-1]) if words else 0


def _tail(file: Path) -> bytes:
    with file.open("rb") as stream:
        stream.seek(max(0, file.stat().st_size - 400))
        return stream.read()


def _wait_for_content(file: Path) -> None:
    _wait(lambda: bool(_content(file)))


def _wait_for_all(line: bytes, followers: Iterable[Follower]) -> None:
    _wait(lambda: all(line in _tail(follower.file) for follower in followers))


def _wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("the benchmark waits for too long")
        time.sleep(0.02)


def _project(root: Path, address: str, name: str, script: str) -> Project:
    """Create a project with a script and the target `box`."""
    (root / "aml_config").mkdir(parents=True)
    target = {"type": "remote", "address": address, "username": USER, "pythonLocation": "python3"}
    (root / "aml_config" / "box.compute").write_text(json.dumps(target))
    (root / "aml_config" / "box.runconfig").write_text(json.dumps({"Target": "box", "Framework": "Python"}))
    (root / name).write_text(script)
    return Project.find(str(root))


if __name__ == "__main__":
    sys.exit(main())
