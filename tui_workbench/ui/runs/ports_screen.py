"""The open ports of runs: TensorBoard, Jupyter and forwarded ports. Keys open ports for the selected run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from urllib.parse import urlsplit

from tui_workbench.core.errors import UsageError, WorkbenchError
from tui_workbench.core.model import Run
from tui_workbench.core.plaintext import counted
from tui_workbench.projects.project import Project
from tui_workbench.runs.notebooks import notebook_owner
from tui_workbench.runs.ports import (
    PORT,
    Destination,
    OpenPort,
    PortOwner,
    PortRecord,
    close_ports,
    open_ports,
    parse_destination,
    run_owner,
)
from tui_workbench.runs.store.rundir import RunDirectory
from tui_workbench.targets.hosts.serving import JUPYTER
from tui_workbench.ui.blocking import CallQueue, OneAtATime, call_at_exit, in_thread
from tui_workbench.ui.commands.command import shown_key
from tui_workbench.ui.commands.screen_commands import HISTORY, PORTS
from tui_workbench.ui.formatting import run_title
from tui_workbench.ui.full_screen import HistoryScreen
from tui_workbench.ui.terminal.clipboard import copy
from tui_workbench.ui.terminal.safetext import safe_text
from tui_workbench.ui.widgets.field_row import PromptRow
from tui_workbench.ui.widgets.pieces import Piece, Row
from tui_workbench.ui.widgets.row_list import RowList

POLL_SECONDS = 1.0

NO_PORTS = (
    "No open ports.",
    f"{shown_key('ports.tensorboard', 't')} starts TensorBoard for the selected run, "
    f"{shown_key('ports.jupyter', 'n')} starts Jupyter, and {shown_key('ports.port', 'p')} forwards a port. "
    f"{shown_key('ports.notebook', 'N')} starts Jupyter on the project.",
)


class PortsScreen(HistoryScreen, inherit_bindings=False):
    """The screen of the open ports. Ports that it opens are closed when the workbench ends."""

    BINDINGS = PORTS.bindings + HISTORY.bindings
    DECLARED_COMMANDS = (*PORTS, *HISTORY)
    AUTO_FOCUS = "RowList"
    heading = "Ports"
    about = "TensorBoard, Jupyter and forwarded ports of runs. Ports opened here are closed when you quit."
    DEFAULT_CSS = "PortsScreen > RowList { height: 1fr; }"

    def __init__(
        self, project: Project, run: Run | None = None, configuration: str = "", *, opens_notebook: bool = False
    ) -> None:
        """Ports are opened for `run`. Jupyter on the project uses the run configuration, by default the target `local`.

        If `opens_notebook`, this Jupyter is started now.
        """
        super().__init__(project)
        self._run = run
        self._configuration = configuration
        self._opens_notebook = opens_notebook
        self._records: Sequence[PortRecord] = ()
        self._openings, self._closings = CallQueue(self), CallQueue(self)
        self._polling = OneAtATime(self, self._poll)
        self.ports = RowList()
        self.prompt = PromptRow()
        self.content = (self.ports, self.prompt)

    @property
    def subject(self) -> str:
        return f"for {run_title(self._run)}" if self._run is not None else "of all projects"

    def on_mount(self) -> None:
        self._polling.start()
        if self._opens_notebook:
            self.action_notebook()
        self.set_interval(POLL_SECONDS, lambda: self._polling.start() if self.is_current else None)

    async def _poll(self) -> None:
        try:
            self._records = await in_thread(open_ports)
        except WorkbenchError as error:
            self.show_error(error)
            return
        self.head.show(self.subject, right=(Piece(counted(len(self._records), "open port"), "muted"),))
        self.ports.show_rows([_row(record) for record in self._records], empty=NO_PORTS)
        self.refresh_bindings()

    @property
    def _current(self) -> PortRecord | None:
        return next((record for record in self._records if record.url == self.ports.current), None)

    def action_open(self, kind: str) -> None:
        self._open(kind, None)

    def action_open_port(self) -> None:
        self.say("")
        self.prompt.ask("Port of the run, or HOST:PORT", "", self._port_given)

    def _port_given(self, text: str) -> None:
        try:
            self._open(PORT, parse_destination(text.strip()))
        except UsageError as error:
            self.show_error(error)

    def _open(self, kind: str, destination: Destination | None) -> None:
        if self._run is not None:
            self._start(partial(run_owner, RunDirectory(self._run.directory)), kind, destination)

    def action_notebook(self) -> None:
        self._start(partial(notebook_owner, self.project, self._configuration), JUPYTER, None)

    def _start(self, owner: Callable[[], PortOwner], kind: str, destination: Destination | None) -> None:
        self.say(f"Opening {kind}...")
        self._openings.add(partial(_open_and_keep, owner, kind, destination), self._port_opened)

    def _port_opened(self, opened: OpenPort) -> None:
        record, taken = opened.record, ""
        if record.port != opened.preferred_port:
            taken = f" Port {opened.preferred_port} of this machine is in use."
        self.say(f"{record.kind}: {record.url}{taken}")
        self._polling.start()

    def action_copy(self) -> None:
        record = self._current
        if record is not None and copy(self.app, record.url):
            self.say(f"Copied {record.url}")

    def action_close(self) -> None:
        if (record := self._current) is not None:
            self.say(f"Closing port {record.port}...")
            self._closings.add(lambda: list(close_ports(record.url)), self._port_closed)

    def _port_closed(self, closed: Sequence[PortRecord]) -> None:
        self.say(f"Closed {closed[0].title}.")
        self._polling.start()

    def why_not(self, action: str) -> str:
        if action in ("open", "open_port") and self._run is None:
            return "No run selected."
        if action in ("copy", "close") and self._current is None:
            return "No port selected."
        return super().why_not(action)


def _open_and_keep(owner: Callable[[], PortOwner], kind: str, destination: Destination | None) -> OpenPort:
    """Open a port, and show TensorBoard or Jupyter in the browser.

    If the port can be closed, a thread keeps it open until the workbench ends.
    """
    opened = OpenPort(owner(), kind, destination)

    def keep() -> None:
        opened.wait()
        opened.close()

    if opened.stays_open:
        call_at_exit(opened.forget)
        threading.Thread(target=keep, daemon=True).start()
    else:
        opened.close()
    if kind != PORT:
        opened.show_in_browser()
    return opened


def _row(record: PortRecord) -> Row:
    address = urlsplit(record.url).netloc
    origin = f"  {record.run_title}  {record.machine.partition(' (')[0]}"  # without the login
    kind = Piece(f"{record.kind:<12}", "function")
    return Row(record.url, Piece(safe_text(address), "string"), (kind,), (Piece(safe_text(origin), "muted"),))
