"""Stand-ins for YARN: `spark-submit`, `yarn` and `java`, which a head node has instead of the real programs.

No real YARN is used. Their output follows the source of Spark (org.apache.spark.deploy.yarn.Client) and Hadoop
(org.apache.hadoop.yarn.client.cli.ApplicationCLI, LogsCLI and NodeCLI). The files of an application are in CLUSTER, a
folder of the head node; the driver runs outside of the session and variables of `spark-submit`, as on another node.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.machines import Machine

CLUSTER = "/home/research/cluster"

_SUBMIT = """\
import glob, json, os, subprocess, sys, time
words, properties, options = sys.argv[1:], {}, {}
while words[0].startswith("--"):
    name, value = words.pop(0), words.pop(0)
    if name == "--conf":
        properties.__setitem__(*value.split("=", 1))
    else:
        options[name] = value
os.makedirs(CLUSTER, exist_ok=True)
with open(CLUSTER + "/submitted", "w") as file:
    json.dump({"options": options, "properties": properties}, file)
if options.get("--deploy-mode") != "cluster":
    os.execv(os.environ["PYSPARK_DRIVER_PYTHON"], ["python", *words])
if os.path.exists(CLUSTER + "/refuse"):
    sys.exit("Exception in thread main org.apache.hadoop.yarn.exceptions.YarnException: no queue")
number = len(glob.glob(CLUSTER + "/application_*")) + 1
identifier = "application_%d_%04d" % (time.time() * 1000, number)
folder = CLUSTER + "/" + identifier
os.mkdir(folder)
state = {"tags": properties["spark.yarn.tags"].lower().split(","), "state": "RUNNING", "final": "UNDEFINED",
         "diagnostics": ""}
with open(folder + "/state", "w") as file:
    json.dump(state, file)
prefix = "spark.yarn.appMasterEnv."
variables = {
    # As YARN's ContainerLaunch, which writes a shell script.
    name[len(prefix):]: subprocess.check_output(["bash", "-c", 'printf %s "' + value + '"'], text=True)
    for name, value in properties.items() if name.startswith(prefix)
}
# On another node, no process of the head node has the run's ID.
del variables["WORKBENCH_RUN_ID"]
variables.update(PATH=os.environ["PATH"], PYTHONPATH=options["--py-files"].replace(",", ":"))
driver = [sys.executable, os.path.dirname(os.path.realpath(__file__)) + "/am", folder, os.path.abspath(words[0])]
with open(os.devnull, "r+") as null:
    subprocess.Popen([*driver, *words[1:]], cwd=folder, env=variables, start_new_session=True, stdin=null, stdout=null,
                     stderr=null)


def say(text, level="INFO"):
    sys.stderr.write("26/11/23 12:47:06 %s Client: %s\\n" % (level, text))
    sys.stderr.flush()


say("Submitting application %s to ResourceManager" % identifier)
last = None
while True:
    with open(folder + "/state") as file:
        state = json.load(file)
    say("Application report for %s (state: %s)" % (identifier, state["state"]))
    if state["state"] != last:
        details = (("client token", "N/A"), ("diagnostics", state["diagnostics"] or "N/A"),
                   ("final status", state["final"]),
                   ("tracking URL", "http://rm.example:8088/proxy/%s/" % identifier), ("user", "research"))
        say("".join("\\n\\t %s: %s" % each for each in details))
    last = state["state"]
    if last in ("FINISHED", "FAILED", "KILLED"):
        break
    time.sleep(0.1)
if os.path.exists(CLUSTER + "/lies") or state["final"] == "SUCCEEDED":
    sys.exit(0)
what = "is killed" if state["final"] == "KILLED" else "finished with failed status"
sys.exit("Exception in thread main org.apache.spark.SparkException: Application %s %s" % (identifier, what))
"""

# The application master: runs the script and reports its end, as Spark's ApplicationMaster does.
_MASTER = """\
import json, os, subprocess, sys
folder = sys.argv[1]
with open(folder + "/stdout", "wb") as out, open(folder + "/stderr", "wb") as err:
    script = subprocess.Popen([sys.executable, *sys.argv[2:]], stdout=out, stderr=err)
    with open(folder + "/pid", "w") as file:
        file.write("%d %d" % (os.getpid(), script.pid))
    code = script.wait()
with open(folder + "/state") as file:
    state = json.load(file)
state["state"] = "FINISHED"
state["final"] = "FAILED" if code else "SUCCEEDED"
state["diagnostics"] = "User application exited with status %d" % code if code else ""
with open(folder + "/new", "w") as file:
    json.dump(state, file)
os.rename(folder + "/new", folder + "/state")
"""

_YARN = """\
import glob, json, os, signal, sys
words = sys.argv[1:]
if os.path.exists(CLUSTER + "/down"):
    sys.stderr.write("INFO ipc.Client: Retrying connect to server: rm.example/10.0.0.9:8032.\\n")
    sys.exit("Exception in thread main java.net.ConnectException: Call From head to rm.example:8032 failed\\n"
             "Caused by: java.net.ConnectException: Connection refused\\n\\t... 21 more")


