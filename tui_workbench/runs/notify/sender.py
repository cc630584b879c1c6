"""The process that sends notifications: `python -m tui_workbench.runs.notify.sender FOLDER`.

Each announced event starts this process. It ends at once if another process is sending, which then finds the event.
"""

from __future__ import annotations

import os
import sys

from tui_workbench.core import locks
from tui_workbench.runs.notify import pending


def main(folder: str) -> None:
    """Send the notifications about all pending events, unless another process is sending. Raises OSError."""
    # An event announced after the last look, but before the lock is released, has no other sender. So look again.
    while pending.names(folder):
        descriptor = locks.open_lock(os.path.join(folder, pending.LOCK))
        try:
            if not locks.try_lock(descriptor):
                return
            # The module takes long to load, and most of these processes do not need it.
            from tui_workbench.runs.notify.sending import send_pending

            send_pending(folder)
        finally:
            os.close(descriptor)


if __name__ == "__main__":
    main(*sys.argv[1:])
