"""Promoted artifacts: immutable versions behind link files in Azure ML Workbench's format."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.runs.support import make_run, write_files
from tui_workbench.core.errors import UsageError
from tui_workbench.projects.project import Project
from tui_workbench.runs.transfer.assets import Asset, asset_of, assets, download_asset, promote


@pytest.fixture
def run(project: Project) -> str:
    directory = Path(make_run(project, "project_1700000000001", state="completed", exit_code=0).path)
    write_files(
        directory, {"outputs/model.pkl": b"one", "outputs/saved/a": b"a", "outputs/saved/deep/b": b"b", "pid": "1"}
    )
    return str(directory)


def link(project: Project, name: str) -> Path:
    return Path(project.root, "assets", f"{name}.link")


def test_link_file_has_the_azure_ml_format(project: Project, run: str) -> None:
    asset = promote(project, run, "outputs/model.pkl")
    assert (asset.name, asset.version, asset.link) == ("model.pkl", 1, str(link(project, "model.pkl")))
    stored = json.loads(link(project, "model.pkl").read_text())
    assert stored == {"assetSource": "azureml", "name": "model.pkl", "version": "1"}
    assert Path(asset.content).read_bytes() == b"one"


def test_versions_are_immutable(project: Project, run: str) -> None:
    first = promote(project, run, "outputs/model.pkl", "model")
    Path(run, "outputs", "model.pkl").write_bytes(b"two")
    second = promote(project, run, "./outputs/model.pkl", "model")
    assert (first.version, second.version) == (1, 2)
    assert [Path(each.content).read_bytes() for each in (first, second)] == [b"one", b"two"]
    assert asset_of(project, str(link(project, "model"))) == second
    link(project, "model").unlink()
    shutil.rmtree(run)
    assert Path(second.content).read_bytes() == b"two"


def test_version_numbers_are_unique(project: Project, run: str) -> None:
    link(project, "model").parent.mkdir()
    link(project, "model").write_text('{"assetSource":"azureml","name":"model","version":"6"}')
    assert promote(project, run, "outputs/model.pkl", "model").version == 7
    link(project, "model").unlink()
    assert promote(project, run, "outputs/model.pkl", "model").version == 8


def test_folder_can_be_an_asset(project: Project, run: str, tmp_path: Path) -> None:
    asset = promote(project, run, "outputs/saved/")
    assert asset.name == "saved"
    written = download_asset(asset, str(tmp_path / "to"))
    assert [os.path.relpath(path, tmp_path / "to") for path in written] == ["saved/a", "saved/deep/b"]
    assert (tmp_path / "to/saved/deep/b").read_bytes() == b"b"


def test_download_does_not_overwrite(project: Project, run: str, tmp_path: Path) -> None:
    asset = promote(project, run, "outputs/model.pkl")
    write_files(tmp_path, {"to/model.pkl": "mine"})
    with pytest.raises(UsageError, match="already exists"):
        download_asset(asset, str(tmp_path / "to"))
    assert (tmp_path / "to/model.pkl").read_text() == "mine"
    download_asset(asset, str(tmp_path / "to"), overwrite=True)
    assert (tmp_path / "to/model.pkl").read_bytes() == b"one"


@pytest.mark.parametrize("artifact", ["outputs/none", "../run", "outputs/..", "/etc", "pid", "outputs/link", ".", ""])
def test_unknown_artifact_is_not_promoted(project: Project, run: str, artifact: str) -> None:
    Path(run, "outputs", "link").symlink_to("/etc")
    with pytest.raises(UsageError):
        promote(project, run, artifact, "name")
    assert not Path(project.root, "assets").exists()
    assert assets(project) == []


@pytest.mark.parametrize("name", [".", "..", ".hidden", "a/b", "../x", "a\nb", "x" * 201])
def test_asset_name_with_a_path_is_refused(project: Project, run: str, name: str) -> None:
    with pytest.raises(UsageError):
        promote(project, run, "outputs/model.pkl", name)


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", '{"name": "../../x", "version": "1"}', '{"name": "model", "version": "../1"}', "[" * 100_000,
     '{"name": ".x", "version": "1"}', '{"name": "model", "version": "-1"}'],
)  # fmt: skip
def test_invalid_link_file_is_reported(project: Project, run: str, content: str) -> None:
    link(project, "model").parent.mkdir()
    link(project, "model").write_text(content)
    with pytest.raises(UsageError, match="not a link file"):
        asset_of(project, str(link(project, "model")))
    assert promote(project, run, "outputs/model.pkl", "model").version == 1


def test_cloud_asset_is_reported_as_missing(project: Project) -> None:
    link(project, "model").parent.mkdir()
    link(project, "model").write_text('{"assetSource":"azureml","name":"model","version":"3"}')
    with pytest.raises(UsageError, match="not in this project"):
        asset_of(project, str(link(project, "model")))


def test_list_of_assets(project: Project, run: str) -> None:
    promote(project, run, "outputs/model.pkl", "b")
    promote(project, run, "outputs/saved", "a")
    link(project, "c").write_text('{"assetSource":"azureml","name":"c","version":"3"}')
    assert [(asset.name, asset.version) for asset in assets(project)] == [("a", 1), ("b", 1)]


def test_concurrent_promotions_get_distinct_versions(project: Project, run: str) -> None:
    children = []
    for _ in range(6):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                promote(project, run, "outputs/model.pkl", "model")
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 6
    asset: Asset = asset_of(project, str(link(project, "model")))
    assert asset.version == 6
