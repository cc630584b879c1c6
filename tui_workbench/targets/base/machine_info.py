"""What a run runs on: the packages that its interpreter finds, the interpreter, the image, the machine, its GPUs.

Asked of what really runs it: the interpreter itself, the container's image, the machine's driver. Each part that could
not be learned is missing and named among the problems; nothing is guessed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.model import RunSpec
from tui_workbench.targets.gpu.gpus import gpus_of
from tui_workbench.targets.hosts.host import Host

SECONDS = 60.0
"""For an interpreter on a cold network disk with hundreds of packages."""

_MARK = "workbench-surroundings:"

# For whatever Python a project uses: 2.7 and 3.5 run it too. The folder that it stands in is not to be searched.
PROGRAM = r"""
import sys
if sys.path[:1] == [""]:
    del sys.path[0]
import json, os, platform
found = {"problems": {}}
try:
    os.nice(10)
except Exception:
    pass
def packages():
    try:
        from importlib.metadata import distributions
    except ImportError:
        import pkg_resources
        return dict((each.project_name, each.version) for each in pkg_resources.working_set)
    known = {}
    for each in distributions():
        name = each.metadata["Name"]
        if name and name not in known:
            known[name] = each.version
            try:
                origin = json.loads(each.read_text("direct_url.json") or "{}")
                commit = origin.get("vcs_info", {}).get("commit_id", "")
                if origin.get("url"):
                    known[name] += " @ " + origin["url"] + ("@" + commit if commit else "")
            except (ValueError, AttributeError, OSError):
                pass
    return known
def python():
    return {"executable": sys.executable, "version": platform.python_version(), "prefix": sys.prefix,
            "implementation": platform.python_implementation(), "libc": " ".join(platform.libc_ver()).strip()}
for name, ask in (("packages", packages), ("python", python)):
    try:
        found[name] = ask()
    except Exception as error:
        found["problems"][name] = "%s: %s" % (type(error).__name__, error)
print("workbench-surroundings:" + json.dumps(found))
"""

# A line each: name, system and release, machine, processors, kilobytes of memory.
_HOST = """\
uname -n; uname -sr; uname -m; getconf _NPROCESSORS_ONLN
sed -n 's/^MemTotal: *\\([0-9]*\\).*/\\1/p' /proc/meminfo
"""


def interpreter_info(host: Host, spec: RunSpec, interpreter: str) -> dict[str, Any]:
    """What an interpreter says, with the Python path that the run configuration sets, and what its host is."""
    path = spec.run_configuration.environment_variables.get("PYTHONPATH")
    around = ["env", f"PYTHONPATH={path}"] if path else []
    done = host.run([*around, interpreter, "-c", PROGRAM], timeout=SECONDS)
    _, mark, answer = done.text.rpartition(_MARK)
    found = host_info(host, with_gpus=True)
    try:
        told = json.loads(answer.split("\n")[0]) if mark else {}
        found.get("host", {})["libc"] = told.get("python", {}).pop("libc", "")
        return {**found, **told, "problems": {**found["problems"], **told["problems"]}}
    except (ValueError, TypeError, KeyError):
        found["problems"]["packages"] = f"{interpreter} did not tell them: {done.complaint}"
        return found


def host_info(host: Host, *, with_gpus: bool) -> dict[str, Any]:
    """What a machine is, and with `with_gpus` which GPUs it has."""
    found: dict[str, Any] = {"problems": {}}

    def note(name: str, ask: Callable[[], Any]) -> None:
        try:
            found[name] = ask()
        except WorkbenchError as error:
            found["problems"][name] = str(error)

    note("host", lambda: _host(host))
    note("gpus", lambda: [gpu._asdict() for gpu in gpus_of(host).found] if with_gpus else [])
    return found


def _host(host: Host) -> dict[str, Any]:
    lines: Sequence[str] = host.run(["sh", "-c", _HOST]).text.split("\n")
    names = ("name", "system", "machine", "processors", "memory")
    found: dict[str, Any] = dict(zip(names, lines, strict=False))
    for name, unit in (("processors", 1), ("memory", 1024)):
        if found.get(name, "").isdigit():
            found[name] = int(found[name]) * unit
    return found
