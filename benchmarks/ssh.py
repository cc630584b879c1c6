"""Measure another machine over SSH: its output, files and ports, and the output after cuts of the connection.

    python -m benchmarks.ssh

Lag: a run of type `remote` prints the clock every 5 ms. The time until each line is in the local `output.log` is
compared with the same script under `ssh`. The machines share a clock. Volume: output that a run has written, compared
with `ssh HOST cat FILE > FILE`. Files are sent for the first time, again, and with five changes, compared with
`rsync -a` over `ssh` with default settings. rsync logs in each time; the workbench uses its open connection.

Ports: HTTP requests to a server on the machine through a forwarded port, each on a new connection, compared with the
port of `ssh -L`, and with the server's own port, which shows what forwarding adds. The server sends an answer in one
write: with two, the second one may wait 40 ms for a delayed TCP acknowledgment.

Cuts: a script on the machine prints numbered lines every 10 ms. Three programs follow its log at the same time, on
separate connections, so that each cut affects all of them: the workbench; `tail -F` over ssh in a loop; and the same
loop with `tail -c +N -F`, which continues at the size of the local file. The loops start ssh again one second after it
has ended, and ssh sends keep-alive messages as the workbench does. A gap is the time from the moment when the
connection is possible again until a line that was printed after that moment is in the local file. A line that was torn
counts as lost, and its parts as repeated.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import random
import shlex
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.harness import (
    SECONDS,
    Unit,
    compare,
    compare_values,
    environment,
    finish,
    note,
    percentile,
    slowness,
)
from benchmarks.ssh_machine import Remote, is_possible, remote
from tui_workbench.core.model import RunRequest
from tui_workbench.core.plaintext import counted
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.targets.hosts.host import Entry
from tui_workbench.targets.hosts.manifest import FileList
from tui_workbench.targets.hosts.mirror import Mirror
from tui_workbench.targets.hosts.sending import sync

LINES = 400
LAG_MARGIN = 0.050
VOLUME = 150_000_000
VOLUME_LIMIT = 1.2
FILES, TOTAL, CHANGED = 1_000, 100_000_000, 5
FIRST_LIMIT, AGAIN_LIMIT = 1.2, 0.5

REQUESTS = 300
FORWARD_MARGIN = 0.001
"""Seconds that a request through a forwarded port may take longer than through `ssh -L` or without forwarding."""

SERVER = """\
import http.server
class Handler(http.server.SimpleHTTPRequestHandler):
    wbufsize = -1
