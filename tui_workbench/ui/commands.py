"""The commands of the main screen: the first part of the registry, which `tui_workbench.ui.registry` has whole.

Footer, `?` help, palette, the user's keymap and the key reference are views of the registry. A command belongs to a
scope, which is the widget that does it: the widget's `BINDINGS` are `bindings(SCOPE)`, its `check_action` tells when
the command is available, its `why_not` tells why it is not. Names are what stands in the footer (at most two words);
helps are one sentence. Keys are in Textual's names; a command without keys is reached through the palette. Single
letters are never priority keys: they belong to text where text is typed. A binding that is not in the registry does
not exist.
"""

from __future__ import annotations

from tui_workbench.ui.command import Command as Command
from tui_workbench.ui.command import bindings as bindings
from tui_workbench.ui.gpu_commands import TO_MONITOR
from tui_workbench.ui.trace_commands import TO_TRACE
from tui_workbench.ui.view_commands import DIVIDING

EVERYWHERE = (
    Command("run.start", "ctrl+r", "run", "Run", "Starts the script of the run bar; saves edited files first."),
    Command(
        "help.show", "question_mark,f1", "help", "Help", "Explains the pane that has the focus, with all its keys."
    ),
    Command("palette.open", "ctrl+p", "palette", "Commands", "Finds any command by its name."),
    Command("view.zoom", "z", "zoom", "Zoom", "Gives the pane that has the focus the whole screen, and back."),
    Command(
        "run.plan", "p", "plan", "Plan", "Shows what the run would do, send and build, before it does.", footer=False
    ),
    Command("run.prepare", "P", "prepare", "Prepare", "Makes the environment of the run, without a run.", footer=False),
    Command("pane.files", "1", "focus_pane('files')", "Files", "Goes to the files of the project.", footer=False),
    Command("pane.targets", "2", "focus_pane('targets')", "Targets", "Goes to the compute targets.", footer=False),
    Command("pane.editor", "3", "focus_pane('editor')", "Editor", "Goes to the editor.", footer=False),
    Command("pane.log", "4", "focus_pane('log')", "Log", "Goes to the log of the selected run.", footer=False),
    Command("pane.jobs", "5", "focus_pane('jobs')", "Jobs", "Goes to the list of runs.", footer=False),
    Command("pane.run_bar", "0", "focus_pane('run-bar')", "Run bar", "Goes to the run bar.", footer=False),
    Command("pane.next", "tab", "app.focus_next", "Next pane", "Goes on to the next pane or field.", footer=False),
    Command(
        "pane.previous", "shift+tab", "app.focus_previous", "Previous pane", "Goes back a pane or field.", footer=False
    ),
    Command(
        "run.arguments", "minus", "focus_arguments", "Arguments", "Goes to the arguments of the run.", footer=False
    ),
    Command(
        "changes.undo",
        "ctrl+z",
        "undo_change",
        "Undo",
        "Takes back what was done last: a change of configuration files, an annotation, a filter, the theme.",
        footer=False,
    ),
    Command(
        "shell.open",
        "exclamation_mark",
        "shell",
        "Shell",
        "Opens a shell in the project, with the Python of the chosen run configuration and az ml.",
        footer=False,
    ),
    Command("view.history", "6", "history", "All runs", "Shows every run of the project, with charts and tables."),
    *TO_MONITOR,
    *TO_TRACE,
    *DIVIDING,
    Command("view.theme", "", "change_theme", "Theme", "Chooses other colours, with a preview.", footer=False),
    Command("text.copy", "ctrl+c", "interrupt", "Copy", "Copies the selected text.", footer=False),
    Command("quit", "q", "quit", "Quit", "Leaves the workbench. Runs go on."),
)

APP = (
    Command(
        "view.jump",
        "ctrl+g",
        "jump",
        "Jump",
        "Shows a letter on each pane, tab, field and link; the letter goes there.",
        footer=False,
        priority=True,
    ),
    Command(
        "quit.anywhere", "ctrl+q", "quit", "Quit", "Leaves the workbench. Runs go on.", footer=False, priority=True
    ),
)

LIST = (
    Command("list.up", "up,k", "cursor_up", "Up", "Moves a row up.", footer=False),
    Command("list.down", "down,j", "cursor_down", "Down", "Moves a row down.", footer=False),
    Command("list.page_up", "pageup,ctrl+b", "page_up", "Page up", "Moves a page up.", footer=False),
    Command("list.page_down", "pagedown,ctrl+f", "page_down", "Page down", "Moves a page down.", footer=False),
    Command("list.first", "home,g", "first", "First", "Moves to the first row.", footer=False),
    Command("list.last", "end,G", "last", "Last", "Moves to the last row.", footer=False),
)

LIST_FILTER = (
    Command(
        "list.filter",
        "slash",
        "filter",
        "Filter",
        "Leaves only the rows that hold all the words one types.",
        footer=False,
    ),
    Command("list.keep_filter", "enter", "keep_filter", "Done", "Goes back to the rows that are left."),
    Command("list.clear_filter", "escape", "clear_filter", "All rows", "Ends the filter; / and enter bring it back."),
)

FILES = (
    Command("files.open", "enter", "open", "Open", "Opens the file in the editor, or opens and closes the folder."),
    Command(
        "files.expand", "right,l", "expand", "Expand", "Opens the folder; then goes to its first file.", footer=False
    ),
    Command(
        "files.collapse", "left,h", "collapse", "Collapse", "Closes the folder, or goes to the one above.", footer=False
    ),
    Command("files.search", "slash", "search", "Search", "Finds files of the whole project by parts of their path."),
    Command(
        "files.refresh",
        "r",
        "refresh_files",
        "Refresh",
        "Reads the folders again. They are also looked at every second.",
    ),
    Command("files.run", "s", "use_script", "Use as script", "Puts the file into the run bar as the script to run."),
    Command("files.edit", "e", "edit", "Own editor", "Opens the file in $VISUAL or $EDITOR.", footer=False),
    Command("files.clear", "escape", "clear_search", "All files", "Ends the search."),
)

