"""Answer queries for nvidia-smi with the values of AMD GPUs, so that the same scripts and parsers serve both vendors.

`vendors.with_smi` sends the text of this module to the machine, where Python 3.6 or newer runs it with the name of a
tool and the arguments of nvidia-smi: `--query-gpu=FIELDS` or `--query-compute-apps=FIELDS`, with `-l 1` to repeat, or
`-L`.

Sources: "AMD SMI CLI tool usage" and "HIP environment variables" (rocm.docs.amd.com), and the programs of the
repositories ROCm/amdsmi (amdsmi_cli) and ROCm/rocm_smi_lib (python_smi_tools). amd-smi prints a JSON list or, from
ROCm 7 on, an object with the list `gpu_data`. A value that is not known is the text `N/A`.
"""

import json
import os
import re
import subprocess
import sys
import time
from typing import Any, Iterator, Union

SECONDS = 2
"""Seconds between two samples. Both tools are Python programs, which take longer than nvidia-smi."""

ROUNDS = 300
"""Number of samples after which amd-smi is started again, because it keeps all samples in memory."""

UNKNOWN = "[N/A]"
MOST_LINES = 1 << 18  # maximum number of lines of a JSON document; longer documents are not read
DEVICE = ("name", "uuid", "memory.total", "power.limit", "driver_version")
METRICS = ("metric", "-u", "-m", "-p", "-c", "-t")
ROCM_DEVICE = ("--showproductname", "--showuniqueid", "--showdriverversion", "--showmaxpower", "--showmeminfo", "vram")
ROCM_READING = ("--showuse", "--showpower", "--showtemp", "--showclocks", "--showmeminfo", "vram")


class Failed(Exception):
    """The tool printed an error or no JSON. The message is this error, or the last line of the output."""


def lines_of(words: "tuple[str, ...]") -> "Iterator[str]":
    """Yield the lines that a tool prints to stdout and stderr, as soon as it prints them."""
    # Without PYTHONUNBUFFERED, the lines of `amd-smi --watch` arrive late, in blocks.
    variables = dict(os.environ, PYTHONUNBUFFERED="1")
    with subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=variables
    ) as process:
        try:
            for line in process.stdout or ():
                yield line.decode("utf-8", "replace").rstrip()
        finally:
            process.kill()


def documents(*words: str) -> "Iterator[Any]":
    """Yield the JSON documents that a tool prints, each on one line or between lines that consist of a bracket.

    Raises Failed if the tool prints no document.
    """
    part: "list[str]" = []
    message, count = "", 0
    for line in lines_of(words):
        is_whole = not part and line[:1] in ("[", "{") and line[-1:] in ("]", "}")
        if not part and not is_whole and line not in ("[", "{"):
            message = line.strip() or message
            continue
        part.append(line)
        if is_whole or line in ("]", "}"):
            try:
                value = json.loads("\n".join(part))
            except (ValueError, RuntimeError):  # RecursionError for many levels
                message = " ".join(part)[:200]
            else:
                count += 1
                yield value
        elif len(part) < MOST_LINES:
            continue
        part = []
    if not count:
        raise Failed(message or "%s printed nothing" % words[0])


def records(value: Any) -> "list[dict[str, Any]]":
    """Return the records of GPUs in a document of amd-smi. Raises Failed if the document is an error."""
    if isinstance(value, dict) and "error" in value:
        raise Failed(" ".join(str(value["error"]).split()))
    entries = value.get("gpu_data") or () if isinstance(value, dict) else value
    return [record for record in entries if isinstance(record, dict) and isinstance(record.get("gpu"), int)]