server = http.server.HTTPServer(("", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""

CUT = 5.0
"""Seconds for which the link is down."""

CUT_ROUNDS = 1
"""Number of runs with cuts."""

KILLS = 5
"""Number of times that the connections of a run are killed, each time as soon as the log is up to date again."""

GAP_MARGIN, DOWN_MARGIN = 0.250, 1.0
"""Seconds after a killed connection, and after a link was down: then TCP retransmits once a second."""

KEEPALIVE = ("-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3", "-o", "ConnectTimeout=5")
RETRY_SECONDS = 1
PATIENCE = 60.0
PAUSE = 0.002
BYTES = Unit("bytes", 1.0, 0)

COUNTER = """\
import itertools, time
for number in itertools.count():
    print(number, time.clock_gettime_ns(time.CLOCK_MONOTONIC), flush=True)
    time.sleep(0.01)
"""

SCRIPT = f"""\
import time
for _ in range({LINES}):
    print(time.clock_gettime_ns(time.CLOCK_MONOTONIC), flush=True)
    time.sleep(0.005)
"""


def main() -> int:
    if is_possible():
        with remote() as box:
            _measure_lag(box)
            _measure_volume(box)
            _measure_files(box)
            _measure_ports(box)
            _measure_cuts(box)
    else:
        note("runs on another machine, because only root can create the machine")
    return finish()


def _measure_lag(box: Remote) -> None:
    project = box.make_project("clock.py", SCRIPT)
    run = Runs(project).submit(RunRequest("box", "clock.py"))
    log = Path(run.log_path)
    while not log.exists():
        time.sleep(0.001)
    with log.open("rb", buffering=0) as file:
        ours = _steady(lambda: file.read(1 << 16))
    while Runs(project).get(run.run_id).is_active:
        time.sleep(0.05)
    command = [*box.ssh, "python3 -u -"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()) as plain:
        assert plain.stdin is not None
        assert plain.stdout is not None
        plain.stdin.write(SCRIPT.encode())
        plain.stdin.close()
        descriptor = plain.stdout.fileno()
        theirs = _steady(lambda: os.read(descriptor, 1 << 16))
    name = "from `print` on the machine to the local `output.log`"
    mine, least = percentile(ours, 50), percentile(theirs, 50)
    compare_values(name, mine, least, 1.0, baseline_name="`ssh HOST python3`", margin=LAG_MARGIN * slowness())


def _steady(read: Callable[[], bytes]) -> list[float]:
    """Return the lags of the lines, without the first ones, which were written before they could be followed."""
    lags: list[float] = []
    rest = b""
    while len(lags) < LINES:
        rest += read()
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        *lines, rest = rest.split(b"\n")
        lags += [(now - int(line)) / 1e9 for line in lines]
        time.sleep(0.0002)
    return lags[LINES // 10 :]


def _measure_volume(box: Remote) -> None:
    block = bytes(range(256)) * 4096
    with (box.home / "big").open("wb") as file:
        while file.tell() < VOLUME:
            file.write(block)
    size = (box.home / "big").stat().st_size
    ours, theirs = box.folder / "ours", box.folder / "theirs"

    def take() -> None:
        ours.unlink(missing_ok=True)
        with Mirror(box.host, "/home/research/big", str(box.folder), ours.name) as mirror:
            mirror.open()
            while mirror.size < size and mirror.pump():
                pass

    def cat() -> None:
        with theirs.open("wb") as file:
            subprocess.run([*box.ssh, "cat big"], stdout=file, env=environment(), check=True)

    compare(f"{VOLUME / 1e6:.0f} MB of output over SSH", take, cat, VOLUME_LIMIT, 2, baseline_name="`ssh HOST cat`")
    if ours.stat().st_size != size:
        raise SystemExit("the received file differs from the written file")


def _measure_files(box: Remote) -> None:
    rsync = shutil.which("rsync")
    if rsync is None:
        note("the transfer of files, because rsync, the baseline, is not installed")
        return
    source = box.folder / "files"
    listing = _make_tree(source)
    ours, theirs = _Ours(box, source, listing), _Rsync(box, source, rsync)
    name = f"sync of {FILES:,} files, {TOTAL / 1e6:.0f} MB"
    compare(f"{name}, first", ours.first, theirs.first, FIRST_LIMIT, 2, baseline_name="`rsync -a`")
    compare(f"{name}, nothing changed", ours.again, theirs.again, AGAIN_LIMIT, 5, baseline_name="`rsync -a`")
    compare(f"{name}, {CHANGED} changed", ours.changed, theirs.changed, AGAIN_LIMIT, 5, baseline_name="`rsync -a`")
    difference = subprocess.run(["diff", "-r", str(source), str(box.home / "ours" / "tree")], check=False)
    if difference.returncode != 0:
        raise SystemExit("the received files differ from the sent files")


class _Ours:
    def __init__(self, box: Remote, source: Path, listing: list[Entry]) -> None:
        self._box, self._source, self._listing = box, source, listing
        self._version = 0
        self._destination = f"{box.host.home().removesuffix('/.workbench-tui')}/ours/tree"

    def first(self) -> None:
        """Send to an empty folder. For both programs, removing the files of the last round is included."""
        self._box.host.check(["rm", "-rf", self._destination.removesuffix("/tree")])
        self.again()

    def again(self) -> None:
        sync(self._box.host, FileList.of(self._listing), str(self._source), self._destination)

    def changed(self) -> None:
        self._version += 1
        for number in range(CHANGED):
            entry = self._listing[number]
            self._listing[number] = entry._replace(identity=f"{number}-{self._version}")
        self.again()


class _Rsync:
    def __init__(self, box: Remote, source: Path, rsync: str) -> None:
        self._source = source
        self._version = 0
        *words, self._account = box.ssh
        self._shell = [*words, self._account]
        self._command = [rsync, "-a", "--delete", "-e", shlex.join(words), f"{source}/", f"{self._account}:theirs"]

    def first(self) -> None:
        subprocess.run([*self._shell, "rm -rf theirs"], check=True, env=environment())
        self.again()

    def again(self) -> None:
        subprocess.run(self._command, check=True, env=environment())

    def changed(self) -> None:
        self._version += 1
        for number in range(CHANGED):
            os.utime(self._source / _name(number), (self._version, self._version))
        self.again()


def _measure_ports(box: Remote) -> None:
    with contextlib.ExitStack() as stack:
        # The output of the server is its log; the request for a missing file is answered without reading a disk.
        command = [*box.ssh, f"exec python3 -c {shlex.quote(SERVER)} 2>/dev/null"]
        server = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, env=environment()))
        stack.callback(server.kill)
        assert server.stdout is not None
        port = int(server.stdout.readline())
        forward = box.host.forward_port("127.0.0.1", port, 0)
        assert forward is not None
        stack.enter_context(forward.connection)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            here = int(probe.getsockname()[1])
        command = [*box.ssh[:-1], "-N", "-L", f"{here}:127.0.0.1:{port}", box.ssh[-1]]
        stack.callback(stack.enter_context(subprocess.Popen(command, env=environment())).kill)
        while not _answers(here):
            time.sleep(0.05)
        addresses = ("127.0.0.1", forward.port), ("127.0.0.1", here), (box.machine.address, port)
        rounds = [[_request(*address) for address in addresses] for _ in range(REQUESTS)]
    ours, tunneled, direct = (percentile(values, 50) for values in zip(*rounds, strict=True))
    margin = FORWARD_MARGIN * slowness()
    for name, baseline in (("`ssh -L`", tunneled), ("direct connection", direct)):
        title = "HTTP request through a forwarded port"
        compare_values(title, ours, baseline, 1.0, baseline_name=name, margin=margin)


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", port)).close()
        return True
    return False


def _request(host: str, port: int) -> float:
    """Return the seconds of a request on a new connection."""
    begun = time.perf_counter()
    connection = http.client.HTTPConnection(host, port)
    connection.request("GET", "/missing")
    connection.getresponse().read()
    connection.close()
    return time.perf_counter() - begun


def _name(number: int) -> str:
    return f"package_{number % 50}/file_{number}"


def _make_tree(root: Path) -> list[Entry]:
    generator = random.Random(1)
    words = [generator.randbytes(4).hex() for _ in range(5_000)]
    size = TOTAL // FILES
    text = " ".join(generator.choice(words) for _ in range(size // 8)).encode()[:size]
    listing = []
    for number in range(FILES):
        path = root / _name(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        data = generator.randbytes(size) if number % 2 else text
        path.write_bytes(data)
        listing.append(Entry(_name(number), str(number), len(data)))
    return listing


class Follower(NamedTuple):
    """A program that follows the log of the script, and the local file to which it writes."""

    name: str
    file: Path


def _measure_cuts(box: Remote) -> None:
    """Compare what three followers of a log have after cuts of the connection."""
    project = box.make_project("counter.py", COUNTER, "cuts")
    for name, cut, cuts, seconds in (
        ("link down for 5 s", _cut_link, 1, DOWN_MARGIN),
        ("SSH connection killed", _kill_connection, KILLS, GAP_MARGIN),
    ):
        measured = [_measured_run(box, project, cut, cuts) for _ in range(CUT_ROUNDS)]
        margin = seconds * slowness()
        for which in sorted({0, cuts - 1}):
            gaps = [statistics.median(run.gaps[which][each] for run in measured) for each in range(3)]
            place = "first cut of a run" if which == 0 else f"{which + 1}th cut of a run"
            for loop in (1, 2):
                compare_values(
                    f"{name}, {place}, gap until new lines are in the local file",
                    gaps[0],
                    gaps[loop],
                    1.0,
                    baseline_name=measured[0].names[loop],
                    margin=margin,
                    unit=SECONDS,
                )
        lost = [sum(run.differences[each] for run in measured) for each in range(3)]
        what = f"{name}, {counted(CUT_ROUNDS * cuts, 'cut')}, bytes lost or repeated"
        for loop in (1, 2):
            compare_values(what, lost[0], lost[loop], 0.0, baseline_name=measured[0].names[loop], unit=BYTES)


class CutRun(NamedTuple):
    """A run whose connection was cut: for the three followers, the gaps of each cut, and the bytes that differ."""

    names: list[str]
    gaps: list[list[float]]
    differences: list[int]


def _measured_run(box: Remote, project: Project, cut: Callable[[Remote], int], cuts: int) -> CutRun:
    run = Runs(project).submit(RunRequest("box", "counter.py"))
    there = box.home / ".workbench-tui" / "runs" / run.run_id / "output.log"
    _wait_for_content(there)
    _wait_for_content(Path(run.log_path))
    ours = Follower("workbench", Path(run.log_path))
    with _loop(box, "-F", run.run_id) as plain, _loop(box, "-c +$((N + 1)) -F", run.run_id) as resuming:
        followers = (ours, plain, resuming)
        gaps = [_gaps(cut(box), followers) for _ in range(cuts)]
        Runs(project).cancel(run.run_id)
        written = _content(there)
        _wait_for_all(written.splitlines()[-1], followers)
    differences = [_differences(written, _content(follower.file)) for follower in followers]
    return CutRun([follower.name for follower in followers], gaps, differences)


def _differences(written: bytes, received: bytes) -> int:
    """Return the bytes of lost lines, and of everything that is not in the output, since the first received line."""
    lines = received.splitlines(keepends=True)
    written = written[written.index(lines[0]) :]
    present = set(lines)
    lost = sum(len(line) for line in written.splitlines(keepends=True) if line not in present)
    return lost + len(received) - (len(written) - lost)


@contextlib.contextmanager
def _loop(box: Remote, options: str, run_id: str) -> Iterator[Follower]:
    """Follow the log of the run with `tail` over ssh, again and again. `N` in the options is the size of the file."""
    file = box.folder / f"{run_id}{options.split()[0]}"
    file.touch()
    command = f"tail {options} .workbench-tui/runs/{run_id}/output.log"
    ssh = shlex.join([*box.ssh[:-1], *KEEPALIVE, box.ssh[-1]])
    text = f'while :; do N=$(stat -c %s {file}); {ssh} "{command}" >>{file}; sleep {RETRY_SECONDS}; done'
    with subprocess.Popen(
        ["sh", "-c", text], env=environment(), stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:
        try:
            _wait_for_content(file)
            yield Follower(f"`ssh HOST tail {options.replace('$((N + 1))', 'N')}` in a loop", file)
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def _cut_link(box: Remote) -> int:
    with box.machine.cut_off():
        time.sleep(CUT)
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def _kill_connection(box: Remote) -> int:
    box.machine.kill_connections()
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def _gaps(since: int, followers: tuple[Follower, ...]) -> list[float]:
    """Return the seconds until each follower has a line that was printed after this time in nanoseconds."""
    gaps: dict[str, float] = {}
    deadline = time.monotonic() + PATIENCE
    while len(gaps) < len(followers):
        for follower in followers:
            if follower.name not in gaps and _newest(follower.file) > since:
                gaps[follower.name] = (time.clock_gettime_ns(time.CLOCK_MONOTONIC) - since) / 1e9
        if time.monotonic() > deadline:
            raise TimeoutError(f"only these have new lines: {gaps}")
        time.sleep(PAUSE)
    return [gaps[follower.name] for follower in followers]


def _newest(file: Path) -> int:
    """Return the time in the last complete line of the file."""
    words = _tail(file).rpartition(b"\n")[0].rpartition(b"\n")[2].split()
    return int(words[-1]) if words else 0


def _tail(file: Path) -> bytes:
    with file.open("rb") as stream:
        stream.seek(max(0, file.stat().st_size - 400))
        return stream.read()


def _content(path: Path) -> bytes:
    with contextlib.suppress(FileNotFoundError):
        return path.read_bytes()
    return b""


def _wait_for_content(file: Path) -> None:
    _wait(lambda: bool(_content(file)))


def _wait_for_all(line: bytes, followers: Iterable[Follower]) -> None:
    _wait(lambda: all(line in _tail(follower.file) for follower in followers))


def _wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("the benchmark waits for too long")
        time.sleep(0.02)


if __name__ == "__main__":
    sys.exit(main())
