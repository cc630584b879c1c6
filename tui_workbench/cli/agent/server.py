"""The MCP server: register the tools, log their calls, and convert errors for the agent.

Only this module and `tools` import the packages of the extra `agents`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any, Protocol

import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp.types import (
    PARSE_ERROR,
    CallToolResult,
    ErrorData,
    InputRequiredResult,
    JSONRPCError,
    TextContent,
    ToolAnnotations,
)

import tui_workbench
from tui_workbench.cli.agent import known_secrets
from tui_workbench.cli.agent.answers import without_surrogates
from tui_workbench.cli.agent.tools import Tools, mask_setting
from tui_workbench.core import trace
from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.json_values import parse_json
from tui_workbench.core.masking import mask_tree
from tui_workbench.projects.project import Project

UNNAMED = "unnamed agent"
"""The name of an agent whose client does not give one."""

INSTRUCTIONS = """\
Plan, run and compare trainings of one project on its compute targets. Call list_configurations and list_targets first,
then plan_run and submit_run. A run that exceeds the limits of the user is not started: submit_run then returns the
number of a request, and wait_for_approval returns the decision of the user. wait_for_run returns when the state of a
run changes: repeat it until the run has ended. Lists and logs have pages: pass next_cursor as cursor to get the next
page. Secrets are shown as ***."""


LARGEST_ARGUMENTS = 1 << 20
"""Maximum size of the arguments of a call, as JSON in characters."""


class AgentServer(MCPServer[Any]):
    """A server whose tools act for the agent that calls them."""

    project: Project

    async def run_stdio_async(self) -> None:
        """Serve on stdin and stdout, and answer every message. The library gives no answer to a malformed message."""
        async with stdio_server() as (messages, answers), anyio.create_task_group() as tasks:
            to_server, from_client = anyio.create_memory_object_stream[SessionMessage | Exception](0)
            # Without a buffer (size 0), a client that sends faster than the server answers has to wait.
            tasks.start_soon(_pass_on, messages, to_server, answers)
            options = self._lowlevel_server.create_initialization_options()
            await self._lowlevel_server.run(from_client, answers, options)
            tasks.cancel_scope.cancel()

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool, and log the call in the trace with the name of the agent.

        Secrets are masked in the whole answer, whatever part of a run or a file they come from.
        """
        # The arguments are checked first: the trace and the answer could not contain a lone surrogate.
        _require_text(arguments)
        # The project is read again for each call, because its secrets may have changed since the last call.
        known_secrets.hide(self.project)
        words = [name, *(f"{key}={json.dumps(value)}" for key, value in _masked(arguments).items())]
        with trace.for_agent(_name_of(context)), trace.Call(trace.AGENT, trace.masked_words(words)) as call:
            try:
                await self._require_known(name, arguments)
                return _masked_answer(await super().call_tool(name, arguments, context))
            except ToolError as error:
                text = _readable(_reason_of(error))
                call.end(None, error=text)
                raise ToolError(text) from error

    async def _require_known(self, name: str, arguments: dict[str, Any]) -> None:
        """Raise ToolError for arguments that a tool does not have, which the library would ignore."""
        for tool in await self.list_tools():
            properties = tool.input_schema.get("properties", {})
            if tool.name == name and (unknown := [argument for argument in arguments if argument not in properties]):
                raise ToolError(
                    f"unknown argument {unknown[0]!r}. The arguments are: {', '.join(properties) or 'none'}."
                )


class _Stream(Protocol):
    """A stream of messages that can be closed."""

    def __aiter__(self) -> AsyncIterator[SessionMessage | Exception]: ...

    async def aclose(self) -> None: ...


class _Sink(Protocol):
    async def send(self, item: Any, /) -> None: ...

    async def aclose(self) -> None: ...


async def _pass_on(messages: _Stream, to_server: _Sink, answers: _Sink) -> None:
    """Pass the messages of the client on to the server, and answer those that are malformed."""
    try:
        async for message in messages:
            if isinstance(message, Exception):
                await answers.send(SessionMessage(_malformed(message)))
            else:
                await to_server.send(message)
    finally:
        await to_server.aclose()


