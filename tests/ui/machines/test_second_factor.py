"""Questions of servers on the screens for machines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.machines import fingerprint
from tests.second_factor import KEY_AND_CODE, AskingServer, asking, code
from tests.ui.machines.test_machine import back, check_box, done, files, fill_in, machine_screen, type_text
from tests.ui.main.test_main import opened, seen
from tests.ui.waiting import until
from tui_workbench.targets.ssh.login_secrets import ssh_host_of
from tui_workbench.targets.ssh.ssh_client import MOST_ROUNDS
from tui_workbench.ui.machines.machine import Phase

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from tests.machines import Machine
    from tests.second_factor import Codes
    from tui_workbench.core.model import Run
    from tui_workbench.projects.project import Project

    Workbench = Pilot[list[Run]]


def attached(project: Project, address: str, *machines: Machine) -> None:
    """Add the target `box` to the project, and accept the host keys of the machines."""
    Path(project.config_directory, "box.compute").write_text(f"type: remote\naddress: {address}\n")
    Path(project.config_directory, "box.runconfig").write_text("Target: box\nFramework: Python\n")
    for each in machines:
        ssh_host_of(project.target("box")).accept_host_key(fingerprint(each.folder / "host_key.pub"))


async def answer(pilot: Workbench, question: str, text: str) -> None:
    """Wait for a question on the screen, and answer it."""
    await until(lambda: machine_screen(pilot).view.phase is Phase.ASKING and question in seen(pilot))
    await type_text(pilot, text)
    assert text not in seen(pilot)
    await pilot.press("enter")


@pytest.mark.usefixtures("ssh_folder")
async def test_code_of_a_second_factor_is_asked_for(project: Project, gpubox: Machine, codes: Codes) -> None:
    with codes(KEY_AND_CODE):
        async with opened(project) as pilot:
            await fill_in(pilot, gpubox, kind=1)
            await pilot.press("enter")
            await until(lambda: "The server asks for: One-time password" in seen(pilot))
            assert files(project) == []
            await type_text(pilot, code(0))
            assert code(0) not in seen(pilot)
            await pilot.press("enter")
            assert "box is ready." in await done(pilot)
            await back(pilot)
            ssh_host_of(project.target("box")).disconnect()
            await check_box(pilot)
            await until(lambda: "The server asks for: One-time password" in seen(pilot))
            await type_text(pilot, code(1))
            await pilot.press("enter")
            assert "box is ready." in await done(pilot)
        ssh_host_of(project.target("box")).disconnect()


async def test_jump_host_and_target_are_named_in_their_questions(
    project: Project, gpubox: Machine, bastion: Machine, codes: Codes
) -> None:
    attached(project, "inner", gpubox, bastion)
    with codes(KEY_AND_CODE), asking(bastion, KEY_AND_CODE):
        async with opened(project) as pilot:
            await check_box(pilot)
            await answer(pilot, f"research on jump host {bastion.address}: One-time", code(0))
            await answer(pilot, "research on inner: One-time", code(0))
            assert "logged in as research" in await done(pilot)
        ssh_host_of(project.target("box")).disconnect()


async def test_wrong_codes_are_the_reason_until_the_check_is_repeated(
    project: Project, gpubox: Machine, bastion: Machine
) -> None:
    attached(project, "inner", gpubox, bastion)
    with asking(bastion, KEY_AND_CODE):
        async with opened(project) as pilot:
            await check_box(pilot)
            for _ in range(MOST_ROUNDS):
                await answer(pilot, f"research on jump host {bastion.address}: One-time", "000000")
            shown = " ".join((await done(pilot)).replace("│", "").split())
            assert f"jump host {bastion.address}: the server refused the answers to its questions" in shown
            await pilot.press("r")
            await answer(pilot, f"research on jump host {bastion.address}: One-time", code(0))
            assert "logged in as research" in await done(pilot)
        ssh_host_of(project.target("box")).disconnect()


@pytest.mark.usefixtures("ssh_folder")
async def test_hostile_prompts_are_text(project: Project, home: Path) -> None:
    prompts = [("\x1b[2J\x1b]0;title\x07[red]code[/red] \u202e of bank: " + "x" * 50_000 + " now? ", True)]
    with AskingServer(prompts) as server:
        (home / ".ssh" / "known_hosts").write_text(server.known_hosts_line)
        attached(project, server.address)
        async with opened(project) as pilot:
            await check_box(pilot)
            await until(
                lambda: machine_screen(pilot).view.phase is Phase.ASKING and "The server asks for" in seen(pilot)
            )
            assert "␛[2J␛]0;title␇[red]code[/red] <U+202E> of bank: xxx" in seen(pilot)
            assert "xxx now?" in seen(pilot)
            assert not {"\x1b", "\u202e"} & set(seen(pilot))
        ssh_host_of(project.target("box")).disconnect()
