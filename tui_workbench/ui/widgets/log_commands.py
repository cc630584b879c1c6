"""The commands of the log, in the form of the registry: what moves in it belongs to the view, the rest to the pane."""

from __future__ import annotations

from tui_workbench.ui.commands import Command

LOG_VIEW = (
    Command("log.up", "up,k", "move(-1)", "Up", "Goes a row up; the log is no longer followed.", footer=False),
    Command("log.down", "down,j", "move(1)", "Down", "Goes a row down.", footer=False),
    Command("log.page_up", "pageup,ctrl+b,b", "page(-1)", "Page up", "Goes a page up.", footer=False),
    Command("log.page_down", "pagedown,ctrl+f,space", "page(1)", "Page down", "Goes a page down.", footer=False),
    Command("log.half_up", "ctrl+u", "page(-0.5)", "Half page up", "Goes half a page up.", footer=False),
    Command("log.half_down", "ctrl+d", "page(0.5)", "Half page down", "Goes half a page down.", footer=False),
    Command("log.left", "left,h", "pan(-1)", "Left", "Shows what is further left in long lines.", footer=False),
    Command("log.right", "right,l", "pan(1)", "Right", "Shows what is further right in long lines.", footer=False),
    Command("log.start", "home,g", "go_to_start", "Start", "Goes to the first line.", footer=False),
    Command("log.follow", "G,end", "follow", "Follow", "Goes to the last line, and on with it while the run writes."),
    Command("log.wrap", "w", "toggle_wrap", "Wrap", "Breaks long lines into rows, or shows them in one.", footer=False),
    Command("log.numbers", "number_sign", "toggle_numbers", "Numbers", "Shows the numbers of the lines.", footer=False),
    Command(
        "log.copy",
        "y",
        "copy_line",
        "Copy",
        "Copies the selected text, or the chosen line, or the last one in view.",
        footer=False,
    ),
)

LOG = (
    Command("log.search", "slash", "search", "Search", "Finds text, or what matches an expression, as one types."),
    Command("log.next", "n", "step(1)", "Next", "Goes to the next line that matches."),
    Command("log.previous", "N", "step(-1)", "Previous", "Goes to the line before that matches."),
    Command("log.clear", "escape", "clear_search", "End search", "Ends the search; the log stays where it is."),
    Command("log.traceback", "t", "show_traceback", "Traceback", "Goes to the last Python traceback of the log."),
)

LOG_SEARCH = (
    Command(
        "log_search.keep", "enter", "keep", "Stay here", "Goes to the log at the match; n and N find further ones."
    ),
    Command("log_search.next", "down,f3", "step(1)", "Next", "Goes to the next line that matches."),
    Command("log_search.previous", "up,shift+f3", "step(-1)", "Previous", "Goes to the line before that matches."),
    Command(
        "log_search.mode", "alt+r,f4", "toggle_mode", "Expression", "Takes the text as a regular expression, or not."
    ),
    Command("log_search.cancel", "escape", "cancel", "Cancel", "Ends the search and goes back to where it began."),
)
