"""Commands in the trace of calls do the same as the calls, on a real engine and over SSH."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from tests.conftest import require
from tests.core.support import trace_file
from tests.engines import PYTHON_IMAGE, DockerEngine
from tui_workbench.core import trace
from tui_workbench.core.errors import TargetUnreachable
from tui_workbench.core.trace_reading import TracedCall, TraceFile, shell_line
from tui_workbench.targets.docker.create_command import create_words
from tui_workbench.targets.docker.engine import Engine, EngineRefused
from tui_workbench.targets.ssh.ssh_host import SshHost

if TYPE_CHECKING:
    from pathlib import Path

    from tests.machines import Machine
    from tui_workbench.targets.ssh import ssh_wire as wire


def calls(kind: str) -> list[TracedCall]:
    """Return the calls of a kind that this test has made, in their order."""
    file = TraceFile(os.path.dirname(trace_file()))
    file.read_new()
    return [call for call in file.calls if call.kind == kind]


def call_of(first: str) -> TracedCall:
    """Return the call over SSH whose program's name is this."""
    (found,) = [call for call in calls(trace.SSH) if call.words[:1] == (first,)]
    return found


def pasted(line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)


# Docker.

CONFIGURATION: dict[str, Any] = {
    "Image": PYTHON_IMAGE,
    "Entrypoint": [],
    "Cmd": ["sh", "-c", "echo 'it is' \"$LR\"", "a b"],
    "Env": ["LR=0.1 x", "QUOTE=it's"],
    "User": "1000:1000",
    "WorkingDir": "/tmp",
    "Labels": {"a.b": "c d", "json": '{"x": ["y"]}'},
    "HostConfig": {
        "Init": True,
        "ShmSize": 1 << 26,
        "NetworkMode": "none",
        "LogConfig": {"Type": "json-file", "Config": {"max-size": "1000t"}},
    },
}


def made_of(engine: DockerEngine, name: str) -> dict[str, Any]:
    """Return the engine's description of the container without fields that always differ."""
    (found,) = json.loads(engine.docker("inspect", name))
    config, host = found["Config"], found["HostConfig"]
    kept = {key: config[key] for key in ("Image", "Cmd", "Env", "User", "WorkingDir", "Labels")}
    kept |= {key: host.get(key) for key in ("Init", "ShmSize", "NetworkMode", "LogConfig", "Mounts", "DeviceRequests")}
    kept["Env"] = sorted(kept["Env"])
    # `docker` sends empty fields that the API client omits.
    for mount in kept["Mounts"] or ():
        mount.get("VolumeOptions", {}).pop("DriverConfig", None)
    return {key: value or None for key, value in {**kept, "Entrypoint": config["Entrypoint"]}.items()}


@pytest.mark.parametrize(
    "mounts",
    [
        [],
        [{"Type": "bind", "Source": "{folder}/with, comma", "Target": "/data", "ReadOnly": True}],
        [{"Type": "tmpfs", "Target": "/hidden", "ReadOnly": True}],
        [{"Type": "volume", "Source": "wb-words", "Target": "/c", "VolumeOptions": {"Labels": {"kind": "cache"}}}],
    ],
    ids=["none", "folder", "hidden", "volume"],
)
def test_traced_docker_command_repeats_the_container(engine: DockerEngine, tmp_path: Path, mounts: list[Any]) -> None:
    require("docker")
    (tmp_path / "with, comma").mkdir()
    mounts = [
        {**mount, **({"Source": mount["Source"].format(folder=tmp_path)} if "Source" in mount else {})}
        for mount in mounts
    ]
    configuration = {**CONFIGURATION, "HostConfig": {**CONFIGURATION["HostConfig"], "Mounts": mounts}}
    Engine(engine.socket, "box").create("traced", configuration)
    created = next(call for call in calls(trace.DOCKER) if "create" in call.words)
    first = made_of(engine, "traced")
    engine.docker("rm", "traced")
    done = pasted(shell_line(created))
    assert done.returncode == 0, done.stderr
    again = made_of(engine, "traced")
    engine.docker("rm", "traced")
    engine.docker("volume", "rm", "--force", "wb-words")
    assert again == first


