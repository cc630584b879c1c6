"""Two real users submit runs to one machine with one stand-in GPU, which they share in turn."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.faults.support import COMMAND
from tests.gpu.standin import REST, Standin, gpu
from tests.gpu.standin import standin as standin
from tests.gpu.standin import standin_parts as standin_parts
from tests.json_output import check_output
from tests.targets.reservations.users import NEEDS_ROOT, interpreter_for, shared_folder, words_for
from tests.waiting import PATIENCE, wait_until

pytestmark = [pytest.mark.system, pytest.mark.skipif(os.geteuid() != 0, reason=NEEDS_ROOT)]


WAITS_FOR_GATE = """\
import os, sys, time
gate = sys.argv[1]
while not os.path.exists(gate) and os.path.exists(os.path.dirname(gate)): time.sleep(0.02)
"""
"""A script that waits for a file. It also ends if a failed test has removed the folder of the file."""


class Person:
    """A user of this machine with a home and a project, who is a member of GROUP."""

    def __init__(self, name: str, folder: Path, reservations: Path) -> None:
        self._name = name
        self._folder = folder / name
        self._python, self._variables = interpreter_for(name)
        settings = self._folder / "project" / "aml_config"
        settings.mkdir(parents=True)
        (settings / "local.compute").write_text(
            f"type: local\npythonLocation: {self._python}\ngpus: free\ngpuReservations: {reservations}\n"
        )
        (settings / "local.runconfig").write_text("Target: local\nFramework: Python\n")
        (self._folder / "project" / "train.py").write_text(WAITS_FOR_GATE)
        for path in (self._folder, *self._folder.rglob("*")):
            os.chown(path, pwd.getpwnam(name).pw_uid, pwd.getpwnam(name).pw_gid)
        self._folder.chmod(0o700)

    def run(self, *arguments: str) -> str:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
        done = subprocess.run(
            [*words_for(self._name), self._python, *COMMAND[1:], *arguments],
            cwd=self._folder / "project",
            env={**kept, **self._variables, "HOME": str(self._folder)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, done
        check_output(arguments, done.stdout)
        return done.stdout

    def submit(self, gate: Path) -> str:
        words = ("experiment", "submit", "-c", "local", "--detach", "train.py", str(gate))
        return self.run(*words).strip().removeprefix("RunId: ")

    def info(self, run_id: str) -> dict[str, Any]:
        information: dict[str, Any] = json.loads(self.run("history", "info", "--run", run_id))
        return information


def test_run_waits_for_the_run_of_another_user(standin: Standin) -> None:
    folder = standin.state.parent
    standin.write(gpu(0, REST))
    reservations = shared_folder(folder / "shared")
    alice, bob = (Person(name, folder, reservations) for name in ("daemon", "nobody"))
    gate = folder / "gate"
    first = alice.submit(gate)
    wait_until(lambda: alice.info(first)["status"] == "Running", "the run of the first user")
    second = bob.submit(gate)
    reason = "GPU 0 is taken by a run of daemon"
    wait_until(lambda: reason in (bob.info(second)["reason"] or ""), "the reason why the run waits")
    assert bob.info(second)["status"] == "Queued"
    rows = json.loads(bob.run("gpu", "reservations", "-t", "local", "-o", "json"))
    assert [(row["gpu"], row["user"], row["kind"]) for row in rows] == [
        (0, "daemon", "run"),
        (None, "nobody", "waiting"),
    ]
    gate.touch()
    wait_until(lambda: alice.info(first)["status"] == "Completed", "the end of the first run")
    wait_until(lambda: bob.info(second)["status"] == "Completed", "the end of the second run")
    wait_until(lambda: not list(reservations.iterdir()), "the release of the GPU")


def test_waiting_run_can_be_canceled(standin: Standin) -> None:
    folder = standin.state.parent
    standin.write(gpu(0, REST))
    reservations = shared_folder(folder / "shared")
    alice, bob = (Person(name, folder, reservations) for name in ("daemon", "nobody"))
    (held,) = json.loads(alice.run("gpu", "reserve", "-t", "local", "--for", "1h", "-o", "json"))
    assert (held["gpu"], held["is_own"]) == (0, True)
    (later,) = json.loads(alice.run("gpu", "extend", "-t", "local", "--by", "1h", "-o", "json"))
    assert later["seconds_left"] > held["seconds_left"] + 3000
    waiting = bob.submit(folder / "gate")
    wait_until(lambda: "GPU 0 is reserved by daemon until" in (bob.info(waiting)["reason"] or ""), "the reason")
    bob.run("experiment", "cancel", "--run", waiting)
    assert bob.info(waiting)["status"] == "Canceled"
    alice.run("gpu", "release", "-t", "local")
    assert list(reservations.iterdir()) == []
