"""The Python environment of a run: its interpreter, frameworks and packages, and facts about its machine.

The facts come from the interpreter and the machine that execute the run. A fact that cannot be read is missing, and
`problems` contains the error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.json_values import parse_json
from tui_workbench.core.model import RunSpec
from tui_workbench.targets.gpu import choice
from tui_workbench.targets.gpu.framework_location import FrameworkLocation, Interpreter, variables_of
from tui_workbench.targets.gpu.gpus import gpus_of
from tui_workbench.targets.hosts.host import Host
from tui_workbench.targets.values import Report

SECONDS = 60.0
"""Time limit in seconds, long enough for an interpreter with hundreds of packages on a cold network disk."""

_MARK = "workbench-machine-info:"

# Runs on Python 2.7 and 3.5 as well. Removes the current folder from the module search path.
PROGRAM = r"""
import sys
if sys.path[:1] == [""]:
    del sys.path[0]
import json, os, platform
facts = {"problems": {}}
try:
    os.nice(10)
except Exception:
    pass
def packages():
    try:
        from importlib.metadata import distributions
    except ImportError:
        import pkg_resources
        return dict((package.project_name, package.version) for package in pkg_resources.working_set)
    versions = {}
    for package in distributions():
        name = package.metadata["Name"]
        if name and name not in versions:
            versions[name] = package.version
            try:
                origin = json.loads(package.read_text("direct_url.json") or "{}")
                commit = origin.get("vcs_info", {}).get("commit_id", "")
                if origin.get("url"):
                    versions[name] += " @ " + origin["url"] + ("@" + commit if commit else "")
            except (ValueError, AttributeError, OSError):
                pass
    return versions
def python():
    return {"executable": sys.executable, "version": platform.python_version(), "prefix": sys.prefix,
            "implementation": platform.python_implementation(), "libc": " ".join(platform.libc_ver()).strip()}
for name, read in (("packages", packages), ("python", python)):
    try:
        facts[name] = read()
    except Exception as error:
        facts["problems"][name] = "%s: %s" % (type(error).__name__, error)
print("workbench-machine-info:" + json.dumps(facts))
"""

# Prints five lines: name, system and release, machine, number of processors, kilobytes of memory.
_HOST = """\
uname -n; uname -sr; uname -m; getconf _NPROCESSORS_ONLN
sed -n 's/^MemTotal: *\\([0-9]*\\).*/\\1/p' /proc/meminfo
"""


class PythonEnvironment:
    """The Python environment of a run: by default, an interpreter that exists on the machine of the target.

    Subclasses override methods for other environments, such as images.
    """

    def __init__(self, host: Host, spec: RunSpec) -> None:
        self.host = host
        self.spec = spec

    def interpreter(self) -> str:
        """Return the path of the interpreter on its machine. Raises ConfigurationError or TargetUnreachable."""
        return self.spec.target.python_location

    def command(self, arguments: Sequence[str], path: str = "") -> list[str]:
        """Return a command that starts this Python with the network of its machine. A non-empty `path` is PYTHONPATH.

        Raises the errors of `framework_location`.
        """
        return [*(("env", f"PYTHONPATH={path}") if path else ()), self.interpreter(), *arguments]

    def framework_location(self) -> FrameworkLocation:
        """Return the location of the frameworks.

        Raises EnvironmentMissing, the errors of `interpreter`, or another WorkbenchError.
        """
        visible = choice.named_variables(self.host, self.spec)
        return Interpreter(self.host, self.interpreter(), variables_of(self.spec, visible))

    def machine_info(self, planned: str) -> dict[str, Any]:
        """Return facts about the machine and the packages. Raises WorkbenchError.

        `planned` is the interpreter of the run's plan.
        """
        return interpreter_info(self.host, self.spec, planned)

    def prepare(self, report: Report) -> str:
        """Build the environment if it is missing, and return its name. Only for targets that build environments.

        Raises Interrupted or WorkbenchError.
        """
        raise NotImplementedError


def interpreter_info(host: Host, spec: RunSpec, interpreter: str) -> dict[str, Any]:
    """Return facts about an interpreter and its host. The interpreter gets the PYTHONPATH of the run configuration."""
    path = spec.run_configuration.environment_variables.get("PYTHONPATH")
    environment = ["env", f"PYTHONPATH={path}"] if path else []
    done = host.run([*environment, interpreter, "-c", PROGRAM], timeout=SECONDS)
    _, mark, answer = done.text.rpartition(_MARK)
    machine = host_info(host, with_gpus=True)
    try:
        facts = parse_json(answer.split("\n")[0]) if mark else {}
        machine.get("host", {})["libc"] = facts.get("python", {}).pop("libc", "")
        return {**machine, **facts, "problems": {**machine["problems"], **facts["problems"]}}
    except (ValueError, TypeError, KeyError, AttributeError):
        machine["problems"]["packages"] = f"{interpreter} did not list its packages: {done.complaint}"
        return machine


def host_info(host: Host, *, with_gpus: bool) -> dict[str, Any]:
    """Return facts about a machine and, with `with_gpus`, about its GPUs."""
    facts: dict[str, Any] = {"problems": {}}
    parts: dict[str, Callable[[], Any]] = {
        "host": lambda: _host(host),
        "gpus": lambda: [gpu._asdict() for gpu in gpus_of(host).listed] if with_gpus else [],
    }
    for name, read in parts.items():
        try:
            facts[name] = read()
        except WorkbenchError as error:
            facts["problems"][name] = str(error)
    return facts


def _host(host: Host) -> dict[str, Any]:
    lines: Sequence[str] = host.run(["sh", "-c", _HOST]).text.split("\n")
    names = ("name", "system", "machine", "processors", "memory")
    facts: dict[str, Any] = dict(zip(names, lines, strict=False))
    for name, unit in (("processors", 1), ("memory", 1024)):
        if facts.get(name, "").isdigit():
            facts[name] = int(facts[name]) * unit
    return facts
