"""No message about a configuration file contains a password of the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import write_project
from tui_workbench.config.checks.project_context import ProjectContext
from tui_workbench.config.document import Document
from tui_workbench.config.loading import load_compute
from tui_workbench.core.errors import ConfigurationError


@pytest.mark.parametrize(
    "text",
    [
        "type: remote\npassword:hunter2\n",
        'type: remote\n"privateKeyPassphrase":hunter2\n',
        "type: remote\npassword: *hunter2\n",
        "type: remote\npassword:\n- hunter2\n",
        "type: remote\npassword: [hunter2]\n",
        "type: remote\npassword: {a: hunter2}\n",
        "type: remote\npassword: hunter2\n",
        "type: remote\npassword: hun: hunter2\n",
        'type: remote\npassword: "hunter2\n',
        "type: remote\npassword: @hunter2\n",
        "type: remote\npassword: !hunter2 x\n",
        "type: remote\naddress: me:hunter2@box\n",
        "type: remote\naddress: ssh://me:hunter2@box\n",
    ],
)
def test_messages_hide_passwords(tmp_path: Path, text: str) -> None:
    root = write_project(tmp_path / "project")
    path = root / "aml_config" / "box.compute"
    path.write_text(text)
    said = []
    try:
        load_compute(str(path))
    except ConfigurationError as error:
        said.append(str(error))
    document = Document.open(str(path), ProjectContext(str(root)))
    for finding in document.problems():
        fix = finding.fix
        said.append(f"{finding.message} {finding.remedy} {fix.title if fix is not None else ''}")
    assert said
    assert not [each for each in said if "hunter2" in each]


def test_password_is_removed_from_an_address(tmp_path: Path) -> None:
    path = tmp_path / "box.compute"
    path.write_text("type: remote\naddress: me:hunter2@box\n")
    document = Document.open(str(path))
    fix = next(finding.fix for finding in document.problems() if finding.code == "bad-address")
    assert fix is not None
    document.apply(fix)
    assert document.values["username"] == "me"
    assert "hunter2" not in document.text
