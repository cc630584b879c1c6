"""Questions of a server on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.attaching import Terminal, files, workbench
from tests.machines import PASSWORD, Machine, fingerprint
from tests.second_factor import KEY_AND_CODE, asking, code
from tui_workbench.targets.ssh.ssh_client import MOST_ROUNDS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.second_factor import Codes


@pytest.mark.usefixtures("ssh_folder")
def test_code_is_asked_by_attach_login_and_check(project_root: Path, box: Sequence[str], codes: Codes) -> None:
    with codes(KEY_AND_CODE):
        refused = workbench("attach", "remote", *box, cwd=project_root)
        assert refused.returncode == 4
        assert "the server asks for: One-time password" in refused.stderr
        assert files(project_root) == []
        for number, words in enumerate((("attach", "remote", *box), ("login", "box"), ("check", "box"))):
            terminal = Terminal(*words, cwd=project_root)
            terminal.answer("research on ", code(number))
            ended, shown = terminal.end()
            assert ended == 0, shown
            assert code(number) not in shown
            assert workbench("check", "box", cwd=project_root).returncode == 0  # it uses the open connection
            workbench("disconnect", "box", cwd=project_root)


@pytest.mark.usefixtures("known")
def test_password_is_asked_if_the_keys_are_refused(project_root: Path, box: Sequence[str]) -> None:
    refused = workbench("attach", "remote", *box, cwd=project_root)
    assert refused.returncode == 4
    assert "attach the target with a password" in refused.stderr
    terminal = Terminal("attach", "remote", *box, cwd=project_root)
    terminal.answer("Password of research on ", PASSWORD)
    ended, shown = terminal.end()
    assert ended == 0, shown
    assert "password: AzureMlSecret=" in (project_root / "aml_config/box.compute").read_text()


def test_jump_host_and_target_are_named_in_their_questions(
    project_root: Path, gpubox: Machine, bastion: Machine, codes: Codes
) -> None:
    accepted = [word for each in (bastion, gpubox) for word in _accepting(each)]
    with codes(KEY_AND_CODE), asking(bastion, KEY_AND_CODE):
        terminal = Terminal("attach", "remote", "--name", "box", "--address", "inner", *accepted, cwd=project_root)
        terminal.answer(f"research on jump host {bastion.address}: One-time password", code(0))
        terminal.answer("research on inner: One-time password", code(0))
        ended, shown = terminal.end()
        assert ended == 0, shown
        assert workbench("check", "box", cwd=project_root).returncode == 0
        workbench("disconnect", "box", cwd=project_root)


@pytest.mark.usefixtures("bastion")
def test_wrong_codes_are_the_reason(project_root: Path, bastion: Machine, gpubox: Machine) -> None:
    with asking(bastion, KEY_AND_CODE):
        (project_root / "aml_config/box.compute").write_text("type: remote\naddress: inner\n")
        for words in (("login", "box"), ("check", "box")):
            terminal = Terminal(*words, *_accepting(bastion), cwd=project_root)
            for _ in range(MOST_ROUNDS):
                terminal.answer(f"research on jump host {bastion.address}: One-time password", "000000")
            ended, shown = terminal.end()
            assert ended == 4, shown
            assert f"jump host {bastion.address}: the server refused the answers to its questions" in shown
        workbench("disconnect", "box", cwd=project_root)


def _accepting(machine: Machine) -> tuple[str, str]:
    return "--accept-host-key", fingerprint(machine.folder / "host_key.pub")
