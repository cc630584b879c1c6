"""All checks of a configuration file. What they call an error is refused when a run is submitted."""

from __future__ import annotations

from collections.abc import Iterator

from tui_workbench.config.checks import data, dependencies, gpu, project, spark, structure
from tui_workbench.config.checks.findings import ERROR, Finding
from tui_workbench.config.checks.project_context import Subject
from tui_workbench.config.schema import fields


def findings_of(subject: Subject) -> Iterator[Finding]:
    """Yield the findings of all checks."""
    yield from _findings(subject)
    yield from data.old_sources(subject)


def first_error(subject: Subject) -> Finding | None:
    """Return the first error of all checks in text order, or None.

    Checks that only give advice and search the files of the project are left out.
    """
    errors = (finding for finding in _findings(subject) if finding.severity == ERROR)
    return min(errors, key=lambda finding: finding.start, default=None)


def _findings(subject: Subject) -> Iterator[Finding]:
    yield from structure.check(subject)
    if subject.kind in (fields.COMPUTE, fields.RUNCONFIG, fields.SDK_RUNCONFIG):
        yield from project.check(subject)
        yield from data.check(subject)
        yield from gpu.check(subject)
    if subject.kind in (fields.RUNCONFIG, fields.SDK_RUNCONFIG, fields.SPARK):
        yield from spark.check(subject)
    if subject.kind is fields.CONDA:
        yield from dependencies.check(subject)
