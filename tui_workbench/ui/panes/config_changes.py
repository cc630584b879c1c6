"""The commands that change configuration files as wholes, for every pane that has such a file under its cursor.

The invariant: a pane only says what is wanted of which file; the screen shows the change before anything is made.
"""

from __future__ import annotations

from textual.widget import Widget

from tui_workbench.ui.messages import ChangeWanted

NEEDING_A_FILE = frozenset({"gpu_ready", "duplicate", "rename", "delete"})


class OffersChanges(Widget):
    """A widget that offers the commands of `CHANGES`. Subclasses say which file is meant."""

    def changeable_file(self) -> str:
        """The absolute path of the `.compute` or `.runconfig` file under the cursor; "" when none is."""
        raise NotImplementedError

    def why_not_change(self, action: str) -> str:
        """Why one of these commands is not available now; "" for other commands."""
        if action in NEEDING_A_FILE and not self.changeable_file():
            return "No compute target or run configuration is under the cursor."
        return ""

    def action_gpu_ready(self) -> None:
        """Make it use the GPU."""
        self._want("gpu-ready")

    def action_duplicate(self) -> None:
        """Copy it under another name."""
        self._want("duplicate")

    def action_rename(self) -> None:
        """Give it another name."""
        self._want("rename")

    def action_delete(self) -> None:
        """Put it into the trash."""
        self._want("delete")

    def action_new_target(self) -> None:
        """Make a new compute target."""
        self._want("new-target")

    def action_new_configuration(self) -> None:
        """Make a new run configuration, for the target under the cursor if one is."""
        self._want("new-configuration")

    def _want(self, kind: str) -> None:
        self.post_message(ChangeWanted(kind, self.changeable_file()))


def is_changeable(path: str) -> bool:
    """True for files that the commands are about."""
    return path.endswith((".compute", ".runconfig"))
