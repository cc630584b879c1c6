"""The commands of dialogs and questions, and of the screens about runs, GPUs and calls."""

from __future__ import annotations

from tui_workbench.ui.commands.command import Command, Scope, quiet


# fmt: off
def _reading(prefix: str) -> tuple[Command, ...]:
    """The commands of every text to read; `prefix` is that of their ids."""
    return (
        quiet(f"{prefix}.up", "up,k", "scroll(-0.1)", "Up", "Goes a line up."),
        quiet(f"{prefix}.down", "down,j", "scroll(0.1)", "Down", "Goes a line down."),
        quiet(f"{prefix}.page_up", "pageup,ctrl+b", "scroll(-1)", "Page up", "Goes a page up."),
        quiet(f"{prefix}.page_down", "pagedown,ctrl+f,space", "scroll(1)", "Page down", "Goes a page down."),
        quiet(f"{prefix}.first", "home,g", "end(False)", "First", "Goes to the first line."),
        quiet(f"{prefix}.last", "end,G", "end(True)", "Last", "Goes to the last line."),
    )


HELP = Scope("help", "Help", (
    Command("help.close", "escape,question_mark,q,f1,enter", "close", "Close", "Goes back to where you were."),
    *_reading("help"),
))

JUMP = Scope("jump", "Jump mode", (
    Command("jump.leave", "escape", "leave", "Leave", "Goes nowhere."),
), about="The letter on a place goes there; any other key leaves.")

PALETTE = Scope("palette", "Palette", (
    Command("palette.close", "escape,ctrl+p", "close", "Close", "Goes back to where you were."),
))

CHANGE_VIEW = Scope("change", "A change of configuration files", (
    Command("change.apply", "enter", "apply", "Apply", "Makes the change; it is one step for undo."),
    Command("change.leave", "escape", "leave", "Leave", "Leaves everything as it is."),
    quiet("change.up", "up,shift+tab", "step(-1)", "Up", "Goes a row up."),
    quiet("change.down", "down,tab", "step(1)", "Down", "Goes a row down."),
    Command("change.tick", "space", "tick", "Take or leave", "Leaves the part out, or takes it in again."),
    Command("change.next", "right", "choose(1)", "Other", "Takes the next choice."),
    quiet("change.previous", "left", "choose(-1)", "Before", "Takes the choice before."),
))

MACHINE = Scope("machine", "Attaching and checking a machine", (
    Command("machine.go", "enter", "go", "Connect", "Logs in, and goes on with what was asked for."),
    Command("machine.yes", "y", "answer(True)", "Accept", "Accepts the host key, here and for good."),
    Command("machine.no", "n", "answer(False)", "Refuse", "Accepts nothing."),
    Command("machine.copy", "c", "copy", "Copy fix", "Copies the command that mends what is broken."),
    Command("machine.again", "r", "again", "Check again", "Asks every rung once more."),
    Command("machine.leave", "escape", "leave", "Leave", "Goes back to where you were."),
    quiet("machine.up", "up,shift+tab", "step(-1)", "Up", "Goes a row up."),
    quiet("machine.down", "down,tab", "step(1)", "Down", "Goes a row down."),
    Command("machine.next", "right,space", "choose(1)", "Other", "Takes the next choice."),
    quiet("machine.previous", "left", "choose(-1)", "Before", "Takes the choice before."),
))

MACHINE_RESULT = Scope("machine result", "When that is done", (
    quiet("machine.close", "enter,q", "close", "Close", "Goes back to where you were."),
))

PLAN = Scope("plan", "The plan of a run", (
    Command("plan.run", "enter,ctrl+r", "run", "Run", "Starts the run that is shown."),
    Command("plan.prepare", "P", "prepare", "Prepare", "Makes the environment, without a run."),
    Command("plan.copy", "c", "copy", "Copy", "Copies the plan as text."),
    Command("plan.leave", "escape,q,p", "leave", "Leave", "Goes back; nothing was changed."),
))

PREPARING = Scope("preparing", "An environment that is made", (
    Command("preparing.stop", "x", "stop", "Stop", "Stops making the environment."),
    Command("preparing.leave", "escape,q", "leave", "Leave", "Goes back; what is being made goes on."),
    quiet("preparing.close", "enter", "leave", "Go on", "Goes on with what needed the environment."),
))

SECRET = Scope("secret", "A secret that is asked for", (
    Command("secret.give", "enter", "give", "Give", "Uses the secret, and keeps it in the keyring if there is one."),
    Command("secret.leave", "escape", "leave", "Leave", "Gives no secret; what needed it is not done."),
))

QUESTION = Scope("question", "Questions", (
    Command("question.leave", "escape", "leave", "Cancel", "Closes the question; nothing changes."),
), about="Each answer has its key in the question.")

LINES = Scope("lines", "Lines of a plan", _reading("lines"))

