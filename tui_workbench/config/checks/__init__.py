"""Checks of configuration files: what is wrong, and what is unwise.

Invariant: a check only looks. Every finding has a place, a sentence and a remedy; `CODES` lists every code that can
appear, with its severity, and the reference page is made from it.

`structure` knows one file and the schema, `project` the files around it, `gpu` what a GPU needs, `processes` what
torchrun needs, `dependencies` packages.
"""

from __future__ import annotations

from tui_workbench.config import fields
from tui_workbench.config.checks import dependencies, gpu, processes, project, structure
from tui_workbench.config.checks.subject import CODES, Subject
from tui_workbench.config.findings import ERROR, INFO, WARNING, Finding, Fix
from tui_workbench.records import TYPE_CHECKING

if TYPE_CHECKING:
    from tui_workbench.config.document import Document

__all__ = ["CODES", "ERROR", "INFO", "WARNING", "Finding", "Fix", "check_document"]


def check_document(document: Document) -> list[Finding]:
    """Everything that is wrong or unwise in a document, in the order of its text."""
    subject = Subject(document)
    if document.error is not None:
        return [structure.syntax_finding(subject, document.error)]
    found = list(structure.check(subject))
    if subject.kind in (fields.COMPUTE, fields.RUNCONFIG, fields.SDK_RUNCONFIG):
        found += project.check(subject)
        found += gpu.check(subject)
        found += processes.check(subject)
    elif subject.kind is fields.CONDA:
        found += dependencies.check(subject)
    found.sort(key=lambda finding: (finding.start, finding.end))
    return found