def inner(value: Any, *keys: str) -> Any:
    """Return the value below nested keys, or None."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def number(value: Any) -> str:
    """Return the digits of a number, also of `{"value": 5, "unit": "W"}` and `(1700Mhz)`; UNKNOWN for other values."""
    match = re.search(r"-?\d+(\.\d+)?", str(value.get("value") if isinstance(value, dict) else value))
    return match.group() if match else UNKNOWN


def first(*values: Any) -> str:
    """Return the first number, or UNKNOWN."""
    return next((digits for digits in map(number, values) if digits != UNKNOWN), UNKNOWN)


def mebibytes(value: Any) -> str:
    """Convert a number of bytes to MiB."""
    digits = number(value)
    return digits if digits == UNKNOWN else re.sub(r"\.0$", "", "%.1f" % (float(digits) / (1 << 20)))


def unique(ids: "dict[str, Any]") -> "dict[str, str]":
    """Return the ID of each GPU by its number, unique and usable as the name of a file."""
    names = {index: re.sub(r"[^\w.-]", "-", str(uuid)) for index, uuid in ids.items()}
    all_names = list(names.values())
    return {
        index: "AMD-" + index if name in ("", "N-A", "None") or all_names.count(name) > 1 else name
        for index, name in names.items()
    }


def named(values: "list[dict[str, str]]") -> "list[dict[str, str]]":
    """Complete and return the rows of devices: each gets a name that starts with the vendor, and a driver version."""
    for row in values:
        row["name"] = re.sub(r"[,\s]+", " ", row["name"]).strip()
        if not re.match(r"(?i)amd\b", row["name"]):
            row["name"] = ("AMD " + row["name"]).replace("AMD N/A", "AMD GPU")
        # The amdgpu driver of the Linux kernel has the version of the kernel.
        if row["driver_version"] in ("", "N/A", "None"):
            row["driver_version"] = os.uname()[2]
    return values


class AmdSmi:
    """The tool amd-smi, which counts each partition of a GPU as a GPU."""

    def listed(self) -> "list[dict[str, Any]]":
        """Return a record of each GPU, with its ID. `-e`, which adds the number for HIP, exists since ROCm 6.4.1."""
        try:
            return [record for value in documents("amd-smi", "list", "-e", "--json") for record in records(value)]
        except Failed:
            return [record for value in documents("amd-smi", "list", "--json") for record in records(value)]

    def ids(self) -> "dict[str, str]":
        return unique({str(record["gpu"]): record.get("uuid", "") for record in self.listed()})

    def devices(self) -> "list[dict[str, str]]":
        by_number = {record["gpu"]: record for record in self.listed()}
        ids = unique({str(index): record.get("uuid", "") for index, record in by_number.items()})
        rows = []
        for value in documents("amd-smi", "static", "--json"):
            for record in records(value):
                listed = by_number.get(record["gpu"], {})
                limit = record.get("limit")
                rows.append(
                    {
                        "index": str(record["gpu"]),
                        "uuid": ids.get(str(record["gpu"]), "AMD-%d" % record["gpu"]),
                        "name": str(inner(record, "asic", "market_name")),
                        "memory.total": number(inner(record, "vram", "size")),
                        "power.limit": first(
                            inner(limit, "socket_power"),
                            inner(limit, "ppt0", "socket_power_limit"),
                            inner(limit, "ppt0", "socket_power"),
                        ),
                        "driver_version": str(inner(record, "driver", "version")),
                        "hip": number(listed.get("hip_id")),
                        "partition": number(listed.get("partition_id")),
                    }
                )
        if any(row["partition"] not in ("0", UNKNOWN) for row in rows):
            for row in rows:
                row["name"] += " partition " + row["partition"]
        return named(rows)

    def readings(self, *watch: str) -> "Iterator[list[dict[str, str]]]":
        """Yield the state of all GPUs: once, or with the options of `watch` repeatedly."""
        partitions = {record["gpu"]: number(record.get("partition_id")) for record in self.listed()}
        # In virtual machines, `-e` (ECC errors) is not available.
        for options in ((*METRICS, "-e"), METRICS):
            try:
                for value in documents("amd-smi", *options, "--json", *watch):
                    yield [reading(record, partitions.get(record["gpu"], "0")) for record in records(value)]
                return
            except Failed:
                if options == METRICS:
                    raise

    def processes(self, *watch: str) -> "Iterator[list[tuple[str, str, str]]]":
        """Yield lists with the GPU number, the process ID and the memory in MiB of each process that holds GPU memory.

        amd-smi also lists a process, with 0 bytes of memory, for each GPU that it could use. These entries are omitted.
        """
        for value in documents("amd-smi", "process", "--json", *watch):
            processes = []
            for record in records(value):
                for entry in record.get("process_list") or ():
                    info = inner(entry, "process_info")
                    used = first(inner(info, "memory_usage", "vram_mem"), inner(info, "mem_usage"))
                    pid = number(inner(info, "pid"))
                    if pid != UNKNOWN and used != "0":
                        processes.append((str(record["gpu"]), pid, mebibytes(used)))
            yield processes


def reading(record: "dict[str, Any]", partition: str) -> "dict[str, str]":
    """Return the state of a GPU in a record of `amd-smi metric`."""
    throttled = inner(record, "power", "throttle_status")
    return {
        "index": str(record["gpu"]),
        "utilization.gpu": utilization(record.get("usage"), partition),
        "memory.used": number(inner(record, "mem_usage", "used_vram")),
        "power.draw": number(inner(record, "power", "socket_power")),
        "temperature.gpu": first(inner(record, "temperature", "hotspot"), inner(record, "temperature", "edge")),
        "clocks.current.sm": number(inner(record, "clock", "gfx_0", "clk")),
        "clocks.current.memory": number(inner(record, "clock", "mem_0", "clk")),
        # amd-smi does not report the reason; 0x8 is a slowdown without a known reason.
        "clocks_throttle_reasons.active": {"THROTTLED": "0x8", "UNTHROTTLED": "0x0"}.get(str(throttled), UNKNOWN),
        "ecc.errors.uncorrected.volatile.total": number(inner(record, "ecc", "total_uncorrectable_count")),
    }


def utilization(usage: Any, partition: str) -> str:
    """Return the utilization of a GPU. If the GPU is divided, return the mean of the partition's compute units."""
    units = inner(usage, "gfx_busy_inst")
    values = {}
    for key, listed in units.items() if isinstance(units, dict) else ():
        values_of_units = listed if isinstance(listed, list) else [listed]
        numbers = [float(digits) for digits in map(number, values_of_units) if digits != UNKNOWN]
        if numbers:
            values[key] = "%.0f" % (sum(numbers) / len(numbers))
    if len(values) > 1:
        return values.get("xcp_" + partition, UNKNOWN)
    return number(inner(usage, "gfx_activity"))


