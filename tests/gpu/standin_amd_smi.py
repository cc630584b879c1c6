"""A stand-in for amd-smi and rocm-smi, depending on the name of the file: their documented JSON, from a state file.

The shapes are those of "AMD SMI CLI tool usage" and of the programs in ROCm/amdsmi and ROCm/rocm_smi_lib. It tests how
the workbench reads them, not that real tools print them. `standin_amd.py` describes the state.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

NAME = os.path.basename(sys.argv[0])


def state() -> Any:
    with open(os.environ["STANDIN_AMD_STATE"]) as file:
        return json.load(file)


def amount(gpu: Any, key: str, unit: str) -> Any:
    return "N/A" if gpu.get(key) is None else {"value": gpu[key], "unit": unit}


def listed(gpu: Any, number: int, words: list[str]) -> Any:
    ids = {"gpu": number, "bdf": f"0000:{number + 12:02x}:00.0", "uuid": gpu["uuid"], "kfd_id": 100 + number}
    ids.update(node_id=number + 2, partition_id=gpu.get("partition", 0))
    if "-e" in words:
        ids.update(render=f"renderD{128 + number}", card=f"card{number}", hsa_id=number + 2, hip_id=gpu["hip"])
        ids.update(hip_uuid=f"GPU-{number:016x}")
    return ids


def static(gpu: Any, number: int, is_old: bool) -> Any:
    cap = {"socket_power": amount(gpu, "limit", "W"), "max_power": amount(gpu, "limit", "W")}
    limit = cap if is_old else {"ppt0": {key + "_limit": value for key, value in cap.items()}, "ppt1": "N/A"}
    return {
        "gpu": number,
        "asic": {"market_name": gpu["name"], "vendor_id": "0x1002", "target_graphics_version": "gfx942"},
        "bus": {"bdf": f"0000:{number + 12:02x}:00.0", "max_pcie_width": 16},
        "limit": limit,
        "driver": {"name": "amdgpu", "version": gpu["driver"]},
        "vram": {"type": "HBM", "vendor": "N/A", "size": {"value": gpu["total"], "unit": "MB"}},
    }


def metric(gpu: Any, number: int, words: list[str]) -> Any:
    xcp: Any = "N/A"
    if "units" in gpu:
        xcp = {f"xcp_{part}": [{"value": busy, "unit": "%"}, "N/A"] for part, busy in enumerate(gpu["units"])}
    found = {
        "gpu": number,
        "usage": {"gfx_activity": amount(gpu, "util", "%"), "umc_activity": "N/A", "gfx_busy_inst": xcp},
        "power": {"socket_power": amount(gpu, "power", "W"), "throttle_status": gpu.get("throttle", "N/A")},
        "clock": {"gfx_0": {"clk": amount(gpu, "sm", "MHz")}, "mem_0": {"clk": amount(gpu, "memclk", "MHz")}},
        "temperature": {"edge": "N/A", "hotspot": amount(gpu, "temp", "C"), "mem": amount(gpu, "temp", "C")},
        "mem_usage": {"total_vram": amount(gpu, "total", "MB"), "used_vram": amount(gpu, "mem", "MB")},
    }
    if "-e" in words:
        found["ecc"] = {"total_correctable_count": 0, "total_uncorrectable_count": gpu.get("ecc", "N/A")}
    return found


def process(number: int, processes: Any) -> Any:
    found: list[Any] = []
    for pid, memory in processes.get(str(number), []):
        used = {"value": memory, "unit": "B"}
        usage = {"gtt_mem": {"value": 0, "unit": "B"}, "cpu_mem": {"value": 0, "unit": "B"}, "vram_mem": used}
        info = {"name": "python3", "pid": pid, "memory_usage": usage, "mem_usage": used}
        found.append({"process_info": dict(info, usage={"gfx": {"value": 0, "unit": "ns"}})})
    return {"gpu": number, "process_list": found or [{"process_info": "No running processes detected"}]}


def amd(now: Any, words: list[str]) -> Any:
    is_old, gpus = now.get("old", False), list(enumerate(now["gpus"]))
    if "-e" in words and words[0] in now.get("without_e", ()):
        print("usage: amd-smi [-h]  ...\namd-smi: error: unrecognized arguments: -e")
        sys.exit(2)
    if words[0] == "list":
        return [listed(gpu, number, words) for number, gpu in gpus]
    if words[0] == "process":
        return [process(number, now.get("processes", {})) for number, _ in gpus]
    if words[0] == "static":
        found = [static(gpu, number, is_old) for number, gpu in gpus]
    else:
        found = [metric(gpu, number, words) for number, gpu in gpus]
    return found if is_old or "-w" in words else {"gpu_data": found}


def rocm(now: Any, words: list[str]) -> Any:
    cards: dict[str, Any] = {}
    for number, gpu in enumerate(now["gpus"]):
        card = cards[f"card{number}"] = {}
        if "--showproductname" in words:
            card["Unique ID"], card["Card Series"] = gpu["uuid"], gpu["name"]
            card["Max Graphics Package Power (W)"] = str(float(gpu["limit"]))
            cards["system"] = {"Driver version": gpu["driver"]}
        if "--showuse" in words:
            card["GPU use (%)"] = str(gpu["util"])
            card["Current Socket Graphics Package Power (W)"] = str(gpu["power"])
            card["Temperature (Sensor edge) (C)"] = "N/A"
            card["Temperature (Sensor junction) (C)"] = str(gpu["temp"])
            card["sclk clock speed:"] = f"({gpu['sm']}Mhz)"
            card["mclk clock speed:"] = f"({gpu['memclk']}Mhz)"
        card["VRAM Total Memory (B)"] = str(gpu["total"] << 20)
        card["VRAM Total Used Memory (B)"] = str(gpu["mem"] << 20)
    return cards


def pids(now: Any) -> None:
    found: dict[int, Any] = {}
    for number, processes in now.get("processes", {}).items():
        for pid, memory in processes:
            found.setdefault(pid, []).append((number, memory))
    print("\n============= KFD Processes =============\nKFD process information:")
    print("PID\tPROCESS NAME\tGPU(s)\tVRAM USED\tSDMA USED\tCU OCCUPANCY\t")
    for pid, used in found.items():
        memory = sum(part for _, part in used)
        print(f"{pid}\tpython3 \t{len(used)}     \t{memory}    \t0        \t0           \t")
    print("============= GPUs Indexed by PID =============")
    for pid, used in found.items():
        print(f"PID {pid} is using {len(used)} DRM device(s):\n{' '.join(number for number, _ in used)} ")


def main(words: list[str]) -> int:
    watch = float(words[words.index("-w") + 1]) if "-w" in words else 0
    if watch:
        print("'CTRL' + 'C' to stop watching output:")
    while True:
        now = state()
        if now.get("hang"):
            time.sleep(600)
        if "say" in now:
            print(now["say"])
            return 1
        if "--showpids" in words:
            pids(now)
        elif NAME == "amd-smi":
            print(json.dumps(amd(now, words), indent=4))
        else:
            print(json.dumps(rocm(now, words)))
        if not watch:
            return 0
        time.sleep(watch)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
