"""Execute runs as jobs of a Slurm cluster: `type: slurm`.

The login host is a machine with `sbatch`: this machine, or a machine at the other end of an SSH connection. It shares
the folder `runRoot` with the compute nodes. A run is prepared there as for `type: remote`, submitted once, and followed
with all other runs of the login by one process.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from tui_workbench.config.schema.data_references import data_paths
from tui_workbench.config.schema.slurm_options import requested_gpus
from tui_workbench.core.causes import JOB_CANCELED_EARLY, Cause
from tui_workbench.core.errors import NeverStarted
from tui_workbench.core.files import remove_below
from tui_workbench.core.masking import mask_variables
from tui_workbench.core.model import ClusterJob, ComputeTarget, Plan, Problem, RunSpec, Step
from tui_workbench.core.shell_scripts import shell_script
from tui_workbench.targets.base import run_environment
from tui_workbench.targets.base.group import SharedGroup, wait_for_one
from tui_workbench.targets.base.protocol import Target
from tui_workbench.targets.base.python_environment import PythonEnvironment
from tui_workbench.targets.base.reaching import reach, wait_through_losses, wait_until_answering
from tui_workbench.targets.hosts.data import place_data
from tui_workbench.targets.hosts.host import Entry, Host
from tui_workbench.targets.hosts.host_layout import (
    HostLayout,
    find_cleanup_items,
    project_key,
)
from tui_workbench.targets.hosts.host_run import HostRun
from tui_workbench.targets.hosts.manifest import FileList
from tui_workbench.targets.hosts.sdk import sdk_version
from tui_workbench.targets.hosts.sending import difference
from tui_workbench.targets.hosts.stacks import Reading
from tui_workbench.targets.hosts.supervisor import GPU
from tui_workbench.targets.slurm import ends
from tui_workbench.targets.slurm.batch import array_script, batch_script, step_script
from tui_workbench.targets.slurm.cluster import LoginHost
from tui_workbench.targets.slurm.cluster_gpus import LIST_GPUS, parse_gpus
from tui_workbench.targets.slurm.containers import container_words
from tui_workbench.targets.slurm.following import ClusterWatch
from tui_workbench.targets.slurm.job import drain, read_stacks, stop, warn
from tui_workbench.targets.slurm.options import is_held, job_name, job_words, log_of, requeues
from tui_workbench.targets.slurm.squeue import LIST_JOBS, parse
from tui_workbench.targets.slurm.states import ENDED
from tui_workbench.targets.slurm.submission import (
    ANSWER_SECONDS,
    ArrayTask,
    Submission,
    Submitted,
    job_of,
    place_and_submit,
    reset,
    submit,
)
from tui_workbench.targets.slurm.trying import problems, test_only
from tui_workbench.targets.ssh.host_for import host_of
from tui_workbench.targets.values import CleanupItem, ClusterGpus, Outcome, ProjectNames

if TYPE_CHECKING:
    from tui_workbench.targets.checks.ladder import Checks, OpenTarget

_SRUN = ("srun", "--input=none", "--unbuffered", "--export=ALL", "--kill-on-bad-exit=1")

_RELEASE = shell_script("targets/slurm/scripts/release_run.sh")


class SlurmTarget(Target):
    """A target of type `slurm`."""

    keeps_runs = True
    drives_together: ClassVar[bool] = True
    sends_at_start: ClassVar[bool] = True

    def __init__(self, target: ComputeTarget, host: Host | None = None) -> None:
        self.login = LoginHost(host or host_of(target), target.run_root)
        self._files: dict[str, FileList] = {}  # of prepared runs
        super().__init__(target, self.login)

    @classmethod
    def checks(cls, target: ComputeTarget, open_target: OpenTarget, host: Host | None = None) -> Checks:
        from tui_workbench.targets.slurm.checks import SlurmChecks

        return SlurmChecks(target, open_target, host)

    def plan(self, spec: RunSpec) -> Plan:
        run_environment.require_python(spec.run_configuration, spec.target.type)
        label, root = self.login.label, self.login.shown_home
        directory = HostLayout(root).run(spec.run_id)
        variables = self._variables(spec, root)
        command = self._command(spec, root)
        run_environment.refuse_impossible(spec.run_configuration.path, variables, command)
        container = container_words(self.target, root, directory, _data_of(spec))
        starter = shlex.join((*_SRUN, *container.options, *container.program))
        title = f"start {spec.script} with {command[0]}{run_environment.describe_launcher(spec)}, using {starter}"
        steps = (
            Step("sync", f"send changed files to {label}"),
            Step("copy", f"make the run's working copy on {label}"),
            Step(
                "submit",
                f"submit the job on {label}{_describe_task(spec)}",
                ("sbatch", *_options(spec, directory)),
            ),
            Step("start", title, command, f"{directory}/work", mask_variables(variables)),
            Step("follow", "wait for the end; the output goes to output.log, and that of Slurm to slurm.log"),
            Step("collect", "fetch outputs/ and all other files that the run created"),
            Step("remove", f"remove the run's working copy on {label}"),
        )
        return Plan(self.target.name, self.target.type, command[0], steps)

    def plan_details(self, spec: RunSpec, plan: Plan, tree: Callable[[], Sequence[Entry]]) -> Plan:
        destination = HostRun(self.login, spec).layout.project_tree(spec.project_root, spec.project_name)
        sync = difference(self.login, tree(), destination).text
        plan = plan.with_step("sync", title=f"send to {self.login.label}: {sync}")
        return plan.with_step("submit", title=f"submit the job on {self.login.label}: {test_only(self.login, spec)}")

    def check(self) -> list[Problem]:
        return problems(self.login, self.target)

    def reach(self) -> None:
        # If a shell has been started, the connection works, and an earlier run needed the same tools.
        if not self.login.shell_seconds:
            reach(self.target, self.login, self.report)

    def prepare(self, spec: RunSpec, plan: Plan, tree: Callable[[], FileList]) -> None:
        place_data(self.login, spec, self.report)
        self._files[spec.run_id] = tree()

    def start(self, spec: RunSpec, plan: Plan, environment: Mapping[str, str]) -> None:
        root = self.login.home()
        directory = HostLayout(root).run(spec.run_id)
        own_path = run_environment.PYTHON_PATH_VARIABLE in spec.run_configuration.environment_variables
        step = step_script(
            directory,
            run_environment.shared_folder(spec, root),
            self._command(spec, root),
            self._variables(spec, root),
            inherits_path=not own_path,
            spans_nodes=_spans_nodes(spec),
        )
        batch = batch_script(
            spec.run_id,
            directory,
            root,
            spec.target.setup,
            attempt=spec.attempt,
            requeues=requeues(spec.slurm),
            samples=requested_gpus(spec.slurm) != 0,
            spans_nodes=_spans_nodes(spec),
            container=container_words(self.target, root, directory, _data_of(spec)),
        )
        self.report.begin("submit", "submit the job")
        job = Submission(
            directory,
            job_name(spec.run_id, spec.attempt),
            step.encode("utf-8", "surrogateescape"),
            batch.encode("utf-8", "surrogateescape"),
            _options(spec, directory),
            f"`workbench-tui experiment clean -t {shlex.quote(self.target.name)}`",
            _array_task(spec, root, directory) if spec.attempt == 1 else None,
            spec.attempt,
        )
        submitted = self._send_and_submit(spec, job)
        self.limits_sweep = bool(submitted.task)
        for message in submitted.messages:
            self.report.line(f"  {message}")
        try:
            ends.write_info(spec.run_directory, job=submitted.job_id)
        except OSError:
            self.report.line("  cannot store the ID of the job on this machine; the job will be found by its name")
        self.report.done("submit", job=submitted.job_id, **({"task": submitted.task} if submitted.task else {}))
        self.report.job(ClusterJob(submitted.job_id))

    def _send_and_submit(self, spec: RunSpec, job: Submission) -> Submitted:
        """Send the files, if the machine does not have them, and submit the job."""
        run, files = HostRun(self.login, spec), self._files.get(spec.run_id)
        submitted = None
        if files is not None:
            with run.locked(self.report):
                submitted = place_and_submit(self.login, run.placing(files.manifest), job)
            if submitted is None:
                run.send(lambda: files, self.report, reuses_copy=False)  # the nodes change the copy on a network disk
        submitted = submitted or submit(self.login, job)
        self._files.pop(spec.run_id, None)
        return submitted

    def started(self, spec: RunSpec) -> bool:
        return bool(job_of(self.login, HostLayout(self.login.home()).run(spec.run_id)))

    def has_ended(self, spec: RunSpec) -> bool:
        return ends.outcome_here(spec.run_directory) is not None

    def wait(self, spec: RunSpec, interrupted: int) -> Outcome:
        def wait_once() -> Outcome:
            outcome = ends.outcome_here(spec.run_directory)
            if outcome is None and "job" not in ends.read_info(spec.run_directory) and not self.started(spec):
                raise NeverStarted(f"the run was not started on {self.login.label}", remedy="Submit the run again.")
            if outcome is not None:
                self.report.ran(ends.times_here(spec.run_directory))
            return outcome or wait_for_one(self._open_group(), spec, self.report, interrupted)

        return wait_through_losses(self, wait_once, interrupted)

    def shared_group(self, run_directory: str) -> SharedGroup:
        target = self.target
        key = f"{target.kind.name} {target.username}@{target.address} {target.run_root}"
        return SharedGroup(key, self._open_group)

    def _open_group(self) -> ClusterWatch:
        return ClusterWatch(self.login, self.target.poll_seconds)

    def wait_until_reachable(self, interrupted: int) -> None:
        wait_until_answering(self.login, self.report, interrupted)

    def warn(self, spec: RunSpec) -> None:
        warn(self.login, spec)

    def stop(self, spec: RunSpec, *, grace: float) -> bool:
        if self.has_ended(spec):
            return False
        was_forced = stop(self.login, spec, grace)
        # Slurm has no job: it may have ended before, or the run was never submitted.
        if was_forced is None and not self.started(spec):
            return False
        files = drain(self.login, spec)
        outcome = Outcome(None, (Cause(JOB_CANCELED_EARLY),), has_failed=True)
        if files.exit_code is not None:
            outcome = ends.outcome_with_code(files.exit_code, "", spec.run_directory)
        elif files.job_id:
            outcome = ends.outcome_without_code("CANCELLED", None, spec.run_directory, has_started=True)
        self.report.ran(files.times)
        ends.keep_outcome(spec.run_directory, outcome, files.times)
        return bool(was_forced)

    def read_stacks(self, spec: RunSpec) -> Reading:
        return read_stacks(self.login, spec)

    def collect(self, spec: RunSpec) -> None:
        drain(self.login, spec)
        HostRun(self.login, spec).fetch(self.report)
        remove_below(spec.run_directory, GPU)  # gpu.jsonl has these samples

    def reset(self, spec: RunSpec, *, anew: bool = False) -> None:
        reset(self.login, spec, anew=anew)
        ends.forget(spec.run_directory)

    def release(self, spec: RunSpec) -> None:
        root = self.login.home()
        task = _array_task(spec, root, HostLayout(root).run(spec.run_id))
        self.login.ask(_RELEASE, root, spec.run_id, task.folder if task else "", str(task.number) if task else "")
        HostRun(self.login, spec).remove_copy()

    def python_environment(self, spec: RunSpec) -> PythonEnvironment:
        return _NodeEnvironment(self.host, spec)

    def cluster_gpus(self) -> ClusterGpus:
        return parse_gpus(self.login.ask_slurm(LIST_GPUS, timeout=ANSWER_SECONDS))

    def cleanup_items(self, project: ProjectNames, active: Collection[str]) -> list[CleanupItem]:
        queue = parse(self.login.ask_slurm(LIST_JOBS, timeout=ANSWER_SECONDS))
        in_queue = {job.run_id for job in queue.jobs.values() if job.state not in ENDED}
        return find_cleanup_items(self.login, project, in_queue.union(active))

    def _command(self, spec: RunSpec, root: str) -> tuple[str, ...]:
        layout = HostLayout(root)
        interpreter = self.target.python_location or "python"
        return run_environment.script_command(spec, interpreter, layout.sdk(sdk_version()), layout.run(spec.run_id))

    def _variables(self, spec: RunSpec, root: str) -> dict[str, str]:
        layout = HostLayout(root)
        directory = layout.run(spec.run_id)
        if requeues(spec.slurm):
            # The batch script sets the variables of the attempt, because only it knows how often Slurm has started it.
            spec = spec._replace(attempt=1, run_configuration=spec.run_configuration._replace(retry={}))
        return run_environment.run_variables(
            spec,
            share=run_environment.shared_folder(spec, root),
            run_directory=directory,
            outputs=f"{directory}/work/outputs",
            sdk=layout.sdk(sdk_version()),
        )


class _NodeEnvironment(PythonEnvironment):
    """The environment of the compute nodes, seen from the login node."""

    def machine_info(self, planned: str) -> dict[str, Any]:
        # The login node has the same packages as the compute nodes, but other processors and GPUs.
        info = super().machine_info(planned)
        return {name: value for name, value in info.items() if name not in ("host", "gpus")}


def _data_of(spec: RunSpec) -> Collection[str]:
    """Return the absolute paths of the data of a run, without duplicates."""
    return dict.fromkeys(data_paths(spec.project_root, spec.run_configuration.data_references).values())


def _options(spec: RunSpec, directory: str) -> tuple[str, ...]:
    minutes = spec.run_configuration.signal_before_end_minutes
    return job_words(spec.slurm, spec.run_id, directory, minutes=minutes, attempt=spec.attempt)


def _spans_nodes(spec: RunSpec) -> bool:
    """Return True if the job starts torchrun on several nodes."""
    return spec.nodes > 1 and bool(spec.run_configuration.processes_per_node)


def _array_task(spec: RunSpec, root: str, directory: str) -> ArrayTask | None:
    """Return the run's task in the job array of its sweep; None for a single job."""
    sweep = spec.sweep
    if sweep is None or sweep.size == 1 or is_held(spec.slurm):
        return None
    name = f"{sweep.name}-{project_key(spec.project_root)}"
    folder = f"{root}/arrays/{name}"
    script = array_script(folder, has_setup=bool(spec.target.setup))
    return ArrayTask(folder, name, f"1-{sweep.size}%{sweep.limit}", sweep.number, log_of(directory), script)


def _describe_task(spec: RunSpec) -> str:
    task = _array_task(spec, "", "")
    return f" as task {task.number} of an array ({task.tasks})" if task is not None else ""
