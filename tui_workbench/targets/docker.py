"""Runs in a container, of the Docker engine here (`localdocker`) or on another machine (`remotedocker`).

It is one implementation over two kinds of host. The engine is the supervisor: nothing of ours lives on the host while
the script trains. A run's container has a name that only it can have, is started by a shell that refuses to start a
run twice, and writes its output and its exit code into the run's directory on the host. So each step can be taken again
by whoever goes on, and a lost connection costs nothing: the log is read on from where the copy here ends.
"""

from __future__ import annotations

import os

from tui_workbench.errors import ConfigurationError, TargetUnreachable, WorkbenchError
from tui_workbench.model import Plan, Problem, Step, masked
from tui_workbench.records import TYPE_CHECKING
from tui_workbench.targets import container as containers
from tui_workbench.targets import framework, placing, supervisor, torchrun
from tui_workbench.targets.container import ENGINE_MODE, MODE_LABEL, container_name
from tui_workbench.targets.enginelog import PLACE_FILE, EngineLog
from tui_workbench.targets.gpu import choice
from tui_workbench.targets.hostrun import OUTPUT, OUTPUTS, HostRun
from tui_workbench.targets.protocol import Interrupted
from tui_workbench.targets.staged import StagedTarget

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from tui_workbench.model import ComputeTarget, RunSpec
    from tui_workbench.targets.container import Placement
    from tui_workbench.targets.engine import Container, Engine, EngineRefused, Image
    from tui_workbench.targets.host import Entry, Host
    from tui_workbench.targets.probe import ImageFacts
    from tui_workbench.targets.protocol import Outcome
    from tui_workbench.targets.staged import Leftover, ProjectNames

FIRST_DELAY, LONGEST_DELAY = 0.2, 30.0
"""Seconds between two attempts to reach an engine that does not answer; doubled each time."""

END_SECONDS = 30.0
"""How long the engine may take to end a killed container before it is asked again."""

# All processes of the container that the run's user may signal; process 1 and the asking shell are never among them.
_ASK_ALL = ("/bin/sh", "-c", "kill -TERM -1")


