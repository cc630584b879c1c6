"""How a script is started under torch.distributed.run: what stands between the interpreter and the script.

One process of torchrun for a run, whatever the target: it finds a free port by itself, and the ranks find each other on
their own machine. Each rank writes into a file of the run's directory, and output.log holds the lines of all of them
(see sdk/workbench_ranks.py, which goes wherever the SDK does).
"""

from __future__ import annotations

from tui_workbench.records import TYPE_CHECKING

if TYPE_CHECKING:
    from tui_workbench.model import RunSpec

RANKS = "ranks"
"""The folder of the ranks' output in a run's directory."""

LAUNCHER = "workbench_ranks.py"
"""The launcher's name in the SDK's folder."""


def launcher(spec: RunSpec, sdk: str, run_directory: str) -> tuple[str, ...]:
    """The words before the script's name; empty for a script that is started by itself.

    `sdk` and `run_directory` are folders as the script will see them.
    """
    processes = spec.run_configuration.processes_per_node
    if not processes:
        return ()
    # The options' names of PyTorch 1.9, which its later versions know as well.
    count = "gpu" if processes == "gpus" else processes
    words = ("-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={count}")
    return (f"{sdk}/{LAUNCHER}", f"{run_directory}/{RANKS}", *words)


def describe(spec: RunSpec) -> str:
    """What a plan says of it; begins with a space, empty for a script that is started by itself."""
    processes = spec.run_configuration.processes_per_node
    if not processes:
        return ""
    if processes == "gpus":
        return " under torchrun, a process for each GPU"
    return f" under torchrun, {processes} process{'' if processes == '1' else 'es'}"
