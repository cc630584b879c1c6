"""The commands of the screens about runs that were: a part of the registry, which tells what a command is."""

from __future__ import annotations

from tui_workbench.ui.command import Command
from tui_workbench.ui.trace_commands import TO_TRACE_OF_RUN

CHART = (
    Command("chart.left", "left", "read_out(-1)", "Left", "Reads out the value before.", footer=False),
    Command("chart.right", "right", "read_out(1)", "Read out", "Reads out the next value."),
    Command("chart.far_left", "shift+left", "read_out(-10)", "Far left", "Goes ten columns left.", footer=False),
    Command("chart.far_right", "shift+right", "read_out(10)", "Far right", "Goes ten columns right.", footer=False),
    Command("chart.log", "l", "toggle_log", "Log", "Shows the values by orders of magnitude, or as they are."),
    Command("chart.smooth", "s", "smooth", "Smooth", "Smooths more, up to a point, then not at all."),
    Command("chart.by", "x", "toggle_by", "Step or time", "Shows the values by step, or by time."),
    Command("chart.in", "plus,i", "zoom(0.5)", "Closer", "Shows half of the x axis, around what is read out."),
    Command("chart.out", "minus,o", "zoom(2)", "Wider", "Shows twice as much of the x axis.", footer=False),
    Command("chart.all", "equals_sign", "show_all", "All", "Shows the whole x axis, and ends the read-out."),
)

TABLE = (
    Command("table.left", "left,h", "column(-1)", "Column left", "Goes a column left.", footer=False),
    Command("table.right", "right,l", "column(1)", "Column right", "Goes a column right.", footer=False),
)

HISTORY = (
    Command("history.help", "question_mark,f1", "help", "Help", "Explains this screen, with all its keys."),
    Command("history.palette", "ctrl+p", "palette", "Commands", "Finds any command of this screen by its name."),
    Command("history.next", "tab", "app.focus_next", "Next", "Goes on to the next part of the screen.", footer=False),
    Command("history.previous", "shift+tab", "app.focus_previous", "Previous", "Goes back a part.", footer=False),
    Command(
        "history.undo",
        "ctrl+z",
        "undo_step",
        "Undo",
        "Takes back what was done last: tags, note, pin, archive, restored files, a filter.",
        footer=False,
    ),
    Command("history.copy", "ctrl+c", "interrupt", "Copy", "Copies the selected text.", footer=False),
    Command("history.leave", "escape,q", "leave", "Back", "Goes back to where you were."),
)

DASHBOARD = (
    Command("dashboard.open", "enter", "open", "Details", "Shows everything about the run; closes or opens a group."),
    Command("dashboard.mark", "space", "mark", "Mark", "Marks the run for comparing and for the charts, or not."),
    Command(
        "dashboard.compare", "c", "compare", "Compare", "Compares the marked runs, or this one with the one below."
    ),
    Command(
        "dashboard.filter", "slash", "filter", "Filter", "Shows the runs that hold what one types: words, loss<0.1."
    ),
    Command(
        "dashboard.sort", "s", "sort", "Sort", "Sorts by the column under the cursor; again turns the order around."
    ),
    Command("dashboard.columns", "o", "columns", "Columns", "Chooses the columns, any metric among them."),
    Command("dashboard.group", "b", "group", "Group", "Groups by script, target, state or sweep, or not at all."),
    Command(
        "dashboard.charts", "m", "charts", "Charts", "Shows values by run, curves of the marked runs, or no charts."
    ),
    Command("dashboard.readme", "i", "readme", "Readme", "Shows the project's readme, or the table again."),
    Command("dashboard.archived", "v", "archived", "Archived", "Shows archived runs, too, or not.", footer=False),
    Command("dashboard.run", "ctrl+r", "run", "Run", "Runs what the run bar holds, and shows its log.", footer=False),
    Command("dashboard.run_bar", "0", "run_bar", "Run bar", "Goes to the run bar, to change it.", footer=False),
    Command("dashboard.gpus", "7", "gpu_monitor", "GPUs", "Shows the GPUs of all targets, live.", footer=False),
    Command("dashboard.unmark", "U", "unmark", "Unmark all", "Takes all marks away.", footer=False),
)

