"""The folder where tests find the file system of processes.

The tests with the features of Linux removed (`tests/portable`) run with an empty /proc, and mount it elsewhere.
"""

from __future__ import annotations

import os
from pathlib import Path

PROC = Path(os.environ.get("WORKBENCH_TEST_PROC", "/proc"))
