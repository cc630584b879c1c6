"""The key reference is generated from the registry, and the page in docs/ is current."""

from __future__ import annotations

from tests.conftest import REPOSITORY
from tui_workbench.ui.commands.command import use_keys
from tui_workbench.ui.commands.key_reference import page
from tui_workbench.ui.commands.registry import COMMANDS


def test_page_in_docs_is_current() -> None:
    kept = (REPOSITORY / "docs" / "reference" / "keys.md").read_text(encoding="utf-8")
    assert page() == kept, "run `make pages`"


def test_page_lists_every_command_with_default_keys() -> None:
    use_keys({"run.start": "f5"})
    try:
        made = page()
    finally:
        use_keys({})
    for command in COMMANDS.values():
        assert f"`{command.id}` |" in made
        assert command.help.replace("|", "\\|") in made
    assert "| `ctrl+r` | Run |" in made
