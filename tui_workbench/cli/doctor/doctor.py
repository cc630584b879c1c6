"""`doctor`: check system requirements.

The command asks no questions and changes nothing. Every check has a time limit.
"""

from __future__ import annotations

import argparse
import platform
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
_UNLIMITED = 1 << 20

configure_doctor = options(
    output(default=TEXT, example="[?state!='ok']"),
    epilog="""\
states:
  ok       the feature works
  limited  a feature does not work
  broken   the workbench does not work

To check the machine of a compute target, use `computetarget check NAME`.

exit codes:
  0, or 1 if a state is broken""",
)


def run_doctor(arguments: argparse.Namespace) -> int:
    in_text, results, columns = is_text(arguments), [], columns_of(sys.stdout, _UNLIMITED)
    for answer in answers(arguments.project):
        results.append(answer)
        if in_text:
            write_lines(_lines(answer, columns))
    if in_text:
        write_lines(["", *textwrap.wrap(_summary(results), columns)])
    else:
        emit([_record(answer) for answer in results], arguments, COLUMNS)
    return 1 if any(answer.state == BROKEN for answer in results) else 0


def answers(project: str) -> Iterator[Answer]:
    """Run all checks, and yield their results. `project` is a folder, inside or outside a project."""
    yield doctor_folders.system(platform.uname(), project)
    yield from doctor_terminal.answers()
    yield from (check() for check in doctor_tools.CHECKS)
    yield from doctor_folders.answers(project)


def _lines(answer: Answer, columns: int) -> list[str]:
    """Format an answer for a terminal of this width. The command is not wrapped, so that it can be copied."""
    start = f"{answer.state:{_STATE_WIDTH}}  {answer.name:{_NAME_WIDTH}}  "
    width, texts = max(20, columns - len(start)), (answer.message, answer.cost, answer.remedy)
    lines = [line for text in texts for line in textwrap.wrap(text, width)]
    lines += [f"    {answer.command}"] if answer.command else []
    return [f"{' ' * len(start) if number else start}{line}" for number, line in enumerate(lines)]


def _summary(results: list[Answer]) -> str:
    limited = [answer.name for answer in results if answer.state == LIMITED]
    broken = [answer.name for answer in results if answer.state == BROKEN]
    if broken:
        return f"Broken: {', '.join(broken)}."
    return f"The workbench works. Limited: {', '.join(limited)}." if limited else "All requirements are met."


def _record(answer: Answer) -> dict[str, Any]:
    return {name: value or None for name, value in answer._asdict().items()}
