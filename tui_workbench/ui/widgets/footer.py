"""The last line of a screen: the keys that work now, with help and commands at the right."""

from __future__ import annotations

from collections.abc import Sequence

from textual.reactive import reactive
from textual.screen import Screen

from tui_workbench.ui.commands.command import key_label
from tui_workbench.ui.terminal.safetext import safe_text, truncate_middle
from tui_workbench.ui.terminal.terminal_app import TerminalApp
from tui_workbench.ui.widgets.line import Line
from tui_workbench.ui.widgets.pieces import Piece, width_of

_AT_RIGHT = ("run.start", "help.show", "palette.open", "history.help", "history.palette")
_LEAVE = "history.leave"
GAP = 2
"""Cells between the keys at the left and those at the right, and after the latter."""


class KeyFooter(Line):
    """A line with the keys that work now, nearest to the focus first, or the reason why the last key had no effect.

    Keys without room are omitted, but not the key that leaves a full screen, which is the last.
    """

    reason: reactive[str] = reactive("")
    """The reason why the command of the last key is unavailable, or ""."""

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._bindings_changed)
        if isinstance(self.app, TerminalApp):
            self.app.refused.subscribe(self, self._refused)

    def on_unmount(self) -> None:
        if isinstance(self.app, TerminalApp):
            self.app.refused.unsubscribe(self)  # else the app would keep this widget, and with it the whole screen

    def _refused(self, reason: str) -> None:
        self.reason = reason if self.app.screen is self.screen else ""

    def _bindings_changed(self, screen: Screen[object]) -> None:
        if screen is self.screen:
            self.refresh()

    def pieces(self, width: int) -> tuple[Sequence[Piece], Sequence[Piece]]:
        if self.reason:
            return [Piece(f" {truncate_middle(safe_text(self.reason), width - 2)}", "warning")], ()
        shown: dict[str, list[Piece]] = {}
        kept: dict[str, list[Piece]] = {}
        for _node, binding, enabled, _tooltip in self.screen.active_bindings.values():
            if not (enabled and binding.show and binding.description):
                continue
            name = binding.id or binding.action
            group = kept if name in _AT_RIGHT else shown
            group.setdefault(name, self._key(binding.key, binding.description, binding.key_display))
        right = [piece for name in _AT_RIGHT if name in kept for piece in kept[name]]
        back = shown.pop(_LEAVE, [])
        room = width - width_of(right) - width_of(back) - GAP
        left: list[Piece] = []
        for pieces in shown.values():
            if width_of(left) + width_of(pieces) > room:
                break
            left.extend(pieces)
        return [*left, *back], [*right, Piece(" ")]

    def _key(self, key: str, name: str, display: str | None) -> list[Piece]:
        def press() -> None:
            self.app.simulate_key(key)

        label = display or key_label(key)
        return [Piece(f" {label} ", "accent", bold=True, action=press), Piece(f"{name} ", "muted", action=press)]
