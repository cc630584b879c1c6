"""The commands of dialogs, of questions, and of the screens of runs, GPUs and calls."""

from __future__ import annotations

from tui_workbench.ui.commands.command import Command, Scope, quiet


# fmt: off
def _reading(prefix: str) -> tuple[Command, ...]:
    """Return the commands that scroll a text. Their IDs begin with `prefix`."""
    return (
        quiet(f"{prefix}.up", "up,k", "scroll(-0.1)", "Up", "Scroll up a line."),
        quiet(f"{prefix}.down", "down,j", "scroll(0.1)", "Down", "Scroll down a line."),
        quiet(f"{prefix}.page_up", "pageup,ctrl+b", "scroll(-1)", "Page up", "Scroll up a page."),
        quiet(f"{prefix}.page_down", "pagedown,ctrl+f,space", "scroll(1)", "Page down", "Scroll down a page."),
        quiet(f"{prefix}.first", "home,g", "end(False)", "First", "Go to the first line."),
        quiet(f"{prefix}.last", "end,G", "end(True)", "Last", "Go to the last line."),
    )


HELP = Scope("help", "Help", (
    Command("help.close", "escape,question_mark,q,f1,enter", "close", "Close", "Close the help."),
    *_reading("help"),
))

JUMP = Scope("jump", "Jump mode", (
    Command("jump.leave", "escape", "leave", "Cancel", "Leave jump mode."),
), about="Type a label to go to its place. Any other key leaves jump mode.")

PALETTE = Scope("palette", "Palette", (
    Command("palette.choose", "enter", "choose", "Choose", "Choose the selected row."),
    Command("palette.close", "escape,ctrl+p", "close", "Close", "Close the palette."),
))

CHANGE_VIEW = Scope("change", "Changes to configuration files", (
    Command("change.apply", "enter", "apply", "Apply", "Apply the change. Undo reverts it in one step."),
    Command("change.leave", "escape", "leave", "Cancel", "Close without changing anything."),
    quiet("change.up", "up,shift+tab", "step(-1)", "Up", "Move up a row."),
    quiet("change.down", "down,tab", "step(1)", "Down", "Move down a row."),
    Command("change.tick", "space", "tick", "Include", "Include or exclude this part of the change."),
    Command("change.next", "right", "choose(1)", "Next choice", "Select the next choice."),
    quiet("change.previous", "left", "choose(-1)", "Previous choice", "Select the previous choice."),
))

MACHINE = Scope("machine", "Attaching, checking and preparing a machine", (
    Command("machine.go", "enter", "go", "Connect", "Submit the fields and connect."),
    Command("machine.yes", "y", "answer(True)", "Yes", "Accept the host key, or run the commands."),
    Command("machine.no", "n", "answer(False)", "No", "Reject the host key, or run no command."),
    Command("machine.copy", "c", "copy", "Copy fix", "Copy the commands that fix the problem."),
    Command("machine.again", "r", "again", "Check again", "Repeat all checks."),
    Command("machine.leave", "escape", "leave", "Back",
        "Return to the previous screen. If a question is open, answer it with no."),
    quiet("machine.up", "up,shift+tab", "step(-1)", "Up", "Move up a row."),
    quiet("machine.down", "down,tab", "step(1)", "Down", "Move down a row."),
    Command("machine.next", "right,space", "choose(1)", "Next choice", "Select the next choice."),
    quiet("machine.previous", "left", "choose(-1)", "Previous choice", "Select the previous choice."),
))

MACHINE_RESULT = Scope("machine result", "Result of attaching, checking or preparing", (
    quiet("machine.close", "enter,q", "close", "Close", "Return to the previous screen."),
))

PLAN = Scope("plan", "The plan of a run", (
    Command("plan.run", "enter,ctrl+r", "run", "Run", "Start this run."),
    Command("plan.prepare", "P", "prepare", "Prepare", "Build the environment in advance."),
    Command("plan.copy", "c", "copy", "Copy", "Copy the plan as text."),
    Command("plan.leave", "escape,q,p", "leave", "Back", "Return without starting the run."),
))

