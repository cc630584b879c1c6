"""Kill members, processes and connections at random moments while runs execute on two machines and on a group of them.

    python -m tests.targets.soak --attempts N [--pause SECONDS] [--docker] [--seed SEED] [--keep FOLDER]

Runs have `Retry`, so that a run ends when an attempt was not disturbed. The script of each attempt adds a line to a
file of its machine when it starts, writes numbered lines, and ends with a code, all known in advance. The victims are
the machines (a restart), the scripts with torchrun and its ranks, the supervising shells, the SSH servers, connections
and the network; and on this machine controllers, the SSH links and a command that submits. With --docker, runs also
execute in containers of the first machine, alone and as members of a group, and containers are killed. An attempt may
fail only if the soak has killed one of its processes or restarted its machine. A run may also fail without any attempt
if its machine did not answer when it was submitted, as the documentation says; such runs are counted separately.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from tests.conftest import open_folder
from tests.engines import DockerEngine, load_images
from tests.machines import Machine, machine, make_key
from tests.targets.conftest import end_links, link_processes
from tests.targets.group_project import Group
from tests.targets.slurm.soak import content, kill_all
from tests.torch_parts import lay_out
from tui_workbench.core.causes import plain
from tui_workbench.core.model import Run, RunRequest, RunState
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.lifecycle.starting import CONTROLLER
from tui_workbench.runs.store.attempts import AttemptRecord, attempts_of
from tui_workbench.runs.store.rundir import ControllerLock, RunDirectory
from tui_workbench.targets.docker.container import KIND_LABEL, RUN_KIND, container_name

MEMBERS = {"both": ("box1", "box2"), "mixed": ("docker", "box2")}
"""The groups with their members."""

ACTIVE_RUNS = 3
PATIENCE = 600.0
"""Seconds for the last runs to end."""

LONGEST_PAUSE, LONGEST_ABSENCE = 4.0, 3.0
"""Seconds between two kills by default, and until what was stopped is started again."""

RETRY = {"times": 50, "delay": 0}
MARKS = ".azureml/share/project/marks"

SCRIPT = """\
import os, sys, time
lines, codes = int(sys.argv[1]), sys.argv[2].split(",")
attempt, rank = int(os.environ["WORKBENCH_ATTEMPT"]), os.environ.get("RANK", "0")
with open(os.environ["AZUREML_NATIVE_SHARE_DIRECTORY"] + "marks", "ab", buffering=0) as file:
    file.write(("%s %d %s\\n" % (os.environ["AZUREML_RUN_ID"], attempt, rank)).encode())
for number in range(lines):
    print(rank, attempt, number, "x" * (number % 90), flush=True)
    time.sleep(0.02)