TARGETS = (
    Command(
        "targets.open", "enter", "open", "Open", "Opens the .compute file in the editor, at its error if it has one."
    ),
    Command("targets.edit", "e", "edit", "Own editor", "Opens the .compute file in $VISUAL or $EDITOR.", footer=False),
    Command("targets.use", "u", "use", "Run here", "Chooses a run configuration of this target in the run bar."),
    Command("targets.attach", "a", "attach", "Attach", "Makes a machine over SSH, or Docker here, a compute target."),
    Command(
        "targets.detach",
        "x",
        "detach",
        "Detach",
        "Takes the target, its run configuration and its secrets away; undo brings them back.",
        footer=False,
    ),
    Command(
        "targets.check", "t", "check", "Check", "Looks whether the target can be used, and what mends it if it cannot."
    ),
)

CHANGES = (
    Command(
        "changes.gpu_ready", "m", "gpu_ready", "GPU-ready", "Shows all that its runs need to use the GPU, to apply."
    ),
    Command("changes.new_target", "n", "new_target", "New target", "Makes a new compute target."),
    Command(
        "changes.new_configuration",
        "N",
        "new_configuration",
        "New runconfig",
        "Makes a new run configuration, of the target under the cursor if there is one.",
        footer=False,
    ),
    Command("changes.duplicate", "c", "duplicate", "Duplicate", "Copies the file under another name.", footer=False),
    Command(
        "changes.rename",
        "f2",
        "rename",
        "Rename",
        "Gives the file another name; run configurations that name it follow.",
        footer=False,
    ),
    Command(
        "changes.delete",
        "d,delete",
        "delete",
        "Delete",
        "Puts the file into the trash, from where undo brings it back.",
        footer=False,
    ),
)

JOBS = (
    Command("jobs.log", "enter", "show_log", "Log", "Goes to the log of the run."),
    Command("jobs.cancel", "x", "cancel", "Cancel", "Ends the run and all its processes, after asking once."),
    Command(
        "jobs.reconnect",
        "r",
        "reconnect",
        "Reconnect",
        "Tries at once to reach the target of a run that nothing is known of; asks for what is missing.",
    ),
    Command("jobs.again", "a", "again", "Run again", "Fills the run bar with what this run was asked for."),
    Command(
        "jobs.details", "d", "details", "Details", "Shows everything about the run: metrics, outputs, plan, files."
    ),
)

LOG_VIEW = (
    Command("log.up", "up,k", "move(-1)", "Up", "Goes a row up; the log is no longer followed.", footer=False),
    Command("log.down", "down,j", "move(1)", "Down", "Goes a row down.", footer=False),
    Command("log.page_up", "pageup,ctrl+b,b", "page(-1)", "Page up", "Goes a page up.", footer=False),
    Command("log.page_down", "pagedown,ctrl+f,space", "page(1)", "Page down", "Goes a page down.", footer=False),
    Command("log.half_up", "ctrl+u", "page(-0.5)", "Half up", "Goes half a page up.", footer=False),
    Command("log.half_down", "ctrl+d", "page(0.5)", "Half down", "Goes half a page down.", footer=False),
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
    Command(
        "log.preparation",
        "o",
        "change_log",
        "Preparation",
        "Shows what was sent, fetched and built before the script began, or again what the script wrote.",
    ),
    Command(
        "log.rank",
        "r",
        "step_rank(1)",
        "Rank",
        "Shows what one process of torchrun wrote: rank 0, rank 1 and so on, then all of them together again.",
    ),
    Command("log.rank_back", "R", "step_rank(-1)", "Rank before", "The same, the other way around.", footer=False),
    Command(
        "log.edit",
        "e",
        "edit",
        "Own editor",
        "Opens a copy of the log, to be read, in $VISUAL or $EDITOR at the line in view.",
        footer=False,
    ),
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

RUN_BAR = (
    Command(
        "run_bar.leave", "escape", "leave", "Back", "Goes back to the pane that had the focus before.", footer=False
    ),
)

FIELD = (Command("field.open", "enter,space,down", "open", "Choose", "Opens the list of choices; type to narrow it."),)

CHOICES = (
    Command("choices.choose", "enter", "choose", "Choose", "Takes the row under the cursor."),
    Command("choices.leave", "escape", "leave", "Leave", "Leaves all as it was."),
)

ARGUMENTS = (
    Command("arguments.older", "up", "older", "Older", "Brings back the arguments of the run before."),
    Command("arguments.newer", "down", "newer", "Newer", "Goes forward again in the arguments of earlier runs."),
)

RUN_BUTTON = (Command("run_button.press", "enter,space", "press", "Run", "Starts the script."),)

MAIN_SCOPES = {
    "app": APP,
    "everywhere": EVERYWHERE,
    "list": LIST,
    "list filter": LIST_FILTER,
    "files": FILES,
    "targets": TARGETS,
    "changes": CHANGES,
    "log view": LOG_VIEW,
    "log": LOG,
    "log search": LOG_SEARCH,
    "jobs": JOBS,
    "run bar": RUN_BAR,
    "field": FIELD,
    "choices": CHOICES,
    "arguments": ARGUMENTS,
    "run button": RUN_BUTTON,
}
