"""`doctor`: what of this machine the workbench stands on, and what it costs where something is missing.

It asks nobody, changes nothing, and ends: everything that could hang has a time limit. An answer comes as it is found.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

from tui_workbench.cli.doctor import doctor_folders, doctor_terminal, doctor_tools
from tui_workbench.cli.doctor.answer import BROKEN, LIMITED, Answer
from tui_workbench.cli.shared.output import TEXT, emit, is_text, output, write_lines
from tui_workbench.cli.shared.parser import options
from tui_workbench.core.plaintext import columns_of

COLUMNS = ("name", "state", "message", "cost", "command")
_STATE_WIDTH, _NAME_WIDTH = 8, 10
_ENDLESS = 1 << 20


configure_doctor = options(
    output(default=TEXT, example="[?state!='ok']"),
    epilog="""\
ok: it is there. limited: the workbench works, and this is what one does without. broken: the workbench does not work.
What a target's machine lacks is answered by `computetarget check NAME`.

exit code: 0, or 1 when something is broken""",
)


def run_doctor(arguments: argparse.Namespace) -> int:
    """Look at everything; 1 when something is broken."""
    in_text, found, columns = is_text(arguments), [], columns_of(sys.stdout, _ENDLESS)
    for answer in answers(arguments.project):
        found.append(answer)
        if in_text:
            write_lines(_lines(answer, columns))
    if in_text:
        write_lines(["", _summary(found)])
    else:
        emit([_record(answer) for answer in found], arguments, COLUMNS)
    return 1 if any(answer.state == BROKEN for answer in found) else 0


def answers(project: str) -> Iterator[Answer]:
    """Everything that can be asked about this machine; `project` is a folder that may be of a project."""
    yield from doctor_terminal.answers()
    yield from (check() for check in doctor_tools.CHECKS)
    yield from doctor_folders.answers(project)


def _lines(answer: Answer, columns: int) -> list[str]:
    """An answer for people, in so many columns: the cost, the remedy, and the command on a line of its own, whole."""
    start = f"{answer.state:{_STATE_WIDTH}}  {answer.name:{_NAME_WIDTH}}  "
    width, texts = max(20, columns - len(start)), (answer.message, answer.cost, answer.remedy)
    lines = [line for text in texts for line in textwrap.wrap(text, width)]
    lines += [f"    {answer.command}"] if answer.command else []
    return [f"{' ' * len(start) if number else start}{line}" for number, line in enumerate(lines)]


def _summary(found: list[Answer]) -> str:
    limited = [answer.name for answer in found if answer.state == LIMITED]
    broken = [answer.name for answer in found if answer.state == BROKEN]
    if broken:
        return f"Broken: {', '.join(broken)}."
    return f"It works; limited: {', '.join(limited)}." if limited else "Everything is there."


def _record(answer: Answer) -> dict[str, Any]:
    return {name: value or None for name, value in answer._asdict().items()}
