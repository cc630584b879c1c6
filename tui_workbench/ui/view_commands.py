"""The commands about how the main screen is divided: a part of the registry."""

from __future__ import annotations

from tui_workbench.ui.command import Command

DIVIDING = (
    Command(
        "view.border_left",
        "less_than_sign",
        "move_border('x', -1)",
        "Border left",
        "Moves the border beside the pane's column to the left. Borders can be dragged with the mouse, too.",
        footer=False,
    ),
    Command(
        "view.border_right",
        "greater_than_sign",
        "move_border('x', 1)",
        "Border right",
        "Moves the border beside the pane's column to the right.",
        footer=False,
    ),
    Command(
        "view.border_up",
        "left_curly_bracket",
        "move_border('y', -1)",
        "Border up",
        "Moves the border between the panes of the column up.",
        footer=False,
    ),
    Command(
        "view.border_down",
        "right_curly_bracket",
        "move_border('y', 1)",
        "Border down",
        "Moves the border between the panes of the column down.",
        footer=False,
    ),
    Command(
        "view.borders_back",
        "equals_sign",
        "borders_back",
        "Usual sizes",
        "Gives all panes the sizes that they have at first.",
        footer=False,
    ),
    Command(
        "view.redraw",
        "ctrl+l",
        "redraw",
        "Draw again",
        "Writes all of what is shown again, when something else has written into it.",
        footer=False,
    ),
)

RECENT = (Command("recent.open", "enter", "open", "Details", "Shows everything about the run."),)

VIEW_SCOPES = {"runs at the side": RECENT}
