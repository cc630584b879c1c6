"""The `sh` scripts for runs on machines over SSH. They are executed on the host, but not stored there.

They need only standard tools. A script that waits also reads its input, so that it ends when the connection is lost.
"""

from __future__ import annotations

from tui_workbench.core.shell_scripts import shell_script

FIND_PYTHON = shell_script("targets/hosts/scripts/find_python.sh")
START = shell_script("targets/hosts/scripts/start.sh")
LIVING = shell_script("targets/hosts/scripts/living.sh")
WAIT = shell_script("targets/hosts/scripts/wait.sh")
LEFT = shell_script("targets/hosts/scripts/left.sh")
WARN = shell_script("targets/hosts/scripts/warn.sh")
STOP = shell_script("targets/hosts/scripts/stop.sh")
FOLLOW_RUNS = shell_script("targets/hosts/scripts/follow_runs.sh")