class RocmSmi:
    """The older tool rocm-smi. It has no option to repeat a query."""

    def cards(self, *options: str) -> "list[tuple[str, dict[str, Any]]]":
        """Return the number and the values of each GPU. The values include those of the system."""
        cards = []
        for value in documents("rocm-smi", *options, "--json"):
            for key, card in value.items() if isinstance(value, dict) else ():
                if re.match(r"card\d+$", key) and isinstance(card, dict):
                    cards.append((key[4:], dict(value.get("system") or {}, **card)))
        return cards

    def ids(self) -> "dict[str, str]":
        return {row["index"]: row["uuid"] for row in self.devices()}

    def devices(self) -> "list[dict[str, str]]":
        cards = self.cards(*ROCM_DEVICE)
        ids = unique({index: card.get("Unique ID", "") for index, card in cards})
        return named(
            [
                {
                    "index": index,
                    "uuid": ids[index],
                    "name": str(card.get("Card Series") or card.get("Card series") or "N/A"),
                    "memory.total": mebibytes(card.get("VRAM Total Memory (B)")),
                    "power.limit": number(card.get("Max Graphics Package Power (W)")),
                    "driver_version": str(card.get("Driver version", "")),
                    "hip": UNKNOWN,
                }
                for index, card in cards
            ]
        )

    def readings(self, *watch: str) -> "Iterator[list[dict[str, str]]]":
        yield [
            {
                "index": index,
                "utilization.gpu": number(card.get("GPU use (%)")),
                "memory.used": mebibytes(card.get("VRAM Total Used Memory (B)")),
                "power.draw": first(*(card[key] for key in sorted(card) if key.endswith("Graphics Package Power (W)"))),
                "temperature.gpu": first(
                    card.get("Temperature (Sensor junction) (C)"), card.get("Temperature (Sensor edge) (C)")
                ),
                "clocks.current.sm": number(card.get("sclk clock speed:")),
                "clocks.current.memory": number(card.get("mclk clock speed:")),
            }
            for index, card in self.cards(*ROCM_READING)
        ]

    def processes(self, *watch: str) -> "Iterator[list[tuple[str, str, str]]]":
        """Yield the processes as AmdSmi does. Reads text, because the JSON does not contain the GPUs of a process."""
        memory: "dict[str, tuple[str, str]]" = {}
        pairs: "list[tuple[str, str]]" = []
        pid = ""
        for line in lines_of(("rocm-smi", "--showpids", "--showpidgpus")):
            row = re.match(r"(\d+)\s.*\s(\d+|UNKNOWN)\s+(\d+|UNKNOWN)\s+\S+\s+\S+\s*$", line)
            using = re.match(r"PID (\d+) is using (\d+) DRM device", line)
            if using:
                pid = using.group(1)
            elif pid and re.match(r"[\d ]+$", line):
                pairs += [(index, pid) for index in line.split()]
            elif row:
                memory[row.group(1)] = (row.group(2), row.group(3))
        # The memory of a process is the sum for all of its GPUs.
        yield [
            (index, pid, mebibytes(memory[pid][1]) if memory[pid][0] == "1" else UNKNOWN)
            for index, pid in pairs
            if memory.get(pid, ("", "0"))[1] != "0"
        ]