class DockerTarget(StagedTarget):
    """`type: localdocker` and `type: remotedocker`."""

    def __init__(self, target: ComputeTarget, host: Host) -> None:
        super().__init__()
        self.target = target
        self.host = host
        self._engine: Engine | None = None
        self._chosen: tuple[str, Image, ImageFacts] | None = None

    def plan(self, spec: RunSpec) -> Plan:
        """The steps as far as files tell them. Raises ConfigurationError."""
        framework.require_python(spec.run_configuration)
        place = placing.symbolic_placement(self.host, spec)
        variables = containers.variables(spec, place)
        framework.refuse_impossible(spec.run_configuration.path, variables, containers.command(spec, place))
        image, label = self.target.base_docker_image, self.host.label
        steps = []
        if not self.host.is_local and not place.copied:
            steps.append(Step("sync", f"send what changed since the last run to {label}"))
            steps.append(Step("copy", f"make the run's own copy on {label}"))
        start = Step(
            "start",
            f"start {spec.script}{torchrun.describe(spec)}",
            tuple(containers.command(spec, place)),
            containers.working_directory(place),
            masked(variables),
        )
        if choice.chooses(self.target):
            steps.append(Step("gpus", f"{choice.describe(self.target)} on {label}"))
        steps += [
            Step("image", f"take {image}; it is fetched when {label} does not hold it"),
            Step("container", f"create the container on {label}", containers.docker_command(spec, place)),
            start,
            Step("follow", "wait for its end; the output goes to output.log"),
            Step("collect", "keep outputs/ and every other file that the run made"),
            Step("remove", "remove the container"),
        ]
        return Plan(self.target.name, self.target.type, image, tuple(steps))

    def survey(self, spec: RunSpec, plan: Plan, tree: Callable[[], Sequence[Entry]]) -> Plan:
        """The plan with the image that would be taken now, and what would be sent."""
        from tui_workbench.targets.surveying import refine

        sends = not self.host.is_local and not placing.is_copied(self.target)
        return refine(self.host, self._connect(), spec, plan, tree() if sends else ())

    def check(self) -> list[Problem]:
        """Whether the engine answers."""
        try:
            self._connect()
        except WorkbenchError as error:
            return [Problem(self.target.path, 0, 0, "error", "engine", error.message, error.remedy)]
        return []

    def prepare(self, spec: RunSpec, plan: Plan, tree: Callable[[], Sequence[Entry]]) -> None:
        """Send the project, get the image. Idempotent; raises Interrupted, TargetUnreachable or WorkbenchError."""
        engine = self._connect()
        if self._container(engine, spec) is not None:
            return  # it was prepared, whatever was recorded
        run = HostRun(self.host, spec)
        if placing.is_copied(self.target):
            run.make_folders()
            run.send_sdk()
        else:
            run.send(tree(), self.report)
        run.keep_record()
        self._image(engine, spec)

    def container_id(self, spec: RunSpec) -> str:
        """The id of the run's container, "" when there is none. Raises TargetUnreachable."""
        found = self._container(self._connect(), spec)
        return found.id if found is not None else ""

    def prepare_environment(self, spec: RunSpec) -> str:
        """The image that a run of this specification takes, fetched or built as needed."""
        from tui_workbench.targets.images import Images

        images = Images(self.host, self._connect(), spec)
        images.have(self.report, build=True)
        return images.choose().name

    def image_of(self, spec: RunSpec) -> tuple[str, str, ImageFacts]:
        """Name and id of the image that the run has or, when its container is gone, would have; and what it holds.

        Raises WorkbenchError when there is none any more.
        """
        from tui_workbench.targets.images import Images
        from tui_workbench.targets.probe import facts_of

        engine = self._connect()
        found = self._container(engine, spec)
        image = engine.image(found.image) if found is not None else Images(self.host, engine, spec).choose().image
        name = self.target.base_docker_image
        if image is None:
            raise WorkbenchError(f"{self.host.label} does not hold the image of {spec.run_id} any more")
        return image.tags[0] if image.tags else name, image.id, facts_of(engine, image, name)

    @property
    def place(self) -> str:
        """The host, which has one engine."""
        return self.host.label

    def leftovers(self, project: ProjectNames, active: Collection[str]) -> list[Leftover]:
        """Containers, environments, caches, and over there folders of runs and of the project."""
        from tui_workbench.targets import leftovers

        return leftovers.find(self.host, self._connect(), project, active)

    def remove(self, leftover: Leftover) -> None:
        """Remove one of them."""
        from tui_workbench.targets import leftovers

        leftovers.remove(self.host, self._connect(), leftover)

    def known_runs(self, project: ProjectNames) -> list[tuple[str, bytes]]:
        """Those with a folder over there; each has one before it has a container."""
        from tui_workbench.targets.leftovers import run_folders

        return [(folder.run_id, folder.record) for folder in run_folders(self.host) if folder.project == project.name]

    def start(self, spec: RunSpec, plan: Plan, environment: Mapping[str, str]) -> None:
        """Create the container and start it; one that was started is left alone."""
        from tui_workbench.targets.engine import EngineRefused

        engine = self._connect()
        found = self._container(engine, spec)
        if found is not None and found.state != "created":
            return
        try:
            self._create_and_start(engine, spec)
        except EngineRefused as refused:
            left = self._container(engine, spec)
            if left is not None and left.state == "created":
                engine.remove(left.id)
            raise self._start_failure(refused) from refused

    def has_ended(self, spec: RunSpec) -> bool:
        """True when the end has been noted in the run's directory here."""
        return supervisor.read_exit_code(spec.run_directory) is not None

    def started(self, spec: RunSpec) -> bool:
        """True once the container was started."""
        found = self._container(self._connect(), spec)
        return found is not None and found.state != "created"

    def wait(self, spec: RunSpec, interrupted: int) -> Outcome:
        """Wait for the container's end with the log taken meanwhile, through every loss of the connection."""
        while True:
            try:
                return self._wait_once(spec, interrupted)
            except (TargetUnreachable, ConfigurationError) as error:
                self.report.lost(str(error))
                self.wait_until_reachable(interrupted)

    def wait_until_reachable(self, interrupted: int) -> None:
        """Block until the engine answers again. Raises Interrupted when somebody may want the run to end first."""
        from tui_workbench.targets.host import wait_ready

        delay = FIRST_DELAY
        watched = [interrupted] if interrupted >= 0 else []
        self._tell_if_it_is_the_machine()
        while True:
            self.close()
            try:
                if not self.host.wait_until_reachable(interrupted):
                    raise Interrupted
                self._connect()
                return
            # The socket of an engine that is being restarted is gone for a moment, as if there were no engine.
            except (TargetUnreachable, ConfigurationError) as error:
                self.report.lost(str(error))
            if wait_ready(watched, timeout=delay):
                raise Interrupted
            delay = min(2 * delay, LONGEST_DELAY)

    def _tell_if_it_is_the_machine(self) -> None:
        """An engine behind a lost connection does not answer either, and is not what there is to look at."""
        if self.host.is_local:
            return
        try:
            self.host.check(["true"])
        except TargetUnreachable as error:
            self.report.lost(str(error))

    def stop(self, spec: RunSpec, *, grace: float) -> bool:
        """Ask every process in the container to end, and after `grace` seconds end it by force."""
        from tui_workbench.targets.following import Background

        engine = self._connect()
        found = self._container(engine, spec)
        if found is None or found.has_ended or found.state == "created":
            return False
        with Background(lambda: engine.wait(found.id)) as ended:
            if found.state == "paused":
                engine.unpause(found.id)
            self._ask_to_end(engine, found)
            forced = not ended.wait(timeout=grace)
            while forced:
                engine.kill(found.id)
                if ended.wait(timeout=END_SECONDS):
                    break
        self._outcome(engine, spec)
        return forced

    def collect(self, spec: RunSpec) -> None:
        """Bring here what is still there: the rest of the log, outputs/ and every other file that the run made."""
        engine = self._connect()
        found = self._container(engine, spec)
        self._take_log(engine, spec, found)
        if not placing.is_copied(self.target):
            HostRun(self.host, spec).fetch()
        else:
            HostRun(self.host, spec).finish_live()
            if found is not None:
                self._take_outputs(engine, spec, found)

    def release(self, spec: RunSpec) -> None:
        """Remove the container and the run's copy of the project."""
        self._connect().remove(container_name(spec.run_id))
        HostRun(self.host, spec).remove_copy()

    def close(self) -> None:
        """Let go of the engine; the next call connects again."""
        self._engine = None

    def _connect(self) -> Engine:
        if self._engine is None:
            from tui_workbench.targets.engine import Engine

            self._engine = Engine(self.host.docker_socket(), self.host.label, self.host.ssh_words)
        return self._engine

    def _container(self, engine: Engine, spec: RunSpec) -> Container | None:
        return engine.container(container_name(spec.run_id))

    def _image(self, engine: Engine, spec: RunSpec) -> tuple[Image, ImageFacts]:
        """The image of the run, made when that is part of it; asked for once by one process."""
        from tui_workbench.targets.images import Images

        if self._chosen is None or self._chosen[0] != spec.run_id:
            build = spec.run_configuration.prepare_environment
            self._chosen = (spec.run_id, *Images(self.host, engine, spec).have(self.report, build=build))
        return self._chosen[1:]

    def _placement(self, engine: Engine, spec: RunSpec) -> Placement:
        image, facts = self._image(engine, spec)
        return placing.placement(self.host, engine, spec, image, facts)

    def _create_and_start(self, engine: Engine, spec: RunSpec) -> None:
        name = container_name(spec.run_id)
        place = self._placement(engine, spec)
        run = HostRun(self.host, spec)
        run.make_folders(place.share)
        run.note_start()
        if choice.chooses(self.target):
            place = place._replace(gpus=tuple(each.uuid for each in choice.take(self.host, spec, run.directory)))
        launch = containers.launch_file(spec, place)
        if launch is not None:
            run.write(containers.LAUNCH_FILE, launch)
        engine.create(name, containers.configuration(spec, place))
        if place.copied:
            with placing.archive_of(spec.working_directory, containers.PROJECT_DIRECTORY, place.user) as archive:
                engine.put(name, "/", archive)
        engine.start(name)
        if place.mode == ENGINE_MODE:
            # Nobody over there notes that it was started.
            open(f"{spec.run_directory}/{PLACE_FILE}", "a").close()

    def _start_failure(self, refused: EngineRefused) -> WorkbenchError:
        message, remedy = containers.start_failure(
            refused.said, host=self.host.label, image=self.target.base_docker_image
        )
        return WorkbenchError(message, remedy=remedy or refused.remedy)

    def _wait_once(self, spec: RunSpec, interrupted: int) -> Outcome:
        engine = self._connect()
        self.report.regained()
        found = self._container(engine, spec)
        if found is not None and found.state != "created" and not found.has_ended:
            self._follow(engine, spec, found, interrupted)
            found = self._container(engine, spec)
        self._take_log(engine, spec, found)
        return self._outcome(engine, spec)

    def _outcome(self, engine: Engine, spec: RunSpec) -> Outcome:
        """How the ended run ended; noted in its directory here. Raises WorkbenchError when it was never started."""
        run, found = HostRun(self.host, spec), self._container(engine, spec)
        ending = run.ending()
        was_started = ending.started or os.path.exists(f"{spec.run_directory}/{PLACE_FILE}")
        if not was_started and (found is None or found.state == "created"):
            raise WorkbenchError(
                f"there is no container of it on {self.host.label}: it was never started", remedy="Submit it again."
            )
        if found is not None and found.has_ended and ending.exit_code is None and not found.error:
            found = found._replace(error=self._last_words(engine, found))
        outcome = containers.outcome(
            found,
            ending.exit_code,
            host=self.host.label,
            restarted=ending.restarted,
            engine_started=engine.started_at(),
        )
        run.note_end(outcome.exit_code)
        return run.told_of_disk(outcome)

    def _last_words(self, engine: Engine, found: Container) -> str:
        """The last line that the container wrote past the run's log, as a shell that cannot write that does."""
        if found.labels.get(MODE_LABEL) == ENGINE_MODE:
            return ""
        records = [text.partition(b" ")[2] for text in engine.records(found.id, follow=False)]
        return records[-1].decode("utf-8", "replace").strip() if records else ""

    def _follow(self, engine: Engine, spec: RunSpec, found: Container, interrupted: int) -> None:
        """Wait for the container's end while its output arrives."""
        from tui_workbench.targets.following import Background, follow

        if found.labels.get(MODE_LABEL) == ENGINE_MODE:

            def take() -> None:
                with EngineLog(engine, found.id, spec.run_directory, OUTPUT) as log:
                    log.take(follow=True)
                engine.wait(found.id)

            with Background(take) as ended:
                ended.wait(interrupted)
            return
        with Background(lambda: engine.wait(found.id)) as ended:
            if self.host.is_local:
                ended.wait(interrupted)
                return
            run = HostRun(self.host, spec)
            with run.mirror() as mirror:
                follow(ended, mirror, interrupted, run.live())

    def _take_log(self, engine: Engine, spec: RunSpec, found: Container | None) -> None:
        """Take what is still missing of an ended run's output."""
        if found is not None and found.labels.get(MODE_LABEL) == ENGINE_MODE:
            with EngineLog(engine, found.id, spec.run_directory, OUTPUT) as log:
                log.take(follow=False)
        elif not self.host.is_local:
            with HostRun(self.host, spec).mirror() as mirror:
                mirror.drain()

    def _take_outputs(self, engine: Engine, spec: RunSpec, found: Container) -> None:
        """Take outputs/ of a project that was copied into its container."""
        from tui_workbench.targets.unpacking import unpack

        archive = engine.get(found.id, f"{containers.PROJECT_DIRECTORY}/{OUTPUTS}")
        if archive is not None:
            unpack(archive, OUTPUTS, os.path.join(spec.run_directory, OUTPUTS))

    def _ask_to_end(self, engine: Engine, found: Container) -> None:
        """SIGTERM to every process of the run; the supervising shell outlives it to write down the exit code."""
        from tui_workbench.targets.engine import EngineRefused

        if found.labels.get(MODE_LABEL) != ENGINE_MODE:
            try:
                if engine.execute(found.id, _ASK_ALL)[0] == 0:
                    return
            except EngineRefused:
                pass  # it has just ended, or cannot start one process more
        engine.kill(found.id, "SIGTERM")
