"""Log in with `ssh` and with the workbench, with the same SSH configuration.

Run as a program in a mount namespace in which /etc/passwd names the home folder of the test: `ssh` ignores $HOME.
It reads jobs as JSON from stdin, and prints the results as JSON.
"""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tui_workbench.core.errors import TargetUnreachable
from tui_workbench.targets.ssh.ssh_connection import connect
from tui_workbench.targets.ssh.ssh_secrets import Secrets
from tui_workbench.targets.ssh.ssh_wire import Login

FAILED = "failed"
_SECONDS = 60.0
_OPTIONS = (
    "BatchMode=yes", "StrictHostKeyChecking=yes", "UpdateHostKeys=no", "ControlMaster=no", "ControlPath=none",
    "RemoteCommand=none", "RequestTTY=no", "ClearAllForwardings=yes", "PermitLocalCommand=no",
)  # fmt: skip


def ssh_says(host: str) -> tuple[str, str]:
    """Return the name of the machine on which `ssh` logs in, and what it prints on stderr."""
    words = [word for option in _OPTIONS for word in ("-o", option)]
    done = subprocess.run(
        ["ssh", *words, "--", host, "hostname"], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else FAILED, done.stderr.strip()


async def _log_in(host: str) -> str:
    async with await connect(Login("t", host), Secrets(), lambda _error: None) as connection:
        done = await connection.run("hostname")
    return bytes(done.stdout or b"").decode().strip()  # type: ignore[arg-type]


def workbench_says(host: str) -> tuple[str, str]:
    """Return the name of the machine on which the workbench logs in, and the error."""
    try:
        return asyncio.run(asyncio.wait_for(_log_in(host), _SECONDS)), ""
    except (TargetUnreachable, TimeoutError) as error:
        return FAILED, str(error)


def main() -> None:
    """Run the jobs `[[name, host, configuration in base64], ...]`."""
    home = Path.home()
    results: dict[str, Any] = {}
    for name, host, configuration in json.load(sys.stdin):
        (home / ".ssh/config").write_bytes(base64.b64decode(configuration))
        results[name] = {"ssh": ssh_says(host), "workbench": workbench_says(host)}
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()
