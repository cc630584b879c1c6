"""A target that starts nothing: its scripts are small JSON files that say what a script would have done.

It keeps the contract of `protocol` in a few lines, so it is where to begin when writing a target of one's own, and it
lets front ends be tested without a process.

A script is one JSON object; every key may be missing: `output` (text that is written first), `report` (true: then one
line of JSON with `arguments` and `environment`), `waits` (true: go on until asked to end, then end with 143),
`stubborn` (true: and do not listen), `exit_code`.

The run is a thread of the process that started it and ends with that process: behaviour 3 is the one it cannot keep.
"""

from __future__ import annotations

import json
import os
import select
import threading
from typing import TYPE_CHECKING

from tui_workbench.core.errors import ConfigurationError, NeverStarted, StorageError
from tui_workbench.core.masking import mask_variables
from tui_workbench.core.model import Plan, Step
from tui_workbench.core.waiting import Interrupted
from tui_workbench.targets.base.protocol import Target
from tui_workbench.targets.base.values import Outcome
from tui_workbench.targets.hosts.supervisor import describe_exit, process_stat, read_exit_code

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from tui_workbench.core.model import RunSpec

INTERPRETER = "fake"
OWNER = "pid"
"""The file in the run directory that says which process has started the run; made once, so it is started once."""

ASKED, KILLED = 143, 137
"""Exit codes as a shell would report SIGTERM and SIGKILL."""

POLL_SECONDS = 0.01

_scripts: dict[str, _Script] = {}


class FakeTarget(Target):
    """Keeps the contract, runs nothing."""

    def plan(self, spec: RunSpec) -> Plan:
        """Start and follow."""
        command = (INTERPRETER, spec.script, *spec.arguments)
        environment = mask_variables(_variables(spec))
        steps = (
            Step("start", f"pretend to start {spec.script}", command, spec.working_directory, environment),
            Step("follow", "wait for its end"),
        )
        return Plan(self.target.name, self.target.type, INTERPRETER, steps)

    def start(self, spec: RunSpec, plan: Plan, environment: Mapping[str, str]) -> None:
        """Begin to pretend; nothing when somebody has begun before."""
        path = os.path.join(spec.working_directory, spec.script)
        try:
            with open(path, encoding="utf-8") as file:
                wanted = json.load(file)
            owner = os.open(f"{spec.run_directory}/{OWNER}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        except FileExistsError:
            return
        except ValueError as error:
            raise ConfigurationError(
                f"no script for a fake target: {error}", remedy="Write JSON.", file=path
            ) from error
        except OSError as error:
            raise StorageError(f"cannot start it: {error.strerror}", file=path) from error
        script = _Script(wanted, spec, {**environment, **_variables(spec)})
        _scripts[spec.run_directory] = script
        script.start()
        with open(owner, "w", encoding="ascii") as file:
            file.write(f"{os.getpid()} {process_stat(os.getpid())[1]}\n")

    def started(self, spec: RunSpec) -> bool:
        """True once there is an owner."""
        return os.path.exists(f"{spec.run_directory}/{OWNER}")

    def has_ended(self, spec: RunSpec) -> bool:
        """True when it was started and its owner is gone or done."""
        if read_exit_code(spec.run_directory) is not None:
            return True
        script = _scripts.get(spec.run_directory)
        return self.started(spec) and (script.is_over if script is not None else not _owner_is_alive(spec))

    def wait(self, spec: RunSpec, interrupted: int) -> Outcome:
        """Wait for the thread, or look what became of another process's."""
        if not self.started(spec):
            raise NeverStarted("it was never started", remedy="Submit it again.")
        script = _scripts.get(spec.run_directory)
        while not self.has_ended(spec):
            if interrupted >= 0 and select.select([interrupted], [], [], 0)[0]:
                raise Interrupted
            if script is not None:
                script.over.wait(POLL_SECONDS)
            else:
                select.select([], [], [], POLL_SECONDS)
        code = read_exit_code(spec.run_directory)
        if code is None:
            return Outcome(None, "the process that pretended to run it is gone")
        return Outcome(code, describe_exit(code))

    def stop(self, spec: RunSpec, *, grace: float) -> bool:
        """Ask, then force."""
        script = _scripts.get(spec.run_directory)
        if script is None or script.is_over:
            return False
        script.asked.set()
        forced = not script.over.wait(grace)
        script.killed.set()
        script.over.wait()
        return forced


class _Script(threading.Thread):
    """One run."""

    def __init__(self, wanted: dict[str, Any], spec: RunSpec, environment: Mapping[str, str]) -> None:
        super().__init__(name=f"fake {spec.run_id}", daemon=True)
        self._wanted = wanted
        self._spec = spec
        self._environment = environment
        self.asked = threading.Event()
        self.killed = threading.Event()
        self.over = threading.Event()

    @property
    def is_over(self) -> bool:
        return self.over.is_set()

    def run(self) -> None:
        try:
            self._pretend()
        finally:
            self.over.set()

    def _pretend(self) -> None:
        text = str(self._wanted.get("output", ""))
        if self._wanted.get("report"):
            said = {"arguments": self._spec.arguments, "environment": self._environment}
            text += json.dumps(said) + "\n"
        with open(f"{self._spec.run_directory}/output.log", "ab") as log:
            log.write(text.encode("utf-8", "surrogateescape"))
        code = int(self._wanted.get("exit_code", 0))
        if self._wanted.get("stubborn"):
            self.killed.wait()
            code = KILLED
        elif self._wanted.get("waits"):
            self.asked.wait()
            code = ASKED
        with open(f"{self._spec.run_directory}/exit", "w", encoding="ascii") as file:
            file.write(f"{code}\n")


def _variables(spec: RunSpec) -> dict[str, str]:
    return {"AZUREML_RUN_ID": spec.run_id, **spec.run_configuration.environment_variables}


def _owner_is_alive(spec: RunSpec) -> bool:
    try:
        with open(f"{spec.run_directory}/{OWNER}", encoding="ascii") as file:
            pid, _, start = file.read().strip().partition(" ")
    except OSError:
        return False
    state, now = process_stat(int(pid)) if pid else ("", "")
    return state not in ("", "Z", "X") and now == start
