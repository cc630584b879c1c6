"""New projects are complete or not created, and overwrite nothing."""

from __future__ import annotations

import ast
import os
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.conftest import REPOSITORY, corpus, write_project
from tests.faults.support import Workbench
from tests.runs.support import write_files
from tui_workbench.config.changes import file_edits
from tui_workbench.core.errors import StorageError, UsageError, WorkbenchError
from tui_workbench.core.masking import mask_text
from tui_workbench.projects import templates
from tui_workbench.projects.project import Project


@pytest.mark.train
def test_digits_resume_continues_after_a_failure(tmp_path: Path) -> None:
    root = Path(templates.create_project("resumed", str(tmp_path), "digits-resume"))
    for name, old, new in (
        ("local.compute", '"python"', f'"{sys.executable}"'),
        ("local.runconfig", "delay: 5", "delay: 0"),
    ):
        path = root / "aml_config" / name
        path.write_text(path.read_text().replace(old, new))
    result = Workbench(root).submit("train.py", "--epochs", "4", "--fail-at", "3")
    assert result.code == 0, result
    (directory,) = (root / ".workbench" / "runs").iterdir()
    lines = (directory / "output.log").read_text().splitlines()
    assert [line.partition("  ")[0] for line in lines] == [
        "epoch 1/4", "epoch 2/4", "train.py: failing in epoch 3, as requested", "continuing after epoch 2",
        "epoch 3/4", "epoch 4/4",
    ]  # fmt: skip
    alone = [sys.executable, "train.py", "--epochs", "4"]
    text = subprocess.run(alone, cwd=root, capture_output=True, text=True, check=True).stdout
    assert [line for line in lines if line.startswith("epoch ")] == text.splitlines()


def tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def test_every_template_creates_a_valid_project(tmp_path: Path) -> None:
    listed = templates.list_templates()
    assert [template.name for template in listed] == [
        "blank", "digits", "digits-ddp", "digits-resume", "spark-wordcount", "iris", "mnist-tensorflow", "mnist-cntk"
    ]  # fmt: skip
    for template in listed:
        root = templates.create_project(f"my-{template.name}", str(tmp_path), template.name)
        assert root == str(tmp_path / f"my-{template.name}")
        project = Project.find(root)
        assert project.name == f"my-{template.name}"
        assert {"local", "docker"} <= {target.name for target in project.targets() if target.problem is None}
        assert {"local", "docker"} <= {entry.name for entry in project.run_configurations() if entry.problem is None}
        assert template.description
        # At most a warning is allowed: CNTK's CUDA is old, and Docker Hub has removed its image.
        uses_spark = any(entry.uses_spark for entry in project.run_configurations())
        assert any(target.nvidia_docker for target in project.targets()) != uses_spark
        found = file_edits.check(file_edits.configuration_files(root))
        assert [one.code for one in found] == (
            ["image-removed", "stale-image"] if template.name == "mnist-cntk" else []
        )


def test_default_template_has_only_configuration_files(tmp_path: Path) -> None:
    root = Path(templates.create_project("fresh", str(tmp_path)))
    assert sorted(tree(root)) == [
        ".gitignore",
        "aml_config/conda_dependencies.yml",
        "aml_config/docker-gpu.compute",
        "aml_config/docker-gpu.runconfig",
        "aml_config/docker.compute",
        "aml_config/docker.runconfig",
        "aml_config/local.compute",
        "aml_config/local.runconfig",
        "readme.md",
    ]
    assert (root / "readme.md").read_text().startswith("# fresh\n")
    dependencies = yaml.safe_load((root / "aml_config" / "conda_dependencies.yml").read_text())
    assert dependencies == {"name": "project_environment", "dependencies": ["python=3.12", "pip"]}


def test_digits_is_the_sample_without_files_of_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sample = tmp_path / "sample_project"
    for relative, content in tree(REPOSITORY / "sample_project").items():
        if "__pycache__" not in relative and not relative.startswith(("outputs", ".workbench")):
            (sample / relative).parent.mkdir(parents=True, exist_ok=True)
            (sample / relative).write_bytes(content)
    pristine = tree(sample)
    for left in ("outputs/model.pt", ".workbench/runs/x/run.json", "__pycache__/train.pyc"):
        (sample / left).parent.mkdir(parents=True)
        (sample / left).write_bytes(b"left behind")
    monkeypatch.setattr(templates, "packaged", lambda name: str(sample))
    assert tree(Path(templates.create_project("digits", str(tmp_path), "digits"))) == pristine


def test_files_of_a_read_only_installation_become_writable(tmp_path: Path) -> None:
    root = Path(templates.create_project("fresh", str(tmp_path), "digits"))
    assert all(path.stat().st_mode & 0o200 for path in root.rglob("*"))


def test_project_is_created_in_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "fresh").mkdir()
    assert os.listdir(templates.create_project("fresh", str(tmp_path)))


