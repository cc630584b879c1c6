"""Runs in containers on another machine, with failures of the machine, its engine and the connection."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.engines import PYTHON_IMAGE
from tests.faults.support import Workbench
from tests.package_index import make_wheel, package_index
from tests.targets.docker_project import DockerProject, controller_of, events, log
from tests.waiting import wait_until
from tui_workbench.core.model import RunRequest
from tui_workbench.core.system import process_stat
from tui_workbench.targets.docker.container import KIND_LABEL, container_name
from tui_workbench.targets.docker.image_probe import PROBE_KIND
from tui_workbench.targets.ssh.login_secrets import ssh_host_of

if TYPE_CHECKING:
    from tests.engines import DockerEngine
    from tests.machines import Machine
    from tui_workbench.core.model import Run

COUNTS = """
    import os, time
    with open("/azureml-share/starts", "a") as file:
        file.write(os.environ["AZUREML_RUN_ID"] + "\\n")
    for number in range(20):
        print(number, flush=True)
        time.sleep(0.01)
    open("outputs/model", "w").write("weights")
    raise SystemExit(3)
"""
COUNTED = "".join(f"{number}\n" for number in range(20))


@pytest.fixture
def local(tmp_path: Path, engine: DockerEngine) -> DockerProject:
    """Return a project whose runs execute in containers on this machine."""
    return DockerProject(tmp_path / "project", nativeSharedDirectory=str(tmp_path / "share"))


@pytest.fixture
def project(tmp_path: Path, gpubox: Machine, gpubox_engine: DockerEngine, ssh_folder: Path) -> DockerProject:
    """Return a project whose runs execute in containers on the other machine."""
    return DockerProject(tmp_path / "project", type="remotedocker", address=gpubox.address, username="research")


def starts(share: Path) -> list[str]:
    """Return the run ID of each start of a script."""
    return (share / "starts").read_text().split()


def kill_controller(project: DockerProject, run: Run) -> None:
    """Kill the run's controller, as a power cut would."""
    pid = controller_of(run)
    if pid > 0 and pid != os.getpid():  # this process holds the lock while it starts a controller
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: controller_of(run) != pid)


def containers_of_runs(engine: DockerEngine) -> list[str]:
    """Return the containers, without those of killed probes of an image, which `experiment clean` removes."""
    return [name for name in engine.containers() if not name.startswith("workbench-probe-")]


@pytest.mark.parametrize("moment", range(1, 14, 6))
def test_killed_controller_is_replaced_at_any_local_step(
    local: DockerProject, engine: DockerEngine, tmp_path: Path, moment: int
) -> None:
    run = local.submit(COUNTS)
    wait_until(lambda: len(events(run)) >= moment or not local.get(run).is_active)
    kill_controller(local, run)
    local.runs.resume()
    ended = local.ended(run)
    assert (ended.state, ended.exit_code) == ("failed", 3), events(run)
    assert starts(tmp_path / "share" / "project") == [run.run_id]
    assert log(run) == COUNTED
    assert Path(run.directory, "outputs/model").read_text() == "weights"
    assert containers_of_runs(engine) == []


@pytest.mark.parametrize("moment", range(1, 18, 4))
def test_killed_controller_is_replaced_at_any_remote_step(
    project: DockerProject, gpubox: Machine, gpubox_engine: DockerEngine, moment: int
) -> None:
    shutil.rmtree(gpubox.home() / ".azureml", ignore_errors=True)
    run = project.submit(COUNTS)
    wait_until(lambda: len(events(run)) >= moment or not project.get(run).is_active)
    kill_controller(project, run)
    project.runs.resume()
    ended = project.ended(run)
    assert (ended.state, ended.exit_code) == ("failed", 3), events(run)
    assert starts(gpubox.home() / ".azureml/share/project") == [run.run_id]
    assert log(run) == COUNTED
    assert Path(run.directory, "outputs/model").read_text() == "weights"
    assert containers_of_runs(gpubox_engine) == []


