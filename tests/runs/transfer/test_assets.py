"""Promoted artifacts: versions that are never changed, behind link files as the original wrote them."""

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


def test_the_link_is_the_original_s(project: Project, run: str) -> None:
    asset = promote(project, run, "outputs/model.pkl")
    assert (asset.name, asset.version, asset.link) == ("model.pkl", 1, str(link(project, "model.pkl")))
    stored = json.loads(link(project, "model.pkl").read_text())
    assert stored == {"assetSource": "azureml", "name": "model.pkl", "version": "1"}
    assert Path(asset.content).read_bytes() == b"one"


def test_versions_are_counted_and_keep_what_they_were(project: Project, run: str) -> None:
    first = promote(project, run, "outputs/model.pkl", "model")
    Path(run, "outputs", "model.pkl").write_bytes(b"two")
    second = promote(project, run, "./outputs/model.pkl", "model")
    assert (first.version, second.version) == (1, 2)
    assert [Path(each.content).read_bytes() for each in (first, second)] == [b"one", b"two"]
    assert asset_of(project, str(link(project, "model"))) == second
    link(project, "model").unlink()
    shutil.rmtree(run)
    assert Path(second.content).read_bytes() == b"two"


def test_a_number_is_never_given_twice(project: Project, run: str) -> None:
    link(project, "model").parent.mkdir()
    link(project, "model").write_text('{"assetSource":"azureml","name":"model","version":"6"}')
    assert promote(project, run, "outputs/model.pkl", "model").version == 7
    link(project, "model").unlink()
    assert promote(project, run, "outputs/model.pkl", "model").version == 8


def test_a_folder_is_an_asset_too(project: Project, run: str, tmp_path: Path) -> None:
    asset = promote(project, run, "outputs/saved/")
    assert asset.name == "saved"
    written = download_asset(asset, str(tmp_path / "to"))
    assert [os.path.relpath(path, tmp_path / "to") for path in written] == ["saved/a", "saved/deep/b"]
    assert (tmp_path / "to/saved/deep/b").read_bytes() == b"b"


def test_a_download_replaces_nothing_unasked(project: Project, run: str, tmp_path: Path) -> None:
    asset = promote(project, run, "outputs/model.pkl")
    write_files(tmp_path, {"to/model.pkl": "mine"})
    with pytest.raises(UsageError, match="there already"):
        download_asset(asset, str(tmp_path / "to"))
    assert (tmp_path / "to/model.pkl").read_text() == "mine"
    download_asset(asset, str(tmp_path / "to"), overwrite=True)
    assert (tmp_path / "to/model.pkl").read_bytes() == b"one"


@pytest.mark.parametrize("artifact", ["outputs/none", "../run", "outputs/..", "/etc", "pid", "outputs/link", ".", ""])
def test_what_is_no_artifact_is_refused_and_leaves_nothing(project: Project, run: str, artifact: str) -> None:
    Path(run, "outputs", "link").symlink_to("/etc")
    with pytest.raises(UsageError):
        promote(project, run, artifact, "name")
    assert not Path(project.root, "assets").exists()
    assert assets(project) == []


@pytest.mark.parametrize("name", [".", "..", ".hidden", "a/b", "../x", "a\nb", "x" * 201])
def test_a_name_that_leads_elsewhere_is_refused(project: Project, run: str, name: str) -> None:
    with pytest.raises(UsageError):
        promote(project, run, "outputs/model.pkl", name)


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", '{"name": "../../x", "version": "1"}', '{"name": "model", "version": "../1"}', "[" * 100_000,
     '{"name": ".x", "version": "1"}', '{"name": "model", "version": "-1"}'],
)  # fmt: skip
def test_a_link_file_that_is_none_is_told_of(project: Project, run: str, content: str) -> None:
    link(project, "model").parent.mkdir()
    link(project, "model").write_text(content)
    with pytest.raises(UsageError, match="no link file"):
        asset_of(project, str(link(project, "model")))
    assert promote(project, run, "outputs/model.pkl", "model").version == 1


def test_what_the_original_kept_in_the_cloud_is_told_to_be_missing(project: Project) -> None:
    link(project, "model").parent.mkdir()
    link(project, "model").write_text('{"assetSource":"azureml","name":"model","version":"3"}')
    with pytest.raises(UsageError, match="not in this project"):
        asset_of(project, str(link(project, "model")))


def test_the_list_has_what_is_here(project: Project, run: str) -> None:
    promote(project, run, "outputs/model.pkl", "b")
    promote(project, run, "outputs/saved", "a")
    link(project, "c").write_text('{"assetSource":"azureml","name":"c","version":"3"}')
    assert [(asset.name, asset.version) for asset in assets(project)] == [("a", 1), ("b", 1)]


def test_many_at_once_get_a_version_each(project: Project, run: str) -> None:
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
