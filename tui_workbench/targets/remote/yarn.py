"""Wait for and kill YARN applications whose Spark driver runs in the cluster, and fetch the log of the driver.

The application is found by its tag, the ID of the run. `spark-submit` only waits for the application, which continues
if `spark-submit` or its shell is killed. Therefore the final status that YARN reports, not the exit code of
`spark-submit`, is the outcome of the run. Then the log of the driver is appended once to output.log on the head node.

The formats of `yarn application -list` and `-status` are those of Hadoop's ApplicationCLI, versions 2.9 and 3.
"""

from __future__ import annotations

import io
import re
import zipfile
from typing import NamedTuple

from tui_workbench.core.causes import (
    APPLICATION_FAILED,
    APPLICATION_KILLED,
    APPLICATION_UNKNOWN,
    NO_APPLICATION,
    Cause,
    exit_causes,
)
from tui_workbench.core.errors import ConfigurationError, TargetUnreachable
from tui_workbench.core.model import RunSpec
from tui_workbench.core.plaintext import visible
from tui_workbench.core.shell_scripts import shell_script
from tui_workbench.projects.project import line_of_key
from tui_workbench.targets.base import spark
from tui_workbench.targets.hosts.host import Completed, Host
from tui_workbench.targets.hosts.host_run import HostRun
from tui_workbench.targets.hosts.sdk import sdk_files
from tui_workbench.targets.values import Outcome

ANSWER_SECONDS = 120.0
"""Time limit for an answer from YARN, whose client starts a JVM and may try several resource managers."""

LOG_SECONDS = 600.0
"""Time limit for fetching a log, which YARN may have to collect first."""

LOG_BYTES = 16 << 20
"""Maximum number of bytes of the driver's log to keep. The beginning of a longer log is dropped."""

MOST_CHARACTERS = 300
"""Maximum number of characters of YARN's diagnostics in a reason."""

_SUCCEEDED = "SUCCEEDED"
_ENDED = frozenset(("FINISHED", "FAILED", "KILLED"))

_LISTED = re.compile(r"^\s*(application_\d{1,20}_\d{1,10})\s", re.MULTILINE)
_FIELD = re.compile(r"^\s*(State|Final-State|Diagnostics) : (.*)$", re.MULTILINE)
# Spark's ApplicationMaster reports the exit code of the script in this form.
_EXIT_CODE = re.compile(r"User application exited with (?:status )?(\d{1,3})\b")

_APPEND_LOG = shell_script("targets/remote/scripts/append_driver_log.sh")


class ApplicationReport(NamedTuple):
    """YARN's report on an application."""

    state: str = ""
    final_state: str = ""
    diagnostics: str = ""  # the first line

    @property
    def has_ended(self) -> bool:
        return self.state in _ENDED


def listed(text: str) -> str:
    """Return the newest application in the output of `yarn application -list`; "" for none."""
    return max(_LISTED.findall(text), default="", key=lambda name: [int(part) for part in name.split("_")[1:]])


def parse_report(text: str) -> ApplicationReport:
    """Parse the output of `yarn application -status`.

    Only the first line of each field counts, because the diagnostics may contain similar lines.
    """
    fields: dict[str, str] = {}
    for name, value in _FIELD.findall(text):
        fields.setdefault(name, value.strip())
    return ApplicationReport(fields.get("State", ""), fields.get("Final-State", ""), fields.get("Diagnostics", ""))


def outcome_of(application: str, report: ApplicationReport) -> Outcome:
    """Return the outcome of a run, by the final status of its application."""
    facts = {"application": application}
    if report.final_state == _SUCCEEDED:
        return Outcome(0)
    if report.final_state not in ("FAILED", "KILLED"):
        return Outcome(None, (Cause(APPLICATION_UNKNOWN, facts),))
    failed = Cause(APPLICATION_KILLED if report.final_state == "KILLED" else APPLICATION_FAILED, facts)
    code = _EXIT_CODE.search(report.diagnostics)
    if report.final_state == "FAILED" and code and 0 < int(code[1]) < 256:
        return Outcome(int(code[1]), (*exit_causes(int(code[1])), failed))
    if report.diagnostics not in ("", "N/A"):
        failed = failed._replace(facts={**facts, "error": visible(report.diagnostics[:MOST_CHARACTERS])})
    return Outcome(None, (failed,), has_failed=True)


def prepare(host: Host, run: HostRun, spec: RunSpec) -> None:
    """Look for `yarn`, and write the SDK into the run's directory, for a driver on another node.

    Raises WorkbenchError.
    """
    if host.run(["sh", "-c", "command -v yarn"]).code:
        raise ConfigurationError(
            f"`yarn` is not on the PATH of an SSH login on {host.label}",
            remedy=f"Add its folder to the PATH of SSH logins, or set `{spark.DEPLOY_MODE_KEY}: client`.",
            file=spec.target.path,
            line=line_of_key(spec.target.path, spark.DEPLOY_MODE_KEY),
        )
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sdk_files().items():
            archive.writestr(name, content)
    run.write(spark.SDK_ARCHIVE, packed.getvalue())


class YarnRun:
    """The application of a run."""

    def __init__(self, host: Host, run: HostRun, spec: RunSpec) -> None:
        self._host = host
        self._run = run
        self._spec = spec

    @property
    def is_used(self) -> bool:
        """True if the run was prepared for a driver in the cluster. Raises TargetUnreachable."""
        if not spark.wants_cluster_mode(self._spec):
            return False
        # The file with the Spark master may have changed since the run was prepared.
        return self._host.run(["test", "-e", self._run.file(spark.SDK_ARCHIVE)]).code == 0

    def outcome(self, submit_code: int | None) -> Outcome | None:
        """Return the outcome of the application, and fetch its log; return None while it runs.

        `submit_code` is the exit code of `spark-submit`, or None if it was killed. Raises WorkbenchError.
        """
        application = self._find()
        if not application:
            return _without_application(submit_code)
        report = self._report(application)
        if not report.has_ended:
            return None
        self._fetch_log(application)
        return outcome_of(application, report)

    def kill(self) -> None:
        """Kill the application, unless it has ended, and fetch its log. Raises WorkbenchError."""
        application = self._find()
        if not application:
            return
        if not self._report(application).has_ended:
            # This call returns when YARN has killed the application.
            self._ask("application", "-kill", application)
        self._fetch_log(application)

    def _find(self) -> str:
        tag = spark.tag_of(self._spec.run_id)
        return listed(self._ask("application", "-list", "-appTags", tag, "-appStates", "ALL").text)

    def _report(self, application: str) -> ApplicationReport:
        return parse_report(self._ask("application", "-status", application).text)

    def _fetch_log(self, application: str) -> None:
        words = ["sh", "-c", _APPEND_LOG, "sh", self._run.directory, application, str(LOG_BYTES)]
        self._run.require(self._host.run(words, timeout=LOG_SECONDS), "fetch the log of the driver")

    def _ask(self, *words: str) -> Completed:
        done = self._host.run(["yarn", *words], timeout=ANSWER_SECONDS)
        if done.code:
            raise TargetUnreachable(
                f"YARN on {self._host.label} does not answer: {done.complaint}",
                remedy="Wait: the application continues. Check that `yarn node -list` works on that machine.",
            )
        return done


def _without_application(submit_code: int | None) -> Outcome:
    """Return the outcome of a run whose tag YARN does not know."""
    if submit_code:
        return Outcome(submit_code, exit_causes(submit_code))
    return Outcome(None, (Cause(NO_APPLICATION, {"killed": submit_code is None}),))
