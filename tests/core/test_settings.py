"""The user's settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from tui_workbench.core.settings import CHOICES, Settings, load_settings, read_settings, settings_path


def test_without_a_file_the_usual_settings_hold() -> None:
    assert load_settings() == Settings()


def test_what_the_file_says_holds() -> None:
    path = Path(settings_path())
    path.parent.mkdir(parents=True)
    path.write_text("notifications: off\nwindow_title: off\n")
    assert load_settings() == Settings(notifications="off", window_title="off")


@pytest.mark.parametrize("name", CHOICES)
def test_the_usual_value_is_one_of_the_choices(name: str) -> None:
    assert getattr(Settings(), name) in CHOICES[name]


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("notifications: loud\n", 1, "notifications cannot be 'loud'"),
        ("\nbell: on\n", 2, "there is no setting bell"),
        ("notifications: [off]\n", 1, "notifications cannot be 'a list'"),
        ("just words", 1, "`name: value` lines"),
        ("a: b: c", 1, "no YAML"),
    ],
    ids=["value", "name", "list", "text", "yaml"],
)
def test_a_mistake_names_its_line_and_the_rest_holds(text: str, line: int, said: str) -> None:
    found = read_settings(f"{text}", "settings.yaml")
    (error,) = found.errors
    assert error.line == line
    assert said in str(error)
    assert found._replace(errors=()) == Settings()


def test_one_mistake_costs_one_entry() -> None:
    found = read_settings("notifications: loud\nwindow_title: off\n", "x")
    assert (found.window_title, found.notifications, len(found.errors)) == ("off", "terminal", 1)


def test_a_file_that_is_no_text_is_named() -> None:
    path = Path(settings_path())
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\xff\xfe\x00")
    (error,) = load_settings().errors
    assert error.file == str(path)
