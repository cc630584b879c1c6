"""Run all benchmarks and write their results to docs/performance.md.

    python -m benchmarks [NAME ...]

With names, only these scripts run, and the page stays as it is. The exit status is 1 if a limit was exceeded or a
script failed.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.harness import MILLISECONDS, RESULTS, environment, process_time, python

REPOSITORY = Path(__file__).resolve().parent.parent
PAGE = REPOSITORY / "docs" / "performance.md"

SCRIPTS = {
    "command_line": "Commands and configuration files",
    "screens": "Screens",
    "logs": "Logs",
    "history": "History",
    "metrics": "Metrics",
    "gpu": "GPUs",
    "active_runs": "Active runs",
    "submit": "Submissions",
    "ssh": "Machines over SSH",
    "slurm": "Slurm",
    "kills": "End states after kills",
}
"""The scripts, and their headings on the page."""

HEAD = """\
# Performance

`make bench` generates this page. The benchmarks measure the workbench and a baseline of the same
kind in turn, on the same machine, so that the ratios also hold on a slower or busier machine. A
value is the median of its rounds. The limit of a value is a multiple of its baseline, or a
fixed value if it has no baseline.

Some limits add a time to this multiple. Most of these times are proportional to the time that
`python -c pass` takes on the machine.

Measured on a machine with {cores} cores, where `python -c pass` takes {start}.
"""

TABLE = "| measurement | workbench | baseline | ratio | limit | within limit |\n|---|---|---|---|---|---|\n"


def main(names: list[str]) -> int:
    parts = [HEAD.format(cores=os.cpu_count(), start=_start())]
    failed = []
    for name in names or SCRIPTS:
        print(f"== {name}", flush=True)
        begun = time.monotonic()
        code, results = _run(name)
        print(f"        {time.monotonic() - begun:.0f} s", flush=True)
        parts.append(_section(SCRIPTS[name], code, results, os.getloadavg()[0]))
        failed += [name] if code else []
        if not names:  # also after each script, so that the page is useful if a later one is interrupted
            PAGE.write_text("\n".join(parts), encoding="utf-8")
    if failed:
        print(f"over the limit: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _start() -> str:
    return MILLISECONDS.show(statistics.median(process_time([python(), "-c", "pass"]) for _ in range(20)))


def _run(name: str) -> tuple[int, list[dict[str, str]]]:
    """Run a script. Return its exit status, and what it has recorded."""
    with tempfile.NamedTemporaryFile(prefix="workbench-benchmark-") as file:
        command = [python(), "-m", f"benchmarks.{name}"]
        done = subprocess.run(command, cwd=REPOSITORY, env=environment({RESULTS: file.name}), check=False)
        return done.returncode, [json.loads(line) for line in Path(file.name).read_text("utf-8").splitlines()]


def _section(heading: str, code: int, results: list[dict[str, str]], load: float) -> str:
    promises = [result for result in results if "name" in result]
    rows = ["".join(f"| {cell} " for cell in _cells(promise)) + "|\n" for promise in promises]
    texts = [f"\n{result['text']}\n" for result in results if "text" in result]
    notes = [f"\nNot measured: {result['note']}.\n" for result in results if "note" in result]
    if code and all(promise["kept"] for promise in promises):
        notes.append("\nThe benchmark failed before its end.\n")
    notes.append(f"\nLoad average of the machine: {load:.1f}.\n")
    return f"## {heading}\n\n{TABLE if rows else ''}{''.join(rows)}{''.join(texts + notes)}"


def _cells(promise: dict[str, str]) -> list[str]:
    texts = [promise[key] for key in ("name", "ours", "baseline", "ratio", "limit")]
    return [text.replace("|", "\\|") or "–" for text in texts] + ["yes" if promise["kept"] else "**no**"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
