"""The GPUs of a machine according to `nvidia-smi` or `amd-smi`, called by a shell script on the machine.

The script leaves no files on the machine. Two processes of the tool run while samples are taken, one for devices and
one for processes, because starting a process every second would be slow.
"""

from __future__ import annotations

import os
import time

from tui_workbench.core.shell_scripts import shell_script
from tui_workbench.core.waiting import wait_ready
from tui_workbench.targets.gpu.sample import Machine, Note, Sample
from tui_workbench.targets.gpu.smi_lines import SmiLines
from tui_workbench.targets.gpu.vendors import NVIDIA, with_smi
from tui_workbench.targets.hosts.host import READ_SIZE, ConnectionLost, Host, HostProcess

# Seconds without output after which the tool counts as hanging; a busy machine may need a few.
SILENCE_SECONDS = 10.0
# Timeout of the first answer in seconds. Without persistence mode, the driver wakes every device before it answers.
FIRST_SECONDS = 60.0

_WAIT = "Wait: sampling resumes when the machine answers."

_WATCH = with_smi(shell_script("targets/gpu/scripts/watch_gpus.sh"))


class Smi:
    """The script that runs on the machine and prints samples. Raises TargetUnreachable."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._lines = SmiLines(time.time, time.monotonic)
        self._rest = b""
        self._process = self._open()

    def machine(self) -> Machine:
        """Return the machine's GPUs, and start sampling them for `look`. Raises TargetUnreachable."""
        while True:
            lines = self._first_lines()
            # nvidia-smi prints only an error if it does not know a field, so it is called again without this field.
            if not self._lines.drop_unknown(lines, "m"):
                break
            self._process.close()
            self._process = self._open()
        machine = self._lines.machine(lines)
        if machine.devices:
            # The script takes samples after it has read a line, and ends with its input.
            os.write(self._process.stdin, b"go\n")
        return machine

    def look(self, seconds: float) -> list[Sample | Note]:
        """Return the records that arrive within `seconds`. Raises TargetUnreachable when the connection breaks."""
        records: list[Sample | Note] = []
        if wait_ready([self._process.stdout], timeout=seconds):
            data = os.read(self._process.stdout, READ_SIZE)
            if not data:
                message = f"the connection to {self._host.label} was lost while monitoring its GPUs"
                raise ConnectionLost(message, remedy=_WAIT)
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                records += self._lines.take(line.decode("utf-8", "replace"))
                if self._lines.is_outdated:
                    self._reopen()
                    break  # the other lines are those of the script that has ended
        silence = time.monotonic() - self._lines.heard
        if silence > SILENCE_SECONDS:
            records += self._lines.complain(f"{self._lines.tool} does not answer")
        return records

    def close(self) -> None:
        self._process.close()

    def _open(self) -> HostProcess:
        words = [",".join(self._lines.fields[kind]) for kind in "mgp"]
        self._rest = b""
        return self._host.open(["sh", "-c", _WATCH, "sh", *words])

    def _first_lines(self) -> list[str]:
        deadline = time.monotonic() + FIRST_SECONDS
        while b"\n.\n" not in self._rest:
            if not wait_ready([self._process.stdout], timeout=max(0.0, deadline - time.monotonic())):
                tool = self._rest.partition(b"\n")[0].decode()[1:] or NVIDIA.tool
                return [f"s{tool}", f"m{tool} did not answer within {FIRST_SECONDS:g} s"]
            data = os.read(self._process.stdout, READ_SIZE)
            if not data:
                message = f"the connection to {self._host.label} was lost while searching for GPUs"
                raise ConnectionLost(message, remedy=_WAIT)
            self._rest += data
        text, _, self._rest = self._rest.partition(b"\n.\n")
        return text.decode("utf-8", "replace").split("\n")

    def _reopen(self) -> None:
        self._lines.is_outdated = False
        self._process.close()
        self._process = self._open()
        self._first_lines()
        os.write(self._process.stdin, b"go\n")
