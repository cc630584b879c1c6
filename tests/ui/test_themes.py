"""Theme files and their errors."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml

from tui_workbench.core import directories
from tui_workbench.core.errors import ConfigurationError, UsageError
from tui_workbench.ui.themes import themes

BUILT_IN = sorted(Path(directories.packaged("themes")).glob("*.yaml"))


@pytest.fixture
def user_themes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the user's empty theme folder."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    folder = tmp_path / "workbench-tui" / "themes"
    folder.mkdir(parents=True)
    return folder


def slate() -> str:
    return (Path(directories.packaged("themes")) / "slate.yaml").read_text()


def error_of(folder: Path, text: str) -> str:
    """Return the error for a theme file with this text, without the folder."""
    path = folder / "mine.yaml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        themes.read_theme(str(path))
    return str(caught.value).replace(f"{folder}/", "")


@pytest.mark.parametrize("path", BUILT_IN, ids=lambda path: path.stem)
def test_built_in_themes_need_no_yaml_parser(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = yaml.safe_load(path.read_text())
    monkeypatch.setitem(sys.modules, "yaml", None)  # cannot be imported
    theme = themes.read_theme(str(path))
    assert (theme.title, theme.dark) == (values.pop("title"), values.pop("dark"))
    assert theme.palette._asdict() == {name: color.lower() for name, color in values.items()}


def test_error_has_the_same_place_with_and_without_yaml_parser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flat = slate().replace('accent: "#6cb6ff"', 'accent: "blue"')
    with_parser = error_of(tmp_path, flat.replace('title: "Slate"', "title: 'Slate'"))
    monkeypatch.setitem(sys.modules, "yaml", None)
    assert error_of(tmp_path, flat) == with_parser


def test_default_theme_is_built_in() -> None:
    assert themes.DEFAULT_THEME in {path.stem for path in BUILT_IN}


def test_user_theme_replaces_the_built_in_theme_of_its_name(user_themes: Path) -> None:
    (user_themes / "slate.yaml").write_text(slate().replace('accent: "#6cb6ff"', "accent: '#ABCDEF'"))
    theme = themes.load_theme("slate")
    assert theme.palette.accent == "#abcdef"
    assert theme.path == str(user_themes / "slate.yaml")


def test_all_spellings_of_a_flat_mapping_are_read(user_themes: Path) -> None:
    palette = themes.load_theme("slate").palette
    one_line = ", ".join(f"{name}: '{color}'" for name, color in palette._asdict().items())
    (user_themes / "mine.yaml").write_text(f"{{dark: true, {one_line}}}\n")
    theme = themes.load_theme("mine")
    assert theme.palette == palette
    assert theme.title == "mine"


def test_broken_themes_are_listed_too(user_themes: Path) -> None:
    (user_themes / "broken.yaml").write_text("{")
    (user_themes / "notes.txt").write_text("")
    names = themes.theme_names()
    assert "broken" in names
    assert "slate" in names
    assert "notes" not in names


def test_unknown_theme_error_lists_the_themes() -> None:
    with pytest.raises(UsageError, match=r"unknown theme 'neon'\. Choose one of: .*slate"):
        themes.load_theme("neon")


def test_unquoted_color_has_a_separate_error(tmp_path: Path) -> None:
    text = slate().replace('accent: "#6cb6ff"', "accent: #6cb6ff")
    line = text.split("\n").index("accent: #6cb6ff") + 1
    assert f"mine.yaml:{line}:" in error_of(tmp_path, text)
    assert "Quote the color" in error_of(tmp_path, text)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('accent: "#6cb6ff"', 'accent: "blue"', "accent: invalid color 'blue'. Write the color as \"#rrggbb\"."),
        ('accent: "#6cb6ff"', 'acent: "#6cb6ff"', "unknown key 'acent'. Did you mean 'accent'?"),
        ('accent: "#6cb6ff"', "accent: [1, 2]", "accent must be a single value"),
        ("dark: true", "dark: perhaps", "dark: invalid value 'perhaps'. Write true or false."),
        ('accent: "#6cb6ff"', 'accent: ]"#6cb6ff"', "invalid YAML"),
        ('title: "Slate"', 'accent: "#000000"', "accent is set twice. Remove one of the two lines."),
    ],
)
def test_errors_name_line_and_remedy(tmp_path: Path, old: str, new: str, said: str) -> None:
    message = error_of(tmp_path, slate().replace(old, new))
    assert said in message
    assert message.startswith("mine.yaml:")
    assert message.split(":")[1].isdigit()


def test_missing_colors_are_named(tmp_path: Path) -> None:
    text = "\n".join(line for line in slate().split("\n") if not line.startswith(("faint:", "dark:")))
    assert "missing keys: dark, faint" in error_of(tmp_path, text)


@pytest.mark.parametrize("text", ["", "just words\n", "- a\n- list\n"])
def test_file_without_mapping_is_refused(tmp_path: Path, text: str) -> None:
    assert "mine.yaml" in error_of(tmp_path, text)


@pytest.mark.slow
def test_theme_that_is_nested_too_deeply_is_refused(tmp_path: Path) -> None:
    assert "invalid YAML: " in error_of(tmp_path, "[" * 20_000)


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b'title: "caf\xe9"\n')
    for name, said in (("latin.yaml", "not UTF-8 text"), ("missing.yaml", "No such file")):
        with pytest.raises(ConfigurationError, match=said):
            themes.read_theme(str(tmp_path / name))
