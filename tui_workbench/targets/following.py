"""Waiting for the end of a container while its output arrives and while somebody may want it to end.

Three things are waited for at once, each by a descriptor: the engine's word that the container has ended (a call that
blocks, so it has a thread), bytes of the log, and the wish to cancel.
"""

from __future__ import annotations

import contextlib
import os
import threading

from tui_workbench.records import TYPE_CHECKING
from tui_workbench.targets.host import wait_ready
from tui_workbench.targets.protocol import Interrupted

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui_workbench.targets.live import LiveFiles
    from tui_workbench.targets.mirror import Mirror


class Background:
    """A call in a thread; `descriptor` becomes readable when it has returned or raised."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call
        self._error: BaseException | None = None
        self.descriptor, self._writing = os.pipe2(os.O_CLOEXEC)
        # A daemon: a call that never returns must not keep the process from its end.
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __enter__(self) -> Background:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.descriptor)

    def result(self) -> None:
        """Wait for the call's end; raises what it raised."""
        self._thread.join()
        if self._error is not None:
            raise self._error

    def wait(self, interrupted: int = -1, timeout: float | None = None) -> bool:
        """Wait for the call's end: True when it has returned, False when the time was over before.

        Raises what it raised, and Interrupted when `interrupted` becomes readable first.
        """
        watched = [self.descriptor] if interrupted < 0 else [self.descriptor, interrupted]
        ready = wait_ready(watched, timeout=timeout)
        if self.descriptor in ready:
            self.result()
            return True
        if ready:
            raise Interrupted
        return False

    def _run(self) -> None:
        try:
            self._call()
        except BaseException as error:  # handed over to the one who waits
            self._error = error
        finally:
            with contextlib.suppress(OSError):
                os.close(self._writing)


def follow(ended: Background, mirror: Mirror | None, interrupted: int, live: LiveFiles | None = None) -> None:
    """Wait until `ended` has returned, with the log's bytes taken as they come; all of them are here then.

    What `live` brings comes every few seconds.

    Raises Interrupted, or TargetUnreachable when the link breaks; then follow again, the mirror knows where it was.
    """
    if mirror is None:
        ended.wait(interrupted)
        return
    log = mirror.open()
    watched = [descriptor for descriptor in (ended.descriptor, log, interrupted) if descriptor >= 0]
    while True:
        ready = wait_ready(watched, timeout=None if live is None else live.timeout)
        if live is not None:
            live.look()
        if log in ready:
            if not mirror.pump():
                mirror.end()
            if live is not None:
                live.hasten()
        if ended.descriptor in ready:
            ended.result()
            mirror.drain()
            return
        if interrupted in ready:
            raise Interrupted
