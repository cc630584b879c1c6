"""The shell scripts of a run on a cluster: the batch script, and the step that executes the user's script.

The batch script supervises the step, as `hosts.supervisor` does on other targets. It runs on the first node of the job,
and the step on every node. All paths are on the file system that the nodes and the login node share.

```
batch       in a sweep: the batch script
pid         the ID of the job; created exclusively, so that a duplicate job ends at once
begun       exists if the step has begun, so that a job that is requeued without `requeue` ends at once
exit        the script's exit code
attempt     the number of the attempt that the workbench has started last; missing for the first attempt
attempts/N  with `requeue`: a folder for each time that Slurm has started the script, from 1 on
  begin     the size of output.log at the beginning of the attempt, and its first node
  exit      the exit code of the attempt
output.log  written by the first task of the step itself
ranks/N.log written by the other tasks of a step without torchrun
ranks/NODE  with torchrun on several nodes: the files that only this node writes (see sdk/workbench_ranks.py)
gpu/N       GPU samples of node N of the job, written by the script `sampler`
slurm.log   the output of the batch script, of srun and of Slurm
step        the script of the step, readable only by this user, because it contains environment variables
```
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from tui_workbench.core.masking import mask_command
from tui_workbench.core.shell_scripts import shell_script
from tui_workbench.targets.base.run_environment import (
    PYTHON_PATH_VARIABLE,
    RENDEZVOUS_WORD,
    prefix_env,
)
from tui_workbench.targets.gpu.job_samples import SAMPLER
from tui_workbench.targets.slurm.containers import ContainerWords

STARTED, ATTEMPTS, BEGIN = "started", "attempts", "begin"
SLURM_LOG = "slurm.log"
_NO_CONTAINER = ContainerWords()

SETUP_FAILED, SETUP_ENDED = "workbench-tui: setup failed", "workbench-tui: setup ended the job"
SETUP_PROBLEMS = (SETUP_FAILED, SETUP_ENDED)
"""The beginnings of lines in slurm.log and output.log."""

SIGNALED = "workbench-tui: the script got SIGTERM"
"""A line in slurm.log."""

NOT_STARTED = "workbench-tui: srun has not started the script"
"""A line in slurm.log."""

NODES_VARIABLE, NODE_VARIABLE, NODE_LOG = "WORKBENCH_NODES", "WORKBENCH_NODE", "output.log"
"""The variables and the file that sdk/workbench_ranks.py uses on several nodes."""

ATTEMPT_BEGINNING = "workbench-tui: attempt "
ATTEMPT_LINE = f"{ATTEMPT_BEGINNING}%s on node %s"
"""A line of slurm.log: the number of the attempt that begins, and its first node."""

_BEGIN = shell_script("targets/slurm/scripts/batch_begin.sh")
_RUN = shell_script("targets/slurm/scripts/batch_run.sh")
_STEP = shell_script("targets/slurm/scripts/step.sh")


def batch_script(
    run_id: str,
    directory: str,
    root: str,
    setup: Sequence[str],
    *,
    attempt: int = 1,
    requeues: bool = False,
    samples: bool = False,
    spans_nodes: bool = False,
    container: ContainerWords = _NO_CONTAINER,
) -> str:
    """Return the batch script of attempt `attempt` of a run whose directory is `directory`, below `root`.

    With `requeues`, the script runs again each time Slurm requeues the job; without it, a requeued job ends at once.
    With `samples`, the job samples its GPUs while the script runs. With `spans_nodes`, the step starts torchrun on
    several nodes. srun starts the step in `container`. Each item of `setup` is a shell command; the run ends if one
    fails. The commands run in a login shell, which defines `module`.
    """
    words = (*container.options, "--", *container.program, "/bin/sh")
    return "".join((
        "#!/bin/bash -l\n" if setup else "#!/bin/sh\n",
        f"run={shlex.quote(directory)} root={shlex.quote(root)} id={shlex.quote(run_id)} first={attempt}\n",
        _arguments("yes" if requeues else ""),
        _BEGIN,
        *(("begin_setup\n", *map(_setup_command, setup), "end_setup\n") if setup else ()),
        _arguments("yes" if spans_nodes else "", SAMPLER if samples else "", *words),
        _RUN,
    ))  # fmt: skip


def _setup_command(command: str) -> str:
    """Return the lines that execute a command of `setup`."""
    shown = shlex.quote(mask_command(command.strip().split("\n")[0]))
    # Descriptor 4 is the open file `exit` (see batch_begin.sh), which the command must not get.
    return f"command={shown}\n{{\n{command}\n}} 4>&- || setup_failed $? {shown}\n"


def _arguments(*words: str) -> str:
    """Return the shell command that sets the arguments of the lines that follow."""
    return f"set -- {shlex.join(words)}\n"


def array_script(folder: str, *, has_setup: bool) -> str:
    """Return the batch script of the array in `folder`: each task starts the batch script of its run."""
    shell = "/bin/bash -l" if has_setup else "/bin/sh"
    return (
        f'#!/bin/sh\nrun=$(cat {shlex.quote(folder)}/"$SLURM_ARRAY_TASK_ID") && cd "$run" && exec {shell} "$run/batch"'
    )


def step_script(
    directory: str,
    share: str,
    command: Sequence[str],
    variables: Mapping[str, str],
    *,
    inherits_path: bool,
    spans_nodes: bool = False,
) -> str:
    """Return the shell script of the step of a run.

    Args:
        directory: The run's directory.
        share: The folder that the runs of a project share.
        command: The interpreter and its arguments; the interpreter may be a name or begin with `~/`.
        variables: The variables to set; their names and values may have any characters except NUL.
        inherits_path: Whether the login's PYTHONPATH follows that of `variables`.
        spans_nodes: Whether the command starts torchrun on several nodes.

    """
    interpreter, *arguments = command
    # Variables that a shell would drop or overwrite are set by `env`, in front of the interpreter.
    prefix, passing = prefix_env((), variables)
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in passing.items())
    if inherits_path:
        name = PYTHON_PATH_VARIABLE
        # $2 keeps the value of the login, because `export` in `exports` replaces it.
        exports = f'set -- "$1" "${{{name}:+:${name}}}"\n{exports}{name}="${name}$2"\n'
    words = [*map(shlex.quote, prefix), '"$1"', *map(shlex.quote, arguments)]
    if spans_nodes:
        exports += f"export {NODE_VARIABLE}=$SLURMD_NODENAME\n"
        # Only the first match is replaced: the option precedes the script, whose arguments may contain the same word.
        words[words.index(shlex.quote(RENDEZVOUS_WORD))] = f'"{RENDEZVOUS_WORD}"'
    start = f"start() {{\n{exports}exec {' '.join(words)}\n}}\n"
    return f"run={shlex.quote(directory)}\n{start}{_arguments(interpreter, share, 'yes' if spans_nodes else '')}{_STEP}"
