"""The options of a run's container, and the meaning of its end."""

from __future__ import annotations

import json

import pytest

from tui_workbench.config.schema.retry import LOST
from tui_workbench.core.errors import UsageError
from tui_workbench.core.model import ComputeTarget, RunConfiguration, RunSpec
from tui_workbench.targets.base.run_environment import shared_folder
from tui_workbench.targets.docker import container as containers
from tui_workbench.targets.docker.checks import EngineChecks
from tui_workbench.targets.docker.container import ENGINE_MODE, FILE_MODE, Placement
from tui_workbench.targets.docker.engine import refused
from tui_workbench.targets.docker.engine_answers import Container
from tui_workbench.targets.hosts.host import LocalHost

PLACE = Placement("/home/me/runs/p_1", "/home/me/share/p", "1000:1000", image="sha256:1", python="/usr/bin/python3")


def spec(**changes: object) -> RunSpec:
    target = ComputeTarget("docker", "/p/docker.compute", "localdocker", base_docker_image="python:3.11")
    configuration = RunConfiguration("docker", "/p/docker.runconfig", "docker", framework="Python")
    made = RunSpec("p_1", "/p/.workbench/runs/p_1", "/p", "p", "/p/work", "train.py", ("a b",), configuration, target)
    return made._replace(**changes)  # type: ignore[arg-type]


def with_variables(**variables: str) -> RunSpec:
    return spec(run_configuration=spec().run_configuration._replace(environment_variables=variables))


def test_command_is_the_supervising_shell() -> None:
    made = containers.configuration(spec(), PLACE)
    assert made["Cmd"][:2] == ["/bin/sh", "-c"]
    assert made["Cmd"][3:] == ["sh", "/workbench/run", "/workbench/run/work", "/usr/bin/python3", "train.py", "a b"]
    assert made["Entrypoint"] == []
    assert made["User"] == "1000:1000"


def test_image_without_shell_runs_the_script() -> None:
    made = containers.configuration(spec(), PLACE._replace(mode=ENGINE_MODE))
    assert made["Cmd"] == ["/usr/bin/python3", "train.py", "a b"]
    assert made["Labels"]["workbench-tui.output"] == ENGINE_MODE


def test_gpus_are_requested_only_if_configured() -> None:
    assert "DeviceRequests" not in containers.configuration(spec(), PLACE)["HostConfig"]
    wanted = spec(target=spec().target._replace(nvidia_docker=True))
    assert containers.configuration(wanted, PLACE)["HostConfig"]["DeviceRequests"] == [
        {"Driver": "", "Count": -1, "Capabilities": [["gpu"]]}
    ]
    assert "--gpus" in containers.docker_command(wanted, PLACE)


def test_member_of_a_group_uses_the_network_of_its_machine() -> None:
    for members, mode in ((0, None), (2, "host")):
        part = spec(members=members)
        assert containers.configuration(part, PLACE)["HostConfig"].get("NetworkMode") == mode
        assert ("--network" in containers.docker_command(part, PLACE)) == bool(mode)


WRITTEN = ("work", "output.log", "pid", "exit", "metrics.jsonl")


def test_mount_paths_may_contain_any_character() -> None:
    odd = PLACE._replace(run_directory="/home/a:b,c=d/run", data=("/home/x y",))
    mounts = containers.configuration(spec(), odd)["HostConfig"]["Mounts"]
    assert {(each["Source"], each["Target"]) for each in mounts} == {
        *((f"/home/a:b,c=d/run/{name}", f"/workbench/run/{name}") for name in WRITTEN),
        ("/home/me/share/p", "/azureml-share"), ("/home/x y", "/home/x y"),
    }  # fmt: skip
    words = containers.docker_command(spec(), odd)
    assert '"source=/home/a:b,c=d/run/work"' in words[words.index("--mount") + 1]


def test_data_is_mounted_read_only_beside_the_working_directory() -> None:
    for place, folder in (
        (PLACE, "/workbench/run"),
        (PLACE._replace(project_root="/p"), "/workbench"),
        (PLACE._replace(copied=True), "/workbench"),
    ):
        mounts = containers.mounts(spec(), place._replace(data=("/a",), beside={"sets": "/mnt/sets"}))
        assert {("/a", "/a", True), ("/mnt/sets", f"{folder}/sets", True)} <= set(mounts)


def test_untracked_run_does_not_see_the_state_directory() -> None:
    made = containers.configuration(spec(), PLACE._replace(project_root="/p"))["HostConfig"]["Mounts"]
    assert {"Type": "tmpfs", "Target": "/workbench/project/.workbench", "ReadOnly": True} in made
    assert "/workbench/run/outputs" in [each["Target"] for each in made]
    elsewhere = spec(run_directory="/home/me/.local/share/workbench-tui/projects/p/runs/p_1")
    made = containers.configuration(elsewhere, PLACE._replace(project_root="/p"))["HostConfig"]["Mounts"]
    assert all(each["Type"] == "bind" for each in made)


def test_variables_with_invalid_names_bypass_the_shell() -> None:
    made = containers.configuration(with_variables(PLAIN="1", **{"with.dots": "2", "IFS": ":"}), PLACE)
    assert "PLAIN=1" in made["Env"]
    assert not any(each.startswith(("with.dots=", "IFS=")) for each in made["Env"])
    words = made["Cmd"][6:]
    assert words[:4] == ["/usr/bin/env", "--", "with.dots=2", "IFS=:"]


