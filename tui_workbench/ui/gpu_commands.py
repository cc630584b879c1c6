"""The commands about GPUs: a part of the registry."""

from __future__ import annotations

from tui_workbench.ui.command import Command

MONITOR = (
    Command(
        "gpus.open", "enter", "open", "To the run", "Goes to the run that is on the GPU, or that the process is of."
    ),
    Command(
        "gpus.filter", "slash", "filter", "Filter", "Shows the GPUs that hold what one types: a name, a run, busy."
    ),
    Command("gpus.copy", "y", "copy", "Copy", "Copies what is known of the GPU or the process under the cursor."),
    Command(
        "gpus.check", "t", "check", "Check", "Looks step by step why a machine's GPUs are not seen; asks for logins."
    ),
    Command("gpus.retry", "r", "retry", "Look again", "Tries at once to see the GPUs of a machine that is not seen."),
    Command("gpus.clear", "escape", "clear_filter", "All GPUs", "Ends the filter."),
)

TO_MONITOR = (
    Command(
        "view.gpus", "7", "gpu_monitor", "GPUs", "Shows the GPUs of all targets, live, and whose processes they run."
    ),
)

GPU_PANEL = (
    Command("gpu_panel.next", "m", "next_chart", "Next chart", "Shows utilisation, memory or power over time."),
)

GPU_SCOPES = {"gpus": MONITOR, "gpu panel": GPU_PANEL}