@pytest.mark.parametrize("name", ["ab", "a" * 32, "My-Iris-2", "42"])
def test_valid_names_are_accepted(tmp_path: Path, name: str) -> None:
    assert Path(templates.create_project(name, str(tmp_path))).name == name


@pytest.mark.parametrize("name", ["", "a", "a" * 33, "a b", "a_b", "a/b", "..", "-ab", "é1", "a\nb", "٣٣"])
def test_invalid_names_are_refused_with_the_rule(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=r"2 to 32 ASCII letters") as caught:
        templates.create_project(name, str(tmp_path))
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_unknown_template_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"unknown template 'mnist'.*folder.*blank, digits"):
        templates.create_project("fresh", str(tmp_path), "mnist")


def test_parent_that_is_not_a_folder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere is not a folder.*choose another"):
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
def test_existing_files_are_not_overwritten(tmp_path: Path, put: object) -> None:
    assert callable(put)
    put(tmp_path / "fresh")
    before = sorted(os.listdir(tmp_path)), tree(tmp_path)
    with pytest.raises(UsageError, match=r"fresh exists and is not an empty folder"):
        templates.create_project("fresh", str(tmp_path))
    assert (sorted(os.listdir(tmp_path)), tree(tmp_path)) == before


def test_failed_creation_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    incomplete = tmp_path / "installation"
    (incomplete / "aml_config").mkdir(parents=True)
    (incomplete / ".gitignore").write_text("outputs/\n")
    monkeypatch.setattr(templates, "packaged", lambda name: str(incomplete))
    place = tmp_path / "place"
    place.mkdir()
    with pytest.raises(StorageError, match=r"fresh: cannot create the project: no such file"):
        templates.create_project("fresh", str(place))
    assert not list(place.iterdir())


@pytest.mark.parametrize(("template", "grammar"), [("mnist-tensorflow", (3, 9)), ("mnist-cntk", (3, 5))])
def test_scripts_for_missing_frameworks_parse(tmp_path: Path, template: str, grammar: tuple[int, int]) -> None:
    script = Path(templates.create_project("fresh", str(tmp_path), template), "train.py").read_text()
    tree = ast.parse(script, feature_version=grammar)
    asked = {word for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(word := node.value, str)}
    for configuration in Path(tmp_path, "fresh", "aml_config").glob("*.runconfig"):
        loaded = Project.find(str(tmp_path / "fresh")).run_configuration(configuration.stem)
        assert set(loaded.argument_vector[1:]) <= asked, "its arguments are the script's"


class TestFromElsewhere:
    """A folder or a repository as a template."""

    @pytest.fixture
    def source(self, tmp_path: Path) -> Path:
        source = write_project(tmp_path / "source")
        write_files(
            source,
            {
                ".gitignore": "data/\n",
                "data/big.bin": "big",
                "outputs/model.pt": "left",
                ".workbench/runs/x/run.json": "left",
                "lib/__pycache__/x.pyc": "left",
                "lib/ünusual name.py": "x",
                "nested/.git/HEAD": "ref: refs/heads/main",
                "nested/inside.py": "x",
            },
        )
        (source / "tool.sh").write_text("#!/bin/sh")
        (source / "tool.sh").chmod(0o700)
        (source / "link").symlink_to("hello.py")
        os.mkfifo(source / "pipe")
        return source

    WANTED = (
        ".gitignore",
        "aml_config/local.compute",
        "aml_config/local.runconfig",
        "hello.py",
        "lib/ünusual name.py",
        "link",
        "nested/inside.py",
        "tool.sh",
    )

    def test_ignored_and_run_files_of_a_folder_are_not_copied(self, source: Path, tmp_path: Path) -> None:
        root = Path(templates.create_project("fresh", str(tmp_path), str(source)))
        assert tuple(tree(root)) == self.WANTED
        assert (root / "link").is_symlink()
        assert os.access(root / "tool.sh", os.X_OK)

    def test_all_files_are_copied_without_git(
        self, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PATH", "/nowhere")
        root = Path(templates.create_project("fresh", str(tmp_path), str(source)))
        assert set(tree(root)) == {*self.WANTED, "data/big.bin"}

    def test_missing_configuration_is_added(self, tmp_path: Path) -> None:
        write_files(tmp_path / "source", {"train.py": "x"})
        root = Path(templates.create_project("fresh", str(tmp_path), str(tmp_path / "source")))
        assert "train.py" in tree(root)
        assert [target.name for target in Project.find(str(root)).targets()] == ["docker", "docker-gpu", "local"]
        assert "aml_config/conda_dependencies.yml" in tree(root)
        assert "readme.md" not in tree(root)

    def test_project_can_be_created_inside_its_template(self, source: Path) -> None:
        root = Path(templates.create_project("fresh", str(source), str(source)))
        assert "fresh" not in os.listdir(root)
        assert (root / "hello.py").exists()

    def test_repository_is_copied_without_its_history(self, source: Path, tmp_path: Path) -> None:
        (source / "pipe").unlink()
        shutil.rmtree(source / "nested")
        git = ("git", "-c", "user.name=x", "-c", "user.email=x@example.org")
        for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "x")):
            subprocess.run([*git, *words], cwd=source, check=True)
        root = Path(templates.create_project("fresh", str(tmp_path), f"file://{source}"))
        assert not (root / ".git").exists()
        assert {"hello.py", "aml_config/local.compute"} <= set(tree(root))

    @pytest.mark.parametrize("url", ["me@localhost:x", "localhost:x", "ssh://localhost/x"])
    def test_url_of_ssh_is_cloned(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
        monkeypatch.setenv("GIT_SSH_COMMAND", "false")
        with pytest.raises(WorkbenchError, match=f"cannot clone {url}"):
            templates.create_project("fresh", str(tmp_path), url)

    def test_url_with_a_password_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match=r"https://me:\*\*\*@host/x contains a secret") as caught:
            templates.create_project("fresh", str(tmp_path), "https://me:s3cret@host/x")
        assert "s3cret" not in str(caught.value)
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://token@host/x", "https://***@host/x"),
        ("https://me:token@host/x@y", "https://me:***@host/x@y"),
        ("ssh://git@host/x", "ssh://git@host/x"),
        ("git@host:x", "git@host:x"),
        ("https://host/a@b", "https://host/a@b"),
        ("../folder", "../folder"),
    ],
)
def test_secrets_in_addresses_are_masked(address: str, shown: str) -> None:
    assert mask_text(address) == shown


