"""Checks of the GPU preflight and of verdicts. Each returns what it found, and fails with an AssertionError."""

from __future__ import annotations

import json
import math

from tests.gpu.real.observer import Observer
from tests.gpu.real.place import Place, Skipped


def preflight_computes_on_the_gpu(place: Place) -> str:
    result = place.workbench.run("gpu", "check", "-t", "local", "-o", "json")
    assert result.code == 0, result
    rows = json.loads(result.out)
    assert "a matrix product" in result.out, result.out
    return "; ".join(f"{row.get('check') or row.get('name')}: {row.get('state')}" for row in rows)


def computing_run_is_proven_with_true_figures(place: Place) -> str:
    with Observer() as observer:
        run_id = place.compute(place.pace.long)
        pids = place.pids(run_id)
        record = place.ended(run_id)
        place.until_free(pids)
    verdict = record["gpu"]
    assert verdict["verdict"] == "proven", verdict["text"]
    independent = observer.integral(pids)
    told = f"{verdict['gpu_seconds']:.1f} GPU seconds ({independent.gpu_seconds:.1f}), "
    told += f"{verdict['energy_wh']:.3f} Wh ({independent.watt_hours:.3f})"
    assert math.isclose(verdict["gpu_seconds"], independent.gpu_seconds, rel_tol=place.pace.tolerance), told
    assert math.isclose(verdict["energy_wh"], independent.watt_hours, rel_tol=place.pace.tolerance), told
    return told


def run_that_only_holds_memory_is_idle(place: Place) -> str:
    verdict = place.ended(place.submit("hold.py", str(place.pace.short)))["gpu"]
    assert verdict["verdict"] == "idle", verdict["text"]
    return str(verdict["text"])


def silent_run_at_full_load_is_stalled(place: Place) -> str:
    """The script computes, but prints nothing more; its limit is a minute, and the next checks need not wait for it."""
    run_id = place.compute(300, configuration="stalled")
    record = place.ended(run_id)
    assert record["status"] == "Canceled", record
    assert record["reason"].startswith("StopIfStalledMinutes: no step"), record["reason"]
    verdict = record["gpu"]
    assert verdict["verdict"] == "stalled", verdict["text"]
    assert "no step, log line or file for" in verdict["text"], verdict["text"]
    return str(verdict["text"])


def run_on_the_cpu_is_not_used(place: Place) -> str:
    verdict = place.ended(place.compute(place.pace.short, "cpu"))["gpu"]
    assert verdict["verdict"] == "not used", verdict["text"]
    assert verdict["cause"]
    return str(verdict["cause"])


def hidden_gpu_is_not_used_and_the_cause_is_named(place: Place) -> str:
    verdict = place.ended(place.compute(place.pace.short, "any", "hidden"))["gpu"]
    assert verdict["verdict"] == "not used", verdict["text"]
    assert "CUDA_VISIBLE_DEVICES" in verdict["cause"], verdict["cause"]
    return str(verdict["cause"])


def gpu_with_another_process_is_shared(place: Place) -> str:
    with place.other_process("compute.py", str(place.pace.short * 4), "cuda"):
        verdict = place.ended(place.compute(place.pace.short))["gpu"]
    assert verdict["verdict"] == "shared", verdict["text"]
    return str(verdict["text"])


def torchrun_rank_computes_on_its_gpu(place: Place) -> str:
    if not place.has_module("torch.distributed"):
        raise Skipped("the interpreter has no torch.distributed")
    run_id = place.submit("rank.py", str(place.pace.short), configuration="ranks")
    record = place.ended(run_id)
    log = place.workbench.log(run_id)
    assert record["status"] == "Completed", f"{record['reason']}: {log}"
    assert "ranks: 1" in log, log
    assert record["gpu"]["verdict"] == "proven", record["gpu"]["text"]
    return str(record["gpu"]["text"])


def jax_run_is_proven(place: Place) -> str:
    if not place.has_module("jax"):
        raise Skipped("the interpreter has no JAX")
    run_id = place.submit("jax_compute.py", str(place.pace.short))
    record = place.ended(run_id)
    log = place.workbench.log(run_id)
    assert "computing on gpu" in log, log
    assert record["gpu"]["verdict"] == "proven", record["gpu"]["text"]
    return str(record["gpu"]["text"])


def tensorboard_values_are_metrics(place: Place) -> str:
    if not place.has_module("torch.utils.tensorboard"):
        raise Skipped("the interpreter has no TensorBoard")
    run_id = place.submit("board.py")
    record = place.ended(run_id)
    assert record["status"] == "Completed", place.workbench.log(run_id)
    assert "loss" in record, record
    return f"loss: {record['loss']}; {place.workbench.log(run_id).strip()}"
