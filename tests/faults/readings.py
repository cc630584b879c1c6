"""The commands and screens that read runs, configuration files and the user's state, in this process."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tui_workbench import cli
from tui_workbench.config.settings import load_settings
from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.model import Run
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.gpu.run_verdict import verdict_of
from tui_workbench.runs.index.table import RunQuery
from tui_workbench.runs.store.rundir import RunDirectory
from tui_workbench.ui.charts.chart_data import read_attempts, read_metrics, run_curves
from tui_workbench.ui.dashboard.dashboard_data import read_overview, read_page
from tui_workbench.ui.details import run_details_read as details
from tui_workbench.ui.details.run_details import head_lines
from tui_workbench.ui.details.run_details_panels import verdict_lines
from tui_workbench.ui.runs.compare import read_comparison, read_difference, rows_of
from tui_workbench.ui.session_state import load_session

SECONDS = 60
"""Time limit of a reading; those of this project need milliseconds."""

OF_RUN = (
    "history info", "history info --plain", "history info -o table", "history info -a outputs/model.txt",
    "history compare RUN OTHER", "history compare OTHER RUN --all -o json", "history compare OTHER RUN --diff",
    "logs RUN", "logs RUN --tail 3 -o json", "logs RUN --attempt 1", "experiment stacks --last",
    "project restore --dry-run", "experiment rerun --dry-run",
)  # fmt: skip
OF_PROJECT = (
    "history list", "history list -o table --all", "history list --plain", "history last", "history families",
    "history export --format csv EXPORTS/runs.csv", "history export --format mlflow EXPORTS/mlruns", "status",
    "status --line", "status -o json", "trace", "config check", "experiment clean --dry-run -t local",
    "computetarget list", "runconfiguration list", "experiment submit -c local --dry-run hello.py", "asset list",
)  # fmt: skip
OF_HOME = (
    "project recent", "agent list --all", "agent show 1", "notify list", "theme list", "theme check mine", "keys",
    "port list",
)  # fmt: skip


class Answer(NamedTuple):
    """The result of a reading: the exit code, the text, and a traceback or ""."""

    name: str  # in `Readings.names`
    what: str
    code: int
    text: str
    traceback: str = ""


class Readings:
    """Everything that reads the run `run_id` of the project at `root`, and the files of the project and the user.

    `other` is a run to compare with, and `exports` a folder for exported runs, which each reading clears.
    """

    def __init__(self, root: Path, run_id: str, other: str, exports: Path) -> None:
        self.root, self.run_id, self.other, self.exports = root, run_id, other, exports
        self.path = root / ".workbench" / "runs" / run_id

    @property
    def names(self) -> list[str]:
        return [*OF_RUN, *OF_PROJECT, *OF_HOME, *self._screens]

    def read(self, name: str) -> Answer:
        """Execute a reading of `names`."""
        if name in self._screens:
            return _screen(name, self._screens[name])
        places = {"RUN": self.run_id, "OTHER": self.other}
        words = [places.get(word, word.replace("EXPORTS", str(self.exports))) for word in name.split()]
        if name in OF_RUN and "RUN" not in name:
            words += ["--run-id" if name.startswith("project") else "-r", self.run_id]
        if name not in OF_HOME:
            project = ["--project", str(self.root)]
            words = [*words[:2], *project, *words[2:]] if "submit" in name else [*words, *project]
        return self._command(name, words)

    def _command(self, name: str, words: list[str]) -> Answer:
        shutil.rmtree(self.exports, ignore_errors=True)
        self.exports.mkdir()
        with _captured() as out:
            code, _, trace = _guarded(lambda: cli.run(words))
        return Answer(name, " ".join(words), code, out(), trace)

    @functools.cached_property
    def _screens(self) -> dict[str, Callable[[], object]]:
        project = Project.find(str(self.root))
        runs, now = Runs(project), time.time()

        def row() -> Any:
            return next(each for each in runs.page(RunQuery()).rows if each.run.run_id == self.run_id)

        def run() -> Run:
            return row().run  # type: ignore[no-any-return]

        def panels() -> None:
            verdict = verdict_of(RunDirectory(str(self.path)))
            if verdict is not None:
                verdict_lines(verdict, 80)

        def comparison() -> None:
            both = [run(), runs.get(self.other)]
            found, names = read_comparison(project, both)
            rows_of(found, 0, show_same=True, words="a")
            for each in found.rows[:40]:
                read_difference(project, found, each, 0, 1)
            for name in names:
                run_curves([(both[0], 0), (both[1], 1)], name)

        def metrics() -> None:
            found = read_metrics(run())
            for name, summary in found.summary().items():
                found.series(name)
                details.logged_lines(found.items(summary.kind))

        def outputs() -> None:
            for name, _ in details.outputs_of(run()):
                with contextlib.suppress(WorkbenchError):
                    details.output_preview(run(), name, 80)

        def dashboard() -> None:
            read_overview(project, RunQuery(group="family"))
            for sort in ("created", "loss", "gpu_seconds", "argument lr"):
                read_page(project, RunQuery(sort=sort, filter="-zzz"), frozenset(), 0, 50)

        return {
            "screen: table": dashboard,
            "screen: head": lambda: (head_lines(row(), 80), head_lines(row(), 20)),
            "screen: plan": lambda: details.plan_of(run(), now),
            "screen: environment": lambda: (details.environment_of(run()), details.gpu_of(run())),
            "screen: spark": lambda: details.uses_spark(run()),
            "screen: verdict": panels,
            "screen: attempts": lambda: read_attempts(str(self.path)),
            "screen: metrics": metrics,
            "screen: outputs": outputs,
            "screen: comparison": comparison,
            "screen: session": lambda: (load_session(str(self.root)), load_settings()),
        }


def _screen(name: str, reading: Callable[[], object]) -> Answer:
    def call() -> int:
        reading()
        return 0

    code, error, trace = _guarded(call)
    return Answer(name, name, code, error, trace)


def _guarded(call: Callable[[], int]) -> tuple[int, str, str]:
    """Return the exit code of a call, the text of its error or "", and its traceback or "".

    A call that takes too long is ended.
    """

    def too_long(*_: object) -> None:
        raise TimeoutError(f"longer than {SECONDS} s")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(SECONDS)
    try:
        return call(), "", ""
    except WorkbenchError as error:
        return error.exit_code, "\n".join(error.lines), ""
    except (Exception, SystemExit):
        return 1, "", traceback.format_exc()
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def _captured() -> Iterator[Callable[[], str]]:
    """Replace the standard streams by files, as `main` prepares them; yield a function that returns the text."""
    sys.stdout.flush()
    sys.stderr.flush()
    old = sys.stdout, sys.stderr, os.dup(1), os.dup(2)
    file = os.memfd_create("captured") if hasattr(os, "memfd_create") else os.open("/tmp", os.O_TMPFILE | os.O_RDWR)
    os.dup2(file, 1)
    os.dup2(file, 2)
    sys.stdout, sys.stderr = (
        io.TextIOWrapper(io.FileIO(number, "w", closefd=False), "utf-8", errors="backslashreplace") for number in (1, 2)
    )
    text = ""

    try:
        yield lambda: text
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os.lseek(file, 0, os.SEEK_SET)
        with open(file, "rb") as whole:
            text = whole.read().decode("utf-8", "replace")
        os.dup2(old[2], 1)
        os.dup2(old[3], 2)
        os.close(old[2])
        os.close(old[3])
        sys.stdout, sys.stderr = old[0], old[1]
