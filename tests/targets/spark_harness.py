"""The conformance harness of targets of type cluster: drivers of Spark on a head node, over SSH.

Stand-ins of Spark and YARN are used (see `yarn_stand_ins`): in client mode, their `spark-submit` becomes the script.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.targets.remote_fixtures import RemoteHarness
from tests.targets.yarn_stand_ins import stand_in_yarn

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.machines import Machine
    from tests.targets.harness import Harness, Script
    from tui_workbench.core.model import ComputeTarget, RunSpec
    from tui_workbench.targets.ssh.ssh_host import SshHost


class SparkHarness(RemoteHarness):
    """Scripts that the head node starts with spark-submit."""

    unusual_path = "/only/here:/usr/local/bin:/usr/bin:/bin"  # spark-submit is found by the PATH of the run

    def compute_target(self) -> ComputeTarget:
        path = str(self.folder / "project" / "aml_config" / "cluster.compute")
        return super().compute_target()._replace(name="cluster", path=path, type="cluster")

    def spec(
        self, script: Script, arguments: tuple[str, ...] = (), variables: Mapping[str, str] | None = None
    ) -> RunSpec:
        spec = super().spec(script, arguments, variables)
        # spark-submit takes a file for Python only if its name ends in .py.
        path = Path(spec.working_directory, spec.script)
        path.rename(path.with_suffix(".py"))
        configuration = spec.run_configuration._replace(framework="PySpark")
        return spec._replace(script=f"{spec.script}.py", run_configuration=configuration)


@pytest.fixture
def cluster_harness(tmp_path: Path, gpubox: Machine, host: SshHost) -> Iterator[Harness]:
    folder = Path(tempfile.mkdtemp(prefix="wb-spark-"))
    folder.chmod(0o755)
    with stand_in_yarn(gpubox, folder):
        yield SparkHarness(tmp_path, gpubox, host)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(gpubox.home() / ".workbench-tui", ignore_errors=True)
