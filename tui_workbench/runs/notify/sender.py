"""The process that sends notifications to a channel: `python -m tui_workbench.runs.notify.sender CHANNEL`.

Each announced event starts this process. It ends at once if another process is sending, which then finds the event. If
the process is killed, the next process of the channel continues.
"""

from __future__ import annotations

import os
import sys

from tui_workbench.core import locks
from tui_workbench.runs.notify import pending


def main(channel: str) -> None:
    """Send the notifications about the pending events of a channel, unless another process is sending.

    Raises OSError, and WorkbenchError if the file of the channels cannot be used; the events then stay.
    """
    # An event announced after the last look, but before the lock is released, has no other sender. So look again.
    while pending.names(channel):
        descriptor = locks.open_lock(os.path.join(pending.folder_of(channel), pending.LOCK))
        try:
            if not locks.try_lock(descriptor):
                return
            # The module takes long to load, and most of these processes do not need it.
            from tui_workbench.runs.notify.sending import send_pending

            send_pending(channel)
        finally:
            os.close(descriptor)


if __name__ == "__main__":
    main(*sys.argv[1:])