PREPARING = Scope("preparing", "Building an environment", (
    Command("preparing.stop", "x", "stop", "Stop", "Stop building the environment."),
    Command("preparing.leave", "escape,q", "leave", "Back",
        "Return to the previous screen. The build continues, but a waiting run does not start."),
    quiet("preparing.close", "enter", "leave", "Close", "Return to the previous screen, as escape does."),
))

SECRET = Scope("secret", "Entering a secret", (
    Command("secret.give", "enter", "give", "Submit",
        "Submit the secret. After the login, it is stored in the keyring, if there is one."),
    Command("secret.leave", "escape", "leave", "Cancel", "Cancel the operation that needs the secret."),
))

QUESTION = Scope("question", "Questions", (
    Command("question.leave", "escape", "leave", "Cancel", "Close the question without an answer."),
), about="The question shows the key of each answer.")

LINES = Scope("lines", "Lines of a plan or cluster", _reading("lines"))

CHART = Scope("chart", "Charts", (
    quiet("chart.left", "left", "read_out(-1)", "Previous value", "Move the cursor to the previous value."),
    Command("chart.right", "right", "read_out(1)", "Next value", "Move the cursor to the next value."),
    quiet("chart.far_left", "shift+left", "read_out(-10)", "Far left", "Move the cursor ten columns left."),
    quiet("chart.far_right", "shift+right", "read_out(10)", "Far right", "Move the cursor ten columns right."),
    Command("chart.log", "l", "toggle_log", "Log scale", "Toggle the logarithmic scale."),
    Command("chart.smooth", "s", "smooth", "Smooth", "Increase smoothing. After the strongest level, turn it off."),
    Command("chart.by", "x", "toggle_by", "X axis", "Show values by step or by time."),
    Command("chart.in", "plus,i", "zoom(0.5)", "Zoom in",
        "Halve the visible x range. The middle of the new range is at the cursor, if any."),
    quiet("chart.out", "minus,o", "zoom(2)", "Zoom out", "Double the visible x range."),
    Command("chart.all", "equals_sign", "show_all", "Reset zoom", "Show the whole x axis and hide the cursor."),
))

TABLE = Scope("table", "Tables", (
    quiet("table.left", "left,h", "column(-1)", "Column left", "Move the cursor a column left."),
    quiet("table.right", "right,l", "column(1)", "Column right", "Move the cursor a column right."),
), about="Tables also have the commands of lists.")

HISTORY = Scope("history", "Full screens", (
    Command("history.help", "question_mark,f1", "help", "Help", "Explain this screen and its keys."),
    Command("history.palette", "ctrl+p", "palette", "Commands", "Find a command of this screen by its name."),
    quiet("history.next", "tab", "app.focus_next", "Next", "Go to the next part of the screen."),
    quiet("history.previous", "shift+tab", "app.focus_previous", "Previous", "Go to the previous part of the screen."),
    quiet("history.undo", "ctrl+z", "undo_step", "Undo",
        "Undo the last change. This applies to tags, notes, pins, archived and deleted runs, restored files, filters "
        "and the theme."),
    quiet("history.copy", "ctrl+c", "interrupt", "Copy", "Copy the selected text."),
    Command("history.leave", "escape,q", "leave", "Back",
        "Return to the previous screen. An open question or filter is closed first."),
), about="Available on the screens that cover the main screen, such as All runs, GPUs, Calls and Ports.")

START = Scope("start", "Projects", (
    Command("start.open", "enter", "open", "Open", "Open the project, or create one from a template."),
    Command("start.folder", "o", "open_folder", "Open folder", "Open any folder as a project."),
    Command("start.clone", "c", "clone", "Clone", "Clone a git repository into a new folder and open it."),
    Command("start.stop", "x", "stop", "Stop", "Stop the clone and remove its files."),
), about="Leaving this screen stops a clone.")

START_ALONE = Scope("start alone", "Projects, outside of a project", (
    Command("start.leave", "escape", "leave", "Cancel", "Close the open question."),
    Command("start.quit", "q", "app.quit", "Quit", "Quit the workbench. Runs continue."),
))

