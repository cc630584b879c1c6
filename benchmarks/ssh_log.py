"""The output of a run on its way from another machine to `output.log` here.

Lag: a run of type `remote` prints the clock every 5 ms, and the time of each line in the local file is compared. The
machines share a clock. Volume: 1 GB that a run has written, compared with `ssh HOST cat FILE > FILE`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.harness import MILLISECONDS, check, compare, environment, finish, note, percentile
from benchmarks.ssh_machine import Remote, is_possible, remote
from tui_workbench.core.model import RunRequest
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.targets.hosts.mirror import Mirror

LINES = 600
LAG_LIMIT = 0.050
GIGABYTE = 1_000_000_000
VOLUME_LIMIT = 1.2

SCRIPT = f"""\
import time
for _ in range({LINES}):
    print(time.clock_gettime_ns(time.CLOCK_MONOTONIC), flush=True)
    time.sleep(0.005)
"""


def main() -> int:
    """Run the benchmark."""
    if not is_possible():
        note("not measured: another machine can only be made by root")
        return 0
    with remote() as box:
        _measure_lag(box)
        _measure_volume(box)
    return finish()


def _measure_lag(box: Remote) -> None:
    project = _make_project(box)
    run = Runs(project).submit(RunRequest("box", "clock.py"))
    lags: list[float] = []
    rest = b""
    log = Path(run.log_path)
    while not log.exists():
        time.sleep(0.001)
    with log.open("rb", buffering=0) as file:
        while len(lags) < LINES:
            rest += file.read(1 << 16)
            now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
            *lines, rest = rest.split(b"\n")
            lags += [(now - int(line)) / 1e9 for line in lines]
            time.sleep(0.0002)
    # The first lines were written before anybody could follow them.
    steady = lags[LINES // 10 :]
    check("print to our output.log, p95", percentile(steady, 95), LAG_LIMIT, MILLISECONDS, note=f"{len(steady)} lines")
    note(f"median {MILLISECONDS.show(percentile(steady, 50))}, longest {MILLISECONDS.show(max(steady))}")
    while Runs(project).get(run.run_id).is_active:
        time.sleep(0.05)


def _measure_volume(box: Remote) -> None:
    block = bytes(range(256)) * 4096
    with (box.home / "big").open("wb") as file:
        while file.tell() < GIGABYTE:
            file.write(block)
    size = (box.home / "big").stat().st_size
    ours, theirs = box.folder / "ours", box.folder / "theirs"

    def take() -> None:
        ours.unlink(missing_ok=True)
        with Mirror(box.host, "/home/research/big", str(box.folder), ours.name) as mirror:
            mirror.open()
            while mirror.size < size and mirror.pump():
                pass

    def cat() -> None:
        with theirs.open("wb") as file:
            subprocess.run([*box.ssh, "cat big"], stdout=file, env=environment(), check=True)

    compare("1 GB of output over SSH", take, cat, VOLUME_LIMIT, 5, baseline_name="ssh cat")
    if ours.stat().st_size != size:
        raise SystemExit("what arrived is not what was written")


def _make_project(box: Remote) -> Project:
    root = box.folder / "project"
    (root / "aml_config").mkdir(parents=True)
    target = {"type": "remote", "address": box.machine.address, "username": "research", "pythonLocation": "python3"}
    configuration = {"Target": "box", "Framework": "Python"}
    (root / "aml_config" / "box.compute").write_text(json.dumps(target))
    (root / "aml_config" / "box.runconfig").write_text(json.dumps(configuration))
    (root / "clock.py").write_text(SCRIPT)
    return Project.find(os.fspath(root))


if __name__ == "__main__":
    sys.exit(main())