def test_container_runs_as_the_user_of_the_login(project: DockerProject) -> None:
    run = project.run('import os; print(os.getuid(), os.getgid(), open("/etc/hostname").read() != "", os.getcwd())')
    assert log(run) == "2001 2001 True /workbench/run/work\n"
    assert run.state == "completed"


def test_only_changed_files_are_sent(project: DockerProject) -> None:
    for number in range(50):
        (project.root / f"file {number}").write_text(f"content {number}")
    first, again = project.run("print(1)"), project.run("print(1)")
    (project.root / "file 7").write_text("other")
    (project.root / "file 8").unlink()
    third = project.run('import os; print(open("file 7").read(), os.path.exists("file 8"))')

    def sent(run: Run) -> tuple[int, int]:
        done = [each for each in events(run) if each.get("step") == "sync" and each["status"] == "done"]
        return done[0]["changed"], done[0]["deleted"]

    assert sent(first)[0] >= 50
    assert sent(again) == (0, 0)
    assert sent(third) == (2, 1)
    assert log(third) == "other False\n"


def test_names_are_not_interpreted_by_a_shell(project: DockerProject) -> None:
    odd = 'it\'s "$(touch hacked)" `x`\n;&|*?é \\'
    (project.root / odd).write_text("found")
    run = project.runs.submit(
        _request(project, "import sys; print(ascii(sys.argv[1:]), open(sys.argv[1]).read())", odd, "", "-x")
    )
    ended = project.ended(run)
    assert log(run) == f"{[odd, '', '-x']!a} found\n", ended
    project.runconfig(EnvironmentVariables={"ODD": odd})
    run = project.run('import os; print(ascii(os.environ["ODD"]), os.path.exists("hacked"))')
    assert log(run) == f"{odd!a} False\n"


def _request(project: DockerProject, text: str, *arguments: str) -> RunRequest:
    return RunRequest("docker", project.script(text, "my 'script'.py"), arguments)


