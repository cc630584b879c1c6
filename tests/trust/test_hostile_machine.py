"""Links in the files of a remote run are not followed, there or here."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from tests.targets.conftest import connections as connections
from tests.targets.conftest import gpubox as gpubox
from tests.targets.conftest import key as key
from tests.targets.conftest import ssh_folder as ssh_folder
from tests.targets.remote_project import Remote
from tests.targets.remote_project import box as box

PRECIOUS = "precious\n"


@pytest.fixture
def victim(box: Remote) -> Path:
    """Return a folder of the user on the machine, which must not be changed or copied to this machine."""
    folder = box.machine.home() / "victim"
    for name in ("file", "outputs/file", "__pycache__/file"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(PRECIOUS)
    box.machine.run(["chown", "-R", "research:", "/home/research/victim"])
    return folder


def contents(folder: Path) -> dict[str, str]:
    texts = {}
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # a temporary file of the run's controller
            if path.is_file():
                texts[str(path.relative_to(folder))] = path.read_text()
    return texts


def brought(folder: Path) -> list[str]:
    """Return the files and links in the run's directory on this machine that a script may have created."""
    found = [path for name in ("outputs", "work", "live") for path in (folder / name).rglob("*")]
    return sorted(str(path.relative_to(folder)) for path in found if path.is_symlink() or path.is_file())


ACTIONS = {
    "work": "os.rename(f'{run}/work', f'{run}/gone'); os.symlink(victim, f'{run}/work')",
    "outputs of work": "shutil.rmtree('outputs'); os.symlink(victim, 'outputs')",
    "outputs": "os.symlink(victim, f'{run}/outputs')",
    "a folder of work": "os.symlink(victim, 'folder')",
    "bytecode": "os.symlink(victim, '__pycache__')",
    "exit": "os.unlink(f'{run}/exit'); os.symlink(victim + '/file', f'{run}/exit')",
    "removed": "os.symlink(victim, f'{run}/removed')",
    "metrics": "os.symlink(victim + '/file', f'{run}/metrics.jsonl')",
}


@pytest.mark.parametrize("name", ACTIONS)
def test_link_in_a_remote_run_directory_is_not_followed(box: Remote, victim: Path, name: str) -> None:
    before = contents(victim)
    box.write(
        "import os, shutil\nrun, victim = os.path.dirname(os.getcwd()), os.path.expanduser('~/victim')\n"
        f"{ACTIONS[name]}\nprint('done')\n"
    )
    result = box.submit("train.py", configuration="box")
    assert "done" in result.out
    (directory,) = (box.folder / ".workbench" / "runs").glob("*_*")
    assert contents(victim) == before
    assert PRECIOUS not in contents(directory).values()
    assert brought(directory) == []


def test_only_links_that_stay_inside_are_fetched(box: Remote, victim: Path) -> None:
    box.write("""
import contextlib
import os
open("outputs/model", "w").write("weights")
os.symlink("model", "outputs/latest")
os.symlink("../../victim/file", "outputs/relative")
os.symlink(os.path.expanduser("~/victim"), "outputs/absolute")
os.symlink("/etc/passwd", "outputs/passwd")
""")
    result = box.submit("train.py", configuration="box")
    assert result.code == 0, result
    (directory,) = (box.folder / ".workbench" / "runs").glob("*_*")
    assert brought(directory) == ["outputs/latest", "outputs/model"]
    assert os.readlink(directory / "outputs" / "latest") == "model"
    events = (directory / "events.jsonl").read_text()
    for name in ("relative", "absolute", "passwd"):
        assert f"outputs/{name}" in events


def test_set_user_bit_is_removed(box: Remote) -> None:
    box.write("import os\nopen('outputs/tool', 'w').write('#!/bin/sh')\nos.chmod('outputs/tool', 0o6755)\n")
    assert box.submit("train.py", configuration="box").code == 0
    (tool,) = (box.folder / ".workbench" / "runs").glob("*_*/outputs/tool")
    assert tool.stat().st_mode & 0o7777 == 0o700


def test_run_directories_are_private_to_the_user(box: Remote) -> None:
    umask = box.machine.run(["su", "research", "-c", "umask"]).strip()
    box.write("import os\nprint('umask', oct(os.umask(0)))\nopen('outputs/model', 'w')\n")
    result = box.submit("train.py", configuration="box")
    assert f"umask {int(umask, 8):#o}" in result.out
    (here,) = (box.folder / ".workbench" / "runs").glob("*_*")
    for folder in (box.folder / ".workbench", here.parent, here, box.there().parent, box.there(), box.there(here.name)):
        assert folder.stat().st_mode & 0o077 == 0, folder
    files = [path for folder in (here, box.there(here.name)) for path in folder.iterdir() if path.is_file()]
    assert [path for path in files if path.stat().st_mode & 0o077] == []
    assert {"output.log", "run.json", "events.jsonl"} <= {path.name for path in files}
