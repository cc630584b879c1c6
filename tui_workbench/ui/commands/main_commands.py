"""The commands of the main screen.

Footer, `?` help, palette, the user's keymap and the key reference are views of the tables here, in `editor_commands`
and in `screen_commands`; `registry` has them all. A command belongs to a scope, which is the widget that executes it:
the widget's `BINDINGS` are those of the scope, its `check_action` says whether the command is available, its `why_not`
says why it is not. Names stand in the footer (at most two words); helps are one sentence. Keys are in Textual's names;
a command without keys is in the palette only. Single letters are never priority keys: they are text where text is
typed. A binding that is not in the registry does not exist.
"""

from __future__ import annotations

from tui_workbench.ui.commands.command import Command, Scope, quiet

# fmt: off
EVERYWHERE = Scope("everywhere", "Main screen", (
    Command("run.start", "ctrl+r", "run", "Run", "Starts the script of the run bar; saves edited files first."),
    Command("help.show", "question_mark,f1", "help", "Help",
        "Explains the pane that has the focus, with all its keys."),
    Command("palette.open", "ctrl+p", "palette", "Commands", "Finds any command by its name."),
    Command("view.zoom", "z", "zoom", "Zoom", "Gives the pane that has the focus the whole screen, and back."),
    quiet("run.plan", "p", "plan", "Plan", "Shows what the run would do, send and build, before it does."),
    quiet("run.prepare", "P", "prepare", "Prepare", "Makes the environment of the run, without a run."),
    quiet("pane.files", "1", "focus_pane('files')", "Files", "Goes to the files of the project."),
    quiet("pane.targets", "2", "focus_pane('targets')", "Targets", "Goes to the compute targets."),
    quiet("pane.editor", "3", "focus_pane('editor')", "Editor", "Goes to the editor."),
    quiet("pane.log", "4", "focus_pane('log')", "Log", "Goes to the log of the selected run."),
    quiet("pane.jobs", "5", "focus_pane('jobs')", "Jobs", "Goes to the list of runs."),
    quiet("pane.run_bar", "0", "focus_pane('run-bar')", "Run bar", "Goes to the run bar."),
    quiet("pane.next", "tab", "app.focus_next", "Next pane", "Goes on to the next pane or field."),
    quiet("pane.previous", "shift+tab", "app.focus_previous", "Previous pane", "Goes back a pane or field."),
    quiet("run.arguments", "minus", "focus_arguments", "Arguments", "Goes to the arguments of the run."),
    quiet("changes.undo", "ctrl+z", "undo_change", "Undo",
        "Takes back what was done last: a change of configuration files, an annotation, a filter, the theme."),
    quiet("shell.open", "exclamation_mark", "shell", "Shell",
        "Opens a shell in the project, with the Python of the chosen run configuration and az ml."),
    Command("view.history", "6", "history", "All runs", "Shows every run of the project, with charts and tables."),
    Command("view.gpus", "7", "gpu_monitor", "GPUs",
        "Shows the GPUs of all targets, live, and whose processes they run."),
    Command("view.trace", "8", "trace", "Calls", "Shows every call of ssh, docker, git and programs, with its result."),
    quiet("view.border_left", "less_than_sign", "move_border('x', -1)", "Border left",
        "Moves the border beside the pane's column to the left. Borders can be dragged with the mouse, too."),
    quiet("view.border_right", "greater_than_sign", "move_border('x', 1)", "Border right",
        "Moves the border beside the pane's column to the right."),
    quiet("view.border_up", "left_curly_bracket", "move_border('y', -1)", "Border up",
        "Moves the border between the panes of the column up."),
    quiet("view.border_down", "right_curly_bracket", "move_border('y', 1)", "Border down",
        "Moves the border between the panes of the column down."),
    quiet("view.borders_back", "equals_sign", "borders_back", "Usual sizes",
        "Gives all panes the sizes that they have at first."),
    quiet("view.redraw", "ctrl+l", "redraw", "Draw again",
        "Writes all of what is shown again, when something else has written into it."),
    quiet("view.theme", "", "change_theme", "Theme", "Chooses other colours, with a preview."),
    quiet("text.copy", "ctrl+c", "interrupt", "Copy", "Copies the selected text."),
    Command("quit", "q", "quit", "Quit", "Leaves the workbench. Runs go on."),
), about="Everywhere on it, unless a text is being typed.")

APP = Scope("app", "On every screen", (
    quiet("view.jump", "ctrl+g", "jump", "Jump",
        "Shows a letter on each pane, tab, field and link; the letter goes there.", priority=True),
    quiet("quit.anywhere", "ctrl+q", "quit", "Quit", "Leaves the workbench. Runs go on.", priority=True),
))

