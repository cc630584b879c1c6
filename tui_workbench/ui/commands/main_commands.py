"""The commands of the main screen.

The tables here, in `editor_commands` and in `screen_commands` feed the footer, `?` help, palette, keymap and key
reference; `registry` joins them. A command belongs to the scope of the widget that executes it. The widget's `why_not`
returns the reason why the command is unavailable, or "" (`ExplainsUnavailable`).

A name has at most three words. A help text is imperative; its first sentence fits into a palette row at 80 columns.
Keys have Textual's names; a command without keys is in the palette only. Single letters are never priority keys,
because they are text in text fields.
"""

from __future__ import annotations

from tui_workbench.ui.commands.command import Command, Scope, quiet

# fmt: off
EVERYWHERE = Scope("everywhere", "Main screen", (
    Command("run.start", "ctrl+r", "run", "Run", "Run the selected script. Edited files are saved first."),
    Command("help.show", "question_mark,f1", "help", "Help", "Explain the focused pane and its keys."),
    Command("palette.open", "ctrl+p", "palette", "Commands", "Find a command by its name."),
    Command("view.zoom", "z", "zoom", "Zoom", "Maximize or restore the focused pane."),
    quiet("run.plan", "p", "plan", "Plan", "Show the steps without starting the run."),
    quiet("run.prepare", "P", "prepare", "Prepare", "Build the environment in advance."),
    quiet("run.sweep", "S", "sweep", "Sweep",
        "Run the script with several values or seeds. This starts a run for each combination."),
    quiet("pane.files", "1", "focus_pane('files')", "Files", "Go to the project's files."),
    quiet("pane.targets", "2", "focus_pane('targets')", "Targets", "Go to the compute targets."),
    quiet("pane.editor", "3", "focus_pane('editor')", "Editor", "Go to the editor."),
    quiet("pane.log", "4", "focus_pane('log')", "Log", "Go to the log of the selected run."),
    quiet("pane.jobs", "5", "focus_pane('jobs')", "Jobs", "Go to the list of runs."),
    quiet("pane.run_bar", "0", "focus_pane('run-bar')", "Run bar", "Go to the run bar."),
    quiet("pane.next", "tab", "app.focus_next", "Next pane", "Go to the next pane or field."),
    quiet("pane.previous", "shift+tab", "app.focus_previous", "Previous pane", "Go to the previous pane or field."),
    quiet("run.arguments", "minus", "focus_arguments", "Arguments", "Edit the arguments of the run."),
    quiet("changes.undo", "ctrl+z", "undo_change", "Undo",
        "Undo the last change. This applies to configuration files, tags, notes, pins, archived and deleted runs, "
        "restored files, filters and the theme."),
    quiet("shell.open", "exclamation_mark", "shell", "Shell",
        "Open a shell in the project. `az ml` works in this shell. The Python of a local target is first on the PATH."),
    Command("view.history", "6", "history", "All runs", "Show all runs with charts and tables."),
    Command("view.gpus", "7", "gpu_monitor", "GPUs", "Monitor the GPUs of all targets."),
    Command("view.trace", "8", "trace", "Calls", "Show the calls to external programs."),
    quiet("view.ports", "9", "ports", "Ports", "Open TensorBoard, Jupyter or a port."),
    quiet("view.approvals", "A", "approvals", "Approvals", "Approve or deny runs of coding agents."),
    quiet("view.trash", "", "trash", "Trash", "Restore or purge deleted runs. A purge frees disk space."),
    quiet("view.notifications", "", "notifications", "Notifications", "Add, test and remove channels."),
    quiet("view.notebook", "", "notebook", "Notebook", "Start Jupyter on the project. Ports lists and closes it."),
    quiet("view.cloud_init", "", "cloud_init", "cloud-init",
        "Show the cloud-init file for a new machine. It prepares the machine at its first boot."),
    quiet("view.projects", "O", "projects", "Projects", "Open, create or clone a project."),
    quiet("view.border_left", "less_than_sign", "move_border('x', -1)", "Move border left",
        "Move the pane's side border left. You can also drag borders with the mouse."),
    quiet("view.border_right", "greater_than_sign", "move_border('x', 1)", "Move border right",
        "Move the pane's side border right."),
    quiet("view.border_up", "left_curly_bracket", "move_border('y', -1)", "Move border up",
        "Move the border between stacked panes up."),
    quiet("view.border_down", "right_curly_bracket", "move_border('y', 1)", "Move border down",
        "Move the border between stacked panes down."),
    quiet("view.borders_back", "equals_sign", "borders_back", "Reset layout", "Restore the default pane sizes."),
    quiet("view.theme", "", "change_theme", "Theme", "Choose a color theme, with a preview."),
    quiet("text.copy", "ctrl+c", "interrupt", "Copy", "Copy the selected text."),
    Command("quit", "q", "quit", "Quit", "Quit the workbench. Runs continue."),
), about="Available everywhere on the main screen. While you type, letters, digits and signs are text, not commands.")

