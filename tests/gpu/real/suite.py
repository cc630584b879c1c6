"""Make the checks one after the other, and write the report.

    python -m tests.gpu.real.suite OUT PYTHON [PACKAGES]

PYTHON runs the scripts. PACKAGES is given in a rehearsal: the folder of the stand-in PyTorch.
"""

from __future__ import annotations

import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from tests.gpu.real import choice, ends, samples, verdicts
from tests.gpu.real.observer import device
from tests.gpu.real.place import REAL, REHEARSAL, Place, Skipped
from tests.gpu.real.report import FAILED, PASSED, SKIPPED, Result, describe, summary, write

if TYPE_CHECKING:
    from collections.abc import Callable

CHECKS: tuple[Callable[[Place], str], ...] = (
    samples.nvml_reports_what_nvidia_smi_reports,
    samples.nvidia_smi_reports_the_same_through_the_workbench,
    samples.sampler_uses_little_of_a_core,
    samples.monitor_shows_the_gpu_and_the_run,
    verdicts.preflight_computes_on_the_gpu,
    verdicts.computing_run_is_proven_with_true_figures,
    verdicts.run_that_only_holds_memory_is_idle,
    verdicts.silent_run_at_full_load_is_stalled,
    verdicts.run_on_the_cpu_is_not_used,
    verdicts.hidden_gpu_is_not_used_and_the_cause_is_named,
    verdicts.gpu_with_another_process_is_shared,
    verdicts.torchrun_rank_computes_on_its_gpu,
    verdicts.jax_run_is_proven,
    verdicts.tensorboard_values_are_metrics,
    choice.free_gpu_is_reserved_for_one_run,
    choice.occupied_gpu_is_not_free,
    ends.cancel_frees_the_memory,
    ends.killed_script_frees_the_memory,
    ends.killed_shell_leaves_no_process,
    ends.killed_controller_is_replaced,
    ends.killed_sampler_is_replaced,
)


def main(out: Path, python: str, packages: str = "") -> int:
    """Make all checks, print a line for each, and write the report to `out`. Return the exit code."""
    variables = {"PYTHONPATH": packages} if packages else {}
    out.mkdir(parents=True, exist_ok=True)
    machine = describe(device(), python, variables)
    place = Place(out, python, REHEARSAL if packages else REAL, variables)
    results = [make(check, place) for check in CHECKS]
    write(out, machine, results, is_rehearsal=bool(packages))
    print(summary(results), flush=True)
    return int(any(each.outcome == FAILED for each in results))


def make(check: Callable[[Place], str], place: Place) -> Result:
    """Make a check and print its result. An error of any kind is a failed check, so that the others are made."""
    begun = time.monotonic()
    try:
        outcome, detail = PASSED, check(place)
    except Skipped as reason:
        outcome, detail = SKIPPED, str(reason)
    except Exception as error:
        outcome, detail = FAILED, f"{type(error).__name__}: {error}"
        traceback.print_exc()
    result = Result(check.__name__, outcome, detail, round(time.monotonic() - begun, 1))
    print(f"{outcome}  {result.title} ({result.seconds:.0f} s): {detail}", flush=True)
    place.workbench.cancel_active()
    return result


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