def _malformed(error: Exception) -> JSONRPCError:
    """Return the answer to a message that is not JSON, has a lone surrogate in a text, or is not a message of MCP."""
    number, reason = None, "it is not JSON"
    # The error of the library contains the message.
    errors: list[dict[str, Any]] = getattr(error, "errors", list)()
    text = errors[0].get("input") if errors else None
    try:
        message = parse_json(text) if isinstance(text, str) else text
    except ValueError:
        message = None
    if isinstance(message, dict):
        message_id = message.get("id")
        number = message_id if isinstance(message_id, int | str) and not isinstance(message_id, bool) else None
        reason = next(_surrogates(message), "") or "it is not a request"
    return JSONRPCError(
        jsonrpc="2.0",
        id=_readable(number) if isinstance(number, str) else number,
        error=ErrorData(code=PARSE_ERROR, message=f"the message cannot be read: {reason}"),
    )


def _require_text(arguments: dict[str, Any]) -> None:
    """Raise ToolError for arguments that are too large, or that contain a text which is not Unicode."""
    for reason in _surrogates(arguments):
        raise ToolError(reason)
    size = len(json.dumps(arguments))
    if size > LARGEST_ARGUMENTS:
        raise ToolError(
            f"the arguments have {size} characters, and the limit is {LARGEST_ARGUMENTS}. Pass shorter arguments."
        )


def _surrogates(tree: Any, name: str = "") -> Iterator[str]:
    """Yield a reason for each text in JSON that has a lone surrogate. `name` is the key of `tree`."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from _surrogates(key, name)
            yield from _surrogates(value, key)
    elif isinstance(tree, list):
        for value in tree:
            yield from _surrogates(value, name)
    elif isinstance(tree, str) and (code := next((code for code in map(ord, tree) if 0xD800 <= code < 0xE000), 0)):
        yield f"{_readable(name) or 'a key'} contains the lone surrogate U+{code:04X}. Pass text that is valid Unicode."


def _reason_of(error: ToolError) -> str:
    """Return the reason of a failed call. The library hides the reason of an unexpected error."""
    cause = error.__cause__
    if isinstance(cause, WorkbenchError):
        return str(cause)
    if isinstance(error, UnexpectedToolError) and cause is not None:
        return f"{error}: {type(cause).__name__}: {cause}"
    return str(error)


def _masked_answer(answer: CallToolResult | InputRequiredResult) -> CallToolResult | InputRequiredResult:
    """Return an answer with secrets masked. Its text repeats its structured content."""
    if not isinstance(answer, CallToolResult) or answer.structured_content is None:
        return answer
    content = _masked_tree(answer.structured_content)
    text = TextContent(type="text", text=json.dumps(content, ensure_ascii=False, indent=2))
    return answer.model_copy(update={"structured_content": content, "content": [text]})


def _masked_tree(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {trace.masked_text(str(key)): _masked_tree(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [_masked_tree(value) for value in tree]
    return trace.masked_text(tree) if isinstance(tree, str) else tree


def _readable(text: str) -> str:
    """Return the text with secrets masked, and without surrogates, which cannot be sent."""
    readable: str = without_surrogates(trace.masked_text(text))
    return readable


def _masked(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a tool with secrets masked. Agents cannot pass secrets, but may try."""
    masked: dict[str, Any] = mask_tree(arguments)
    key, value = arguments.get("key"), arguments.get("value")
    if isinstance(key, str) and isinstance(value, str):
        masked["value"] = mask_setting(key.rpartition(".")[2].strip("'\"]["), value)
    return masked


def _name_of(context: Context[Any, Any] | None) -> str:
    """Return the name that the agent's client gives."""
    client = context.session.client_params if context is not None else None
    return trace.agent_name(client.client_info.name if client is not None else "") or UNNAMED


def make_server(project: Project) -> AgentServer:
    """Return the server for a project."""
    server = AgentServer(
        "workbench-tui", instructions=INSTRUCTIONS, version=tui_workbench.__version__, log_level="WARNING"
    )
    server.project = project
    tools = Tools(project)
    for tool in tools.reading:
        server.add_tool(tool, annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False))
    for tool in tools.acting:
        server.add_tool(tool, annotations=ToolAnnotations(read_only_hint=False, destructive_hint=False))
    return server


def serve(project: Project) -> None:
    """Serve on stdin and stdout until stdin is closed."""
    make_server(project).run()