APP = Scope("app", "On every screen", (
    quiet("view.jump", "ctrl+g", "jump", "Jump",
        "Label each pane, tab and field. Type a label to go to its place.", priority=True),
    quiet("view.redraw", "ctrl+l", "redraw", "Redraw",
        "Redraw the whole screen. Use it after another program has written to the terminal.", priority=True),
    quiet("quit.anywhere", "ctrl+q", "quit", "Quit", "Quit the workbench. Runs continue.", priority=True),
))

LIST = Scope("list", "Lists", (
    quiet("list.up", "up,k", "step(-1)", "Up", "Move up a row."),
    quiet("list.down", "down,j", "step(1)", "Down", "Move down a row."),
    quiet("list.page_up", "pageup,ctrl+b", "page(-1)", "Page up", "Move up a page."),
    quiet("list.page_down", "pagedown,ctrl+f", "page(1)", "Page down", "Move down a page."),
    quiet("list.first", "home,g", "end(False)", "First", "Go to the first row."),
    quiet("list.last", "end,G", "end(True)", "Last", "Go to the last row."),
), about="Available in all lists, such as files, targets, runs and choices.")

LIST_FILTER = Scope("list filter", "The filter of a list", (
    quiet("list.filter", "slash", "filter", "Filter", "Show only rows that contain all typed words."),
    Command("list.keep_filter", "enter", "keep_filter", "Done", "Return to the filtered rows."),
    Command("list.clear_filter", "escape", "clear_filter", "Clear filter",
        "Show all rows again. The Filter command restores the filter."),
), about="Available in targets, runs, a run's files and metrics, plans and text views.")

FILES = Scope("files", "1 Files", (
    Command("files.open", "enter", "open", "Open", "Edit the file, or toggle the folder."),
    quiet("files.expand", "right,l", "expand", "Expand", "Expand the folder, or go to its first entry."),
    quiet("files.collapse", "left,h", "collapse", "Collapse", "Collapse the folder, or go to its parent."),
    Command("files.search", "slash", "search", "Search", "Find project files by parts of their paths."),
    Command("files.refresh", "r", "refresh_files", "Refresh",
        "Read the folders again now. The workbench also checks them every second."),
    Command("files.run", "s", "use_script", "Use as script", "Select the file as the script to run."),
    quiet("files.edit", "e", "edit", "External editor", "Open the file in $VISUAL or $EDITOR."),
    Command("files.clear", "escape", "clear_search", "Clear search", "Show all files again."),
))

TARGETS = Scope("targets", "2 Compute targets", (
    Command("targets.open", "enter", "open", "Open",
        "Edit the .compute file. The cursor starts at the first error, if any."),
    quiet("targets.edit", "e", "edit", "External editor", "Open the file in $VISUAL or $EDITOR."),
    Command("targets.use", "u", "use", "Use target",
        "Use the target for the next run. The run bar selects its first valid run configuration."),
    Command("targets.attach", "a", "attach", "Attach", "Attach a machine, a cluster or local Docker."),
    quiet("targets.detach", "x", "detach", "Detach",
        "Remove the target. This also removes its secrets and the run configuration of the same name. Undo restores "
        "them all."),
    Command("targets.check", "t", "check", "Check", "Check the target and suggest fixes."),
    quiet("targets.prepare", "i", "prepare_machine", "Install",
        "Install the driver, Docker or Python. The commands for the machine are shown first."),
))

CHANGES = Scope("changes", "Configuration files", (
    Command("changes.gpu_ready", "m", "change_file('gpu-ready')", "Make GPU-ready",
        "Configure runs to use the GPU."),
    Command("changes.new_target", "n", "new_file('new-target')", "New target", "Create a compute target."),
    quiet("changes.new_configuration", "N", "new_file('new-configuration')", "New runconfig",
        "Create a run configuration. By default, it uses the selected target."),
    quiet("changes.duplicate", "c", "change_file('duplicate')", "Duplicate", "Copy the file under a new name."),
    quiet("changes.rename", "f2", "change_file('rename')", "Rename",
        "Rename the file. Run configurations that refer to it are updated."),
    quiet("changes.delete", "d,delete", "change_file('delete')", "Delete",
        "Move the file to the trash. Undo restores it."),
), about="Available in Files and in Compute targets.")

JOBS = Scope("jobs", "5 Jobs", (
    Command("jobs.log", "enter", "show_log", "Log", "Go to the log of the run."),
    Command("jobs.cancel", "x", "cancel", "Cancel", "Cancel the run, after a confirmation."),
    Command("jobs.reconnect", "r", "reconnect", "Reconnect",
        "Reconnect to the run's machine now. If the run has ended, fetch its missing files."),
    Command("jobs.again", "a", "again", "Reuse", "Fill the run bar with this run's values."),
    quiet("jobs.stacks", "s", "show_stacks", "Show stacks",
        "Show the Python stacks of all processes. They are shown below the end of the log."),
    Command("jobs.details", "d", "details", "Details", "Show metrics, outputs, plan and files."),
))

