"""Attaching and checking a real machine on the screens."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.machines import PASSWORD, Machine, fingerprint, make_key, secret_in_keyring
from tests.ui.main.test_main import NARROW, WIDE, make_app, opened, screen_of, seen
from tests.ui.seen import screen_lines
from tests.ui.waiting import until
from tui_workbench.targets.attaching.attach import Attachment, AttachRequest
from tui_workbench.targets.ssh.login_secrets import ssh_host_of
from tui_workbench.targets.ssh.workbench_key import workbench_key
from tui_workbench.ui.machines.machine import AttachScreen, CheckScreen, Phase

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from tui_workbench.core.model import Run
    from tui_workbench.projects.project import Project

    Workbench = Pilot[list[Run]]


def machine_screen(pilot: Workbench) -> AttachScreen | CheckScreen:
    screen = pilot.app.screen
    assert isinstance(screen, AttachScreen | CheckScreen)
    return screen


async def type_text(pilot: Workbench, text: str) -> None:
    await pilot.press(*("space" if character == " " else character for character in text))


async def form(pilot: Workbench) -> None:
    await pilot.press("2", "a")
    await until(lambda: isinstance(pilot.app.screen, AttachScreen))


async def fill_in(pilot: Workbench, gpubox: Machine, *, kind: int = 0, login: int = 0, name: str = "box") -> None:
    """Fill in the form for research on gpubox; `kind` and `login` are numbers of choices to advance."""
    await form(pilot)
    await pilot.press("up", *["right"] * kind, "down")
    await type_text(pilot, name)
    await pilot.press("down")
    await type_text(pilot, gpubox.address)
    await pilot.press("down")
    await type_text(pilot, "research")
    await pilot.press("down", *["right"] * login)


async def done(pilot: Workbench) -> str:
    """Wait for the end of the check and return the screen."""
    await until(lambda: machine_screen(pilot).view.phase is Phase.DONE)
    await pilot.pause()
    return seen(pilot)


async def back(pilot: Workbench) -> None:
    await pilot.press("escape")
    await until(lambda: pilot.app.screen is screen_of(pilot))


def files(project: Project) -> list[str]:
    return sorted(path.name for path in Path(project.config_directory).glob("box*"))


@pytest.mark.usefixtures("ssh_folder", "gpubox_engine")
@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_attaching_shows_every_check(project: Project, gpubox: Machine, size: tuple[int, int]) -> None:
    async with opened(project, size) as pilot:
        await fill_in(pilot, gpubox)
        await pilot.press("enter")
        text = await done(pilot)
        for check in ("✓ name", "✓ port", "✓ host key", "✓ login", "✓ docker", "✓ engine", "· gpu driver", "✓ clock"):
            assert check in text
        assert "box is ready." in text
        assert files(project) == ["box.compute", "box.runconfig"]
        await back(pilot)
        await until(lambda: f"box      Docker on {gpubox.address}" in seen(pilot) or "box ✓" in seen(pilot))
        await until(lambda: "box ✓" in seen(pilot))  # the header
        await until(lambda: screen_of(pilot).panes.run_bar.environment == "box")  # one key starts a run


@pytest.mark.slow
async def test_slurm_of_this_machine_is_attached_by_keys(project: Project) -> None:
    async with opened(project, NARROW) as pilot:
        await form(pilot)
        await pilot.press("up", "right", "right", "down")
        await type_text(pilot, "box")
        await pilot.press("down", "down", "down", "down")
        await type_text(pilot, "gpu")
        await pilot.press("enter")
        await until(lambda: files(project) == ["box.compute", "box.runconfig"])
        assert project.target("box").slurm == {"partition": "gpu"}
        await done(pilot)


@pytest.mark.usefixtures("ssh_folder", "gpubox_engine")
async def test_attaching_is_undone_in_one_step(project: Project, gpubox: Machine) -> None:
    async with opened(project) as pilot:
        await fill_in(pilot, gpubox)
        await pilot.press("enter")
        await done(pilot)
        await back(pilot)
        await pilot.press("ctrl+z")
        await until(lambda: files(project) == [])


@pytest.mark.usefixtures("known", "keyring")
async def test_wrong_password_is_asked_for_again(project: Project, gpubox: Machine) -> None:
    async with opened(project) as pilot:
        await fill_in(pilot, gpubox, kind=1, login=2)
        await pilot.press("down")
        await type_text(pilot, "wrong")
        assert "•••••" in seen(pilot)
        assert "wrong" not in seen(pilot)
        await pilot.press("enter")
        await until(lambda: "The password is wrong" in seen(pilot))
        assert files(project) == []
        await pilot.press("ctrl+u")
        await type_text(pilot, PASSWORD)
        assert PASSWORD not in seen(pilot)
        await pilot.press("enter")
        assert "The secret is in the keyring." in await done(pilot)
        reference = project.target("box").password
        assert secret_in_keyring(reference) == PASSWORD
        await back(pilot)
        await pilot.press("ctrl+z")
        await until(lambda: secret_in_keyring(reference) is None)
        assert files(project) == []


@pytest.mark.usefixtures("ssh_folder")
async def test_unknown_host_key_must_be_accepted(project: Project, gpubox: Machine, home: Path) -> None:
    known_hosts = home / ".ssh" / "known_hosts"
    known_hosts.write_text("")
    shown = fingerprint(gpubox.folder / "host_key.pub")
    async with opened(project) as pilot:
        await fill_in(pilot, gpubox, kind=1)
        await pilot.press("enter")
        await until(lambda: shown in seen(pilot))
        await pilot.press("n")
        await until(lambda: "nothing was written" in seen(pilot))
        assert (known_hosts.read_text(), files(project)) == ("", [])
        await pilot.press("enter")
        await until(lambda: machine_screen(pilot).view.phase is Phase.QUESTION)
        await pilot.press("y")
        await done(pilot)
        assert known_hosts.read_text().split() == gpubox.known_hosts_line.split()
        assert files(project) == ["box.compute", "box.runconfig"]


@pytest.mark.usefixtures("ssh_folder")
async def test_changed_host_key_is_refused(project: Project, gpubox: Machine, home: Path, tmp_path: Path) -> None:
    old = make_key(tmp_path / "old").with_suffix(".pub")
    (home / ".ssh" / "known_hosts").write_text(f"{gpubox.address} {old.read_text()}")
    async with opened(project) as pilot:
        await fill_in(pilot, gpubox, kind=1)
        await pilot.press("enter")
        await until(lambda: "THE HOST KEY CHANGED" in seen(pilot))
        assert machine_screen(pilot).view.phase is Phase.ASKING
        assert fingerprint(old) in seen(pilot)
        assert fingerprint(gpubox.folder / "host_key.pub") in seen(pilot)
        assert files(project) == []


@pytest.mark.usefixtures("ssh_folder")
async def test_invalid_name_is_reported_in_the_form(project: Project, gpubox: Machine) -> None:
    async with opened(project) as pilot:
        await fill_in(pilot, gpubox, name="local")
        await pilot.press("enter")
        await until(lambda: "already exists" in seen(pilot))
        assert machine_screen(pilot).view.phase is Phase.ASKING


@pytest.mark.usefixtures("known")
async def test_key_that_cannot_be_installed_is_shown_as_a_command(project: Project, gpubox: Machine) -> None:
    async with opened(project) as pilot:
        await fill_in(pilot, gpubox, kind=1, login=3)
        await pilot.press("enter")
        text = await done(pilot)
        assert "authorized_keys" in text
        assert "ssh-ed25519 " in text
        await pilot.press("c")
        assert pilot.app.clipboard == workbench_key().install_command
        await back(pilot)
        await until(lambda: "box ·" in seen(pilot))  # attached and unchecked


async def test_closing_the_form_writes_nothing(project: Project, connections: Path) -> None:
    async with opened(project) as pilot:
        await form(pilot)
        await type_text(pilot, "box")
        await back(pilot)
        assert files(project) == []


@pytest.mark.usefixtures("known")
async def test_closing_does_not_wait_for_the_machine(project: Project, gpubox: Machine) -> None:
    async with opened(project) as pilot:
        await fill_in(pilot, gpubox, kind=1, login=2)
        await pilot.press("down")
        await type_text(pilot, PASSWORD)
        with gpubox.cut_off():
            await pilot.press("enter")
            await until(lambda: machine_screen(pilot).view.phase is Phase.WORKING)
            await back(pilot)
        assert files(project) == []


# --- Checking


def attached(project: Project, gpubox: Machine, username: str = "research", *, password: bool = False) -> None:
    kind = "remote" if username == "research" else "remotedocker"
    attachment = Attachment(
        project.root, AttachRequest(kind, "box", gpubox.address, username, has_password=password, values={"gpu": "no"})
    )
    if password:
        attachment.give_password(PASSWORD)
    attachment.connect()
    attachment.write()


def rewrite(project: Project, old: str, new: str) -> None:
    path = Path(project.config_directory, "box.compute")
    path.write_text(path.read_text().replace(old, new))


async def check_box(pilot: Workbench) -> None:
    await pilot.press("2", "home", "t")
    await until(lambda: isinstance(pilot.app.screen, CheckScreen))


@pytest.mark.usefixtures("ssh_folder", "gpubox_engine")
async def test_failed_check_is_listed_until_fixed(project: Project, gpubox: Machine) -> None:
    attached(project, gpubox, "outsider")
    async with opened(project) as pilot:
        await check_box(pilot)
        text = await done(pilot)
        assert "✗ docker" in text
        assert "sudo usermod -aG docker outsider" in text
        assert "○" not in text  # checks after the failed one are not listed
        await pilot.press("c")
        assert pilot.app.clipboard == "sudo usermod -aG docker outsider"
        await back(pilot)
        await until(lambda: all(text in seen(pilot) for text in ("box ✗", "docker: the user outsider")))
        rewrite(project, "outsider", "research")
        await until(lambda: "box ·" in seen(pilot))
        await check_box(pilot)
        assert "box is ready." in await done(pilot)


@pytest.mark.usefixtures("known")
async def test_missing_password_is_asked_for_during_the_check(project: Project, gpubox: Machine) -> None:
    attached(project, gpubox, password=True)
    ssh_host_of(project.target("box")).disconnect()
    async with opened(project) as pilot:
        await check_box(pilot)
        await until(lambda: "Password of research" in seen(pilot))
        await type_text(pilot, PASSWORD)
        await pilot.press("enter")
        assert "box is ready." in await done(pilot)
        assert PASSWORD not in seen(pilot)


@pytest.mark.usefixtures("known")
async def test_password_row_appears_if_the_keys_are_refused(project: Project, gpubox: Machine) -> None:
    async with opened(project) as pilot:
        await fill_in(pilot, gpubox, kind=1)
        await pilot.press("enter")
        await until(lambda: "It accepts a password" in seen(pilot))
        assert files(project) == []
        await type_text(pilot, PASSWORD)
        assert PASSWORD not in seen(pilot)
        await pilot.press("enter")
        assert "box is ready." in await done(pilot)
        assert project.target("box").password


@pytest.mark.usefixtures("ssh_folder")
async def test_new_host_key_is_asked_about_during_the_check(project: Project, gpubox: Machine, home: Path) -> None:
    attached(project, gpubox)
    ssh_host_of(project.target("box")).disconnect()
    (home / ".ssh" / "known_hosts").write_text("")
    async with opened(project) as pilot:
        await check_box(pilot)
        await until(lambda: machine_screen(pilot).view.phase is Phase.QUESTION)
        await until(lambda: "cat /etc/ssh/ssh_host_*_key.pub | ssh-keygen -lf -" in seen(pilot))
        await pilot.press("y")
        assert "box is ready." in await done(pilot)


@pytest.fixture
def without_targets(project: Project) -> Project:
    for path in Path(project.config_directory).iterdir():
        path.unlink()
    return project


async def test_project_without_targets_names_the_key_to_attach(without_targets: Project) -> None:
    app = make_app(without_targets)
    async with app.run_test(size=WIDE):
        await until(lambda: "Press a to attach a machine." in "\n".join(screen_lines(app)))


@pytest.mark.slow
async def test_attach_is_found_in_the_palette(project: Project) -> None:
    async with opened(project) as pilot:
        await pilot.press("1", "ctrl+p")
        await until(lambda: pilot.app.screen is not screen_of(pilot))
        await type_text(pilot, "attach a machine")
        await pilot.press("enter")
        await until(lambda: isinstance(pilot.app.screen, AttachScreen))


async def test_check_that_ends_after_its_screen_was_closed_is_ignored(project: Project) -> None:
    async with opened(project) as pilot:
        screen = CheckScreen(project.target("local"))
        await pilot.app.push_screen(screen)
        await until(lambda: screen.view.phase is Phase.DONE)
        await pilot.press("escape")
        await until(lambda: pilot.app.screen is not screen and not screen.is_attached)
        screen.view.show(Phase.WORKING)
        screen.view.show(Phase.DONE, ("local is ready.", "success"))
