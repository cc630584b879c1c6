"""Execute runs in containers of a Docker engine on this machine (`localdocker`) or another (`remotedocker`).

The engine supervises the run; no process of the workbench runs on the host meanwhile. The name of a run's container is
unique. The shell in the container refuses to start a run twice, and writes the output and the exit code to the run's
directory on the host. Another process can therefore repeat every step. After a lost connection, the log is read from
the end of the local copy.

Items to clean up are found by the labels of containers and images, and in the workbench's folder on the engine's host.
They do not include running containers of runs, environments that a container uses, or files of active runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from tui_workbench.core.errors import ConfigurationError, TargetUnreachable, WorkbenchError
from tui_workbench.core.locks import is_cache_locked
from tui_workbench.core.masking import mask_variables
from tui_workbench.core.model import ComputeTarget, Plan, Problem, RunSpec, Step
from tui_workbench.projects.project import line_of_key
from tui_workbench.targets.base import run_environment, spark
from tui_workbench.targets.base.group import SharedGroup
from tui_workbench.targets.base.protocol import Target
from tui_workbench.targets.base.python_environment import PythonEnvironment, host_info
from tui_workbench.targets.base.reaching import reach, wait_through_losses, wait_until_answering
from tui_workbench.targets.docker import container as containers
from tui_workbench.targets.docker import placing
from tui_workbench.targets.docker.building import (
    BUILD_KIND,
    CACHE_VOLUME,
    ENVIRONMENT_KIND,
    MACHINE_LABEL,
    TAG_LABEL,
)
from tui_workbench.targets.docker.container import KIND_LABEL, PROJECT_LABEL, RUN_KIND, RUN_LABEL
from tui_workbench.targets.docker.container_run import POSITION_FILE, ContainerRun
from tui_workbench.targets.docker.create_command import mount_option
from tui_workbench.targets.docker.docker_group import DockerGroup
from tui_workbench.targets.docker.docker_socket import docker_socket, engine_choice, engine_socket, engine_variables
from tui_workbench.targets.docker.engine import Engine
from tui_workbench.targets.docker.engine_answers import Container, Image
from tui_workbench.targets.docker.gpu_access import gpu_access
from tui_workbench.targets.docker.image_probe import PROBE_KIND, ImageFacts, InImage, facts_of
from tui_workbench.targets.docker.images import Images, build_lock
from tui_workbench.targets.gpu import choice
from tui_workbench.targets.gpu.framework_location import (
    EnvironmentMissing,
    FrameworkLocation,
    prepare_command,
    variables_of,
)
from tui_workbench.targets.hosts.data import place_data
from tui_workbench.targets.hosts.host import ConnectionLost, Entry, Host
from tui_workbench.targets.hosts.host_layout import HostLayout, find_cleanup_items, project_key
from tui_workbench.targets.hosts.host_run import HostRun
from tui_workbench.targets.hosts.manifest import FileList
from tui_workbench.targets.hosts.sending import difference
from tui_workbench.targets.hosts.serving import ServerPlace
from tui_workbench.targets.hosts.stacks import Reading
from tui_workbench.targets.ssh.ssh_wire import login_of
from tui_workbench.targets.values import CleanupItem, Outcome, ProjectNames, Report

if TYPE_CHECKING:
    from tui_workbench.targets.checks.ladder import Checks, OpenTarget


class DockerTarget(Target):
    """A target of type `localdocker` or `remotedocker`."""

    keeps_runs = True
    jobs_at_once = 16  # a step can wait for processes that do not end

    def __init__(self, target: ComputeTarget, host: Host | None = None) -> None:
        super().__init__(target, host)
        self._engine: Engine | None = None
        self._chosen: tuple[str, Image, ImageFacts] | None = None

    @classmethod
    def checks(cls, target: ComputeTarget, open_target: OpenTarget, host: Host | None = None) -> Checks:
        from tui_workbench.targets.docker.checks import DockerChecks

        return DockerChecks(target, open_target, host)

    def plan(self, spec: RunSpec) -> Plan:
        if spec.run_configuration.uses_spark:
            spark.require_script(spec)
        retries = spec.run_configuration.retry
        if (retries or spec.attempt > 1) and placing.is_copied(self.target):
            subject, alternative = ("`Retry`", ", or remove `Retry`") if retries else ("Another attempt", "")
            raise ConfigurationError(
                f"{subject} needs the files of earlier attempts, but {self.target.name} has `sharedVolumes: false`",
                remedy=f"Set `sharedVolumes: true` in {self.target.name}.compute{alternative}.",
                file=spec.run_configuration.path,
                line=line_of_key(spec.run_configuration.path, "Retry"),
            )
        placement = placing.symbolic_placement(self.host, spec)
        variables = containers.variables(spec, placement)
        command = containers.command(spec, placement)
        run_environment.refuse_impossible(spec.run_configuration.path, variables, command)
        image, label = self.target.base_docker_image, self.host.label
        steps = []
        if not self.host.is_local and not placement.copied:
            steps.append(Step("sync", f"send changed files to {label}"))
            steps.append(Step("copy", f"make the run's working copy on {label}"))
        if choice.chooses(self.target):
            steps.append(Step("gpus", f"{choice.describe(self.target)} on {label}"))
        steps += [
            Step("image", f"use {image}, and pull it if missing on {label}"),
            *([spark.plan_step(spec, placement.spark)] if placement.spark is not None else ()),
            Step("container", f"create the container on {label}", containers.docker_command(spec, placement)),
            Step(
                "start",
                f"start {spec.script}{run_environment.describe_launcher(spec)}",
                command,
                containers.working_directory(placement),
                mask_variables(variables),
            ),
            Step("follow", "wait for the end; the output goes to output.log"),
            Step("collect", "keep outputs/ and all other files that the run created"),
            Step("remove", "remove the container"),
        ]
        return Plan(self.target.name, self.target.type, image, tuple(steps))

    def plan_details(self, spec: RunSpec, plan: Plan, tree: Callable[[], Sequence[Entry]]) -> Plan:
        host, engine = self.host, self._connect()
        if not host.is_local and not placing.is_copied(self.target):
            destination = HostLayout(host.home()).project_tree(spec.project_root, spec.project_name)
            sent = difference(host, tree(), destination).text
            plan = plan.with_step("sync", title=f"send to {host.label}: {sent}")
        images = Images(host, engine, spec)
        chosen = images.choose()
        plan = plan.with_step("image", title=images.describe(chosen))
        if chosen.image is not None:
            placement = placing.placement_of(host, engine, spec, chosen.image, images.facts(chosen.image))
            placement = placing.with_spark(placement._replace(image=chosen.name), engine, spec, chosen.image)
            if placement.spark is not None:
                plan = plan.with_step("spark", title=spark.plan_step(spec, placement.spark).title)
            plan = plan.with_step("container", command=containers.docker_command(spec, placement))
            plan = plan.with_step("start", command=containers.command(spec, placement))
        return plan._replace(interpreter=chosen.name)

    def check(self) -> list[Problem]:
        try:
            self._connect()
        except WorkbenchError as error:
            return [Problem(self.target.path, 0, 0, "error", "engine", error.message, error.remedy)]
        return []

    def reach(self) -> None:
        self._connect()
        reach(self.target, self.host, self.report)

    def prepare(self, spec: RunSpec, plan: Plan, tree: Callable[[], FileList]) -> None:
        if self._run(spec).container() is not None:
            return  # the run was prepared, even if that was not recorded
        place_data(self.host, spec, self.report, links=False)
        run = HostRun(self.host, spec)
        if placing.is_copied(self.target):
            run.make_folders()
            run.send_sdk()
            run.keep_record()
        else:
            run.send(tree, self.report)
        image, facts = self._image(spec)
        if spec.run_configuration.uses_spark:
            placing.spark_of(self._connect(), spec, image, facts.python)

    def container_id(self, spec: RunSpec) -> str:
        container = self._run(spec).container()
        return container.id if container is not None else ""

    def read_stacks(self, spec: RunSpec) -> Reading:
        return self._run(spec).read_stacks()

    def python_environment(self, spec: RunSpec) -> PythonEnvironment:
        return _ImageEnvironment(self.host, spec, self._connect)

    def server_place(self, spec: RunSpec) -> ServerPlace:
        python = _image_of(self._connect(), self.host, spec)[2].python
        return self._run(spec).server_place(python, engine_socket(self.host))

    def cleanup_items(self, project: ProjectNames, active: Collection[str]) -> list[CleanupItem]:
        engine = self._connect()
        unused, busy = _unused_containers(engine, self.host, project, active, self._connect)
        items = unused + _unused_environments(engine, project, self._connect)
        if engine.has_volume(CACHE_VOLUME):
            remove = partial(_remove, self._connect, Engine.remove_volume, CACHE_VOLUME)
            items.append(CleanupItem("cache", CACHE_VOLUME, remove, note="packages cached by the installer"))
        return items + find_cleanup_items(self.host, project, {*active, *busy})

    def start(self, spec: RunSpec, plan: Plan, environment: Mapping[str, str]) -> None:
        run = self._run(spec)
        if not run.is_started():
            run.create_and_start(*self._image(spec))

    def started(self, spec: RunSpec) -> bool:
        try:
            return self._run(spec).is_started()
        except ConfigurationError as error:
            # An engine has no socket while it restarts; its containers may continue.
            raise ConnectionLost(error.message, remedy=error.remedy) from error

    def wait(self, spec: RunSpec, interrupted: int) -> Outcome:
        def wait_once() -> Outcome:
            run = self._run(spec)
            self.report.regained()
            return run.wait(interrupted)

        return wait_through_losses(self, wait_once, interrupted)

    def shared_group(self, run_directory: str) -> SharedGroup | None:
        if os.path.lexists(os.path.join(run_directory, POSITION_FILE)):
            return None  # the controller copies the output of a container without a shell from the engine's log
        kind, variables = self.target.kind.name, {}
        if not self.host.is_local:
            key = " ".join((kind, *login_of(self.target)[1:]))
        else:
            key = f"{kind} {engine_choice()} {os.uname().nodename}"
            # The watcher cancels and collects its runs on this engine, even if the user chooses another context.
            variables = engine_variables()
        return SharedGroup(key, partial(DockerGroup, self.host, partial(_new_engine, self.host)), variables)

    def wait_until_reachable(self, interrupted: int) -> None:
        def reconnect() -> None:
            self.close()
            try:
                self._connect()
            except ConfigurationError as error:
                # An engine has no socket while it restarts.
                raise ConnectionLost(str(error)) from error

        if not self.host.is_local:
            # Report a lost connection to the machine rather than an engine that does not answer.
            try:
                self.host.check(["true"])
            except TargetUnreachable as error:
                self.report.lost(str(error))
        wait_until_answering(self.host, self.report, interrupted, reconnect)

    def stop(self, spec: RunSpec, *, grace: float) -> bool:
        return self._run(spec).stop(grace)

    def warn(self, spec: RunSpec) -> None:
        self._run(spec).warn()

    def collect(self, spec: RunSpec) -> None:
        self._run(spec).collect(self.report)

    def reset(self, spec: RunSpec, *, anew: bool = False) -> None:
        self._run(spec).reset(anew=anew)

    def release(self, spec: RunSpec) -> None:
        self._run(spec).release()

    def close(self) -> None:
        self._engine = None

    def _connect(self) -> Engine:
        engine = self._engine  # another thread may call `close`
        if engine is None:
            engine = self._engine = _new_engine(self.host)
        return engine

    def _image(self, spec: RunSpec) -> tuple[Image, ImageFacts]:
        """Return the image of the run, pulled or built if needed. The result is cached."""
        if self._chosen is None or self._chosen[0] != spec.run_id:
            images = Images(self.host, self._connect(), spec)
            self._chosen = (spec.run_id, *images.provide(self.report, build=spec.run_configuration.prepare_environment))
        return self._chosen[1:]

    def _run(self, spec: RunSpec) -> ContainerRun:
        return ContainerRun(self.host, self._connect(), spec, self.report)


def _new_engine(host: Host) -> Engine:
    """Connect to the engine of a host. Raises TargetUnreachable or ConfigurationError."""
    return Engine(docker_socket(host), host.label, host.ssh_words)


class _ImageEnvironment(PythonEnvironment):
    """The environment in an image. `connect` returns the engine."""

    def __init__(self, host: Host, spec: RunSpec, connect: Callable[[], Engine]) -> None:
        super().__init__(host, spec)
        self._connect = connect

    def framework_location(self) -> FrameworkLocation:
        spec, (image, python) = self.spec, self._image_and_python()
        access = gpu_access(self.host)
        ids = [gpu.hip or gpu.uuid for gpu in choice.named(self.host, spec.target)]
        visible = access.variables(ids, spec.run_configuration.environment_variables)
        return InImage(self._connect(), image, python, spec.target, variables_of(spec, visible), access)

    def command(self, arguments: Sequence[str], path: str = "") -> list[str]:
        image, python = self._image_and_python()
        words = ["docker", "-H", f"unix://{engine_socket(self.host)}", "run", "--rm", "--interactive"]
        words += ["--network", "host", "--label", f"{KIND_LABEL}={PROBE_KIND}"]
        for data in placing.data_of(self.spec):
            words += ["--mount", mount_option({"Source": data, "Target": data, "ReadOnly": True})]
        words += ["--env", f"PYTHONPATH={path}"] if path else []
        return [*words, "--entrypoint", python, image.id, *arguments]

    def _image_and_python(self) -> tuple[Image, str]:
        """Return the image that the run would use now, and the path of its Python. Raises EnvironmentMissing."""
        images = Images(self.host, self._connect(), self.spec)
        chosen = images.choose()
        if chosen.image is None:
            message = f"the image {chosen.name} is missing ({chosen.reason})"
            raise EnvironmentMissing(message, prepare_command(self.spec))
        return chosen.image, images.facts(chosen.image).python

    def machine_info(self, planned: str) -> dict[str, Any]:
        # The GPUs of the machine are recorded only if containers get them.
        info = host_info(self.host, with_gpus=self.spec.target.nvidia_docker)
        try:
            name, image, facts = _image_of(self._connect(), self.host, self.spec)
        except WorkbenchError as error:
            info["problems"]["image"] = str(error)
        else:
            info["image"] = {"name": name, "digest": image}
            info["packages"] = {package: version for package, version, _ in facts.packages}
            info["python"] = {"executable": facts.python, "version": facts.version}
        return info

    def prepare(self, report: Report) -> str:
        images = Images(self.host, self._connect(), self.spec)
        images.provide(report, build=True)
        return images.choose().name


def _image_of(engine: Engine, host: Host, spec: RunSpec) -> tuple[str, str, ImageFacts]:
    """Return the name, ID and facts of the image of the run's container or, without a container, of the image to use.

    Raises WorkbenchError if the host does not have the image.
    """
    container = ContainerRun(host, engine, spec, Report()).container()
    image = engine.image(container.image) if container is not None else Images(host, engine, spec).choose().image
    name = spec.target.base_docker_image
    if image is None:
        message = f"the image of run {spec.run_id} is not on {host.label}"
        raise WorkbenchError(message, remedy=f"Build or pull it: `{prepare_command(spec)}`.")
    return image.tags[0] if image.tags else name, image.id, facts_of(engine, image, name)


def _unused_containers(
    engine: Engine, host: Host, project: ProjectNames, active: Collection[str], connect: Callable[[], Engine]
) -> tuple[list[CleanupItem], set[str]]:
    """Return unused containers, and the IDs of runs whose container is in use.

    `active` contains the IDs of the active runs.
    """
    items, busy = [], set()
    for kind in (RUN_KIND, BUILD_KIND, PROBE_KIND):
        for container in engine.containers(f"{KIND_LABEL}={kind}"):
            run_id = container.labels.get(RUN_LABEL, "")
            if kind == RUN_KIND:
                if container.labels.get(PROJECT_LABEL) != project.name:
                    continue
                if run_id in active or not (container.has_ended or container.state == "created"):
                    busy.add(run_id)
                    continue
            elif _is_building(host, container) if kind == BUILD_KIND else container.state == "running":
                continue  # a probe ends within minutes
            remove = partial(_remove, connect, Engine.remove, container.name)
            items.append(CleanupItem("container", container.name, remove, note=f"{kind}, {container.state}"))
    return items, busy


def _is_building(host: Host, container: Container) -> bool:
    """Return True if a process may still build in a container.

    Always True for a build that another machine started, because the processes of that machine are not known.
    """
    tag = container.labels.get(TAG_LABEL, "")
    return container.labels.get(MACHINE_LABEL) != project_key("") or is_cache_locked(build_lock(host, tag))


def _unused_environments(engine: Engine, project: ProjectNames, connect: Callable[[], Engine]) -> list[CleanupItem]:
    used = {container.image for container in engine.containers(KIND_LABEL)}
    items: list[CleanupItem] = []
    for image in engine.images(f"{KIND_LABEL}={ENVIRONMENT_KIND}"):
        if image.labels.get(PROJECT_LABEL, project.name) == project.name and image.id not in used:
            # Removing the image frees only its own layer, because the base image is kept.
            remove = partial(_remove, connect, Engine.remove_image)
            items.extend(CleanupItem("environment", tag, partial(remove, tag), image.own_size) for tag in image.tags)
    return items


def _remove(connect: Callable[[], Engine], remove: Callable[[Engine, str], object], name: str) -> None:
    """Remove an item. This may be minutes after it was found, so the connection to the engine may have been closed."""
    remove(connect(), name)
