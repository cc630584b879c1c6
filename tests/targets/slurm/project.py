"""A project with a target on a Slurm cluster, and the real command line in it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from tests.faults.support import WAITS, Workbench, until
from tests.machines import make_key
from tests.slurm_cluster import slurm_cluster
from tests.targets.conftest import end_links
from tests.targets.slurm_harness import PYTHON_THERE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.slurm_cluster import SlurmCluster


class SlurmProject(Workbench):
    """A project with the target `cluster`, and the command line in it."""

    def __init__(self, folder: Path, cluster: SlurmCluster) -> None:
        super().__init__(folder)
        self.cluster = cluster
        (folder / "aml_config").mkdir(parents=True)
        self.configure()

    def configure(self, compute: dict[str, Any] | None = None, **runconfig: Any) -> None:
        """Write the configuration files with these changes."""
        target = {
            "type": "slurm",
            "address": self.cluster.login.address,
            "username": "research",
            "pythonLocation": PYTHON_THERE,
            "runRoot": str(self.cluster.run_root),
            "slurm": {"partition": "gpu"},
            **(compute or {}),
        }
        configuration = {"Target": "cluster", "Framework": "Python", "TrackedRun": True, **runconfig}
        for name, values in (("cluster.compute", target), ("cluster.runconfig", configuration)):
            (self.folder / "aml_config" / name).write_text(json.dumps(values))

    def there(self, run_id: str = "") -> Path:
        """Return the run's directory on the cluster, or the folder of all runs."""
        return self.cluster.run_root / "runs" / run_id

    def until_status(self, run_id: str, *wanted: str) -> None:
        """Wait until the run has one of the states; a failure also shows what Slurm reports."""
        try:
            super().until_status(run_id, *wanted)
        except AssertionError as error:
            self.cluster.until_answers()
            for words in (["squeue", "--states=all"], ["scontrol", "show", "nodes"]):
                error.add_note(self.cluster.command("root", words).stdout)
            raise

    @property
    def gate(self) -> Path:
        """The scripts of `begin` wait until this file exists."""
        return self.cluster.run_root / "go"

    @property
    def job(self) -> str:
        """The ID of the user's only job."""
        return self.cluster.output(["squeue", "-h", "-u", "research", "-o", "%A"])

    @property
    def node(self) -> str:
        """The node of the user's only job."""
        return self.cluster.output(["squeue", "-h", "-u", "research", "-o", "%N"])

    def begin(self, then: str = "") -> str:
        """Start a script that waits for `gate` between two parts, and return the run's ID when it waits."""
        self.write(f"{WAITS}{then}")
        run_id = self.detach("train.py", str(self.gate), configuration="cluster")
        until(lambda: "began" in self.log(run_id))
        return run_id


@contextlib.contextmanager
def project_on_cluster(folder: Path) -> Iterator[tuple[SlurmProject, Path]]:
    """Run a cluster; yield a project on it, of a user with an empty HOME, and the folder of the links."""
    key = make_key(folder / "id_ed25519")
    ssh_folder, runtime = folder / "home" / ".ssh", folder / "run"
    ssh_folder.mkdir(parents=True, mode=0o700)
    runtime.mkdir(mode=0o700)
    for name in (key, key.with_suffix(".pub")):
        shutil.copy(name, ssh_folder)
    changes = {"HOME": str(folder / "home"), "XDG_RUNTIME_DIR": str(runtime)}
    with slurm_cluster(key) as cluster, mock.patch.dict(os.environ, changes):
        (ssh_folder / "known_hosts").write_text(cluster.login.known_hosts_line)
        try:
            yield SlurmProject(folder / "project", cluster), runtime
        finally:
            end_links(runtime)