LIST = Scope("list", "Lists", (
    quiet("list.up", "up,k", "step(-1)", "Up", "Moves a row up."),
    quiet("list.down", "down,j", "step(1)", "Down", "Moves a row down."),
    quiet("list.page_up", "pageup,ctrl+b", "page(-1)", "Page up", "Moves a page up."),
    quiet("list.page_down", "pagedown,ctrl+f", "page(1)", "Page down", "Moves a page down."),
    quiet("list.first", "home,g", "end(False)", "First", "Moves to the first row."),
    quiet("list.last", "end,G", "end(True)", "Last", "Moves to the last row."),
), about="Files, targets, runs, choices and all other lists.")

LIST_FILTER = Scope("list filter", "The filter of a list", (
    quiet("list.filter", "slash", "filter", "Filter", "Leaves only the rows that hold all the words one types."),
    Command("list.keep_filter", "enter", "keep_filter", "Done", "Goes back to the rows that are left."),
    Command("list.clear_filter", "escape", "clear_filter", "All rows", "Ends the filter; / and enter bring it back."),
), about="Targets, runs, a run's files and metrics, plans and texts to read.")

FILES = Scope("files", "1 Files", (
    Command("files.open", "enter", "open", "Open", "Opens the file in the editor, or opens and closes the folder."),
    quiet("files.expand", "right,l", "expand", "Expand", "Opens the folder; then goes to its first file."),
    quiet("files.collapse", "left,h", "collapse", "Collapse", "Closes the folder, or goes to the one above."),
    Command("files.search", "slash", "search", "Search", "Finds files of the whole project by parts of their path."),
    Command("files.refresh", "r", "refresh_files", "Refresh",
        "Reads the folders again. They are also looked at every second."),
    Command("files.run", "s", "use_script", "Use as script", "Puts the file into the run bar as the script to run."),
    quiet("files.edit", "e", "edit", "Own editor", "Opens the file in $VISUAL or $EDITOR."),
    Command("files.clear", "escape", "clear_search", "All files", "Ends the search."),
))

TARGETS = Scope("targets", "2 Compute targets", (
    Command("targets.open", "enter", "open", "Open",
        "Opens the .compute file in the editor, at its error if it has one."),
    quiet("targets.edit", "e", "edit", "Own editor", "Opens the .compute file in $VISUAL or $EDITOR."),
    Command("targets.use", "u", "use", "Run here", "Chooses a run configuration of this target in the run bar."),
    Command("targets.attach", "a", "attach", "Attach", "Makes a machine over SSH, or Docker here, a compute target."),
    quiet("targets.detach", "x", "detach", "Detach",
        "Takes the target, its run configuration and its secrets away; undo brings them back."),
    Command("targets.check", "t", "check", "Check",
        "Looks whether the target can be used, and what mends it if it cannot."),
))

CHANGES = Scope("changes", "Configuration files", (
    Command("changes.gpu_ready", "m", "change_file('gpu-ready')", "GPU-ready",
        "Shows all that its runs need to use the GPU, to apply."),
    Command("changes.new_target", "n", "new_file('new-target')", "New target", "Makes a new compute target."),
    quiet("changes.new_configuration", "N", "new_file('new-configuration')", "New runconfig",
        "Makes a new run configuration, of the target under the cursor if there is one."),
    quiet("changes.duplicate", "c", "change_file('duplicate')", "Duplicate", "Copies the file under another name."),
    quiet("changes.rename", "f2", "change_file('rename')", "Rename",
        "Gives the file another name; run configurations that name it follow."),
    quiet("changes.delete", "d,delete", "change_file('delete')", "Delete",
        "Puts the file into the trash, from where undo brings it back."),
), about="In Files and in Compute targets.")

JOBS = Scope("jobs", "5 Jobs", (
    Command("jobs.log", "enter", "show_log", "Log", "Goes to the log of the run."),
    Command("jobs.cancel", "x", "cancel", "Cancel", "Ends the run and all its processes, after asking once."),
    Command("jobs.reconnect", "r", "reconnect", "Reconnect",
        "Reconnect to the run's machine now. Of an ended run, fetch the files that are not here yet."),
    Command("jobs.again", "a", "again", "Run again", "Fills the run bar with what this run was asked for."),
    Command("jobs.details", "d", "details", "Details",
        "Shows everything about the run: metrics, outputs, plan, files."),
))