sys.exit(int(codes[min(attempt, len(codes)) - 1]))
"""

UNREACHABLE = re.compile(
    r"nothing listens on port|does not answer|cannot reach|No route|timed out|connection .*(lost|closed|reset)", re.I
)
"""The reasons of runs whose machine did not answer when they were submitted."""


def expected_lines(lines: int, attempt: int, rank: int) -> list[str]:
    """Return the output of SCRIPT."""
    return [f"{rank} {attempt} {number} {'x' * (number % 90)}" for number in range(lines)]


class Verdict(NamedTuple):
    """The attempts (for the last three, runs or processes) by their outcome. Only the first three may have members."""

    right: list[str]
    killed: list[str]
    unreachable: list[str]
    wrong_ends: list[str]
    lost_bytes: list[str]
    double_starts: list[str]
    processes_left: list[str]
    unfinished: list[str]

    @property
    def failures(self) -> list[str]:
        """The outcomes that are errors."""
        return [text for name, texts in zip(self._fields, self, strict=True) for text in texts if name in _ERRORS]


_ERRORS = Verdict._fields[3:]


class Soak:
    """A test that runs scripts and kills processes. `connections` is the folder of the links' sockets."""

    def __init__(self, project: Group, connections: Path, seed: int, engine: DockerEngine | None = None) -> None:
        """With `engine`, which is that of the first machine, runs also execute in containers."""
        self.project = project
        self.machines = dict(zip(("box1", "box2", "docker"), (*project.machines, project.machines[0]), strict=True))
        """The machines by the names of the targets."""

        self._engine = engine
        self._configurations = ("box1", "box2", "both", *(("docker", "mixed") if engine is not None else ()))
        self.kills: Counter[str] = Counter()
        self._disturbed: set[tuple[str, int]] = set()  # the run IDs and numbers of attempts
        self._connections = connections
        self._random = random.Random(seed)
        self._submits: list[subprocess.Popen[bytes]] = []
        self._victims: dict[str, Callable[[], bool]] = {
            "machine": self._restart_machine,
            "script": self._kill_script,
            "shell": self._kill_shell,
            "sshd": self._kill_sshd,
            "sessions": self._kill_sessions,
            "network": self._cut_network,
            "controller": self._kill_controller,
            "link": self._kill_link,
            "submit": self._kill_submit,
            **({"container": self._kill_container} if engine is not None else {}),
        }
        project.configure(Retry=RETRY)
        project.configure_others(Retry=RETRY)
        project.write(SCRIPT)
        self.runs = Runs(Project.find(str(project.folder)))

    def run(self, attempts: int, longest_pause: float = LONGEST_PAUSE) -> None:
        """Keep runs active and kill something at random moments, until this many attempts have begun."""
        while self.count() < attempts:
            self._submit_missing()
            time.sleep(self._random.uniform(0, longest_pause))  # not a wait: the test is about this moment
            victim = self._random.choice(list(self._victims))
            if self._victims[victim]():
                self.kills[victim] += 1
                print(f"{self.count()} attempts, {self.kills.total()} kills: {victim}", flush=True)
            self.runs.resume()

    def finish(self, patience: float) -> None:
        """Wait until all runs have ended, for at most `patience` seconds."""
        for submit in self._submits:
            submit.communicate()
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline and (
            any(run.is_active for run in self.runs.list(adopt=True)) or self._processes_left()
        ):
            time.sleep(0.5)

    def count(self) -> int:
        """Return the number of attempts so far."""
        return sum(len(_attempts(run)) for run in self.runs.list())

    def verdict(self) -> Verdict:
        """Compare every attempt with the expected result of its script."""
        found = Verdict([], [], [], [], [], [], self._processes_left(), [])
        marks = [content(there.home() / MARKS).decode() for there in self.project.machines]
        starts = Counter("".join(marks).splitlines())
        found.double_starts.extend(f"{line}: {count} starts" for line, count in starts.items() if count > 1)
        for run in self.runs.list():
            if run.is_active:
                found.unfinished.append(f"{run.run_id}: {run.state}, {run.reason}")
                continue
            found.lost_bytes.extend(self._differences(run))
            for attempt in _attempts(run):
                begin = f"{run.run_id} {attempt.number} "
                ranks = {int(line.removeprefix(begin)) for line in starts if line.startswith(begin)}
                self._judge(run, attempt, ranks, found)
        return found

    def _judge(self, run: Run, attempt: AttemptRecord, ranks: set[int], found: Verdict) -> None:
        lines, codes = int(run.arguments[0]), run.arguments[1].split(",")
        is_group = run.target in MEMBERS
        code = int(codes[min(attempt.number, len(codes)) - 1])
        code = int(code != 0) if is_group else code
        text = f"{run.run_id} on {run.target}, attempt {attempt.number}: {attempt.state}, exit code "
        text += f"{attempt.exit_code} of {code}, ranks {sorted(ranks)}, {attempt.reason}"
        log = content(Path(run.log_path))[attempt.log_start : attempt.log_end].decode()
        written = {rank: _lines_of(log, rank) if is_group else log.splitlines() for rank in ranks}
        wanted = {rank: expected_lines(lines, attempt.number, rank) for rank in ranks}
        is_prefix = all(wanted[rank][: len(written[rank])] == written[rank] for rank in ranks)
        has_ended = attempt.exit_code == code and attempt.state == (RunState.FAILED if code else RunState.COMPLETED)
        is_complete = written == wanted and len(ranks) == (4 if is_group else 1)
        if not is_prefix or (has_ended and not is_complete and not (is_group and code)):
            sizes = {rank: (len(written[rank]), len(wanted[rank])) for rank in ranks}
            found.lost_bytes.append(f"{text}; lines by rank {sizes}")
        elif has_ended and ranks:
            found.right.append(text)
        elif (run.run_id, attempt.number) in self._disturbed and attempt.state != RunState.COMPLETED and attempt.reason:
            found.killed.append(text)
        elif not ranks and attempt.state == RunState.FAILED and UNREACHABLE.search(attempt.reason):
            found.unreachable.append(text)
        else:
            found.wrong_ends.append(text)

    def _differences(self, run: Run) -> Iterator[str]:
        """Yield the logs of a run that are not equal to those on its machines."""
        for name in MEMBERS.get(run.target, (run.target,)):
            here = Path(run.directory, *(("ranks", name) if run.target in MEMBERS else ()))
            there = self.machines[name].home() / ".workbench-tui" / "runs" / run.run_id
            for path in (there / "output.log", *(there / "ranks").glob("*.log")):
                if content(path) != content(here / path.name):
                    sizes = f"{len(content(here / path.name))} of {len(content(path))} bytes"
                    yield f"{run.run_id}: {path.name} of {name}: {sizes}"

    def _processes_left(self) -> list[str]:
        """Return the processes and containers of runs on the machines, and the controllers here."""
        found = [f"{there.name}: {text}" for there in self.project.machines for _, _, text in _scripts(there)]
        if self._engine is not None:
            found += self._engine.containers(f"label={KIND_LABEL}={RUN_KIND}")
        mark = os.fsencode(self.project.folder)
        for path in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                words = (path / "cmdline").read_bytes() if path.name.isdigit() else b""
                if CONTROLLER.encode() in words and mark in words:
                    found.append(f"here: {words.decode()}")
        return found

    def _submit_missing(self) -> None:
        active = sum(run.is_active for run in self.runs.list())
        for _ in range(ACTIVE_RUNS - active):
            self.runs.submit(RunRequest(self._random.choice(self._configurations), "train.py", self._arguments()))

    def _arguments(self) -> tuple[str, ...]:
        return str(self._random.randrange(300)), self._random.choice(("0", "0", "3,0", "9,3,0"))

    # -- victims; False if there is none ------------------------------------------------------------------------------

    def _machine(self) -> Machine:
        return self._random.choice(self.project.machines)

    def _pause(self) -> None:
        time.sleep(self._random.uniform(0, LONGEST_ABSENCE))

    def _disturb(self, there: Machine) -> None:
        for run in self.runs.list():
            machines = [self.machines[name] for name in MEMBERS.get(run.target, (run.target,))]
            if run.is_active and there in machines:
                self._disturbed.add((run.run_id, len(_attempts(run))))

    def _restart_machine(self) -> bool:
        there = self._machine()
        self._disturb(there)
        there.stop()
        self._pause()
        box1, box2 = self.project.machines
        there.restart(lambda: box1.wire_to(box2))
        if self._engine is not None:
            self._engine.make_sure()
        self._disturb(there)  # an attempt that began meanwhile on the other machine
        return True

    def _kill_script(self) -> bool:
        scripts = _scripts(self._machine())
        return bool(scripts) and self._kill_disturbed(*self._random.choice(scripts)[:2])

    def _kill_shell(self) -> bool:
        there = self._machine()
        found = [(attempt, _parent(pid)) for attempt, pid, _ in _scripts(there) if _name(_parent(pid)) == "sh"]
        return bool(found) and self._kill_disturbed(*self._random.choice(found))

    def _kill_container(self) -> bool:
        assert self._engine is not None
        names = {container_name(run.run_id): run for run in self.runs.list() if run.is_active}
        found = [name for name in self._engine.containers() if name in names]
        if not found:
            return False
        name = self._random.choice(found)
        self._disturbed.add((names[name].run_id, len(_attempts(names[name]))))
        self._engine.docker("kill", name, check=False)  # it may have ended
        return True

    def _kill_disturbed(self, attempt: tuple[str, int], pid: int) -> bool:
        self._disturbed.add(attempt)
        return kill_all([pid])

    def _kill_sshd(self) -> bool:
        there = self._machine()
        there.stop_sshd()
        self._pause()
        there.start_sshd()
        return True

    def _kill_sessions(self) -> bool:
        self._machine().kill_connections()
        return True

    def _cut_network(self) -> bool:
        with self._machine().cut_off():
            self._pause()
        return True

    def _kill_controller(self) -> bool:
        holders = [ControllerLock.holder(RunDirectory(run.directory)) for run in self.runs.list() if run.is_active]
        found = [pid for pid in holders if pid > 0 and pid != os.getpid()]
        return bool(found) and kill_all([self._random.choice(found)])

    def _kill_link(self) -> bool:
        return kill_all(link_processes(self._connections))

    def _kill_submit(self) -> bool:
        name = self._random.choice(self._configurations)
        submit = self.project.start("experiment", "submit", "-c", name, "--detach", "train.py", *self._arguments())
        self._submits.append(submit)
        time.sleep(self._random.uniform(0, 1.5))
        submit.kill()
        return True


