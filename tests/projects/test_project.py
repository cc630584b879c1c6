"""Projects are found and opened without changes, and broken files do not hide others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.runs.support import as_anybody, let_everybody_in, write_configuration, write_files
from tui_workbench.core.errors import ConfigurationError, ProjectNotFound, StorageError
from tui_workbench.projects.project import Project, line_of_key, state_elsewhere


@pytest.fixture
def root(project_root: Path) -> Path:
    return project_root


class TestFind:
    def test_project_is_found_here_or_above(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        deep = root / "src" / "deep"
        deep.mkdir(parents=True)
        assert Project.find(str(root)).root == str(root)
        assert Project.find(str(deep)).root == str(root)
        monkeypatch.chdir(deep)
        assert Project.find(".").root == str(root)
        assert Project.find("..").name == "project"

    def test_nearest_project_is_found(self, root: Path) -> None:
        inner = root / "inner"
        (inner / "aml_config").mkdir(parents=True)
        assert Project.find(str(inner)).root == str(inner)

    def test_folder_without_a_project_is_reported_with_a_fix(self, tmp_path: Path) -> None:
        folder = tmp_path / "my folder"
        folder.mkdir()
        with pytest.raises(ProjectNotFound) as raised:
            Project.find(str(folder))
        assert f"`workbench-tui project add '{folder}'`" in raised.value.remedy

    def test_file_named_aml_config_is_not_a_project(self, tmp_path: Path) -> None:
        (tmp_path / "aml_config").write_text("")
        with pytest.raises(ProjectNotFound):
            Project.find(str(tmp_path))

    @pytest.mark.parametrize("start", ["nowhere", "hello.py", "hello.py/x"])
    def test_path_that_is_not_a_folder_is_reported(self, root: Path, start: str) -> None:
        with pytest.raises(
            ProjectNotFound, match="not a folder" if start == "hello.py" else "does not exist"
        ) as raised:
            Project.find(str(root / start))
        assert raised.value.remedy

    def test_deleted_current_folder_is_reported(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        gone = tmp_path / "gone"
        gone.mkdir()
        monkeypatch.chdir(gone)
        gone.rmdir()
        with pytest.raises(ProjectNotFound, match="removed"):
            Project.find(".")

    def test_opening_a_project_writes_nothing(self, root: Path) -> None:
        before = sorted(os.walk(root))
        project = Project.find(str(root))
        assert [target.name for target in project.targets()] == ["local"]
        assert [configuration.name for configuration in project.run_configurations()] == ["local"]
        assert sorted(os.walk(root)) == before


class TestEntries:
    def test_broken_file_is_listed_with_its_problem(self, root: Path) -> None:
        write_files(root / "aml_config", {"a.compute": "type: [\n", "b.runconfig": "Target: 3: 4\n", "c.compute": ""})
        project = Project.find(str(root))
        targets = {target.name: target for target in project.targets()}
        assert sorted(targets) == ["a", "c", "local"]
        assert targets["local"].problem is None
        problem = targets["a"].problem
        assert problem is not None
        assert problem.file == str(root / "aml_config" / "a.compute")
        assert problem.line > 0
        assert problem.message
        assert problem.remedy
        (broken,) = [entry for entry in project.run_configurations() if entry.problem]
        assert broken.name == "b"

    def test_files_with_other_suffixes_are_ignored(self, root: Path) -> None:
        write_files(root / "aml_config", {".compute": "type: local\n", "x.compute.bak": "", "compute": "", "y.yml": ""})
        assert [target.name for target in Project.find(str(root)).targets()] == ["local"]

    @pytest.mark.parametrize("name", ["two words", "a.b", "\u4f60", "-x", "a'b\"c$d", "a\nb"])
    def test_configuration_can_have_any_name(self, root: Path, name: str) -> None:
        write_configuration(root, name, suffix="compute", type="local", pythonLocation="python")
        write_configuration(root, name, Target=name)
        project = Project.find(str(root))
        assert project.target(name).type == "local"
        assert project.target_of(project.run_configuration(name)).name == name

    @pytest.mark.parametrize("name", ["", "none", "../aml_config/local", "a/b", "local.compute", "\0"])
    def test_unknown_name_lists_the_existing_ones(self, root: Path, name: str) -> None:
        project = Project.find(str(root))
        for ask in (project.target, project.run_configuration):
            with pytest.raises(ConfigurationError, match="local"):
                ask(name)

    def test_unknown_target_is_reported_with_its_line(self, root: Path) -> None:
        (root / "aml_config" / "local.runconfig").write_text('Framework: Python\nTarget: "gpu-box"\n')
        project = Project.find(str(root))
        with pytest.raises(ConfigurationError) as raised:
            project.target_of(project.run_configuration("local"))
        assert raised.value.position == str(root / "aml_config" / "local.runconfig") + ":2"

    def test_changed_files_are_read_again(self, root: Path) -> None:
        project = Project.find(str(root))
        for name in ("one", "two", "six"):
            write_configuration(root, "local", suffix="compute", type="local", pythonLocation=name)
            assert project.target("local").python_location == name
            assert Project.find(str(root)).target("local").python_location == name


class TestState:
    def test_state_directory_is_created_on_demand_and_ignored(self, root: Path) -> None:
        project = Project.find(str(root))
        project.prepare_state()
        assert (root / ".workbench" / ".gitignore").read_text() == "*\n"
        assert Path(project.runs_directory) == root / ".workbench" / "runs"
        assert project.notice == ""

    @pytest.mark.parametrize("removed", [".workbench", ".workbench/runs", ".workbench/.gitignore"])
    def test_removed_state_directory_is_created_again(self, root: Path, removed: str) -> None:
        import shutil

        project = Project.find(str(root))
        project.prepare_state()
        path = root / removed
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
        project.prepare_state()
        assert (root / ".workbench" / "runs").is_dir()
        assert (root / ".workbench" / ".gitignore").read_text() == "*\n"

    def test_empty_ignore_file_is_written_again(self, root: Path) -> None:
        write_files(root, {".workbench/.gitignore": ""})
        Project.find(str(root)).prepare_state()
        assert (root / ".workbench" / ".gitignore").read_text() == "*\n"

    def test_ignore_file_of_the_user_is_kept(self, root: Path) -> None:
        write_files(root, {".workbench/.gitignore": "*\n!keep\n"})
        Project.find(str(root)).prepare_state()
        assert (root / ".workbench" / ".gitignore").read_text() == "*\n!keep\n"

    def test_file_in_place_of_the_state_directory_is_reported(self, root: Path) -> None:
        (root / ".workbench").write_text("")
        with pytest.raises(StorageError, match=r"\.workbench"):
            Project.find(str(root)).prepare_state()

    def test_read_only_project_keeps_its_state_elsewhere(self, root: Path, home: Path) -> None:
        let_everybody_in(home, root)
        home.chmod(0o777)
        root.chmod(0o555)

        def check() -> None:
            project = Project.find(str(root))
            assert project.state_directory.startswith(f"{home}/.local/share/workbench-tui/projects/")
            assert str(root) in project.notice
            assert project.state_directory in project.notice
            project.prepare_state()
            assert os.path.isdir(project.runs_directory)
            assert Project.find(str(root)).state_directory == project.state_directory

        as_anybody(check)

    def test_read_only_projects_have_separate_state(self) -> None:
        roots = ["/a/b", "/a%2Fb", "/a%2Fb/", "/a/b/c", "/a/b%2Fc", "/A/b"]
        assert len({state_elsewhere(root) for root in roots}) == len({root.rstrip("/") for root in roots})


def test_line_of_a_key_is_found(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b'# Target\n"Framework": x\n{Target: y,\n\xff\n Other: z\n')
    assert line_of_key(str(file), "Framework") == 2
    assert line_of_key(str(file), "Target") == 3
    assert line_of_key(str(file), "Other") == 5
    assert line_of_key(str(file), "Missing") == 0
    assert line_of_key(str(tmp_path / "nowhere"), "Target") == 0
