"""The key reference is made from the registry, and the page in docs/ is up to date."""

from __future__ import annotations

from tests.conftest import REPOSITORY
from tui_workbench.ui.commands.command import use_keys
from tui_workbench.ui.commands.key_reference import page
from tui_workbench.ui.commands.registry import COMMANDS


def test_the_page_in_docs_is_what_the_program_makes() -> None:
    kept = (REPOSITORY / "docs" / "reference" / "keys.md").read_text(encoding="utf-8")
    assert page() == kept, "run `make pages`"


def test_the_page_has_every_command_with_its_own_keys_and_help() -> None:
    use_keys({"run.start": "f5"})
    try:
        made = page()
    finally:
        use_keys({})
    for command in COMMANDS.values():
        assert f"`{command.id}` |" in made
        assert command.help.replace("|", "\\|") in made
    assert "| `ctrl+r` | Run |" in made
