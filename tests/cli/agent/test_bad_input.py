"""Arguments and messages of an agent that are malformed, hostile or too large: each gets an answer with a reason."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult

from tests.runs.support import make_run
from tui_workbench.cli.agent.server import LARGEST_ARGUMENTS, make_server
from tui_workbench.core.model import RunState
from tui_workbench.runs.index.table import LONGEST_FILTER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tui_workbench.cli.agent.server import AgentServer
    from tui_workbench.projects.project import Project

NAMES = (
    "1",
    "p_1",
    "local",
    "",
    "0",
    "../p_1",
    "hello.py",
    "\0",
    "a\0b",
    "\x1b[2J",
    "-",
    "{",
    "[",
    "9" * 400,
    "é",
    "~",
)
TEXTS = some.sampled_from(NAMES) | some.text() | some.text("\ud800a:=<>!\"'\n{}[]&*%@`|\0", max_size=40)
VALUES = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | TEXTS,
    lambda values: some.lists(values, max_size=4) | some.dictionaries(TEXTS, values, max_size=3),
    max_leaves=6,
)


def call(server: AgentServer, tool: str, arguments: dict[str, Any]) -> tuple[Any, str]:
    """Call a tool in this process. Return its answer and "", or None and the reason why it failed."""
    try:
        answer = asyncio.run(server.call_tool(tool, arguments))
    except ToolError as error:
        return None, str(error)
    assert isinstance(answer, CallToolResult)
    return answer.structured_content, ""


@pytest.fixture
def server(project: Project) -> AgentServer:
    make_run(project, "p_1", state=RunState.COMPLETED, end=1_700_000_500.0, exit_code=0)
    Path(project.runs_directory, "p_1", "output.log").write_text("loss=0.5\n" * 50)
    return make_server(project)


def tools_of(server: AgentServer) -> dict[str, dict[str, Any]]:
    return {tool.name: tool.input_schema for tool in asyncio.run(server.list_tools())}


@pytest.mark.processes
@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(some.data())
def test_each_refusal_has_a_reason(server: AgentServer, data: some.DataObject) -> None:
    schemas = tools_of(server)
    tool = data.draw(some.sampled_from(sorted(schemas)))
    properties = schemas[tool].get("properties", {})
    arguments = {}
    for name, schema in properties.items():
        if name in schemas[tool].get("required", ()) or data.draw(some.booleans()):
            fitting = {"string": TEXTS, "integer": some.integers(), "number": some.floats(), "boolean": some.booleans(),
                       "array": some.lists(TEXTS, max_size=5)}.get(schema.get("type", ""), VALUES)  # fmt: skip
            arguments[name] = data.draw(some.just(0) if name == "seconds" else fitting | VALUES)
    _, reason = call(server, tool, arguments)
    assert not reason.startswith("Error executing tool") or "validation error" in reason, (tool, arguments, reason)


def texts_of(schema: dict[str, Any], bad: str) -> Iterator[tuple[str, Any]]:
    """Yield each argument of a tool, with a value of its type that contains the text `bad`."""
    for name, field in schema.get("properties", {}).items():
        kind = field.get("type")
        yield name, [bad, bad] if kind == "array" else {"A": bad} if "anyOf" in field else bad


def test_lone_surrogate_is_refused_in_each_argument(server: AgentServer) -> None:
    for tool, schema in tools_of(server).items():
        for name, value in texts_of(schema, "a\ud800"):
            _, reason = call(server, tool, {name: value})
            assert "contains the lone surrogate U+D800" in reason, (tool, name)


@pytest.mark.parametrize("words", [3000, LONGEST_FILTER // 2])
def test_long_filter_is_refused_or_works(server: AgentServer, words: int) -> None:
    answer, reason = call(server, "list_runs", {"filter": " ".join("a" * words)})
    if words * 2 > LONGEST_FILTER:
        assert f"at most {LONGEST_FILTER} characters" in reason
    else:
        assert answer["total"] == 1


def test_large_arguments_are_refused(server: AgentServer) -> None:
    _, reason = call(server, "get_run", {"run": "x" * LARGEST_ARGUMENTS})
    assert f"the limit is {LARGEST_ARGUMENTS}. Pass shorter arguments" in reason


def test_unexpected_error_has_a_reason(server: AgentServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise ZeroDivisionError("token=abcdefgh")

    server.add_tool(fail)
    assert call(server, "fail", {})[1] == "Error executing tool fail: ZeroDivisionError: token=***"


MESSAGES = (
    (r'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"get_run","arguments":{"run":"\ud800"}}}', 2),
    (r'{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"submit_run","arguments":{"\ud800":"x"}}}', 3),
    (r'{"jsonrpc":"2.0","id":4,"method":"\udfff"}', 4),
    (r'{"jsonrpc":"2.0","id":5}', 5),
    ('{"jsonrpc":"2.0","id":true,"method":[]}', None),
    ("nonsense", None),
    ("[" * 100_000, None),
    ('{"id":' + "9" * 5000 + "}", None),
)


@pytest.mark.processes
def test_malformed_messages_are_answered_at_once(project: Project) -> None:
    command = [sys.executable, "-m", "tui_workbench", "mcp", "--project", project.root]
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    first = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(first).encode() + b"\n")
        server.stdin.flush()
        assert json.loads(server.stdout.readline())["id"] == 1
        for text, number in MESSAGES:
            begun = time.monotonic()
            server.stdin.write(text.encode() + b"\n")
            server.stdin.flush()
            answer = json.loads(server.stdout.readline())
            assert time.monotonic() - begun < 30
            assert answer["id"] == number, text[:100]
            assert answer["error"]["message"].startswith("the message cannot be read: "), text[:100]
        server.stdin.close()
        assert server.stdout.read() == b""
        assert server.wait(60) == 0