def _attempts(run: Run) -> list[AttemptRecord]:
    """Return the attempts of a run; one, even if the run has ended before its script was started."""
    whole = AttemptRecord(1, run.state, plain(run.reason), run.exit_code)
    return attempts_of(RunDirectory(run.directory)) or [whole]


def _lines_of(log: str, rank: int) -> list[str]:
    prefix = f"[rank{rank}]: "
    return [line.removeprefix(prefix) for line in log.splitlines() if line.startswith(prefix)]


def _scripts(there: Machine) -> list[tuple[tuple[str, int], int, str]]:
    """Return the processes of scripts on a machine and in its containers: run ID and attempt, process ID, command."""
    found = []
    for pid in _descendants(there.pid):
        with contextlib.suppress(OSError, KeyError):
            pairs = Path(f"/proc/{pid}/environ").read_text().split("\0")
            variables = dict(pair.partition("=")[::2] for pair in pairs)
            attempt = variables["WORKBENCH_RUN_ID"], int(variables["WORKBENCH_ATTEMPT"])
            words = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
            found.append((attempt, pid, f"{attempt} {words}"))
    return found


def _descendants(top: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        children.setdefault(_parent(pid), []).append(pid)
    found = list(children.get(top, ()))
    for pid in found:
        found += children.get(pid, ())
    return found


def _name(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def _parent(pid: int) -> int:
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


@contextlib.contextmanager
def _project(folder: Path) -> Iterator[tuple[Group, Path]]:
    """Start two machines; yield a project of a user with an empty HOME, and the folder of the links."""
    key = make_key(folder / "id_ed25519")
    ssh_folder, runtime, torch = folder / "home" / ".ssh", folder / "run", folder / "torch"
    ssh_folder.mkdir(parents=True, mode=0o700)
    runtime.mkdir(mode=0o700)
    lay_out(torch)
    for name in (key, key.with_suffix(".pub")):
        shutil.copy(name, ssh_folder)
    changes = {"HOME": str(folder / "home"), "XDG_RUNTIME_DIR": str(runtime)}
    with (
        machine("box1", folder / "box1", key) as box1,
        machine("box2", folder / "box2", key) as box2,
        mock.patch.dict(os.environ, changes),
    ):
        box1.wire_to(box2)
        (ssh_folder / "known_hosts").write_text(box1.known_hosts_line + box2.known_hosts_line)
        try:
            yield Group(folder / "project", (box1, box2), torch), runtime
        finally:
            end_links(runtime)


@contextlib.contextmanager
def _engine_of(project: Group) -> Iterator[DockerEngine]:
    """Start an engine on the first machine."""
    there = project.machines[0]
    engine = DockerEngine(there.folder / "docker", machine=there)
    engine.start()
    load_images(engine)
    project.add_containers(Retry=RETRY)
    try:
        yield engine
    finally:
        engine.destroy()


def main(attempts: int, pause: float, seed: int, keep: str, *, with_docker: bool) -> int:
    """Execute this many attempts, print their outcomes, and return 1 if one is an error."""
    print(f"seed {seed}", flush=True)
    with (
        open_folder() as folder,
        _project(folder) as (project, connections),
        _engine_of(project) if with_docker else contextlib.nullcontext() as engine,
    ):
        soak = Soak(project, connections, seed, engine)
        started = time.monotonic()
        soak.run(attempts, pause)
        soak.finish(PATIENCE)
        verdict = soak.verdict()
        print(f"{soak.count()} attempts of {len(soak.runs.list())} runs in {time.monotonic() - started:.0f} s")
        if keep:
            left_out = shutil.ignore_patterns("torch", "etc", "run", "docker")
            shutil.copytree(folder, keep, symlinks=True, dirs_exist_ok=True, ignore=left_out)
    print(f"{soak.kills.total()} kills: {dict(soak.kills)}")
    for name, texts in verdict._asdict().items():
        print(f"{name}: {len(texts)}", *(() if name == "right" else texts), sep="\n  ")
    return 1 if verdict.failures else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Kill parts of runs at random moments.")
    parser.add_argument("--attempts", type=int, required=True)
    parser.add_argument("--pause", type=float, default=LONGEST_PAUSE, help="longest time between two kills, in seconds")
    parser.add_argument("--docker", action="store_true", help="also execute runs in containers")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--keep", default="", help="a folder for the files of the runs")
    given = parser.parse_args()
    sys.exit(main(given.attempts, given.pause, given.seed, given.keep, with_docker=given.docker))
