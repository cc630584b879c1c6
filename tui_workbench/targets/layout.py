"""Where our things lie on a host, below one folder of the user's there; nothing of ours is ever anywhere else.

```
<home>/projects/<name>-<key>/tree   the project as it was sent last; `key` tells this machine's project from others
<home>/runs/<run id>/               a run's directory, as the host knows it
<home>/sdk/<version>/               what scripts may import to log to the workbench
<home>/supplies/                    what environments are built with; can be removed at any time
```
"""

from __future__ import annotations

import hashlib
import os
import posixpath

from tui_workbench.records import NamedTuple

_MACHINE_ID = "/etc/machine-id"


class HostLayout(NamedTuple):
    """The paths on one host; `home` is the user's folder of ours there."""

    home: str

    def run(self, run_id: str) -> str:
        """The run's directory."""
        return posixpath.join(self.home, "runs", run_id)

    @property
    def runs(self) -> str:
        """The folder of all runs."""
        return posixpath.join(self.home, "runs")

    def project_tree(self, project_root: str, project_name: str) -> str:
        """Where the project at `project_root` of this machine is kept as it was sent last."""
        return posixpath.join(self.home, "projects", f"{_slug(project_name)}-{project_key(project_root)}", "tree")

    def sdk(self, version: str) -> str:
        """What scripts may import, in this version."""
        return posixpath.join(self.home, "sdk", version)

    @property
    def supplies(self) -> str:
        """What environments are built with, each thing in a folder that is named by its content."""
        return posixpath.join(self.home, "supplies")


def project_key(project_root: str) -> str:
    """Tells a project folder of this machine from every other folder of every machine."""
    try:
        with open(_MACHINE_ID, "rb") as file:
            machine = file.read().strip()
    except OSError:
        machine = os.uname().nodename.encode()
    return hashlib.sha256(machine + b"\0" + os.fsencode(project_root)).hexdigest()[:12]


def _slug(name: str) -> str:
    return "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "-" for c in name).strip("-.") or "project"
