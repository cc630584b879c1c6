"""`experiment rerun` and `experiment sweep`."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import Installed
from tests.faults.support import Result, until
from tests.runs.support import write_configuration, write_files

pytestmark = pytest.mark.processes

REPORT = "import json, os, sys\nprint(json.dumps([*sys.argv[1:], os.environ.get('WORD')]))\n"
GATED = "import sys\nprint('began', flush=True)\nopen(sys.argv[1]).read()\n"


@pytest.fixture
def workbench(project_root: Path) -> Installed:
    write_files(project_root, {"report.py": REPORT, "gated.py": GATED, "fails.py": "raise SystemExit(3)"})
    write_configuration(project_root, TrackedRun=True)
    return Installed(project_root)


def said(result: Result) -> Any:
    assert result.code == 0, result
    return json.loads(result.out.splitlines()[1])


class TestRerun:
    def test_rerun_repeats_or_changes_the_arguments(self, workbench: Installed) -> None:
        workbench.submit("report.py", "a b", "--", "-x")
        (workbench.folder / "report.py").unlink()
        rerun = ("experiment", "rerun", "-r", "1")
        assert said(workbench.run(*rerun)) == ["a b", "--", "-x", None]
        assert said(workbench.run(*rerun, "--env", "WORD=w=x", "--", "--epochs", "3")) == ["--epochs", "3", "w=x"]
        assert workbench.run(*rerun, "--script", "fails.py").code == 3

    def test_rerun_has_dry_run_and_detach(self, workbench: Installed) -> None:
        run_id = workbench.detach("report.py")
        plan = workbench.run("experiment", "rerun", "-r", run_id, "--dry-run", "-o", "json")
        assert json.loads(plan.out)["steps"][0]["title"] == f"use the snapshot of {run_id}"
        record = json.loads(workbench.run("experiment", "rerun", "-r", run_id, "--detach", "-o", "json").out)
        assert record["properties"]["CommitId"] == workbench.info(run_id)["properties"]["CommitId"]

    def test_rerun_reports_mistakes(self, workbench: Installed) -> None:
        workbench.submit("report.py")
        workbench.run("experiment", "rerun", "-r", "9").error(2, "no run '9'")
        workbench.run("experiment", "rerun", "-r", "1", "--env", "X").error(2, "not NAME=VALUE")
        workbench.run("experiment", "rerun", "-r", "1", "--env", "API_KEY=1").error(2, "is a secret")
        workbench.run("experiment", "rerun", "-r", "1", "--script", "none.py").error(2, "has no script none.py")


class TestSweep:
    def test_sweep_runs_every_combination(self, workbench: Installed) -> None:
        sweep = ("experiment", "sweep", "-c", "local", "--param", "lr=0.1,0.01", "--max-parallel", "2")
        result = workbench.run(*sweep, "report.py", "--n", "{lr}")
        assert (result.code, result.err) == (0, "")
        lines = result.out.splitlines()
        assert lines[0] == "Sweep: sweep-1 (2 runs, 2 at a time)"
        assert {line.rpartition("  ")[0] for line in lines[1:]} == {"[1] report.py --n 0.1", "[2] report.py --n 0.01"}
        assert [record["sweep_id"] for record in workbench.history()] == ["sweep-1", "sweep-1"]

    def test_repeated_submit_is_a_family(self, workbench: Installed) -> None:
        write_files(
            workbench.folder, {"seeded.py": "import sys, workbench\nworkbench.log('loss', int(sys.argv[-1]))\n"}
        )
        submit = ("experiment", "submit", "-c", "local", "--repeat", "2")
        assert workbench.run(*submit, "--dry-run", "--seed-variable", "S", "seeded.py").out == (
            "1. S=1 seeded.py\n2. S=2 seeded.py\n"
        )
        workbench.run(*submit, "--dry-run", "--max-parallel", "0", "seeded.py").error(2, "parallel runs: 0")
        for _ in range(2):
            assert workbench.run(*submit, "--max-parallel", "2", "seeded.py").code == 0
        table = workbench.run("history", "families").out.splitlines()
        assert [line.split() for line in table[2:]] == [
            [f"sweep-{number}.1", "seeded.py", "2", "1.50", "±", "0.71", "(n", "=", "2)"] for number in (2, 1)
        ]
        compared = workbench.run("history", "compare", "sweep-1.1", "sweep-2.1")
        assert "not distinguishable yet: the difference is 0.0 ± 3.0, n = 2 each" in compared.out
        shown = workbench.run(*submit, "--seed-variable", "S", "report.py").out
        assert "[5] S=1 report.py  completed" in shown
        assert "[6] S=2 report.py  completed" in shown
        for words, part in (
            (("--seed-argument", "x"), "need --repeat"),
            (("--max-parallel", "2"), "needs --repeat"),
            (("--repeat", "1"), "does not repeat anything"),
            (("--repeat", "2", "--seed-argument=--seed"), "is not a valid name"),
            (("--repeat", "2", "--seed-argument", ""), "--seed-argument '' is not a valid name"),
            (("--repeat", "2", "--seed-variable", ""), "--seed-variable '' is not a valid name"),
            (("--repeat", "2", "--seed-variable", "PATH"), "would replace a variable of the system"),
            (("--repeat", "2", "--seed-variable", "WORKBENCH_RUN_ID"), "would replace a variable of the system"),
            (("--repeat", "2", "--after", "1"), "--repeat cannot be used with --keep-outputs or --after"),
        ):
            workbench.run("experiment", "submit", "-c", "local", *words, "seeded.py").error(2, part)

    def test_failed_run_fails_the_sweep(self, workbench: Installed) -> None:
        result = workbench.run("experiment", "sweep", "-c", "local", "--param", "n=1", "fails.py")
        assert result.code == 1
        assert "[1] fails.py --n 1  failed" in result.out
        assert "exit code 3" in result.out

    def test_dry_run_creates_no_runs(self, workbench: Installed) -> None:
        sweep = ("experiment", "sweep", "-c", "local", "--param", "lr=loguniform(1e-4,1)", "--random", "2")
        text = workbench.run(*sweep, "--dry-run", "report.py")
        assert text.out == workbench.run(*sweep, "--dry-run", "report.py").out != ""
        rows = json.loads(workbench.run(*sweep, "--dry-run", "-o", "json", "report.py", "x").out)
        assert [row["arguments"] for row in rows] == [["x", "--lr", row["values"]["lr"]] for row in rows]
        assert workbench.history() == []

    def test_list_is_added_to_the_configured_arguments(self, workbench: Installed) -> None:
        write_configuration(workbench.folder, TrackedRun=True, ArgumentVector=["report.py", "-q"])
        write_files(workbench.folder, {"values.csv": "a,b\n1,x y\n"})
        result = workbench.run("experiment", "sweep", "-c", "local", "--list", "values.csv")
        assert "[1] report.py -q --a 1 --b x y  completed" in result.out

    def test_interrupted_sweep_continues_until_canceled(self, workbench: Installed) -> None:
        os.mkfifo(workbench.folder / "gate")
        process = workbench.start(
            "experiment", "sweep", "-c", "local", "--param", "n=1,2", "gated.py", str(workbench.folder / "gate")
        )
        out = process.stdout
        assert out is not None
        until(lambda: b"running" in out.readline(), "the first")
        until(lambda: len(workbench.history()) == 2, "the second")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
        assert process.returncode == 130
        assert b"experiment cancel --group sweep-1" in err
        canceled = json.loads(workbench.run("experiment", "cancel", "--group", "sweep-1").out)
        assert [record["reason"] for record in canceled] == ["canceled before it started"]
        rest = json.loads(workbench.run("experiment", "cancel", "--group", "sweep-1", "--all", "--grace", "0").out)
        assert [record["status"] for record in rest] == ["Canceled"]

    @pytest.mark.parametrize(
        ("words", "part"),
        [
            (("report.py",), "either --param or --list"),
            (("--param", "n=1", "--list", "x.csv", "report.py"), "either --param or --list"),
            (("--param", "n", "report.py"), "needs a valid name and values"),
            (("--param", "n=1", "none.py"), "none.py does not exist"),
            (("--param", "n=uniform(0,1)", "report.py"), "--random N"),
            (("--param", "n=1,2", "--random", "0", "report.py"), "--random 0 starts no runs"),
            (("--param", "n=1", "--max-parallel", "0", "report.py"), "parallel runs: 0"),
            (("--param", "n=1", "-o", "json", "report.py"), "--detach or --dry-run"),
        ],
    )
    def test_sweep_reports_mistakes(self, workbench: Installed, words: tuple[str, ...], part: str) -> None:
        workbench.run("experiment", "sweep", "-c", "local", *words).error(2, part)
        assert workbench.history() == []

    def test_cancel_needs_a_run_or_a_group(self, workbench: Installed) -> None:
        workbench.run("experiment", "cancel").error(2, "either --run or --group")
        workbench.run("experiment", "cancel", "--group", "sweep-9").error(2, "no sweep 'sweep-9'")
