"""Copy the rest of the files of a run that has ended."""

from __future__ import annotations

from tui_workbench.config.schema.slurm_options import requested_gpus
from tui_workbench.core.model import RunSpec
from tui_workbench.targets.hosts.copying import append, fetch, missing_parts
from tui_workbench.targets.hosts.mirror import LiveFiles
from tui_workbench.targets.slurm.cluster import LoginHost
from tui_workbench.targets.slurm.listing import Files, list_once


def drain(host: LoginHost, spec: RunSpec) -> Files:
    """Copy the rest of the files of a run that has ended, and return their listing.

    Raises TargetUnreachable or StorageError.
    """
    files = list_once(host, [spec.run_id]).get(spec.run_id, Files())
    while parts := missing_parts(spec.run_id, spec.run_directory, files.sizes):
        found = fetch(host, parts)
        if not found:
            break  # the script has replaced the files
        for part, data in found.items():
            append(part, data)
    if requested_gpus(spec.slurm) != 0:
        LiveFiles(host, f"{host.home()}/runs/{spec.run_id}", spec.run_directory).fetch_all()
    return files
