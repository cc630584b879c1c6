"""What a run runs on: the packages that its interpreter finds, the interpreter, the image, the machine, its GPUs.

Asked of what really runs it: the interpreter itself, the container's image, the machine's driver. Each part that could
not be learned is missing and named among the problems; nothing is guessed.
"""

from __future__ import annotations

import json

from tui_workbench.errors import WorkbenchError
from tui_workbench.records import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from tui_workbench.model import RunSpec
    from tui_workbench.targets.docker import DockerTarget
    from tui_workbench.targets.host import Host
    from tui_workbench.targets.protocol import Target

SECONDS = 60.0
"""For an interpreter on a cold network disk with hundreds of packages."""

_MARK = "workbench-surroundings:"

# For whatever Python a project uses: 2.7 and 3.5 run it too. The folder that it stands in is not to be searched.
PROGRAM = r"""
import json, os, platform, subprocess, sys
if sys.path[:1] == [""]:
    del sys.path[0]
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
            "implementation": platform.python_implementation()}
def host():
    about = {"name": platform.node(), "system": platform.system() + " " + platform.release(),
             "machine": platform.machine(), "libc": " ".join(platform.libc_ver()).strip()}
    about["processors"] = os.sysconf("SC_NPROCESSORS_ONLN")
    about["memory"] = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return about
def gpus():
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total,uuid", "--format=csv,noheader"]
    try:
        with open(os.devnull, "wb") as null:
            text = subprocess.Popen(query, stdout=subprocess.PIPE, stderr=null).communicate()[0].decode("utf-8")
    except OSError:
        return []
    rows = [[cell.strip() for cell in line.split(",")] for line in text.split("\n")]
    return [dict(zip(("name", "driver", "memory", "uuid"), row)) for row in rows if len(row) == 4]
for name, ask in (("packages", packages), ("python", python), ("host", host), ("gpus", gpus)):
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


def surroundings_of(target: Target, spec: RunSpec, interpreter: str) -> dict[str, Any]:
    """What the run of `spec` runs on; `interpreter` is that of its plan. Blocks, and raises nothing."""
    from tui_workbench.targets.remote import RemoteTarget

    try:
        if isinstance(target, RemoteTarget):
            return _of_interpreter(target.host, spec, target.interpreter()[0])
        if spec.target.type in ("localdocker", "remotedocker"):
            return _of_container(target, spec)  # type: ignore[arg-type]  # docker is loaded where it is spoken to
        from tui_workbench.targets.host import LocalHost

        return _of_interpreter(LocalHost(), spec, interpreter)
    except WorkbenchError as error:
        return {"problems": {"surroundings": str(error)}}


def _of_interpreter(host: Host, spec: RunSpec, interpreter: str) -> dict[str, Any]:
    """What an interpreter says on its host, with the Python path that the run configuration sets."""
    path = spec.run_configuration.environment_variables.get("PYTHONPATH")
    around = ["env", f"PYTHONPATH={path}"] if path else []
    done = host.run([*around, interpreter, "-c", PROGRAM], timeout=SECONDS)
    _, mark, answer = done.text.rpartition(_MARK)
    try:
        found = json.loads(answer.split("\n")[0]) if mark else None
    except ValueError:
        found = None
    if not isinstance(found, dict):
        return {"problems": {"packages": f"{interpreter} did not tell them: {done.complaint}"}}
    return found


def _of_container(target: DockerTarget, spec: RunSpec) -> dict[str, Any]:
    """What the run's image holds, and the machine that its engine is on."""
    from tui_workbench.targets.gpus import gpus_of

    found: dict[str, Any] = {"problems": {}}

    def note(name: str, ask: Callable[[], Any]) -> None:
        try:
            found[name] = ask()
        except WorkbenchError as error:
            found["problems"][name] = str(error)

    try:
        name, image, facts = target.image_of(spec)
    except WorkbenchError as error:
        found["problems"]["image"] = str(error)
    else:
        found["image"] = {"name": name, "digest": image}
        found["packages"] = {package: version for package, version, _ in facts.packages}
        found["python"] = {"executable": facts.python, "version": facts.version}
    note("host", lambda: _host(target.host))
    # What the machine has is no matter of a container that is given none of it.
    note("gpus", lambda: [gpu._asdict() for gpu in gpus_of(target.host).found] if spec.target.nvidia_docker else [])
    return found


def _host(host: Host) -> dict[str, Any]:
    lines: Sequence[str] = host.run(["sh", "-c", _HOST]).text.split("\n")
    names = ("name", "system", "machine", "processors", "memory")
    found: dict[str, Any] = dict(zip(names, lines, strict=False))
    for name, unit in (("processors", 1), ("memory", 1024)):
        if found.get(name, "").isdigit():
            found[name] = int(found[name]) * unit
    return found
