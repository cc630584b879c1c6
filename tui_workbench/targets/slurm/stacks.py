"""Read the Python stacks of a job: on each of its nodes, a step beside the script's step executes py-spy."""

from __future__ import annotations

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.model import RunSpec
from tui_workbench.core.shell_scripts import shell_script
from tui_workbench.targets.base.stacks import Reading
from tui_workbench.targets.hosts.host import Completed
from tui_workbench.targets.hosts.host_layout import HostLayout
from tui_workbench.targets.hosts.py_spy import IS_READ, MISSING, SECONDS, installed_py_spy, reading_of, send
from tui_workbench.targets.slurm.cluster import LoginHost, raise_if_silent

NODE_MARK = b"\035\n"
"""A line that separates the outputs of two nodes. It consists of the control character GS."""

_ON_NODES = shell_script("targets/slurm/scripts/read_stacks.sh")


def read_stacks(login: LoginHost, spec: RunSpec) -> Reading:
    """Return the stacks of the processes of a job on all of its nodes. Raises WorkbenchError."""
    spy, layout = installed_py_spy(), HostLayout(login.home())
    path = layout.tool(spy.name)
    words = (layout.run(spec.run_id), path, *spy.words(path, spec.run_id))
    done = login.ask(_ON_NODES, *words, timeout=SECONDS)
    if done.code == MISSING:
        send(login, spy, path)
        done = login.ask(_ON_NODES, *words, timeout=SECONDS)
    outputs = [output for output in done.stdout.split(NODE_MARK) if output]
    if done.code != 0 and not outputs:
        raise_if_silent(login.label, done.complaint)
        remedy = (
            "If the job has just ended, `experiment stacks --last` prints the last stacks that were read. Otherwise, "
            "check the free space there, and that `srun --overlap` can start a step in a running job."
        )
        raise WorkbenchError(f"cannot read the stacks on {login.label}: {done.complaint}", remedy=remedy)
    found = Reading()
    for output in outputs:
        # The code is that of the node that failed.
        code = 0 if IS_READ in output else done.code
        found = found.with_machine(reading_of(Completed(code, output, output), spy, "a node of the job"))
    return found
