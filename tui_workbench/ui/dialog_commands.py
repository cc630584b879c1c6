"""The commands of what stands over a screen for a while, and of questions: a part of the registry."""

from __future__ import annotations

from tui_workbench.ui.command import Command

HELP = (
    Command("help.close", "escape,question_mark,q,f1,enter", "close", "Close", "Goes back to where you were."),
    Command("help.up", "up,k", "scroll(-0.1)", "Up", "Goes a line up.", footer=False),
    Command("help.down", "down,j", "scroll(0.1)", "Down", "Goes a line down.", footer=False),
    Command("help.page_up", "pageup,ctrl+b", "scroll(-1)", "Page up", "Goes a page up.", footer=False),
    Command("help.page_down", "pagedown,ctrl+f,space", "scroll(1)", "Page down", "Goes a page down.", footer=False),
    Command("help.first", "home,g", "end(False)", "First", "Goes to the first line.", footer=False),
    Command("help.last", "end,G", "end(True)", "Last", "Goes to the last line.", footer=False),
)

JUMP = (Command("jump.leave", "escape", "leave", "Leave", "Goes nowhere."),)

PALETTE = (Command("palette.close", "escape,ctrl+p", "close", "Close", "Goes back to where you were."),)

CHANGE_VIEW = (
    Command("change.apply", "enter", "apply", "Apply", "Makes the change; it is one step for undo."),
    Command("change.leave", "escape", "leave", "Leave", "Leaves everything as it is."),
    Command("change.up", "up,shift+tab", "step(-1)", "Up", "Goes a row up.", footer=False),
    Command("change.down", "down,tab", "step(1)", "Down", "Goes a row down.", footer=False),
    Command("change.tick", "space", "tick", "Take or leave", "Leaves the part out, or takes it in again."),
    Command("change.next", "right", "choose(1)", "Other", "Takes the next choice."),
    Command("change.previous", "left", "choose(-1)", "Before", "Takes the choice before.", footer=False),
)

MACHINE = (
    Command("machine.go", "enter", "go", "Connect", "Logs in, and goes on with what was asked for."),
    Command("machine.yes", "y", "answer(True)", "Accept", "Accepts the host key, here and for good."),
    Command("machine.no", "n", "answer(False)", "Refuse", "Accepts nothing."),
    Command("machine.copy", "c", "copy", "Copy fix", "Copies the command that mends what is broken."),
    Command("machine.again", "r", "again", "Check again", "Asks every rung once more."),
    Command("machine.leave", "escape", "leave", "Leave", "Goes back to where you were."),
    Command("machine.up", "up,shift+tab", "step(-1)", "Up", "Goes a row up.", footer=False),
    Command("machine.down", "down,tab", "step(1)", "Down", "Goes a row down.", footer=False),
    Command("machine.next", "right,space", "choose(1)", "Other", "Takes the next choice."),
    Command("machine.previous", "left", "choose(-1)", "Before", "Takes the choice before.", footer=False),
)

MACHINE_RESULT = (Command("machine.close", "enter,q", "close", "Close", "Goes back to where you were.", footer=False),)

PLAN = (
    Command("plan.run", "enter,ctrl+r", "run", "Run", "Starts the run that is shown."),
    Command("plan.prepare", "P", "prepare", "Prepare", "Makes the environment, without a run."),
    Command("plan.copy", "c", "copy", "Copy", "Copies the plan as text."),
    Command("plan.leave", "escape,q,p", "leave", "Leave", "Goes back; nothing was changed."),
)

PREPARING = (
    Command("preparing.stop", "x", "stop", "Stop", "Stops making the environment."),
    Command("preparing.leave", "escape,q", "leave", "Leave", "Goes back; what is being made goes on."),
    Command("preparing.close", "enter", "leave", "Go on", "Goes on with what needed the environment.", footer=False),
)

SECRET = (
    Command("secret.give", "enter", "give", "Give", "Uses the secret, and keeps it in the keyring if there is one."),
    Command("secret.leave", "escape", "leave", "Leave", "Gives no secret; what needed it is not done."),
)

QUESTION = (Command("question.leave", "escape", "leave", "Decide later", "Answers nothing; all stays as it is."),)

LINES = (
    Command("lines.up", "up,k", "move(-1)", "Up", "Goes a line up.", footer=False),
    Command("lines.down", "down,j", "move(1)", "Down", "Goes a line down.", footer=False),
    Command("lines.page_up", "pageup,ctrl+b", "page(-1)", "Page up", "Goes a page up.", footer=False),
    Command("lines.page_down", "pagedown,ctrl+f,space", "page(1)", "Page down", "Goes a page down.", footer=False),
    Command("lines.first", "home,g", "scroll_home", "Start", "Goes to the first line.", footer=False),
    Command("lines.last", "end,G", "scroll_end", "End", "Goes to the last line.", footer=False),
)

DIALOG_SCOPES = {
    "help": HELP,
    "jump": JUMP,
    "palette": PALETTE,
    "change": CHANGE_VIEW,
    "machine": MACHINE,
    "machine result": MACHINE_RESULT,
    "plan": PLAN,
    "preparing": PREPARING,
    "secret": SECRET,
    "question": QUESTION,
    "lines": LINES,
}
