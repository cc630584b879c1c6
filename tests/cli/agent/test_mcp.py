"""An agent works with `workbench-tui mcp` over stdio, through the client of the `mcp` package."""

from __future__ import annotations

import json
import os
import socket
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.types import Implementation

from tests.cli.support import INSTALLED, Installed
from tests.runs.support import write_configuration, write_files
from tui_workbench.cli.agent.server import make_server
from tui_workbench.core.directories import agents_path, user_state_directory
from tui_workbench.core.installation import extra_command
from tui_workbench.core.trace_reading import TraceFile
from tui_workbench.projects.project import Project
from tui_workbench.runs.agents.approvals import find_approval, requests_directory
from tui_workbench.runs.facade import Runs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

TRAIN = """\
import os, time
while not os.path.exists(os.environ["GO"]):
    time.sleep(0.05)
print("token=abcdefgh123")
print(f"epoch 1 loss={1 - float(os.environ['LR'])}")
"""
"""A script that ends when the test has created the file `GO`."""


class Agent:
    """A client, which calls tools and returns their structured answers."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def __call__(self, tool: str, **arguments: Any) -> Any:
        """Call a tool. Raises RuntimeError with the message of an error."""
        answer = await self.client.call_tool(tool, arguments)
        if answer.is_error:
            raise RuntimeError(getattr(answer.content[0], "text", ""))
        assert answer.structured_content is not None
        return answer.structured_content

    async def finished(self, run: int) -> Any:
        """Return the run when it has ended."""
        while True:
            info = await self("wait_for_run", run=str(run), seconds=60)
            if not info["active"]:
                return info


@pytest.fixture
def training(project: Project) -> Iterator[Project]:
    write_files(Path(project.root), {"train.py": TRAIN})
    variables = {"LR": "0.1", "API_KEY": "s3cret", "GO": str(go_of(project))}
    write_configuration(
        Path(project.root), ArgumentVector=["$file", "--api-key", "s3cret"], EnvironmentVariables=variables
    )
    yield project
    go_of(project).touch()


def configuration_of(project: Project) -> str:
    return Path(project.root, "aml_config", "local.runconfig").read_text()


def stored_text() -> str:
    """Return the trace and the first request."""
    return Path(user_state_directory(), "trace.jsonl").read_text() + Path(requests_directory(), "1.json").read_text()


def go_of(project: Project) -> Path:
    return Path(project.root).parent / "go"


def write_limits(**limits: object) -> None:
    path = Path(agents_path())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{name}: {json.dumps(value)}\n" for name, value in limits.items()))


@asynccontextmanager
async def agent(project: Project) -> AsyncIterator[Agent]:
    server = StdioServerParameters(
        command=INSTALLED, args=["mcp", "--project", project.root], env=dict(os.environ), cwd=project.root
    )
    async with Client(server, client_info=Implementation(name="tes\x1bter", version="1")) as client:
        yield Agent(client)


async def submit(call: Agent, rate: str) -> Any:
    return await call("submit_run", configuration="local", script="train.py", environment={"LR": rate})


@pytest.mark.processes
async def test_agent_works_within_its_limits(training: Project) -> None:
    write_limits(targets=["local"], concurrent_runs=3)
    workbench = Installed(Path(training.root))
    before = configuration_of(training)
    async with agent(training) as call:
        made = await call("set_configuration", configuration="local", key="EnvironmentVariables.LR", value="0.5")
        assert made == {"key": "EnvironmentVariables.LR", "value": "0.5", "old_value": "0.1", "changed": True}
        assert configuration_of(training) == before.replace("0.1", "0.5")
        plan = await call("plan_run", configuration="local", script="train.py")
        assert (plan["minutes"], plan["needs_approval"]) == (60, [])

        runs = [(await submit(call, rate))["run"]["number"] for rate in ("0.2", "0.3", "0.4")]
        fourth = await submit(call, "0.5")
        assert fourth["run"] is None
        assert fourth["reasons"] == ["3 runs of agents are active, and the limit is 3"]
        waiting = await call("wait_for_approval", request=fourth["request"], seconds=0)
        assert waiting["state"] == "waiting"
        assert len(Runs(training).list()) == 3

        number = str(fourth["request"])
        shown = json.loads(workbench.run("agent", "show", number, "-o", "json").out)
        assert (shown["agent"], shown["reasons"]) == ("tes ter", fourth["reasons"])
        approved = json.loads(workbench.run("agent", "approve", number, "-o", "json").out)
        decided = await call("wait_for_approval", request=fourth["request"], seconds=60)
        assert (decided["state"], decided["run_id"]) == ("submitted", approved["run_id"])

        fifth = await submit(call, "0.6")
        workbench.run("agent", "deny", str(fifth["request"]), "--reason", "too many", "-o", "json")
        denied = await call("wait_for_approval", request=fifth["request"], seconds=60)
        assert (denied["state"], denied["answer"]) == ("denied", "too many")

        go_of(training).touch()
        ended = [await call.finished(run) for run in [*runs, decided["run_id"]]]
        assert [(run["state"], run["started_by"]) for run in ended] == [("completed", "tes ter")] * 4
        assert [round(run["metrics"]["loss"], 3) for run in ended] == [0.8, 0.7, 0.6, 0.5]
        compared = await call("compare_runs", runs=[str(run) for run in runs])
        assert ["0.8", "0.7", "0.6"] in [[str(each) for each in row["values"]] for row in compared["rows"]]
        verdict = await call("get_verdict", run=str(runs[0]))
        assert "verdict" in verdict
        log = await call("read_log", run=str(runs[0]))
        assert (log["text"].splitlines()[0], log["at_end"]) == ("token=***", True)
        first = await call("list_runs", limit=3)
        second = await call("list_runs", limit=3, cursor=first["next_cursor"])
        assert [len(first["runs"]), len(second["runs"]), second["next_cursor"]] == [3, 1, ""]
    trace = TraceFile(user_state_directory())
    trace.read_new()
    calls = [call for call in trace.calls if call.kind == "agent"]
    assert {call.agent for call in calls} == {"tes ter"}
    assert [call.words[0] for call in calls][:2] == ["set_configuration", "plan_run"]


async def test_refusals_are_answers_to_the_agent(training: Project) -> None:
    before = configuration_of(training)
    os.symlink("local.runconfig", f"{training.config_directory}/other.runconfig")
    async with Client(make_server(training)) as client:
        call = Agent(client)
        for key, value, configuration, said in (
            ("EnvironmentVariables.API_KEY", "s3cret", "local", "is a secret, which agents cannot set"),
            ("EnvironmentVariables", "{API_KEY: s3cret}", "local", "is a secret"),
            ("ArgumentVector", "[a.py, --token, s3cret]", "local", "is a secret"),
            ("ArgumentVector[1]", "--lr", "local", "cannot set, change, remove or reveal a secret"),
            ("ArgumentVector[2]", "other", "local", "cannot set, change"),
            ("ArgumentVector", "[$file]", "local", "cannot set, change"),
            ("EnvironmentVariables", "{LR: 0.1}", "local", "cannot set, change"),
            ("EnvironmentVariables.API_KEY", "null", "local", "cannot set, change"),
            ("Framework", "x", "other", "is a link"),
            ("Frame", "x", "local", "unknown field 'Frame'"),
            ("Target", "x", "../local", "unknown run configuration"),
        ):
            with pytest.raises(RuntimeError, match=said):
                await call("set_configuration", configuration=configuration, key=key, value=value)
        configurations = (await call("list_configurations"))["result"]
        assert configurations[0]["argument_vector"] == ["$file", "--api-key", "***"]
        made = await call("submit_run", configuration="local", script="train.py")
        assert "train.py --api-key *** on local" in find_approval(made["request"]).text
        for key, wanted in (
            ("EnvironmentVariables", {"LR": "0.1", "API_KEY": "***", "GO": str(go_of(training))}),
            ('EnvironmentVariables."API_KEY"', "***"),
            ("ArgumentVector[2]", "***"),
            ("TrackedRun", False),
            ("PrepareEnvironment", False),
        ):
            assert (await call("get_configuration", configuration="local", key=key))["value"] == wanted
        with pytest.raises(RuntimeError, match="unknown argument 'seconds'"):
            await call("get_run", run="1", seconds=1)
        with pytest.raises(RuntimeError, match="'x' is not a valid cursor"):
            await call("list_runs", cursor="x")
        with pytest.raises(RuntimeError, match="no request 7"):
            await call("wait_for_approval", request=7)
        limits = await call("get_limits")
        assert (limits["targets"], limits["active_runs"]) == ([], 0)
    assert configuration_of(training) == before
    assert "s3cret" not in stored_text()


@pytest.mark.processes
def test_agent_connects_to_a_socket(project: Project, tmp_path: Path) -> None:
    path = tmp_path / "own" / "mcp.sock"
    server = Installed(tmp_path).start("mcp", "--project", project.root, "--socket", path, stdout=None)
    try:
        assert server.stderr is not None
        assert b"agents can connect to" in server.stderr.readline()
        assert (path.parent.stat().st_mode & 0o777, path.stat().st_mode & 0o777) == (0o700, 0o600)
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(path))
            client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
            message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client}
            connection.sendall(json.dumps(message).encode() + b"\n")
            with connection.makefile() as answers:
                assert json.loads(answers.readline())["result"]["serverInfo"]["name"] == "workbench-tui"
                second = Installed(tmp_path).run("mcp", "--project", project.root, "--socket", path)
                second.error(2, "another server uses it")
                server.terminate()
                assert answers.readline() == ""  # the process of the connection has ended too
        server.wait()
        assert not path.exists()
    finally:
        server.kill()
        server.communicate()
    path.parent.chmod(0o755)
    Installed(tmp_path).run("mcp", "--project", project.root, "--socket", path).error(2, "other users could replace")


def test_missing_package_shows_the_install_command(project: Project, tmp_path: Path) -> None:
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "mcp.py").write_text("raise ModuleNotFoundError('no', name='mcp')\n")
    done = Installed(tmp_path, {"PYTHONPATH": str(tmp_path / "hidden")}).run_interpreter(
        "mcp", "--project", project.root
    )
    done.error(2, f"which is not installed. Install it: `{extra_command('agents')}`.")
