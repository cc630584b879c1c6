"""Checks of the choice and reservation of GPUs. Each returns what it found, and fails with an AssertionError."""

from __future__ import annotations

from tests.faults.support import until
from tests.gpu.real.place import Place


def free_gpu_is_reserved_for_one_run(place: Place) -> str:
    first = place.compute(place.pace.short, configuration="free")
    second = place.submit("compute.py", "1", "cuda", configuration="free")
    until(lambda: place.workbench.info(second)["status"] in ("Queued", "Running"))
    assert place.workbench.status(first) == "Running"
    assert place.workbench.status(second) == "Queued", "both runs got the GPU"
    records = [place.ended(each) for each in (first, second)]
    assert [each["status"] for each in records] == ["Completed", "Completed"], records
    return "the second run waited for the first"


def occupied_gpu_is_not_free(place: Place) -> str:
    with place.other_process("compute.py", "60", "cuda"):
        record = place.ended(place.submit("compute.py", "1", "cuda", configuration="free"))
    assert record["status"] == "Failed", record
    return str(record["reason"]).replace(f"{place.workbench.folder}/", "")
