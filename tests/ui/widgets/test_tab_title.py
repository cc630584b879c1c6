from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tui_workbench.ui.themes.themes import load_theme
from tui_workbench.ui.widgets.tab_title import Label, short_names, tab_title

PALETTE = load_theme("slate").palette

LABELS = st.lists(
    st.builds(Label, st.text(min_size=1, max_size=40), st.sampled_from(["", "●", "✗"])), min_size=1, max_size=12
)


@given(LABELS, st.integers(0, 11), st.integers(20, 120))
def test_title_fits_and_shows_the_active_tab(labels: list[Label], active: int, width: int) -> None:
    active %= len(labels)
    title = tab_title(3, labels, active, width, PALETTE)
    assert title.content.cell_length <= width
    shown = [index for _, _, index in title.spans]
    assert active in shown
    assert shown == list(range(shown[0], shown[-1] + 1))
    for start, end, index in title.spans:
        assert {title.tab_at(column) for column in range(start, end)} == {index}


def test_title_lists_the_tabs() -> None:
    title = tab_title(3, [Label("train.py", "●"), Label("local.compute")], 1, 60, PALETTE)
    assert title.content.plain == "3 train.py ●  local.compute"
    assert title.tab_at(0) is None
    assert title.tab_at(2) == 0
    assert title.tab_at(20) == 1


def test_hidden_tabs_are_counted() -> None:
    labels = [Label(f"module_{number}.py") for number in range(9)]
    assert tab_title(3, labels, 4, 40, PALETTE).content.plain == "3 ‹4 module_4.py  module_5.py 3›"


def test_equal_names_get_their_folders() -> None:
    assert short_names(["/p/a/x.py", "/p/b/x.py", "/p/y.py"]) == ["a/x.py", "b/x.py", "y.py"]
    assert short_names(["/p/a/c/x.py", "/p/b/c/x.py"]) == ["a/c/x.py", "b/c/x.py"]
    assert short_names(["/x.py"]) == ["x.py"]
