"""The output of YARN's commands, in the formats of Hadoop's ApplicationCLI."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runs.support import record_of
from tui_workbench.core.causes import APPLICATION_FAILED, APPLICATION_KILLED, APPLICATION_UNKNOWN, Cause, exit_causes
from tui_workbench.core.errors import WorkbenchError
from tui_workbench.targets.hosts.host import LocalHost
from tui_workbench.targets.hosts.host_run import HostRun
from tui_workbench.targets.remote.yarn import ApplicationReport, YarnRun, listed, outcome_of, parse_report
from tui_workbench.targets.values import Outcome

LIST = """\
Total number of applications (application-types: [], states: [NEW, RUNNING] and tags: [p_1]):2
                Application-Id\t    Application-Name\t    Application-Type
application_1795443313376_0009\t            train.py\t               SPARK
application_1795443313376_10000\t            train.py\t               SPARK
"""
REPORT = """\
Application Report :\x20
\tApplication-Id : application_1_0001
\tApplication-Name : train.py
\tState : FINISHED
\tFinal-State : FAILED
\tTracking-URL : http://rm:18080/history
\tLog Aggregation Status : SUCCEEDED
\tDiagnostics : User application exited with status 3
\tFinal-State : SUCCEEDED
\tUnmanaged Application : false
"""


def test_newest_application_of_a_list_is_found() -> None:
    assert listed(LIST) == "application_1795443313376_10000"
    assert listed("Total number of applications (states: [] and tags: [application_1_0001 ]):0\n") == ""


def test_lines_within_diagnostics_do_not_change_the_status() -> None:
    found = parse_report(REPORT)
    assert found == ApplicationReport("FINISHED", "FAILED", "User application exited with status 3")
    assert found.has_ended
    assert not parse_report("Application with id 'application_1_0001' doesn't exist in RM.").has_ended


FAILED = Cause(APPLICATION_FAILED, {"application": "a_1"})


@pytest.mark.parametrize(
    ("state", "final", "diagnostics", "expected"),
    [
        ("FINISHED", "SUCCEEDED", "", Outcome(0)),
        ("FINISHED", "FAILED", "User application exited with status 3", Outcome(3, (*exit_causes(3), FAILED))),
        ("FINISHED", "FAILED", "Max number of executor failures", Outcome(
            None, (FAILED._replace(facts={**FAILED.facts, "error": "Max number of executor failures"}),),
            has_failed=True)),
        ("KILLED", "KILLED", "N/A", Outcome(None, (Cause(APPLICATION_KILLED, FAILED.facts),), has_failed=True)),
        ("FINISHED", "UNDEFINED", "", Outcome(None, (Cause(APPLICATION_UNKNOWN, FAILED.facts),))),
        ("FINISHED", "FAILED", "exited with status 0", Outcome(
            None, (FAILED._replace(facts={**FAILED.facts, "error": "exited with status 0"}),), has_failed=True)),
    ],
)  # fmt: skip
def test_outcome_is_the_final_status(state: str, final: str, diagnostics: str, expected: Outcome) -> None:
    assert outcome_of("a_1", ApplicationReport(state, final, diagnostics)) == expected


# `yarn` knows one application that has ended. As Hadoop's LogsCLI, it exits with 0 while the log is not collected yet.
YARN = """\
#!/bin/sh
case $* in
    *-list*) echo 'application_1_0001 train.py' ;;
    *-status*) printf '\\tState : FINISHED\\n\\tFinal-State : SUCCEEDED\\n' ;;
    *)
        case $* in *ALL*) echo 'Specified ALL for -am option. Printed logs for all am containers.' ;; esac
        [ ! -e "$0.collected" ] || echo 'line of the driver' ;;
esac
"""
COLLECTING_SLEEP = '#!/bin/sh\n: >"${0%/*}/yarn.collected"\n'
DYING_TAIL = """\
#!/bin/sh
case $* in *driver.log) /usr/bin/tail "$@" | head -c 30; kill -KILL "$PPID" ;; *) exec /usr/bin/tail "$@" ;; esac
"""
LOG = """\
before

======== The log of the driver, fetched at the end of application_1_0001:
line of the driver
"""


class Head:
    """This machine as a head node, with a run and a stand-in of YARN."""

    def __init__(self, folder: Path) -> None:
        spec = record_of(folder / "project" / ".workbench" / "runs" / "exp_1").spec
        run = HostRun(LocalHost(), spec)
        self.yarn = YarnRun(LocalHost(), run, spec)
        self.log = Path(run.directory, "output.log")
        self.log.parent.mkdir(parents=True)
        self.log.write_text("before\n")
        self.programs = folder / "bin"
        self.programs.mkdir()
        self.command("yarn", YARN)
        self.command("sleep", COLLECTING_SLEEP)

    def command(self, name: str, text: str) -> None:
        (self.programs / name).write_text(text)
        (self.programs / name).chmod(0o755)


@pytest.fixture
def head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Head:
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    return Head(tmp_path)


def test_log_of_the_driver_is_fetched_when_it_is_collected(head: Head) -> None:
    assert head.yarn.outcome(0) == Outcome(0)
    assert head.log.read_text() == LOG


def test_killed_request_adds_the_log_of_the_driver_once(head: Head) -> None:
    head.command("tail", DYING_TAIL)
    with pytest.raises(WorkbenchError):
        head.yarn.outcome(0)
    assert head.log.stat().st_size == len("before\n") + 30
    (head.programs / "tail").unlink()
    assert head.yarn.outcome(0) == head.yarn.outcome(0) == Outcome(0)
    assert head.log.read_text() == LOG
