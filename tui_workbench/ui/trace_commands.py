"""The commands about the trace of calls: a part of the registry."""

from __future__ import annotations

from tui_workbench.ui.command import Command

TRACE = (
    Command("trace.copy", "y", "copy", "Copy", "Copies the call as a line for a shell that does the same."),
    Command("trace.filter", "slash", "filter", "Filter", "Shows the calls that hold what one types: words, kind:ssh."),
    Command("trace.failed", "f", "failed", "Failed", "Shows only the calls that failed, or all."),
    Command(
        "trace.whose",
        "a",
        "whose",
        "Run or all",
        "Shows what was called for the selected run alone, or for everything.",
    ),
    Command("trace.read", "enter", "read", "Read", "Goes to the call as a whole, and back.", footer=False),
)

TO_TRACE = (
    Command("view.trace", "8", "trace", "Calls", "Shows every call of ssh, docker, git and programs, with its result."),
)

TO_TRACE_OF_RUN = (
    Command(
        "details.calls", "8", "calls", "Calls", "Shows what was called for the run, with its results.", footer=False
    ),
)

TRACE_SCOPES = {"calls": TRACE}
