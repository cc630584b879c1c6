"""Runs in containers of a real engine: the script's environment, kept files, cancel and failures."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.engines import BARE_IMAGE, EMPTY_IMAGE, PYTHON_IMAGE, NvidiaStandIn, docker_engine
from tests.faults.support import kill_controller
from tests.gpu.standin_amd import AmdStandin, gpu
from tests.gpu.standin_amd import amd as amd
from tests.targets.docker_project import DockerProject, controller_of, events, log
from tests.waiting import wait_until
from tui_workbench.config.loading import load_compute
from tui_workbench.core.directories import user_cache_directory
from tui_workbench.core.model import RunRequest
from tui_workbench.targets.docker import gpu_access
from tui_workbench.targets.docker.container import container_name, start_failure
from tui_workbench.targets.docker.engine import Engine, EngineRefused
from tui_workbench.targets.docker.gpu_access import GpuAccess
from tui_workbench.targets.docker.image_probe import FORM, probe
from tui_workbench.targets.gpu.framework_location import spec_of
from tui_workbench.targets.gpu.vendors import AMD
from tui_workbench.targets.registry import target_for

if TYPE_CHECKING:
    from tests.engines import DockerEngine


@pytest.fixture
def project(tmp_path: Path, engine: DockerEngine) -> DockerProject:
    return DockerProject(tmp_path / "my project", nativeSharedDirectory=str(tmp_path / "share"))


SEES = """
    import json, os, sys
    print(json.dumps({"argv": sys.argv, "cwd": os.getcwd(), "env": dict(os.environ), "uid": os.getuid(),
                      "files": sorted(os.listdir(".")), "share": os.listdir("/azureml-share")}))
"""
WRITES = """
    open("outputs/model.bin", "w").write(open("ignored/set").read())
    open("notes.txt", "w").write("other")
    os.mkdir("outputs/deep")
    os.symlink("/etc/passwd", "outputs/link")
