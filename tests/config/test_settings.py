"""The user's settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from tui_workbench.config.changes import file_edits
from tui_workbench.config.schema.user_files import SETTINGS
from tui_workbench.config.settings import Settings, load_settings
from tui_workbench.core.directories import settings_path


@pytest.fixture
def file() -> Path:
    path = Path(settings_path())
    path.parent.mkdir(parents=True)
    return path


def test_defaults_without_a_file() -> None:
    assert load_settings() == Settings()


def test_settings_are_read(file: Path) -> None:
    file.write_text("notifications: off\nwindow_title: off\n")
    assert load_settings() == Settings(notifications="off", window_title="off")


def test_defaults_are_those_of_the_schema() -> None:
    assert Settings() == Settings(**{field.key: field.default for field in SETTINGS.fields})
    assert all(field.default in field.choices for field in SETTINGS.fields)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("notifications: loud\n", 1, "`notifications` cannot be 'loud'"),
        ("\nbell: on\n", 2, "bell"),
        ("notifications: [off]\n", 1, "`notifications` is a list"),
        ("notifications:\n", 1, "`notifications` has no value"),
        ("just words", 1, "`key: value` lines"),
        ("a: b: c", 1, "this line has a second `key: value`"),
    ],
    ids=["value", "name", "list", "none", "text", "yaml"],
)
def test_mistake_is_reported_with_its_line(file: Path, text: str, line: int, said: str) -> None:
    file.write_text(text)
    found = load_settings()
    (error,) = found.errors
    assert error.line == line
    assert said in str(error)
    assert found._replace(errors=()) == Settings()


def test_mistake_affects_one_entry(file: Path) -> None:
    file.write_text("notifications: loud\nwindow_title: off\n")
    found = load_settings()
    assert (found.window_title, found.notifications, len(found.errors)) == ("off", "terminal", 1)


def test_binary_settings_file_is_reported(file: Path) -> None:
    file.write_bytes(b"\xff\xfe\x00")
    (error,) = load_settings().errors
    assert error.file == str(file)


def test_settings_can_be_changed_by_key(file: Path) -> None:
    file.write_text("# mine\nwindow_title: on\n")
    file_edits.set_text(str(file), "window_title", "off")
    assert file.read_text() == "# mine\nwindow_title: off\n"
    assert load_settings().window_title == "off"


def test_file_of_this_name_elsewhere_is_not_settings(tmp_path: Path) -> None:
    other = tmp_path / "settings.yaml"
    other.write_text("notifications: loud\n")
    assert "wrong-choice" not in {found.code for found in file_edits.check([str(other)])}
