"""The base of full screens: notice, help, palette, undo and closing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from textual import on, work
from textual.app import ComposeResult
from textual.message import Message
from textual.screen import Screen
from textual.widget import Widget

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.progress import Progress
from tui_workbench.projects.project import Project
from tui_workbench.ui.blocking import ask
from tui_workbench.ui.commands.available_commands import (
    CommandState,
    ExplainsUnavailable,
    command_states,
    is_in_palette,
    is_ours,
    without_duplicates,
)
from tui_workbench.ui.commands.command import shown_key
from tui_workbench.ui.commands.screen_commands import HISTORY
from tui_workbench.ui.dialogs.help import HelpScreen, help_sections
from tui_workbench.ui.dialogs.palette import choose_command
from tui_workbench.ui.messages import BackendFailed, StatusPosted
from tui_workbench.ui.terminal.textual_internals import install_compositor
from tui_workbench.ui.undo import undo_steps
from tui_workbench.ui.widgets.field_row import FilterRow, PromptRow
from tui_workbench.ui.widgets.footer import KeyFooter
from tui_workbench.ui.widgets.line import TitleLine
from tui_workbench.ui.widgets.notice import Notice
from tui_workbench.ui.widgets.progress_line import SHOW_AFTER_SECONDS
from tui_workbench.ui.widgets.question_row import Question, QuestionRow, yes_no

Answer = TypeVar("Answer")


class FullScreen(ExplainsUnavailable, Screen[None], inherit_bindings=False):
    """The base class of full screens other than the main screen."""

    BINDINGS = HISTORY.bindings
    DEFAULT_CSS = """
    FullScreen { layout: vertical; background: $background; }
    FullScreen > Notice { height: auto; max-height: 50%; display: none; }
    FullScreen > Notice.-said { display: block; }
    """
    heading = ""
    about = ""

    def __init__(self) -> None:
        super().__init__()
        install_compositor(self)
        self.content: tuple[Widget, ...] = ()  # the widgets between the title and the notice
        self.filter_row: FilterRow | None = None
        self.notice = Notice(id="said")

    def compose(self) -> ComposeResult:
        if self.heading:
            self.head = TitleLine(self.heading, self.subject)
            yield self.head
        yield from self.content
        yield self.notice
        yield KeyFooter()

    @property
    def subject(self) -> str:
        """The untrusted text after the heading."""
        return ""

    def say(self, text: str) -> None:
        self.notice.say(text)

    def show_error(self, error: WorkbenchError) -> None:
        file = f" ({error.file})" if error.file and error.file not in error.message else ""
        self.notice.say(f"{error.message.removesuffix('.')}{file}. {error.remedy}".rstrip(), wrong=True)

    def on_status_posted(self, event: StatusPosted) -> None:
        event.stop()
        self.say(event.text)

    def on_backend_failed(self, event: BackendFailed) -> None:
        event.stop()
        self.show_error(event.error)

    def on_notice_changed(self, event: Notice.Changed) -> None:
        event.stop()
        has_text = bool(self.notice.text)
        self.notice.set_class(has_text, "-said")
        self.notice.styles.height = len(self.notice.lines(self.size.width)) if has_text else 0

    def show_progress(self, progress: Progress) -> None:
        """Show the progress of a call in the notice, unless the call is short."""
        if self.is_attached and progress.seconds >= SHOW_AFTER_SECONDS:
            self.say(progress.summary)

    def ask(self, subject: str, call: Callable[[], Answer], then: Callable[[Answer], object]) -> None:
        """Run `call` in a thread. Pass its result to `then`, unless a newer call with the same `subject` was made."""
        ask(self, subject, call, then, self.show_progress)

    def post_to_main(self, message: Message) -> None:
        main = self.app.screen_stack[0]
        while self.app.screen is not main:
            self.app.pop_screen()
        main.post_message(message)

    def action_help(self) -> None:
        self.app.push_screen(HelpScreen(help_sections(self)))

    async def action_palette(self) -> None:
        await choose_command(self.app, self.all_commands(), self.say)

    def all_commands(self) -> list[CommandState]:
        """Return all commands of the palette, those nearest to the focus first."""
        nodes: list[Widget] = [node for node in self.walk_children() if is_ours(node) and node.display]  # type: ignore[misc]
        within = [self.focused, *self.focused.ancestors] if self.focused is not None else []
        nodes.sort(key=lambda node: node not in within)
        states = (state for node in (*nodes, self, self.app) for state in command_states(node))
        return without_duplicates(state for state in states if is_in_palette(state.command))

    @work(group="undo")
    async def action_undo_step(self) -> None:
        try:
            self.say(f"Undone: {await undo_steps(self.app).undo()}.")
        except WorkbenchError as error:
            self.show_error(error)

    def action_interrupt(self) -> None:
        if text := self.get_selected_text():
            self.app.copy_to_clipboard(text)
        else:
            quit_key, back_key = shown_key("quit.anywhere", "ctrl+q"), shown_key("history.leave", "esc")
            self.say(f"{quit_key} quits the workbench; {back_key} goes back.")

    def action_filter(self) -> None:
        if self.filter_row is not None:
            self.filter_row.open()

    @property
    def open_question(self) -> PromptRow | QuestionRow | None:
        """The open question, which has lost the focus if the user went to another part of the screen."""
        prompts = (row for row in self.query(PromptRow) if row.display)
        return next(prompts, None) or next(iter(self.query(QuestionRow)), None)

    def action_leave(self) -> None:
        if (question := self.open_question) is not None:
            question.action_leave()
        elif self.filter_row is not None and self.filter_row.display:
            self.filter_row.clear()
        else:
            self.dismiss()

    def why_not(self, action: str) -> str:
        if action == "leave" and isinstance(self.focused, QuestionRow):
            return "Answer the question first."
        if action == "undo_step" and not undo_steps(self.app).title:
            return "Nothing to undo."
        return ""


class HistoryScreen(FullScreen, inherit_bindings=False):
    """The base class of screens that cover the main screen, such as the comparison and the GPU monitor."""

    BINDINGS = HISTORY.bindings

    def __init__(self, project: Project) -> None:
        super().__init__()
        self.project = project
        self.question: QuestionRow | None = None
        self._before_question: Widget | None = None
        self._confirmed: Callable[[], object] = lambda: None

    @property
    def subject(self) -> str:
        return f"of {self.project.name}"

    def confirm(self, text: str, then: Callable[[], object], *, needs_letter: bool = True) -> None:
        """Ask a question with safe text, and call `then` if the user answers yes.

        `needs_letter` excludes the enter key, which may be meant for the table if the question appears late.
        """
        self._end_question()
        self.say("")
        self._before_question, self._confirmed = self.focused, then
        self.question = QuestionRow(Question(text, yes_no("yes"), needs_letter))
        self.mount(self.question, before=self.notice)
        self.set_focus(self.question)
        self.refresh_bindings()

    @on(QuestionRow.Answered)
    def _answered(self, event: QuestionRow.Answered) -> None:
        event.stop()
        self._end_question()
        if event.answer:
            self._confirmed()

    def _end_question(self) -> None:
        if self.question is not None:
            question, self.question = self.question, None
            if question.has_focus:
                self.set_focus(self._before_question)
            question.remove()
            self.refresh_bindings()