def load(folder):
    with open(folder + "/state") as file:
        return json.load(file)


def kill(folder):
    state = load(folder)
    with open(folder + "/pid") as file:
        for pid in file.read().split():
            os.kill(int(pid), signal.SIGKILL)
    state.update(state="KILLED", final="KILLED", diagnostics="Application was killed by user research at 10.0.0.2")
    with open(folder + "/new", "w") as file:
        json.dump(state, file)
    os.rename(folder + "/new", folder + "/state")


folder = CLUSTER + "/" + words[2] if len(words) > 2 else ""
if words[:2] == ["node", "-list"]:
    print("Total Nodes:2")
elif words[:2] == ["application", "-list"]:
    wanted = words[words.index("-appTags") + 1].lower()
    assert words[words.index("-appStates") + 1] == "ALL"
    found = [(each, load(each)) for each in sorted(glob.glob(CLUSTER + "/application_*"))]
    found = [(each, state) for each, state in found if wanted in state["tags"]]
    print("Total number of applications (states: [...] and tags: [%s]):%d" % (wanted, len(found)))
    form = "%30s\\t%20s\\t%20s\\t%10s\\t%10s\\t%18s\\t%18s\\t%15s\\t%35s"
    print(form % ("Application-Id", "Application-Name", "Application-Type", "User", "Queue", "State", "Final-State",
                  "Progress", "Tracking-URL"))
    for each, state in found:
        print(form % (os.path.basename(each), "train.py", "SPARK", "research", "default", state["state"],
                      state["final"], "10%", "N/A"))
elif words[:2] == ["application", "-status"]:
    state = load(folder)
    print("Application Report : ")
    for name, value in (("Application-Id", words[2]), ("Application-Name", "train.py"), ("Application-Type", "SPARK"),
                        ("User", "research"), ("Queue", "default"), ("Progress", "100%"), ("State", state["state"]),
                        ("Final-State", state["final"]), ("Tracking-URL", "http://rm.example:18080/history"),
                        ("Log Aggregation Status", "SUCCEEDED"), ("Diagnostics", state["diagnostics"]),
                        ("Unmanaged Application", "false")):
        print("\\t%s : %s" % (name, value))
elif words[:2] == ["application", "-kill"]:
    print("Killing application %s" % words[2])
    kill(folder)
elif words[0] == "logs":
    assert words[3:] == ["-am", "1", "-log_files", "stdout,stderr"]
    if os.path.exists(CLUSTER + "/nologs"):
        sys.stderr.write("Can not find any log file matching the pattern: [stdout, stderr]\\n")
        sys.exit()
    print("Container: container_1_0001_01_000001 on node-2_45454")
    for name in ("stderr", "stdout"):
        print("LogType:%s\\nLogContents:" % name)
        with open(folder + "/" + name) as file:
            sys.stdout.write(file.read())
        print("End of LogType:%s" % name)
else:
    sys.exit("Invalid Command Usage : %s" % words)
"""

_JAVA = "import sys; sys.exit('the stand-in of java runs nothing')"


class StandInYarn:
    """The stand-in of YARN on a head node."""

    def __init__(self, machine: Machine) -> None:
        self.folder = machine.home() / "cluster"
        self.machine = machine

    def applications(self) -> list[str]:
        return sorted(path.name for path in self.folder.glob("application_*"))

    def state(self, application: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / application / "state").read_text())
        return found

    def submitted(self) -> dict[str, dict[str, str]]:
        """Return the options and properties of the last call to `spark-submit`."""
        found: dict[str, dict[str, str]] = json.loads((self.folder / "submitted").read_text())
        return found

    @contextlib.contextmanager
    def mode(self, name: str) -> Iterator[None]:
        """Change the behavior within the context.

        `down`: YARN refuses connections; `lies`: `spark-submit` ends with 0; `refuse`: it cannot submit; `nologs`: YARN
        collects no logs.
        """
        self.machine.run(["mkdir", "-p", CLUSTER])
        self.machine.run(["chown", "research:", CLUSTER])
        (self.folder / name).touch()
        try:
            yield
        finally:
            (self.folder / name).unlink()


@contextlib.contextmanager
def stand_in_yarn(machine: Machine, folder: Path) -> Iterator[StandInYarn]:
    """Give a machine the stand-ins within the context."""
    programs = folder / "programs"
    programs.mkdir()
    programs.chmod(0o755)
    for name, text in (("spark-submit", _SUBMIT), ("am", _MASTER), ("yarn", _YARN), ("java", _JAVA)):
        (programs / name).write_text(f"#!/usr/bin/python3\nCLUSTER = {CLUSTER!r}\n{text}")
        (programs / name).chmod(0o755)
    machine.run(["mount", "--bind", str(programs), "/usr/local/bin"])
    try:
        yield StandInYarn(machine)
    finally:
        machine.run(["umount", "--lazy", "/usr/local/bin"])
        machine.run(["rm", "-rf", CLUSTER])
