"""The GPUs of many machines as a person sees them, at each size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from textual.app import App, ComposeResult

from tests.ui.gpu.states import NOW, device, farm, machine, process, reading, rest
from tests.ui.seen import lines_of
from tests.ui.test_formatting import make_run
from tui_workbench.core.model import RunState
from tui_workbench.targets.gpu.fleet import MachineState
from tui_workbench.targets.gpu.sample import Machine, Note
from tui_workbench.ui.gpu.gpu_lines import Known, Shown, columns_for, graph_lines
from tui_workbench.ui.gpu.gpu_view import GpuView
from tui_workbench.ui.widgets.pieces import width_of

if TYPE_CHECKING:
    from textual.pilot import Pilot

SIZES = [(80, 24), (120, 36), (200, 60)]
RUN = make_run(RunState.RUNNING)._replace(run_id="p_7", run_number=7, script_name="train.py")
OTHER = RUN._replace(run_id="p_5", run_number=5, script_name="prepare.py")
KNOWN = Known({RUN.run_id: RUN, OTHER.run_id: OTHER}, RUN.run_id)


class ViewApp(App[None]):
    """Nothing but the view."""

    def __init__(self) -> None:
        super().__init__()
        self.view = GpuView()
        self.moved = 0

    def compose(self) -> ComposeResult:
        yield self.view

    def on_mount(self) -> None:
        self.view.focus()

    def on_gpu_view_cursor_moved(self) -> None:
        self.moved += 1


async def show(pilot: Pilot[None], *states: MachineState, known: Known = KNOWN) -> list[str]:
    assert isinstance(pilot.app, ViewApp)
    pilot.app.view.show(states, known)
    await pilot.pause()
    return lines(pilot)


def lines(pilot: Pilot[None]) -> list[str]:
    assert isinstance(pilot.app, ViewApp)
    return [line for line in lines_of(pilot.app.view) if line.strip()]


def view(pilot: Pilot[None]) -> GpuView:
    assert isinstance(pilot.app, ViewApp)
    return pilot.app.view


@pytest.mark.parametrize("size", SIZES)
async def test_each_gpu_tells_what_it_does_with_units(size: tuple[int, int]) -> None:
    async with ViewApp().run_test(size=size) as pilot:
        text = "\n".join(await show(pilot, machine(reading(0), rest(1))))
        for said in ("Tesla T4", "83 %", "8.1/15.0 GiB", "61", "72 °C", "0 %", "31 °C", "2 GPUs", "driver 550.54"):
            assert said in text, said


async def test_a_small_screen_has_one_line_a_gpu_and_all_numbers_below_each_other() -> None:
    async with ViewApp().run_test(size=(80, 24)) as pilot:
        told = await show(pilot, machine(reading(0), rest(1), processes=(process(run=RUN.run_id),)))
        assert len(told) == 3
        assert [line.index(" %") for line in told[1:]] == [told[1].index(" %")] * 2
        assert told[1].endswith("● train.py [7]")
        assert told[2].endswith("free")
        assert all(len(line) <= 79 for line in told)


async def test_a_large_screen_has_graphs_of_everything_and_a_line_a_process() -> None:
    async with ViewApp().run_test(size=(200, 60)) as pilot:
        told = await show(pilot, machine(reading(0), processes=(process(11, run=RUN.run_id), process(12))))
        text = "\n".join(told)
        assert "61/70 W" in text
        assert "1590 MHz" in text
        assert all(name in text for name in (" util ", " mem ", " power"))
        assert "█" in text
        (own,) = [line.split() for line in told if "train.py [7]" in line]
        assert own == ["●", "train.py", "[7]", "this", "run", "11", "python", "4.2", "GiB"]
        assert any(line.split()[:2] == ["◇", "alice"] for line in told)


@pytest.mark.parametrize(
    ("size", "machines", "gpus"), [((80, 24), 8, 8), ((120, 36), 8, 8), ((200, 60), 8, 8), ((200, 60), 2, 8)]
)
async def test_many_gpus_have_a_line_each(size: tuple[int, int], machines: int, gpus: int) -> None:
    async with ViewApp().run_test(size=size) as pilot:
        await show(pilot, *farm(machines, gpus))
        entries = view(pilot).entries
        assert len([entry for entry in entries if entry.shown and entry.is_first]) == machines * gpus
        assert len(entries) == machines * (gpus + 1)


@pytest.mark.parametrize("width", [20, 40, 60, 66, 79, 80, 100, 121, 200, 400])
@pytest.mark.parametrize("is_head", [True, False])
def test_columns_never_take_more_than_there_is(width: int, is_head: bool) -> None:
    devices = [device(0, "NVIDIA H200", memory=143771.0, power_limit=700.0), device(1)]
    columns = columns_for(width, devices, is_head=is_head)
    assert all(cells >= 0 for cells in columns)


@pytest.mark.parametrize("width", [40, 60, 66, 80, 100, 121, 160, 200, 300])
async def test_no_line_is_cut(width: int) -> None:
    state = machine(
        reading(0, throttle=0x44, utilization=100.0, power=70.0, temperature=101.0),
        processes=(process(run="a_project_with_a_very_long_name_indeed_1763600000000"), process(99)),
        devices=(device(0, "NVIDIA H200 SXM5 141GB HBM3e special"),),
    )
    async with ViewApp().run_test(size=(width, 24)) as pilot:
        told = await show(pilot, state)
        assert "100 %" in told[1]
        assert ("101 °C" in told[1]) is (width > 40)
        for entry in view(pilot).entries:
            assert width_of(entry.draw()) <= width


async def test_whose_a_process_is_shows_in_sign_and_word() -> None:
    async with ViewApp().run_test(size=(120, 36)) as pilot:
        processes = (process(1, user="bob"), process(2, run=OTHER.run_id), process(3, run=RUN.run_id))
        told = await show(pilot, machine(reading(0), processes=processes))
        owners = [" ".join(line.split()[:5]) for line in told if "python" in line]
        assert owners == ["● train.py [7] this run", "○ prepare.py [5] your run", "◇ bob 1 python 4.2"]


async def test_a_run_of_another_project_is_named_by_its_id() -> None:
    async with ViewApp().run_test(size=(120, 36)) as pilot:
        told = "\n".join(await show(pilot, machine(reading(0), processes=(process(run="other_1763600000000"),))))
        assert "○ other_1763600000000" in told


async def test_a_process_that_hides_its_run_is_told_by_what_the_run_s_controller_knows() -> None:
    async with ViewApp().run_test(size=(120, 36)) as pilot:
        known = KNOWN._replace(held={("local", 4242): RUN.run_id})
        told = "\n".join(await show(pilot, machine(reading(0), processes=(process(4242, user="root"),)), known=known))
        assert "● train.py [7]" in told


async def test_inside_a_container_nobody_is_accused() -> None:
    async with ViewApp().run_test(size=(120, 36)) as pilot:
        state = machine(reading(0), processes=(process(user="", name=""),))
        assert state.machine is not None
        told = "\n".join(await show(pilot, state._replace(machine=state.machine._replace(hides_processes=True))))
        assert "? not told in a container" in told


@pytest.mark.parametrize("size", SIZES)
async def test_what_a_driver_does_not_tell_is_a_dash(size: tuple[int, int]) -> None:
    blank = reading(0)._replace(
        utilization=None, memory=None, power=None, temperature=None, sm_clock=None, throttle=None, ecc=None
    )
    async with ViewApp().run_test(size=size) as pilot:
        told = await show(pilot, machine(blank, devices=(device(0, power_limit=None, memory=None),)))
        assert "— %" not in told[1]
        assert told[1].count("—") >= 4


@pytest.mark.parametrize("size", SIZES)
async def test_what_is_wrong_with_a_gpu_is_said_the_worst_first(size: tuple[int, int]) -> None:
    async with ViewApp().run_test(size=size) as pilot:
        told = await show(
            pilot,
            machine(
                reading(0, throttle=0x4, ecc=2),
                reading(1, throttle=0x44),
                reading(2),
                devices=(device(0), device(1), device(2), device(3)),
                notes=(Note(NOW, "Xid 79 on GPU 2", 2),),
            ),
        )
        devices = [line for line in told if "Tesla T4" in line]
        assert "✗" in devices[0]
        assert "▲" in devices[1]
        assert "✗" in devices[2]
        assert "✗" in devices[3]
        if size[0] > 120:
            assert "✗ 2 ECC errors +1" in devices[0]
            assert "power cap" in devices[1]
            assert "Xid 79 on GPU 2" in devices[2]
            assert "stopped responding" in devices[3]


async def test_a_machine_without_gpus_says_why_and_which_key_helps() -> None:
    async with ViewApp().run_test(size=(80, 24)) as pilot:
        none = MachineState("a", ("local",), machine=Machine(problem="no driver"), problem="no driver")
        told = await show(
            pilot, none, MachineState("b", ("box",), "me@box", problem="out of reach: it asks for a password")
        )
        assert told[1].strip() == "· no driver"
        assert told[4].strip() == "✗ out of reach: it asks for a password"
        assert told[5].strip().startswith("t checks it")


async def test_a_machine_that_is_asked_for_the_first_time_says_so() -> None:
    async with ViewApp().run_test(size=(80, 24)) as pilot:
        told = await show(pilot, MachineState("a", ("local",)))
        assert told[1].strip() == "◌ looking for GPUs…"


async def test_old_values_are_called_old() -> None:
    async with ViewApp().run_test(size=(80, 24)) as pilot:
        told = await show(pilot, machine(reading(0), silent=12.4))
        assert told[1].strip() == "▲ no answer for 12 s; what stands here is old"


async def test_without_targets_it_says_how_to_get_one() -> None:
    async with ViewApp().run_test(size=(80, 24)) as pilot:
        assert "a in Compute targets attaches a machine" in "\n".join(await show(pilot))


async def test_the_cursor_begins_on_the_first_gpu_and_goes_over_everything_once() -> None:
    async with ViewApp().run_test(size=(120, 36)) as pilot:
        await show(pilot, machine(reading(0), rest(1), processes=(process(11), process(12))))
        keys = [view(pilot).current]
        await pilot.press("g")
        for _ in range(9):
            keys.append(view(pilot).current)
            await pilot.press("j")
        told = [(entry.shown.device.number if entry.shown else None, entry.pid) for entry in keys if entry]
        assert told[0] == (0, 0)
        assert list(dict.fromkeys(told[1:])) == [(None, 0), (0, 0), (0, 11), (0, 12), (1, 0)]
        await pilot.press("k")
        assert view(pilot).current != keys[-1]


async def test_the_cursor_stays_on_its_gpu_when_others_come_and_go() -> None:
    async with ViewApp().run_test(size=(80, 24)) as pilot:
        await show(pilot, machine(reading(0), reading(1), name="b"))
        await pilot.press("j")
        before = view(pilot).current
        assert before is not None
        await show(pilot, machine(reading(0), name="a"), machine(reading(0), reading(1), name="b"))
        after = view(pilot).current
        assert after is not None
        assert after.key == before.key
        await show(pilot, machine(reading(0), name="a"))
        assert view(pilot).current is not None


async def test_the_cursor_is_always_in_view() -> None:
    async with ViewApp().run_test(size=(80, 24)) as pilot:
        await show(pilot, *farm(8, 8))
        await pilot.press("G")
        assert "Tesla T4" in lines(pilot)[-1]
        await pilot.press("g")
        assert "box0" in lines(pilot)[0]
        await pilot.press("pagedown", "pagedown")
        current = view(pilot).current
        assert current is not None
        assert current.shown is not None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("box1", ["box1"] * 2),
        ("busy", ["box0"]),
        ("idle", ["box1"] * 2),
        ("train", ["box0"]),
        ("tesla BOX1", ["box1"] * 2),
        ("nothing such", []),
    ],
)
async def test_a_filter_looks_at_machines_names_runs_and_what_they_do(text: str, found: list[str]) -> None:
    async with ViewApp().run_test(size=(80, 24)) as pilot:
        await show(
            pilot,
            machine(reading(0), name="box0", processes=(process(run=RUN.run_id),)),
            machine(rest(0), rest(1), name="box1"),
        )
        view(pilot).filter(text)
        await pilot.pause()
        shown = [entry.state.key for entry in view(pilot).entries if entry.shown and entry.is_first]
        assert shown == found
        if not found:
            assert "No GPU matches the filter." in "\n".join(lines(pilot))


async def test_only_what_looks_different_is_painted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ViewApp().run_test(size=(80, 24)) as pilot:
        await show(pilot, machine(reading(0), rest(1)))
        painted: list[Any] = []
        monkeypatch.setattr(view(pilot), "refresh", lambda *regions, **_: painted.extend(regions))
        view(pilot).show((machine(reading(0), rest(1)),), KNOWN)
        assert painted == []
        view(pilot).show((machine(reading(0, temperature=73.0), rest(1)),), KNOWN)
        (region,) = painted
        assert (region.y, region.height) == (1, 1)


async def test_the_whole_line_of_the_cursor_is_painted_when_it_comes_and_when_it_goes() -> None:
    async with ViewApp().run_test(size=(80, 24)) as pilot:
        await show(pilot, machine(reading(0), rest(1)))
        await pilot.press("j")
        strips = pilot.app.screen._compositor.render_strips()[:3]
        grounds = [{segment.style.bgcolor for segment in strip if segment.style} for strip in strips]
        assert grounds[0] == grounds[1] != grounds[2]
        assert len(grounds[1]) == len(grounds[2]) == 1


async def test_control_characters_and_markup_are_shown_as_text() -> None:
    evil = "\x1b[2J[bold]x\u202e"
    async with ViewApp().run_test(size=(200, 60)) as pilot:
        state = machine(
            reading(0),
            name="evil",
            processes=(process(user=evil, name=evil), process(2, run=evil)),
            devices=(device(0, evil),),
            notes=(Note(NOW, evil, 0),),
        )._replace(targets=(evil,), address=evil, problem=evil, remedy=evil)
        told = "\n".join(await show(pilot, state))
        assert "\x1b" not in told
        assert "\u202e" not in told
        assert "[bold]x" in told


def test_a_graph_says_how_high_and_how_long_it_is() -> None:
    (state,) = farm(1, 1)
    assert state.machine is not None
    assert state.sample is not None
    shown = Shown(state, state.machine.devices[0], state.sample.readings[0], ())
    rows = ["".join(piece.text for piece in line) for line in graph_lines(shown, 200, 2, with_span=True)]
    assert [row.count("100 %") for row in rows] == [2, 0, 0]
    assert [name in rows[1] for name in ("util", "mem", "power")] == [True] * 3
    assert "├ 2 min" in rows[2]
    assert len({len(row) for row in rows}) == 1
