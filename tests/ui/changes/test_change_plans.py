"""Plans of changes of configuration files, compared with the result of applying them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tui_workbench.core.errors import ConfigurationError, UsageError, WorkbenchError
from tui_workbench.ui.changes.change_plans import (
    Plan,
    create_run_configuration,
    create_target,
    delete,
    duplicate,
    make_gpu_ready,
    rename,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tui_workbench.ui.changes.change_plans import Change


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "aml_config"
    folder.mkdir()
    (folder / "box.compute").write_text(
        "type: remotedocker\naddress: box\nbaseDockerImage: microsoft/mmlspark:plus-0.9.9\n"
    )
    (folder / "box.runconfig").write_text("Target: box   # there\nArgumentVector:\n  - $file\n")
    return tmp_path


def planned(change: Change, **values: str) -> Plan:
    return change.plan({**{question.key: question.value for question in change.asked}, **values})


def shown(plan: Plan) -> list[str]:
    return [line for hunk in plan.hunks for line in [hunk.path, *(kind + text for kind, text in hunk.lines)]]


def files(root: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted((root / "aml_config").iterdir())}


def test_plan_of_a_new_target_shows_its_file(root: Path) -> None:
    change = create_target(str(root))
    plan = planned(change, name="new", type="localdocker")
    plan.change_set(()).apply()
    text = files(root)["new.compute"]
    assert shown(plan) == ["aml_config/new.compute", *("+" + line for line in text.splitlines())]
    with pytest.raises(ConfigurationError, match="already"):
        planned(change, name="new")
    with pytest.raises(UsageError, match=r"not a valid name|name is empty"):
        planned(change, name="a/b")


def test_new_run_configuration_names_its_target(root: Path) -> None:
    change = create_run_configuration(str(root), "box")
    assert [question.value for question in change.asked] == ["box-2", "box"]
    planned(change, name="box-2").change_set(()).apply()
    assert "Target: box\n" in files(root)["box-2.runconfig"]


def test_duplicate_is_byte_identical(root: Path) -> None:
    plan = planned(duplicate(str(root), str(root / "aml_config/box.runconfig")))
    plan.change_set(()).apply()
    assert files(root)["box-copy.runconfig"] == files(root)["box.runconfig"]
    (name,) = duplicate(str(root), str(root / "aml_config/box.runconfig")).asked
    assert name.value == "box-copy-2"


def test_rename_shows_the_new_name_and_changed_references(root: Path) -> None:
    change = rename(str(root), str(root / "aml_config/box.compute"))
    assert planned(change).done == "The file already has this name."
    plan = planned(change, name="gpu")
    assert shown(plan) == [
        "aml_config/box.compute → aml_config/gpu.compute",
        "aml_config/box.runconfig",
        "-Target: box   # there",
        "+Target: gpu   # there",
        " ArgumentVector:",
    ]
    plan.change_set(()).apply()
    assert sorted(files(root)) == ["box.runconfig", "gpu.compute"]


def test_deletion_can_be_undone(root: Path) -> None:
    before = files(root)
    plan = planned(delete(str(root), str(root / "aml_config/box.compute")))
    assert all(line.startswith("-") for line in shown(plan)[1:])
    assert any("box" in note for note in plan.notes)
    change_set = plan.change_set(())
    change_set.apply()
    assert sorted(files(root)) == ["box.runconfig"]
    change_set.inverse.apply()
    assert files(root) == before


def test_hunks_of_gpu_ready_can_be_left_out(root: Path) -> None:
    change = make_gpu_ready(str(root), "box")
    plan = planned(change)
    assert len(plan.choices["image"]) > 2
    assert all(hunk.id and hunk.title and hunk.reason for hunk in plan.hunks)
    left_out = next(hunk.id for hunk in plan.hunks if hunk.title == "nvidiaDocker: true")
    plan.change_set([left_out]).apply()
    assert "nvidiaDocker" not in files(root)["box.compute"]
    (rest,) = planned(change).hunks
    assert rest.id == left_out
    planned(change).change_set(()).apply()
    assert "GPU-ready" in planned(change).done
    assert "# there" in files(root)["box.runconfig"]


def test_other_image_changes_the_plan(root: Path) -> None:
    change = make_gpu_ready(str(root), "box")
    image = planned(change).choices["image"][1]
    assert any(line.endswith(image) for line in shown(planned(change, image=image)))


def test_cluster_has_no_image_choice(root: Path) -> None:
    (root / "aml_config" / "slurm.compute").write_text("type: slurm\naddress: login\nslurm: {partition: gpu}\n")
    (root / "aml_config" / "slurm.runconfig").write_text("Target: slurm\nFramework: Python\n")
    change = make_gpu_ready(str(root), "slurm")
    assert change.asked == ()
    assert any("gpus: 1" in line for line in shown(change.plan({})))


def test_missing_target_cannot_be_made_gpu_ready(root: Path) -> None:
    with pytest.raises(WorkbenchError) as caught:
        planned(make_gpu_ready(str(root), "nowhere"))
    assert caught.value.remedy
