"""A target without processes: its scripts are JSON files that describe the behavior of a script.

It implements the protocol in a few lines, so it is an example for new targets, and front ends can be tested without
processes.

A script is one JSON object with optional keys: `output` (text to write first), `report` (true: then write a line of
JSON with `arguments` and `environment`), `waits` (true: wait for `stop`, then end with 143), `stubborn` (true: and
ignore it), `exit_code`.

A run is a thread and ends with its process, so behavior 3 is not implemented.
"""

from __future__ import annotations

import json
import os
import select
import threading
from typing import TYPE_CHECKING

from tui_workbench.core.causes import exit_causes, plain
from tui_workbench.core.errors import ConfigurationError, NeverStarted, StorageError, UsageError
from tui_workbench.core.masking import mask_variables
from tui_workbench.core.model import Plan, Step
from tui_workbench.core.system import process_stat
from tui_workbench.core.waiting import Interrupted
from tui_workbench.targets.base.attaching import NO, YES, Address, AttachField, Attaching, Values
from tui_workbench.targets.base.protocol import Target
from tui_workbench.targets.hosts.supervisor import read_exit_code
from tui_workbench.targets.values import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from tui_workbench.core.model import RunSpec
    from tui_workbench.targets.hosts.host import Host

INTERPRETER = "fake"
OWNER = "pid"
"""The file that names the process that started the run; created exclusively, so a run starts once."""

ASKED, KILLED = 143, 137
"""Exit codes of a shell for SIGTERM and SIGKILL."""

POLL_SECONDS = 0.01

_scripts: dict[str, _Script] = {}


def forget(run_directory: str) -> None:
    """Forget a run, as if another process had started it."""
    _scripts.pop(run_directory)


class FakeAttaching(Attaching):
    """A target that needs no machine, with a field of each kind."""

    label = "Simulator"
    explanation = "100% simulated"
    address = Address.NONE
    service = "the simulator of this machine"
    fields = (
        AttachField("qubits", "Qubits", "--qubits", "the number of qubits (only for type {types})", metavar="N"),
        AttachField(
            "noise", "Noise", "--noise", "errors of gates", choices={"none": "no noise", "thermal": "thermal noise"}
        ),
        AttachField("seed", "Seed", "--seed", "the seed of the noise", hint="any number"),
        AttachField(
            "cooled",
            "Cooled",
            "--cooled",
            "cool it",
            choices={"": "if possible", YES: "yes", NO: "no"},
            help_of_no="leave it warm",
        ),
    )

    def shown(self, values: Values) -> Sequence[AttachField]:
        return [field for field in self.fields if field.key != "seed" or values.get("noise") == "thermal"]

    def check(self, values: Values) -> None:
        if not (values.get("qubits") or "1").isdigit():
            raise UsageError(f"invalid number of qubits: {values['qubits']!r}", remedy="Give a number.")

    def complete(self, values: Values, host: Host) -> Values:
        return {**values, "cooled": values.get("cooled") or (NO if host.run(["true"]).code else YES)}

    def compute(self, values: Values) -> dict[str, Any]:
        keys: dict[str, Any] = {key: values.get(key, "") for key in ("noise", "seed", "cooled")}
        return {"qubits": int(values.get("qubits") or 2), **keys, "type": "another"}

    def run_configuration(self, project_root: str) -> dict[str, Any]:
        return {"TrackedRun": False}


class FakeTarget(Target):
    """A target that executes no program."""

    attaching = FakeAttaching()

    def plan(self, spec: RunSpec) -> Plan:
        command = (INTERPRETER, spec.script, *spec.arguments)
        environment = mask_variables(_variables(spec))
        steps = (
            Step("start", f"simulate {spec.script}", command, spec.working_directory, environment),
            Step("follow", "wait for the end"),
        )
        return Plan(self.target.name, self.target.type, INTERPRETER, steps)

    def start(self, spec: RunSpec, plan: Plan, environment: Mapping[str, str]) -> None:
        path = os.path.join(spec.working_directory, spec.script)
        try:
            with open(path, encoding="utf-8") as file:
                wanted = json.load(file)
            owner = os.open(f"{spec.run_directory}/{OWNER}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        except FileExistsError:
            return
        except ValueError as error:
            raise ConfigurationError(
                f"invalid script of a fake target: {error}", remedy="Write JSON.", file=path
            ) from error
        except OSError as error:
            raise StorageError(f"cannot start it: {error.strerror}", file=path) from error
        script = _Script(wanted, spec, {**environment, **_variables(spec)})
        _scripts[spec.run_directory] = script
        script.start()
        with open(owner, "w", encoding="ascii") as file:
            file.write(f"{os.getpid()} {process_stat(os.getpid())[1]}\n")

    def started(self, spec: RunSpec) -> bool:
        return os.path.exists(f"{spec.run_directory}/{OWNER}")

    def has_ended(self, spec: RunSpec) -> bool:
        if read_exit_code(spec.run_directory) is not None:
            return True
        script = _scripts.get(spec.run_directory)
        return self.started(spec) and (script.is_over if script is not None else not _owner_is_alive(spec))

    def wait(self, spec: RunSpec, interrupted: int) -> Outcome:
        if not self.started(spec):
            raise NeverStarted("the run was never started", remedy="Submit the run again.")
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
            return Outcome(None, plain("the process that simulated the run has ended"))
        return Outcome(code, exit_causes(code))

    def stop(self, spec: RunSpec, *, grace: float) -> bool:
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
