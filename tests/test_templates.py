"""New projects: whole or not at all, and never over something that exists."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from tests.conftest import REPOSITORY
from tui_workbench import resources, templates
from tui_workbench.config import commands
from tui_workbench.errors import StorageError, UsageError
from tui_workbench.project import Project


def tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def test_every_listed_template_makes_a_project_that_opens(tmp_path: Path) -> None:
    listed = templates.list_templates()
    assert [template.name for template in listed] == ["blank", "digits"]
    for template in listed:
        root = templates.create_project(f"my-{template.name}", str(tmp_path), template.name)
        assert root == str(tmp_path / f"my-{template.name}")
        project = Project.find(root)
        assert project.name == f"my-{template.name}"
        assert {"local", "docker"} <= {target.name for target in project.targets() if target.problem is None}
        assert {"local", "docker"} <= {entry.name for entry in project.run_configurations() if entry.problem is None}
        assert template.description
        assert commands.check(commands.configuration_files(root)).findings == ()


def test_blank_is_the_default_and_holds_configuration_only(tmp_path: Path) -> None:
    root = Path(templates.create_project("fresh", str(tmp_path)))
    assert sorted(tree(root)) == [
        ".gitignore",
        "aml_config/conda_dependencies.yml",
        "aml_config/docker.compute",
        "aml_config/docker.runconfig",
        "aml_config/local.compute",
        "aml_config/local.runconfig",
        "readme.md",
    ]
    assert (root / "readme.md").read_text().startswith("# fresh\n")
    dependencies = yaml.safe_load((root / "aml_config" / "conda_dependencies.yml").read_text())
    assert dependencies == {"name": "project_environment", "dependencies": ["python=3.12", "pip"]}


def test_digits_is_the_sample_without_what_its_runs_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sample = tmp_path / "sample_project"
    for relative, content in tree(REPOSITORY / "sample_project").items():
        if "__pycache__" not in relative and not relative.startswith(("outputs", ".workbench")):
            (sample / relative).parent.mkdir(parents=True, exist_ok=True)
            (sample / relative).write_bytes(content)
    pristine = tree(sample)
    for left in ("outputs/model.pt", ".workbench/runs/x/run.json", "__pycache__/train.pyc"):
        (sample / left).parent.mkdir(parents=True)
        (sample / left).write_bytes(b"left behind")
    monkeypatch.setattr(resources, "sample_project", lambda: str(sample))
    assert tree(Path(templates.create_project("digits", str(tmp_path), "digits"))) == pristine


def test_files_of_a_read_only_installation_become_writable(tmp_path: Path) -> None:
    root = Path(templates.create_project("fresh", str(tmp_path), "digits"))
    assert all(path.stat().st_mode & 0o200 for path in root.rglob("*"))


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    (tmp_path / "fresh").mkdir()
    assert os.listdir(templates.create_project("fresh", str(tmp_path)))


@pytest.mark.parametrize("name", ["ab", "a" * 32, "My-Iris-2", "42"])
def test_names_by_the_rule_are_taken(tmp_path: Path, name: str) -> None:
    assert Path(templates.create_project(name, str(tmp_path))).name == name


@pytest.mark.parametrize("name", ["", "a", "a" * 33, "a b", "a_b", "a/b", "..", "-ab", "é1", "a\nb", "٣٣"])
def test_other_names_are_refused_with_the_rule(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=r"2 to 32 letters") as caught:
        templates.create_project(name, str(tmp_path))
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_an_unknown_template_is_answered_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no template 'mnist'.*blank, digits"):
        templates.create_project("fresh", str(tmp_path), "mnist")


def test_a_parent_that_is_no_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere is not a folder.*--path"):
        templates.create_project("fresh", str(tmp_path / "nowhere"))


def put_file(place: Path) -> None:
    place.write_text("mine")


def put_folder(place: Path) -> None:
    place.mkdir()
    (place / "mine").write_text("mine")


def put_dangling_link(place: Path) -> None:
    place.symlink_to("nowhere")


def put_link_to_empty_folder(place: Path) -> None:
    (place.parent / "elsewhere").mkdir()
    place.symlink_to("elsewhere")


@pytest.mark.parametrize("put", [put_file, put_folder, put_dangling_link, put_link_to_empty_folder])
def test_nothing_that_exists_is_written_over(tmp_path: Path, put: object) -> None:
    assert callable(put)
    put(tmp_path / "fresh")
    before = sorted(os.listdir(tmp_path)), tree(tmp_path)
    with pytest.raises(UsageError, match=r"fresh exists and is no empty folder"):
        templates.create_project("fresh", str(tmp_path))
    assert (sorted(os.listdir(tmp_path)), tree(tmp_path)) == before


def test_a_failure_half_way_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    incomplete = tmp_path / "installation"
    (incomplete / "aml_config").mkdir(parents=True)
    (incomplete / ".gitignore").write_text("outputs/\n")
    monkeypatch.setattr(resources, "sample_project", lambda: str(incomplete))
    place = tmp_path / "place"
    place.mkdir()
    with pytest.raises(StorageError, match=r"fresh: the project cannot be made: no such file"):
        templates.create_project("fresh", str(place))
    assert not list(place.iterdir())