class TestAddFolder:
    """Add configuration to an existing folder."""

    def test_folder_gets_only_missing_files(self, tmp_path: Path) -> None:
        write_files(tmp_path, {"train.py": "mine", "readme.md": "mine", ".gitignore": "mine"})
        before = tree(tmp_path)
        added = templates.add_folder(str(tmp_path))
        assert all(name.startswith("aml_config/") for name in added)
        assert {name: content for name, content in tree(tmp_path).items() if name not in added} == before
        assert templates.add_folder(str(tmp_path)) == ()

    @pytest.mark.corpus
    def test_azureml_project_opens_unchanged(self, tmp_path: Path) -> None:
        families = [folder for folder in corpus().iterdir() if folder.is_dir()]
        for family in families:
            root = tmp_path / family.name
            files = {
                f"aml_config/{path.name.partition('-')[2]}": path.read_bytes() for path in sorted(family.iterdir())
            }
            write_files(root, {**files, ".azureml/project.json": '{"Id": "0"}', "iris.py": "x"})
            before = tree(root)
            assert templates.add_folder(str(root)) == ()
            assert tree(root) == before
            project = Project.find(str(root))
            kinds = {name.rpartition(".")[2] for name in files}
            assert bool(project.targets()) == ("compute" in kinds)
            assert bool(project.run_configurations()) == ("runconfig" in kinds)
            problems = [target.problem for target in project.targets()]
            problems += [configuration.problem for configuration in project.run_configurations()]
            assert None in problems, family.name

    def test_failed_write_changes_nothing(self, tmp_path: Path) -> None:
        for name in ("whole", "empty"):
            (tmp_path / name).mkdir()
        templates.add_folder(str(tmp_path / "whole"))
        largest = max(path.stat().st_size for path in (tmp_path / "whole").rglob("*") if path.is_file())
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest - 1, before[1]))
        try:
            with pytest.raises(StorageError, match=r"file too large\. .*Nothing was changed"):
                templates.add_folder(str(tmp_path / "empty"))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert not list((tmp_path / "empty").iterdir())

    def test_missing_folder_is_reported(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="nowhere is not a folder"):
            templates.add_folder(str(tmp_path / "nowhere"))


@pytest.mark.train
def test_digits_ddp_trains_with_one_or_two_processes(tmp_path: Path) -> None:
    root = Path(templates.create_project("several", str(tmp_path), "digits-ddp"))
    compute = root / "aml_config" / "local.compute"
    compute.write_text(compute.read_text().replace('"python"', f'"{sys.executable}"'))
    result = Workbench(root).submit("train.py", "--epochs", "2", "--seed", "3")
    assert result.code == 0, result
    (directory,) = (root / ".workbench" / "runs").iterdir()
    first, second = ((directory / "ranks" / f"{rank}.log").read_text() for rank in (0, 1))
    assert "rank 1 of 2 trains on the CPU\n" in second
    assert "epoch" not in second
    alone = subprocess.run(
        [sys.executable, "train.py", "--epochs", "2", "--seed", "3"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    # The same images in the same batches, but with different dropout.
    losses = [re.findall(r"^epoch \d/2  loss (\S+)", text, re.MULTILINE) for text in (first, alone.stdout)]
    assert [len(each) for each in losses] == [2, 2]
    assert float(losses[0][1]) == pytest.approx(float(losses[1][1]), rel=0.3)
    assert (directory / "outputs" / "model.pt").stat().st_size > 10_000