"""


def test_script_runs_in_a_working_copy(project: DockerProject, engine: DockerEngine, tmp_path: Path) -> None:
    (project.root / "data.txt").write_text("data")
    (project.root / ".gitignore").write_text("ignored/\n")
    (project.root / "ignored").mkdir()
    (project.root / "ignored" / "set").write_text("large")
    share = tmp_path / "share" / "my project"
    share.mkdir(parents=True)
    (share / "dataset").touch()
    run = project.run(SEES + WRITES, "one", "two words")
    assert (run.state, run.exit_code) == ("completed", 0), (run, log(run))
    seen = json.loads(log(run))
    assert seen["argv"] == ["train.py", "one", "two words"]
    assert seen["cwd"] == "/workbench/run/work"
    assert seen["files"] == [".gitignore", "aml_config", "data.txt", "ignored", "outputs", "train.py"]
    assert seen["uid"] == os.getuid()
    assert seen["env"]["AZUREML_RUN_ID"] == run.run_id
    assert seen["share"] == ["dataset"]
    assert seen["env"]["AZUREML_NATIVE_SHARE_DIRECTORY"] == "/azureml-share/"
    kept = Path(run.directory)
    assert (kept / "outputs/model.bin").read_text() == "large"
    assert (kept / "outputs/deep").is_dir()
    assert (kept / "work/notes.txt").read_text() == "other"
    assert not (kept / "work/train.py").exists()
    assert engine.containers() == []


def test_untracked_run_works_in_the_project(project: DockerProject) -> None:
    project.runconfig(TrackedRun=False)
    run = project.run('open("made", "w").write("here"); raise ValueError("bad shape")')
    assert (run.state, run.exit_code, run.reason) == ("failed", 1, "ValueError: bad shape (exit code 1)")
    assert (project.root / "made").read_text() == "here"


@pytest.mark.parametrize("tracked", [True, False])
def test_without_shared_volumes_the_project_is_copied(project: DockerProject, tmp_path: Path, *, tracked: bool) -> None:
    (tmp_path / "share" / "my project").mkdir(parents=True)
    (tmp_path / "share" / "my project" / "dataset").touch()
    project.compute(sharedVolumes=False, nativeSharedDirectory=str(tmp_path / "share"))
    project.runconfig(TrackedRun=tracked)
    (project.root / "data.txt").write_text("data")
    run = project.run("""
        import os
        print(os.getcwd(), open("data.txt").read(), *os.listdir("/azureml-share"))
        os.makedirs("outputs", exist_ok=True)
        open("outputs/model", "w").write("weights")
        open("data.txt", "w").write("changed")
        open("beside", "w").write("kept")
    """)
    assert log(run) == "/workbench/project data dataset\n"
    assert run.state == "completed", (run, log(run))
    assert Path(run.directory, "outputs/model").read_text() == "weights"
    assert (project.root / "data.txt").read_text() == "data"
    assert not (project.root / "beside").exists()
    assert Path(run.directory, "work/beside").read_text() == "kept"
    assert Path(run.directory, "work/data.txt").read_text() == "changed"
    assert sorted(os.listdir(Path(run.directory, "work"))) == ["beside", "data.txt"]


def test_container_is_kept_if_collecting_fails(project: DockerProject, engine: DockerEngine) -> None:
    project.compute(sharedVolumes=False)
    run = project.submit("""
        import os, time
        print("began", flush=True)
        while not os.path.getsize("/workbench/run/metrics.jsonl"):
            time.sleep(0.01)
        os.makedirs("outputs", exist_ok=True)
        open("outputs/model", "w").write("weights")
    """)
    project.until(run, "began")
    Path(run.directory, "made").touch()  # blocks extraction
    Path(run.directory, "metrics.jsonl").write_text("{}\n")
    ended = project.ended(run)
    assert ended.state == "completed"
    assert ended.lacks_outputs
    assert engine.containers() == [container_name(run.run_id)]
    assert engine.docker("cp", f"{container_name(run.run_id)}:/workbench/project/outputs/model", "-")


def test_paused_container_with_labels_can_be_canceled(project: DockerProject, engine: DockerEngine) -> None:
    run = project.submit('print(open("/proc/mounts").read(), flush=True); import time; time.sleep(600)')
    project.until(run, "/dev/shm")
    found = json.loads(engine.docker("inspect", container_name(run.run_id)))[0]
    assert found["Config"]["Labels"]["workbench-tui.run"] == run.run_id
    assert found["Config"]["Labels"]["workbench-tui.project"] == "my project"
    assert found["HostConfig"]["Init"] is True
    assert found["HostConfig"]["ShmSize"] >= 2 << 30
    assert found["HostConfig"]["Privileged"] is False
    engine.docker("pause", container_name(run.run_id))
    assert project.runs.cancel(run.run_id).state == "canceled"


def test_cancel_removes_the_container(project: DockerProject, engine: DockerEngine) -> None:
    run = project.submit("""
        import signal, sys, time
        signal.signal(signal.SIGTERM, lambda *_: (print("asked"), open("outputs/last", "w").close(), sys.exit(3)))
        print("began", flush=True)
        time.sleep(600)
    """)
    project.until(run, "began")
    ended = project.runs.cancel(run.run_id, grace=30)
    assert engine.containers() == []
    assert (ended.state, ended.reason) == ("canceled", "canceled")
    assert log(run) == "began\nasked\n"
    assert Path(run.directory, "outputs/last").exists()


def test_cancel_before_the_script_starts(project: DockerProject, engine: DockerEngine) -> None:
    run = project.submit("import time; time.sleep(600)")
    assert project.runs.cancel(run.run_id).state == "canceled"
    assert engine.containers() == []


def test_cancel_kills_processes_that_ignore_sigterm(project: DockerProject) -> None:
    run = project.submit("""
        import signal, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("began", flush=True)
        time.sleep(600)
    """)
    project.until(run, "began")
    assert "killed" in project.runs.cancel(run.run_id, grace=0.1).reason


# Each kind of failure has a reason with a remedy.


def test_out_of_memory_is_reported(project: DockerProject, engine: DockerEngine) -> None:
    run = project.submit("""
        import os, time
        print("began", flush=True)
        while not os.path.getsize("/workbench/run/metrics.jsonl"):
            time.sleep(0.01)
        block = bytearray(os.urandom(1) * (512 << 20))
    """)
    project.until(run, "began")
    engine.docker("update", "--memory", "64m", "--memory-swap", "64m", container_name(run.run_id))
    Path(run.directory, "metrics.jsonl").write_text("{}\n")
    ended = project.ended(run)
    assert (ended.state, ended.exit_code) == ("failed", 137)
    assert "out of memory" in ended.reason


def test_stopping_the_container_reaches_the_script(project: DockerProject, engine: DockerEngine) -> None:
    run = project.submit("""
        import os, signal, sys, time
        signal.signal(signal.SIGTERM, lambda *_: (print("saved"), sys.exit(0)))
        print("began", flush=True)
        time.sleep(600)
    """)
    project.until(run, "began")
    engine.docker("stop", "--time", "60", container_name(run.run_id))
    assert log(project.ended(run)) == "began\nsaved\n"


def test_killed_or_removed_container_is_reported(project: DockerProject, engine: DockerEngine) -> None:
    script = 'print("began", flush=True); import time; time.sleep(600)'
    killed, removed = project.submit(script), project.submit(script)
    project.until(killed, "began")
    project.until(removed, "began")
    engine.docker("kill", container_name(killed.run_id))
    engine.docker("rm", "--force", container_name(removed.run_id))
    ended = project.ended(killed)
    assert (ended.state, ended.exit_code) == ("failed", 137)
    assert "was killed, by another program or for lack of memory" in ended.reason
    ended = project.ended(removed)
    assert (ended.state, ended.exit_code) == ("failed", None)
    assert "was removed by another program" in ended.reason


def test_missing_image_is_reported_with_its_line(project: DockerProject) -> None:
    project.compute(baseDockerImage="registry.invalid/no/such:image")
    run = project.run("print(1)")
    assert run.state == "failed"
    assert "docker.compute:2" in run.reason
    assert "registry.invalid/no/such:image is not on this machine and cannot be pulled" in run.reason


def test_image_without_python_is_reported(project: DockerProject) -> None:
    project.compute(baseDockerImage=EMPTY_IMAGE)
    run = project.run("print(1)")
    assert run.state == "failed"
    assert f"the image {EMPTY_IMAGE} has no Python" in run.reason


@pytest.mark.parametrize(
    ("image", "change", "reason"),
    [
        ("tests/user:1", "USER stranger", "unable to find user stranger"),
        ("tests/home:1", "ENV PYTHONHOME=/nowhere", "No module named 'encodings'"),
    ],
)
def test_reason_why_python_of_an_image_does_not_start_is_reported(
    project: DockerProject, engine: DockerEngine, image: str, change: str, reason: str
) -> None:
    container = engine.docker("create", PYTHON_IMAGE, "true")
    engine.docker("commit", "--change", change, container, image)
    engine.docker("rm", container)
    project.compute(baseDockerImage=image)
    run = project.run("print(1)")
    assert run.state == "failed"
    assert f"Python of the image {image} cannot be started: " in run.reason
    assert reason in run.reason


def test_image_for_another_architecture_is_reported(
    project: DockerProject, engine: DockerEngine, tmp_path: Path
) -> None:
    with tarfile.open(tmp_path / "layer.tar", "w") as layer:
        layer.addfile(tarfile.TarInfo("empty"))
    digest = hashlib.sha256((tmp_path / "layer.tar").read_bytes()).hexdigest()
    layers = {"type": "layers", "diff_ids": [f"sha256:{digest}"]}
    image = {"architecture": "s390x", "os": "linux", "config": {"Cmd": ["sh"]}, "rootfs": layers}
    (tmp_path / "image.json").write_text(json.dumps(image))
    manifest = [{"Config": "image.json", "RepoTags": ["tests/mainframe:1"], "Layers": ["layer.tar"]}]
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with tarfile.open(tmp_path / "image.tar", "w") as archive:
        for name in ("layer.tar", "image.json", "manifest.json"):
            archive.add(tmp_path / name, name)
    engine.docker("load", "--input", str(tmp_path / "image.tar"))
    # Its facts are cached from a machine of its architecture.
    known = {"python": "/usr/bin/python3", "version": "3.11.2", "machine": "s390x", "libc": ["glibc", "2.36"],
             "conda": "", "uv": "", "shell": True, "packages": []}  # fmt: skip
    cache = Path(user_cache_directory(), "images")
    cache.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256((tmp_path / "image.json").read_bytes()).hexdigest()
    (cache / f"{digest}-{FORM}.json").write_text(json.dumps(known))
    project.compute(baseDockerImage="tests/mainframe:1")
    run = project.run("print(1)")
    engine.docker("rmi", "tests/mainframe:1")
    assert run.state == "failed"
    assert "the image tests/mainframe:1 is for s390x, but the machine is " in run.reason


def test_missing_nvidia_runtime_is_reported(project: DockerProject, engine: DockerEngine) -> None:
    project.compute(nvidiaDocker=True)
    run = project.run("print(1)")
    assert run.state == "failed"
    assert "the NVIDIA runtime is missing" in run.reason
    assert "NVIDIA Container Toolkit" in run.reason
    assert engine.containers() == []


def test_container_gets_device_files_and_groups_for_amd(engine: DockerEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    access = GpuAccess(AMD, ("44", "109"))
    connected = Engine(str(engine.socket), "this machine")
    image = connected.image(PYTHON_IMAGE)
    assert image is not None
    if not os.path.exists("/dev/kfd"):
        with pytest.raises(EngineRefused) as refused:
            probe(connected, image.id, access.check, {}, access.host_config(()))
        message, _ = start_failure(refused.value, host="box", image=PYTHON_IMAGE)
        assert message.startswith("the Docker engine on box cannot give the GPUs to a container: ")
    # Other device files, because this machine has no AMD GPU.
    monkeypatch.setattr(gpu_access, "KFD", "/dev/null")
    monkeypatch.setattr(gpu_access, "DRI", "/dev/net")
    text, code = probe(connected, image.id, ["sh", "-c", "id -G; ls /dev/net"], {}, access.host_config(()))
    assert (text.decode().split(), code) == (["0", "44", "109", "tun"], 0)


def test_check_in_a_container_uses_the_named_gpus_of_a_run(project: DockerProject, amd: AmdStandin) -> None:
    amd.write(gpu(0, hip=1), gpu(1, hip=0))
    project.compute(gpus=[1])
    target = load_compute(str(project.configuration / "docker.compute"))
    assert target_for(target).python_environment(spec_of(target)).framework_location().variables == {
        "HIP_VISIBLE_DEVICES": "0"
    }


def test_image_without_spark_fails_the_run_before_its_start(project: DockerProject) -> None:
    project.runconfig(Framework="PySpark")
    run = project.run("print(1)")
    assert (run.state, run.start) == ("failed", 0.0)
    assert "Framework is PySpark, but" in run.reason
    assert "does not have Spark" in run.reason
    assert "spark:python3" in run.reason


def test_missing_engine_fails_the_run(project: DockerProject, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    run = project.run("print(1)")
    assert run.state == "failed"
    assert "DOCKER_HOST" in run.reason


@pytest.mark.docker
def test_gpus_are_requested_and_driver_errors_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stand-in for NVIDIA's hook, which records the request."""
    folder = tmp_path / "hook"
    folder.mkdir()
    stand_in = NvidiaStandIn(folder)
    with docker_engine(environment=stand_in.environment) as engine:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{engine.socket}")
        project = DockerProject(tmp_path / "project", nvidiaDocker=True, nativeSharedDirectory=str(tmp_path / "share"))
        run = project.run('print(open("/stand-in-gpus").read())')
        assert log(run) == "all\n", run
        assert stand_in.requests == ["all"]
        stand_in.break_driver()
        run = project.run("print(1)")
        assert run.state == "failed"
        assert "nvidia" in run.reason.lower()
        project.compute(nativeSharedDirectory=str(tmp_path / "share"))
        run = project.run('import os; print(os.path.exists("/stand-in-gpus"))')
        assert log(run) == "False\n"