@pytest.mark.docker
@pytest.mark.docker
@pytest.mark.parametrize("kind", ["localdocker", "remotedocker"])
def test_project_and_script_can_have_any_name(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    odd = 'it\'s "$(touch hacked)" `x`,\n;&|*?é \\'
    if kind == "remotedocker":
        request.getfixturevalue("gpubox_engine")
        request.getfixturevalue("ssh_folder")
        compute = {"address": request.getfixturevalue("gpubox").address, "username": "research"}
    else:
        request.getfixturevalue("engine")
        compute = {"nativeSharedDirectory": str(tmp_path / "share")}
    project = DockerProject(tmp_path / odd, type=kind, **compute)
    script = project.script("""
        import os, sys
        open("outputs/" + sys.argv[1], "w").write("made")
        print(ascii((sys.argv, os.environ["ODD"], os.path.exists("hacked"), os.listdir("/azureml-share"))))
    """, f"-{odd}.py")  # fmt: skip
    for tracked in (True, False):
        project.runconfig(EnvironmentVariables={"ODD": odd}, TrackedRun=tracked)
        (project.root / "outputs").mkdir(exist_ok=True)
        run = project.ended(project.runs.submit(RunRequest("docker", script, (odd,))))
        assert log(run) == f"{([f'./-{odd}.py', odd], odd, False, [])!a}\n", run
        where = project.root if kind == "localdocker" and not tracked else Path(run.directory)
        assert (where / "outputs" / odd).read_text() == "made"


def test_long_output_survives_three_lost_connections(project: DockerProject, gpubox: Machine) -> None:
    run = project.submit("""
        import time
        for number in range(100_000):
            print(f"line {number} " + "x" * (number % 40))
            if number % 2_000 == 0:
                time.sleep(0.05)
    """)
    for text in ("line 10000 ", "line 40000 ", "line 70000 "):
        project.until(run, text)
        gpubox.kill_connections()
    ended = project.ended(run)
    assert ended.state == "completed", ended
    expected = "".join(f"line {number} " + "x" * (number % 40) + "\n" for number in range(100_000))
    assert log(run) == expected


def test_run_is_unknown_while_its_machine_is_unreachable(project: DockerProject, gpubox: Machine) -> None:
    run = project.submit("""
        import os, time
        print("began", flush=True)
        while not os.path.exists("/azureml-share/go"):
            time.sleep(0.01)
        print("ended")
        open("outputs/model", "w").write("weights")
    """)
    project.until(run, "began")
    gpubox.stop_sshd()
    try:
        wait_until(lambda: project.get(run).state == "unknown")
        unknown = project.get(run)
        assert unknown.is_active
        assert "unreachable since" in unknown.reason
        wait_until(lambda: "nothing listens on port 22" in project.get(run).reason)
        assert "Docker" not in project.get(run).reason
        (gpubox.home() / ".azureml/share/project/go").touch()
    finally:
        gpubox.start_sshd()
    ended = project.ended(run)
    assert (ended.state, ended.exit_code) == ("completed", 0)
    assert log(run) == "began\nended\n"
    assert Path(run.directory, "outputs/model").read_text() == "weights"
    (gpubox.home() / ".azureml/share/project/go").unlink()


def test_waiting_for_a_machine_ends_if_the_project_is_deleted(
    project: DockerProject, gpubox: Machine, gpubox_engine: DockerEngine
) -> None:
    run = project.submit('print("began", flush=True); import time; time.sleep(600)')
    project.until(run, "began")
    gpubox.stop_sshd()
    try:
        wait_until(lambda: project.get(run).state == "unknown")
        controller = controller_of(run)
        assert controller > 0

        def is_removed() -> bool:
            shutil.rmtree(project.root, ignore_errors=True)
            return not project.root.exists()

        wait_until(is_removed)  # the controller may make a file in it at the same moment
        wait_until(lambda: process_stat(controller)[0] in ("", "Z"))
    finally:
        gpubox.start_sshd()
    gpubox_engine.docker("rm", "--force", container_name(run.run_id))


def test_run_fails_at_once_if_its_machine_was_never_reached(project: DockerProject, gpubox: Machine) -> None:
    gpubox.stop_sshd()
    try:
        run = project.run("print(1)")
    finally:
        gpubox.start_sshd()
    assert run.state == "failed"
    assert "gpubox" in run.reason or "docker" in run.reason


def test_run_is_canceled_when_its_machine_is_reachable_again(project: DockerProject, gpubox: Machine) -> None:
    run = project.submit('print("began", flush=True); import time; time.sleep(600)')
    project.until(run, "began")
    kill_controller(project, run)
    gpubox.kill_connections()
    assert project.runs.cancel(run.run_id).state == "canceled"


def test_missing_permission_for_docker_is_reported_with_a_fix(project: DockerProject, gpubox: Machine) -> None:
    project.compute(type="remotedocker", address=gpubox.address, username="outsider")
    run = project.run("print(1)")
    assert run.state == "failed"
    assert "has no permission to use Docker" in run.reason
    assert "usermod -aG docker outsider" in run.reason


def test_removed_remote_run_folder_is_reported(project: DockerProject, gpubox: Machine) -> None:
    run = project.submit("""
        import os, time
        print("began", flush=True)
        while os.stat("/workbench/run/pid").st_nlink:
            time.sleep(0.01)
        time.sleep(0.2)
    """)
    project.until(run, "began")
    shutil.rmtree(gpubox.home() / ".workbench-tui/runs" / run.run_id)
    ended = project.ended(run)
    assert ended.state in ("completed", "failed", "unknown")
    assert log(run).startswith("began")


def test_full_remote_disk_is_reported(project: DockerProject, gpubox: Machine) -> None:
    folder = gpubox.home() / ".workbench-tui"
    gpubox.run(["sh", "-c", "mkdir -p /home/research/.workbench-tui && mount -t tmpfs -o size=200k,uid=2001,gid=2001 "
                "tmpfs /home/research/.workbench-tui"])  # fmt: skip
    try:
        (project.root / "large.bin").write_bytes(os.urandom(1 << 20))
        run = project.run("print(1)")
    finally:
        gpubox.run(["umount", "--lazy", "/home/research/.workbench-tui"])
        shutil.rmtree(folder, ignore_errors=True)
    assert run.state == "failed"
    assert "full" in run.reason or "No space left" in run.reason


def test_script_that_fills_the_remote_disk_is_reported(project: DockerProject, gpubox: Machine) -> None:
    gpubox.run(["sh", "-c", "mkdir -p /home/research/.workbench-tui && mount -t tmpfs -o size=2m,uid=2001,gid=2001 "
                "tmpfs /home/research/.workbench-tui"])  # fmt: skip
    try:
        run = project.run("""
            with open("outputs/checkpoint", "wb", buffering=0) as file:
                while True:
                    file.write(bytes(1 << 14))
        """)
    finally:
        gpubox.run(["umount", "--lazy", "/home/research/.workbench-tui"])
    assert (run.state, run.exit_code) == ("failed", 1)
    assert "is full" in run.reason


def test_project_is_copied_into_a_container_without_volumes(project: DockerProject, gpubox: Machine) -> None:
    project.compute(type="remotedocker", address=gpubox.address, username="research", sharedVolumes=False)
    (project.root / "data.txt").write_text("data")
    run = project.run("""
        import os
        print(os.getcwd(), os.getuid(), open("data.txt").read())
        open("outputs/model", "w").write("weights")
    """)
    assert log(run) == "/workbench/project 2001 data\n", run
    assert Path(run.directory, "outputs/model").read_text() == "weights"


def test_runs_are_adopted_on_another_computer(
    project: DockerProject, tmp_path: Path, gpubox: Machine, gpubox_engine: DockerEngine
) -> None:
    from tui_workbench.runs.lifecycle.adoption import adopt_runs

    running = project.submit("""
        import os, time
        print("began", flush=True)
        while not os.path.exists("/azureml-share/go"):
            time.sleep(0.01)
        open("outputs/model", "w").write("weights")
        raise SystemExit(4)
    """)
    project.until(running, "began")
    done = project.run('open("outputs/other", "w").write("more"); print("done")')
    laptop = DockerProject(
        tmp_path / "laptop" / "project", type="remotedocker", address=gpubox.address, username="research"
    )
    adopted = adopt_runs(laptop.runs.project, "docker")
    assert sorted(adopted) == sorted([running.run_id, done.run_id])
    assert adopt_runs(laptop.runs.project, "docker") == []
    laptop.runs.resume()
    there = laptop.runs.directory(done.run_id).run()
    wait_until(lambda: not laptop.get(there).is_active)
    assert laptop.get(there).state == "completed"
    assert log(laptop.get(there)) == "done\n"
    assert Path(laptop.get(there).directory, "outputs/other").read_text() == "more"
    followed = laptop.runs.directory(running.run_id).run()
    wait_until(lambda: log(laptop.get(followed)) == "began\n")
    (gpubox.home() / ".azureml/share/project/go").touch()
    for one, run in ((project, running), (laptop, followed)):
        ended = one.ended(run)
        assert (ended.state, ended.exit_code, ended.reason) == ("failed", 4, "exit code 4")
        assert Path(ended.directory, "outputs/model").read_text() == "weights"
    assert gpubox_engine.containers() == []
    (gpubox.home() / ".azureml/share/project/go").unlink()


def test_clean_removes_only_files_of_runs(project: DockerProject, gpubox: Machine, gpubox_engine: DockerEngine) -> None:
    from tui_workbench.runs.cleanup import Cleanup

    ended = project.run("print(1)")
    running = project.submit('print("began", flush=True); import time; time.sleep(600)')
    project.until(running, "began")
    gpubox_engine.docker("create", "--name", "stranger", PYTHON_IMAGE, "sh")
    gpubox_engine.docker("create", "--name", "probe", "--label", f"{KIND_LABEL}={PROBE_KIND}", PYTHON_IMAGE, "sh")
    foreign = gpubox.home() / ".workbench-tui/runs/other_1"
    foreign.mkdir()
    (foreign / "run.json").write_text('{"project": "other"}')
    cleaning = Cleanup(project.runs)
    found = cleaning.find()
    kinds = {(each.item.kind, each.item.name) for each in found if each.item}
    assert ("run", ended.run_id) in kinds
    assert not any(name in (running.run_id, "other_1", "stranger") for _, name in kinds)
    ssh_host_of(project.runs.project.target("docker")).disconnect()  # as after ten minutes without a request
    assert all(not cleaning.remove(each).problem for each in found)
    assert not (gpubox.home() / ".workbench-tui/runs" / ended.run_id).exists()
    assert foreign.exists()
    assert set(gpubox_engine.containers()) == {"stranger", container_name(running.run_id)}
    assert project.runs.cancel(running.run_id).state == "canceled"


def test_environment_is_built_without_access_to_the_index(
    project: DockerProject, gpubox: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in list(os.environ):
        if name.startswith(("PIP_", "UV_")):
            monkeypatch.delenv(name)
    with package_index(tmp_path / "index", "127.0.0.1") as index:
        monkeypatch.setenv("PIP_INDEX_URL", index.url)
        index.add("tinylib", "1.0")
        wheels = project.root / "wheels"
        wheels.mkdir()
        make_wheel(wheels, "ours", "2.0", ["tinylib"])
        project.packages("wheels/ours-2.0-py3-none-any.whl")
        script = "import ours, tinylib; print(ours.VERSION, tinylib.VERSION)"
        first, again = project.run(script), project.run(script)
    said = Path(first.directory, "preparation.log").read_text()
    assert log(first) == "2.0 1.0\n", said
    assert "cannot reach the package index" in said
    assert log(again) == "2.0 1.0\n"
    assert "step 1/1" not in Path(again.directory, "preparation.log").read_text()


def test_run_completes_without_ssh_forwarding(project: DockerProject, gpubox: Machine) -> None:
    with gpubox.configured("DisableForwarding yes"):
        run = project.run("print('ran'); raise SystemExit(3)")
        assert (run.state, run.exit_code, log(run)) == ("failed", 3, "ran\n")


def test_plan_shows_the_files_to_send(project: DockerProject) -> None:
    (project.root / "large.bin").write_bytes(bytes(3_000_000))
    project.script("print(1)")
    Workbench(project.root).contact("docker")

    def title() -> str:
        plan, unknown = project.runs.plan_details(RunRequest("docker", "train.py"))
        step = plan.step("sync")
        assert step is not None
        assert not unknown
        return step.title

    assert "large.bin" in title()
    project.run("print(1)")
    assert "large.bin" not in title()


def test_plan_reports_an_unreachable_machine(project: DockerProject, gpubox: Machine) -> None:
    project.script("print(1)")
    Workbench(project.root).contact("docker")
    gpubox.stop_sshd()
    try:
        plan, unknown = project.runs.plan_details(RunRequest("docker", "train.py"))
    finally:
        gpubox.start_sshd()
    assert plan.step("start") is not None
    assert unknown


def test_restart_of_the_machine_is_reported(
    project: DockerProject, gpubox: Machine, gpubox_engine: DockerEngine
) -> None:
    run = project.submit('print("began", flush=True); import time; time.sleep(600)')
    project.until(run, "began")
    gpubox_engine.stop(signal.SIGKILL)
    gpubox.reboot()
    gpubox_engine.start()
    ended = project.ended(run)
    assert ended.state == "unknown"
    assert "was restarted during the run" in ended.reason
    assert log(run) == "began\n"
