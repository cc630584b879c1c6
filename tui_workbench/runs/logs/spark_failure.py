"""Search the end of a log for the reason why Spark did not start the script."""

from __future__ import annotations

import re
from contextlib import suppress

from tui_workbench.core.files import read_end
from tui_workbench.runs.logs.log_traceback import MOST_CHARACTERS

TAIL_BYTES = 1 << 17

# Ivy names a package as `group#artifact;version`.
_UNRESOLVED = re.compile(r"unresolved dependency: ([\w.-]+)#([\w.-]+);([\w.-]+): not found")
_OLD_JAVA = re.compile(r"UnsupportedClassVersionError|Unrecognized option: --add-|Unrecognized VM option")
_NO_MASTER = re.compile(r"All masters are unresponsive|Could not parse Master URL: '([^'\n]+)'")


def spark_failure(path: str) -> str:
    """Return the reason if the log at `path` shows that Spark itself failed, or ""."""
    text = ""
    with suppress(OSError):
        text = read_end(path, TAIL_BYTES).decode("utf-8", "replace")
    if packages := list(dict.fromkeys(":".join(found) for found in _UNRESOLVED.findall(text))):
        return f"Spark cannot download {', '.join(packages)}: check the repositories and the network"[:MOST_CHARACTERS]
    if _OLD_JAVA.search(text):
        return "its Java does not work with this Spark: Spark 4 needs Java 17 or newer, Spark 2 needs Java 8"
    if found := _NO_MASTER.search(text):
        return f"invalid Spark master {found[1]!r}" if found[1] else "the Spark master does not answer"
    return ""