LOG_VIEW = Scope("log view", "Logs", (
    quiet("log.up", "up,k", "move(-1)", "Up", "Move up a row and stop following."),
    quiet("log.down", "down,j", "move(1)", "Down", "Move down a row."),
    quiet("log.page_up", "pageup,ctrl+b,b", "page(-1)", "Page up", "Move up a page."),
    quiet("log.page_down", "pagedown,ctrl+f,space", "page(1)", "Page down", "Move down a page."),
    quiet("log.half_up", "ctrl+u", "page(-0.5)", "Half page up", "Move up half a page."),
    quiet("log.half_down", "ctrl+d", "page(0.5)", "Half page down", "Move down half a page."),
    quiet("log.left", "left,h", "pan(-1)", "Left", "Scroll long lines left."),
    quiet("log.right", "right,l", "pan(1)", "Right", "Scroll long lines right."),
    quiet("log.start", "home,g", "go_to_start", "Start", "Go to the first line."),
    Command("log.follow", "G,end", "follow", "Follow", "Go to the last line and follow new output."),
    quiet("log.wrap", "w", "toggle_wrap", "Wrap", "Wrap or cut long lines."),
    quiet("log.numbers", "number_sign", "toggle_numbers", "Numbers", "Show or hide line numbers."),
    quiet("log.copy", "y", "copy_line", "Copy",
        "Copy the selection or the marked line. If no visible line is marked, copy the last visible line."),
), about="Available in Log, in run details, and while an environment is built.")

LOG = Scope("log", "4 Log", (
    Command("log.search", "slash", "search", "Search", "Find text or a regular expression."),
    Command("log.next", "n", "step(1)", "Next", "Go to the next match."),
    Command("log.previous", "N", "step(-1)", "Previous", "Go to the previous match."),
    Command("log.clear", "escape", "clear_search", "End search", "End the search; keep the position."),
    Command("log.preparation", "o", "change_log", "Setup log",
        "Switch between setup log and script output. The setup log shows transfers and builds."),
    Command("log.rank", "r", "step_rank(1)", "Next rank",
        "Show only the next torchrun rank. After the last rank, show all ranks together."),
    quiet("log.rank_back", "R", "step_rank(-1)", "Previous rank", "Show only the previous torchrun rank."),
    Command("log.node", "m", "step_node(1)", "Next node",
        "Show only the ranks on the next node. After the last node, show all nodes together."),
    quiet("log.node_back", "M", "step_node(-1)", "Previous node", "Show only the ranks on the previous node."),
    quiet("log.edit", "e", "edit", "External editor",
        "Open the log in $VISUAL or $EDITOR. The editor gets a copy."),
    Command("log.traceback", "t", "show_traceback", "Traceback", "Go to the last Python traceback."),
    Command("log.stacks", "s", "show_stacks", "Show stacks",
        "Show the Python stacks of all processes. The script is not paused."),
))

STACKS = Scope("stacks", "Python stacks", (
    Command("stacks.again", "s", "read_again", "Read again", "Read the Python stacks again."),
    Command("stacks.close", "escape", "close_stacks", "Close", "Close the Python stacks."),
), about="Shown below the end of the log.")

LOG_SEARCH = Scope("log search", "Search in a log", (
    Command("log_search.keep", "enter", "keep", "Go to match",
        "Go to the match in the log. Next and Previous go to the other matches."),
    Command("log_search.next", "down,f3", "step(1)", "Next", "Go to the next match."),
    Command("log_search.previous", "up,shift+f3", "step(-1)", "Previous", "Go to the previous match."),
    Command("log_search.mode", "alt+r,f4", "toggle_mode", "Regex",
        "Toggle regular expressions. Their syntax is that of RE2."),
    Command("log_search.cancel", "escape", "cancel", "Cancel",
        "End the search. This restores the old position, unless you have stepped to another match."),
))

RUN_BAR = Scope("run bar", "0 Run bar", (
    quiet("run_bar.leave", "escape", "leave", "Back", "Return to the previously focused pane."),
))

FIELD = Scope("field", "Fields with choices", (
    Command("field.open", "enter,space,down", "open", "Choose", "Open the list of choices. Type to filter it."),
))

CHOICES = Scope("choices", "An open list of choices", (
    Command("choices.choose", "enter", "choose", "Choose", "Choose the selected row."),
    Command("choices.leave", "escape", "leave", "Cancel", "Close the list without choosing."),
))

ARGUMENTS = Scope("arguments", "Arguments of the run", (
    Command("arguments.older", "up", "older", "Older", "Show the arguments of the next older run."),
    Command("arguments.newer", "down", "newer", "Newer", "Show the arguments of the next newer run."),
))

RUN_BUTTON = Scope("run button", "The Run button", (
    Command("run_button.press", "enter,space", "press", "Run", "Run the script."),
))

RECENT = Scope("runs at the side", "6 All runs", (
    Command("recent.open", "enter", "open", "Details", "Show metrics, outputs, plan and files."),
), about="Shown beside the other panes in terminals with at least 180 columns and 22 lines.")
# fmt: on