CHART = Scope("chart", "Charts", (
    quiet("chart.left", "left", "read_out(-1)", "Left", "Reads out the value before."),
    Command("chart.right", "right", "read_out(1)", "Read out", "Reads out the next value."),
    quiet("chart.far_left", "shift+left", "read_out(-10)", "Far left", "Goes ten columns left."),
    quiet("chart.far_right", "shift+right", "read_out(10)", "Far right", "Goes ten columns right."),
    Command("chart.log", "l", "toggle_log", "Log", "Shows the values by orders of magnitude, or as they are."),
    Command("chart.smooth", "s", "smooth", "Smooth", "Smooths more, up to a point, then not at all."),
    Command("chart.by", "x", "toggle_by", "Step or time", "Shows the values by step, or by time."),
    Command("chart.in", "plus,i", "zoom(0.5)", "Closer", "Shows half of the x axis, around what is read out."),
    quiet("chart.out", "minus,o", "zoom(2)", "Wider", "Shows twice as much of the x axis."),
    Command("chart.all", "equals_sign", "show_all", "All", "Shows the whole x axis, and ends the read-out."),
))

TABLE = Scope("table", "Tables", (
    quiet("table.left", "left,h", "column(-1)", "Column left", "Goes a column left."),
    quiet("table.right", "right,l", "column(1)", "Column right", "Goes a column right."),
), about="As in lists, and:")

HISTORY = Scope("history", "Screens about runs", (
    Command("history.help", "question_mark,f1", "help", "Help", "Explains this screen, with all its keys."),
    Command("history.palette", "ctrl+p", "palette", "Commands", "Finds any command of this screen by its name."),
    quiet("history.next", "tab", "app.focus_next", "Next", "Goes on to the next part of the screen."),
    quiet("history.previous", "shift+tab", "app.focus_previous", "Previous", "Goes back a part."),
    quiet("history.undo", "ctrl+z", "undo_step", "Undo",
        "Takes back what was done last: tags, note, pin, archive, restored files, a filter."),
    quiet("history.copy", "ctrl+c", "interrupt", "Copy", "Copies the selected text."),
    Command("history.leave", "escape,q", "leave", "Back", "Goes back to where you were."),
), about="All runs, run details, the comparison and what they open.")

DASHBOARD = Scope("dashboard", "6 All runs", (
    Command("dashboard.open", "enter", "open", "Details", "Shows everything about the run; closes or opens a group."),
    Command("dashboard.mark", "space", "mark", "Mark", "Marks the run for comparing and for the charts, or not."),
    Command("dashboard.compare", "c", "compare", "Compare",
        "Compares the marked runs, or this one with the one below."),
    Command("dashboard.filter", "slash", "filter", "Filter",
        "Shows the runs that hold what one types: words, loss<0.1."),
    Command("dashboard.sort", "s", "sort", "Sort",
        "Sorts by the column under the cursor; again turns the order around."),
    Command("dashboard.columns", "o", "columns", "Columns", "Chooses the columns, any metric among them."),
    Command("dashboard.group", "b", "group", "Group", "Groups by script, target, state or sweep, or not at all."),
    Command("dashboard.charts", "m", "charts", "Charts",
        "Shows values by run, curves of the marked runs, or no charts."),
    Command("dashboard.readme", "i", "readme", "Readme", "Shows the project's readme, or the table again."),
    quiet("dashboard.archived", "v", "archived", "Archived", "Shows archived runs, too, or not."),
    quiet("dashboard.run", "ctrl+r", "run", "Run", "Runs what the run bar holds, and shows its log."),
    quiet("dashboard.run_bar", "0", "run_bar", "Run bar", "Goes to the run bar, to change it."),
    quiet("dashboard.gpus", "7", "gpu_monitor", "GPUs", "Shows the GPUs of all targets, live."),
    quiet("dashboard.unmark", "U", "unmark", "Unmark all", "Takes all marks away."),
))

ONE_RUN = Scope("one run", "One run", (
    Command("one_run.again", "r", "rerun", "Rerun",
        "Runs it again as it was: the same files, arguments, configuration."),
    Command("one_run.edit", "e", "rerun_edited", "Edit, rerun", "Runs it again with other arguments or configuration."),
    Command("one_run.restore", "u", "restore", "Restore", "Shows what puts the project back to the run's files."),
    Command("one_run.shell", "w", "shell", "Shell", "Opens a shell in the run's own copy of the project."),
    Command("one_run.tag", "t", "tag", "Tag", "Changes the tags of the run."),
    Command("one_run.note", "n", "note", "Note", "Changes the note about the run."),
    quiet("one_run.pin", "p", "pin", "Pin", "Keeps the run at the top of the table, or not."),
    quiet("one_run.archive", "d", "archive", "Archive", "Takes the run out of the table, or back."),
), about="In All runs, the run under the cursor; in run details, the run.")

READER = Scope("reader", "Texts to read", _reading("reader"))

FILE_PANEL = Scope("file panel", "Files of a run", (
    Command("file_panel.open", "enter", "open", "Read", "Goes to the text of the file; folds or unfolds the folder."),
    quiet("file_panel.back", "left,h", "back", "To files", "Goes back from the text to the files."),
), about="Outputs and snapshot, in run details.")