@pytest.mark.docker
def test_engine_restart_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with docker_engine(options=["--shutdown-timeout", "1"]) as engine:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{engine.socket}")
        project = DockerProject(tmp_path / "project", nativeSharedDirectory=str(tmp_path / "share"))
        for number in (signal.SIGTERM, signal.SIGKILL):
            run = project.submit('print("began", flush=True); import time; time.sleep(600)')
            project.until(run, "began")
            engine.stop(number)
            wait_until(lambda run=run: project.get(run).state == "unknown")  # type: ignore[misc]
            assert "unreachable since" in project.get(run).reason
            engine.start()
            ended = project.ended(run)
            assert "the Docker engine on this machine was restarted" in ended.reason
            assert engine.containers() == []
            assert log(run) == "began\n"


@pytest.mark.docker
def test_run_survives_an_engine_restart_with_live_restore(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with docker_engine(options=["--live-restore"], images=[PYTHON_IMAGE, BARE_IMAGE]) as engine:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{engine.socket}")
        for image in (PYTHON_IMAGE, BARE_IMAGE):
            share = tmp_path / image[-6:-2]
            project = DockerProject(share / "project", nativeSharedDirectory=str(share), baseDockerImage=image)
            run = project.submit("""
                import os, time
                print("began", flush=True)
                while not os.path.getsize("/workbench/run/metrics.jsonl"):
                    time.sleep(0.01)
                print("ended")
                raise SystemExit(4)
            """)
            project.until(run, "began")
            engine.stop()
            wait_until(lambda project=project, run=run: project.get(run).state == "unknown")  # type: ignore[misc]
            if image == PYTHON_IMAGE:  # the engine itself loses output written while it is down
                Path(run.directory, "metrics.jsonl").write_text("{}\n")
            engine.start()
            Path(run.directory, "metrics.jsonl").write_text("{}\n")
            ended = project.ended(run)
            assert (ended.state, ended.exit_code, log(run)) == ("failed", 4, "began\nended\n"), ended


def test_run_survives_an_engine_that_does_not_answer(project: DockerProject, engine: DockerEngine) -> None:
    run = project.submit("""
        import os, time
        print("began", flush=True)
        while not os.path.getsize("/workbench/run/metrics.jsonl"):
            time.sleep(0.01)
        print("ended")
    """)
    project.until(run, "began")
    engine.pause()
    try:
        Path(run.directory, "metrics.jsonl").write_text("{}\n")
        wait_until(lambda: log(run) == "began\nended\n")
    finally:
        engine.resume()
    assert project.ended(run).state == "completed"


# Images without a shell: the output comes from the engine's log.


def test_log_of_shellless_image_survives_killed_controllers(tmp_path: Path, engine: DockerEngine) -> None:
    project = DockerProject(tmp_path / "p", baseDockerImage=BARE_IMAGE, nativeSharedDirectory=str(tmp_path / "share"))
    run = project.submit("""
        import sys, time
        for number in range(400):
            sys.stdout.write("%d " % number + "x" * (40_000 if number % 100 == 50 else 20) + "\\n")
            sys.stderr.write("error %d\\n" % number)
            sys.stdout.flush()
            time.sleep(0.005)
        sys.stdout.write("no newline")
        sys.exit(7)
    """)
    for text in ("\n40 ", "\n150 ", "\n300 "):
        project.until(run, text)
        kill_controller(Path(run.directory))
        wait_until(lambda: controller_of(run) == 0)
        project.runs.resume()
    ended = project.ended(run)
    assert (ended.state, ended.exit_code) == ("failed", 7)
    # The engine splits long lines, and records of stderr may come between the parts.
    out = re.sub(r"error \d+\n", "", log(run)).split("\n")
    assert out == [f"{n} " + "x" * (40_000 if n % 100 == 50 else 20) for n in range(400)] + ["no newline"]
    assert re.findall(r"error (\d+)\n", log(run)) == [str(n) for n in range(400)]


def test_plan_has_the_container_and_the_script(project: DockerProject) -> None:
    project.script("print(1)")
    plan = project.runs.plan(RunRequest("docker", "train.py", ("a b",)))
    assert [step.name for step in plan.steps] == [
        *("snapshot", "copy", "image", "container", "start", "follow", "collect", "remove")
    ]
    container, start = plan.step("container"), plan.step("start")
    assert container is not None
    assert container.command[:2] == ("docker", "run")
    assert container.command[-3:] == ("python", "train.py", "a b")
    assert start is not None
    assert start.directory == "/workbench/run/work"


def test_secrets_are_stored_only_in_the_log(project: DockerProject, home: Path) -> None:
    run = project.run("import sys; print(sys.argv[1:])", "--token", "hunter2", "--lr", "0.1")
    assert log(run) == "['--token', 'hunter2', '--lr', '0.1']\n"
    assert run.arguments == ("--token", "***", "--lr", "0.1")
    files = [path for folder in (home, Path(run.directory)) for path in folder.rglob("*") if path.is_file()]
    assert [path.name for path in files if b"hunter2" in path.read_bytes()] == ["output.log"]
    # The events of the run have its steps with their times.
    done = {event["step"]: event["seconds"] for event in events(run) if event.get("status") == "done"}
    assert {"prepare", "start", "fetch"} <= done.keys()
    assert project.states(run) == ["queued", "preparing", "running", "finalizing", "completed"]
