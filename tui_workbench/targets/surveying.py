"""A plan of a run in a container, refined by what its host and its engine say now."""

from __future__ import annotations

from tui_workbench.records import TYPE_CHECKING
from tui_workbench.targets import container as containers
from tui_workbench.targets import placing
from tui_workbench.targets.images import Images
from tui_workbench.targets.layout import HostLayout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui_workbench.model import Plan, RunSpec, Step
    from tui_workbench.targets.engine import Engine
    from tui_workbench.targets.host import Entry, Host


def refine(host: Host, engine: Engine, spec: RunSpec, plan: Plan, tree: Sequence[Entry]) -> Plan:
    """The plan with the numbers and names of this moment. Raises ConfigurationError and TargetUnreachable."""
    images = Images(host, engine, spec)
    choice = images.choose()
    steps = []
    for step in plan.steps:
        if step.name == "sync":
            step = step._replace(title=_sync_title(host, spec, tree))
        elif step.name == "image":
            step = step._replace(
                title=_image_title(host, images, choice.name, choice.why, held=choice.image is not None)
            )
        elif step.name in ("container", "start") and choice.image is not None:
            step = _with_image(step, host, engine, spec, images)
        steps.append(step)
    return plan._replace(interpreter=choice.name, steps=tuple(steps))


def _image_title(host: Host, images: Images, name: str, why: str, *, held: bool) -> str:
    if held:
        return f"take {name}, which {host.label} holds"
    if name == images.base_name:
        return f"fetch {name}: {why}"
    images.refuse_unless_built()
    return f"build {name} on {images.base_name}: {why}"


def _with_image(step: Step, host: Host, engine: Engine, spec: RunSpec, images: Images) -> Step:
    image, facts = images.present()
    place = placing.placement(host, engine, spec, image, facts)._replace(image=images.choose().name)
    if step.name == "container":
        return step._replace(command=containers.docker_command(spec, place))
    return step._replace(command=tuple(containers.command(spec, place)))


def _sync_title(host: Host, spec: RunSpec, tree: Sequence[Entry]) -> str:
    from tui_workbench.targets.sending import difference

    destination = HostLayout(host.home()).project_tree(spec.project_root, spec.project_name)
    return f"send to {host.label}: {difference(host, tree, destination).text}"