LOG_VIEW = Scope("log view", "Logs", (
    quiet("log.up", "up,k", "move(-1)", "Up", "Goes a row up; the log is no longer followed."),
    quiet("log.down", "down,j", "move(1)", "Down", "Goes a row down."),
    quiet("log.page_up", "pageup,ctrl+b,b", "page(-1)", "Page up", "Goes a page up."),
    quiet("log.page_down", "pagedown,ctrl+f,space", "page(1)", "Page down", "Goes a page down."),
    quiet("log.half_up", "ctrl+u", "page(-0.5)", "Half up", "Goes half a page up."),
    quiet("log.half_down", "ctrl+d", "page(0.5)", "Half down", "Goes half a page down."),
    quiet("log.left", "left,h", "pan(-1)", "Left", "Shows what is further left in long lines."),
    quiet("log.right", "right,l", "pan(1)", "Right", "Shows what is further right in long lines."),
    quiet("log.start", "home,g", "go_to_start", "Start", "Goes to the first line."),
    Command("log.follow", "G,end", "follow", "Follow", "Goes to the last line, and on with it while the run writes."),
    quiet("log.wrap", "w", "toggle_wrap", "Wrap", "Breaks long lines into rows, or shows them in one."),
    quiet("log.numbers", "number_sign", "toggle_numbers", "Numbers", "Shows the numbers of the lines."),
    quiet("log.copy", "y", "copy_line", "Copy",
        "Copies the selected text, or the chosen line, or the last one in view."),
), about="In Log, in run details, and where an environment is made.")

LOG = Scope("log", "4 Log", (
    Command("log.search", "slash", "search", "Search", "Finds text, or what matches an expression, as one types."),
    Command("log.next", "n", "step(1)", "Next", "Goes to the next line that matches."),
    Command("log.previous", "N", "step(-1)", "Previous", "Goes to the line before that matches."),
    Command("log.clear", "escape", "clear_search", "End search", "Ends the search; the log stays where it is."),
    Command("log.preparation", "o", "change_log", "Preparation",
        "Shows what was sent, fetched and built before the script began, or again what the script wrote."),
    Command("log.rank", "r", "step_rank(1)", "Rank",
        "Shows what one process of torchrun wrote: rank 0, rank 1 and so on, then all of them together again."),
    quiet("log.rank_back", "R", "step_rank(-1)", "Rank before", "The same, the other way around."),
    quiet("log.edit", "e", "edit", "Own editor",
        "Opens a copy of the log, to be read, in $VISUAL or $EDITOR at the line in view."),
    Command("log.traceback", "t", "show_traceback", "Traceback", "Goes to the last Python traceback of the log."),
))

LOG_SEARCH = Scope("log search", "Search in a log", (
    Command("log_search.keep", "enter", "keep", "Stay here",
        "Goes to the log at the match; n and N find further ones."),
    Command("log_search.next", "down,f3", "step(1)", "Next", "Goes to the next line that matches."),
    Command("log_search.previous", "up,shift+f3", "step(-1)", "Previous", "Goes to the line before that matches."),
    Command("log_search.mode", "alt+r,f4", "toggle_mode", "Expression",
        "Takes the text as a regular expression, or not."),
    Command("log_search.cancel", "escape", "cancel", "Cancel", "Ends the search and goes back to where it began."),
))

RUN_BAR = Scope("run bar", "0 Run bar", (
    quiet("run_bar.leave", "escape", "leave", "Back", "Goes back to the pane that had the focus before."),
))

FIELD = Scope("field", "Fields with choices", (
    Command("field.open", "enter,space,down", "open", "Choose", "Opens the list of choices; type to narrow it."),
))

CHOICES = Scope("choices", "An open list of choices", (
    Command("choices.choose", "enter", "choose", "Choose", "Takes the row under the cursor."),
    Command("choices.leave", "escape", "leave", "Leave", "Leaves all as it was."),
))

ARGUMENTS = Scope("arguments", "Arguments of the run", (
    Command("arguments.older", "up", "older", "Older", "Brings back the arguments of the run before."),
    Command("arguments.newer", "down", "newer", "Newer", "Goes forward again in the arguments of earlier runs."),
))

RUN_BUTTON = Scope("run button", "The button", (
    Command("run_button.press", "enter,space", "press", "Run", "Starts the script."),
))

RECENT = Scope("runs at the side", "6 All runs", (
    Command("recent.open", "enter", "open", "Details", "Shows everything about the run."),
), about="In terminals of 180 columns and more, beside the other panes.")
# fmt: on
