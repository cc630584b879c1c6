"""Compare the time from a submission to the first line of a Spark script with that of `spark-submit`.

The script prints before it starts a session, so that both programs only start the driver.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time

from benchmarks.harness import compare, environment, finish
from tests.spark import spark_home, spark_python
from tui_workbench.core.model import RunRequest
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs

ROUNDS = 8
MARGIN = 0.100
PAUSE = 0.002

SCRIPT = "import sys\nprint(sys.argv[1], flush=True)\n"
RUNCONFIG = 'Target: "local"\nFramework: "PySpark"\nTrackedRun: true\n'


def main() -> int:
    python = spark_python()
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "aml_config"))
        for name, text in (
            ("aml_config/local.compute", f"type: local\npythonLocation: {json.dumps(python)}\n"),
            ("aml_config/local.runconfig", RUNCONFIG),
            ("first.py", SCRIPT),
        ):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        tokens = (f"token-{number}-end" for number in itertools.count())
        compare(
            "submission of a Spark script to its first line",
            lambda: _submitted(Runs(Project.find(folder)), next(tokens)),
            lambda: _bare(python, folder, next(tokens)),
            limit=1.0,
            rounds=ROUNDS,
            baseline_name="spark-submit",
            margin=MARGIN,
        )
    return finish()


def _submitted(runs: Runs, token: str) -> float:
    start = time.perf_counter()
    run = runs.submit(RunRequest("local", "first.py", (token,)))
    while not _has_line(run.log_path, token):
        time.sleep(PAUSE)
    taken = time.perf_counter() - start
    while runs.get(run.run_id).is_active:
        time.sleep(PAUSE)
    return taken


def _has_line(path: str, token: str) -> bool:
    with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
        return f"{token}\n".encode() in file.read()
    return False


def _bare(python: str, folder: str, token: str) -> float:
    command = [str(spark_home(python) / "bin/spark-submit"), "--master", "local[*]", "first.py", token]
    start = time.perf_counter()
    variables = environment({"PYSPARK_PYTHON": python})
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=variables
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        taken = time.perf_counter() - start
        process.stdout.read()
        return taken


if __name__ == "__main__":
    sys.exit(main())
