"""Read the content of the first frame of a project's main screen."""

from __future__ import annotations

from typing import NamedTuple

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.projects.project import Project
from tui_workbench.ui.files.file_tree import FileTree, read_folder
from tui_workbench.ui.session_state import Values, load_session


class Opened(NamedTuple):
    """A project with its file tree and its saved session, and the error if the session cannot be read."""

    project: Project
    tree: FileTree
    saved: Values
    error: WorkbenchError | None


def open_project(root: str) -> Opened:
    """Read the project at or above the folder `root`. Blocks. Raises ProjectNotFound."""
    project = Project.find(root)
    saved, error = load_session(project.root)
    tree = FileTree(project.root)
    if folders := saved.part("files").texts("folders"):
        tree.open_folders = {"", *folders}
    for folder in tree.to_read():
        tree.accept(folder, read_folder(project.root, folder))
    return Opened(project, tree, saved, error)
