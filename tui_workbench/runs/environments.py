"""Making a run configuration's environment beforehand, without a run."""

from __future__ import annotations

import os

from tui_workbench.errors import ConfigurationError
from tui_workbench.model import RunSpec
from tui_workbench.records import TYPE_CHECKING
from tui_workbench.targets.protocol import target_for

if TYPE_CHECKING:
    from tui_workbench.project import Project
    from tui_workbench.targets.report import Report


def prepare_environment(project: Project, run_configuration: str, target: str, report: Report) -> str:
    """Have the environment that runs of the configuration take on its target, or on another one; returns its name.

    Blocks until it is there. Raises ConfigurationError (nothing to prepare there, or a package that cannot be had),
    TargetUnreachable, Interrupted or WorkbenchError.
    """
    from tui_workbench.targets.staged import StagedTarget

    configuration = project.run_configuration(run_configuration)
    compute = project.target_of(configuration, target)
    implementation = target_for(compute)
    if not isinstance(implementation, StagedTarget):
        raise ConfigurationError(
            f"runs on {compute.name} use the Python that pythonLocation names: there is nothing to prepare",
            remedy="Install packages with that Python.",
            file=compute.path,
        )
    implementation.report = report
    spec = RunSpec(
        run_id="",
        run_directory=os.path.join(project.runs_directory, "none"),
        project_root=project.root,
        project_name=project.name,
        working_directory=project.root,
        script="",
        arguments=(),
        run_configuration=configuration,
        target=compute,
    )
    try:
        return implementation.prepare_environment(spec)
    finally:
        implementation.close()
