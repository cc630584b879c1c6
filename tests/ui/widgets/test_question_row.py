"""The keys and the layout of a question."""

from __future__ import annotations

import pytest
from textual.app import App, ComposeResult

from tests.ui.seen import lines_of
from tests.ui.waiting import until
from tui_workbench.ui.themes.themes import load_theme
from tui_workbench.ui.widgets.question_row import Choice, Question, QuestionRow, yes_no

TEXT = "The environment of docker is not made, and PrepareEnvironment is false in docker.runconfig. Prepare it?"
CHOICES = (
    Choice("s", "save and leave", "save"),
    Choice("d", "discard the edits", "discard"),
    Choice("esc", "cancel", ""),
)


class QuestionApp(App[None]):
    def __init__(self, question: Question) -> None:
        super().__init__()
        theme = load_theme("slate")
        self.register_theme(theme)
        self.theme = theme.name
        self.row = QuestionRow(question, focus_key="ctrl+r")
        self.answers: list[str] = []

    def compose(self) -> ComposeResult:
        yield self.row

    def on_question_row_answered(self, event: QuestionRow.Answered) -> None:
        self.answers.append(event.answer)


@pytest.mark.parametrize(("key", "answer"), [("y", "go"), ("enter", "go"), ("n", ""), ("escape", "")])
async def test_keys_of_yes_and_no(key: str, answer: str) -> None:
    app = QuestionApp(Question("Go?", yes_no("go")))
    async with app.run_test() as pilot:
        app.row.focus()
        await pilot.press(key)
        await until(lambda: app.answers == [answer])


@pytest.mark.parametrize(
    "question", [Question("Trust it?", yes_no("go"), needs_letter=True), Question("Quit?", CHOICES)]
)
async def test_enter_gives_no_answer_if_a_letter_is_needed(question: Question) -> None:
    app = QuestionApp(question)
    async with app.run_test() as pilot:
        app.row.focus()
        await pilot.press("enter", "escape")
        await until(lambda: app.answers == [""])


@pytest.mark.parametrize("has_focus", [False, True])
@pytest.mark.parametrize("choices", [yes_no("go"), CHOICES])
async def test_key_and_label_are_in_one_line(choices: tuple[Choice, ...], has_focus: bool) -> None:
    app = QuestionApp(Question(TEXT, choices))
    async with app.run_test(size=(40, 20)) as pilot:
        if has_focus:
            app.row.focus()
        for width in range(40, 140, 7):
            await pilot.resize_terminal(width, 20)
            await pilot.pause()
            lines = lines_of(app.row)
            assert all(any(f"{choice.key} {choice.label}" in line for line in lines) for choice in choices), lines


async def test_click_on_a_label_answers() -> None:
    app = QuestionApp(Question(TEXT, CHOICES))
    async with app.run_test(size=(50, 20)) as pilot:
        app.row.focus()
        await pilot.pause()
        lines = lines_of(app.row)
        y = next(number for number, line in enumerate(lines) if "discard" in line)
        await pilot.click(QuestionRow, offset=(lines[y].index("discard"), y))
        await until(lambda: app.answers == ["discard"])