DASHBOARD = Scope("dashboard", "6 All runs", (
    Command("dashboard.open", "enter", "open", "Details", "Show the run's details, or toggle the group."),
    Command("dashboard.mark", "space", "mark", "Mark", "Mark or unmark the run or family for comparison."),
    Command("dashboard.compare", "c", "compare", "Compare",
        "Compare marked runs or two families. With one mark, compare the marked row with the selected row; without "
        "marks, the selected row with the next row."),
    Command("dashboard.filter", "slash", "filter", "Filter", "Filter runs by words and conditions such as loss<0.1."),
    Command("dashboard.sort", "s", "sort", "Sort", "Sort by the selected column. Repeat to reverse the order."),
    Command("dashboard.columns", "o", "columns", "Columns", "Choose the columns, including metrics."),
    Command("dashboard.group", "b", "group", "Group",
        "Group by script, target, state, sweep or family. Repeat for the next grouping."),
    Command("dashboard.charts", "m", "charts", "Charts", "Show one value per run, curves, or no charts."),
    Command("dashboard.readme", "i", "readme", "Readme", "Show the project's readme."),
    quiet("dashboard.archived", "v", "archived", "Archived", "Show or hide archived runs."),
    quiet("dashboard.run", "ctrl+r", "run", "Run", "Return to the main screen and run the script."),
    quiet("dashboard.run_bar", "0", "run_bar", "Run bar", "Go to the run bar."),
    quiet("dashboard.gpus", "7", "gpu_monitor", "GPUs", "Monitor the GPUs of all targets."),
    quiet("dashboard.unmark", "U", "unmark", "Unmark all", "Remove all marks."),
))

ONE_RUN = Scope("one run", "One run", (
    Command("one_run.again", "r", "rerun", "Rerun",
        "Run again with the same files and configuration. An untracked run uses the current project files."),
    quiet("one_run.start_again", "a", "start_again", "Start again",
        "Start a failed, canceled or lost run again."),
    Command("one_run.edit", "e", "rerun_edited", "Edit and rerun", "Run again with other arguments or configuration."),
    Command("one_run.restore", "u", "restore", "Restore", "Restore the run's project files, after a preview."),
    Command("one_run.shell", "w", "shell", "Shell", "Open a shell in the project files of the run."),
    Command("one_run.tag", "t", "tag", "Tag", "Edit the tags of the run. If runs are marked, add tags to all of them."),
    Command("one_run.note", "n", "note", "Note", "Edit the note about the run."),
    quiet("one_run.pin", "p", "pin", "Pin", "Pin or unpin the run at the top of the table."),
    quiet("one_run.archive", "d", "archive", "Archive", "Archive or unarchive the run."),
    quiet("one_run.cancel", "x", "cancel", "Cancel", "Cancel the run."),
    quiet("one_run.delete", "D", "delete", "Delete", "Move the run to the trash. Undo restores it."),
    quiet("one_run.download", "F", "download", "Download all", "Copy all files of the run to a folder."),
    quiet("one_run.export", "X", "export", "Export", "Export the run as CSV or for MLflow."),
), about="Available in All runs and in run details. Tag, Pin and the commands after Pin apply to all marked runs.")

READER = Scope("reader", "Text views", _reading("reader"))

FILE_PANEL = Scope("file panel", "Files of a run", (
    Command("file_panel.open", "enter", "open", "Read", "Read the file; expand or collapse the folder."),
    Command("file_panel.view", "ctrl+t", "change_view", "View", "Switch between cells and text of a notebook."),
    quiet("file_panel.back", "left,h", "back", "File list", "Return to the list of files."),
), about="Available in run details, in the tabs Outputs and Snapshot.")

COLUMN_CHOICE = Scope("column choice", "Column list", (
    Command("columns.tick", "enter", "tick", "Show", "Show or hide the column."),
    Command("columns.up", "alt+up,ctrl+up", "shift(-1)", "Move left", "Move the column left."),
    Command("columns.down", "alt+down,ctrl+down", "shift(1)", "Move right", "Move the column right."),
    Command("columns.done", "escape", "done", "Done", "Close the list and show the selected columns."),
))

