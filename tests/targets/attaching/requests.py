"""Helpers for the tests of attaching a machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tui_workbench.projects.project import Project
from tui_workbench.targets.attaching.attach import Attachment, AttachRequest

if TYPE_CHECKING:
    pass


def attach(project: Project, request: AttachRequest) -> Attachment:
    attachment = Attachment(project.root, request)
    attachment.connect()
    attachment.write()
    return attachment


def compute(project: Project, name: str = "box") -> str:
    return Path(project.config_directory, f"{name}.compute").read_text()
