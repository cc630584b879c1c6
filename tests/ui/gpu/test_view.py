"""The list of GPUs at several sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from textual.app import App, ComposeResult

from tests.ui.gpu.states import NOW, device, farm, machine, process, reading, rest
from tests.ui.seen import lines_of
from tests.ui.test_formatting import make_run
from tests.ui.textual_internals import strips_of
from tui_workbench.core.model import RunState
from tui_workbench.targets.gpu.fleet import MachineState
from tui_workbench.targets.gpu.sample import Machine, Note
from tui_workbench.targets.reservations.watching import HeldGpu, Reserved
from tui_workbench.ui.gpu.gpu_lines import GpuState, KnownRuns, columns_for, graph_lines
from tui_workbench.ui.gpu.gpu_view import GpuView
from tui_workbench.ui.widgets.pieces import width_of

if TYPE_CHECKING:
    from textual.pilot import Pilot

SIZES = [(80, 24), (120, 36), (200, 60)]
RUN = make_run(RunState.RUNNING)._replace(run_id="p_7", run_number=7, script_name="train.py")
OTHER = RUN._replace(run_id="p_5", run_number=5, script_name="prepare.py")
KNOWN = KnownRuns({RUN.run_id: RUN, OTHER.run_id: OTHER}, RUN.run_id)


class ViewApp(App[None]):
    """An app with only the list."""

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


async def show(pilot: Pilot[None], *states: MachineState, known: KnownRuns = KNOWN) -> list[str]:
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


async def test_small_screen_has_one_aligned_line_per_gpu() -> None:
    async with ViewApp().run_test(size=(80, 24)) as pilot:
        drawn = await show(pilot, machine(reading(0), rest(1), processes=(process(run=RUN.run_id),)))
        assert len(drawn) == 3
        assert [line.index(" %") for line in drawn[1:]] == [drawn[1].index(" %")] * 2
        assert drawn[1].endswith("● train.py [7]")
        assert drawn[2].endswith("free")
        assert all(len(line) <= 79 for line in drawn)


async def test_large_screen_has_graphs_and_processes() -> None:
    async with ViewApp().run_test(size=(200, 60)) as pilot:
        drawn = await show(pilot, machine(reading(0), processes=(process(11, run=RUN.run_id), process(12))))
        text = "\n".join(drawn)
        assert "61/70 W" in text
        assert "1590 MHz" in text
        assert all(name in text for name in (" util ", " mem ", " power"))
        assert "█" in text
        (own,) = [line.split() for line in drawn if "train.py [7]" in line]
        assert own == ["●", "train.py", "[7]", "this", "run", "11", "python", "4.2", "GiB"]
        assert any(line.split()[:2] == ["◇", "alice"] for line in drawn)


@pytest.mark.parametrize(
    ("size", "machines", "gpus"), [((80, 24), 8, 8), ((120, 36), 8, 8), ((200, 60), 8, 8), ((200, 60), 2, 8)]
)
async def test_many_gpus_have_one_line_each(size: tuple[int, int], machines: int, gpus: int) -> None:
    async with ViewApp().run_test(size=size) as pilot:
        await show(pilot, *farm(machines, gpus))
        entries = view(pilot).entries
        assert len([entry for entry in entries if entry.gpu and entry.is_first]) == machines * gpus
        assert len(entries) == machines * (gpus + 1)


@pytest.mark.parametrize("width", [20, 40, 60, 66, 79, 80, 100, 121, 200, 400])
@pytest.mark.parametrize("is_head", [True, False])
def test_column_widths_are_never_negative(width: int, is_head: bool) -> None:
    devices = [device(0, "NVIDIA H200", memory=143771.0, power_limit=700.0), device(1)]
    columns = columns_for(width, devices, is_head=is_head)
    assert all(cells >= 0 for cells in columns)


@pytest.mark.parametrize("width", [40, 60, 66, 80, 100, 121, 160, 200, 300])
async def test_lines_fit_the_width(width: int) -> None:
    state = machine(
        reading(0, throttle=0x44, utilization=100.0, power=70.0, temperature=101.0),
        processes=(process(run="a_project_with_a_very_long_name_indeed_1763600000000"), process(99)),
        devices=(device(0, "NVIDIA H200 SXM5 141GB HBM3e special"),),
    )
    async with ViewApp().run_test(size=(width, 24)) as pilot:
        drawn = await show(pilot, state)
        assert "100 %" in drawn[1]
        assert ("101 °C" in drawn[1]) is (width > 40)
        for entry in view(pilot).entries:
            assert width_of(entry.draw()) <= width


async def test_owner_of_a_process_is_a_glyph_and_a_word() -> None:
    async with ViewApp().run_test(size=(120, 36)) as pilot:
        processes = (process(1, user="bob"), process(2, run=OTHER.run_id), process(3, run=RUN.run_id))
        drawn = await show(pilot, machine(reading(0), processes=processes))
        owners = [" ".join(line.split()[:5]) for line in drawn if "python" in line]
        assert owners == ["● train.py [7] this run", "○ prepare.py [5] your run", "◇ bob 1 python 4.2"]


@pytest.mark.parametrize("size", SIZES)
async def test_reservation_shows_the_user_and_the_end(size: tuple[int, int]) -> None:
    held = {"GPU-00000000": HeldGpu("bob\x1b[2J", "14:30"), "GPU-00000001": HeldGpu("me", "Fri 08:00", is_own=True)}
    async with ViewApp().run_test(size=size) as pilot:
        shown = "\n".join(await show(pilot, machine(rest(0), rest(1), reserved=Reserved(held, waiting=2))))
    assert "◇ " in shown
    assert "14:30" in shown
    assert ("Fri 08:00" if size[0] > 80 else "○ you Fri") in shown
    assert "2 waiting runs" in shown
    assert "free" not in shown
    assert "\x1b" not in shown


async def test_unreadable_reservations_are_reported() -> None:
    async with ViewApp().run_test(size=(120, 36)) as pilot:
        shown = "\n".join(
            await show(pilot, machine(rest(), reserved=Reserved(problem="you have no permission to use /srv/gpus")))
        )
    assert "▲ reservations are unknown: you have no permission to use /srv/gpus" in shown


async def test_run_of_another_project_is_shown_by_id() -> None:
    async with ViewApp().run_test(size=(120, 36)) as pilot:
        drawn = "\n".join(await show(pilot, machine(reading(0), processes=(process(run="other_1763600000000"),))))
        assert "○ other_1763600000000" in drawn


async def test_process_without_run_id_is_matched_by_pid() -> None:
    async with ViewApp().run_test(size=(120, 36)) as pilot:
        known = KNOWN._replace(held={("local", 4242): RUN.run_id})
        drawn = "\n".join(await show(pilot, machine(reading(0), processes=(process(4242, user="root"),)), known=known))
        assert "● train.py [7]" in drawn


async def test_stalled_run_is_marked() -> None:
    async with ViewApp().run_test(size=(120, 36)) as pilot:
        state = machine(reading(0), processes=(process(2, run=OTHER.run_id), process(3, run=RUN.run_id)))
        drawn = await show(pilot, state, known=KNOWN._replace(stalled=frozenset([OTHER.run_id])))
        owners = [" ".join(line.split()[:4]) for line in drawn if "python" in line]
        assert owners == ["● train.py [7] this", "■ prepare.py [5] stalled"]


async def test_owner_hidden_by_a_container_is_unknown() -> None:
    async with ViewApp().run_test(size=(120, 36)) as pilot:
        state = machine(reading(0), processes=(process(user="", name=""),))
        assert state.machine is not None
        drawn = "\n".join(await show(pilot, state._replace(machine=state.machine._replace(hides_processes=True))))
        assert "? hidden in this container" in drawn


@pytest.mark.parametrize("size", SIZES)
async def test_missing_value_is_a_dash(size: tuple[int, int]) -> None:
    blank = reading(0)._replace(
        utilization=None, memory=None, power=None, temperature=None, sm_clock=None, throttle=None, ecc=None
    )
    async with ViewApp().run_test(size=size) as pilot:
        drawn = await show(pilot, machine(blank, devices=(device(0, power_limit=None, memory=None),)))
        assert "— %" not in drawn[1]
        assert drawn[1].count("—") >= 4


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
async def test_worst_problem_is_shown_first(size: tuple[int, int]) -> None:
    async with ViewApp().run_test(size=size) as pilot:
        drawn = await show(
            pilot,
            machine(
                reading(0, throttle=0x4, ecc=2),
                reading(1, throttle=0x44),
                reading(2),
                devices=(device(0), device(1), device(2), device(3)),
                notes=(Note(NOW, "Xid 79 on GPU 2", 2),),
            ),
        )
        devices = [line for line in drawn if "Tesla T4" in line]
        assert "✗" in devices[0]
        assert "▲" in devices[1]
        assert "✗" in devices[2]
        assert "✗" in devices[3]
        if size[0] > 120:
            assert "✗ 2 ECC errors +1" in devices[0]
            assert "power cap" in devices[1]
            assert "Xid 79 on GPU 2" in devices[2]
            assert "stopped responding" in devices[3]


async def test_machine_without_gpus_shows_reason_and_key() -> None:
    async with ViewApp().run_test(size=(80, 24)) as pilot:
        none = MachineState("a", ("local",), machine=Machine(problem="no driver"), problem="no driver")
        drawn = await show(
            pilot, none, MachineState("b", ("box",), "me@box", problem="out of reach: it asks for a password")
        )
        assert drawn[1].strip() == "· no driver"
        assert drawn[4].strip() == "✗ out of reach: it asks for a password"
        assert drawn[5].strip().startswith("t diagnoses the machine")


async def test_new_machine_shows_that_it_is_being_queried() -> None:
    async with ViewApp().run_test(size=(80, 24)) as pilot:
        drawn = await show(pilot, MachineState("a", ("local",)))
        assert drawn[1].strip() == "◌ looking for GPUs..."


async def test_stale_values_are_marked() -> None:
    async with ViewApp().run_test(size=(80, 24)) as pilot:
        drawn = await show(pilot, machine(reading(0), silent=12.4))
        assert drawn[1].strip() == "▲ no answer for 12 s; values are stale"


async def test_empty_monitor_names_the_key_to_attach() -> None:
    async with ViewApp().run_test(size=(80, 24)) as pilot:
        assert "Press a in Compute targets to attach a machine" in "\n".join(await show(pilot))


@pytest.mark.slow
async def test_cursor_starts_at_the_first_gpu_and_visits_all_entries() -> None:
    async with ViewApp().run_test(size=(120, 36)) as pilot:
        await show(pilot, machine(reading(0), rest(1), processes=(process(11), process(12))))
        keys = [view(pilot).current]
        await pilot.press("g")
        for _ in range(9):
            keys.append(view(pilot).current)
            await pilot.press("j")
        drawn = [(entry.gpu.device.number if entry.gpu else None, entry.pid) for entry in keys if entry]
        assert drawn[0] == (0, 0)
        assert list(dict.fromkeys(drawn[1:])) == [(None, 0), (0, 0), (0, 11), (0, 12), (1, 0)]
        await pilot.press("k")
        assert view(pilot).current != keys[-1]


async def test_cursor_stays_on_its_gpu() -> None:
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


async def test_cursor_is_always_visible() -> None:
    async with ViewApp().run_test(size=(80, 24)) as pilot:
        await show(pilot, *farm(8, 8))
        await pilot.press("G")
        assert "Tesla T4" in lines(pilot)[-1]
        await pilot.press("g")
        assert "box0" in lines(pilot)[0]
        await pilot.press("pagedown", "pagedown")
        current = view(pilot).current
        assert current is not None
        assert current.gpu is not None


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
async def test_filter_matches_machines_names_runs_and_load(text: str, found: list[str]) -> None:
    async with ViewApp().run_test(size=(80, 24)) as pilot:
        await show(
            pilot,
            machine(reading(0), name="box0", processes=(process(run=RUN.run_id),)),
            machine(rest(0), rest(1), name="box1"),
        )
        view(pilot).filter(text)
        await pilot.pause()
        shown = [entry.state.key for entry in view(pilot).entries if entry.gpu and entry.is_first]
        assert shown == found
        if not found:
            assert "No machine matches the filter." in "\n".join(lines(pilot))
            assert "busy, idle and free." in "\n".join(lines(pilot))


async def test_only_changed_lines_are_painted(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ViewApp().run_test(size=(80, 24)) as pilot:
        await show(pilot, machine(reading(0), rest(1)))
        painted: list[Any] = []
        monkeypatch.setattr(view(pilot), "refresh", lambda *regions, **_: painted.extend(regions))
        view(pilot).show((machine(reading(0), rest(1)),), KNOWN)
        assert painted == []
        view(pilot).show((machine(reading(0, temperature=73.0), rest(1)),), KNOWN)
        (region,) = painted
        assert (region.y, region.height) == (1, 1)


async def test_moving_the_cursor_repaints_whole_lines() -> None:
    async with ViewApp().run_test(size=(80, 24)) as pilot:
        await show(pilot, machine(reading(0), rest(1)))
        await pilot.press("j")
        strips = strips_of(pilot.app.screen)[:3]
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
        drawn = "\n".join(await show(pilot, state))
        assert "\x1b" not in drawn
        assert "\u202e" not in drawn
        assert "[bold]x" in drawn


def test_graph_shows_its_scale_and_time_span() -> None:
    (state,) = farm(1, 1)
    assert state.machine is not None
    assert state.sample is not None
    shown = GpuState(state, state.machine.devices[0], state.sample.readings[0], ())
    rows = ["".join(piece.text for piece in line) for line in graph_lines(shown, 200, 2, with_span=True)]
    assert [row.count("100 %") for row in rows] == [2, 0, 0]
    assert [name in rows[1] for name in ("util", "mem", "power")] == [True] * 3
    assert "├ 2 min" in rows[2]
    assert len({len(row) for row in rows}) == 1