RESTORE = Scope("restore", "Restoring files of a run", (
    Command("restore.go", "enter", "restore", "Restore", "Restore the run's files. The current files are saved first."),
    Command("restore.undo", "ctrl+z", "undo", "Undo", "Undo the last restore."),
))

RUN_EDIT = Scope("run edit", "Rerun with changes, and sweep", (
    Command("run_edit.go", "ctrl+r,ctrl+s", "go", "Run", "Run with these values."),
    Command("run_edit.leave", "escape", "leave", "Cancel", "Close without starting a run."),
    quiet("run_edit.next", "tab,down", "app.focus_next", "Next", "Go to the next field."),
    quiet("run_edit.previous", "shift+tab,up", "app.focus_previous", "Previous", "Go to the previous field."),
))

METRICS = Scope("metrics", "Metrics of a run", (
    Command("metrics.choose", "space", "choose", "Overlay", "Add the metric to the shared chart, or remove it."),
))

RUN_DETAILS = Scope("run details", "Run details", (
    quiet("details.calls", "8", "calls", "Calls", "Show this run's calls to external programs."),
    Command("details.fetch", "f", "fetch", "Download", "Copy the selected output to a folder."),
    Command("details.bring", "b", "bring", "To project",
        "Copy the selected output into the project. A replaced file is saved first."),
    Command("details.promote", "y", "promote", "Promote", "Save the output as a version of a project asset."),
    quiet("details.gpus", "", "gpu_monitor", "Live GPUs", "Monitor the GPUs of all targets."),
    quiet("details.next", "right_square_bracket", "tab(1)", "Next tab", "Go to the next tab."),
    quiet("details.previous", "left_square_bracket", "tab(-1)", "Previous tab", "Go to the previous tab."),
    quiet("details.metrics", "1", "show_tab('metrics')", "Metrics", "Show the metrics of the run."),
    quiet("details.outputs", "2", "show_tab('outputs')", "Outputs", "Show the output files of the run."),
    quiet("details.log", "3", "show_tab('log')", "Log", "Show the log of the run."),
    quiet("details.plan", "4", "show_tab('plan')", "Plan", "Show the steps of the run with their times."),
    quiet("details.snapshot", "5", "show_tab('snapshot')", "Snapshot", "Show the project files that the run used."),
    quiet("details.environment", "6", "show_tab('environment')", "Environment", "Show Python, packages and image."),
    quiet("details.gpu", "7", "show_tab('gpu')", "GPU", "Show how the run used the GPUs."),
    quiet("details.spark", "9", "show_tab('spark')", "Spark", "Show the stages and failed tasks of a Spark run."),
))

COMPARE = Scope("compare", "Comparison", (
    Command("compare.open", "enter", "open", "Show diff", "Show the difference line by line."),
    Command("compare.same", "f", "toggle_same", "Equal rows", "Show or hide rows that are equal in all runs."),
    Command("compare.filter", "slash", "filter", "Filter", "Show only rows that contain all typed words."),
    Command("compare.metric", "m", "metric(1)", "Next metric", "Show the curves of the next metric."),
    quiet("compare.metric_back", "M", "metric(-1)", "Previous metric", "Show the curves of the previous metric."),
    quiet("compare.gpus", "7", "gpu_monitor", "GPUs", "Monitor the GPUs of all targets."),
    quiet("compare.base", "b", "base", "Base", "Compare the other runs with the run in this column."),
))