COLUMN_CHOICE = Scope("column choice", "Choice of columns", (
    Command("columns.tick", "enter", "tick", "Show", "Shows the column, or not."),
    Command("columns.up", "alt+up,ctrl+up", "shift(-1)", "Further left", "Moves the column to the left."),
    Command("columns.down", "alt+down,ctrl+down", "shift(1)", "Further right", "Moves the column to the right."),
    Command("columns.done", "escape", "done", "Done", "Shows the columns that are ticked."),
))

RESTORE = Scope("restore", "Restoring the files of a run", (
    Command("restore.go", "enter", "restore", "Restore", "Saves what is there and makes the files what they were."),
    Command("restore.undo", "ctrl+z", "undo", "Undo", "Brings back what was there before the last restore."),
))

RUN_EDIT = Scope("run edit", "Running again with changes", (
    Command("run_edit.go", "ctrl+r,ctrl+s", "go", "Run", "Runs it as it stands here."),
    Command("run_edit.leave", "escape", "leave", "Leave", "Runs nothing."),
    quiet("run_edit.next", "tab", "app.focus_next", "Next", "Goes on to the next field."),
    quiet("run_edit.previous", "shift+tab", "app.focus_previous", "Previous", "Goes back a field."),
))

METRICS = Scope("metrics", "Metrics of a run", (
    Command("metrics.choose", "space", "choose", "Overlay", "Shows the metric in one chart with others, or not."),
))

RUN_DETAILS = Scope("run details", "Run details", (
    quiet("details.calls", "8", "calls", "Calls", "Shows what was called for the run, with its results."),
    Command("details.promote", "y", "promote", "Promote", "Keeps the output as a version of an asset of the project."),
    Command("details.fetch", "f", "fetch", "Fetch", "Copies the output under the cursor to a folder."),
    Command("details.bring", "b", "bring", "To project",
        "Copies the output under the cursor to its place in the project; a file that it replaces is saved."),
    quiet("details.gpus", "", "gpu_monitor", "GPUs now", "Shows the GPUs of all targets, live."),
    quiet("details.next", "right_square_bracket", "tab(1)", "Next tab", "Goes to the next tab."),
    quiet("details.previous", "left_square_bracket", "tab(-1)", "Tab before", "Goes to the tab before."),
    *(
        Command(f"details.{name}", str(number), f"show_tab('{name}')", title, f"Shows {what}.", footer=False)
        for number, (name, title, what) in enumerate(
            (
                ("metrics", "Metrics", "what the run has logged"),
                ("outputs", "Outputs", "the files that the run has made"),
                ("log", "Log", "what the run has written"),
                ("plan", "Plan", "the steps of the run with their times"),
                ("snapshot", "Snapshot", "the project's files as they were"),
                ("environment", "Environment", "what the run was made with"),
                ("gpu", "GPU", "what is known of the GPU"),
            ),
            1,
        )
    ),
))

COMPARE = Scope("compare", "Comparison", (
    Command("compare.open", "enter", "open", "Difference", "Shows the difference line by line."),
    Command("compare.same", "f", "toggle_same", "Same, too", "Shows what is the same in all runs, or not."),
    Command("compare.filter", "slash", "filter", "Filter", "Leaves only the rows that hold all the words one types."),
    Command("compare.metric", "m", "metric(1)", "Next metric", "Shows the curves of the next metric that differs."),
    quiet("compare.metric_back", "M", "metric(-1)", "Metric before", "Shows the curves before."),
    quiet("compare.gpus", "7", "gpu_monitor", "GPUs", "Shows the GPUs of all targets, live."),
    quiet("compare.base", "b", "base", "Base", "Compares all others with the run of this column."),
))

MONITOR = Scope("gpus", "7 GPUs", (
    Command("gpus.open", "enter", "open", "To the run",
        "Goes to the run that is on the GPU, or that the process is of."),
    Command("gpus.filter", "slash", "filter", "Filter",
        "Shows the GPUs that hold what one types: a name, a run, busy."),
    Command("gpus.copy", "y", "copy", "Copy", "Copies what is known of the GPU or the process under the cursor."),
    Command("gpus.check", "t", "check", "Check",
        "Looks step by step why a machine's GPUs are not seen; asks for logins."),
    Command("gpus.retry", "r", "retry", "Look again", "Tries at once to see the GPUs of a machine that is not seen."),
    Command("gpus.clear", "escape", "clear_filter", "All GPUs", "Ends the filter."),
))

GPU_PANEL = Scope("gpu panel", "GPUs beside the runs", (
    Command("gpu_panel.next", "m", "next_chart", "Next chart", "Shows utilisation, memory or power over time."),
))

TRACE = Scope("calls", "8 Calls", (
    Command("trace.copy", "y", "copy", "Copy", "Copies the call as a line for a shell that does the same."),
    Command("trace.filter", "slash", "filter", "Filter", "Shows the calls that hold what one types: words, kind:ssh."),
    Command("trace.failed", "f", "failed", "Failed", "Shows only the calls that failed, or all."),
    Command("trace.whose", "a", "whose", "Run or all",
        "Shows what was called for the selected run alone, or for everything."),
    quiet("trace.read", "enter", "read", "Read", "Goes to the call as a whole, and back."),
))
# fmt: on
