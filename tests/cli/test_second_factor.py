"""Questions of a server on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.attaching import Terminal, files, workbench
from tests.machines import PASSWORD
from tests.second_factor import KEY_AND_CODE, code

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
            terminal.answer("(research on ", code(number))
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
