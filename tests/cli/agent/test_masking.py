"""Secrets of the project's configuration are masked in everything that an agent reads."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from mcp.types import CallToolResult

from tests.runs.support import make_run, write_configuration
from tui_workbench.cli.agent.server import make_server
from tui_workbench.core.model import RunState
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.logs.log_file import LINE_CAP
from tui_workbench.runs.store.annotations import Annotations

if TYPE_CHECKING:
    from tui_workbench.projects.project import Project

pytestmark = pytest.mark.slow

SECRET, OPTION, SETUP, KEY = (
    "correct-horse",
    "battery-staple",
    "tr0ub4dor-and-3",
    "LINE1abcdef\nLINE2ghijkl\nLINE3mnopqr",
)


def call(project: Project, tool: str, **arguments: Any) -> Any:
    answer = asyncio.run(make_server(project).call_tool(tool, arguments))
    assert isinstance(answer, CallToolResult)
    # Clients read either of the two.
    assert json.loads(getattr(answer.content[0], "text", "")) == answer.structured_content
    return answer.structured_content


@pytest.fixture
def run(project: Project) -> Path:
    """Return the directory of a run whose script could print the secrets of its configuration."""
    write_configuration(
        Path(project.root),
        ArgumentVector=["$file", "--api-key", OPTION],
        EnvironmentVariables={"API_TOKEN": SECRET, "PRIVATE_KEY": KEY, "NAME": "harmless"},
    )
    write_configuration(Path(project.root), suffix="compute", type="local", setup=[f"export DB_PASSWORD='{SETUP}'"])
    return Path(make_run(project, "p_1", state=RunState.FAILED, end=1_700_000_500.0, reason=f"bad {SECRET}").path)


def pages_of(project: Project) -> list[str]:
    """Read a log as an agent does."""
    pages, cursor = [], ""
    while True:
        page = call(project, "read_log", run="1", cursor=cursor)
        pages.append(page["text"])
        if page["at_end"]:
            return pages
        cursor = page["next_cursor"]


@pytest.mark.parametrize("secret", [SECRET, OPTION, SETUP, KEY])
@pytest.mark.parametrize("form", ["{}", "value {} here", "x{}y", "{0}{0}", "<{}>\nnext"])
def test_known_secrets_are_masked_in_the_log(project: Project, run: Path, secret: str, form: str) -> None:
    (run / "output.log").write_text(f"first harmless\n{form.format(secret)}\nlast\n")
    (text,) = pages_of(project)
    assert "first harmless" in text
    assert "last" in text
    assert not any(part in text for part in secret.split("\n"))


def test_secret_across_two_pages_is_masked(project: Project, run: Path) -> None:
    for before in range(15_960, 16_010):
        (run / "output.log").write_text("a" * before + f"\n{KEY}\n{SECRET}\n")
        text = "".join(pages_of(project))
        assert not any(part in text for part in (*KEY.split("\n"), SECRET)), before


def test_secret_at_any_cursor_and_at_the_cut_of_a_long_line_is_masked(project: Project, run: Path) -> None:
    for before in range(LINE_CAP - len(SECRET) - 2, LINE_CAP + 3):
        (run / "output.log").write_text("a" * before + SECRET + "b" * LINE_CAP + "\n")
        shown = "".join(pages_of(project))
        assert not any(SECRET[:size] in shown for size in range(3, len(SECRET))), before
    (run / "output.log").write_text(f"{SECRET}\n")
    for cursor in range(1, len(SECRET)):
        assert call(project, "read_log", run="1", cursor=str(cursor))["text"] == "***\n"


def test_known_secrets_are_masked_in_all_answers(project: Project, run: Path) -> None:
    (run / "metrics.jsonl").write_text(json.dumps({"name": f"m-{SECRET}", "value": 0.5, "step": 1}) + "\n")
    (run / "output.log").write_text(f"Traceback: {SECRET}\nloss=0.1\n")
    Runs(project).annotate("p_1", lambda _: Annotations(note=f"used {SECRET}", tags={"t": SECRET}))
    make_run(project, "p_2", 2, state=RunState.FAILED, end=1_700_000_500.0, reason=f"other {OPTION}")
    write_configuration(Path(project.root), "other", Framework="Python", ArgumentVector=["a.py", SECRET, f"x={OPTION}"])
    answers = [
        call(project, "get_run", run="1"),
        call(project, "list_runs"),
        call(project, "list_configurations"),
        call(project, "list_targets"),
        call(project, "get_configuration", configuration="local"),
        call(project, "get_configuration", configuration="other"),
        call(project, "compare_runs", runs=["1", "2"]),
        call(project, "get_verdict", run="1"),
        call(project, "plan_run", configuration="other", script="hello.py", arguments=[SECRET]),
        call(project, "submit_run", configuration="other", script="hello.py", arguments=[SECRET]),
        call(project, "wait_for_run", run="1", seconds=0),
    ]
    text = json.dumps(answers)
    assert "bad ***" in text
    assert not any(secret in text for secret in (SECRET, OPTION, SETUP))


def test_name_that_is_not_utf_8_can_be_listed(project: Project) -> None:
    name = os.path.join(os.fsencode(project.config_directory), b"a\xff.runconfig")
    Path(os.fsdecode(name)).write_text("Target: local\nFramework: Python\n")
    assert [each["name"] for each in call(project, "list_configurations")["result"]] == ["a?", "local"]