def test_traced_command_names_gpus() -> None:
    def option(request: dict[str, Any]) -> str:
        words = create_words("x", {"Image": "i", "HostConfig": {"DeviceRequests": [request]}})
        return words[words.index("--gpus") + 1]

    assert option({"Count": -1}) == "all"
    assert option({"DeviceIDs": ["GPU-1", "GPU-2"]}) == '"device=GPU-1,GPU-2"'


def test_engine_calls_are_traced_with_their_results(engine: DockerEngine) -> None:
    require("docker")
    asked = Engine(engine.socket, "box")
    asked.create("told", {"Image": PYTHON_IMAGE, "Cmd": ["sleep", "600"], "HostConfig": {"Init": True}})
    asked.start("told")
    assert asked.execute("told", ["sh", "-c", "exit 3"])[0] == 3
    assert asked.container("nobody") is None
    with pytest.raises(EngineRefused):
        asked.execute("nobody", ["true"])
    found = {call.words[call.words.index("-H") + 2]: call for call in calls(trace.DOCKER)}
    assert (found["start"].result, found["inspect"].result) == ("ok", "exit 1")
    executed = [call for call in calls(trace.DOCKER) if "exec" in call.words]
    assert [call.code for call in executed] == [3, None]
    assert "No such container" in executed[1].error
    assert pasted(shell_line(executed[0])).returncode == 3
    assert pasted(shell_line(found["inspect"])).returncode == 1


def test_secret_variable_of_a_container_is_not_traced(engine: DockerEngine) -> None:
    configuration = {"Image": PYTHON_IMAGE, "Cmd": ["true"], "Env": ["API_TOKEN=s3cret-value", "LR=1"]}
    Engine(engine.socket, "box").create("masked", configuration)
    created = next(call for call in calls(trace.DOCKER) if "create" in call.words)
    assert "--env API_TOKEN --env LR=1" in shell_line(created)
    with open(trace_file(), encoding="utf-8") as file:
        assert "s3cret-value" not in file.read()


# SSH.


def test_traced_ssh_command_repeats_the_program(host: SshHost, home: Path) -> None:
    require("ssh")
    done = host.run(["sh", "-c", "echo \"$0\" 'it is'; echo no >&2; exit 4", "a  b\nc"], stdin=b"1234")
    call = call_of("sh")
    assert (call.code, call.stderr, call.input) == (4, "no", 4)
    # OpenSSH takes the home of ~/.ssh from the system's user database.
    known = f"ssh -i {home}/.ssh/id_ed25519 -o UserKnownHostsFile={home}/.ssh/known_hosts"
    again = pasted(shell_line(call).replace("ssh ", f"{known} ", 1))
    assert (again.returncode, again.stdout, again.stderr) == (4, done.stdout.decode(), "no\n")


def test_login_is_traced(host: SshHost, login: wire.Login) -> None:
    host.run(["true"])
    (connected,) = [call for call in calls(trace.SSH) if not call.words]
    assert (shell_line(connected), connected.result) == (f"ssh {login.all_words}", "connected")


def test_failed_login_is_traced_with_its_reason(login: wire.Login, gpubox: Machine) -> None:
    nowhere = SshHost(login._replace(address=f"{gpubox.address}:1"))
    with pytest.raises(TargetUnreachable):
        nowhere.run(["true"])
    failed = [call for call in calls(trace.SSH) if call.error]
    assert len(failed) == 2, "the program's and the login's"
    assert all("-p 1 " in shell_line(call) for call in failed)


def test_running_program_is_traced(host: SshHost) -> None:
    process = host.open(["sleep", "600"])
    assert call_of("sleep").result == "running"
    process.close()
    assert call_of("sleep").result == "stopped"
