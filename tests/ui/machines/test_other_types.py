"""The form attaches a type from another package."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.targets.fake_package import installed as installed
from tests.ui.machines.test_machine import done, form, type_text
from tests.ui.main.test_main import opened, seen
from tests.ui.waiting import until
from tui_workbench.ui.machines.machine_fields import AttachForm

if TYPE_CHECKING:
    from tui_workbench.projects.project import Project


def written(project: Project) -> str:
    return Path(project.config_directory, "q.compute").read_text()


@pytest.mark.usefixtures("installed")
def test_fields_are_those_of_the_type() -> None:
    form = AttachForm()
    shown = [field.label for field in form.fields({"type": "quantum"})]
    assert shown == ["Type", "Name", "Qubits", "Noise", "Cooled"]
    noisy = {"type": "quantum", "name": "q", "type:noise": "thermal", "type:seed": " 7 "}
    assert [field.label for field in form.fields(noisy)] == ["Type", "Name", "Qubits", "Noise", "Seed", "Cooled"]
    assert form.request(noisy).values == {"noise": "thermal", "seed": "7"}
    # The value of a hidden field is ignored, and an untouched choice is the one that the form shows.
    assert form.request({**noisy, "type:noise": ""}).values == {"noise": "none"}


@pytest.mark.usefixtures("installed")
async def test_type_is_attached_by_keys(project: Project) -> None:
    async with opened(project) as pilot:
        await form(pilot)
        await pilot.press("up", "left", "down")
        assert "Simulator" in seen(pilot)
        await type_text(pilot, "q")
        await pilot.press("down")
        await type_text(pilot, "x")
        await pilot.press("enter")
        await until(lambda: "invalid number of qubits" in seen(pilot))
        await pilot.press("ctrl+u")
        await type_text(pilot, "5")
        await pilot.press("down", "right", "down")
        await type_text(pilot, "7")
        await pilot.press("enter")
        await done(pilot)
    assert written(project) == "cooled: 'yes'\nnoise: thermal\nqubits: 5\nseed: '7'\ntype: quantum\n"
