"""Runs of agents: the user's limits, and requests that exceed them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.runs.support import make_run, write_configuration
from tests.waiting import wait_until
from tui_workbench.core.directories import agents_path
from tui_workbench.core.errors import ConfigurationError, NoGpu, StorageError, UsageError
from tui_workbench.core.model import RunRequest
from tui_workbench.projects.project import Project
from tui_workbench.runs.agents import approvals, ledger
from tui_workbench.runs.agents.approvals import Approval, find_approval, fingerprint_of, read_approvals
from tui_workbench.runs.agents.ledger import Use, read_uses, write_uses
from tui_workbench.runs.agents.limits import AgentLimits, excess, gpus_of, load_limits, machines_of, minutes_of
from tui_workbench.runs.agents.submitting import (
    PlanChanged,
    approve,
    deny,
    plan_for_agent,
    submit_for_agent,
    target_of_waiting,
)
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.store import agent_runs
from tui_workbench.runs.submission import launch
from tui_workbench.runs.submission.planning import prepare

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui_workbench.core.model import RunSpec

REQUEST = RunRequest("local", "hello.py", agent="tester")
HERE = AgentLimits(targets=("local",))


def write_limits(**limits: object) -> None:
    path = Path(agents_path())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{name}: {json.dumps(value)}\n" for name, value in limits.items()))


def root(project: Project) -> Path:
    return Path(project.root)


def spec_of(project: Project, request: RunRequest = REQUEST) -> RunSpec:
    return prepare(project, request).spec


class TestLimits:
    def test_nothing_is_allowed_without_a_file(self, project: Project) -> None:
        _, reasons = plan_for_agent(project, REQUEST)
        assert reasons == ["local is not in `targets` of the limits for agents"]

    def test_mistake_in_the_file_is_an_error(self, project: Project) -> None:
        write_limits(targets=["local"], concurent_runs=5)
        with pytest.raises(ConfigurationError, match=r"agents\.yaml:2"):
            submit_for_agent(project, REQUEST)

    def test_values_of_the_file_replace_the_defaults(self) -> None:
        write_limits(targets=["local", "gpubox:22"], gpu_hours_per_day=0)
        assert load_limits() == AgentLimits(targets=("local", "gpubox:22"), gpu_hours_per_day=0)

    def test_target_counts_by_its_machine(self, project: Project) -> None:
        write_configuration(root(project), suffix="compute", type="remote", address="prod", username="me")
        assert machines_of(project.target("local")) == ["prod"]
        assert excess(spec_of(project), HERE, ())[0] == "prod is not in `targets` of the limits for agents"

    def test_all_members_of_a_group_must_be_allowed(self, project: Project) -> None:
        for name in ("one", "two"):
            write_configuration(root(project), name, suffix="compute", type="remote", address=name, username="me")
        write_configuration(root(project), "both", suffix="compute", type="group", members=["one", "two"])
        write_configuration(root(project), ProcessesPerNode=1)
        spec = spec_of(project, REQUEST._replace(target="both"))
        reason = excess(spec, AgentLimits(targets=("one",)), ())[0]
        assert reason == "two is not in `targets` of the limits for agents"

    def test_attempts_of_retry_count(self, project: Project) -> None:
        write_configuration(root(project), MaxDurationMinutes=30, Retry={"times": 2})
        assert minutes_of(spec_of(project)) == 90
        assert excess(spec_of(project), HERE, ()) == ["it may take 90 min, and the limit is 60 min per run"]

    def test_run_without_a_limit_gets_that_of_the_user(self, project: Project) -> None:
        write_configuration(root(project), Retry={"times": 2})
        write_limits(targets=["local"], minutes_per_run=30)
        prepared, reasons = plan_for_agent(project, REQUEST)
        assert prepared.spec.run_configuration.max_duration_minutes == 10
        assert reasons == []

    @pytest.mark.parametrize(
        ("target", "gpus"),
        [
            ({"type": "local", "gpus": 0}, 0),
            ({"type": "local", "gpus": "free"}, 1),
            ({"type": "local", "gpus": [0, 3]}, 2),
            ({"type": "remote", "address": "a", "username": "me", "gpus": 4}, 4),
            ({"type": "remote", "address": "a", "username": "me"}, None),
            ({"type": "slurm", "slurm": {"gpus": 8}}, 8),
            ({"type": "slurm", "slurm": {"extra": ["--gpus-per-node=4"]}}, None),
            ({"type": "slurm", "slurm": {"gpus": 1, "extra": ["--gres=GPU:8"]}}, None),
            ({"type": "slurm", "slurm": {"gpus": 1, "extra": ["--exclusive"]}}, None),
            ({"type": "slurm", "slurm": {"gpus": 1, "extra": ["--qos=low"]}}, 1),
        ],
    )
    def test_gpus_of_a_run(self, project: Project, target: dict[str, Any], gpus: int | None) -> None:
        write_configuration(root(project), suffix="compute", **target)
        assert gpus_of(spec_of(project)) == gpus

    def test_variable_that_selects_gpus_makes_their_number_unknown(self, project: Project) -> None:
        write_configuration(root(project), suffix="compute", type="local", gpus=0)
        assert gpus_of(spec_of(project, REQUEST._replace(environment=(("CUDA_VISIBLE_DEVICES", "0,1"),)))) is None

    def test_hours_of_the_day_include_other_runs(self, project: Project) -> None:
        write_configuration(root(project), suffix="compute", type="local", gpus=2)
        write_configuration(root(project), MaxDurationMinutes=60)
        uses = [Use("other", 0.0, 0, 1, is_active=False, hours=3.5)]
        assert excess(spec_of(project), HERE, uses) == [
            "with it, runs of agents could take 4.5 h in 24 hours, and the limit is 4 h",
            "with it, runs of agents could take 5.5 GPU hours in 24 hours, and the limit is 4 GPU hours",
        ]

    def test_unknown_number_of_gpus_needs_an_approval(self, project: Project) -> None:
        write_configuration(root(project), suffix="compute", type="remote", address="a", username="me")
        (reason,) = excess(spec_of(project), AgentLimits(targets=("a",)), ())
        assert reason.startswith("the number of its GPUs is not known: the target has no `gpus`")

    def test_requeued_jobs_need_an_approval(self, project: Project) -> None:
        write_configuration(root(project), suffix="compute", type="slurm", slurm={"requeue": True})
        assert excess(spec_of(project), HERE, ()) == [
            "Slurm may start it again any number of times, because `Slurm.requeue` is true"
        ]


class TestUses:
    def test_ended_run_counts_with_its_duration(self, project: Project) -> None:
        ended = make_run(project, "p_1").path
        agent_runs.add(spec_of(project)._replace(run_id="p_1", run_directory=ended), "tester")
        agent_runs.note_start(ended)
        write_uses([Use("tester", 2**32, 60, 1, ended), Use("tester", 1.0, 60, 1, "/gone")])
        assert [(use.run, use.is_active, use.hours) for use in read_uses()] == [(ended, True, 1.0)]
        agent_runs.note_end(ended)
        (use,) = read_uses()
        assert (use.is_active, use.has_ended) == (False, True)
        assert use.hours < 0.1

    def test_queued_run_of_an_earlier_day_counts(self, project: Project) -> None:
        active = make_run(project, "p_1").path
        ended = make_run(project, "p_2", 2, state="completed").path
        write_uses([Use("tester", 0.0, 60, 0, active), Use("tester", 0.0, 60, 0, ended), Use("tester", 0.0, 60, 0)])
        assert [use.run for use in read_uses()] == [active]

    def test_failed_submission_does_not_count(self, project: Project) -> None:
        write_limits(targets=["local"])
        write_configuration(root(project), RequireGpu=True, Retry=None)
        with pytest.raises(NoGpu):
            submit_for_agent(project, REQUEST)
        assert read_uses() == []

    def test_damaged_list_is_an_error(self, project: Project) -> None:
        write_uses([])
        Path(ledger.agents_directory(), ledger.FILE).write_text("{}x")
        with pytest.raises(ConfigurationError, match="Remove the file"):
            submit_for_agent(project, REQUEST)


@pytest.fixture
def waiting(project: Project) -> Approval:
    """Return a request that waits, because no target is allowed."""
    approval = submit_for_agent(project, REQUEST).approval
    assert approval is not None
    return approval


def make_environment(root: Path) -> Path:
    """Create a virtual environment whose interpreter is a chain of links, and return its folder."""
    environment = root / ".venv"
    for folder in (environment / "bin", environment / "lib" / "python3" / "site-packages"):
        folder.mkdir(parents=True)
    (environment / "bin" / "python").symlink_to("python3")
    (environment / "bin" / "python3").symlink_to(sys.executable)
    (environment / "pyvenv.cfg").write_text("home = /usr/bin\n")
    (environment / "lib" / "python3" / "site-packages" / "module.py").write_text("")
    return environment


def replace(path: Path, target: str = "") -> None:
    path.unlink()
    if target:
        path.symlink_to(target)
    else:
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)


def swap_folder(environment: Path) -> None:
    environment.rename(environment.with_name("old"))
    make_environment(environment.parent)


INTERPRETER_CHANGES: dict[str, Callable[[Path], object]] = {
    "a program": lambda environment: replace(environment / "bin" / "python"),
    "a program at the end of the chain": lambda environment: replace(environment / "bin" / "python3"),
    "another link": lambda environment: replace(environment / "bin" / "python", "../../hello.py"),
    "the same file through another link": lambda environment: replace(environment / "bin" / "python", sys.executable),
    "pyvenv.cfg": lambda environment: (environment / "pyvenv.cfg").write_text("home = /elsewhere\n"),
    "pyvenv.cfg removed": lambda environment: (environment / "pyvenv.cfg").unlink(),
    "pyvenv.cfg beside it": lambda environment: (environment / "bin" / "pyvenv.cfg").write_text("home = /elsewhere\n"),
    "a .pth file": lambda environment: (environment / "lib/python3/site-packages/x.pth").write_text("import os\n"),
    "sitecustomize": lambda environment: (environment / "lib/python3/site-packages/sitecustomize.py").write_text(""),
    "a module": lambda environment: (environment / "lib/python3/site-packages/module.py").write_text("1"),
    "a linked folder": lambda environment: (environment / "lib64").symlink_to("/tmp"),
    "another environment": swap_folder,
    "environment removed": lambda environment: environment.rename(environment.with_name("old")),
}


class TestApprovals:
    def test_approval_starts_the_run(self, project: Project, waiting: Approval) -> None:
        assert "hello.py on local (local), at most 60 min, GPUs: 0" in waiting.text
        assert Runs(project).list() == []
        run = approve(waiting.number)
        assert (run.script_name, run.agent) == ("hello.py", "tester")
        assert find_approval(waiting.number)._replace(state="", run_id="") == waiting._replace(state="")
        assert [use.run for use in read_uses()] == [run.directory]
        with pytest.raises(UsageError, match="is not waiting for approval: its state is submitted"):
            approve(waiting.number)
        wait_until(lambda: not Runs(project).get(run.run_id).is_active)

    def test_request_is_decided_before_the_run_starts(
        self, project: Project, waiting: Approval, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen = []

        def fail(*_: object, **_others: object) -> None:
            seen.append((find_approval(waiting.number), read_uses()))
            raise OSError("no process can be started")

        monkeypatch.setattr(launch, "hand_over", fail)
        with pytest.raises(OSError, match="no process"):
            approve(waiting.number)
        ((decided, (use,)),) = seen
        assert (decided.state, Path(use.run).name) == ("submitted", decided.run_id)
        assert find_approval(waiting.number) == waiting
        assert (read_uses(), Runs(project).list()) == ([], [])

    def test_denial_keeps_the_reason(self, project: Project, waiting: Approval) -> None:
        deny(waiting.number, "too long")
        assert find_approval(waiting.number) == waiting._replace(state="denied", answer="too long")
        with pytest.raises(UsageError, match="denied"):
            approve(waiting.number)
        assert Runs(project).list() == []

    @pytest.mark.processes
    @pytest.mark.parametrize("file", ["hello.py", "aml_config/local.runconfig", "aml_config/local.compute"])
    def test_changed_file_needs_another_approval(self, project: Project, waiting: Approval, file: str) -> None:
        path = root(project) / file
        path.write_text(path.read_text() + "\n")
        with pytest.raises(PlanChanged, match="Request 2 has the new plan"):
            approve(waiting.number)
        assert find_approval(1).replaced_by == 2
        assert Runs(project).list() == []
        run = approve(2)
        wait_until(lambda: not Runs(project).get(run.run_id).is_active)

    def test_fingerprint_includes_files_outside_the_project(self, project: Project) -> None:
        packages, target = root(project).parent / "packages.yml", root(project).parent / "module.py"
        write_configuration(root(project), CondaDependenciesFile="../packages.yml")
        (root(project) / "module.py").symlink_to(target)
        spec = spec_of(project)
        seen = [fingerprint_of(project, REQUEST, spec)]
        for path in (packages, target):
            path.write_text("")
            seen.append(fingerprint_of(project, REQUEST, spec))
        assert len(set(seen)) == 3

    @pytest.mark.parametrize("change", INTERPRETER_CHANGES)
    def test_changed_interpreter_needs_another_approval(self, project: Project, change: str) -> None:
        environment = make_environment(root(project))
        write_configuration(root(project), suffix="compute", type="local", pythonLocation=".venv/bin/python")
        made = submit_for_agent(project, REQUEST).approval
        assert made is not None
        assert target_of_waiting(made.number).name == "local"
        INTERPRETER_CHANGES[change](environment)
        with pytest.raises((PlanChanged, ConfigurationError)):
            approve(made.number)
        assert Runs(project).list() == []

    def test_unchanged_interpreter_needs_no_other_approval(self, project: Project) -> None:
        make_environment(root(project))
        write_configuration(root(project), suffix="compute", type="local", pythonLocation=".venv/bin/python")
        made = submit_for_agent(project, REQUEST).approval
        assert made is not None
        run = approve(made.number)
        wait_until(lambda: not Runs(project).get(run.run_id).is_active)

    def test_fingerprint_includes_files_in_variables(self, project: Project) -> None:
        library = root(project) / ".git" / "library.so"
        library.parent.mkdir()
        write_configuration(root(project), EnvironmentVariables={"LD_PRELOAD": "/none:.git/library.so"})
        spec = spec_of(project)
        seen = [fingerprint_of(project, REQUEST, spec)]
        for text in ("1", "2"):
            library.write_text(text)
            seen.append(fingerprint_of(project, REQUEST, spec))
        assert len(set(seen)) == 3

    def test_same_request_is_stored_once(self, project: Project, waiting: Approval) -> None:
        assert submit_for_agent(project, REQUEST).approval == waiting
        other = submit_for_agent(project, REQUEST._replace(arguments=("--lr", "1"))).approval
        assert other is not None
        assert [each.number for each in read_approvals()] == [2, 1]

    def test_number_of_waiting_requests_is_limited(self, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(approvals, "MOST_WAITING", 1)
        submit_for_agent(project, REQUEST)
        with pytest.raises(UsageError, match="too many requests: 1 are already waiting"):
            submit_for_agent(project, REQUEST._replace(arguments=("--lr", "1")))
        (root(project) / "hello.py").write_text("print(2)\n")
        with pytest.raises(PlanChanged, match="Request 2 has the new plan"):
            target_of_waiting(1)

    def test_line_endings_of_arguments_are_visible(self, project: Project) -> None:
        made = submit_for_agent(project, REQUEST._replace(arguments=("a\nreason       b",))).approval
        assert made is not None
        assert "hello.py a␊reason       b on local" in made.text

    def test_large_request_is_refused(self, project: Project) -> None:
        with pytest.raises(UsageError, match="larger than 256 KiB"):
            submit_for_agent(project, REQUEST._replace(arguments=("a" * approvals.LARGEST,)))

    def test_number_of_an_unreadable_request_is_not_used_again(self, project: Project, waiting: Approval) -> None:
        Path(approvals.requests_directory(), f"{waiting.number + 6}.json").touch()
        other = submit_for_agent(project, REQUEST._replace(arguments=("--lr", "1"))).approval
        assert other is not None
        assert other.number == waiting.number + 7

    @pytest.mark.parametrize(
        "damage",
        [
            {"created": "\0"},
            {"state": 1},
            {"reasons": [3]},
            {"request": {"run_configuration": "local", "environment": [["A"]]}},
            {"plan": None},
        ],
    )
    def test_request_with_values_of_other_types_is_unreadable(self, waiting: Approval, damage: dict[str, Any]) -> None:
        file = Path(approvals.requests_directory(), f"{waiting.number}.json")
        file.write_text(json.dumps(json.loads(file.read_text()) | damage))
        assert read_approvals() == []
        with pytest.raises(StorageError, match=f"request {waiting.number} cannot be read"):
            find_approval(waiting.number)

    def test_secret_argument_is_refused(self, project: Project) -> None:
        with pytest.raises(UsageError, match="contains a secret"):
            submit_for_agent(project, REQUEST._replace(arguments=("--api-key", "abc")))

    def test_agent_cannot_approve(self, waiting: Approval, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("WORKBENCH_AGENT", "tester")
        with pytest.raises(UsageError, match="the agent tester cannot approve a run"):
            approve(waiting.number)

    def test_files_of_requests_are_private(self, waiting: Approval) -> None:
        folder = Path(approvals.requests_directory())
        (file,) = folder.iterdir()
        assert (folder.stat().st_mode & 0o777, file.stat().st_mode & 0o777) == (0o700, 0o600)
