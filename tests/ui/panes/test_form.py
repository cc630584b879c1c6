"""The form on the screen: keys, and switching between form and text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from textual import events

from tests.ui.panes.editor_driver import EditorDriver, editor_app
from tests.ui.waiting import until
from tui_workbench.config.schema.field_types import FRAMEWORKS

if TYPE_CHECKING:
    from pathlib import Path

    from tui_workbench.ui.form.form_view import FormView

RUNCONFIG = "Target: gpu-box\nArgumentVector:\n  - $file\nFramework: Python   # plain\n"
COMPUTE = "type: remotedocker\naddress: gpu-box\nbaseDockerImage: microsoft/mmlspark:plus-gpu-0.9.9\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "aml_config"
    folder.mkdir()
    (folder / "gpu-box.compute").write_bytes(COMPUTE.encode())
    (folder / "local.compute").write_bytes(b"type: local\n")
    (folder / "gpu.runconfig").write_bytes(RUNCONFIG.encode())
    (tmp_path / "train.py").write_bytes(b"")
    return folder


def drawn(form: FormView) -> list[str]:
    return [form.render_line(y).text.rstrip() for y in range(form.size.height)]


def current(form: FormView) -> str:
    assert form.current is not None
    return form.current.label or f"+ {form.current.noun}"


async def to_row(it: EditorDriver, form: FormView, label: str) -> None:
    await it.press("home")
    while current(form) != label:
        before = current(form)
        await it.press("down")
        assert current(form) != before, f"there is no row {label}"


class TestRows:
    async def test_configuration_file_opens_as_a_form(self, folder: Path) -> None:
        async with editor_app(folder) as it:
            form = await it.open_form("gpu.runconfig")
            assert form.has_focus
            lines = drawn(form)
            assert lines[0].split() == ["Target", "gpu-box"]
            assert lines[3].split() == ["+", "argument"]
            assert "default" in next(line for line in lines if "UseSampling" in line)

    async def test_help_describes_the_current_field(self, folder: Path) -> None:
        async with editor_app(folder) as it:
            form = await it.open_form("gpu-box.compute")
            assert "One of: local, localdocker" in it.help
            await to_row(it, form, "nvidiaDocker")
            assert "GPUs of the machine" in it.help
            assert "Default: off." in it.help

    @pytest.mark.slow
    async def test_options_of_slurm_are_rows(self, folder: Path) -> None:
        (folder / "hpc.compute").write_bytes(b"type: slurm\nslurm: {partition: gpu}  # cluster\n")
        async with editor_app(folder) as it:
            form = await it.open_form("hpc.compute")
            assert [line.split() for line in drawn(form)[:2]] == [["type", "slurm"], ["slurm.partition", "gpu"]]
            await to_row(it, form, "slurm.gpus")
            await it.press("enter", "2", "enter")
            await to_row(it, form, "setup")
            await it.press("enter", *"ls", "enter")
            await until(lambda: "setup" in it.text.source)
            assert it.text.source == ("type: slurm\nslurm: {partition: gpu, gpus: 2}  # cluster\nsetup:\n  - ls\n")

    async def test_invalid_yaml_shows_a_hint_to_the_text_view(self, folder: Path) -> None:
        (folder / "gpu.runconfig").write_bytes(b"Target: [\n")
        async with editor_app(folder) as it:
            form = await it.open_form("gpu.runconfig")
            assert "The form needs valid YAML. ctrl+t shows the text." in drawn(form)[1]
            await it.press("x", "enter", "a", "d", "ctrl+t")
            assert it.text.has_focus
            assert it.text.source == "Target: [\n"

    async def test_opening_at_a_line_selects_its_row(self, folder: Path) -> None:
        async with editor_app(folder) as it:
            form = await it.open_form("gpu-box.compute", line=3)
            assert current(form) == "baseDockerImage"


class TestEditing:
    async def test_typing_replaces_the_value(self, folder: Path) -> None:
        async with editor_app(folder) as it:
            form = await it.open_form("gpu-box.compute")
            await to_row(it, form, "address")
            await it.press("enter", *"box2", "enter")
            assert it.text.source == COMPUTE.replace("address: gpu-box", "address: box2")
            assert not form.is_editing
            assert it.title == "3 gpu-box.compute ●"

    async def test_escape_keeps_the_value(self, folder: Path) -> None:
        async with editor_app(folder) as it:
            form = await it.open_form("gpu-box.compute")
            await to_row(it, form, "address")
            await it.press("enter", *"box2", "escape")
            assert it.text.source == COMPUTE
            assert it.title == "3 gpu-box.compute"

    async def test_burst_of_keys_equals_single_keys(self, folder: Path) -> None:
        async with editor_app(folder) as it:
            form = await it.open_form("gpu-box.compute")
            keys = ["down", "enter", *"jadu", "enter", *["down"] * 6, "space", "u", "space", "k", "u"]
            for key in keys:
                form.post_message(events.Key(key, key if len(key) == 1 else " " if key == "space" else None))
            await until(lambda: current(form) == "privateKeyPassphrase")
            await it.settled()
            assert it.text.source == COMPUTE.replace("address: gpu-box", "address: jadu")

    async def test_switch_toggles_and_undo_reverts(self, folder: Path) -> None:
        async with editor_app(folder) as it:
            form = await it.open_form("gpu-box.compute")
            await to_row(it, form, "nvidiaDocker")
            await it.press("space")
            assert it.text.source == COMPUTE + "nvidiaDocker: true\n"
            assert current(form) == "nvidiaDocker"
            await it.press("u")
            assert it.text.source == COMPUTE
            await it.press("U")
            assert it.text.source == COMPUTE + "nvidiaDocker: true\n"

    async def test_choice_is_selected_from_its_options(self, folder: Path) -> None:
        async with editor_app(folder) as it:
            form = await it.open_form("gpu.runconfig")
            await to_row(it, form, "Framework")
            await it.press("enter")
            assert any("● Python" in line for line in drawn(form))
            await it.press("down", "enter")
            assert it.text.source == RUNCONFIG.replace("Framework: Python", "Framework: PySpark")
            await it.press("enter", *"pyt", "enter")
            assert it.text.source == RUNCONFIG
            await it.press("enter", *"fortran", "enter")
            assert form.is_editing
            assert any("✗ Framework cannot be 'fortran'" in line for line in drawn(form))

    async def test_error_of_an_invalid_value_is_wrapped(self, folder: Path) -> None:
        async with editor_app(folder, size=(50, 24)) as it:
            form = await it.open_form("gpu.runconfig")
            await to_row(it, form, "Framework")
            await it.press("enter", *"fortran", "enter")
            said = " ".join(" ".join(drawn(form)).split())
            assert "✗ Framework cannot be 'fortran'." in said
            assert f"Choose one of: {', '.join(FRAMEWORKS)}." in said

    async def test_values_of_the_project_are_suggested(self, folder: Path) -> None:
        async with editor_app(folder) as it:
            form = await it.open_form("gpu.runconfig")
            await it.press("enter")
            assert [line.split() for line in drawn(form)[1:3]] == [["●", "gpu-box", "remotedocker"], ["local", "local"]]
            await it.press(*"lo")
            assert drawn(form)[1].split() == ["local", "local"]
            await it.press("tab", "enter")
            assert it.text.source == RUNCONFIG.replace("Target: gpu-box", "Target: local")

    async def test_images_of_earlier_runs_are_suggested_last(self, folder: Path) -> None:
        async with editor_app(folder) as it:
            await it.open_form("local.compute")
            it.pane.show_images_used(("ours/used:7",))
            form = await it.open_form("gpu-box.compute")
            while form.current is None or form.current.field.key != "baseDockerImage":
                await it.press("down")
            await it.press("enter")
            own, used = (line.split() for line in drawn(form) if " in gpu-box" in line or "used before" in line)
            assert (own[-2:], used[:1]) == (["in", "gpu-box"], ["ours/used:7"])

    async def test_problem_disappears_when_its_cause_in_another_file_does(self, folder: Path) -> None:
        async with editor_app(folder) as it:
            (folder / "gpu.runconfig").write_text("Target: elsewhere\nFramework: Python\n")
            await it.open_form("gpu.runconfig")
            assert any("elsewhere" in finding.message for finding in it.config.findings)
            (folder / "elsewhere.compute").write_text("type: local\n")
            it.pane.others_changed()
            await it.settled()
            assert not any("elsewhere" in finding.message for finding in it.config.findings)

    async def test_paths_are_suggested_by_folder(self, folder: Path) -> None:
        keys = folder.parent / "keys"
        keys.mkdir()
        (keys / "id_box").write_bytes(b"")
        async with editor_app(folder) as it:
            form = await it.open_form("gpu-box.compute")
            await to_row(it, form, "privateKey")
            await it.press("enter")
            assert any(line.split() == ["keys/", "folder"] for line in drawn(form))
            await it.press(*"ke", "tab")
            assert any(line.strip() == "keys/id_box" for line in drawn(form))
            await it.press("tab", "enter")
            assert "privateKey: keys/id_box\n" in it.text.source

    async def test_other_values_than_the_suggestions_can_be_typed(self, folder: Path) -> None:
        async with editor_app(folder) as it:
            form = await it.open_form("gpu-box.compute")
            await to_row(it, form, "baseDockerImage")
            await it.press("enter", *"my", "slash", *"image", "enter")
            assert "baseDockerImage: my/image\n" in it.text.source

    async def test_entries_are_added_moved_and_removed(self, folder: Path) -> None:
        async with editor_app(folder) as it:
            form = await it.open_form("gpu.runconfig")
            await to_row(it, form, "ArgumentVector")
            await it.press("a", *"one", "enter", "a", *"two", "enter")
            assert "  - $file\n  - one\n  - two\nFramework" in it.text.source
            assert current(form) == "+ argument"
            await it.press("up", "K")
            assert "  - two\n  - one\n" in it.text.source
            await it.press("d", "d")
            assert it.text.source == RUNCONFIG

    async def test_map_entries_have_names_and_values(self, folder: Path) -> None:
        async with editor_app(folder) as it:
            form = await it.open_form("gpu.runconfig")
            await to_row(it, form, "EnvironmentVariables")
            await it.press("enter", *"SEED", "equals_sign", *"1", "enter")
            assert "EnvironmentVariables:\n  SEED: " in it.text.source
            await it.press("up", "r", *"LR", "enter")
            assert "  LR: " in it.text.source
            assert current(form) == "LR"
            await it.press("enter", *"0", "enter")
            await it.press("a", *"x", "enter")
            assert any("NAME=value" in line and "✗" in line for line in drawn(form))

    async def test_paste_goes_into_the_value(self, folder: Path) -> None:
        async with editor_app(folder) as it:
            form = await it.open_form("gpu-box.compute")
            await to_row(it, form, "address")
            await it.press("enter")
            form.post_message(events.Paste("pasted.example\n"))
            await it.press("end", "backspace", "enter")
            assert "address: pasted.example\n" in it.text.source

    async def test_open_value_counts_as_an_edit(self, folder: Path) -> None:
        async with editor_app(folder) as it:
            form = await it.open_form("gpu-box.compute")
            await to_row(it, form, "address")
            await it.press("enter")
            assert not it.pane.dirty_paths()
            await it.press("x")
            assert it.pane.dirty_paths() == {it.path("gpu-box.compute")}
            await it.press("escape")
            assert not it.pane.dirty_paths()

    async def test_save_accepts_the_open_value(self, folder: Path) -> None:
        async with editor_app(folder) as it:
            form = await it.open_form("gpu-box.compute")
            await to_row(it, form, "address")
            await it.press("enter", *"box2", "ctrl+s")
            assert it.title == "3 gpu-box.compute"
        assert (folder / "gpu-box.compute").read_text(encoding="utf-8") == COMPUTE.replace(": gpu-box", ": box2")


class TestTwoViews:
    async def test_cursor_stays_at_its_value(self, folder: Path) -> None:
        async with editor_app(folder) as it:
            form = await it.open_form("gpu.runconfig")
            await to_row(it, form, "Framework")
            await it.press("ctrl+t")
            assert it.text.cursor_location[0] == 3
            await it.press("up", "ctrl+t")
            assert current(form) == "1"

    @pytest.mark.slow
    async def test_undo_covers_form_and_text(self, folder: Path) -> None:
        async with editor_app(folder) as it:
            form = await it.open_form("gpu-box.compute")
            await to_row(it, form, "nvidiaDocker")
            await it.press("space", "ctrl+t", "ctrl+end", *"sharedVolumes", "colon", "space", *"true", "ctrl+t")
            assert any(line.split()[:3] == ["sharedVolumes", "●", "on"] for line in drawn(form))
            while it.text.source != COMPUTE + "nvidiaDocker: true\n":
                await it.press("u")
            await it.press("ctrl+t", "ctrl+z")
            assert it.text.source == COMPUTE

    async def test_form_shows_changes_on_disk(self, folder: Path) -> None:
        async with editor_app(folder) as it:
            form = await it.open_form("gpu.runconfig")
            (folder / "gpu.runconfig").write_bytes(b"Target: local\n")
            await it.look_at_disk()
            assert drawn(form)[0].split() == ["Target", "local"]

    async def test_click_on_the_lower_border_changes_the_view(self, folder: Path) -> None:
        async with editor_app(folder) as it:
            await it.open_form("gpu.runconfig")
            assert it.bold_in_title()[1:] == ["Form"]
            await it.pilot.click(it.pane, offset=(80, 23))
            await it.settled()
            assert it.text.has_focus
            assert it.bold_in_title()[1:] == ["Text"]


class TestProblems:
    async def test_problem_is_shown_in_its_row_and_fixed_with_a_key(self, folder: Path) -> None:
        async with editor_app(folder) as it:
            form = await it.open_form("gpu-box.compute")
            await to_row(it, form, "nvidiaDocker")

            def row(label: str) -> str:
                return next(line for line in drawn(form) if line.strip().startswith(label))

            assert "▲" in row("nvidiaDocker")
            assert "f fix" in it.status
            await it.press("f")
            assert it.text.source == COMPUTE + "nvidiaDocker: true\n"
            assert "▲" not in row("nvidiaDocker")

    async def test_key_moves_between_rows_with_problems(self, folder: Path) -> None:
        async with editor_app(folder) as it:
            form = await it.open_form("gpu-box.compute")
            seen = []
            for _ in range(3):
                await it.press("f8")
                seen.append(current(form))
            assert seen == ["baseDockerImage", "nvidiaDocker", "baseDockerImage"]


class TestMouse:
    async def test_click_selects_a_row_and_double_click_edits_it(self, folder: Path) -> None:
        async with editor_app(folder) as it:
            form = await it.open_form("gpu-box.compute")
            await it.pilot.click(form, offset=(30, 1))
            assert current(form) == "address"
            assert not form.is_editing
            await it.pilot.click(form, offset=(30, 1), times=2)
            assert form.is_editing

    async def test_click_accepts_a_suggestion(self, folder: Path) -> None:
        async with editor_app(folder) as it:
            form = await it.open_form("gpu.runconfig")
            await it.press("enter")
            await it.pilot.click(form, offset=(40, 2))
            assert "Target: local\n" in it.text.source
