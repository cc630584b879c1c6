"""Facts about the environment of a run: packages, interpreter, machine and GPUs.

The facts come from the interpreter and the machine that execute the run. A fact that cannot be read is missing, and
`problems` contains the error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.json_values import parse_json
from tui_workbench.core.model import RunSpec
from tui_workbench.targets.gpu.gpus import gpus_of
from tui_workbench.targets.hosts.host import Host

SECONDS = 60.0
"""Time limit in seconds, long enough for an interpreter with hundreds of packages on a cold network disk."""

_MARK = "workbench-machine-info:"

# Runs on Python 2.7 and 3.5 as well. Removes the current folder from the module search path.
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
for name, read in (("packages", packages), ("python", python)):
    try:
        found[name] = read()
    except Exception as error:
        found["problems"][name] = "%s: %s" % (type(error).__name__, error)
print("workbench-machine-info:" + json.dumps(found))
"""

# Prints five lines: name, system and release, machine, number of processors, kilobytes of memory.
_HOST = """\
uname -n; uname -sr; uname -m; getconf _NPROCESSORS_ONLN
sed -n 's/^MemTotal: *\\([0-9]*\\).*/\\1/p' /proc/meminfo
"""


def interpreter_info(host: Host, spec: RunSpec, interpreter: str) -> dict[str, Any]:
    """Return facts about an interpreter and its host. The interpreter gets the PYTHONPATH of the run configuration."""
    path = spec.run_configuration.environment_variables.get("PYTHONPATH")
    environment = ["env", f"PYTHONPATH={path}"] if path else []
    done = host.run([*environment, interpreter, "-c", PROGRAM], timeout=SECONDS)
    _, mark, answer = done.text.rpartition(_MARK)
    found = host_info(host, with_gpus=True)
    try:
        facts = parse_json(answer.split("\n")[0]) if mark else {}
        found.get("host", {})["libc"] = facts.get("python", {}).pop("libc", "")
        return {**found, **facts, "problems": {**found["problems"], **facts["problems"]}}
    except (ValueError, TypeError, KeyError, AttributeError):
        found["problems"]["packages"] = f"{interpreter} did not list its packages: {done.complaint}"
        return found


def host_info(host: Host, *, with_gpus: bool) -> dict[str, Any]:
    """Return facts about a machine and, with `with_gpus`, about its GPUs."""
    found: dict[str, Any] = {"problems": {}}
    parts: dict[str, Callable[[], Any]] = {
        "host": lambda: _host(host),
        "gpus": lambda: [gpu._asdict() for gpu in gpus_of(host).listed] if with_gpus else [],
    }
    for name, read in parts.items():
        try:
            found[name] = read()
        except WorkbenchError as error:
            found["problems"][name] = str(error)
    return found


def _host(host: Host) -> dict[str, Any]:
    lines: Sequence[str] = host.run(["sh", "-c", _HOST]).text.split("\n")
    names = ("name", "system", "machine", "processors", "memory")
    found: dict[str, Any] = dict(zip(names, lines, strict=False))
    for name, unit in (("processors", 1), ("memory", 1024)):
        if found.get(name, "").isdigit():
            found[name] = int(found[name]) * unit
    return found
