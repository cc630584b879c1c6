"""Time from the key on Run to the first line of the script in the log view, compared with `python script`.

The workbench is open on a project with an untracked run configuration. The baseline is the time to the first byte of
the script in a pipe. Every run prints a new token, so that an old frame cannot count.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
import time

from benchmarks.harness import compare, environment, finish, python
from benchmarks.terminal import Terminal

ROUNDS = 20
PLUS_SECONDS = 0.030
CTRL_R = "\x12"

SCRIPT = "import os\nprint(open('token').read())\n"
COMPUTE = 'type: "local"\npythonLocation: "{python}"\n'
RUNCONFIG = 'Target: "local"\nArgumentVector:\n  - "first.py"\nFramework: "Python"\nTrackedRun: false\n'


def main() -> int:
    """Run the benchmark."""
    with tempfile.TemporaryDirectory() as folder:
        project = _project(os.path.join(folder, "project"))
        tokens = (f"token-{number}-end" for number in itertools.count())
        with Terminal([python(), "-m", "tui_workbench", project], directory=folder) as terminal:
            terminal.until_text("first.py")
            terminal.until_text("ready")
            terminal.settle(0.5)

            def key_to_line() -> float:
                token = _write_token(project, next(tokens))
                pressed = terminal.send(CTRL_R)
                shown = terminal.until_text(token)
                terminal.settle(0.5)
                return shown - pressed

            def script_alone() -> float:
                _write_token(project, next(tokens))
                return _first_byte(project)

            compare(
                "key on Run to the script's first line in the log view",
                key_to_line,
                script_alone,
                limit=1.0,
                rounds=ROUNDS,
                baseline_name="python script to its first byte",
                plus=PLUS_SECONDS,
            )
    return finish()


def _project(root: str) -> str:
    configuration = os.path.join(root, "aml_config")
    os.makedirs(configuration)
    for path, text in (
        (os.path.join(configuration, "local.compute"), COMPUTE.format(python=python())),
        (os.path.join(configuration, "local.runconfig"), RUNCONFIG),
        (os.path.join(root, "first.py"), SCRIPT),
    ):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    return root


def _write_token(project: str, token: str) -> str:
    with open(os.path.join(project, "token"), "w", encoding="ascii") as file:
        file.write(token)
    return token


def _first_byte(project: str) -> float:
    start = time.perf_counter()
    with subprocess.Popen(
        [python(), "-u", "first.py"], cwd=project, stdout=subprocess.PIPE, env=environment()
    ) as process:
        assert process.stdout is not None
        process.stdout.read(1)
        taken = time.perf_counter() - start
        process.stdout.read()  # it would complain of a pipe that nobody reads
        return taken


if __name__ == "__main__":
    sys.exit(main())