ONE_RUN = (
    Command(
        "one_run.again", "r", "rerun", "Rerun", "Runs it again as it was: the same files, arguments, configuration."
    ),
    Command("one_run.edit", "e", "rerun_edited", "Edit, rerun", "Runs it again with other arguments or configuration."),
    Command("one_run.restore", "u", "restore", "Restore", "Shows what puts the project back to the run's files."),
    Command("one_run.shell", "w", "shell", "Shell", "Opens a shell in the run's own copy of the project."),
    Command("one_run.tag", "t", "tag", "Tag", "Changes the tags of the run."),
    Command("one_run.note", "n", "note", "Note", "Changes the note about the run."),
    Command("one_run.pin", "p", "pin", "Pin", "Keeps the run at the top of the table, or not.", footer=False),
    Command("one_run.archive", "d", "archive", "Archive", "Takes the run out of the table, or back.", footer=False),
)

READER = (
    Command("reader.up", "up,k", "scroll(-0.1)", "Up", "Goes a line up.", footer=False),
    Command("reader.down", "down,j", "scroll(0.1)", "Down", "Goes a line down.", footer=False),
    Command("reader.page_up", "pageup,ctrl+b", "scroll(-1)", "Page up", "Goes a page up.", footer=False),
    Command("reader.page_down", "pagedown,ctrl+f,space", "scroll(1)", "Page down", "Goes a page down.", footer=False),
    Command("reader.first", "home,g", "end(False)", "First", "Goes to the first line.", footer=False),
    Command("reader.last", "end,G", "end(True)", "Last", "Goes to the last line.", footer=False),
)

FILE_PANEL = (
    Command("file_panel.open", "enter", "open", "Read", "Goes to the text of the file; folds or unfolds the folder."),
    Command("file_panel.back", "left,h", "back", "To files", "Goes back from the text to the files.", footer=False),
)

COLUMN_CHOICE = (
    Command("columns.tick", "enter", "tick", "Show", "Shows the column, or not."),
    Command("columns.up", "alt+up,ctrl+up", "shift(-1)", "Further left", "Moves the column to the left."),
    Command("columns.down", "alt+down,ctrl+down", "shift(1)", "Further right", "Moves the column to the right."),
    Command("columns.done", "escape", "done", "Done", "Shows the columns that are ticked."),
)

RESTORE = (
    Command("restore.go", "enter", "restore", "Restore", "Saves what is there and makes the files what they were."),
    Command("restore.undo", "ctrl+z", "undo", "Undo", "Brings back what was there before the last restore."),
)

RUN_EDIT = (
    Command("run_edit.go", "ctrl+r,ctrl+s", "go", "Run", "Runs it as it stands here."),
    Command("run_edit.leave", "escape", "leave", "Leave", "Runs nothing."),
    Command("run_edit.next", "tab", "app.focus_next", "Next", "Goes on to the next field.", footer=False),
    Command("run_edit.previous", "shift+tab", "app.focus_previous", "Previous", "Goes back a field.", footer=False),
)

METRICS = (
    Command("metrics.choose", "space", "choose", "Overlay", "Shows the metric in one chart with others, or not."),
)

RUN_DETAILS = (
    *TO_TRACE_OF_RUN,
    Command("details.promote", "y", "promote", "Promote", "Keeps the output as a version of an asset of the project."),
    Command("details.fetch", "f", "fetch", "Fetch", "Copies the output under the cursor to a folder."),
    Command("details.gpus", "", "gpu_monitor", "GPUs now", "Shows the GPUs of all targets, live.", footer=False),
    Command("details.next", "right_square_bracket", "tab(1)", "Next tab", "Goes to the next tab.", footer=False),
    Command(
        "details.previous", "left_square_bracket", "tab(-1)", "Tab before", "Goes to the tab before.", footer=False
    ),
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
)

COMPARE = (
    Command("compare.open", "enter", "open", "Difference", "Shows the difference line by line."),
    Command("compare.same", "f", "toggle_same", "Same, too", "Shows what is the same in all runs, or not."),
    Command("compare.filter", "slash", "filter", "Filter", "Leaves only the rows that hold all the words one types."),
    Command("compare.metric", "m", "metric(1)", "Next metric", "Shows the curves of the next metric that differs."),
    Command("compare.metric_back", "M", "metric(-1)", "Metric before", "Shows the curves before.", footer=False),
    Command("compare.gpus", "7", "gpu_monitor", "GPUs", "Shows the GPUs of all targets, live.", footer=False),
    Command("compare.base", "b", "base", "Base", "Compares all others with the run of this column.", footer=False),
)

HISTORY_SCOPES = {
    "chart": CHART,
    "table": TABLE,
    "history": HISTORY,
    "dashboard": DASHBOARD,
    "one run": ONE_RUN,
    "reader": READER,
    "file panel": FILE_PANEL,
    "column choice": COLUMN_CHOICE,
    "restore": RESTORE,
    "run edit": RUN_EDIT,
    "metrics": METRICS,
    "run details": RUN_DETAILS,
    "compare": COMPARE,
}
