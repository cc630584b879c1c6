"""Search the end of a log for the reason why Spark did not start the script."""

from __future__ import annotations

import re
from contextlib import suppress

from tui_workbench.core import causes
from tui_workbench.core.causes import Cause
from tui_workbench.core.files import read_end
from tui_workbench.runs.logs.log_traceback import MOST_CHARACTERS
from tui_workbench.runs.logs.spark_events import read_spark
from tui_workbench.runs.store.rundir import WORKING_COPY

TAIL_BYTES = 1 << 17

# Ivy names a package as `group#artifact;version`.
_UNRESOLVED = re.compile(r"unresolved dependency: ([\w.-]+)#([\w.-]+);([\w.-]+): not found")
# The first three messages come from a Java that is too old, and the others from a Java that is too new.
_OTHER_JAVA = re.compile(
    r"UnsupportedClassVersionError|Unrecognized option: --add-|Unrecognized VM option|"
    r"Unsupported class file major version|does not export sun\.nio\.ch|getSubject is not supported"
)
_NO_YARN = "either HADOOP_CONF_DIR or YARN_CONF_DIR must be set"
_NO_FILE = re.compile(r"FileNotFoundException|Path does not exist|does not exist")
_LOST_TASK = re.compile(r"\A.*most recent failure: Lost task [^:]*?\(TID \d+\)(?: \([^)]*\))?: ")
_NO_MASTER = re.compile(r"All masters are unresponsive|Could not parse Master URL: '([^'\n]+)'")


def stage_failure(directory: str, run_id: str) -> str:
    """Return why the last failed stage of a run failed, from Spark's event log in its directory; "" if none failed."""
    applications = read_spark(directory)
    failed = [(session.master, stage) for session in applications for stage in session.stages if stage.failure]
    if not failed:
        return ""
    master, stage = failed[-1]
    failure = _LOST_TASK.sub("", stage.failure)
    if not master.startswith("local") and _NO_FILE.search(failure) and f"/{run_id}/{WORKING_COPY}/" in failure:
        return f"{failure}: executors on other machines cannot read the working copy of the run"
    return failure


def spark_failure(path: str) -> Cause | None:
    """Return the cause if the log at `path` shows that Spark itself failed, or None."""
    text = ""
    with suppress(OSError):
        text = read_end(path, TAIL_BYTES).decode("utf-8", "replace")
    if packages := list(dict.fromkeys(":".join(match) for match in _UNRESOLVED.findall(text))):
        return Cause(causes.SPARK_PACKAGES, {"packages": ", ".join(packages)[:MOST_CHARACTERS]})
    if _OTHER_JAVA.search(text):
        return Cause(causes.SPARK_JAVA)
    if _NO_YARN in text:
        return Cause(causes.SPARK_NO_HADOOP)
    if match := _NO_MASTER.search(text):
        master = match[1]
        return Cause(causes.SPARK_MASTER_INVALID, {"master": master}) if master else Cause(causes.SPARK_MASTER_SILENT)
    return None
