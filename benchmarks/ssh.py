"""Measure runs on another machine, and the screens over a slow connection.

    python -m benchmarks.ssh

Lag: a run of type `remote` prints the clock every 5 ms. The time until each line is in the local `output.log` is
compared with the same script under `ssh`. The machines share a clock. Volume: output that a run has written, compared
with `ssh HOST cat FILE > FILE`. Files are sent for the first time, again, and with five changes, compared with
`rsync -a` over `ssh` with default settings. rsync logs in each time; the workbench uses its open connection.

Ports: HTTP requests to a server on the machine through a forwarded port, each on a new connection, compared with the
port of `ssh -L`, and with the server's own port, which shows what forwarding adds. The server sends an answer in one
write: with two, the second one may wait 40 ms for a delayed TCP acknowledgment.

Bytes: the workbench runs in a pseudo-terminal with 256 colors on a copy of the sample project. All bytes that the
terminal receives are counted. The baseline is the same program with Textual's own output.

Keys: an SSH server on this machine is reached through a relay that delays each byte by 100 ms in each direction,
because the kernels of build machines have no netem. The baseline is `cat` on the other side, where the terminal echoes
each key.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import random
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.harness import Unit, compare, compare_values, environment, finish, note, percentile, python, slowness
from benchmarks.ssh_machine import Remote, is_possible, remote
from benchmarks.terminal import Terminal
from tests.terminal.sshd import SlowLine, Sshd
from tui_workbench.core.model import RunRequest
from tui_workbench.runs.facade import Runs
from tui_workbench.targets.hosts.host import Entry
from tui_workbench.targets.hosts.mirror import Mirror
from tui_workbench.targets.hosts.sending import sync

LINES = 400
LAG_MARGIN = 0.050
VOLUME = 150_000_000
VOLUME_LIMIT = 1.2
FILES, TOTAL, CHANGED = 1_000, 100_000_000, 5
FIRST_LIMIT, AGAIN_LIMIT = 1.2, 0.5

COLUMNS, ROWS = 120, 40
FIRST_SCREEN_LIMIT, BYTES_LIMIT = 0.5, 0.5
"""Limits of the bytes of the first screen and of a key, as multiples of Textual's."""

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

BYTES = Unit("bytes", 1.0, 0)
QUIET = 0.4
"""Seconds without a byte after which a screen is complete."""

ONE_WAY = 0.1
BURST = "abcdefghijklmnopqrstuvwxyz0123"
SINGLE = 10
KEY_LIMIT, BURST_LIMIT = 1.5, 2.5
"""Limits of a key and of a burst, as multiples of the delay of the connection."""

SAMPLE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "sample_project")

STOCK = """
from textual.app import App
from tui_workbench.ui.terminal.terminal_app import TerminalApp
TerminalApp._display = App._display
from tui_workbench.ui import start
start.run({project!r})
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
    else:
        note("runs on another machine, because only root can create the machine")
    with tempfile.TemporaryDirectory() as folder:
        count_bytes(folder)
    with tempfile.TemporaryDirectory() as folder:
        measure_keys(Path(folder))
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
        sync(self._box.host, self._listing, str(self._source), self._destination)

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


def count_bytes(folder: str) -> None:
    """Compare the workbench's output with Textual's."""
    project = _copy(folder)
    ours = [python(), "-m", "tui_workbench", project]
    stock = [python(), "-c", STOCK.format(project=project)]
    theirs, mine = watch(stock, folder), watch(ours, folder)
    for what, number in mine.items():
        limit = FIRST_SCREEN_LIMIT if what == "first screen" else BYTES_LIMIT
        name = f"{what}, bytes at {COLUMNS} x {ROWS}"
        compare_values(name, number, theirs[what], limit, baseline_name="Textual's output", unit=BYTES)


def _copy(folder: str) -> str:
    left_out = shutil.ignore_patterns(".workbench", "outputs")
    return shutil.copytree(SAMPLE, os.path.join(folder, "sample_project"), ignore=left_out)


def watch(command: Sequence[str], home: str) -> Mapping[str, int]:
    """Return the number of bytes of each action by its name."""
    counted: dict[str, int] = {}
    with Terminal(command, columns=COLUMNS, rows=ROWS, changes=_variables(home)) as terminal:
        terminal.until_text("train.py")
        terminal.settle(2 * QUIET)
        counted["first screen"] = terminal.received

        def press(what: str, keys: str) -> None:
            before = terminal.received
            terminal.send(keys)
            terminal.settle(QUIET)
            counted[what] = terminal.received - before

        terminal.send("G")
        terminal.settle(QUIET)
        press("a row up in a list", "\x1b[A")
        terminal.send("\x1b[B\r")
        terminal.until_text("Train a small")
        terminal.settle(2 * QUIET)
        press("a letter in the editor", "x")
        press("a line break in the editor", "\r")
    return counted


def _variables(home: str) -> dict[str, str]:
    """Return the environment of a terminal with 256 colors and an empty state directory."""
    path = f"{os.path.dirname(python())}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    return {"TERM": "xterm-256color", "COLORTERM": "", "HOME": home, "PATH": path, "XDG_STATE_HOME": ""}


def measure_keys(folder: Path) -> None:
    """Compare keys in the workbench with keys in `cat`, over the same connection."""
    home, project = folder / "home", _copy(str(folder))
    home.mkdir()
    with Sshd(folder) as sshd, SlowLine(sshd.port, ONE_WAY) as line:
        with Terminal(sshd.command(["sh", "-c", "echo there; exec cat"], {}, port=line.port)) as terminal:
            terminal.until_text("there")
            delay = percentile(_typed_alone(terminal), 50)
        with sshd.workbench(project, home, port=line.port) as terminal:
            terminal.until_text("ready")
            terminal.send("1/train.py\r")
            terminal.until_text("Train a small")
            terminal.settle(1.0)
            keys = _typed_alone(terminal)
            terminal.send("\r")
            terminal.settle(1.0)
            burst = typed(terminal, BURST, BURST)
    baseline = "`cat`, echo of a key"
    compare_values(
        "key press until its effect is visible, delay of 200 ms",
        percentile(keys, 50),
        delay,
        KEY_LIMIT,
        baseline_name=baseline,
    )
    compare_values(
        f"{len(BURST)} keys at once, until the effect of the last key is visible",
        burst,
        delay,
        BURST_LIMIT,
        baseline_name=baseline,
    )


def _typed_alone(terminal: Terminal) -> list[float]:
    return [typed(terminal, key, BURST[: place + 1]) for place, key in enumerate(BURST[:SINGLE])]


def typed(terminal: Terminal, keys: str, seen: str) -> float:
    """Return the seconds from typing until the text is on the screen."""
    pressed = terminal.send(keys)
    return terminal.until_text(seen) - pressed


if __name__ == "__main__":
    sys.exit(main())
