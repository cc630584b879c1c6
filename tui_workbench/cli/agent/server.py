"""The MCP server: register the tools, log their calls, and convert errors for the agent.

Only this module and `tools` import the packages of the extra `agents`.
"""

from __future__ import annotations

import json
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, InputRequiredResult, ToolAnnotations

import tui_workbench
from tui_workbench.cli.agent.tools import Tools, mask_setting
from tui_workbench.core import trace
from tui_workbench.core.errors import WorkbenchError
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


class AgentServer(MCPServer[Any]):
    """A server whose tools act for the agent that calls them."""

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool, and log the call in the trace with the name of the agent."""
        words = [name, *(f"{key}={json.dumps(value)}" for key, value in _masked(arguments).items())]
        with trace.for_agent(_name_of(context)), trace.Call(trace.AGENT, trace.masked_words(words)) as call:
            try:
                await self._require_known(name, arguments)
                return await super().call_tool(name, arguments, context)
            except ToolError as error:
                text = str(error)
                if isinstance(error.__cause__, WorkbenchError):
                    text = trace.masked_text(str(error.__cause__))
                call.end(None, error=text)
                raise ToolError(text) from error

    async def _require_known(self, name: str, arguments: dict[str, Any]) -> None:
        """Raise ToolError for arguments that a tool does not have, which the library would ignore."""
        for tool in await self.list_tools():
            known = tool.input_schema.get("properties", {})
            if tool.name == name and (unknown := [each for each in arguments if each not in known]):
                raise ToolError(f"unknown argument {unknown[0]!r}. The arguments are: {', '.join(known) or 'none'}.")


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
    tools = Tools(project)
    for tool in tools.reading:
        server.add_tool(tool, annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False))
    for tool in tools.acting:
        server.add_tool(tool, annotations=ToolAnnotations(read_only_hint=False, destructive_hint=False))
    return server


def serve(project: Project) -> None:
    """Serve on stdin and stdout until stdin is closed."""
    make_server(project).run()