def test_bytes_that_are_not_utf8_use_the_launch_file() -> None:
    odd = spec(arguments=("\udcff", ""))
    made = containers.configuration(odd, PLACE)
    json.dumps(made).encode()
    assert made["Cmd"][-1] == "/workbench/run/launch"
    data = containers.launch_file(odd, PLACE)
    assert data is not None
    assert data.endswith(b"\0/usr/bin/python3\0train.py\0\xff\0")
    assert containers.launch_file(spec(), PLACE) is None


def test_folder_name_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(UsageError, match="UTF-8"):
        containers.configuration(spec(), PLACE._replace(run_directory="/home/\udcff"))


def test_script_name_that_looks_like_an_option_is_escaped() -> None:
    assert containers.command(spec(script="-x.py"), PLACE)[1] == "./-x.py"


def test_user_without_passwd_entry_has_a_home() -> None:
    variables = containers.variables(spec(), PLACE)
    assert variables["HOME"]
    assert variables["USER"]
    assert "HOME" not in containers.variables(spec(), PLACE._replace(user="0:0"))


def test_configured_variables_win_except_the_run_id() -> None:
    variables = containers.variables(with_variables(HOME="/there", WORKBENCH_RUN_ID="forged"), PLACE)
    assert (variables["HOME"], variables["WORKBENCH_RUN_ID"]) == ("/there", "p_1")


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        ("~/.azureml/share/", "/home/me/.azureml/share/p"),
        ("~", "/home/me/p"),
        ("/data", "/data/p"),
        ("share", "/home/me/share/p"),
    ],
)
def test_share_is_below_the_native_shared_directory(base: str, expected: str) -> None:
    assert shared_folder(spec(target=spec().target._replace(native_shared_directory=base)), "/home/me") == expected


def ended(**changes: object) -> Container:
    made = Container("1", "c", "exited", {"workbench-tui.output": FILE_MODE}, "i", 137, False, "",
                     "2026-01-01T10:00:00.5Z")  # fmt: skip
    return made._replace(**changes)  # type: ignore[arg-type]


BEFORE, AFTER = "2026-01-01T11:00:00.123456789+02:00", "2026-01-01T11:00:01+01:00"


@pytest.mark.parametrize(
    ("container", "code", "restarted", "engine", "expected"),
    [
        (ended(), 0, False, BEFORE, (0, "")),
        (ended(), 3, False, BEFORE, (3, "exit code 3")),
        (None, 3, True, AFTER, (3, "exit code 3")),
        (ended(out_of_memory=True), 137, False, BEFORE, (137, "out of memory")),
        (ended(out_of_memory=True), 1, False, BEFORE, (1, "exit code 1; one of its processes was killed")),
        (ended(out_of_memory=True), None, False, BEFORE, (137, "out of memory")),
        (ended(), None, False, BEFORE, (137, "its container on box was killed")),
        (ended(), None, False, AFTER, (137, "engine on box was restarted")),
        (ended(exit_code=0), None, False, AFTER, (None, "engine on box was restarted")),
        (ended(), None, True, BEFORE, (None, "box was restarted during the run")),
        (None, None, False, BEFORE, (None, "its container on box was removed")),
        (ended(state="removing", exit_code=None), None, False, BEFORE, (None, "its container on box was removed")),
        (ended(labels={"workbench-tui.output": ENGINE_MODE}, exit_code=4), None, False, "", (4, "exit code 4")),
        (ended(exit_code=0), None, False, "", (None, "without a recorded exit code")),
    ],
)
def test_every_failure_has_a_reason(
    container: Container | None, code: int | None, restarted: bool, engine: str, expected: tuple[int | None, str]
) -> None:
    outcome = containers.outcome(
        container, code, host="box", restarted=restarted, engine_started=engine, has_supervisor=True
    )
    assert outcome.exit_code == expected[0]
    assert expected[1] in outcome.reason


@pytest.mark.parametrize("has_supervisor", [True, False])
def test_run_in_a_removed_container_has_failed_if_its_end_would_be_recorded(has_supervisor: bool) -> None:
    outcome = containers.outcome(
        None, None, host="box", restarted=False, engine_started=BEFORE, has_supervisor=has_supervisor
    )
    assert (outcome.has_failed, outcome.retry) == (has_supervisor, LOST)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ('could not select device driver "" with capabilities: [[gpu]]', "the NVIDIA runtime is missing"),
        ("error running hook #0: nvidia-container-cli: device error: 7: unknown device", "the NVIDIA runtime on box"),
        ("nvidia-container-cli: initialization error: nvml error: driver not loaded", "the NVIDIA runtime on box"),
        ('exec: "/usr/bin/python3": stat /usr/bin/python3: no such file or directory', "the image python:3.11 cannot"),
        ("invalid mount config: bind source path does not exist: /x", "a folder for the container does not exist"),
        ("something new", "cannot start the container: something new"),
        ("write /x: no space left on device", "the disk of the Docker engine on box is full"),
    ],
)
def test_start_failures_are_explained(said: str, message: str) -> None:
    error = refused("box", "start the container", said)
    assert message in containers.start_failure(error, host="box", image="python:3.11")[0]


def test_unexplained_start_failure_keeps_its_fix() -> None:
    target = spec().target._replace(nvidia_docker=True)
    error = EngineChecks(target, LocalHost()).refusal(refused("this machine", "start the container", "something new"))
    assert error.remedy == (
        "Fix the problem that the engine reports. `docker info` on that machine shows the state of the engine."
    )