MONITOR = Scope("gpus", "7 GPUs", (
    Command("gpus.open", "enter", "open", "Open run", "Open the run of this GPU or process."),
    Command("gpus.filter", "slash", "filter", "Filter", 'Filter GPUs by words, such as a user name or "busy".'),
    Command("gpus.copy", "y", "copy", "Copy", "Copy the data of the selected row."),
    Command("gpus.check", "t", "check", "Diagnose", "Find out why GPUs are missing. You may be asked to log in."),
    Command("gpus.retry", "r", "retry", "Retry", "Connect to an unreachable or new machine now."),
    Command("gpus.reserve", "e", "reserve", "Reserve", "Reserve this GPU, or extend its reservation."),
    Command("gpus.release", "x", "release", "Release", "End your reservation of the selected GPU."),
    Command("gpus.clear", "escape", "clear_filter", "Clear filter", "Show all GPUs again."),
))

GPU_PANEL = Scope("gpu panel", "GPU panel", (
    Command("gpu_panel.next", "m", "next_chart", "Next chart", "Switch between utilization, memory and power."),
))

TRACE = Scope("calls", "8 Calls", (
    Command("trace.copy", "y", "copy", "Copy", "Copy the call as a shell command."),
    Command("trace.filter", "slash", "filter", "Filter", "Filter calls by words or conditions such as kind:ssh."),
    Command("trace.failed", "f", "failed", "Failed", "Show only failed calls, or all calls."),
    Command("trace.whose", "a", "toggle_run", "Run/all", "Show only calls of the selected run, or all calls."),
    quiet("trace.read", "enter", "read", "Read", "Show the whole call, or return to the list."),
))

PORTS = Scope("ports", "9 Ports", (
    Command("ports.close", "x", "close", "Close", "Close the selected port. This also ends TensorBoard or Jupyter."),
    Command("ports.copy", "y", "copy", "Copy", "Copy the address of the selected port."),
    Command("ports.tensorboard", "t", "open('tensorboard')", "TensorBoard", "Start TensorBoard for the selected run."),
    Command("ports.jupyter", "n", "open('jupyter')", "Jupyter", "Start Jupyter for the selected run."),
    Command("ports.port", "p", "open_port", "Port", "Forward a port of the run's machine or container."),
    Command("ports.notebook", "N", "notebook", "Notebook", "Start Jupyter on the files of the project."),
))

TRASH = Scope("trash", "Trash", (
    Command("trash.restore", "enter", "restore", "Restore", "Move the selected run back to the history."),
    Command("trash.purge", "x", "purge", "Purge", "Delete the run permanently, after a confirmation."),
    Command("trash.purge_all", "X", "purge_all", "Purge all", "Delete all runs permanently, after a confirmation."),
))

NOTIFICATIONS = Scope("notifications", "Notifications", (
    Command("notifications.add", "a", "add", "Add", "Add e-mail, ntfy, Slack or another service."),
    Command("notifications.test", "t", "test", "Test", "Send a test message to the selected channel."),
    Command("notifications.remove", "x", "remove", "Remove", "Remove the selected channel, after a confirmation."),
))

CHANNEL = Scope("channel", "Adding a channel", (
    Command("channel.add", "enter", "add", "Add", "Add the channel. Its URL is stored in the keyring."),
    Command("channel.leave", "escape", "leave", "Cancel", "Close without adding a channel."),
    quiet("channel.up", "up,shift+tab", "step(-1)", "Up", "Move up a row."),
    quiet("channel.down", "down,tab", "step(1)", "Down", "Move down a row."),
    Command("channel.next", "right,space", "choose(1)", "Next choice", "Select the next choice."),
    quiet("channel.previous", "left", "choose(-1)", "Previous choice", "Select the previous choice."),
))

CLOUD_INIT = Scope("cloud-init", "cloud-init", (
    Command("cloud_init.key", "a", "add_key", "Add key", "Add your public SSH key, so that you can log in."),
    Command("cloud_init.copy", "y", "copy_text", "Copy", "Copy the file."),
))

APPROVALS = Scope("approvals", "Approvals", (
    Command("approvals.approve", "a", "approve", "Approve", "Start the run of the selected request."),
    Command("approvals.deny", "d", "deny", "Deny", "Deny the selected request. You can give the agent a reason."),
    quiet("approvals.read", "enter", "read", "Read", "Scroll the plan, or return to the list."),
))
# fmt: on