def repeated(ask: Any, is_repeated: bool, has_watch: bool) -> "Iterator[Any]":
    """Yield one answer of a tool or, with `is_repeated`, one answer every SECONDS."""
    watch = ("-w", str(SECONDS), "-i", str(ROUNDS)) if is_repeated and has_watch else ()
    while True:
        yield from ask(*watch)
        if not is_repeated:
            return
        time.sleep(SECONDS)


def stamp() -> str:
    """Return the local time in the format of nvidia-smi."""
    now = time.time()
    return time.strftime("%Y/%m/%d %H:%M:%S", time.localtime(now)) + ".%03d" % (now % 1 * 1000)


def show(rows: "list[dict[str, str]]", fields: "list[str]") -> None:
    """Print rows as nvidia-smi does with `--format=csv,noheader`."""
    for row in rows:
        print(", ".join(dict(row, timestamp=stamp()).get(field, UNKNOWN) for field in fields))
    sys.stdout.flush()


def answer(tool: "Union[AmdSmi, RocmSmi]", query: str, words: "list[str]") -> None:
    """Print the output of nvidia-smi for a query. Raises Failed."""
    name, _, listed = query.partition("=")
    fields, has_watch, is_repeated = listed.split(","), isinstance(tool, AmdSmi), "-l" in words
    if name == "-L":
        for row in tool.devices():
            hip = row["index"] if row["hip"] == UNKNOWN else row["hip"]
            print("GPU %s: %s (UUID: %s) HIP %s" % (row["index"], row["name"], row["uuid"], hip))
    elif name == "--query-compute-apps":
        ids = tool.ids()
        for processes in repeated(tool.processes, is_repeated, has_watch):
            rows = [{"gpu_uuid": ids.get(index, ""), "pid": pid, "used_memory": used} for index, pid, used in processes]
            show(rows, fields)
    elif name == "--query-gpu":
        wants_devices = any(field in DEVICE for field in fields)
        devices = {row["index"]: row for row in tool.devices()} if wants_devices else {}
        if devices and not any(word.endswith("nounits") for word in words):
            for row in devices.values():
                row["memory.total"] += "" if row["memory.total"] == UNKNOWN else " MiB"
        if all(field in (*DEVICE, "index", "compute_cap", "mig.mode.current") for field in fields):
            show(list(devices.values()), fields)
            return
        # Wait for the processes, which another call of this program lists, so that the first sample has them.
        time.sleep(SECONDS / 2 if is_repeated else 0)
        for rows in repeated(tool.readings, is_repeated, has_watch):
            show([dict(devices.get(row["index"], {}), **row) for row in rows], fields)


def main(words: "list[str]") -> int:
    """Answer the query and return the exit code. Errors of the tool are printed to stdout, as by nvidia-smi."""
    try:
        answer(AmdSmi() if words[0] == "amd-smi" else RocmSmi(), words[1] if len(words) > 1 else "", words[2:])
    except Failed as error:
        print(error)
        return 9
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        print("unexpected output of %s: %s" % (words[0], error))
        return 9
    except FileNotFoundError:
        sys.stderr.write("%s: not found\n" % words[0])
        return 127
    except (BrokenPipeError, KeyboardInterrupt):
        os._exit(1)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
